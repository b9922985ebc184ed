"""A wheel and an envelope → the wheel with the envelope in it, beside the bundle.

All other entries keep their bytes, compressed as they are, and their order; RECORD gets one row more and stays last.
So it takes no longer than copying the file, and the same wheel and envelope give the same bytes with the same zlib.
"""

from __future__ import annotations

import os
import struct
import zlib
from base64 import urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import IO

from ..bundle.swap import write_failed
from ..errors import BundlerError
from ..tree import CHUNK
from ..tree.archive import CENTRAL, DEFLATED, END, LOCAL, Archive
from ..tree.zipped import ZipTree
from .check import VerifiedWheel, open_wheel
from .contents import Contents
from .distinfo import MAX_BYTES
from .working import finish, working_folder

#: Signs a wheel's contents: the bytes of the envelope that goes into it.
Seal = Callable[[Contents], bytes]

_OFFSET = struct.Struct("<L")
_OFFSET_AT = CENTRAL.size - _OFFSET.size
# What sizes and counts without zip64 reach, with room for what is added.
_MAX_SIZE = 0xFFFFFFFF - 2 * MAX_BYTES
_MAX_ENTRIES = 0xFFFF - 1


def embed(wheel: VerifiedWheel, envelope: bytes, target: str | os.PathLike[str]) -> None:
    """Write the wheel, whose block is still open, with the envelope to `target`, which may be its own path; verified before.

    Raises `signature-exists` for a wheel that has one, `wheel-too-large`, `wheel-source-changed`, `output-write-failed`,
    and what verifying raises. After an error nothing was written.
    """
    path = os.path.abspath(os.fspath(target))
    if wheel.envelope is not None:
        raise BundlerError(
            "signature-exists",
            f"{wheel.path} has an envelope, which is never made anew: it is part of the release",
            path=wheel.path,
        )
    with working_folder(os.path.dirname(path)) as work:
        staged = work / wheel.identity.wheel_name
        with staged.open("xb") as file:
            _write(wheel, envelope, file)
        with open_wheel(staged) as written:
            if (written.contents, written.envelope) != (wheel.contents, envelope):
                raise BundlerError(
                    "wheel-source-changed", f"{wheel.path} was changed while it was signed", path=wheel.path
                )
        finish(staged)
        try:
            os.replace(staged, path)
        except OSError as error:
            raise write_failed(path, error) from None


def _write(wheel: VerifiedWheel, envelope: bytes, file: IO[bytes]) -> None:
    archive = wheel.archive
    record = f"{wheel.identity.dist_info}/RECORD"
    digest = urlsafe_b64encode(sha256(envelope).digest()).decode().rstrip("=")
    row = f"{wheel.identity.envelope},sha256={digest},{len(envelope)}\n"
    rows = row.encode() + ZipTree(archive).read(record, MAX_BYTES)
    entries, end = _directory(archive)
    pattern = entries.pop(record)
    member = archive.members[record]
    (begins,) = _OFFSET.unpack_from(pattern, _OFFSET_AT)
    following = member.offset + member.compressed
    _copy(archive, file, 0, begins)
    _copy(archive, file, following, end)
    parts = []
    for entry in entries.values():
        (offset,) = _OFFSET.unpack_from(entry, _OFFSET_AT)
        moved = offset - (following - begins) if offset > begins else offset
        parts.append(entry[:_OFFSET_AT] + _OFFSET.pack(moved) + entry[CENTRAL.size :])
    parts.extend(
        _add(file, name, data, pattern) for name, data in ((wheel.identity.envelope, envelope), (record, rows))
    )
    at, count = file.tell(), len(parts)
    size = sum(file.write(part) for part in parts)
    file.write(END.pack(b"PK\x05\x06", 0, 0, count, count, size, at, 0))


def _directory(archive: Archive) -> tuple[dict[str, bytes], int]:
    """The directory's entries by name, as they stand, and where it begins."""
    _, _, _, _, count, size, begins, _ = END.unpack(archive.read(archive.size - END.size, END.size))
    if archive.size > _MAX_SIZE or count > _MAX_ENTRIES:
        raise BundlerError(
            "wheel-too-large",
            f"{archive.file} has {archive.size:,} bytes and {count:,} files: an envelope can't be put into it",
            path=archive.file,
        )
    data = archive.read(begins, size)
    found: dict[str, bytes] = {}
    at = 0
    while at < len(data):
        fields = CENTRAL.unpack_from(data, at)
        name_end = at + CENTRAL.size + fields[11]
        following = name_end + fields[12] + fields[13]
        found[data[at + CENTRAL.size : name_end].decode()] = data[at:following]
        at = following
    return found, begins


def _copy(archive: Archive, file: IO[bytes], start: int, end: int) -> None:
    for at in range(start, end, CHUNK):
        file.write(archive.read(at, min(CHUNK, end - at)))


def _add(file: IO[bytes], name: str, data: bytes, pattern: bytes) -> bytes:
    """Write one entry, with the time and the mode of the entry `pattern`; its entry for the directory."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    packed = packer.compress(data) + packer.flush()
    _, version, system, needed, flags, _, time, date, *_, internal, attributes, _ = CENTRAL.unpack_from(pattern)
    path, offset = name.encode(), file.tell()
    common = (flags, DEFLATED, time, date, zlib.crc32(data), len(packed), len(data), len(path))
    file.write(LOCAL.pack(b"PK\x03\x04", needed, *common, 0) + path + packed)
    return CENTRAL.pack(b"PK\x01\x02", version, system, needed, *common, 0, 0, 0, internal, attributes, offset) + path
