"""A zip file's structure, read strictly: what one reader sees, every reader sees.

Zip files say most things twice, and readers differ in which they believe. Here everything has to agree, and every
byte has to belong to something: entries lie one behind the other from the first byte on, each local header equals its
entry in the central directory, the directory ends where the end record begins, and that is the last of the file.
What wheels need no use of is refused: encryption, data descriptors, comments, extra fields other than zip64's,
other methods than stored and deflated, links and devices.

Nothing is decompressed here; sizes and ratios are bounded by what the headers say, and `zipped` holds content to it.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from typing import Any, NamedTuple

from ..errors import BundlerError
from ..paths import collisions, printable

#: Entries of one archive.
MAX_MEMBERS = 210_000
#: Bytes of one name in UTF-8, and characters between two `/` of it: no file system holds more.
MAX_NAME = 4_096
MAX_SEGMENT = 255
#: Bytes of all names, headers and extra fields together.
MAX_DIRECTORY = 128 * 1024 * 1024
#: Characters of the paths of all folders together: a name of many short segments leads through many long paths.
MAX_FOLDERS = 32 * 1024 * 1024
#: Uncompressed bytes of one file and of all.
MAX_SIZE = 16 * 1024**3
MAX_TOTAL = 32 * 1024**3
#: Uncompressed bytes for each compressed one, beyond the first `FREE_SIZE`.
MAX_RATIO = 200
FREE_SIZE = 64 * 1024 * 1024

STORED, DEFLATED = 0, 8

#: The records of a zip file: its end, an entry of its directory, the header before content.
END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_64 = struct.Struct("<4sLQL")
CENTRAL = struct.Struct("<4s2B5H3L5H2L")
LOCAL = struct.Struct("<4s5H3L2H")
_FULL_16, _FULL_32 = 0xFFFF, 0xFFFFFFFF
# Flags that say nothing: how hard deflate tried.
_HARMLESS_FLAGS = 0b110
_UTF_8 = 1 << 11
# Among the attributes, for systems without modes: a folder, and what says nothing (read-only, to be archived).
_FOLDER_BIT, _HARMLESS_BITS = 0x10, 0x21
_NEEDED = 45  # the version of the format that has zip64; what came later is not read
_FLAGS = {0: "it is encrypted", 3: "its sizes stand behind it, in a data descriptor", 5: "it is a patch"} | {
    6: "it is encrypted",
    13: "its header is encrypted",
}
_SYSTEMS = (0, 3)  # what Python writes on Windows and elsewhere
# Most names: nothing in them to refuse.
_ORDINARY = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_.-]*(?:/[0-9A-Za-z_][0-9A-Za-z_.-]*)*\Z")
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\\]")
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
}


class Member(NamedTuple):
    """A file of an archive: its sizes in bytes, where its compressed bytes begin, its mode (0 if none is said)."""

    path: str
    method: int
    crc: int
    compressed: int
    size: int
    offset: int
    mode: int

    @property
    def executable(self) -> bool:
        return self.mode & 0o111 != 0


class Archive:
    """An open zip file. `members` by path, in the order in which they lie; `folders` are those with an entry.

    Raises `file-missing`, `file-read-failed`, and for what is refused `archive-invalid`, `archive-path-invalid` or
    `archive-limit-exceeded`, with the entry's name.
    """

    def __init__(self, file: str | os.PathLike[str]) -> None:
        self.file = os.path.abspath(os.fspath(file))
        self._descriptor = _open(self.file)
        try:
            self.size = os.fstat(self._descriptor).st_size
            self.members: dict[str, Member] = {}
            self.folders: set[str] = set()
            self._read_directory()
        except BaseException:
            self.close()
            raise

    def read(self, offset: int, count: int) -> bytes:
        """Exactly `count` bytes of the file. Raises `archive-invalid` where it ends before, `file-read-failed`."""
        parts: list[bytes] = []
        while count:
            try:
                data = os.pread(self._descriptor, count, offset)
            except OSError as error:
                raise _unreadable(self.file, error) from None
            if not data:
                raise self.invalid("it ends in the middle: it is truncated, or changed while it was read")
            parts.append(data)
            offset += len(data)
            count -= len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Give the descriptor back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def invalid(self, what: str, path: str | None = None) -> BundlerError:
        """`archive-invalid`, for one entry or the whole file."""
        return self._fault("archive-invalid", what, path)

    def _fault(self, code: str, what: str, path: str | None) -> BundlerError:
        name = None if path is None else printable(path)
        shown = "" if name is None else f" `{name if len(name) <= 200 else name[:200] + '…'}`:"
        return BundlerError(code, f"{self.file}:{shown} {what}", path=name or self.file)

    def _limit(self, what: str, path: str | None = None) -> BundlerError:
        return self._fault("archive-limit-exceeded", what, path)

    # --- the end of the file --------------------------------------------------------------------------

    def _read_directory(self) -> None:
        if self.size < END.size:
            raise self.invalid("it is empty" if not self.size else "it is too short for a zip file")
        at = self.size - END.size
        signature, disk, first_disk, here, count, size, offset, comment = END.unpack(self.read(at, END.size))
        if signature != b"PK\x05\x06" or comment:
            raise self.invalid(
                "it does not end in a zip file's end record: it is no zip file, is truncated, or something follows"
            )
        # Where there is a locator there are readers that follow it.
        if at >= _LOCATOR_64.size and self.read(at - _LOCATOR_64.size, 4) == b"PK\x06\x07":
            said = (disk, first_disk, here, count, size, offset)
            at, disk, first_disk, here, count, size, offset = self._end_64(at, said)
        if disk or first_disk or here != count:
            raise self.invalid("it is one of several parts")
        if offset + size != at:
            raise self.invalid("its directory does not end where its end record begins")
        if count > MAX_MEMBERS:
            raise self._limit(f"it has {count:,} entries; {MAX_MEMBERS:,} is the most")
        if size > MAX_DIRECTORY:
            raise self._limit(f"its directory has {size:,} bytes; {MAX_DIRECTORY:,} is the most")
        if count * CENTRAL.size > size:
            raise self.invalid(f"its end record counts {count:,} entries, for which its directory is too short")
        self._read_entries(self.read(offset, size), count, offset)

    def _end_64(self, at: int, short: tuple[int, ...]) -> tuple[int, int, int, int, int, int, int]:
        """What zip64's end record says, which has to say what the other one says where that has room for it."""
        start = at - _LOCATOR_64.size - _END_64.size
        if start < 0:
            raise self.invalid("its zip64 end record is not as it is to be")
        data = self.read(start, _END_64.size + _LOCATOR_64.size)
        signature, length, _, _, disk, first_disk, here, count, size, offset = _END_64.unpack_from(data)
        _, locator_disk, place, disks = _LOCATOR_64.unpack_from(data, _END_64.size)
        expected = (b"PK\x06\x06", _END_64.size - 12, start, 0, 1)
        if (signature, length, place, locator_disk, disks) != expected:
            raise self.invalid("its zip64 end record is not as it is to be")
        full = (*(_FULL_16,) * 4, *(_FULL_32,) * 2)
        for said, most, long in zip(short, full, (disk, first_disk, here, count, size, offset), strict=True):
            if said not in (long, most) or (said == most and long < most):
                raise self.invalid("its two end records disagree")
        return start, disk, first_disk, here, count, size, offset

    # --- entries --------------------------------------------------------------------------------------

    def _read_entries(self, directory: bytes, count: int, end: int) -> None:
        total = position = 0
        headers: list[_Header] = []
        for _ in range(count):
            header, member = self._entry(directory, position)
            position = header.following
            headers.append(header)
            if member is None:
                continue
            total += member.size
            if total > MAX_TOTAL:
                raise self._limit(f"its files have more than {MAX_TOTAL:,} bytes together")
            if member.path in self.members:
                raise self.invalid("there are two entries of this name", member.path)
            self.members[member.path] = member
        if position != len(directory):
            raise self.invalid("its directory holds more than its end record counts")
        if total > FREE_SIZE + MAX_RATIO * self.size:
            raise self._limit(f"its {self.size:,} bytes become {total:,}: more than {MAX_RATIO} times as many")
        self._check_names()
        self._check_places(headers, end)

    def _entry(self, data: bytes, at: int) -> tuple[_Header, Member | None]:
        """What the directory says at a position, and the file that it describes; None for a folder."""
        if at + CENTRAL.size > len(data):
            raise self.invalid("its directory ends in the middle of an entry")
        fields = CENTRAL.unpack_from(data, at)
        name_at = at + CENTRAL.size
        extra_at = name_at + fields[11]
        following = extra_at + fields[12] + fields[13]
        header = _Header._make((*fields, data[name_at:extra_at], following))
        if header.signature != b"PK\x01\x02" or following > len(data):
            raise self.invalid("its directory is broken")
        path = self._name(header.name, header.flags)
        if header.comment_length or header.disk:
            raise self.invalid("it has a comment" if header.comment_length else "it lies in another part", path)
        header = self._extended(header, data[extra_at:following], path)
        self._check_kind(path, header)
        size, compressed = header.size, header.compressed
        if header.method == STORED and size != compressed:
            raise self.invalid("it is stored, and its two sizes differ", path)
        if size > MAX_SIZE:
            raise self._limit(f"it has {size:,} bytes; {MAX_SIZE:,} is the most", path)
        if size > FREE_SIZE + MAX_RATIO * compressed:
            raise self._limit(f"its {compressed:,} bytes become {size:,}: more than {MAX_RATIO} times as many", path)
        mode = self._mode(path, header.attributes)
        if not path.endswith("/"):
            # Where its bytes begin is known when the local header was read.
            return header, Member(path, header.method, header.crc, compressed, size, -1, mode)
        if size or compressed or header.crc:
            raise self.invalid("it is a folder, and has content", path)
        if path[:-1] in self.folders:
            raise self.invalid("there are two entries of this name", path)
        self.folders.add(path[:-1])
        return header, None

    def _name(self, raw: bytes, flags: int) -> str:
        if len(raw) > MAX_NAME:
            shown = raw[:50].decode(errors="backslashreplace")
            raise self._limit(
                f"a name that begins with `{printable(shown)}` has {len(raw):,} bytes; {MAX_NAME:,} is the most"
            )
        try:
            path = raw.decode("utf-8" if flags & _UTF_8 else "ascii")
        except UnicodeDecodeError:
            raise self._fault(
                "archive-path-invalid",
                "its name is not valid UTF-8, or is not marked as such",
                raw.decode(errors="backslashreplace"),
            ) from None
        if _ORDINARY.match(path) and len(path) <= MAX_SEGMENT:
            return path
        parts = path.removesuffix("/").split("/")
        why = None
        if _UNSAFE.search(path):
            why = "its name contains a backslash or a control character"
        elif path.startswith("/") or path[1:2] == ":":
            why = "its name is an absolute path"
        elif ".." in parts:
            why = "its name leads out of the folder that it is unpacked to"
        elif "" in parts or "." in parts:
            why = "its name is not in normal form" if path else "it has no name"
        if why is not None:
            raise self._fault("archive-path-invalid", why, path)
        if len(max(parts, key=len)) > MAX_SEGMENT:
            raise self._limit(f"a part of its name has more than {MAX_SEGMENT} characters", path)
        return path

    def _extended(self, header: _Header, extra: bytes, path: str) -> _Header:
        """The header with zip64's values in the place of those that had no room."""
        if not extra and _FULL_32 not in (header.size, header.compressed, header.offset):
            return header
        wanted = [name for name in ("size", "compressed", "offset") if getattr(header, name) == _FULL_32]
        found = self._zip64(extra, path)
        if len(found) != len(wanted):
            raise self.invalid("its zip64 sizes are not as they are to be", path)
        longer: dict[str, Any] = dict(zip(wanted, found, strict=True))
        return header._replace(**longer)

    def _zip64(self, extra: bytes, path: str) -> tuple[int, ...]:
        if len(extra) < 4:
            raise self.invalid("it has an extra field that is broken", path)
        kind, length = struct.unpack_from("<2H", extra)
        if kind != 1 or length != len(extra) - 4 or length not in (8, 16, 24):
            raise self.invalid("it has an extra field that no wheel needs: only zip64 sizes are expected", path)
        return struct.unpack_from(f"<{length // 8}Q", extra, 4)

    def _check_kind(self, path: str, header: _Header) -> None:
        if header.flags & ~(_HARMLESS_FLAGS | _UTF_8):
            for bit, what in _FLAGS.items():
                if header.flags & 1 << bit:
                    raise self.invalid(what, path)
            raise self.invalid(f"it has flags that are not known ({header.flags:#06x})", path)
        if header.method not in (STORED, DEFLATED):
            raise self.invalid(f"it is compressed by method {header.method}; stored and deflated are expected", path)
        if header.needed > _NEEDED:
            raise self.invalid(f"it needs version {header.needed / 10} of the format; {_NEEDED / 10} is the most", path)
        if header.system not in _SYSTEMS:
            raise self.invalid(f"its attributes are of system {header.system}, which is not known", path)

    def _mode(self, path: str, attributes: int) -> int:
        """Its mode; refused if it is no plain file, or for a folder's name no folder."""
        mode, folder = attributes >> 16, path.endswith("/")
        kind = stat.S_IFMT(mode)
        if kind in _KINDS:
            raise self.invalid(f"it is {_KINDS[kind]}; a regular file is expected", path)
        bits = attributes & 0xFFFF & ~(_HARMLESS_BITS | (_FOLDER_BIT if folder else 0))
        if kind not in (0, stat.S_IFDIR if folder else stat.S_IFREG) or bits:
            raise self.invalid("its attributes say that it is something else than its name does", path)
        if not kind and mode & 0o111 and not folder:
            raise self.invalid(
                "it is executable and not marked as a file: installers differ in what they make of it", path
            )
        if mode & 0o7000:
            raise self.invalid("it sets the user, the group or the sticky bit", path)
        return mode

    # --- all of them together -------------------------------------------------------------------------

    def _check_names(self) -> None:
        above: set[str] = set()
        length = 0
        for path in (*self.members, *self.folders):
            folder = path.rpartition("/")[0]
            while folder and folder not in above:
                if folder in self.members:
                    raise self.invalid(
                        f"it is a file, and `{printable(path)}` lies in it as if it were a folder", folder
                    )
                above.add(folder)
                length += len(folder)
                if length > MAX_FOLDERS or len(above) > MAX_MEMBERS:
                    raise self._limit("its names lead through too many folders", path)
                folder = folder.rpartition("/")[0]
        for folder in self.folders:
            if folder in self.members:
                raise self.invalid("there are a file and a folder of this name", folder)
        for first, second in collisions([*self.members, *self.folders]):
            raise self.invalid(
                f"it differs from `{printable(first)}` only in case or Unicode form: some systems hold one for both",
                second,
            )

    def _check_places(self, headers: list[_Header], end: int) -> None:
        """Local headers against the directory; no byte belongs to two entries, and none to no entry."""
        expected = 0
        for header in sorted(headers, key=lambda header: header.offset):
            path = header.name.decode()
            if header.offset < expected:
                raise self.invalid("its content overlaps that of the entry before it", path)
            if header.offset > expected:
                raise self.invalid("something that belongs to no entry lies before it", path)
            begins = expected + LOCAL.size + len(header.name)
            if begins <= end:
                begins += self._check_local(path, header)
            expected = begins + header.compressed
            if expected > end:
                raise self.invalid("its content reaches beyond the part that is for content", path)
            if path in self.members:
                self.members[path] = self.members[path]._replace(offset=begins)
        if expected != end:
            raise self.invalid("something that belongs to no entry lies before its directory")

    def _check_local(self, path: str, header: _Header) -> int:
        """The length of the local extra field. Raises `archive-invalid` where the local header says something else."""
        data = self.read(header.offset, LOCAL.size + len(header.name))
        signature, _, flags, method, time, date, crc, compressed, size, name, extra = LOCAL.unpack_from(data)
        if signature != b"PK\x03\x04":
            raise self.invalid("there is no header where it is to begin", path)
        if name != len(header.name) or data[LOCAL.size :] != header.name:
            raise self.invalid("its local header has another name than the directory", path)
        if extra:
            found = self._zip64(self.read(header.offset + len(data), extra), path)
            shorts = (size, compressed)
            if len(found) != 2 or any(short not in (long, _FULL_32) for short, long in zip(shorts, found, strict=True)):
                raise self.invalid("its zip64 sizes are not as they are to be", path)
            size, compressed = found
        said = (header.flags, header.method, header.time, header.date, header.crc, header.compressed, header.size)
        for name, here, there in zip(_TWICE, (flags, method, time, date, crc, compressed, size), said, strict=True):
            if here != there:
                raise self.invalid(f"its local header and the directory disagree about its {name}", path)
        return int(extra)


class _Header(NamedTuple):
    """An entry of the central directory: its fields, its name as bytes, and where the next one begins."""

    signature: bytes
    version: int
    system: int
    needed: int
    flags: int
    method: int
    time: int
    date: int
    crc: int
    compressed: int
    size: int
    name_length: int
    extra_length: int
    comment_length: int
    disk: int
    internal: int
    attributes: int
    offset: int
    name: bytes
    following: int


# What both headers say.
_TWICE = ("flags", "method", "time", "date", "CRC", "compressed size", "size")


def _open(file: str) -> int:
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(file, flags)
    except FileNotFoundError:
        raise BundlerError(
            "file-missing", f"{file} does not exist", path=file, hint="name a wheel that exists"
        ) from None
    except OSError as error:
        raise _unreadable(file, error) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BundlerError("file-missing", f"{file} is no regular file", path=file, hint="name a wheel's file")
    return descriptor


def _unreadable(file: str, error: OSError) -> BundlerError:
    return BundlerError("file-read-failed", f"{file} can't be read: {os.strerror(error.errno or 0)}", path=file)
