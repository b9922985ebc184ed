"""JSON as RFC 8259 has it: UTF-8, no byte order mark, no NaN, no duplicate keys."""

from __future__ import annotations

import json
import math
import re

from ..canonical import Json, scalar
from .value import (
    MAX_LEVELS,
    MAX_VALUES,
    Document,
    Place,
    decode,
    double,
    failed,
    lone_surrogate,
    pointer_step,
    too_deep,
)


def parse_json(data: bytes, path: str, *, max_values: int = MAX_VALUES) -> Document:
    """RFC 8259: UTF-8 without a byte order mark, no NaN, duplicate keys refused."""
    text = decode(data, path)
    if text.startswith("\ufeff"):
        raise failed(
            path, "begins with a byte order mark, which JSON does not allow", 1, 1, "save the file as UTF-8 without BOM"
        )
    places: dict[str, Place] = {}

    def find_places() -> dict[str, Place]:
        if not places:
            _json_places(text, places)
        return places

    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_int=double, parse_float=double, parse_constant=_constant
        )
    except json.JSONDecodeError as error:
        raise failed(path, f"is not JSON: {error.msg}", error.lineno, error.colno) from None
    except RecursionError:
        raise too_deep(path) from None
    except _DuplicateKeyError as error:
        line, column = _json_places(text, {}) or (1, 1)
        raise failed(path, f"names the key {scalar(error.key)} twice in one object", line, column) from None
    except _NoNumberError as error:
        raise failed(path, f"contains {error.name}, which is no JSON number") from None
    finite = _check_json(value, path, max_values)
    return Document(path=path, value=value, finite=finite, _places=find_places)


class _DuplicateKeyError(Exception):
    def __init__(self, key: str) -> None:
        self.key = key


class _NoNumberError(Exception):
    def __init__(self, name: str) -> None:
        self.name = name


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKeyError(key)
            seen.add(key)
    return result


def _constant(name: str) -> Json:
    raise _NoNumberError(name)


def _check_json(value: Json, path: str, max_values: int) -> bool:
    """Hold the bounds and refuse lone surrogates; whether all numbers are finite."""
    finite = True
    count = 0
    level: list[Json] = [value]
    for depth in range(MAX_LEVELS + 2):
        below: list[Json] = []
        for item in level:
            count += 1
            if isinstance(item, dict):
                for key in item:
                    _no_surrogate(key, path)
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
            elif isinstance(item, str):
                _no_surrogate(item, path)
            elif isinstance(item, float) and not math.isfinite(item):
                finite = False
        if count > max_values:
            raise failed(path, f"holds more than {max_values:,} values")
        if not below:
            # The last level may hold empty objects and lists: they count as a level of their own.
            if depth == MAX_LEVELS and any(isinstance(item, dict | list) for item in level):
                raise too_deep(path)
            return finite
        if depth >= MAX_LEVELS:
            raise too_deep(path)
        level = below
    raise AssertionError("the loop ends at MAX_LEVELS")


def _no_surrogate(text: str, path: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise lone_surrogate(path) from None


_JSON_TOKEN = re.compile(r'[ \t\r]*(?:(\n)|("(?:[^"\\]|\\.)*")|([{}\[\],:])|([^\s{}\[\],:"]+))')


def _json_places(text: str, places: dict[str, Place]) -> Place | None:
    """Fill in where each value of a JSON text stands; the place of the first duplicate key ends it."""
    line, line_start = 1, 0
    # For each open container: its pointer, and the keys seen or the index of the next element.
    stack: list[tuple[str, set[str] | None]] = []
    index: list[int] = []
    pointer = ""
    key_next = False
    for token in _JSON_TOKEN.finditer(text):
        newline, quoted, mark, _ = token.groups()
        if newline:
            line, line_start = line + 1, token.end()
            continue
        place = (line, token.start(token.lastindex or 0) - line_start + 1)
        if mark and mark in "]}":
            stack.pop()
            index.pop()
        elif mark == ",":
            container, keys = stack[-1]
            key_next = keys is not None
            index[-1] += 1
            pointer = f"{container}/{index[-1]}"
        elif mark == ":":
            continue
        elif quoted and key_next:
            container, keys = stack[-1]
            key = json.loads(quoted, strict=False)
            if keys is not None and key in keys:
                return place
            if keys is not None:
                keys.add(key)
            pointer = container + pointer_step(key)
            key_next = False
        else:
            places.setdefault(pointer, place)
            if mark in ("{", "["):
                stack.append((pointer, set() if mark == "{" else None))
                index.append(0)
                key_next = mark == "{"
                pointer = f"{pointer}/0"
    return None
