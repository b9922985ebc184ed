"""Trees: everything that holds a Provider lists paths and reads bytes through one of these.

A Tree is where confinement to the root and symbolic links are decided, once. Paths are relative POSIX
paths in normal form (`paths.normalize`); the root itself is the empty text.

A `DirectoryTree` opens every folder and file relative to its parent's descriptor without following
links and resolves links itself, so what was checked is what was opened: a link swapped in between two
calls changes nothing. Where the system has no such calls (Windows), the real path of what was opened is
compared after opening.
"""

from __future__ import annotations

import errno
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

from .errors import BundlerError

#: Bytes read at a time: what a large file costs in memory.
CHUNK = 1 << 20
#: Links followed on the way to one file.
MAX_LINKS = 40
#: Folders on the way to one file.
MAX_DEPTH = 200
#: Entries of one tree, links to folders expanded: bounds trees in which links multiply folders.
MAX_ENTRIES = 1_000_000

Kind = Literal["file", "folder", "link", "FIFO", "socket", "device"]
#: Asked for each path of a listing whether to pass it over.
Skip = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a tree: what lies there, links not followed."""

    path: str
    kind: Kind


class Reader:
    """An open regular file: `size` and `executable` as of opening, `read` in chunks, each byte once."""

    __slots__ = ("_descriptor", "executable", "path", "size")

    def __init__(self, path: str, descriptor: int, status: os.stat_result) -> None:
        self.path = path
        self.size = status.st_size
        self.executable = bool(status.st_mode & 0o111)
        self._descriptor = descriptor

    def read(self, count: int = CHUNK) -> bytes:
        """At most `count` bytes; empty at the end of the file. Raises `file-read-failed`."""
        try:
            return os.read(self._descriptor, count)
        except OSError as error:
            raise _unreadable(self.path, error) from None

    def chunks(self) -> Iterator[bytes]:
        """The rest of the file. A file no larger than a chunk is one read."""
        # One byte more than the size: a regular file that answers with less has ended there.
        request = min(self.size, CHUNK - 1) + 1
        while chunk := self.read(request):
            yield chunk
            if len(chunk) == self.size < request:
                return
            request = CHUNK

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class MemoryReader:
    """A `Reader` over bytes."""

    __slots__ = ("_data", "_position", "executable", "path", "size")

    def __init__(self, path: str, data: bytes, executable: bool) -> None:
        self.path, self._data, self.executable = path, data, executable
        self.size = len(data)
        self._position = 0

    def read(self, count: int = CHUNK) -> bytes:
        chunk = self._data[self._position : self._position + count]
        self._position += len(chunk)
        return chunk

    def chunks(self) -> Iterator[bytes]:
        while chunk := self.read():
            yield chunk

    def close(self) -> None:
        self._position = len(self._data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Tree(ABC):
    """A root folder with files, read-only."""

    @abstractmethod
    def open(self, path: str) -> Reader | MemoryReader:
        """The regular file at `path`, links inside the root followed.

        Raises `file-missing` for what is no regular file (the message says what it is),
        `path-symlink-outside-provider`, and `file-read-failed`.
        """

    @abstractmethod
    def files(self, folder: str, skip: Skip = lambda path: False) -> Iterator[str | BundlerError]:
        """Every regular file below `folder`, links inside the root followed, sorted folder by folder.

        What `skip` says yes to is passed over, a folder with all that it holds. What can't be carried (a dangling, looping or leaving link, a FIFO, an unreadable folder …) comes
        as the error that names it, so that a caller sees all of them.
        """

    @abstractmethod
    def entries(self) -> Iterator[Entry]:
        """Everything below the root, links not followed. Raises `file-read-failed`."""

    @abstractmethod
    def describe(self, path: str) -> str:
        """The path as a user would write it on this machine."""

    def read(self, path: str, limit: int | None = None) -> bytes:
        """The bytes of the file at `path`; `parse-failed` if they are more than `limit`."""
        with self.open(path) as reader:
            if limit is not None and reader.size > limit:
                raise _too_large(path, limit)
            parts: list[bytes] = []
            total = 0
            for chunk in reader.chunks():
                parts.append(chunk)
                total += len(chunk)
                if limit is not None and total > limit:
                    raise _too_large(path, limit)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:  # noqa: B027 - most trees hold nothing
        """Give back what the tree holds; it can't be used afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class MemoryTree(Tree):
    """A tree that is a mapping of paths to bytes; for tests and for content that never was on disk."""

    def __init__(self, files: Mapping[str, bytes], executable: Collection[str] = ()) -> None:
        self._files = dict(files)
        self._executable = frozenset(executable)
        self._folders = {path[:at] for path in files for at, char in enumerate(path) if char == "/"} | {""}

    def open(self, path: str) -> MemoryReader:
        data = self._files.get(path)
        if data is None:
            raise _missing(path, "is a folder" if path in self._folders else "does not exist")
        return MemoryReader(path, data, path in self._executable)

    def files(self, folder: str, skip: Skip = lambda path: False) -> Iterator[str | BundlerError]:
        if folder not in self._folders:
            yield _missing(folder, "does not exist" if folder not in self._files else "is no folder")
            return
        pending = [folder]
        while pending:
            above = pending.pop()
            prefix = f"{above}/" if above else ""
            below = sorted({prefix + path[len(prefix) :].partition("/")[0] for path in self._files if path.startswith(prefix)})
            kept = [path for path in below if not skip(path)]
            yield from (path for path in kept if path in self._files)
            pending.extend(path for path in reversed(kept) if path in self._folders)

    def entries(self) -> Iterator[Entry]:
        for path in sorted(self._folders - {""}):
            yield Entry(path, "folder")
        for path in sorted(self._files):
            yield Entry(path, "file")

    def describe(self, path: str) -> str:
        return path or "."


class DirectoryTree(Tree):
    """A folder on disk: a Provider's source or a bundle.

    `given` is the root's absolute path as the caller named it, `root` the same with links resolved.
    Files are opened fastest in sorted order. An instance belongs to one thread. Raises `file-missing` if it is no folder, `file-read-failed` if it can't be opened.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.given = os.path.abspath(os.fspath(root))
        self.root = os.path.realpath(self.given)
        self._at: _Descriptors | _Names = (_Descriptors if _HAS_DESCRIPTORS else _Names)(self.root, self.given)

    def open(self, path: str) -> Reader:
        place = path
        for _ in range(MAX_LINKS):
            descriptor = self._at.open(place, path)
            if descriptor is None:
                place = self._follow(place, path)
                continue
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise _missing(path, f"is a {_kind(status.st_mode)}")
            except BaseException:
                os.close(descriptor)
                raise
            return Reader(path, descriptor, status)
        raise _missing(path, "is a symbolic link that loops")

    def files(self, folder: str, skip: Skip = lambda path: False) -> Iterator[str | BundlerError]:
        budget = MAX_ENTRIES
        # (path as it is listed, path without links, the folders without links that lead to it)
        pending: list[tuple[str, str, tuple[str, ...]]] = [(folder, folder, ())]
        while pending:
            listed, place, above = pending.pop()
            try:
                place, names = self._list(listed, place)
            except BundlerError as error:
                yield error
                continue
            if place in above:
                yield _missing(listed, "is a symbolic link to a folder above it: it loops")
                continue
            budget -= len(names)
            if budget < 0 or len(above) >= MAX_DEPTH:
                yield _too_many(listed)
                return
            inside = (*above, place)
            below: list[tuple[str, str, tuple[str, ...]]] = []
            for name, kind in names:
                path = f"{listed}/{name}" if listed else name
                if skip(path):
                    continue
                target = f"{place}/{name}" if place else name
                if kind == "link":
                    try:
                        target, kind = self._target(target, path)
                    except BundlerError as error:
                        yield error
                        continue
                if kind == "file":
                    yield path
                elif kind == "folder":
                    below.append((path, target, inside))
                else:
                    yield _missing(path, f"is a {kind}")
            pending.extend(reversed(below))

    def entries(self) -> Iterator[Entry]:
        budget = MAX_ENTRIES
        pending = [""]
        while pending:
            folder = pending.pop()
            _, names = self._list(folder, folder)
            budget -= len(names)
            if budget < 0 or folder.count("/") >= MAX_DEPTH:
                raise _too_many(folder)
            below: list[str] = []
            for name, kind in names:
                path = f"{folder}/{name}" if folder else name
                yield Entry(path, kind)
                if kind == "folder":
                    below.append(path)
            pending.extend(reversed(below))

    def describe(self, path: str) -> str:
        return os.path.join(self.given, *path.split("/")) if path else self.given

    def close(self) -> None:
        self._at.close()

    def __del__(self) -> None:
        if hasattr(self, "_at"):
            self._at.close()

    def _list(self, listed: str, place: str) -> tuple[str, list[tuple[str, Kind]]]:
        """The folder's path without links, and its entries sorted by name."""
        for _ in range(MAX_LINKS):
            names = self._at.scan(place, listed)
            if names is not None:
                return place, sorted(names)
            place = self._follow(place, listed)
        raise _missing(listed, "is a symbolic link that loops")

    def _target(self, place: str, path: str) -> tuple[str, Kind]:
        """Where a link leads, and what lies there."""
        for _ in range(MAX_LINKS):
            kind = self._at.kind(place, path)
            if kind is not None and kind != "link":
                return place, kind
            place = self._follow(place, path)
        raise _missing(path, "is a symbolic link that loops")

    def _follow(self, place: str, path: str) -> str:
        """`place` with the first link on the way replaced by its target; `path` is what errors name."""
        done: list[str] = []
        rest = place.split("/")
        while rest:
            name = rest.pop(0)
            target = self._at.link("/".join([*done, name]), path)
            if target is None:
                done.append(name)
                continue
            steps = target.replace(os.sep, "/").split("/") + rest
            if not os.path.isabs(target) and (inside := _walk(done, steps)) is not None:
                return inside
            return self._enter(os.path.join(self.root, *done, target, *rest), path)
        raise _missing(path, "changed while it was read")

    def _enter(self, absolute: str, path: str) -> str:
        """The place inside the root of an absolute path, or of one that left the root on the way."""
        real = os.path.realpath(absolute)
        if real == self.root:
            return ""
        prefix = self.root.rstrip(os.sep) + os.sep
        if not real.startswith(prefix):
            raise BundlerError(
                "path-symlink-outside-provider",
                f"`{path}` is a symbolic link that leads outside of the Provider root, to {real}",
                path=path,
            )
        return real[len(prefix) :].replace(os.sep, "/")


class _Descriptors:
    """Opening and listing relative to the parents' descriptors, no link followed by the system."""

    _FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0)
    _FOLDER = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)

    def __init__(self, root: str, given: str) -> None:
        try:
            self._root = os.open(root, self._FOLDER)
        except OSError as error:
            raise _no_root(given, error) from None
        # The open folders that lead to the folder used last: one descriptor a level.
        self._names: list[str] = []
        self._open: list[int] = []
        self._last = ""

    def open(self, place: str, path: str) -> int | None:
        """A descriptor; None if a link lies on the way or at the end."""
        folder, _, name = place.rpartition("/")
        parent = self._folder(folder, path)
        if parent is None:
            return None
        try:
            return os.open(name or ".", self._FILE, dir_fd=parent)
        except OSError as error:
            if error.errno in _LINK_IN_THE_WAY:
                return None
            if error.errno == errno.ENXIO:
                raise _missing(path, "is a socket or a device") from None
            raise _absent(path, error) from None

    def scan(self, place: str, path: str) -> list[tuple[str, Kind]] | None:
        """Names and kinds of the folder's entries; None if a link lies on the way."""
        descriptor = self._folder(place, path)
        if descriptor is None:
            return None
        try:
            with os.scandir(descriptor) as entries:
                return [(entry.name, _entry_kind(entry, descriptor)) for entry in entries]
        except OSError as error:
            raise _unreadable(path, error) from None

    def kind(self, place: str, path: str) -> Kind | None:
        folder, _, name = place.rpartition("/")
        parent = self._folder(folder, path)
        if parent is None:
            return None
        try:
            return _kind(os.stat(name or ".", dir_fd=parent, follow_symlinks=False).st_mode)
        except OSError as error:
            raise _absent(path, error, "is a symbolic link that leads to nothing") from None

    def link(self, place: str, path: str) -> str | None:
        """The target of the link at `place`, whose parents are no links; None if it is no link."""
        folder, _, name = place.rpartition("/")
        parent = self._folder(folder, path)
        if parent is None:
            raise _missing(path, "changed while it was read")
        try:
            return os.readlink(name, dir_fd=parent)
        except OSError as error:
            if error.errno == errno.EINVAL:
                return None
            raise _absent(path, error) from None

    def close(self) -> None:
        self._cut(0)
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def _folder(self, place: str, path: str) -> int | None:
        if place != self._last:
            names = place.split("/") if place else []
            if len(names) > MAX_DEPTH:
                raise _too_many(place)
            shared = 0
            for ours, theirs in zip(self._names, names, strict=False):
                if ours != theirs:
                    break
                shared += 1
            self._cut(shared)
            for name in names[shared:]:
                try:
                    descriptor = os.open(name, self._FOLDER, dir_fd=self._open[-1] if self._open else self._root)
                except OSError as error:
                    if error.errno in _LINK_IN_THE_WAY and self._is_link(name):
                        return None
                    raise _absent(path, error) from None
                self._names.append(name)
                self._open.append(descriptor)
                self._last = "/".join(self._names)
        return self._open[-1] if self._open else self._root

    def _is_link(self, name: str) -> bool:
        # A file in a folder's place and a link answer alike.
        try:
            status = os.stat(name, dir_fd=self._open[-1] if self._open else self._root, follow_symlinks=False)
        except OSError:  # gone in between: the caller reports what opening it answered
            return False
        return stat.S_ISLNK(status.st_mode)

    def _cut(self, length: int) -> None:
        for descriptor in self._open[length:]:
            os.close(descriptor)
        del self._open[length:], self._names[length:]
        self._last = "/".join(self._names)


class _Names:
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
                raise _missing(path, f"is a {_kind(before.st_mode)}")
            descriptor = os.open(full, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0))
        except OSError as error:
            raise _absent(path, error) from None
        if not os.path.samestat(before, os.fstat(descriptor)):
            os.close(descriptor)
            raise _missing(path, "changed while it was read")
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
            raise _unreadable(path, error) from None

    def kind(self, place: str, path: str) -> Kind | None:
        full = self._full(place)
        if os.path.realpath(os.path.dirname(full)) != os.path.dirname(full):
            return None
        try:
            return _kind(os.lstat(full).st_mode)
        except OSError as error:
            raise _absent(path, error, "is a symbolic link that leads to nothing") from None

    def link(self, place: str, path: str) -> str | None:
        full = self._full(place)
        try:
            return os.readlink(full) if os.path.islink(full) else None
        except OSError as error:
            raise _absent(path, error) from None

    def close(self) -> None:
        """Nothing is held."""

    def _full(self, place: str) -> str:
        return os.path.join(self._root, *place.split("/")) if place else self._root


_HAS_DESCRIPTORS = (
    os.open in os.supports_dir_fd and os.scandir in os.supports_fd and os.readlink in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
)
# What opening a link without following it answers: Linux and macOS ELOOP, with O_DIRECTORY ENOTDIR, FreeBSD EMLINK.
_LINK_IN_THE_WAY = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)


def _walk(done: list[str], steps: list[str]) -> str | None:
    """`steps` taken from the folder `done`, as text; None if they leave the root.

    Taking `..` as text is right here: `done` holds no links, and a link among the steps is met again
    when the result is followed in turn. A step back over such a link is left to the system's own order.
    """
    place = list(done)
    for index, step in enumerate(steps):
        if step in ("", "."):
            continue
        if step == "..":
            if not place or any(later not in ("", ".", "..") for later in steps[:index]):
                return None
            place.pop()
        else:
            place.append(step)
    return "/".join(place)


def _entry_kind(entry: os.DirEntry[str], descriptor: int | None) -> Kind:
    if entry.is_symlink():
        return "link"
    if entry.is_file(follow_symlinks=False):
        return "file"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    if descriptor is None:
        return _kind(entry.stat(follow_symlinks=False).st_mode)
    return _kind(os.stat(entry.name, dir_fd=descriptor, follow_symlinks=False).st_mode)


_KINDS: tuple[tuple[Callable[[int], bool], Kind], ...] = (
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "folder"),
    (stat.S_ISLNK, "link"),
    (stat.S_ISFIFO, "FIFO"),
    (stat.S_ISSOCK, "socket"),
)


def _kind(mode: int) -> Kind:
    return next((kind for matches, kind in _KINDS if matches(mode)), "device")


def _missing(path: str, what: str) -> BundlerError:
    return BundlerError("file-missing", f"`{path or '.'}` {what}; a regular file is expected", path=path)


def _absent(path: str, error: OSError, missing: str = "does not exist") -> BundlerError:
    if error.errno in (errno.ENOENT, errno.ENAMETOOLONG):
        return _missing(path, missing)
    if error.errno == errno.ENOTDIR:
        return _missing(path, "does not exist: what should be its folder is a file")
    return _unreadable(path, error)


def _unreadable(path: str, error: OSError) -> BundlerError:
    return BundlerError("file-read-failed", f"`{path or '.'}` can't be read: {os.strerror(error.errno or 0)}", path=path)


def _no_root(given: str, error: OSError) -> BundlerError:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        what = "does not exist" if error.errno == errno.ENOENT else "is no folder"
        return BundlerError("file-missing", f"{given} {what}; a folder is expected", path=given)
    return BundlerError("file-read-failed", f"{given} can't be read: {os.strerror(error.errno or 0)}", path=given)


def _too_large(path: str, limit: int) -> BundlerError:
    return BundlerError("parse-failed", f"`{path}` is larger than {limit:,} bytes, the most that is parsed", path=path,
                        hint="split the file; only files that are carried and not parsed may be of any size")


def _too_many(path: str) -> BundlerError:
    return BundlerError(
        "tree-limit-exceeded",
        f"`{path or '.'}`: more than {MAX_ENTRIES:,} entries or {MAX_DEPTH} folders deep",
        path=path,
    )
