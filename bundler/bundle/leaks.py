"""The leak scan: does content hold the absolute path of the source root? (protocol: "Build refuses")

A path is looked for as it is, in a `file://` URL, percent-encoded, JSON-escaped, with backslashes, and in
UTF-16. It counts where no character follows that continues its last name, so that `/work/app2` and
`/work/app.old` are not `/work/app`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes


@dataclass(frozen=True, slots=True)
class _Spelling:
    """How one root is written in one encoding, and the character that follows at an offset."""

    pattern: re.Pattern[bytes]
    following: Callable[[bytes, int], str]


class LeakScanner:
    """Finds the given absolute paths in content; one serves a whole build."""

    def __init__(self, roots: Iterable[str]) -> None:
        # The file system's own root is in every path: it says nothing.
        paths = [path for path in dict.fromkeys(roots) if path.strip("/\\")]
        self._spellings = [spelling for path in paths for spelling in _spellings(path)]
        self._marks = [mark for path in paths for mark in _marks(path)]
        longest = max((len(path.encode("utf-8", "surrogateescape")) for path in paths), default=0)
        #: Bytes kept from one chunk to the next: the longest spelling (six bytes for one) and what follows it.
        self.overlap = longest * 6 + 2 * _FOLLOWING

    def find(self, data: bytes, *, final: bool = True) -> int | None:
        """The offset of the first path; where more is to come, one at the very end waits for what follows it."""
        # Most content does not hold even the longest name of a path: one or two searches and it is done.
        if not any(mark in data for mark in self._marks):
            return None
        found = [at for spelling in self._spellings if (at := self._first(spelling, data, final)) is not None]
        return min(found, default=None)

    @staticmethod
    def _first(spelling: _Spelling, data: bytes, final: bool) -> int | None:
        for match in spelling.pattern.finditer(data):
            if not final and match.end() + _FOLLOWING > len(data):
                continue
            if not _continues(spelling.following(data, match.end())):
                return match.start()
        return None


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


# Bytes after a path that decide whether its last name goes on: a dot and one character, each at most
# four bytes percent-encoded.
_FOLLOWING = 24


def _continues(following: str) -> bool:
    """Whether the text goes on with the name before it; a dot does only with more of a name behind it."""
    name = following[1:] if following.startswith(".") else following
    return name[:1].isalnum() or name[:1] in ("_", "-")


def _narrow_following(data: bytes, end: int) -> str:
    text = data[end : end + _FOLLOWING]
    if text.startswith(b"%"):
        text = unquote_to_bytes(text)
    elif re.match(rb"\\u[0-9A-Fa-f]{4}", text):
        return chr(int(text[2:6], 16))
    return text.decode("utf-8", "replace")


def _wide_following(encoding: str) -> Callable[[bytes, int], str]:
    return lambda data, end: data[end : end + 4].decode(encoding, "replace")


def _names(path: str) -> list[str]:
    return [name for name in re.split(r"[/\\]", path) if name]


def _marks(path: str) -> list[bytes]:
    """What every spelling of the path contains: its longest run of characters that no encoding escapes."""
    run = max(re.findall(r"[0-9A-Za-z_.-]*", path), key=len)
    # In UTF-16 both byte orders share all but the outermost byte.
    return [run.encode(), run.encode("utf-16-le")[:-1]]


def _spellings(path: str) -> list[_Spelling]:
    names = _names(path)
    separator = rb"(?:/|\\\\?/?|\\u002[fF]|\\u005[cC]|%2[fF]|%5[cC])"
    start = separator if path.startswith("/") else b""
    narrow = start + separator.join(b"".join(map(_character, name)) for name in names)
    spellings = [_Spelling(re.compile(narrow), _narrow_following)]
    for encoding in ("utf-16-le", "utf-16-be"):
        separator = b"(?:" + b"|".join(re.escape(text.encode(encoding)) for text in ("/", "\\\\", "\\")) + b")"
        start = separator if path.startswith("/") else b""
        wide = start + separator.join(re.escape(name.encode(encoding, "surrogatepass")) for name in names)
        spellings.append(_Spelling(re.compile(wide), _wide_following(encoding)))
    return spellings


def _character(character: str) -> bytes:
    """One character of a name: as it is, percent-encoded, or JSON-escaped, its hexadecimal digits in either case."""
    plain = character.encode("utf-8", "surrogateescape")
    percent = b"".join(b"%" + _hex(f"{byte:02x}") for byte in plain)
    units = character.encode("utf-16-be", "surrogatepass")
    escaped = b"".join(rb"\\u" + _hex(units[index : index + 2].hex()) for index in range(0, len(units), 2))
    return b"(?:" + re.escape(plain) + b"|" + percent + b"|" + escaped + b")"


def _hex(digits: str) -> bytes:
    return "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in digits).encode()
