"""Steps of writers on disk that every kind of output takes: names flushed, new files named, one process at a time."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager


def sync(path: str) -> None:
    """Put a file's content, or the names in a folder, on disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_new(staged: str, place: str) -> None:
    """Give a file its name if nobody has taken it: of any number of writers one succeeds.

    The staged name may stay, too. Raises FileExistsError for the others, and OSError.
    """
    try:
        os.link(staged, place)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP):
            raise
        # A file system without links: here a lock alone keeps other writers away.
        if os.path.lexists(place):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), place) from None
        os.rename(staged, place)


@contextmanager
def alone(folder: str) -> Iterator[int]:
    """Be the only process that holds the folder's lock, however long that takes; its descriptor. Raises OSError."""
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)
