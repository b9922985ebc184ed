"""The leak scan: does content hold the absolute path of the source root? (protocol: "Build refuses")

A path is looked for as it is, in a `file://` URL, percent-encoded, JSON-escaped (once or more), with
backslashes, and all of these in UTF-16. It counts as a path where its last name ends there, so that
`/work/app2` and `/work/app.old` are not `/work/app`, and where it begins there, so that neither `src/work/app`
nor `https://example.com/work/app` is; what could be an escape or an option (`\\n/work`, `-I/work`) counts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes

# Bytes after a path that decide whether its last name goes on, and before it whether it begins there.
_AFTER = 24
_BEFORE = 160
# How one character of a name can be written, six bytes for one (`\\u0041`) and further backslashes.
_LONGEST_SPELLING = 8

_ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be")
_SHORT_ESCAPES = {'"': '"', "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
# A name that stands directly before a path, and what stands before that.
_NAME_BEFORE = re.compile(r"([^\w.+~@-]?)([\w.+~@-]*)\Z")
_FILE_URL = re.compile(r"file:/{2}\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Spelling:
    """How one root is written in one encoding."""

    pattern: re.Pattern[bytes]
    encoding: str


class LeakScanner:
    """Finds the given absolute paths in content; one serves a whole build."""

    def __init__(self, roots: Iterable[str]) -> None:
        # The file system's own root is in every path: it says nothing.
        paths = [path for path in dict.fromkeys(roots) if path.strip("/\\")]
        self._spellings = [_Spelling(_pattern(path, encoding), encoding) for path in paths for encoding in _ENCODINGS]
        self._marks = [mark for path in paths for mark in _marks(path)]
        longest = max((len(path.encode("utf-8", "surrogateescape")) for path in paths), default=0)
        #: Bytes kept from one chunk to the next: the longest spelling (twice in UTF-16), and what stands around it.
        self.overlap = 2 * longest * _LONGEST_SPELLING + _BEFORE + _AFTER

    def find(self, data: bytes, *, final: bool = True) -> int | None:
        """The offset of the first path; where more is to come, one at the very end waits for what follows it."""
        # Most content does not hold even the longest name of a path, in any spelling: a few searches and it is done.
        if not any(mark in data for mark in self._marks):
            return None
        found = [at for spelling in self._spellings if (at := _first(spelling, data, final)) is not None]
        return min(found, default=None)


class FileScan:
    """The scan of one file whose chunks come one after another."""

    __slots__ = ("_kept", "_offset", "_scanner", "found")

    def __init__(self, scanner: LeakScanner) -> None:
        self._scanner = scanner
        self._kept = b""
        self._offset = 0
        #: The offset of the first path in the file.
        self.found: int | None = None

    def feed(self, chunk: bytes, *, final: bool = False) -> None:
        """The next bytes; `final` says that none follow."""
        if self.found is not None:
            return
        window = self._kept + chunk if self._kept else chunk
        at = self._scanner.find(window, final=final)
        if at is not None:
            self.found = self._offset + at
        elif not final:
            keep = min(len(window), self._scanner.overlap)
            self._offset += len(window) - keep
            self._kept = window[len(window) - keep :]


def _first(spelling: _Spelling, data: bytes, final: bool) -> int | None:
    for match in spelling.pattern.finditer(data):
        if not final and match.end() + _AFTER > len(data):
            continue
        before = data[max(0, match.start() - _BEFORE) : match.start()]
        after = data[match.end() : match.end() + _AFTER]
        if spelling.encoding != "utf-8" and len(before) % 2:
            before = before[1:]  # whole units, counted from the path
        if _begins(before.decode(spelling.encoding, "replace")) and not _goes_on(_text(after, spelling.encoding)):
            return match.start()
    return None


def _begins(before: str) -> bool:
    """Whether an absolute path can begin after this text; False where it goes on with a relative path or a URL."""
    found = _NAME_BEFORE.search(before)
    if found is None or not found[2]:
        return True
    lead, name = found[1], found[2]
    # An escape (`\n`, `%20`), an option (`-I`), the host of a file URL.
    return (
        lead in ("\\", "%") or name.startswith("-") or _FILE_URL.search(before[: len(before) - len(name)]) is not None
    )


def _goes_on(after: str) -> bool:
    """Whether the text goes on with the name before it; a dot does only with more of a name behind it."""
    name = after[1:] if after.startswith(".") else after
    return bool(name) and (name[0].isalnum() or name[0] in "_-+~@" or bool(unicodedata.combining(name[0])))


def _text(data: bytes, encoding: str) -> str:
    """The text at a place where characters may be escaped."""
    text = data.decode(encoding, "replace")
    if text.startswith("%"):
        return unquote_to_bytes(text[:12].encode("ascii", "ignore")).decode("utf-8", "replace")
    escape = re.match(r"\\+u([0-9A-Fa-f]{4})", text)
    return chr(int(escape[1], 16)) if escape else text


def _names(path: str) -> list[str]:
    return [name for name in re.split(r"[/\\]", path) if name]


def _marks(path: str) -> list[bytes]:
    """Of which every spelling holds one: the longest run of characters that need no escape, or all of it escaped."""
    run = max(re.findall(r"[0-9A-Za-z_.-]*", path), key=len)
    escaped = (
        "".join(f"%{ord(character):02x}" for character in run),
        "".join(f"u{ord(character):04x}" for character in run[:1]),
    )
    texts = dict.fromkeys((run, *(text for each in escaped for text in (each, each.upper().replace("U", "u")))))
    # In UTF-16 both byte orders share all but the outermost byte.
    return [mark for text in texts for mark in (text.encode(), text.encode("utf-16-le")[:-1])]


def _pattern(path: str, encoding: str) -> re.Pattern[bytes]:
    separator = _either(encoding, ("/", "%2f", "%2F", "%5c", "%5C"), rf"(?:{_BACKSLASHES})(?:/|u002[fF]|u005[cC])?")
    start = separator if path.startswith(("/", "\\")) else b""
    return re.compile(
        start + separator.join(b"".join(_character(character, encoding) for character in name) for name in _names(path))
    )


def _character(character: str, encoding: str) -> bytes:
    """One character of a name: as it is, percent-encoded, or JSON-escaped, its hexadecimal digits in either case."""
    percent = quote(character.encode("utf-8", "surrogateescape"), safe="")
    if not percent.startswith("%"):
        percent = f"%{ord(character):02X}"
    units = character.encode("utf-16-be", "surrogatepass").hex()
    codes = [units[index : index + 4] for index in range(0, len(units), 4)]
    escapes = "".join(rf"(?:{_BACKSLASHES})u(?:{code}|{code.upper()})" for code in codes)
    if character in _SHORT_ESCAPES:
        escapes += rf"|(?:{_BACKSLASHES}){_SHORT_ESCAPES[character]}"
    return _either(encoding, (character, percent, percent.lower()), escapes)


# Backslashes before an escaped character: one, or more where JSON stands in JSON.
_BACKSLASHES = r"\\+"


def _either(encoding: str, texts: Iterable[str], pattern: str) -> bytes:
    """A pattern of bytes: one of the texts as they are, or what a pattern of ASCII characters matches."""
    errors = "surrogateescape" if encoding == "utf-8" else "surrogatepass"
    choices = [re.escape(text.encode(encoding, errors)) for text in dict.fromkeys(texts)]
    return b"(?:" + b"|".join([*choices, _wide(pattern, encoding)]) + b")"


def _wide(pattern: str, encoding: str) -> bytes:
    """The pattern over units of the encoding: each literal, class and escaped character of it becomes a group of bytes."""
    if encoding == "utf-8":
        return pattern.encode()
    zero = rb"\x00"

    def unit(match: re.Match[str]) -> str:
        one = match.group().encode()
        return "(?:" + (one + zero if encoding == "utf-16-le" else zero + one).decode() + ")"

    # Characters, classes and escaped characters; not the signs that group, choose and repeat.
    return re.sub(r"\[[^\]]*\]|\\.|[^\\()?:|+\[\]]", unit, pattern).encode()
