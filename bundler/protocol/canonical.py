"""Values → canonical JSON, collation, digests (protocol: "Canonical JSON", "Collation").

Canonical JSON is what a digest of a value is taken of: keys that are array indices first, in numeric
order, then the others by collation; no white space; texts as JavaScript's `JSON.stringify` writes them;
numbers as ECMAScript writes them (RFC 8785).
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any, Protocol

from ..paths import code_unit_key

#: JSON as this package holds it: dict, list, str, int, float, bool, None.
Json = Any


class Hasher(Protocol):
    """What hashlib and blake3 have in common."""

    def update(self, data: bytes, /) -> object: ...
    def hexdigest(self) -> str: ...


def _blake3() -> Hasher:
    from blake3 import blake3

    return blake3()


#: Digest algorithms by name. The protocol's own digests are sha256; the others are for lists and fingerprints.
ALGORITHMS: dict[str, Callable[[], Hasher]] = {"sha256": hashlib.sha256, "blake3": _blake3}


def sha256(data: bytes) -> str:
    """The protocol's digest of raw bytes: `sha256:` and 64 hexadecimal digits."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest(value: Json) -> str:
    """The protocol's digest of a value: that of its canonical JSON in UTF-8."""
    return sha256(canonical(value).encode())


# The primary order of ASCII under Unicode root collation. What is not in it (other control characters) is
# ignored; letters compare without case; a non-ASCII character stays itself and so comes after all of these.
_PRIMARY_ORDER = "\t\n\v\f\r _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz"
_PRIMARY: dict[int, int | None] = dict.fromkeys(range(128))
_PRIMARY |= {ord(character): weight for weight, character in enumerate(_PRIMARY_ORDER)}
_PRIMARY |= {ord(character.upper()): _PRIMARY[ord(character)] for character in "abcdefghijklmnopqrstuvwxyz"}
_IGNORED = frozenset(chr(code) for code, weight in _PRIMARY.items() if weight is None)
_CASE = dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "1")


def collation_key(text: str) -> tuple[str, str, bytes]:
    """Sort key: Unicode root collation for ASCII, whatever the machine's locale (protocol: Collation)."""
    primary = text.translate(_PRIMARY)
    # Only among texts of one primary key does case decide: lower before upper at the first difference.
    # A text without upper case needs no second key: the empty one sorts before any that has some.
    case = (
        ""
        if text == text.lower()
        else "".join(_CASE.get(character, "0") for character in text if character not in _IGNORED)
    )
    return primary, case, code_unit_key(text)


_INDEX = re.compile(r"(?:0|[1-9][0-9]{0,9})\Z")
_LARGEST_INDEX = 4294967294


def key_order(key: str) -> tuple[int, int, tuple[str, str, bytes]]:
    """Sort key of an object's keys in canonical JSON: array indices by number, then the others by collation."""
    if _INDEX.match(key) and int(key) <= _LARGEST_INDEX:
        return 0, int(key), ("", "", b"")
    return 1, 0, collation_key(key)


def number(value: float) -> str:
    """A number as ECMAScript's `String(value)` writes it. Raises ValueError for infinities and NaN."""
    if isinstance(value, int):
        if -(2**53) <= value <= 2**53:
            return str(value)
        value = float(value)
    if not math.isfinite(value):
        raise ValueError("no JSON number")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    # repr gives the shortest digits that read back the same, as ECMAScript demands; only the layout differs.
    mantissa, _, exponent_text = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    if fraction == "0":
        fraction = ""
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent_text or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    exponent = point - 1
    tail = f".{digits[1:]}" if count > 1 else ""
    return f"{sign}{digits[0]}{tail}e{'+' if exponent > 0 else '-'}{abs(exponent)}"


def scalar(value: str | float | bool | None) -> str:
    """The canonical JSON of a scalar."""
    if isinstance(value, str):
        return encode_basestring(value)
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    return number(value)


def canonical(value: Json) -> str:
    """The canonical JSON of a value. Raises ValueError for infinities and NaN."""
    parts: list[str] = []
    orders: _Orders = {}
    # What is still to be written, last first: texts as they are, everything else in a 1-tuple.
    pending: list[str | tuple[Json]] = [(value,)]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            parts.append(item)
            continue
        value = item[0]
        flat = _flat(value, orders)
        if flat is not None:
            parts.append(flat)
        elif isinstance(value, dict):
            rest: list[str | tuple[Json]] = []
            for key, text in _order(value, orders):
                rest.append("," + text if rest else "{" + text)
                rest.append((value[key],))
            rest.append("}")
            pending.extend(reversed(rest))
        else:
            texts = [_flat(element, orders) for element in value]
            written = [text for text in texts if text is not None]
            if len(written) == len(texts):
                parts.append("[" + ",".join(written) + "]")
                continue
            rest = []
            for element, text_or_none in zip(value, texts, strict=True):
                rest.append("," if rest else "[")
                rest.append((element,) if text_or_none is None else text_or_none)
            rest.append("]")
            pending.extend(reversed(rest))
    return "".join(parts)


# Objects of one shape are common (a manifest's files): their keys are sorted once, by the keys as they stand.
_Orders = dict[tuple[str, ...], list[tuple[str, str]]]


def _order(value: dict[str, Json], orders: _Orders) -> list[tuple[str, str]]:
    """An object's keys in canonical order, each with its text."""
    keys = tuple(value)
    order = orders.get(keys)
    if order is None:
        order = orders[keys] = [(key, encode_basestring(key) + ":") for key in sorted(keys, key=key_order)]
    return order


def _flat(value: Json, orders: _Orders) -> str | None:
    """The text of a scalar, or of an object of texts; None for what takes more."""
    kind = value.__class__
    if kind is dict:
        try:
            return "{" + ",".join([text + encode_basestring(value[key]) for key, text in _order(value, orders)]) + "}"
        except TypeError:  # a member is no text
            return None
    if kind is list or kind is tuple:
        return None if value else "[]"
    return scalar(value)
