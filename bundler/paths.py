"""Paths inside a Provider, as text: normal form, names that some system cannot hold, junk.

Nothing here touches a file system; links and confinement are `tree`'s.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from .errors import BundlerError


class Junk(NamedTuple):
    """A kind of file that belongs to nobody's work: `remade` says that its maker makes it again by itself."""

    pattern: str
    what: str
    remade: bool


#: What is left out of a Skill folder (one table: build, evaluation and reports use it).
JUNK = (
    Junk(".DS_Store", "macOS folder settings", True),
    Junk("._*", "macOS resource fork", True),
    Junk("Thumbs.db", "Windows thumbnails", True),
    Junk("__pycache__", "Python bytecode", True),
    Junk("*.pyc", "Python bytecode", True),
    Junk(".git", "git's own files", False),
    Junk(".*.sw[a-p]", "editor's swap file", False),
    Junk("*.sw[op]", "editor's swap file", False),
    Junk("*.kate-swp", "editor's swap file", False),
    Junk(".#*", "editor's lock file", False),
    Junk("#*#", "editor's autosave file", False),
    Junk("*~", "editor's backup file", False),
)

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DRIVE = re.compile(r"[A-Za-z]:")
# Most paths: nothing in them to normalize or to refuse.
_ORDINARY = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_.-]*(?:/[0-9A-Za-z_][0-9A-Za-z_.-]*)*\Z")
# Device names that Windows finds in any folder and behind any extension.
_RESERVED = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3])\Z", re.IGNORECASE)
# What a path must hold to be worth a closer look; most hold none of it.
_SUSPECT = re.compile(r"[\x00-\x1f\x7f\\]|[. ](?:/|\Z)|(?:\A|/)(?:con|prn|aux|nul|com[0-9]|lpt[0-9])", re.IGNORECASE)
_WINDOWS_CHARACTERS = re.compile(r'[<>:"|?*]')

#: The longest path that Windows takes unless long paths are enabled.
WINDOWS_PATH_LIMIT = 260
#: A typical place of a bundle in a site-packages folder on Windows, for the length of absolute paths.
TYPICAL_INSTALL_PREFIX = (
    r"C:\Users\runneradmin\AppData\Local\Programs\Python\Python313\Lib\site-packages\agent_graph_providers"
)


def normalize(path: str) -> str:
    """The one spelling of a relative POSIX path: no `.`, no empty segment, no `..` (protocol: `path`).

    The Provider root itself is the empty text. Raises `absolute-path-forbidden` for a path that begins
    with `/` or a drive letter, `path-outside-provider` for `..`, and `path-not-portable` for a backslash
    or a control character.
    """
    if _ORDINARY.match(path):
        return path
    if path.startswith("/") or _DRIVE.match(path):
        raise BundlerError(
            "absolute-path-forbidden", f"{path!r} is absolute; a path relative to the Provider root is expected"
        )
    if "\\" in path or _CONTROL.search(path):
        raise BundlerError("path-not-portable", f"{path!r} contains a backslash or a control character")
    segments = [segment for segment in path.split("/") if segment not in ("", ".")]
    if ".." in segments:
        raise BundlerError(
            "path-outside-provider", f"{path!r} contains `..`; a path inside the Provider root is expected"
        )
    return "/".join(segments)


def code_unit_key(text: str) -> bytes:
    """Sort key: the order of UTF-16 code units, which is that of JavaScript's own sort."""
    return text.encode("utf-16-be", "surrogatepass")


#: Whether the system's functions take texts as UTF-8; elsewhere a locale would decide what a file is called.
_SYSTEM_IS_UTF_8 = sys.getfilesystemencoding().lower() in ("utf-8", "utf8")


def to_system(path: str) -> str | bytes:
    """The path for calls of the system: its bytes are UTF-8 in every locale."""
    return path if _SYSTEM_IS_UTF_8 else path.encode("utf-8", "surrogateescape")


def from_system(name: str) -> str:
    """The path that the system's answer means: its bytes read as UTF-8, those that are none kept apart as surrogates."""
    return name if _SYSTEM_IS_UTF_8 else os.fsencode(name).decode("utf-8", "surrogateescape")


def printable(path: str) -> str:
    """The path for messages and JSON: control characters, and bytes that are no UTF-8, are spelled out."""
    text = path.encode("utf-8", "backslashreplace").decode()
    return _CONTROL.sub(lambda match: f"\\x{ord(match.group()):02x}", text)


def junk(name: str) -> Junk | None:
    """The kind of junk that a file or folder of this name is; None for anything else."""
    return next((kind for kind in JUNK if fnmatchcase(name, kind.pattern)), None)


def unportable(path: str) -> str | None:
    """Why some system cannot hold this relative path (`path-not-portable`); None if all can."""
    if path.isascii() and not _SUSPECT.search(path):
        return None
    try:
        path.encode()
    except UnicodeEncodeError:
        return "its name is not valid UTF-8"
    if "\\" in path:
        return "it contains a backslash"
    if _CONTROL.search(path):
        return "it contains a control character"
    for segment in path.split("/"):
        if segment.endswith((".", " ")):
            return f"`{segment}` ends in a dot or a blank, which Windows drops"
        if _RESERVED.match(segment.split(".")[0].rstrip(" ")):
            return f"`{segment}` is a name that Windows reserves"
    return None


def windows_character(path: str) -> str | None:
    """The first character of the path that Windows cannot hold in a name, if any (a warning only)."""
    found = _WINDOWS_CHARACTERS.search(path)
    return found.group() if found else None


def windows_length(provider: str, path: str) -> int:
    """The length of the installed file's absolute path under a typical site-packages of Windows, in UTF-16 code units."""
    inside = len(path) if path.isascii() else len(code_unit_key(path)) // 2
    return len(TYPICAL_INSTALL_PREFIX) + len(f"/p_{provider}/bundle/") + inside


def fold(path: str) -> str:
    """What two paths share that one folder cannot hold on a system that folds case or normalizes Unicode."""
    if path.isascii():
        return path.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())


def collisions(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Pairs of paths, files or folders on the way to them, that differ and fold to one (`path-collision`)."""
    spellings: dict[str, str] = {}
    seen: set[str] = set()
    for path in paths:
        part = path
        while part and part not in seen:
            seen.add(part)
            first = spellings.setdefault(fold(part), part)
            if first != part:
                yield first, part
            part = part.rpartition("/")[0]
