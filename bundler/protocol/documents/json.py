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
    finite = _check(value, path, max_values, "\\u" in text)
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


def _check(value: Json, path: str, max_values: int, escapes: bool) -> bool:
    """Hold the bounds and refuse lone surrogates, which only escapes can make; whether all numbers are finite."""
    finite = True
    count = 1
    depth = 0
    level: list[Json] = [value]
    while level:
        if escapes:
            _refuse_surrogates(level, path)
        finite = finite and all(math.isfinite(item) for item in level if item.__class__ is float)
        containers = [item for item in level if item.__class__ is dict or item.__class__ is list]
        depth += 1
        if containers and depth > MAX_LEVELS:
            raise too_deep(path)
        level = [below for item in containers for below in (item.values() if item.__class__ is dict else item)]
        count += len(level)
        if count > max_values:
            raise failed(path, f"holds more than {max_values:,} values")
    return finite


def _refuse_surrogates(values: list[Json], path: str) -> None:
    for value in values:
        texts = [value] if isinstance(value, str) else value if isinstance(value, dict) else ()
        try:
            "".join(texts).encode()
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
