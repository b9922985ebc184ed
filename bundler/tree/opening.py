"""How a folder's entries are opened, listed and looked at without following a link."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable

from ..errors import BundlerError
from ..paths import from_system, to_system
from .base import Kind, not_a_file

#: Entries of one tree.
MAX_ENTRIES = 1_000_000
#: Entries below one folder, links to folders expanded: bounds trees in which links multiply folders.
MAX_EXPANDED = 200_000
#: Folders on the way to one file.
MAX_DEPTH = 200


class ByDescriptor:
    """Opening and listing relative to the parents' descriptors, no link followed by the system."""

    _FILE = (
        os.O_RDONLY
        | getattr(os, "O_NOFOLLOW", 0)
        | getattr(os, "O_NONBLOCK", 0)
        | getattr(os, "O_CLOEXEC", 0)
        | getattr(os, "O_NOCTTY", 0)
    )
    _FOLDER = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)

    def __init__(self, root: str, given: str) -> None:
        self._path = root
        try:
            self._root = os.open(root, self._FOLDER)
        except OSError as error:
            raise _no_root(given, error) from None
        # The open folders that lead to the folder used last: one descriptor a level.
        self._names: list[str] = []
        self._open: list[int] = []
        self._last = ""
        self._current = self._root

    def open(self, place: str, path: str) -> int | None:
        """A descriptor; None if a link lies on the way or at the end."""
        folder, _, name = place.rpartition("/")
        parent = self._current if folder == self._last else self._folder(folder, path)
        if parent is None:
            return None
        try:
            return os.open(to_system(name or "."), self._FILE, dir_fd=parent)
        except OSError as error:
            if error.errno in _LINK_IN_THE_WAY:
                return None
            if error.errno in (errno.ENXIO, errno.EOPNOTSUPP):  # Linux, macOS
                raise not_a_file(path, "is a socket or a device") from None
            raise _absent(path, error) from None

    def scan(self, place: str, path: str) -> list[tuple[str, Kind]] | None:
        """Names and kinds of the folder's entries; None if a link lies on the way."""
        descriptor = self._folder(place, path)
        if descriptor is None:
            return None
        try:
            with os.scandir(descriptor) as entries:
                return [(from_system(entry.name), _entry_kind(entry, descriptor)) for entry in entries]
        except OSError as error:
            raise unreadable(path, error) from None

    def kind(self, place: str, path: str) -> Kind | None:
        folder, _, name = place.rpartition("/")
        parent = self._folder(folder, path)
        if parent is None:
            return None
        try:
            return kind_of(os.stat(to_system(name or "."), dir_fd=parent, follow_symlinks=False).st_mode)
        except OSError as error:
            raise _absent(path, error, "is a symbolic link that leads to nothing") from None

    def link(self, place: str, path: str) -> str | None:
        """The target of the link at `place`, whose parents are no links; None if it is no link."""
        folder, _, name = place.rpartition("/")
        parent = self._folder(folder, path)
        if parent is None:
            raise not_a_file(path, "changed while it was read")
        try:
            # In the type of the name: bytes only where the system's texts are not UTF-8.
            return from_system(os.fsdecode(os.readlink(os.fsencode(to_system(name)), dir_fd=parent)))
        except OSError as error:
            if error.errno == errno.EINVAL:
                return None
            raise _absent(path, error) from None

    def replaced(self) -> bool:
        try:
            return not os.path.samestat(os.fstat(self._root), os.stat(self._path))
        except OSError:  # nothing there any more
            return True

    def close(self) -> None:
        self._cut(0)
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def _folder(self, place: str, path: str) -> int | None:
        if place != self._last:
            names = place.split("/") if place else []
            if len(names) > MAX_DEPTH:
                raise beyond_limits(place)
            shared = 0
            for ours, theirs in zip(self._names, names, strict=False):
                if ours != theirs:
                    break
                shared += 1
            self._cut(shared)
            for name in names[shared:]:
                try:
                    descriptor = os.open(to_system(name), self._FOLDER, dir_fd=self._current)
                except OSError as error:
                    if error.errno in _LINK_IN_THE_WAY and self._is_link(name):
                        return None
                    raise _absent(path, error) from None
                self._names.append(name)
                self._open.append(descriptor)
                self._last, self._current = "/".join(self._names), descriptor
        return self._current

    def _is_link(self, name: str) -> bool:
        # A file in a folder's place and a link answer alike.
        try:
            status = os.stat(to_system(name), dir_fd=self._current, follow_symlinks=False)
        except OSError:  # gone in between: the caller reports what opening it answered
            return False
        return stat.S_ISLNK(status.st_mode)

    def _cut(self, length: int) -> None:
        for descriptor in self._open[length:]:
            os.close(descriptor)
        del self._open[length:], self._names[length:]
        self._last, self._current = "/".join(self._names), self._open[-1] if self._open else self._root


class ByName:
    """The same by path names, for systems without descriptors of folders: checked after opening."""

    def __init__(self, root: str, given: str) -> None:
        self._root = root
        try:
            with os.scandir(root):
                pass
        except OSError as error:
            raise _no_root(given, error) from None

    def open(self, place: str, path: str) -> int | None:
        full = self._full(place)
        if os.path.realpath(full) != full:
            return None
        try:
            before = os.stat(full, follow_symlinks=False)
            if not stat.S_ISREG(before.st_mode):  # not opened: a FIFO would wait for its other end
                raise not_a_file(path, f"is a {kind_of(before.st_mode)}")
            descriptor = os.open(full, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0))
        except OSError as error:
            raise _absent(path, error) from None
        if not os.path.samestat(before, os.fstat(descriptor)):
            os.close(descriptor)
            raise not_a_file(path, "changed while it was read")
        return descriptor

    def scan(self, place: str, path: str) -> list[tuple[str, Kind]] | None:
        full = self._full(place)
        if os.path.realpath(full) != full:
            return None
        try:
            with os.scandir(full) as entries:
                return [(entry.name, _entry_kind(entry, None)) for entry in entries]
        except OSError as error:
            if isinstance(error, FileNotFoundError | NotADirectoryError):
                raise _absent(path, error) from None
            raise unreadable(path, error) from None

    def kind(self, place: str, path: str) -> Kind | None:
        full = self._full(place)
        if os.path.realpath(os.path.dirname(full)) != os.path.dirname(full):
            return None
        try:
            return kind_of(os.lstat(full).st_mode)
        except OSError as error:
            raise _absent(path, error, "is a symbolic link that leads to nothing") from None

    def link(self, place: str, path: str) -> str | None:
        full = self._full(place)
        try:
            return os.readlink(full) if os.path.islink(full) else None
        except OSError as error:
            raise _absent(path, error) from None

    def replaced(self) -> bool:
        return False  # every call looks the path up again

    def close(self) -> None:
        """Nothing is held."""

    def _full(self, place: str) -> str:
        return os.path.join(self._root, *place.split("/")) if place else self._root


has_descriptors = (
    os.open in os.supports_dir_fd
    and os.scandir in os.supports_fd
    and os.readlink in os.supports_dir_fd
    and hasattr(os, "O_NOFOLLOW")
)
# What opening a link without following it answers: Linux and macOS ELOOP, with O_DIRECTORY ENOTDIR, FreeBSD EMLINK.
_LINK_IN_THE_WAY = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)


def _entry_kind(entry: os.DirEntry[str], descriptor: int | None) -> Kind:
    if entry.is_symlink():
        return "link"
    if entry.is_file(follow_symlinks=False):
        return "file"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    if descriptor is None:
        return kind_of(entry.stat(follow_symlinks=False).st_mode)
    return kind_of(os.stat(entry.name, dir_fd=descriptor, follow_symlinks=False).st_mode)


_KINDS: tuple[tuple[Callable[[int], bool], Kind], ...] = (
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "folder"),
    (stat.S_ISLNK, "link"),
    (stat.S_ISFIFO, "FIFO"),
    (stat.S_ISSOCK, "socket"),
)


def kind_of(mode: int) -> Kind:
    return next((kind for matches, kind in _KINDS if matches(mode)), "device")


def _absent(path: str, error: OSError, what: str = "does not exist") -> BundlerError:
    if error.errno in (errno.ENOENT, errno.ENAMETOOLONG):
        return not_a_file(path, what)
    if error.errno == errno.ENOTDIR:
        return not_a_file(path, "does not exist: what should be its folder is a file")
    return unreadable(path, error)


def unreadable(path: str, error: OSError) -> BundlerError:
    return BundlerError(
        "file-read-failed", f"`{path or '.'}` can't be read: {os.strerror(error.errno or 0)}", path=path
    )


def _no_root(given: str, error: OSError) -> BundlerError:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        what = "does not exist" if error.errno == errno.ENOENT else "is no folder"
        return BundlerError(
            "file-missing", f"{given} {what}; a folder is expected", path=given, hint="name a folder that exists"
        )
    return BundlerError("file-read-failed", f"{given} can't be read: {os.strerror(error.errno or 0)}", path=given)


def beyond_limits(path: str) -> BundlerError:
    return BundlerError(
        "tree-limit-exceeded",
        f"`{path or '.'}` holds too much: more than {MAX_ENTRIES:,} entries, more than {MAX_EXPANDED:,} by way of links, "
        f"or more than {MAX_DEPTH} folders in each other",
        path=path,
    )
