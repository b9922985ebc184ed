"""Documents × schemas → diagnostics (specification: "Schema identity").

The protocol's own schemas lie in `schemas/`. What judges them is told to fetch nothing; its patterns are
ECMAScript's. Schemas that a Provider brings are `foreign`'s.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ..data import data_folder
from ..errors import BundlerError, Diagnostic, Suggestions
from .canonical import Json
from .documents import Document, describe, pointer_step

if TYPE_CHECKING:
    from pathlib import Path

#: Schema names, sorted, as `schema list` prints them.
NAMES = (
    "action",
    "bundle",
    "code-catalog",
    "code-location",
    "error",
    "evaluation",
    "graph",
    "host-action-result",
    "inspect",
    "provider",
    "resource",
    "resource-location",
    "resource-read-receipts",
    "route",
    "run",
    "skill-binding",
    "test-case",
)

#: Faults listed for one document; the rest is counted.
MAX_FAULTS = 50


def schema_path(name: str) -> Path:
    """The file of a schema. Raises `schema-type-unknown`."""
    if name not in NAMES:
        raise BundlerError("schema-type-unknown", f"there is no schema {name!r}; there are: {', '.join(NAMES)}")
    return data_folder("schemas") / f"{name}.schema.json"


def check(document: Document, name: str) -> None:
    """Raises `schema-invalid`, one diagnostic (`schema.<keyword>`) a fault, if the document breaks the schema."""
    if document.finite and _validator(name).is_valid(document.value):
        return
    no_numbers = dict.fromkeys(_not_finite(document.value, ""))
    faults = [("type", pointer, "is a number that JSON has not (infinite, or not a number)") for pointer in no_numbers]
    suggestions = Suggestions()
    for error in _validator(name).iter_errors(document.value):
        allowed = _fields(name, error.schema_path)
        faults.extend(fault for fault in explain(error, allowed, suggestions) if fault[1] not in no_numbers)
    _raise(document, name, faults)


def _fields(name: str, schema_path: list[str | int]) -> list[str]:
    """The fields that the schema allows at the place where an `additionalProperties` refused one."""
    if schema_path[-1:] != ["additionalProperties"]:
        return []
    place: Any = _schema(name)
    for step in schema_path[:-1]:
        place = place[step]
    return list(place.get("properties", ()))


@cache
def _schema(name: str) -> Json:
    return json.loads(schema_path(name).read_bytes())


@cache
def _validator(name: str) -> Any:
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(_schema(name), retriever=refuse_to_fetch)


def refuse_to_fetch(uri: str) -> Json:
    """What a validator is given to fetch documents with."""
    raise ValueError(f"{uri} is outside of the document")


def _not_finite(value: Json, pointer: str) -> Iterator[str]:
    """Pointers of numbers that JSON has not."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _not_finite(item, pointer + pointer_step(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _not_finite(item, f"{pointer}/{index}")
    elif isinstance(value, float) and not math.isfinite(value):
        yield pointer


def _raise(document: Document, name: str, faults: list[tuple[str, str, str]]) -> None:
    # In the order of the file: the reader meets them so.
    placed = sorted(
        (
            (document.place(pointer, key=keyword == _UNKNOWN) or (0, 0), keyword, pointer, message)
            for keyword, pointer, message in dict.fromkeys(faults)
        ),
        key=lambda item: item[0],
    )
    hint = f"correct the value at the place named; `agent-bundler schema path {name}` tells where the schema lies"
    diagnostics = [
        Diagnostic(
            code=f"schema.{keyword}",
            message=f"{f'`{pointer}`' if pointer else 'the document'} {message}",
            path=document.path,
            line=place[0] or None,
            column=place[1] or None,
            pointer=pointer,
            hint=hint,
        )
        for place, keyword, pointer, message in placed[:MAX_FAULTS]
    ]
    first = diagnostics[0]
    more = f" (and {len(placed) - 1} more)" if len(placed) > 1 else ""
    where = document.path if first.line is None else f"{document.path}:{first.line}:{first.column}"
    raise BundlerError("schema-invalid", f"{where} {first.message}{more}", hint=hint, diagnostics=diagnostics)


_UNKNOWN = "additionalProperties"


def explain(
    error: Any, allowed: Sequence[str] = (), suggestions: Suggestions | None = None
) -> Iterator[tuple[str, str, str]]:
    """(keyword, pointer, message); the message reads after the pointer. `allowed` are the fields of an object."""
    pointer = "".join(pointer_step(step) for step in error.instance_path)
    keyword = error.kind.name
    detail = error.kind.as_dict() if keyword not in ("oneOf", "anyOf") else {}
    found = describe(error.instance)
    match keyword:
        case "required":
            yield keyword, pointer, f"lacks the field `{detail['property']}`"
        case "additionalProperties":
            for name in detail["unexpected"]:
                near = suggestions.near(name, allowed) if suggestions is not None else ""
                meant = near or (f"; allowed are: {', '.join(allowed)}" if allowed else "")
                yield keyword, pointer + pointer_step(name), f"is a field that is not allowed here{meant}"
        case "falseSchema" | "false schema":
            yield "false", pointer, "is a field that is not allowed here"
        case "type":
            quotes = (
                " (put it in quotes)"
                if detail["types"] == ["string"] and isinstance(error.instance, int | float)
                else ""
            )
            what = "is empty" if error.instance is None and not pointer else f"is {found}"
            yield keyword, pointer, f"{what}; expected: {' or '.join(detail['types'])}{quotes}"
        case "enum":
            yield keyword, pointer, f"is {found}; expected one of: {', '.join(map(_choice, detail['options']))}"
        case "const":
            yield keyword, pointer, f"is {found}; expected: {_choice(detail['expected_value'])}"
        case "pattern" | "not" if "pattern" in detail or _definition(error) in SHAPES:
            expected = SHAPES.get(_definition(error) or "") or f"a text that matches {detail.get('pattern')}"
            yield keyword, pointer, f"is {found}; expected {expected}"
        case "propertyNames":
            yield keyword, pointer, f"has a key that is not allowed: {detail['error'].message}"
        case "minLength" | "minItems" | "minProperties" if detail["limit"] == 1:
            yield keyword, pointer, "is empty"
        case "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "minimum" | "maximum":
            word = "at least" if keyword.startswith("min") else "at most"
            unit = {"Length": " characters", "Items": " items", "Properties": " fields"}.get(keyword[3:], "")
            yield keyword, pointer, f"is {found}; expected {word} {detail['limit']}{unit}"
        case "uniqueItems":
            yield keyword, pointer, "lists one value twice"
        case "oneOf" if _definition(error) == "check":
            both = {"equals", "exists"} <= set(error.instance)
            yield (
                keyword,
                pointer,
                f"has {'both' if both else 'neither'} `equals` {'and' if both else 'nor'} `exists`; expected exactly one of them",
            )
        case "oneOf":
            yield keyword, pointer, f"is {found}; expected to match exactly one alternative"
        case _:
            yield keyword, pointer, error.message


#: What the shared definitions of the protocol's schemas demand, in words.
SHAPES = {
    "id": "an id: lower-case letters, digits and . _ / - between a letter or digit at both ends",
    "path": "a relative path inside the Provider root, with `/` and without `..`, backslash or control character",
    "version": "a semantic version such as 1.2.3 or 1.2.3-rc.1",
    "digest": "`sha256:` and 64 hexadecimal digits",
    "reasonCode": "`route.` followed by an id",
}


def _choice(value: Json) -> str:
    """A value that is allowed; a text without quotes, as the author writes it."""
    return value if isinstance(value, str) else describe(value)


def _definition(error: Any) -> str | None:
    path = error.schema_path
    return path[-2] if len(path) > 2 and path[-3] == "$defs" else None
