"""A tree whose files are read once: what is hashed, what is parsed and what is looked at again are the same bytes."""

from __future__ import annotations

from .base import Reader, Tree
from .memory import MemoryReader
from .wrapped import WrappedTree

#: The largest file that is kept, in bytes. A larger one is read anew each time: nothing that large is parsed.
MAX_KEPT = 64 * 1024 * 1024


class OnceTree(WrappedTree):
    """Passes on what another tree gives, and keeps each file of it that was opened. The other tree stays its owner's."""

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self._kept: dict[str, tuple[bytes, bool]] = {}

    def open(self, path: str) -> Reader:
        if path not in self._kept:
            reader = self._tree.open(path)
            if reader.size > MAX_KEPT:
                return reader
            with reader:
                self._kept[path] = (reader.read_all(MAX_KEPT), reader.executable)
        return MemoryReader(path, *self._kept[path])
