"""A new Provider from the template: small, complete, and valid at once (protocol: `init`)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..data import data_folder
from ..errors import BundlerError
from ..protocol.emit import text
from ..protocol.identifiers import is_id
from ..protocol.schemas import SHAPES

_TEMPLATE_ID = re.compile(r"^id: .*$", re.MULTILINE)
MANIFEST = "provider.yaml"


def scaffold(folder: str | os.PathLike[str], provider_id: str) -> Path:
    """Write the template's files into the folder, which may exist; the manifest's absolute path.

    Raises `id-invalid`, `provider-target-exists` where a file would be replaced, and `output-write-failed`.
    After an error nothing was added.
    """
    if not is_id(provider_id):
        raise BundlerError("id-invalid", f"{provider_id!r} is no id of a Provider; expected {SHAPES['id']}")
    root = Path(os.path.abspath(os.fspath(folder)))
    made: list[Path] = []
    try:
        _make_folder(root, made)
        for source, name in _template():
            content = source.read_bytes()
            if name == MANIFEST:
                content = _TEMPLATE_ID.sub(f"id: {text(provider_id)}", content.decode(), count=1).encode()
            _write(root / name, content, bool(source.stat().st_mode & 0o100), made)
    except BaseException as error:
        for path in reversed(made):
            with suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()
        if isinstance(error, FileExistsError | NotADirectoryError):
            message = f"{error.filename} exists, and a new Provider would have a file or folder there"
            raise BundlerError("provider-target-exists", message, path=str(error.filename)) from None
        if isinstance(error, OSError):
            message = f"{error.filename} can't be written: {os.strerror(error.errno or 0)}"
            raise BundlerError("output-write-failed", message, path=str(error.filename)) from None
        raise
    return root / MANIFEST


def _template() -> Iterator[tuple[Path, str]]:
    """The template's files and their names in the Provider, sorted."""
    root = data_folder("templates") / "provider"
    for source in sorted(root.rglob("*")):
        if source.is_file() and "__pycache__" not in source.parts:
            yield source, source.relative_to(root).as_posix()


def _make_folder(folder: Path, made: list[Path]) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent, made)
        folder.mkdir()
        made.append(folder)


def _write(path: Path, content: bytes, executable: bool, made: list[Path]) -> None:
    _make_folder(path.parent, made)
    with path.open("xb") as file:
        made.append(path)
        file.write(content)
    if executable:
        path.chmod(0o755)
