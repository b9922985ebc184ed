"""Steps on the file system: reading with bounds, writing beside the place, flushing, putting in place.

What is written is on disk before it gets its name, and so is its name before the next step.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple

from ...bundle import disk
from ...errors import BundlerError
from ...tree.base import CHUNK
from ...tree.opening import kind_of
from .layout import invalid

# Without waiting: a FIFO would wait for its other end. Windows has none of these.
_READ = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"))
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class Stored(NamedTuple):
    """The content of a file: its SHA-256 in hexadecimal, its size in bytes."""

    sha256: str
    size: int


def read(root: str, path: str, limit: int) -> bytes | None:
    """A file of the index; None where nothing is.

    Raises `index-invalid` for what is no regular file or larger than `limit` bytes, and `file-read-failed`.
    """
    descriptor = _open(root, path)
    if descriptor is None:
        return None
    with open(descriptor, "rb") as file:
        try:
            data = file.read(limit + 1)
        except OSError as error:
            raise _unreadable(os.path.join(root, path), error) from None
    if len(data) > limit:
        raise invalid(path, f"has more than {limit:,} bytes, the most that is read")
    return data


def digest(root: str, path: str) -> Stored | None:
    """The content of a file of any size in the index; None where nothing is. Raises what `read` raises."""
    descriptor = _open(root, path)
    return None if descriptor is None else _pass(descriptor, os.path.join(root, path), lambda data: None)


def write(place: str, data: bytes) -> str:
    """A new file for all to read, flushed; its place. Raises OSError, and then there is none."""
    try:
        with open(os.open(place, _NEW, 0o644), "wb") as file:
            file.write(data)
            file.flush()
            _finish(file.fileno())
    except OSError:
        with suppress(OSError):
            os.unlink(place)
        raise
    return place


def copy(source: str, place: str, beat: Callable[[], None]) -> Stored:
    """A new file with the content of another one, which is read once; `beat` is called now and then.

    Raises `file-missing` and `file-read-failed` of the source, and OSError of the place.
    """
    try:
        descriptor = os.open(source, _READ)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise BundlerError("file-missing", f"{source} does not exist", path=source) from None
        raise _unreadable(source, error) from None
    kind = kind_of(os.fstat(descriptor).st_mode)
    if kind != "file":
        os.close(descriptor)
        raise BundlerError("file-missing", f"{source} is a {kind}; a regular file is expected", path=source)
    with open(os.open(place, _NEW, 0o644), "wb") as file:

        def keep(data: bytes) -> None:
            file.write(data)
            beat()

        found = _pass(descriptor, source, keep)
        file.flush()
        _finish(file.fileno())
    return found


def put(root: str, staged: str, path: str) -> None:
    """Give a staged file its place in the index, in that of what was there. Raises OSError."""
    folder = os.path.dirname(path)
    make_folder(root, folder)
    os.replace(staged, os.path.join(root, path))
    disk.sync(os.path.join(root, folder))


def put_new(root: str, staged: str, path: str) -> None:
    """The same where nothing is: of any number of writers one succeeds. Raises OSError, FileExistsError for the others."""
    place = os.path.join(root, path)
    disk.put_new(staged, place)
    disk.sync(os.path.dirname(place))


def make_folder(root: str, folder: str) -> None:
    """The folder and those above it, below the root. Raises OSError."""
    place = os.path.join(root, folder)
    if folder and not os.path.isdir(place):
        parent = os.path.dirname(folder)
        make_folder(root, parent)
        os.mkdir(place)
        disk.sync(os.path.join(root, parent))


def files_below(root: str, folder: str) -> Iterator[tuple[str, bool]]:
    """Everything below a folder of the index but folders, sorted, links not followed: path, whether it is a regular file.

    Raises `file-read-failed`.
    """
    place = os.path.join(root, folder)
    try:
        with os.scandir(place) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except FileNotFoundError:  # a storage that knows no empty folders had it
        return
    except OSError as error:
        raise _unreadable(place, error) from None
    for entry in entries:
        path = f"{folder}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield from files_below(root, path)
        else:
            yield path, entry.is_file(follow_symlinks=False)


def _open(root: str, path: str) -> int | None:
    """A descriptor of a regular file in the index; None where nothing is."""
    place = os.path.join(root, path)
    try:
        descriptor = os.open(place, _READ | getattr(os, "O_NOFOLLOW", 0))
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the last one for a name that no file can have
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise invalid(path, "is a link; a regular file is expected") from None
        if error.errno == errno.ENXIO:
            raise invalid(path, "is a socket; a regular file is expected") from None
        raise _unreadable(place, error) from None
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    raise invalid(path, f"is a {kind_of(mode)}; a regular file is expected")


def _pass(descriptor: int, place: str, keep: Callable[[bytes], None]) -> Stored:
    hasher, size = sha256(), 0
    with open(descriptor, "rb", buffering=0) as file:
        while True:
            try:
                data = file.read(CHUNK)
            except OSError as error:
                raise _unreadable(place, error) from None
            if not data:
                return Stored(hasher.hexdigest(), size)
            hasher.update(data)
            size += len(data)
            keep(data)


def _finish(descriptor: int) -> None:
    os.fchmod(descriptor, 0o644)  # whatever the umask
    os.fsync(descriptor)


def _unreadable(place: str, error: OSError) -> BundlerError:
    return BundlerError("file-read-failed", f"{place} can't be read: {os.strerror(error.errno or 0)}", path=place)
