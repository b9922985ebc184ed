"""Provider id and version → names of Python packaging, so that no two ids share one.

A distribution's name is compared after normalization (PEP 503: case, and runs of `-`, `_` and `.`), so only
`a-z`, `0-9` and single inner `-` distinguish names. An id is written in these by a reversible escape:

- `/` is `-`: `acme/release` is `acme-release`;
- any other run of separators is `-x…-`, a letter each (`-` h, `.` d, `_` u, `/` s), a lone `-` just `-x-`:
  `acme/my-tool` is `acme-my-x-tool`, `a.b` is `a-xd-b`;
- a word that would read as such a run gets one more `x`: `a/x/b` is `a-xx-b`;
- an id that would be longer than `MAX_SLUG` is `x-` and its number in base 36.
"""

from __future__ import annotations

import re

from ..errors import BundlerError
from ..protocol.identifiers import is_id

PREFIX = "agent-graph-provider-"
#: The namespace package (PEP 420) that every Provider's folder is installed in.
NAMESPACE = "agent_graph_providers"
GROUP = "agent_graph.providers"
#: The signed statement about a bundle (DSSE), in the Provider's folder beside the bundle.
ENVELOPE_NAME = "bundle.dsse.json"
#: The largest such file, in bytes.
MAX_ENVELOPE = 16 * 1024 * 1024

#: The longest escape that is written out: with the rest of a wheel's file name it fits into 255 bytes.
MAX_SLUG = 165
#: The longest version in a wheel's file name.
MAX_VERSION = 40

_LETTERS = {"-": "h", ".": "d", "_": "u", "/": "s"}
_SEPARATORS = {letter: separator for separator, letter in _LETTERS.items()}
_RUN = re.compile(r"([-._/]+)")
_MARK = re.compile(r"x[hdus]*\Z")
_LIKE_A_MARK = re.compile(r"x+[hdus]*\Z")
# An id as a number: its characters are the digits 1 to 40, so that leading ones count.
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz-./_"

_MAPPED = re.compile(r"(\d+\.\d+\.\d+)(?:-(alpha|beta|rc)(?:\.([1-9]\d*))?)?\Z", re.ASCII)
_PRE = {"alpha": "a", "beta": "b", "rc": "rc"}


def distribution_name(provider_id: str) -> str:
    """The distribution of a Provider, in normalized form (PEP 503)."""
    return PREFIX + slug(provider_id)


def module_name(provider_id: str) -> str:
    """The folder of a Provider below `agent_graph_providers`."""
    return "p_" + slug(provider_id).replace("-", "_")


def slug(provider_id: str) -> str:
    """The id in lower-case letters, digits and single inner hyphens; `id_of` reads it back."""
    words = _RUN.split(provider_id)
    parts = [_escape(words[0])]
    for run, word in zip(words[1::2], words[2::2], strict=True):
        if run != "/":
            parts.append("x" if run == "-" else "x" + "".join(_LETTERS[each] for each in run))
        parts.append(_escape(word))
    written = "-".join(parts)
    return written if len(written) <= MAX_SLUG else f"x-{_number(provider_id)}"


def id_of(written: str) -> str:
    """The Provider id that a slug stands for. Raises ValueError for what `slug` never gives."""
    first, *rest = written.split("-")
    found = _id_of_number(rest[0]) if first == "x" and len(rest) == 1 else _id_of_parts(first, rest)
    if not is_id(found) or slug(found) != written:
        raise ValueError(f"{written!r} stands for no Provider id")
    return found


def claimed_by(distribution: str) -> str | None:
    """The Provider id to which a normalized distribution name belongs, whatever it holds; None if to none."""
    if not distribution.startswith(PREFIX):
        return None
    try:
        return id_of(distribution.removeprefix(PREFIX))
    except ValueError:
        return None


def python_version(version: str) -> str:
    """The Provider's semantic version as one of PEP 440 that is ordered as it and collides with no other.

    Raises `wheel-version-unmappable` for what has none: only `X.Y.Z` and its `-alpha`, `-beta` and `-rc`, each with
    or without a number from 1, are mapped.
    """
    found = _MAPPED.match(version)
    if found is None or len(version) > MAX_VERSION:
        why = (
            f"is longer than {MAX_VERSION} characters"
            if found
            else "has no counterpart among Python's versions that keeps its order"
        )
        raise BundlerError("wheel-version-unmappable", f"the Provider's version {version} {why}")
    release, label, number = found.groups()
    return release if label is None else f"{release}{_PRE[label]}{number or 0}"


def _escape(word: str) -> str:
    return f"x{word}" if _LIKE_A_MARK.match(word) else word


def _id_of_parts(first: str, rest: list[str]) -> str:
    found = [_unescape(first)]
    separator = "/"
    for part in rest:
        if _MARK.match(part):
            separator = "".join(_SEPARATORS[letter] for letter in part[1:]) or "-"
            continue
        found += [separator, _unescape(part)]
        separator = "/"
    return "".join(found)


def _unescape(part: str) -> str:
    return part[1:] if _LIKE_A_MARK.match(part) else part


def _number(text: str) -> str:
    value = 0
    for character in text:
        value = value * len(_ALPHABET) + _ALPHABET.index(character) + 1
    digits = []
    while value:
        value, digit = divmod(value, 36)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))


def _id_of_number(digits: str) -> str:
    value = int(digits, 36)
    found = []
    while value:
        value, character = divmod(value - 1, len(_ALPHABET))
        found.append(_ALPHABET[character])
    return "".join(reversed(found))
