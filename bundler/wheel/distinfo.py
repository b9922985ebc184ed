"""The files of a .dist-info folder, in a wheel or on disk: METADATA, WHEEL, entry_points.txt, RECORD.

Read strictly: what installers, indexes and hosts could read differently is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..errors import BundlerError
from ..paths import printable
from ..protocol.identifiers import is_id
from ..tree import Tree
from .naming import GROUP, NAMESPACE

#: The largest of these files that is read, in bytes: RECORD has a line for each of up to 200,000 files.
MAX_BYTES = 64 * 1024 * 1024
MAX_ENTRY_POINTS = 64 * 1024
#: Characters of the headers of METADATA and WHEEL; what METADATA describes stands behind them.
MAX_HEADERS = 1024 * 1024
#: Rows of RECORD: an installer adds some for bytecode.
MAX_ROWS = 500_000

_MAX_NAMED = 100
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\Z")
# As Python's packages normalize it (PEP 440).
_VERSION = re.compile(
    r"(?:[1-9]\d*!)?(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*))*(?:(?:a|b|rc)(?:0|[1-9]\d*))?"
    r"(?:\.post(?:0|[1-9]\d*))?(?:\.dev(?:0|[1-9]\d*))?(?:\+[a-z0-9]+(?:\.[a-z0-9]+)*)?\Z",
    re.ASCII,
)
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]*\Z")
# Where some readers begin a new line and others do not, and what no line has.
_UNCLEAR = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
# What reading raises for a file that is not there, or far larger than such a file can be.
_UNUSABLE = {"file-missing": "is missing, or is no file", "parse-failed": "is larger than such a file can be"}
_SEPARATORS = re.compile(r"[-_.]+")
_HASH = re.compile(r"([a-z0-9_]+)=([A-Za-z0-9_-]+)\Z")
_MODULE = re.compile(rf"{re.escape(NAMESPACE)}\.(p_[a-z0-9_]+)\Z")


class Metadata(NamedTuple):
    """What METADATA says: the name in normalized form, the version as it stands, and what else gets installed."""

    name: str
    version: str
    requires: tuple[str, ...]


class EntryPoint(NamedTuple):
    """A Provider's entry point: its id, and the folder below `agent_graph_providers`."""

    id: str
    module: str


class Row(NamedTuple):
    """A row of RECORD; `digest` as the protocol writes it, None where the row has none, `size` in bytes."""

    path: str
    digest: str | None
    size: int | None


def read_metadata(tree: Tree, folder: str) -> Metadata:
    """Raises `wheel-metadata-invalid`, and what reading raises."""
    path = f"{folder}/METADATA"
    headers = _headers(tree, path)
    name, version = _single(headers, path, "Name"), _single(headers, path, "Version")
    if not _NAME.match(name) or not _VERSION.match(version):
        raise _invalid(path, f"names {name!r} {version!r}; a name and a version of Python's packages are expected")
    requires = tuple(value for key, value in headers if key == "requires-dist")
    return Metadata(normalized(name), version, requires)


def check_wheel_file(tree: Tree, folder: str, tag: str) -> None:
    """Raises `wheel-metadata-invalid` unless WHEEL says that this is data for any Python."""
    path = f"{folder}/WHEEL"
    headers = _headers(tree, path)
    for name, expected in (("Wheel-Version", "1.0"), ("Root-Is-Purelib", "true"), ("Tag", tag)):
        found = _single(headers, path, name)
        if found != expected:
            raise _invalid(path, f"has {name}: {printable(found)}; {expected} is expected")


def read_entry_points(tree: Tree, folder: str) -> EntryPoint:
    """The one entry point. Raises `wheel-entry-point-invalid`, and what reading raises."""
    path = f"{folder}/entry_points.txt"
    text = _text(tree, path, MAX_ENTRY_POINTS, "wheel-entry-point-invalid").replace("\r\n", "\n")
    if _UNCLEAR.search(text):
        raise BundlerError("wheel-entry-point-invalid", f"{path} contains control characters", path=path)
    found = parse_entry_points(text)
    sections = [line.strip() for line in text.splitlines() if line.strip().startswith("[")]
    if len(found) != 1 or found[0][0] != GROUP or sections != [f"[{GROUP}]"]:
        named = ", ".join(f"[{group}] {name}" for group, name, _ in found[:20]) or "none"
        raise BundlerError(
            "wheel-entry-point-invalid",
            f"{path} has the entry points {printable(named)}; one in [{GROUP}] and no other is expected",
            path=path,
        )
    return check_entry_point(path, found[0][1], found[0][2])


def check_entry_point(path: str, name: str, value: str) -> EntryPoint:
    """Raises `wheel-entry-point-invalid` unless it names a Provider's id and a folder of the namespace."""
    module = _MODULE.match(value)
    if not is_id(name) or module is None:
        raise BundlerError(
            "wheel-entry-point-invalid",
            f"{path} has {printable(name)!r} = {printable(value)!r}; a Provider id and {NAMESPACE}.p_… are expected",
            path=path,
        )
    return EntryPoint(name, module.group(1))


def parse_entry_points(text: str) -> list[tuple[str, str, str]]:
    """Group, name and value of each entry point, as importlib.metadata reads them."""
    found = []
    group = ""
    for line in map(str.strip, text.splitlines()):
        if not line or line.startswith("#"):
            continue
        if line.startswith("[") and line.endswith("]"):
            group = line.strip("[]")
            continue
        name, _, value = line.partition("=")
        found.append((group, name.strip(), value.strip()))
    return found


def read_record(tree: Tree, folder: str) -> dict[str, Row]:
    """The rows by path, which stands in normal form. Raises `wheel-record-mismatch`, and what reading raises."""
    path = f"{folder}/RECORD"
    rows: dict[str, Row] = {}
    text = _text(tree, path, MAX_BYTES, "wheel-record-mismatch")
    for number, (name, written, size) in enumerate(_record_lines(text, path), 1):
        if number > MAX_ROWS:
            raise _mismatch(path, f"has more than {MAX_ROWS:,} rows")
        if name in rows:
            raise _mismatch(path, f"`{printable(name)}` has a second row in line {number}")
        rows[name] = Row(name, _digest(written, path, name), _size(size, path, name))
    return rows


def normalized(name: str) -> str:
    """A distribution's name in the form in which names are compared (PEP 503)."""
    return _SEPARATORS.sub("-", name).lower()


def record_paths(tree: Tree, folder: str) -> Iterator[str]:
    """The paths that RECORD has a row for, whatever else stands there. Raises `wheel-record-mismatch`, and what reading raises."""
    import csv
    import io

    path = f"{folder}/RECORD"
    try:
        for row in csv.reader(io.StringIO(_text(tree, path, MAX_BYTES, "wheel-record-mismatch"), newline="")):
            yield from row[:1]
    except csv.Error as error:
        raise _mismatch(path, f"is no CSV file: {error}") from None


def bounded(faults: Iterable[BundlerError]) -> Iterator[BundlerError]:
    """Faults of one kind, the first hundred named one by one."""
    for number, fault in enumerate(faults):
        if number == _MAX_NAMED:
            yield BundlerError(fault.code, "and more of the same kind")
            return
        yield fault


def mismatch(path: str, what: str) -> BundlerError:
    """`wheel-record-mismatch`."""
    return _mismatch(path, what)


def _record_lines(text: str, path: str) -> Iterator[tuple[str, str, str]]:
    import csv
    import io

    try:
        for row in csv.reader(io.StringIO(text, newline=""), strict=True):
            if len(row) != 3:
                raise _mismatch(path, f"has a row of {len(row)} fields; path, hash and size are expected")
            yield row[0], row[1], row[2]
    except csv.Error as error:
        raise _mismatch(path, f"is no CSV file: {error}") from None


def _digest(written: str, path: str, name: str) -> str | None:
    if not written:
        return None
    found = _HASH.match(written)
    if found is None:
        raise _mismatch(path, f"`{printable(name)}` has the hash {printable(written)!r}; sha256=… is expected")
    if found.group(1) != "sha256":
        raise _mismatch(path, f"`{printable(name)}` is recorded with {found.group(1)}; sha256 is expected")
    digest = from_base64(found.group(2))
    if digest is None:
        raise _mismatch(path, f"`{printable(name)}` has the hash {printable(written)!r}, which is no SHA-256")
    return digest


def _size(text: str, path: str, name: str) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise _mismatch(path, f"`{printable(name)}` has the size {printable(text)!r}; a number of bytes is expected")
    return int(text)


def from_base64(text: str) -> str | None:
    """`sha256:…` of a hash as RECORD writes it (URL-safe, without padding); None if it is none."""
    from base64 import urlsafe_b64decode, urlsafe_b64encode

    if len(text) != 43:
        return None
    raw = urlsafe_b64decode(text + "=")
    # The last character has two bits to spare: one spelling is right.
    return f"sha256:{raw.hex()}" if urlsafe_b64encode(raw).decode() == text + "=" else None


def _headers(tree: Tree, path: str) -> list[tuple[str, str]]:
    """Names in lower case and values of the lines before the first empty one; a continued value is joined."""
    text, _, _ = _text(tree, path, MAX_BYTES).replace("\r\n", "\n").partition("\n\n")
    if len(text) > MAX_HEADERS:
        raise _invalid(path, f"has headers of {len(text):,} characters; {MAX_HEADERS:,} is the most")
    unclear = _UNCLEAR.search(text)
    if unclear is not None:
        raise _invalid(path, f"has the character U+{ord(unclear.group()):04X} in its headers")
    found: list[tuple[str, list[str]]] = []
    for line in text.removesuffix("\n").split("\n"):
        if line[:1] in (" ", "\t") and found:
            found[-1][1].append(line.strip(" \t"))
            continue
        name, colon, value = line.partition(":")
        if not colon or not _HEADER.match(name):
            raise _invalid(path, f"has the line {printable(line[:80])!r}, which is no header")
        found.append((name.lower(), [value.strip(" \t")]))
    return [(name, "\n".join(lines)) for name, lines in found]


def _single(headers: list[tuple[str, str]], path: str, name: str) -> str:
    values = [value for key, value in headers if key == name.lower()]
    if len(values) != 1:
        raise _invalid(path, f"has {len(values)} headers {name}; one is expected")
    return values[0]


def _text(tree: Tree, path: str, limit: int, code: str = "wheel-metadata-invalid") -> str:
    try:
        return tree.read(path, limit).decode()
    except UnicodeDecodeError:
        what = "is no UTF-8 text"
    except BundlerError as error:
        if error.code not in _UNUSABLE:
            raise
        what = _UNUSABLE[error.code]
    raise BundlerError(code, f"{path} {what}", path=path)


def _invalid(path: str, what: str) -> BundlerError:
    return BundlerError("wheel-metadata-invalid", f"{path} {what}", path=path)


def _mismatch(path: str, what: str) -> BundlerError:
    return BundlerError("wheel-record-mismatch", f"{path}: {what}", path=path)
