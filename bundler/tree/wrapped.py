"""A tree over another one: what it does not do otherwise is passed on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..errors import BundlerError
from .base import Entry, Skip, Tree


class WrappedTree(Tree):
    """Passes on everything but `open`."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

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
