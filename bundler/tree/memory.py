"""A tree in memory: for tests, and for content that never was on disk."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from ..errors import BundlerError
from .base import CHUNK, Entry, Reader, Skip, Tree, folders_of, not_a_file


class MemoryReader(Reader):
    """A `Reader` over bytes."""

    __slots__ = ("_data", "_position")

    def __init__(self, path: str, data: bytes, executable: bool) -> None:
        super().__init__(path, len(data), executable)
        self._data = data
        self._position = 0

    def read(self, count: int = CHUNK) -> bytes:
        chunk = self._data[self._position : self._position + count]
        self._position += len(chunk)
        return chunk

    def close(self) -> None:
        self._position = len(self._data)


class MemoryTree(Tree):
    """A tree that is a mapping of paths to bytes; for tests and for content that never was on disk."""

    def __init__(self, files: Mapping[str, bytes], executable: Collection[str] = ()) -> None:
        self._files = dict(files)
        self._executable = frozenset(executable)
        self._folders = folders_of(files) | {""}

    def open(self, path: str) -> MemoryReader:
        data = self._files.get(path)
        if data is None:
            raise not_a_file(path, "is a folder" if path in self._folders else "does not exist")
        return MemoryReader(path, data, path in self._executable)

    def files(self, folder: str, skip: Skip = lambda path: False) -> Iterator[str | BundlerError]:
        if folder not in self._folders:
            yield not_a_file(folder, "does not exist" if folder not in self._files else "is no folder")
            return
        pending = [folder]
        while pending:
            above = pending.pop()
            prefix = f"{above}/" if above else ""
            below = sorted(
                {prefix + path[len(prefix) :].partition("/")[0] for path in self._files if path.startswith(prefix)}
            )
            kept = [path for path in below if not skip(path)]
            yield from (path for path in kept if path in self._files)
            pending.extend(path for path in reversed(kept) if path in self._folders)

    def entries(self, descend: Callable[[str], bool] = lambda folder: True) -> Iterator[Entry]:
        looked_into = {""}
        for path in sorted(self._folders - {""}):
            if path.rpartition("/")[0] in looked_into:
                yield Entry(path, "folder")
                if descend(path):
                    looked_into.add(path)
        for path in sorted(self._files):
            if path.rpartition("/")[0] in looked_into:
                yield Entry(path, "file")

    def names(self, folder: str) -> list[str]:
        prefix = f"{folder}/" if folder else ""
        return sorted({path[len(prefix) :].partition("/")[0] for path in self._files if path.startswith(prefix)})

    def describe(self, path: str) -> str:
        return path or "."
