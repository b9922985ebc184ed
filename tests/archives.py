"""A zip writer that can lie: each field of each header is written as it is given."""

from __future__ import annotations

import stat
import struct
import zlib
from collections.abc import Sequence
from typing import Any

STORED, DEFLATED = 0, 8
UTF_8 = 0x800
FILE, FOLDER = (stat.S_IFREG | 0o644) << 16, (stat.S_IFDIR | 0o755) << 16 | 0x10
FULL_16, FULL_32 = 0xFFFF, 0xFFFFFFFF

Fields = dict[str, Any]


def deflated(content: bytes) -> bytes:
    """The content as a raw deflate stream."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(content) + packer.flush()


def entry(name: str | bytes, content: bytes = b"content", **lies: Any) -> Fields:
    """An entry that is true but for its `lies`.

    They replace a field in both headers, or in one with `local_` or `central_` before its name; `packed` are the bytes
    that stand for the content, `before` and `after` what is written around the whole entry. With `zip64` the sizes
    stand in an extra field of both headers.
    """
    raw = name.encode() if isinstance(name, str) else name
    packed = lies.get("packed", deflated(content) if lies.get("method") == DEFLATED else content)
    both: Fields = {"name": raw, "needed": 20, "flags": 0 if raw.isascii() else UTF_8, "method": STORED, "time": 0}
    both |= {"date": 0x21, "crc": zlib.crc32(content), "compressed": len(packed), "size": len(content), "extra": b""}
    both |= {"system": 3, "comment": b"", "disk": 0, "internal": 0, "attributes": FILE, "offset": None}
    if raw.endswith(b"/"):
        both["attributes"] = FOLDER
    if lies.get("zip64"):
        both |= {"extra": zip64(len(content), len(packed)), "size": FULL_32, "compressed": FULL_32, "needed": 45}
    both |= {key: value for key, value in lies.items() if key in both}
    made: Fields = {"packed": packed, "before": lies.get("before", b""), "after": lies.get("after", b"")}
    for place in ("local_", "central_"):
        made |= {place + key: value for key, value in both.items()}
    for key, value in lies.items():
        if key not in both and key not in ("packed", "before", "after", "zip64"):
            assert key in made, key
            made[key] = value
    return made


def folder(name: str, **lies: Any) -> Fields:
    """An entry for a folder."""
    return entry(f"{name}/", b"", **lies)


def extra(kind: int, data: bytes) -> bytes:
    """An extra field."""
    return struct.pack("<2H", kind, len(data)) + data


def zip64(*values: int) -> bytes:
    """zip64's extra field."""
    return extra(1, struct.pack(f"<{len(values)}Q", *values))


def write(
    entries: Sequence[Fields],
    *,
    before: bytes = b"",
    between: bytes = b"",
    after: bytes = b"",
    end: Fields | None = None,
    end_64: Fields | None = None,
) -> bytes:
    """The archive: entries, directory, end record; `between` stands before the directory.

    `end` are lies of the end record. Where `end_64` is given there is one of zip64 too, with these lies; those of its
    locator are `locator_disk`, `place` and `disks`.
    """
    out = bytearray(before)
    directory = bytearray()
    for each in entries:
        out += each["before"]
        offset = len(out) if each["central_offset"] is None else each["central_offset"]
        fields = {key.removeprefix("local_"): value for key, value in each.items() if key.startswith("local_")}
        out += b"PK\x03\x04" + _common(fields) + fields["name"] + fields["extra"] + each["packed"] + each["after"]
        fields = {key.removeprefix("central_"): value for key, value in each.items() if key.startswith("central_")}
        directory += b"PK\x01\x02" + bytes([fields.get("version", 20), fields["system"]]) + _common(fields)
        directory += struct.pack("<3H2L", len(fields["comment"]), *(fields[key] for key in _CENTRAL_ONLY), offset)
        directory += fields["name"] + fields["extra"] + fields["comment"]
    out += between
    true: Fields = {"disk": 0, "first_disk": 0, "here": len(entries), "count": len(entries)}
    true |= {"size": len(directory), "offset": len(out)}
    out += directory
    comment = b""
    if end_64 is not None:
        long: Fields = {"signature": b"PK\x06\x06", "length": 44, "place": len(out), "locator_disk": 0, "disks": 1}
        long |= true | end_64
        out += long["signature"] + struct.pack("<Q2H2L", long["length"], 45, 45, long["disk"], long["first_disk"])
        out += struct.pack("<4Q", *(long[key] for key in ("here", "count", "size", "offset")))
        out += b"PK\x06\x07" + struct.pack("<LQL", long["locator_disk"], long["place"], long["disks"])
    if end is not None:
        true |= end
        comment = end.get("comment", b"")
    out += b"PK\x05\x06" + struct.pack("<4H2L", *(true[key] for key in _END)) + struct.pack("<H", len(comment))
    return bytes(out) + comment + after


_CENTRAL_ONLY = ("disk", "internal", "attributes")
_END = ("disk", "first_disk", "here", "count", "size", "offset")


def _common(fields: Fields) -> bytes:
    """What both headers have, from the version that is needed to the lengths of name and extra field."""
    numbers = (fields[key] for key in ("needed", "flags", "method", "time", "date", "crc", "compressed", "size"))
    return struct.pack("<5H3L2H", *numbers, len(fields["name"]), len(fields["extra"]))
