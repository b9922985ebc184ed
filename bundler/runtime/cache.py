"""The folder that keeps what materializers made: files named by their content, each there whole or not at all."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from ..bundle.disk import sync
from ..bundle.swap import write_failed
from ..errors import BundlerError
from ..trust.folders import check_outside, open_own, own_folder

# Endings of the files in a cache, for people and for tools that go by them; other media types get none.
_ENDINGS = {
    "application/json": ".json",
    "application/xml": ".xml",
    "application/yaml": ".yaml",
    "text/css": ".css",
    "text/csv": ".csv",
    "text/html": ".html",
    "text/markdown": ".md",
    "text/plain": ".txt",
    "text/xml": ".xml",
    "text/yaml": ".yaml",
}


def open_cache(folder: str | os.PathLike[str], root: str) -> str:
    """The cache folder's real path, made where it is missing; the Provider's folder is `root`.

    Raises `folder-unsafe` for one that others could write to, or that lies in a Provider, `output-write-failed`, and
    `materializer-option-invalid` for an empty name.
    """
    if not os.fspath(folder):
        raise BundlerError("materializer-option-invalid", "the name of the cache folder is empty")
    place = os.path.realpath(os.fspath(folder))
    check_outside(place, root, _unsafe)
    place = own_folder(place, _unsafe)
    if not os.access(place, os.W_OK | os.X_OK):
        raise write_failed(place, OSError(errno.EACCES, ""))
    return place


def keep(folder: str, digest: str, media_type: str, data: bytes) -> str:
    """The path of the file that holds the data, whose digest it is named by; one that is there and right stays.

    Raises `output-write-failed`; then nothing has changed.
    """
    name = digest.partition(":")[2] + _ending(media_type)
    path = os.path.join(folder, name)
    if _holds(path, data):
        return path
    staged = os.path.join(folder, f".{name}.{os.urandom(8).hex()}.new")
    try:
        try:
            with open(staged, "xb", opener=_private) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(staged, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(staged)
            raise
        sync(folder)
    except OSError as error:
        raise write_failed(path, error) from None
    return path


def _holds(path: str, data: bytes) -> bool:
    """Whether a regular file that only this user can have written holds exactly the data."""
    try:
        descriptor = open_own(path)
        if descriptor is None:
            return False
        with open(descriptor, "rb") as file:
            return os.fstat(descriptor).st_size == len(data) and file.read(len(data) + 1) == data
    except OSError:
        return False


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _unsafe(folder: str, why: str) -> BundlerError:
    return BundlerError("folder-unsafe", f"the cache folder {folder} {why}", path=folder)


def _ending(media_type: str) -> str:
    """The ending of a file's name by media type, parameters left out."""
    essence = media_type.partition(";")[0].strip().lower()
    suffix = essence.rpartition("+")[2] if "+" in essence else ""
    return _ENDINGS.get(essence) or _ENDINGS.get(f"application/{suffix}", "")
