"""What releasing needs beside this package: the extra `publish`, which hosts do without."""

from __future__ import annotations

from importlib.util import find_spec

from ..errors import BundlerError

_MODULES = ("kingfisher_sdk", "pip", "requests", "twine", "urllib3")


def check_extra() -> None:
    """Raises `publish-extra-missing` unless everything of the extra is installed."""
    missing = [name for name in _MODULES if not _is_there(name)]
    if missing:
        raise BundlerError("publish-extra-missing", f"{', '.join(missing)} can't be imported, which releasing needs")


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ImportError:
        return False
