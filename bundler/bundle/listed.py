"""A bundle's tree as its manifest lists it: what was hashed is what is read."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping

from ..errors import BundlerError
from ..protocol.canonical import sha256
from ..tree import CHUNK, MemoryReader, Reader, Skip, Tree
from ..tree.wrapped import WrappedTree

#: Bytes of hashed small files kept for parsing; what is beyond, and what is large, is read and hashed again.
MAX_KEPT_BYTES = 256 * 1024 * 1024


class ListedTree(WrappedTree):
    """The files that a bundle's manifest lists, each held to its digest while it is read."""

    def __init__(self, tree: Tree, digests: Mapping[str, str]) -> None:
        super().__init__(tree)
        self._digests = digests
        self._sorted = sorted(digests)
        #: Content that was hashed and is still to be parsed, and whether its file is executable.
        self.kept: dict[str, tuple[bytes, bool]] = {}
        #: Paths of what was hashed and has an executable bit.
        self.executable: set[str] = set()

    def open(self, path: str) -> Reader:
        kept = self.kept.get(path)
        if kept is not None:
            return MemoryReader(path, *kept)
        reader = self._tree.open(path)
        listed = self._digests.get(path)
        # What is not listed fails the verification in the end, whatever it holds.
        return reader if listed is None else _CheckedReader(reader, listed)

    def small(self, path: str) -> tuple[bytes, bool] | None:
        kept = self.kept.get(path)
        if kept is not None:
            return kept
        found = self._tree.small(path)
        listed = self._digests.get(path)
        if found is not None and listed is not None and sha256(found[0]) != listed:
            raise _changed(path)
        return found

    def check(self, path: str) -> None:
        if path not in self._digests:  # a listed file was opened when it was hashed
            self._tree.check(path)

    def files(self, folder: str, skip: Skip = lambda path: False) -> Iterator[str | BundlerError]:
        """Every listed file below the folder: in a bundle what the manifest lists counts, junk or not."""
        prefix = f"{folder}/" if folder else ""
        for index in range(bisect_left(self._sorted, prefix), len(self._sorted)):
            path = self._sorted[index]
            if not path.startswith(prefix):
                break
            yield path

    def close(self) -> None:
        self._tree.close()


class _CheckedReader(Reader):
    """Passes bytes through and refuses at the end if they are not those that the manifest lists."""

    __slots__ = ("_hasher", "_listed", "_reader")

    def __init__(self, reader: Reader, listed: str) -> None:
        super().__init__(reader.path, reader.size, reader.executable)
        self._reader, self._listed = reader, listed
        self._hasher = hashlib.sha256()

    def read(self, count: int = CHUNK) -> bytes:
        data = self._reader.read(count)
        self._hasher.update(data)
        if not data:
            self._check()
        return data

    def chunks(self) -> Iterator[bytes]:
        for chunk in self._reader.chunks():
            self._hasher.update(chunk)
            yield chunk
        self._check()

    def close(self) -> None:
        self._reader.close()

    def _check(self) -> None:
        if "sha256:" + self._hasher.hexdigest() != self._listed:
            raise _changed(self.path)


def _changed(path: str) -> BundlerError:
    return BundlerError("bundle-file-digest-mismatch", f"`{path}` has changed since it was verified", path=path)
