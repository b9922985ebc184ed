"""A tree in memory: for tests, and for content that never was on disk."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .base import CHUNK, Reader
from .mapped import MappedTree


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


class MemoryTree(MappedTree):
    """A tree that is a mapping of paths to bytes; for tests and for content that never was on disk."""

    def __init__(self, files: Mapping[str, bytes], executable: Collection[str] = ()) -> None:
        super().__init__(files)
        self._files = dict(files)
        self._executable = frozenset(executable)

    def open(self, path: str) -> MemoryReader:
        data = self._files.get(path)
        if data is None:
            raise self._missing(path)
        return MemoryReader(path, data, path in self._executable)

    def describe(self, path: str) -> str:
        return path or "."
