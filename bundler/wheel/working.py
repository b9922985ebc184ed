"""Folders in which archives are written before they have their names, and what is done with a finished one."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..bundle.swap import lock_folder, missing_folders, write_failed
from ..errors import BundlerError

_WORK = re.compile(r"\.agent-bundler-[0-9a-f]{16}\.wheel")


@contextmanager
def working_folder(output: str) -> Iterator[Path]:
    """A folder in `output`, which is made where it is missing, that is gone after the block.

    It belongs to a living process as long as that holds its lock; what killed ones left in `output` is cleared.
    """
    if os.path.lexists(output) and not os.path.isdir(output):
        raise BundlerError(
            "output-write-failed",
            f"{output} is no folder; a folder for what is built is expected",
            path=output,
            hint="name a folder, which need not exist yet",
        )
    made = missing_folders(output)
    try:
        os.makedirs(output, exist_ok=True)
        _clear_leftovers(output)
        work = os.path.join(output, f".agent-bundler-{os.urandom(8).hex()}.wheel")
        os.mkdir(work, 0o700)
        lock = lock_folder(work)
    except OSError as error:
        _remove_empty(made)
        raise write_failed(output, error) from None
    try:
        yield Path(work)
    except OSError as error:
        raise write_failed(str(error.filename or output), error) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)
        _remove_empty(made)
        if lock is not None:
            os.close(lock)


def _clear_leftovers(output: str) -> None:
    for name in os.listdir(output):
        if _WORK.fullmatch(name):
            left = os.path.join(output, name)
            lock = lock_folder(left)
            if lock is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(lock)


def _remove_empty(folders: list[str]) -> None:
    with suppress(OSError):  # something is in one of them, and so in those above it
        for folder in folders:
            os.rmdir(folder)


def finish(path: str | os.PathLike[str]) -> tuple[str, int]:
    """Readable for all, on disk; its digest and size."""
    from hashlib import file_digest

    with open(path, "rb") as file:
        os.fchmod(file.fileno(), 0o644)
        os.fsync(file.fileno())
        return file_digest(file, "sha256").hexdigest(), os.fstat(file.fileno()).st_size
