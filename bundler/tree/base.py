"""What a Tree is, what lies in one, and how a file of one is read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Literal, NamedTuple, Self

from ..errors import BundlerError

#: Bytes read at a time: what a large file costs in memory.
CHUNK = 1 << 20

Kind = Literal["file", "folder", "link", "FIFO", "socket", "device"]
#: Asked for each path of a listing whether to pass it over.
Skip = Callable[[str], bool]


class Entry(NamedTuple):
    """One entry of a tree: what lies there, links not followed."""

    path: str
    kind: Kind


def strangers(entries: Iterable[Entry], belongs: Callable[[Entry], bool]) -> Iterator[Entry]:
    """The entries that do not belong, those below such a folder left out: it stands for all that it holds.

    `entries` as `Tree.entries` gives them: a folder before what it holds.
    """
    told: set[str] = set()
    for entry in entries:
        below = entry.path.rpartition("/")[0] in told
        if below or not belongs(entry):
            if entry.kind == "folder":
                told.add(entry.path)
            if not below:
                yield entry


def folders_of(paths: Iterable[str]) -> set[str]:
    """Every folder that leads to one of the paths, the root left out."""
    found: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found


class _Held(ABC):
    """What is closed at the end of a `with`."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Give back what is held; nothing can be read afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Reader(_Held):
    """An open regular file: `size` and `executable` as of opening, `read` in chunks, each byte once."""

    __slots__ = ("executable", "path", "size")

    def __init__(self, path: str, size: int, executable: bool) -> None:
        self.path, self.size, self.executable = path, size, executable

    @abstractmethod
    def read(self, count: int = CHUNK) -> bytes:
        """At most `count` bytes; empty at the end of the file. Raises `file-read-failed`."""

    def chunks(self) -> Iterable[bytes]:
        """The rest of the file, which must not have been read before. A file smaller than a chunk is one read."""
        if self.size >= CHUNK:
            return self._rest(b"")
        # One byte more than the size: a regular file that answers with less has ended there.
        data = self.read(self.size + 1)
        if len(data) == self.size:
            return (data,) if data else ()
        return self._rest(data)

    def _rest(self, data: bytes) -> Iterator[bytes]:
        if data:
            yield data
        while chunk := self.read(CHUNK):
            yield chunk

    def read_all(self, limit: int) -> bytes:
        """The whole file; `parse-failed` if it is more than `limit` bytes."""
        if self.size > limit:
            raise too_large(self.path, limit)
        parts: list[bytes] = []
        total = 0
        for chunk in self.chunks():
            parts.append(chunk)
            total += len(chunk)
            if total > limit:
                raise too_large(self.path, limit)
        return parts[0] if len(parts) == 1 else b"".join(parts)


class Tree(_Held):
    """A root folder with files, read-only."""

    @abstractmethod
    def open(self, path: str) -> Reader:
        """The regular file at `path`, links inside the root followed.

        Raises `file-missing` for what is no regular file (the message says what it is),
        `path-symlink-outside-provider`, and `file-read-failed`.
        """

    def check(self, path: str) -> None:
        """Raise what `open` would raise, if it would."""
        self.open(path).close()

    @abstractmethod
    def files(self, folder: str, skip: Skip = lambda path: False) -> Iterator[str | BundlerError]:
        """Every regular file below `folder`, links inside the root followed, sorted folder by folder.

        What `skip` says yes to is passed over, a folder with all that it holds. What can't be carried (a
        dangling, looping or leaving link, a FIFO, an unreadable folder …) comes as the error that names
        it, so that a caller sees all of them.
        """

    @abstractmethod
    def entries(self, descend: Callable[[str], bool] = lambda folder: True) -> Iterator[Entry]:
        """Everything below the root, links not followed, a folder before what it holds. Raises `file-read-failed`.

        Into a folder that `descend` says no to it is not looked.
        """

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """The names in a folder, for hints; none if it can't be listed."""

    @property
    def roots(self) -> tuple[str, ...]:
        """The root's absolute paths on this machine, as given and with links resolved; none if it is not on disk."""
        return ()

    @abstractmethod
    def describe(self, path: str) -> str:
        """The path as a user would write it on this machine."""

    def small(self, path: str) -> tuple[bytes, bool] | None:
        """Content and executable bit of a file smaller than a chunk, read at once; None for a larger one.

        Raises what `open` raises.
        """
        with self.open(path) as reader:
            return None if reader.size >= CHUNK else (reader.read_all(CHUNK), reader.executable)

    def read(self, path: str, limit: int) -> bytes:
        """The bytes of the file at `path`; `parse-failed` if they are more than `limit`."""
        with self.open(path) as reader:
            return reader.read_all(limit)

    def close(self) -> None:
        """Most trees hold nothing."""


def not_a_file(path: str, what: str) -> BundlerError:
    hint = None  # for what does not exist, that of the code
    if what == "is a folder":
        hint = "name a file in the folder"
    elif not what.startswith("does not exist"):
        hint = "remove it, or put a regular file in its place"
    return BundlerError("file-missing", f"`{path or '.'}` {what}; a regular file is expected", path=path, hint=hint)


def too_large(path: str, limit: int) -> BundlerError:
    return BundlerError(
        "parse-failed",
        f"`{path}` is larger than {limit:,} bytes, the most that is parsed",
        path=path,
        hint="split the file; only files that are carried and not parsed may be of any size",
    )
