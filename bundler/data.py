"""Where the files that belong to this package lie: `schemas` and `templates`.

In an installed wheel they are inside the package, in a checkout (and so in an editable install) beside it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from .errors import BundlerError

_PACKAGE = Path(__file__).resolve().parent


def data_folder(name: Literal["schemas", "templates"]) -> Path:
    """The folder of that name. Raises `installation-incomplete` if it is in neither place."""
    for parent in (_PACKAGE, _PACKAGE.parent):
        folder = parent / name
        if folder.is_dir():
            return folder
    raise BundlerError("installation-incomplete", f"the folder `{name}` is missing in {_PACKAGE}")
