"""Where the files that belong to this package lie: `schemas` and `templates`.

In an installed wheel they are inside the package, in a checkout (and so in an editable install) beside it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from .errors import BundlerError

if TYPE_CHECKING:
    from pathlib import Path

_PACKAGE = os.path.dirname(os.path.realpath(__file__))


def data_folder(name: Literal["schemas", "templates"]) -> Path:
    """The folder of that name. Raises `installation-incomplete` if it is in neither place."""
    from pathlib import Path

    for parent in (_PACKAGE, os.path.dirname(_PACKAGE)):
        folder = Path(parent, name)
        if folder.is_dir():
            return folder
    raise BundlerError("installation-incomplete", f"the folder `{name}` is missing in {_PACKAGE}")


def copy_out(source: Path, output: str) -> str:
    """Copy one of our files to a new file; its absolute path.

    Raises `schema-target-exists` (nothing is overwritten) and `output-write-failed`.
    """
    target = os.path.abspath(output)
    try:
        with open(target, "xb") as file:
            file.write(source.read_bytes())
    except FileExistsError:
        raise BundlerError("schema-target-exists", f"{target} exists", path=target) from None
    except OSError as error:
        message = f"{target} can't be written: {os.strerror(error.errno or 0)}"
        raise BundlerError("output-write-failed", message, path=target) from None
    return target
