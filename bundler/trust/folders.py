"""Folders that only this user can write to, so that what lies in one can be believed later.

Whoever can write to such a folder, or put another one in its place, decides what a host believes. So it has to belong
to the user, be writable by nobody else, on the whole way to it, and lie outside of every Provider.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from ..bundle.layout import PROVIDER_NAME
from ..errors import BundlerError

#: Write permission for anybody but the owner.
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

#: Makes the error for a folder and what is wrong with it.
Unsafe = Callable[[str, str], BundlerError]


def own_folder(folder: str, unsafe: Unsafe) -> str:
    """The folder with links resolved, made where it is missing: it is the user's own, and nobody else can write there.

    Raises what `unsafe` makes, and `output-write-failed` where it can't be made.
    """
    if not folder:
        raise unsafe(folder, "has no name: an empty text was given")
    folder = os.path.realpath(folder)
    if not hasattr(os, "geteuid"):
        raise unsafe(folder, "cannot be checked on this system")
    try:
        _make(folder, unsafe)
        _check(folder, unsafe)
    except OSError as error:
        message = f"{folder} can't be made: {os.strerror(error.errno or 0)}"
        raise BundlerError("output-write-failed", message, path=folder) from None
    return folder


def check_outside(folder: str, root: str, unsafe: Unsafe) -> None:
    """Raises what `unsafe` makes where the folder is that of a Provider, or lies in it."""
    place = os.path.realpath(root)
    if folder == place or folder.startswith(place + os.sep):
        raise unsafe(folder, f"lies in the Provider {root}")


def open_own(path: str) -> int | None:
    """A descriptor of a regular file that only this user can have written; None for any other. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & OTHERS_WRITE:
        return descriptor
    os.close(descriptor)
    return None


def _make(folder: str, unsafe: Unsafe) -> None:
    """Make what is missing of the way to the folder, for this user alone; nothing where it would not be safe."""
    missing = []
    place = folder
    while not os.path.isdir(place):
        missing.append(place)
        place = os.path.dirname(place)
    if missing:
        _check_way(folder, place, unsafe)
    for each in reversed(missing):
        try:
            os.mkdir(each, 0o700)
        except FileExistsError:
            if not os.path.isdir(each):
                raise


def _check(folder: str, unsafe: Unsafe) -> None:
    """Raises where anybody else could write to the folder, or put another one in its place."""
    status = os.stat(folder)
    if status.st_uid != os.geteuid() or status.st_mode & OTHERS_WRITE:
        raise unsafe(folder, "does not belong to you alone: it needs to be yours, with no write permission for others")
    _check_way(folder, folder, unsafe)


def _check_way(folder: str, place: str, unsafe: Unsafe) -> None:
    """Raises for what is wrong with `place` and the folders above, which lead to `folder`."""
    me = os.geteuid()
    while True:
        status = os.stat(place)
        shared = status.st_mode & OTHERS_WRITE
        if status.st_uid not in (me, 0) or (shared and not status.st_mode & stat.S_ISVTX):
            raise unsafe(folder, f"lies in {place}, in which others can put another folder in its place")
        if os.path.lexists(os.path.join(place, PROVIDER_NAME)):
            raise unsafe(folder, f"lies in the Provider {place}")
        above = os.path.dirname(place)
        if above == place:
            return
        place = above
