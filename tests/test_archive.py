"""Zip files: a hostile corpus, each case refused for its own reason, and what has to be read.

What a case lies about is written by `archives`; the standard library's zip reader is used to write, never to judge.
"""

from __future__ import annotations

import os
import random
import re
import stat
import struct
import subprocess
import sys
import unicodedata
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundler.errors import BundlerError
from bundler.tree import CHUNK, Entry, archive
from bundler.tree.archive import Archive
from bundler.tree.zipped import ZipTree

from .archives import DEFLATED, FILE, FOLDER, FULL_16, FULL_32, UTF_8, deflated, entry, extra, folder, write, zip64

TEXT = b"some content that packs, that packs, that packs\n"


def read(file: Path) -> dict[str, bytes]:
    """Every file of the archive, read to its end."""
    with ZipTree(found := Archive(file)) as tree:
        try:
            return {path: tree.read(path, 1 << 40) for path in found.members}
        finally:
            found.close()


def read_bytes(data: bytes, folder: Path) -> dict[str, bytes]:
    file = folder / "archive.zip"
    file.write_bytes(data)
    return read(file)


def refusal(data: bytes, folder: Path) -> BundlerError:
    with pytest.raises(BundlerError) as raised:
        read_bytes(data, folder)
    return raised.value


class Case(NamedTuple):
    """A hostile archive; `says` is a part of the message, `code` follows `archive-`."""

    data: bytes
    says: str
    code: str = "invalid"


def one(**lies: Any) -> bytes:
    """An archive of a true entry, one that lies, and a true one."""
    name = lies.pop("name", "b")
    return write([entry("a"), entry(name, lies.pop("content", TEXT), **lies), entry("c/d")])


def named(name: str | bytes, **lies: Any) -> bytes:
    return write([entry("a"), entry(name, **lies)])


def cut(data: bytes, count: int) -> bytes:
    return data[:-count]


def stream(packed: bytes, content: bytes = TEXT, **lies: Any) -> bytes:
    return one(content=content, method=DEFLATED, packed=packed, **lies)


PLAIN = write([entry("a", TEXT), entry("b/c", TEXT, method=DEFLATED)])
PACKED = deflated(TEXT)
NESTED = write([entry("bomb", b"\0" * 5_000_000, method=DEFLATED)])
BIG = 1 << 33

FILES = {
    "empty file": Case(b"", "it is empty"),
    "a few bytes": Case(b"PK", "too short"),
    "no zip file": Case(b"#!/bin/sh\n" * 50, "it does not end in a zip file's end record"),
    "truncated by one": Case(cut(PLAIN, 1), "it does not end in"),
    "truncated in the directory": Case(cut(PLAIN, 60), "it does not end in"),
    "end record alone, of more": Case(PLAIN[-22:], "does not end where its end record begins"),
    "beginning is gone": Case(PLAIN[5:], "does not end where its end record begins"),
    "no directory": Case(write([entry("a")])[:38] + PLAIN[-22:], "does not end where"),
    "no directory, and none counted": Case(
        write([], between=b"content"), "something that belongs to no entry lies before its directory"
    ),
    "archive comment": Case(write([entry("a")], end={"comment": b"note"}), "something follows"),
    "archive comment that is an end record": Case(
        write([entry("a")], end={"comment": write([])}), "does not end where its end record begins"
    ),
    "trailing data": Case(write([entry("a")], after=b"\0"), "something follows"),
    "trailing archive": Case(PLAIN + PLAIN, "does not end where its end record begins"),
    "prepended data": Case(write([entry("a")], before=b"#!/bin/sh\n"), "something that belongs to no entry"),
    "prepended data that no offset counts": Case(b"MZ" + PLAIN, "does not end where its end record begins"),
    "gap between entries": Case(write([entry("a"), entry("b", before=b"gap")]), "something that belongs to no entry"),
    "gap before the directory": Case(write([entry("a")], between=b"gap"), "something that belongs to no entry"),
    "gap that is an entry of its own": Case(
        write([entry("a"), entry("c", before=PLAIN[:60])]), "something that belongs to no entry"
    ),
    "gap behind the directory": Case(write([entry("a")], end={"size": 40}), "does not end where"),
    "one of several parts": Case(write([entry("a")], end={"disk": 1}), "one of several parts"),
    "directory in another part": Case(write([entry("a")], end={"first_disk": 1}), "one of several parts"),
    "fewer entries in this part": Case(write([entry("a"), entry("b")], end={"here": 1}), "one of several parts"),
    "too few entries counted": Case(
        write([entry("a"), entry("b")], end={"count": 1, "here": 1}), "holds more than its end record counts"
    ),
    "no entries counted": Case(write([entry("a")], end={"count": 0, "here": 0}), "holds more than"),
    "too many entries counted": Case(
        write([entry("a"), entry("b" * 90)], end={"count": 3, "here": 3}), "ends in the middle of an entry"
    ),
    "far too many entries counted": Case(
        write([entry("a")], end={"count": 60_000, "here": 60_000}), "for which its directory is too short"
    ),
    "all ones counted": Case(write([entry("a")], end={"count": FULL_16, "here": FULL_16}), "is too short"),
    "directory elsewhere": Case(write([entry("a")], end={"offset": 0}), "does not end where"),
    "directory larger than the file": Case(write([entry("a")], end={"size": FULL_32}), "does not end where"),
    "broken entry of the directory": Case(PLAIN.replace(b"PK\x01\x02", b"PK\x01\x03", 1), "its directory is broken"),
    "name longer than the directory": Case(
        write([entry("a")]).replace(b"\x01\0\0\0\0\0\0\0\0\0\0\0\xa4\x81", b"\xff\xff\0\0\0\0\0\0\0\0\0\0\xa4\x81"),
        "its directory is broken",
    ),
}
PLACES = {
    "two entries for one content": Case(
        write([entry("a"), entry("b", central_offset=0)]), "`b`: its content overlaps that of the entry"
    ),
    "overlapping entries": Case(write([entry("a"), entry("b", central_offset=20)]), "overlaps that of the entry"),
    "an entry inside of another's content": Case(
        write([entry("a", write([entry("b")])[:38]), entry("b", central_offset=31)]), "overlaps that of the entry"
    ),
    "content runs into the next entry": Case(
        write([entry("a", compressed=20, size=20), entry("b")]), "overlaps that of the entry"
    ),
    "content runs into the directory": Case(one(name="z", compressed=90, size=90), "reaches beyond the part"),
    "content runs out of the file": Case(named("b", compressed=4_000, size=4_000), "reaches beyond the part"),
    "header in the directory": Case(named("b", central_offset=85), "belongs to no entry"),
    "offset behind the file": Case(named("b", central_offset=1 << 30), "belongs to no entry"),
    "no local header": Case(PLAIN.replace(b"PK\x03\x04", b"PK\x03\x05", 1), "there is no header where it is to begin"),
    "name that runs into the directory": Case(
        write([entry("a"), entry("b" * 90, b"", local_name=b"")]), "its content reaches beyond the part"
    ),
}
DISAGREEING = {
    "local name": Case(one(local_name=b"x"), "`b`: its local header has another name"),
    "local name that is longer": Case(one(local_name=b"bb"), "another name"),
    "local name in another case": Case(one(local_name=b"B"), "another name"),
    "local size": Case(one(local_size=1), "disagree about its size"),
    "local compressed size": Case(one(local_compressed=1), "disagree about its compressed size"),
    "local CRC": Case(one(local_crc=1), "disagree about its CRC"),
    "local method": Case(one(local_method=DEFLATED), "disagree about its method"),
    "local flags": Case(one(local_flags=UTF_8), "disagree about its flags"),
    "encrypted only in the local header": Case(one(local_flags=1), "disagree about its flags"),
    "data descriptor only in the local header": Case(one(local_flags=8, local_crc=0), "disagree about its flags"),
    "local time": Case(one(local_time=1), "disagree about its time"),
    "local date": Case(one(local_date=1), "disagree about its date"),
    "local zip64 sizes": Case(one(zip64=True, local_extra=zip64(1, len(TEXT))), "disagree about its size"),
}
SIZES = {
    "stored, declared smaller": Case(one(size=3), "it is stored, and its two sizes differ"),
    "stored, declared smaller in both": Case(one(size=3, compressed=3), "something that belongs to no entry"),
    "stored, declared larger": Case(one(size=400), "it is stored, and its two sizes differ"),
    "deflated, declared smaller": Case(stream(PACKED, size=len(TEXT) - 1), "shorter or longer than its entry says"),
    "deflated, declared larger": Case(stream(PACKED, size=len(TEXT) + 1), "shorter or longer than its entry says"),
    "deflated, declared empty": Case(stream(PACKED, size=0, crc=0), "shorter or longer than its entry says"),
    "compressed declared smaller": Case(stream(PACKED, compressed=len(PACKED) - 1), "belongs to no entry"),
    "CRC of other content": Case(one(crc=zlib.crc32(b"else")), "does not have the CRC of its entry"),
    "CRC of other content, deflated": Case(stream(PACKED, crc=1), "does not have the CRC"),
    "CRC of an empty file": Case(one(content=b"", crc=1), "does not have the CRC"),
    "CRC of an empty deflated file": Case(stream(deflated(b""), b"", crc=1), "does not have the CRC"),
    "stream ends early": Case(stream(PACKED[:-3]), "shorter or longer than its entry says"),
    "stream lacks its last byte": Case(stream(PACKED[:-1]), "shorter or longer than its entry says"),
    "stream without its end": Case(stream(b"\0\x30\0\xcf\xff" + TEXT), "shorter or longer than its entry says"),
    "stream has trailing garbage": Case(stream(PACKED + b"garbage"), "shorter or longer than its entry says"),
    "stream is followed by another": Case(stream(PACKED + PACKED), "shorter or longer than its entry says"),
    "stream has much trailing garbage": Case(stream(PACKED + bytes(3 * CHUNK)), "shorter or longer"),
    "stream is longer than declared": Case(stream(deflated(TEXT + b"more")), "shorter or longer than"),
    "stream is a chunk longer than declared": Case(stream(deflated(TEXT + bytes(2 * CHUNK))), "shorter or longer"),
    "stream is broken": Case(stream(b"\xff" * 40), "can't be decompressed"),
    "stream with zlib's header": Case(stream(zlib.compress(TEXT)), "can't be decompressed"),
    "stream is empty": Case(stream(b""), "shorter or longer than its entry says"),
    "empty file without a stream": Case(stream(b"", b""), "shorter or longer than its entry says"),
    "large stream ends early": Case(
        stream(deflated(bytes(3 * CHUNK))[:-9], bytes(3 * CHUNK)), "shorter or longer than its entry says"
    ),
}
NAMES = {
    "absolute": Case(named("/etc/passwd"), "`/etc/passwd`: its name is an absolute path", "path-invalid"),
    "drive": Case(named("C:/x"), "its name is an absolute path", "path-invalid"),
    "relative to a drive": Case(named("c:x"), "its name is an absolute path", "path-invalid"),
    "share": Case(named("//host/share"), "its name is an absolute path", "path-invalid"),
    "parent": Case(named("../x"), "leads out of the folder", "path-invalid"),
    "parent in the middle": Case(named("b/../../x"), "leads out of the folder", "path-invalid"),
    "parent at the end": Case(named("b/.."), "leads out of the folder", "path-invalid"),
    "parent as a folder": Case(write([folder("..")]), "leads out of the folder", "path-invalid"),
    "backslash": Case(named("b\\c"), "a backslash or a control character", "path-invalid"),
    "parent with backslashes": Case(named("..\\x"), "a backslash", "path-invalid"),
    "NUL": Case(named("b\0.txt"), r"`b\\x00\.txt`: its name contains", "path-invalid"),
    "line end": Case(named("b\nc"), r"`b\\x0ac`", "path-invalid"),
    "escape": Case(named("\x1b[31mb"), r"`\\x1b\[31mb`", "path-invalid"),
    "delete": Case(named("b\x7f"), "a control character", "path-invalid"),
    "control character of C1": Case(named("b\x9bc"), "a control character", "path-invalid"),
    "over-long": Case(named("b" * 5_000), "`b{50}` has 5,000 bytes; 4,096 is the most", "limit-exceeded"),
    "segment that is over-long": Case(
        named("x/" + "ü" * 256), "a part of its name has more than 255", "limit-exceeded"
    ),
    "empty": Case(named(""), "it has no name", "path-invalid"),
    "dot": Case(named("."), "not in normal form", "path-invalid"),
    "dot in front": Case(named("./b"), "not in normal form", "path-invalid"),
    "dot in the middle": Case(named("b/./c"), "not in normal form", "path-invalid"),
    "empty segment": Case(named("b//c"), "not in normal form", "path-invalid"),
    "two slashes at the end": Case(write([entry("b//", b"")]), "not in normal form", "path-invalid"),
    "slash alone": Case(write([entry("/", b"")]), "absolute path", "path-invalid"),
    "no UTF-8": Case(named(b"b\xff", flags=UTF_8), r"`b\\xff`: its name is not valid UTF-8", "path-invalid"),
    "UTF-8 that is too long": Case(named(b"\xc0\xaf", flags=UTF_8), "not valid UTF-8", "path-invalid"),
    "surrogate": Case(named(b"\xed\xa0\x80", flags=UTF_8), "not valid UTF-8", "path-invalid"),
    "UTF-8 without the flag": Case(named("ü", flags=0), "or is not marked as such", "path-invalid"),
    "code page 437": Case(named(b"\x81", flags=0), "not valid UTF-8", "path-invalid"),
    "twice": Case(write([entry("a"), entry("b"), entry("a", TEXT)]), "`a`: there are two entries of this name"),
    "folder twice": Case(write([folder("a"), folder("a"), entry("a/b")]), "two entries of this name"),
    "equal but for case": Case(write([entry("x/readme"), entry("x/README")]), "`x/README`: it differs from"),
    "folders equal but for case": Case(write([entry("x/a"), entry("X/b")]), "`X`: it differs from `x` only in case"),
    "equal but for Unicode form": Case(
        write([entry("é"), entry(unicodedata.normalize("NFD", "é"))]), "only in case or Unicode form"
    ),
    "equal when folded": Case(write([entry("straße"), entry("STRASSE")]), "only in case or Unicode form"),
    "folder entry equal but for case": Case(write([entry("a"), folder("A")]), "only in case"),
    "a file and a folder": Case(write([entry("a"), folder("a")]), "`a`: there are a file and a folder of this name"),
    "a file that files lie in": Case(write([entry("a/b"), entry("a")]), "`a`: it is a file, and `a/b` lies in it"),
    "a file that files lie deep in": Case(write([entry("a"), entry("a/b/c/d")]), "`a`: it is a file, and `a/b/c/d`"),
    "a file that a folder lies in": Case(write([entry("a"), folder("a/b")]), "`a`: it is a file, and `a/b` lies in it"),
    "a file that a folder lies deep in": Case(write([folder("a/b/c"), entry("a")]), "`a`: it is a file"),
}
KINDS = {
    "folder with content": Case(write([entry("x/", TEXT)]), "`x/`: it is a folder, and has content"),
    "folder with a CRC": Case(write([entry("x/", b"", crc=5)]), "it is a folder, and has content"),
    "folder with a stream": Case(write([entry("x/", b"", method=DEFLATED)]), "it is a folder, and has content"),
    "folder that is a file": Case(write([entry("x/", b"", attributes=FILE)]), "something else than its name does"),
    "file that is a folder": Case(one(attributes=FOLDER & ~0x10), "something else than its name does"),
    "file that is a folder without modes": Case(one(attributes=0x10), "something else than its name does"),
    "reparse point": Case(one(attributes=FILE | 0x400), "something else than its name does"),
    "volume label": Case(one(attributes=FILE | 0x08), "something else than its name does"),
    "symbolic link": Case(one(attributes=(stat.S_IFLNK | 0o777) << 16), "`b`: it is a symbolic link; a regular file"),
    "symbolic link as a folder": Case(
        write([entry("x/", b"", attributes=(stat.S_IFLNK | 0o777) << 16)]), "it is a symbolic link"
    ),
    "symbolic link of another system": Case(one(attributes=(stat.S_IFLNK | 0o777) << 16, system=0), "symbolic link"),
    "character device": Case(one(attributes=(stat.S_IFCHR | 0o644) << 16), "it is a device"),
    "block device": Case(one(attributes=(stat.S_IFBLK | 0o644) << 16), "it is a device"),
    "FIFO": Case(one(attributes=(stat.S_IFIFO | 0o644) << 16), "it is a FIFO"),
    "socket": Case(one(attributes=(stat.S_IFSOCK | 0o644) << 16), "it is a socket"),
    "unknown kind": Case(one(attributes=0x3000 << 16), "something else than its name does"),
    "setuid": Case(one(attributes=(stat.S_IFREG | 0o4755) << 16), "sets the user, the group or the sticky bit"),
    "setgid": Case(one(attributes=(stat.S_IFREG | 0o2755) << 16), "sets the user, the group or the sticky bit"),
    "sticky": Case(one(attributes=0o1644 << 16), "sets the user, the group or the sticky bit"),
    "executable that is not marked as a file": Case(one(attributes=0o755 << 16), "it is executable and not marked"),
    "encrypted": Case(one(flags=1), "it is encrypted"),
    "strongly encrypted": Case(one(flags=1 << 6), "it is encrypted"),
    "encrypted header": Case(one(flags=1 << 13), "its header is encrypted"),
    "data descriptor": Case(
        one(flags=8, local_crc=0, after=struct.pack("<4s3L", b"PK\x07\x08", zlib.crc32(TEXT), 48, 48)),
        "its sizes stand behind it, in a data descriptor",
    ),
    "data descriptor that is not there": Case(one(flags=8), "in a data descriptor"),
    "patch": Case(one(flags=1 << 5), "it is a patch"),
    "unknown flag": Case(one(flags=1 << 4), "flags that are not known"),
    "bzip2": Case(one(method=12), "compressed by method 12; stored and deflated are expected"),
    "LZMA": Case(one(method=14), "compressed by method 14"),
    "deflate64": Case(one(method=9), "compressed by method 9"),
    "unknown method": Case(one(method=FULL_16), "compressed by method 65535"),
    "entry comment": Case(one(central_comment=b"note"), "`b`: it has a comment"),
    "another part": Case(one(central_disk=1), "it lies in another part"),
    "unknown system": Case(one(central_system=19), "its attributes are of system 19"),
    "later version of the format": Case(one(needed=63), "it needs version 6.3 of the format"),
    "Unix times": Case(one(extra=extra(0x5455, b"\x01\0\0\0\0")), "an extra field that no wheel needs"),
    "Unicode path": Case(
        one(extra=extra(0x7075, b"\x01" + struct.pack("<L", zlib.crc32(b"b")) + b"../x")),
        "an extra field that no wheel",
    ),
    "extra field of the local header": Case(one(local_extra=extra(0xCAFE, b"")), "an extra field that no wheel needs"),
    "extra field that is cut off": Case(one(extra=b"\x01"), "an extra field that is broken"),
    "extra field longer than it is": Case(one(extra=b"\x01\0\x08\0"), "an extra field that no wheel needs"),
    "another behind zip64": Case(
        one(zip64=True, extra=zip64(48, 48) + extra(0xCAFE, b"x")), "extra field that no wheel"
    ),
}
ZIP64 = {
    "sizes without need": Case(one(central_extra=zip64(48, 48)), "its zip64 sizes are not as they are to be"),
    "no sizes": Case(one(extra=zip64()), "an extra field that no wheel needs"),
    "needed and missing": Case(one(size=FULL_32, compressed=FULL_32), "an extra field that is broken"),
    "too few sizes": Case(one(zip64=True, central_extra=zip64(48)), "zip64 sizes are not as they are to be"),
    "too many sizes": Case(one(zip64=True, central_extra=zip64(48, 48, 55)), "zip64 sizes are not as"),
    "four values": Case(one(zip64=True, extra=zip64(48, 48, 55, 0)), "an extra field that no wheel needs"),
    "half a value": Case(one(extra=extra(1, bytes(12))), "an extra field that no wheel needs"),
    "local: too few sizes": Case(one(zip64=True, local_extra=zip64(48)), "zip64 sizes are not as they are to be"),
    "local: an offset too": Case(one(zip64=True, local_extra=zip64(48, 48, 38)), "zip64 sizes are not as"),
    "local: beside other sizes": Case(
        one(zip64=True, local_size=47, local_compressed=47), "zip64 sizes are not as they are to be"
    ),
    "size beyond the file": Case(
        one(zip64=True, extra=zip64(4_000, 4_000)), "reaches beyond the part that is for content"
    ),
    "all ones": Case(one(zip64=True, extra=zip64((1 << 64) - 1, (1 << 64) - 1)), "is the most", "limit-exceeded"),
    "offset beyond the file": Case(
        one(central_offset=FULL_32, central_extra=zip64(1 << 63)), "something that belongs to no entry"
    ),
    "end records disagree: count": Case(write([entry("a")], end={"count": 2}, end_64={}), "two end records disagree"),
    "end records disagree: here": Case(write([entry("a")], end={"here": 2}, end_64={}), "two end records disagree"),
    "end records disagree: size": Case(write([entry("a")], end={"size": 2}, end_64={}), "two end records disagree"),
    "end records disagree: offset": Case(write([entry("a")], end={"offset": 2}, end_64={}), "end records disagree"),
    "end records disagree: part": Case(write([entry("a")], end={"disk": 2}, end_64={}), "end records disagree"),
    "end records disagree: first part": Case(
        write([entry("a")], end={"first_disk": FULL_16}, end_64={}), "end records disagree"
    ),
    "end record full for no reason": Case(
        write([entry("a")], end={"count": FULL_16, "here": FULL_16}, end_64={}), "end records disagree"
    ),
    "end record of several parts": Case(write([entry("a")], end={"disk": 1}, end_64={"disk": 1}), "several parts"),
    "end record counts too many": Case(
        write([entry("a")], end={"count": FULL_16, "here": FULL_16}, end_64={"count": 100_000, "here": 100_000}),
        "counts 100,000 entries, for which its directory is too short",
    ),
    "end record counts beyond measure": Case(
        write([entry("a")], end={"count": FULL_16, "here": FULL_16}, end_64={"count": 1 << 60, "here": 1 << 60}),
        "210,000 is the most",
        "limit-exceeded",
    ),
    "end record is longer": Case(write([entry("a")], end_64={"length": 60}), "zip64 end record is not as it is to be"),
    "end record is none": Case(write([entry("a")], end_64={"signature": b"PK\6\5"}), "zip64 end record is not as"),
    "locator leads elsewhere": Case(write([entry("a")], end_64={"place": 0}), "zip64 end record is not as"),
    "locator of another part": Case(write([entry("a")], end_64={"locator_disk": 1}), "zip64 end record is not as"),
    "locator of several parts": Case(write([entry("a")], end_64={"disks": 2}), "zip64 end record is not as"),
    "locator without a record": Case(
        b"PK\x06\x07" + bytes(16) + write([], end={"offset": 20}), "zip64 end record is not as it is to be"
    ),
    "directory of zip64 elsewhere": Case(
        write([entry("a")], end={"offset": FULL_32, "size": FULL_32}, end_64={"offset": BIG, "size": BIG}),
        "does not end where its end record begins",
    ),
}
LIMITS = {
    "ratio bomb": Case(one(content=b"", method=DEFLATED, packed=bytes(9), size=1 << 30), "200 times", "limit-exceeded"),
    "file too large": Case(one(zip64=True, extra=zip64(1 << 35, 1 << 35)), "17,179,869,184 is the", "limit-exceeded"),
    "bomb in many files": Case(
        write([entry(str(n), b"", method=DEFLATED, packed=bytes(9), size=60_000_000) for n in range(9)]),
        "become 540,000,000: more than 200 times as many",
        "limit-exceeded",
    ),
}
GROUPS = {
    "file": FILES,
    "place": PLACES,
    "headers disagree": DISAGREEING,
    "size": SIZES,
    "name": NAMES,
    "kind": KINDS,
    "zip64": ZIP64,
    "limit": LIMITS,
}
HOSTILE = {f"{group}: {name}": case for group, cases in GROUPS.items() for name, case in cases.items()}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archives_are_refused(name: str, tmp_path: Path) -> None:
    case = HOSTILE[name]
    error = refusal(case.data, tmp_path)
    assert error.code == f"archive-{case.code}"
    assert re.search(case.says, error.message), error.message
    assert error.message.startswith(f"{tmp_path / 'archive.zip'}:")
    assert error.message.isprintable()
    assert error.hint


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    for length in range(len(PLAIN)):
        assert refusal(PLAIN[:length], tmp_path).code == "archive-invalid"


def test_every_changed_byte_is_refused_or_changes_no_content(tmp_path: Path) -> None:
    content = read_bytes(PLAIN, tmp_path)
    harmless = 0
    for position in range(len(PLAIN)):
        for change in (1, 0x20, 0x80, 0xFF):
            data = bytearray(PLAIN)
            data[position] ^= change
            with suppress(BundlerError):  # anything else fails
                assert read_bytes(bytes(data), tmp_path) == content
                harmless += 1
    # What nobody needs: versions, internal attributes, modes.
    assert 0 < harmless < len(PLAIN) // 4


def test_nothing_is_read_by_the_standard_library(tmp_path: Path) -> None:
    (tmp_path / "archive.zip").write_bytes(PLAIN)
    code = (
        "import sys\nfrom bundler.tree.archive import Archive\nfrom bundler.tree.zipped import ZipTree\n"
        "archive = Archive(sys.argv[1])\nprint(len(ZipTree(archive).read('b/c', 1000)), 'zipfile' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "archive.zip"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{len(TEXT)} False\n"


# --- bounds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("MAX_MEMBERS", 2, "it has 3 entries; 2 is the most"),
        ("MAX_DIRECTORY", 100, "its directory has 143 bytes; 100 is the most"),
        ("MAX_NAME", 2, "a name that begins with `c/d` has 3 bytes; 2 is the most"),
        ("MAX_SIZE", 47, "`b`: it has 48 bytes; 47 is the most"),
        ("MAX_TOTAL", 61, "its files have more than 61 bytes together"),
        ("MAX_FOLDERS", 0, "`c/d`: its names lead through too many folders"),
        ("MAX_RATIO", 0, "`b`: its 48 bytes become 48: more than 0 times as many"),
    ],
)
def test_bounds(name: str, value: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = one()
    monkeypatch.setattr(archive, "FREE_SIZE", 30)
    assert len(read_bytes(data, tmp_path)) == 3
    monkeypatch.setattr(archive, name, value)
    error = refusal(data, tmp_path)
    assert error.code == "archive-limit-exceeded"
    assert says in error.message


def test_a_bomb_inside_of_an_archive_is_never_unpacked(tmp_path: Path) -> None:
    data = write([entry("nested.zip", NESTED), entry("nested.whl", NESTED, method=DEFLATED)])
    assert read_bytes(data, tmp_path) == {"nested.zip": NESTED, "nested.whl": NESTED}


def test_a_stream_that_never_ends_is_unpacked_to_one_byte_more_than_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = 0

    class Counting:
        def __init__(self, unpacker: Any) -> None:
            self.unpacker = unpacker

        def __getattr__(self, name: str) -> Any:
            return getattr(self.unpacker, name)

        def decompress(self, data: bytes, count: int) -> bytes:
            nonlocal made
            found: bytes = self.unpacker.decompress(data, count)
            made += len(found)
            return found

    real = zlib.decompressobj
    monkeypatch.setattr(zlib, "decompressobj", lambda bits: Counting(real(bits)))
    error = refusal(stream(deflated(bytes(20_000_000)), size=1000), tmp_path)
    assert error.code == "archive-invalid"
    assert made == 1001


def test_names_of_many_segments_cost_no_more_than_they_are_long(tmp_path: Path) -> None:
    """Each leads through two thousand folders, whose paths together are a thousand times as long as itself."""
    data = write([entry(f"{number:04}" + "/x" * 2_000, b"") for number in range(40)])
    error = refusal(data, tmp_path)
    assert (error.code, "too many folders" in error.message) == ("archive-limit-exceeded", True)
    (tmp_path / "archive.zip").write_bytes(write([entry("x/" * 2_000 + "y"), folder("x/" * 2_000 + "z")]))
    archive = Archive(tmp_path / "archive.zip")
    assert list(ZipTree(archive).files("")) == ["x/" * 2_000 + "y"]
    archive.close()


def test_too_many_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_MEMBERS", 3)
    assert len(read_bytes(write([entry("a/b/c/d")]), tmp_path)) == 1
    assert refusal(write([entry("a/b/c/d/e")]), tmp_path).code == "archive-limit-exceeded"


# --- what is read -------------------------------------------------------------------------------------

CONTENT = {"a": b"", "b/c.txt": TEXT, "b/d/ü.txt": bytes(range(256)) * 300, "large": bytes(CHUNK) + b"end"}


def zipped_by(write: Callable[[zipfile.ZipFile], object], file: Path) -> Path:
    with zipfile.ZipFile(file, "w") as target:
        write(target)
    return file


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("large", [False, True], ids=["plain", "zip64"])
def test_what_the_standard_library_writes(method: int, large: bool, tmp_path: Path) -> None:
    def fill(target: zipfile.ZipFile) -> None:
        for name, data in CONTENT.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            with target.open(info, "w", force_zip64=large) as file:
                file.write(data)

    assert read(zipped_by(fill, tmp_path / "a.zip")) == CONTENT


def test_an_empty_archive(tmp_path: Path) -> None:
    assert read(zipped_by(lambda target: None, tmp_path / "a.zip")) == {}


def test_many_files(tmp_path: Path) -> None:
    names = [f"{number % 100}/{number}" for number in range(5_000)]
    assert list(read_bytes(write([entry(name, b"") for name in names]), tmp_path)) == names


def test_as_many_files_as_can_be_counted_without_zip64(tmp_path: Path) -> None:
    local, central = write([entry("00000", b"")])[:30], write([entry("00000", b"")])[35:77]
    names = [b"%05d" % number for number in range(FULL_16)]
    directory = b"".join(central + struct.pack("<L", 35 * number) + name for number, name in enumerate(names))
    end = write([], end={"count": FULL_16, "here": FULL_16, "size": len(directory), "offset": 35 * FULL_16})
    (tmp_path / "a.zip").write_bytes(b"".join(local + name for name in names) + directory + end)
    archive = Archive(tmp_path / "a.zip")
    archive.close()
    assert list(archive.members) == [name.decode() for name in names]


@pytest.mark.parametrize(
    "data",
    [
        PLAIN,
        write([entry("a", TEXT, zip64=True)], end_64={}),
        write([entry("a", TEXT)], end={"offset": 31 + 48}, end_64={}),
        write([entry("a", TEXT), entry("b" * 255 + "/ü" * 100)], end_64={}),
        write([entry("b/c"), folder("b"), folder("e")]),
        write([entry("a", TEXT, flags=0b110), entry("b", flags=UTF_8)]),
        write([entry("a", attributes=0, system=0), entry("b", attributes=0x20, system=0)]),
        write([entry("a", b"", method=DEFLATED)]),
    ],
)
def test_what_is_harmless_is_read(data: bytes, tmp_path: Path) -> None:
    assert read_bytes(data, tmp_path)


def test_order_of_the_directory_is_free(tmp_path: Path) -> None:
    first, second = entry("a", b"1"), entry("b", b"2")
    data = write([first, second])
    start = data.index(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06")
    half = (end - start) // 2
    swapped = data[:start] + data[start + half : end] + data[start : start + half] + data[end:]
    assert read_bytes(swapped, tmp_path) == {"a": b"1", "b": b"2"}


def test_the_tree_of_an_archive(tmp_path: Path) -> None:
    script = entry("x/b/run", attributes=(stat.S_IFREG | 0o755) << 16)
    (tmp_path / "a.zip").write_bytes(write([entry("x/a", TEXT), script, folder("x"), folder("x/empty"), entry("y")]))
    archive = Archive(tmp_path / "a.zip")
    tree = ZipTree(archive, "x/")
    assert list(tree.entries()) == [
        Entry("a", "file"),
        Entry("b", "folder"),
        Entry("empty", "folder"),
        Entry("b/run", "file"),
    ]
    assert list(tree.files("")) == ["a", "b/run"]
    assert tree.names("") == ["a", "b", "empty"]
    assert tree.describe("b/run") == str(tmp_path / "a.zip" / "x" / "b" / "run")
    with tree.open("b/run") as reader:
        assert (reader.size, reader.executable) == (7, True)
    assert tree.small("a") == (TEXT, False)
    for path, says in (("b", "is a folder"), ("y", "does not exist"), ("x/a", "does not exist")):
        with pytest.raises(BundlerError, match=says) as raised:
            tree.open(path)
        assert raised.value.code == "file-missing"
    archive.close()
    with pytest.raises(BundlerError) as raised:
        tree.read("a", 100)
    assert raised.value.code == "file-read-failed"


@pytest.mark.parametrize("what", ["nothing", "a folder", "a FIFO"])
def test_what_is_no_file(what: str, tmp_path: Path) -> None:
    place = tmp_path / "a.zip"
    if what == "a folder":
        place.mkdir()
    elif what == "a FIFO":
        os.mkfifo(place)
    with pytest.raises(BundlerError, match=str(place)) as raised:
        Archive(place)
    assert raised.value.code == "file-missing"


def test_a_file_that_is_cut_off_while_it_is_read(tmp_path: Path) -> None:
    place = tmp_path / "a.zip"
    place.write_bytes(PLAIN)
    archive = Archive(place)
    os.truncate(place, 40)
    with pytest.raises(BundlerError, match="truncated, or changed while it was read") as raised:
        ZipTree(archive).read("a", 1000)
    assert raised.value.code == "archive-invalid"
    archive.close()


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.text("abü/", min_size=1, max_size=4), st.binary(max_size=300), max_size=5),
    st.sampled_from([0, DEFLATED]),
    st.booleans(),
    st.integers(0, 9),
)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], method: int, large: bool, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("any", numbered=True)
    names = [name for name in files if "" not in name.split("/")]
    names = [name for name in names if not any(other.startswith(f"{name}/") for other in names)]
    random.Random(seed).shuffle(names)
    data = write([entry(name, files[name], method=method, zip64=large) for name in names], end_64={} if large else None)
    assert read_bytes(data, folder) == {name: files[name] for name in names}
