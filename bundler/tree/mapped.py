"""A tree whose paths are known beforehand: what one in memory and one in an archive have in common."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from ..errors import BundlerError
from .base import Entry, Skip, Tree, folders_of, not_a_file


class MappedTree(Tree):
    """Lists files that were given by path; `folders` are those that hold none, or need not."""

    def __init__(self, paths: Collection[str], folders: Collection[str] = ()) -> None:
        self._paths = paths
        self._below: dict[str, list[str]] = {
            folder: [] for folder in (*folders_of(paths), *folders_of(folders), *folders, "")
        }
        for path in {*self._below, *paths} - {""}:
            self._below[path.rpartition("/")[0]].append(path)
        for listed in self._below.values():
            listed.sort()

    def _missing(self, path: str) -> BundlerError:
        return not_a_file(path, "is a folder" if path in self._below else "does not exist")

    def files(self, folder: str, skip: Skip = lambda path: False) -> Iterator[str | BundlerError]:
        if folder not in self._below:
            yield not_a_file(folder, "is no folder" if folder in self._paths else "does not exist")
            return
        pending = [folder]
        while pending:
            kept = [path for path in self._below[pending.pop()] if not skip(path)]
            yield from (path for path in kept if path not in self._below)
            pending.extend(path for path in reversed(kept) if path in self._below)

    def entries(self, descend: Callable[[str], bool] = lambda folder: True) -> Iterator[Entry]:
        pending = [""]
        while pending:
            inside: list[str] = []
            for path in self._below[pending.pop()]:
                is_folder = path in self._below
                yield Entry(path, "folder" if is_folder else "file")
                if is_folder and descend(path):
                    inside.append(path)
            pending.extend(reversed(inside))

    def names(self, folder: str) -> list[str]:
        return [path.rpartition("/")[2] for path in self._below.get(folder, ())]
