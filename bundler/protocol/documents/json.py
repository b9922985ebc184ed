"""JSON as RFC 8259 has it: UTF-8, no byte order mark, no NaN, no duplicate keys."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator

from ..canonical import Json, scalar
from .value import (
    KEY,
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
    except json.JSONDecodeError as caught:
        error = caught
        if caught.msg.startswith("Illegal trailing comma"):  # from Python 3.13 on: told at the comma, not behind it
            behind = len(text) - len(text[caught.pos + 1 :].lstrip(" \t\r\n"))
            error = json.JSONDecodeError(caught.msg, text, behind)
        raise failed(path, f"is not JSON: {error.msg}", error.lineno, error.colno) from None
    except RecursionError:
        raise too_deep(path) from None
    except _DuplicateKeyError:
        key, place = _json_places(text, {}) or ("", (1, 1))
        raise failed(path, f"names the key {scalar(key)} twice in one object", *place) from None
    except _NoNumberError as error:
        place = next(place for part, place in _parts(text) if part == error.name)
        raise failed(path, f"contains {error.name}, which is no JSON number", *place) from None
    finite = _check(value, text, path, max_values)
    return Document(path=path, value=value, finite=finite, _places=find_places)


class _DuplicateKeyError(Exception):
    pass


class _NoNumberError(Exception):
    def __init__(self, name: str) -> None:
        self.name = name


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _DuplicateKeyError
    return result


def _constant(name: str) -> Json:
    raise _NoNumberError(name)


def _check(value: Json, text: str, path: str, max_values: int) -> bool:
    """Hold the bounds and refuse lone surrogates, which only escapes can make; whether all numbers are finite."""
    if "\\u" in text:
        _refuse_surrogates(text, path)
    finite = True
    count = 1
    depth = 0
    level: list[Json] = [value]
    while level:
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


def _refuse_surrogates(text: str, path: str) -> None:
    for part, place in _parts(text):
        if part[0] == '"' and "\\u" in part:
            try:
                json.loads(part).encode()
            except UnicodeEncodeError:
                raise lone_surrogate(path, *place) from None


_PART = re.compile(r'[ \t\r]*(?:(\n)|("(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+))')


def _parts(text: str) -> Iterator[tuple[str, Place]]:
    """The tokens of a JSON text and where they stand."""
    line, line_start = 1, 0
    for match in _PART.finditer(text):
        newline, part = match.groups()
        if newline:
            line, line_start = line + 1, match.end()
        else:
            yield part, (line, match.start(2) - line_start + 1)


def _json_places(text: str, places: dict[str, Place]) -> tuple[str, Place] | None:
    """Fill in where each value of a JSON text stands; the first key that its object has already ends it."""
    # For each open container: its pointer, and the keys seen or (of a list) None; and the index of the next element.
    stack: list[tuple[str, set[str] | None]] = []
    index: list[int] = []
    pointer = ""
    key_next = False
    for part, place in _parts(text):
        if part in "]}":
            stack.pop()
            index.pop()
        elif part == ",":
            container, keys = stack[-1]
            key_next = keys is not None
            index[-1] += 1
            pointer = f"{container}/{index[-1]}"
        elif part == ":":
            continue
        elif key_next and part[0] == '"':
            container, keys = stack[-1]
            key = json.loads(part)
            if keys is not None and key in keys:
                return key, place
            if keys is not None:
                keys.add(key)
            pointer = container + pointer_step(key)
            places[pointer + KEY] = place
            key_next = False
        else:
            places.setdefault(pointer, place)
            if part in "{[":
                stack.append((pointer, set() if part == "{" else None))
                index.append(0)
                key_next = part == "{"
                pointer = f"{pointer}/0"
    return None
