"""A zip file as a tree: content is decompressed while it is read, and held to the size and CRC of its entry."""

from __future__ import annotations

import os
import zlib

from .archive import DEFLATED, Archive, Member
from .base import CHUNK, Reader
from .mapped import MappedTree


class MemberReader(Reader):
    """A `Reader` over one file of an archive. Raises `archive-invalid` where content and entry disagree."""

    __slots__ = ("_archive", "_crc", "_given", "_left", "_member", "_offset")

    def __init__(self, path: str, archive: Archive, member: Member) -> None:
        super().__init__(path, member.size, member.executable)
        self._archive, self._member = archive, member
        self._offset, self._left = member.offset, member.compressed
        self._given = self._crc = 0

    def read(self, count: int = CHUNK) -> bytes:
        data = self._next(count)
        self._crc = zlib.crc32(data, self._crc)
        self._given += len(data)
        if not data or self._given >= self.size:
            self._check_end()
        return data

    def close(self) -> None:
        self._left = 0

    def _next(self, count: int) -> bytes:
        return self._packed(count)

    def _is_complete(self) -> bool:
        return not self._left

    def _packed(self, count: int) -> bytes:
        count = min(count, self._left)
        data = self._archive.read(self._offset, count)
        self._offset += count
        self._left -= count
        return data

    def _check_end(self) -> None:
        if self._given != self.size or not self._is_complete():
            raise self._archive.invalid("its content is shorter or longer than its entry says", self._member.path)
        if self._crc != self._member.crc:
            raise self._archive.invalid("its content does not have the CRC of its entry", self._member.path)


class _DeflatedReader(MemberReader):
    __slots__ = ("_unpacker",)

    def __init__(self, path: str, archive: Archive, member: Member) -> None:
        super().__init__(path, archive, member)
        self._unpacker = zlib.decompressobj(-zlib.MAX_WBITS)

    def _next(self, count: int) -> bytes:
        # One byte more than there should be shows content that is longer, and no more of it is ever made.
        count = min(count, self.size - self._given + 1)
        try:
            while not self._unpacker.eof:
                packed = self._unpacker.unconsumed_tail or self._packed(CHUNK)
                data = self._unpacker.decompress(packed, count)
                if data or not packed:
                    return data
        except zlib.error:
            raise self._archive.invalid("its content can't be decompressed", self._member.path) from None
        return b""

    def _is_complete(self) -> bool:
        # All content was given; the end of the stream may still be to come.
        return not self._next(1) and self._unpacker.eof and not self._unpacker.unused_data and not self._left


class ZipTree(MappedTree):
    """A folder of an archive as a tree; `prefix` is that folder, with a `/` at its end, or empty for all of it.

    The archive belongs to whoever opened it.
    """

    def __init__(self, archive: Archive, prefix: str = "") -> None:
        start = len(prefix)
        self._members = {path[start:]: each for path, each in archive.members.items() if path.startswith(prefix)}
        super().__init__(self._members, [path[start:] for path in archive.folders if path.startswith(prefix)])
        self._archive = archive
        self._prefix = prefix

    def open(self, path: str) -> MemberReader:
        member = self._members.get(path)
        if member is None:
            raise self._missing(path)
        reader = _DeflatedReader if member.method == DEFLATED else MemberReader
        return reader(path, self._archive, member)

    def describe(self, path: str) -> str:
        inside = (self._prefix + path).rstrip("/")
        return os.path.join(self._archive.file, inside) if inside else self._archive.file
