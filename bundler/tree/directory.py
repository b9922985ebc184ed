"""A folder on disk as a tree: links and confinement.

A `DirectoryTree` opens every folder and file relative to its parent's descriptor without following
links and resolves links itself, so what was checked is what was opened: a link swapped in between two
calls changes nothing. Where the system has no such calls (Windows), the real path of what was opened is
compared after opening.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator

from ..errors import BundlerError
from .base import CHUNK, Entry, Kind, Reader, Skip, Tree, not_a_file
from .opening import (
    MAX_DEPTH,
    MAX_ENTRIES,
    MAX_EXPANDED,
    ByDescriptor,
    ByName,
    beyond_limits,
    has_descriptors,
    kind_of,
    unreadable,
)

#: Links followed on the way to one file.
MAX_LINKS = 40


class FileReader(Reader):
    """A `Reader` over a descriptor, which it owns."""

    __slots__ = ("_descriptor",)

    def __init__(self, path: str, descriptor: int, status: os.stat_result) -> None:
        # Set here and not by the base class: one of these is made for every file.
        self.path = path
        self.size = status.st_size
        self.executable = status.st_mode & 0o111 != 0
        self._descriptor = descriptor

    def read(self, count: int = CHUNK) -> bytes:
        try:
            return os.read(self._descriptor, count)
        except OSError as error:
            raise unreadable(self.path, error) from None

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


class DirectoryTree(Tree):
    """A folder on disk: a Provider's source or a bundle.

    `given` is the root's absolute path as the caller named it, `root` the same with links resolved.
    Files are opened fastest in sorted order. An instance belongs to one thread. Raises `file-missing` if
    the root is no folder, `file-read-failed` if it can't be opened.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.given = os.path.abspath(os.fspath(root))
        self.root = os.path.realpath(self.given)
        self._at: ByDescriptor | ByName = (ByDescriptor if has_descriptors else ByName)(self.root, self.given)

    def open(self, path: str) -> FileReader:
        place = path
        for _ in range(MAX_LINKS):
            descriptor = self._at.open(place, path)
            if descriptor is None:
                place = self._follow(place, path)
                continue
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise not_a_file(path, f"is a {kind_of(status.st_mode)}")
            except BaseException:
                os.close(descriptor)
                raise
            return FileReader(path, descriptor, status)
        raise not_a_file(path, "is a symbolic link that loops")

    def small(self, path: str) -> tuple[bytes, bool] | None:
        # What `open` does for most files, in one go: a tree is mostly small files.
        descriptor = self._at.open(path, path)
        if descriptor is not None:
            try:
                status = os.fstat(descriptor)
                size = status.st_size
                if stat.S_ISREG(status.st_mode) and size < CHUNK:
                    data = os.read(descriptor, size + 1)
                    if len(data) == size:
                        return data, status.st_mode & 0o111 != 0
            except OSError as error:
                raise unreadable(path, error) from None
            finally:
                os.close(descriptor)
        return super().small(path)

    def files(self, folder: str, skip: Skip = lambda path: False) -> Iterator[str | BundlerError]:
        budget = MAX_EXPANDED
        # Links may lead to one folder often: it is looked at once.
        listings: dict[str, tuple[str, list[tuple[str, Kind]]]] = {}
        # (path as it is listed, path without links, the folders without links that lead to it)
        pending: list[tuple[str, str, tuple[str, ...]]] = [(folder, folder, ())]
        while pending:
            listed, place, above = pending.pop()
            try:
                if place not in listings:
                    listings[place] = self._list(listed, place)
                place, names = listings[place]
            except BundlerError as error:
                yield error
                continue
            if place in above:
                yield not_a_file(listed, "is a symbolic link to a folder above it: it loops")
                continue
            budget -= len(names)
            if budget < 0 or len(above) >= MAX_DEPTH:
                yield beyond_limits(listed)
                return
            inside = (*above, place)
            below: list[tuple[str, str, tuple[str, ...]]] = []
            for name, kind in names:
                path = f"{listed}/{name}" if listed else name
                if skip(path):
                    continue
                target = f"{place}/{name}" if place else name
                found = kind
                if kind == "link":
                    try:
                        target, found = self._target(target, path)
                    except BundlerError as error:
                        yield error
                        continue
                if found == "file":
                    yield path
                elif found == "folder":
                    below.append((path, target, inside))
                else:
                    yield not_a_file(path, f"is a {found}")
            pending.extend(reversed(below))

    def entries(self, descend: Callable[[str], bool] = lambda folder: True) -> Iterator[Entry]:
        budget = MAX_ENTRIES
        pending = [""]
        while pending:
            folder = pending.pop()
            _, names = self._list(folder, folder)
            budget -= len(names)
            if budget < 0 or folder.count("/") >= MAX_DEPTH:
                raise beyond_limits(folder)
            below: list[str] = []
            for name, kind in names:
                path = f"{folder}/{name}" if folder else name
                yield Entry(path, kind)
                if kind == "folder" and descend(path):
                    below.append(path)
            pending.extend(reversed(below))

    def names(self, folder: str) -> list[str]:
        try:
            return [name for name, _ in self._list(folder, folder)[1]]
        except BundlerError:
            return []

    @property
    def roots(self) -> tuple[str, ...]:
        return self.given, self.root

    @property
    def replaced(self) -> bool:
        """Whether another folder lies at the root's path by now; this tree still reads the one that it opened."""
        return self._at.replaced()

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
        raise not_a_file(listed, "is a symbolic link that loops")

    def _target(self, place: str, path: str) -> tuple[str, Kind]:
        """Where a link leads, and what lies there."""
        for _ in range(MAX_LINKS):
            kind = self._at.kind(place, path)
            if kind is not None and kind != "link":
                return place, kind
            place = self._follow(place, path)
        raise not_a_file(path, "is a symbolic link that loops")

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
        raise not_a_file(path, "changed while it was read")

    def _enter(self, absolute: str, path: str) -> str:
        """The place inside the root of an absolute path, or of one that left the root on the way."""
        real = os.path.realpath(absolute)
        prefix = self.root.rstrip(os.sep) + os.sep
        if real != self.root and not real.startswith(prefix):
            raise BundlerError(
                "path-symlink-outside-provider",
                f"`{path}` is a symbolic link that leads outside of the Provider root, to {real}",
                path=path,
            )
        try:
            os.stat(absolute)
        except OSError as error:
            what = "loops" if error.errno == errno.ELOOP else "leads to nothing"
            raise not_a_file(path, f"is a symbolic link that {what}") from None
        return real[len(prefix) :].replace(os.sep, "/")


def _walk(done: list[str], steps: list[str]) -> str | None:
    """`steps` taken from the folder `done`, as text; None where the system has to decide.

    Taking `..` as text is right here: `done` holds no links, and a link among the steps is met again
    when the result is followed in turn. A step back over such a link, one that leaves the root, and a `/`
    or `.` at the end, which only a folder can have, are left to the system.
    """
    place = list(done)
    if steps[-1] in ("", "."):
        return None
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
