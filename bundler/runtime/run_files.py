"""The files of Runs: read with bounds, changed by one writer at a time, and whole whatever happens to it.

Who writes holds a lock on the folder: it leaves nothing behind, and ends with the process that holds it. Content is
written beside its place, flushed, and put there in one step.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from ..bundle.disk import put_new, sync
from ..bundle.swap import write_failed
from ..errors import BundlerError
from ..tree.opening import kind_of

#: Seconds that a writer waits for another.
PATIENCE = 2.0
# Without waiting: a FIFO would wait for its other end. Windows has none of these.
_READ = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"))
_STAGED = re.compile(r"\.agent-bundler-[0-9a-f]{16}\.run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What was read, and what the system told of the file."""

    data: bytes
    status: os.stat_result


def existing(path: str | os.PathLike[str]) -> str:
    """The absolute path of a file, links resolved. Raises `file-read-failed` where there is none."""
    try:
        return os.path.realpath(os.path.abspath(path), strict=True)
    except (OSError, ValueError) as error:
        raise _unreadable(os.fspath(path), error) from None


def missing(path: str | os.PathLike[str]) -> str:
    """The absolute path of a file to be, with links in the way to its folder resolved.

    Raises `run-target-exists` where anything lies there, a link that leads nowhere too, and `output-write-failed`.
    """
    folder, name = os.path.split(os.path.abspath(path))
    try:
        place = os.path.join(os.path.realpath(folder, strict=True), name)
        os.lstat(place)
    except FileNotFoundError:
        if not os.path.isdir(folder):
            raise BundlerError(
                "output-write-failed",
                f"`{os.fspath(path)}` can't be written: there is no folder {folder}",
                path=os.fspath(path),
                hint="make the folder first",
            ) from None
        return place
    except OSError as error:
        raise write_failed(os.fspath(path), error) from None
    except ValueError:
        raise BundlerError("option-invalid", f"{os.fspath(path)!r} is no path") from None
    raise _exists(place)


def read_file(path: str, limit: int) -> Content:
    """A regular file, of which at most one byte more than `limit` is read. Raises `file-read-failed`."""
    try:
        descriptor = os.open(path, _READ)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise _unreadable(path, f"it is a {kind_of(status.st_mode)}")
    with open(descriptor, "rb") as file:
        try:
            return Content(data=file.read(limit + 1), status=status)
        except OSError as error:
            raise _unreadable(path, error) from None


@contextmanager
def locked(*places: str) -> Iterator[None]:
    """Be the only writer in the folders of these paths.

    Raises `run-locked` where another one does not end in time, and `output-write-failed` where there is no lock.
    """
    if sys.platform == "win32":
        raise BundlerError("output-write-failed", "Runs are not written on Windows", hint="use Linux or macOS")
    with ExitStack() as held:
        descriptors = []
        for folder in dict.fromkeys(map(os.path.dirname, places)):
            try:
                descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError as error:
                raise write_failed(folder, error) from None
            held.callback(os.close, descriptor)
            descriptors.append((os.fstat(descriptor), descriptor, folder))
        # In one order, whoever locks: two that need the same two folders would wait for each other.
        until = time.monotonic() + PATIENCE
        last: os.stat_result | None = None
        for status, descriptor, folder in sorted(descriptors, key=lambda each: (each[0].st_dev, each[0].st_ino)):
            if last is None or not os.path.samestat(status, last):
                _lock(descriptor, folder, until)
            last = status
        yield


def replace_file(place: str, data: bytes, before: os.stat_result) -> None:
    """Put content in the place of a file that was `before` when it was read; its mode and owner stay.

    The lock is held. Raises `run-locked` where somebody has changed the file since, and `output-write-failed`. Whatever
    happens, the file is the one before or the one after.
    """
    try:
        if not os.access(place, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        with _staged(place, data, before) as staged:
            if _identity(os.stat(place)) != _identity(before):
                raise BundlerError(
                    "run-locked",
                    f"{place} was changed by something else at the same time; nothing was written",
                    path=place,
                    hint="look at what has changed, then try again",
                )
            os.replace(staged, place)
        sync(os.path.dirname(place))
    except OSError as error:
        raise write_failed(place, error) from None


@contextmanager
def new_file(place: str, data: bytes) -> Iterator[None]:
    """A new file, which goes again if the block ends with an error. The lock is held.

    Raises `run-target-exists` and `output-write-failed`.
    """
    try:
        with _staged(place, data) as staged:
            put_new(staged, place)
        made = os.stat(place)
        sync(os.path.dirname(place))
    except FileExistsError:
        raise _exists(place) from None
    except OSError as error:
        raise write_failed(place, error) from None
    try:
        yield
    except BaseException:
        with suppress(OSError):
            if os.path.samestat(os.lstat(place), made):
                os.unlink(place)
        raise


@contextmanager
def _staged(place: str, data: bytes, before: os.stat_result | None = None) -> Iterator[str]:
    """A flushed file beside the place, which is gone when the block ends. Raises OSError."""
    folder = os.path.dirname(place)
    _clear(folder)
    staged = os.path.join(folder, f".agent-bundler-{os.urandom(8).hex()}.run")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(staged, flags, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), 0o600)  # whatever the umask
            if before is not None:
                for owner, group in ((-1, before.st_gid), (before.st_uid, -1)):
                    with suppress(PermissionError):  # a file of another user's becomes ours, unless we are root
                        os.fchown(file.fileno(), owner, group)
                os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
            os.fsync(file.fileno())
        yield staged
    finally:
        with suppress(OSError):
            os.unlink(staged)


def _clear(folder: str) -> None:
    """Remove what killed writers left: whoever holds the lock is the only one."""
    with os.scandir(folder) as entries:
        left = [entry.path for entry in entries if _STAGED.fullmatch(entry.name)]
    for path in left:
        with suppress(OSError):  # another user's, in a folder for all
            os.unlink(path)


def _lock(descriptor: int, folder: str, until: float) -> None:
    import fcntl

    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                message = f"another process is changing a Run in {folder} and does not end"
                raise BundlerError("run-locked", message, path=folder) from None
        except OSError as error:
            raise write_failed(folder, error) from None
        time.sleep(0.01)


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _exists(place: str) -> BundlerError:
    return BundlerError("run-target-exists", f"{place} exists, and nothing is replaced", path=place)


def _unreadable(path: str, why: str | OSError | ValueError) -> BundlerError:
    hint = None
    if isinstance(why, FileNotFoundError):
        why, hint = "it does not exist", "correct the path, or start a Run (`agent-bundler run start`)"
    elif isinstance(why, OSError):
        why = os.strerror(why.errno or 0)
    return BundlerError("file-read-failed", f"the Run {path} can't be read: {why}", path=path, hint=hint)
