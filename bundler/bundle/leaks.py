"""The leak scan: does content hold the absolute path of the source root? (protocol: "Build refuses")

A path is looked for as it is, in a `file://` URL, percent-encoded, JSON-escaped (once or more), with
backslashes, and all of these in UTF-16. It counts as a path where its last name ends there, so that
`/code/app2` and `/code/app.old` are not `/code/app`, and where it begins there, so that neither `src/code/app`
nor `https://example.com/code/app` is; what could be an escape or an option (`\\n/code`, `-I/code`) counts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from urllib.parse import unquote_to_bytes

# Bytes after a path that decide whether its last name goes on, and before it whether it begins there.
_AFTER = 24
_BEFORE = 160
_RUN = re.compile(r"[0-9A-Za-z_.-]*")
# The last byte of a separator: `/`, a backslash, or the last digit of an escaped one.
_SEPARATOR_ENDS = frozenset(b"/\\fFcC")
# How one character of a name can be written, six bytes for one (`\\u0041`) and further backslashes.
_LONGEST_SPELLING = 8

_ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be")
_SHORT_ESCAPES = {'"': '"', "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
# A name that stands directly before a path, and what stands before that.
_NAME_BEFORE = re.compile(r"([^\w.+~@-]?)([\w.+~@-]*)\Z")
_FILE_URL = re.compile(r"file:/{2}\Z", re.IGNORECASE)


class LeakScanner:
    """Finds the given absolute paths in content; one serves a whole build."""

    def __init__(self, roots: Iterable[str]) -> None:
        # The file system's own root is in every path: it says nothing.
        self._roots = [_Root(path) for path in dict.fromkeys(roots) if path.strip("/\\")]
        #: Bytes kept from one chunk to the next: the longest spelling, and what stands around it.
        self.overlap = max((root.longest for root in self._roots), default=0) + _BEFORE + _AFTER

    def find(self, data: bytes, *, final: bool = True) -> int | None:
        """The offset of the first path; where more is to come, one at the very end waits for what follows it."""
        found = [at for root in self._roots for at in root.find(data, final)]
        return min(found, default=None)


class _Root:
    """One path, and what to look for.

    A pattern that knows every spelling is slow, so it is tried only where a *mark* of the path stands: the
    longest run of characters in it that need no escape, or that run wholly escaped. Most content has none,
    and is done with a few searches; where a name of the path is an ordinary word, what stands before it
    decides quickly.
    """

    def __init__(self, path: str) -> None:
        names = _names(path)
        # A path without such a run is known by its longest name.
        run, name = max(
            ((each or name, name) for name in names for each in _RUN.findall(name)),
            key=lambda pair: (bool(_RUN.fullmatch(pair[0])), len(pair[0])),
        )
        upto = path[: path.rindex(name) + len(name)]
        #: The longest spelling of the whole, and of what ends with the name that the mark is in, in bytes.
        self.longest = 2 * _LONGEST_SPELLING * len(_encode(path, "utf-8"))
        self._reach = 2 * _LONGEST_SPELLING * len(_encode(upto, "utf-8"))
        self._literal = _encode(path, "utf-8")
        self._before_mark = len(_encode(upto[: len(upto) - len(name)], "utf-8"))
        #: The longest run in the name above the mark's, which stands before it unless it is escaped.
        names_above = _names(upto)[:-1]
        self._above = max(_RUN.findall(names_above[-1]), key=len).encode() if names_above else b""
        self._patterns = {encoding: _pattern(path, encoding) for encoding in _ENCODINGS}
        self._marks = [
            (_encode(text, encoding), encoding, plain and encoding == "utf-8" and name.startswith(run))
            for text, plain in _marks(run)
            for encoding in _ENCODINGS
        ]

    def find(self, data: bytes, final: bool) -> Iterator[int]:
        """The offset of the first path for each mark."""
        for mark, encoding, begins in self._marks:
            hit = data.find(mark)
            while hit >= 0:
                at = self._plain(data, hit, final) if begins else self._at(data, hit, encoding, final)
                if at is not None:
                    yield at
                    break
                hit = data.find(mark, hit + 1)

    def _plain(self, data: bytes, hit: int, final: bool) -> int | None:
        """The same as `_at` for a name that is written as it is; most such names are only words, and are done quickly."""
        start = hit - self._before_mark
        if start >= 0 and data.startswith(self._literal, start):
            return start if self._is_path(data, start, start + len(self._literal), "utf-8", final) else None
        # It begins behind a separator, of which this is the last byte, and behind that stands the name above it.
        if hit and data[hit - 1] not in _SEPARATOR_ENDS:
            return None
        above = data[max(0, hit - self._reach) : hit]
        if self._above and self._above not in above and b"%" not in above and b"\\u" not in above:
            return None
        return self._at(data, hit, "utf-8", final)

    def _at(self, data: bytes, hit: int, encoding: str, final: bool) -> int | None:
        """Where the path begins whose mark stands at an offset; None if it is none."""
        for match in self._patterns[encoding].finditer(data, max(0, hit - self._reach), hit + self.longest):
            if match.start() > hit:
                break
            if match.end() > hit and self._is_path(data, match.start(), match.end(), encoding, final):
                return match.start()
        return None

    @staticmethod
    def _is_path(data: bytes, start: int, end: int, encoding: str, final: bool) -> bool:
        """Whether what stands there begins and ends as a path; at the end of what is known so far it is left for later."""
        if not final and end + _AFTER > len(data):
            return False
        if _goes_on(_text(data[end : end + _AFTER], encoding)):
            return False
        before = data[max(0, start - _BEFORE) : start]
        if encoding != "utf-8" and len(before) % 2:
            before = before[1:]  # whole units, counted from the path
        return _begins(before.decode(encoding, "replace"))


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


def _marks(run: str) -> list[tuple[str, bool]]:
    """The run as it is (True), and the beginning of it with its characters escaped."""
    percent = "".join(f"%{byte:02x}" for byte in _encode(run if run.isascii() else run[0], "utf-8"))
    # Backslashes of an escape can be several, so that only its first character makes a mark.
    code = _encode(run[0], "utf-16-be").hex()[:4]
    return [
        (run, True),
        *((text, False) for text in dict.fromkeys((percent, percent.upper(), f"u{code}", f"u{code.upper()}"))),
    ]


def _encode(text: str, encoding: str) -> bytes:
    """The text in an encoding; names that are no UTF-8 are kept."""
    return text.encode(encoding, "surrogateescape" if encoding == "utf-8" else "surrogatepass")


def _pattern(path: str, encoding: str) -> re.Pattern[bytes]:
    separator = _either(encoding, ("/", "%2f", "%2F", "%5c", "%5C"), rf"(?:{_BACKSLASHES})(?:/|u002[fF]|u005[cC])?")
    start = separator if path.startswith(("/", "\\")) else b""
    return re.compile(
        start + separator.join(b"".join(_character(character, encoding) for character in name) for name in _names(path))
    )


def _character(character: str, encoding: str) -> bytes:
    """One character of a name: as it is, percent-encoded, or JSON-escaped, its hexadecimal digits in either case."""
    percent = "".join(f"%{byte:02X}" for byte in _encode(character, "utf-8"))
    units = _encode(character, "utf-16-be").hex()
    codes = [units[index : index + 4] for index in range(0, len(units), 4)]
    escapes = "".join(rf"(?:{_BACKSLASHES})u(?:{code}|{code.upper()})" for code in codes)
    if character in _SHORT_ESCAPES:
        escapes += rf"|(?:{_BACKSLASHES}){_SHORT_ESCAPES[character]}"
    return _either(encoding, (character, percent, percent.lower()), escapes)


# Backslashes before an escaped character: one, or more where JSON stands in JSON stands in JSON.
_BACKSLASHES = r"\\{1,8}"


def _either(encoding: str, texts: Iterable[str], pattern: str) -> bytes:
    """A pattern of bytes: one of the texts as they are, or what a pattern of ASCII characters matches."""
    choices = [re.escape(_encode(text, encoding)) for text in dict.fromkeys(texts)]
    return b"(?:" + b"|".join([*choices, _wide(pattern, encoding)]) + b")"


def _wide(pattern: str, encoding: str) -> bytes:
    """The pattern over units of the encoding: each literal, class and escaped character of it becomes a group of bytes."""
    if encoding == "utf-8":
        return pattern.encode()
    zero = rb"\x00"

    def unit(match: re.Match[str]) -> str:
        if match.group().startswith("{"):
            return match.group()
        one = match.group().encode()
        return "(?:" + (one + zero if encoding == "utf-16-le" else zero + one).decode() + ")"

    # Characters, classes and escaped characters; not the signs that group, choose and repeat.
    return re.sub(r"\{\d,\d\}|\[[^\]]*\]|\\.|[^\\()?:|\[\]]", unit, pattern).encode()
