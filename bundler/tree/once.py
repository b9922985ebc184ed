"""A tree whose files are read once: what is hashed, what is parsed and what is looked at again are the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..errors import BundlerError
from .base import Entry, Reader, Skip, Tree
from .memory import MemoryReader

#: The largest file that is kept, in bytes. A larger one is read anew each time: nothing that large is parsed.
MAX_KEPT = 64 * 1024 * 1024


class OnceTree(Tree):
    """Passes on what another tree gives, and keeps each file of it that was opened. The other tree stays its owner's."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._kept: dict[str, tuple[bytes, bool]] = {}

    def open(self, path: str) -> Reader:
        if path not in self._kept:
            reader = self._tree.open(path)
            if reader.size > MAX_KEPT:
                return reader
            with reader:
                self._kept[path] = (reader.read_all(MAX_KEPT), reader.executable)
        return MemoryReader(path, *self._kept[path])

    def files(self, folder: str, skip: Skip = lambda path: False) -> Iterator[str | BundlerError]:
        return self._tree.files(folder, skip)

    def entries(self, descend: Callable[[str], bool] = lambda folder: True) -> Iterator[Entry]:
        return self._tree.entries(descend)

    def names(self, folder: str) -> list[str]:
        return self._tree.names(folder)

    @property
    def roots(self) -> tuple[str, ...]:
        return self._tree.roots

    def describe(self, path: str) -> str:
        return self._tree.describe(path)
