"""Schemas that a Provider brings: compiled, self-contained, and bounded in what judging a value may cost.

The same validator judges them as the protocol's own, so patterns are ECMAScript's; those with lookaround or
back references are given up after a number of steps. What it is given is looked at before: a reference that leaves the document is refused, and a
schema that would be applied too often (combinators and references multiply) is not applied at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import BundlerError
from .canonical import Json
from .documents import Document, describe, pointer_step
from .schemas import MAX_FAULTS, explain, refuse_to_fetch

#: How often schemas are applied to values for one judgement, at most, times how deep they are in each other.
MAX_WORK = 2_000_000
#: How deep, through combinators, references and the value.
MAX_DEPTH = 2_000
# Steps of one pattern with lookaround or back references on one text, and what such a pattern counts for.
_MAX_BACKTRACKING = 10_000
_FANCY = re.compile(r"\(\?<?[=!]|\\[1-9]|\\k")
_FANCY_WORK = 100
# Distinct pairs of schema and value that are looked at to find that out.
_MAX_PAIRS = 200_000

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_DRAFTS = {
    _DRAFT: "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    "http://json-schema.org/draft-04/schema": "Draft4Validator",
}
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
# Keywords whose members are schemas by name, and those whose value is data.
_NAMED = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"))
_DATA = frozenset(("const", "enum", "default", "examples"))


@dataclass(frozen=True, slots=True)
class ForeignSchema:
    """A compiled schema of a Provider. `compile_schema` makes one."""

    path: str
    schema: Json
    validator: Any

    def faults(self, value: Json) -> list[tuple[str, str, str]]:
        """(keyword, pointer, message) for each fault of a value, at most `schemas.MAX_FAULTS`.

        Raises `schema-limit-exceeded` where judging the value would take too many steps.
        """
        if not _is_affordable(self.schema, value):
            raise BundlerError(
                "schema-limit-exceeded",
                f"`{self.path}` would be applied too often to this value: its combinators and references multiply",
                path=self.path,
            )
        if self.validator.is_valid(value):
            return []
        found: dict[tuple[str, str, str], None] = {}
        for error in self.validator.iter_errors(value):
            found.update(dict.fromkeys(explain(error)))
            if len(found) >= MAX_FAULTS:
                break
        return list(found)[:MAX_FAULTS]


def compile_schema(document: Document) -> ForeignSchema:
    """The schema in a document: draft 2020-12, or the draft that `$schema` names.

    Raises `schema-reference-external` for a reference that leaves the document, `schema-invalid` for what
    is no valid schema. `$id` is only an identity here: `acme.request/v1` is no base for references.
    """
    import jsonschema_rs

    schema = document.value
    if not isinstance(schema, dict | bool) or not document.finite:
        found = describe(schema) if document.finite else "holds a number that JSON has not"
        raise document.fault("schema-invalid", "", f"is no JSON Schema: it is {found}", hint=_HINT)
    external = _external_references(schema)
    if external:
        raise BundlerError.of(
            [
                document.fault(
                    "schema-reference-external", pointer, f"refers to {reference!r}, outside of the document"
                )
                for pointer, reference in external
            ]
        )
    draft = schema.get("$schema", _DRAFT) if isinstance(schema, dict) else _DRAFT
    if not isinstance(draft, str) or draft.rstrip("#") not in _DRAFTS:
        message = f"names a draft of JSON Schema that is not known: {describe(draft)}"
        raise document.fault("schema-invalid", "/$schema", message, hint=f"use {_DRAFT}")
    if isinstance(schema, dict):
        schema = {key: value for key, value in schema.items() if key != "$id"}
    refused: list[str] = []

    def refuse(uri: str) -> Json:
        refused.append(uri)
        return refuse_to_fetch(uri)

    pointer = ""
    try:
        patterns = jsonschema_rs.FancyRegexOptions(backtrack_limit=_MAX_BACKTRACKING)
        compiler = getattr(jsonschema_rs, _DRAFTS[draft.rstrip("#")])
        validator = compiler(schema, retriever=refuse, pattern_options=patterns)
        return ForeignSchema(document.path, schema, validator)
    except jsonschema_rs.ValidationError as error:
        pointer = "".join(pointer_step(step) for step in error.instance_path)
        message = f"is no valid JSON Schema: {error.message}"
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        message = f"is no usable JSON Schema: {error}"
    if refused:
        raise document.fault("schema-reference-external", "", f"refers to {refused[0]!r}, outside of the document")
    raise document.fault("schema-invalid", pointer, message, hint=_HINT)


_HINT = "correct the JSON Schema at the place named"


def _external_references(schema: Json) -> list[tuple[str, str]]:
    """Pointers and values of references that name neither a place in the document nor an `$id` within it."""
    references: list[tuple[str, str]] = []
    within: set[str] = set()
    pending: list[tuple[str, Json, bool]] = [("", schema, False)]
    while pending:
        pointer, value, named = pending.pop()
        if isinstance(value, dict):
            for key, item in value.items():
                below = pointer + pointer_step(key)
                if not named and key in _DATA:
                    continue
                if not named and isinstance(item, str):
                    if key in _REFERENCES or (key == "$schema" and item.rstrip("#") not in _DRAFTS and pointer):
                        references.append((below, item))
                    elif key in ("$id", "id") and pointer:
                        within.add(item.partition("#")[0])
                pending.append((below, item, not named and key in _NAMED))
        elif isinstance(value, list):
            pending.extend((f"{pointer}/{index}", item, False) for index, item in enumerate(value))
    return sorted((pointer, item) for pointer, item in references if item.partition("#")[0] not in within | {""})


class _Pair:
    """A schema that is applied to a value: what that takes, and what is still to be looked at."""

    __slots__ = ("below", "key", "work")

    def __init__(self, key: tuple[int, int], below: Iterator[tuple[Json, Json]], work: int) -> None:
        self.key, self.below, self.work = key, below, work


def _is_affordable(schema: Json, value: Json) -> bool:
    """Whether applying the schema stays within the bounds: each pair of schema and value is looked at once.

    The count is an upper bound: which alternatives hold is not looked at.
    """
    resources = list(_resources(schema))
    work: dict[tuple[int, int], int] = {}
    targets: dict[str, list[Json]] = {}
    stack = [_Pair((id(schema), id(value)), _applied(schema, value, resources, targets), _own_work(schema, value))]
    depth = 1
    while stack:
        pair = stack[-1]
        following = next(pair.below, None)
        if following is None:
            stack.pop()
            work[pair.key] = pair.work
            if stack:
                stack[-1].work += pair.work
            if pair.work * depth > MAX_WORK:
                return False
            continue
        key = (id(following[0]), id(following[1]))
        if key in work:
            pair.work += work[key]
            continue
        if len(stack) >= MAX_DEPTH or len(work) >= _MAX_PAIRS:
            return False
        work[key] = 0  # met again below itself it adds nothing: a validator ends there too
        stack.append(_Pair(key, _applied(*following, resources, targets), _own_work(*following)))
        depth = max(depth, len(stack))
    return True


def _own_work(schema: Json, value: Json) -> int:
    """What a schema takes without those that it applies: more where a pattern may be tried in many ways."""
    if not isinstance(schema, dict):
        return 1
    patterns = [*_mapping(schema.get("patternProperties")), (schema.get("pattern"), None)]
    fancy = sum(1 for pattern, _ in patterns if isinstance(pattern, str) and _FANCY.search(pattern))
    return 1 + fancy * _FANCY_WORK * (len(value) if isinstance(value, dict) else 1)


def _applied(
    schema: Json, value: Json, resources: list[Json], targets: dict[str, list[Json]]
) -> Iterator[tuple[Json, Json]]:
    """The schemas that a schema applies in turn, and to what."""
    if not isinstance(schema, dict):
        return
    inside: list[Json] = []
    if isinstance(value, dict):
        inside = list(value.values())
        for name, named in _mapping(schema.get("properties")):
            if name in value:
                yield named, value[name]
        for key in ("additionalProperties", "unevaluatedProperties"):
            yield from ((schema[key], item) for item in inside if key in schema)
        yield from ((each, item) for _, each in _mapping(schema.get("patternProperties")) for item in inside)
        yield from ((schema["propertyNames"], name) for name in value if "propertyNames" in schema)
    elif isinstance(value, list):
        inside = value
        for key in ("prefixItems", "items", "additionalItems", "contains", "unevaluatedItems"):
            each = schema.get(key)
            for index, item in enumerate(value):
                if isinstance(each, list):
                    yield from ((one, item) for one in each[index : index + 1])
                elif each is not None:
                    yield each, item
    # To find out what is unevaluated, a validator goes through the rest again.
    again = 1 + (len(inside) if "unevaluatedProperties" in schema or "unevaluatedItems" in schema else 0)
    for _ in range(again):
        for key in ("allOf", "anyOf", "oneOf"):
            each = schema.get(key)
            yield from ((one, value) for one in (each if isinstance(each, list) else ()))
        for key in ("not", "if", "then", "else"):
            if key in schema:
                yield schema[key], value
        for key in ("dependentSchemas", "dependencies"):
            yield from ((one, value) for _, one in _mapping(schema.get(key)))
        for key in _REFERENCES:
            reference = schema.get(key)
            if isinstance(reference, str):
                if reference not in targets:
                    targets[reference] = list(_targets(reference, resources))
                yield from ((target, value) for target in targets[reference])


def _mapping(value: Json) -> list[tuple[str, Json]]:
    return list(value.items()) if isinstance(value, dict) else []


def _resources(schema: Json) -> Iterator[Json]:
    """The schema, and each within it that has a name of its own: an `$id` or an anchor."""
    yield schema
    pending = [schema]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            if value is not schema and any(key in value for key in ("$id", "id", "$anchor", "$dynamicAnchor")):
                yield value
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)


def _targets(reference: str, resources: list[Json]) -> Iterator[Json]:
    """What a reference may lead to: all that it could mean, whichever resource it is written in."""
    from urllib.parse import unquote

    fragment = reference.partition("#")[2]
    for resource in resources:
        if not fragment:
            yield resource
        elif not fragment.startswith("/"):
            if (
                fragment in (resource.get("$anchor"), resource.get("$dynamicAnchor"))
                or resource.get("$id") == f"#{fragment}"
            ):
                yield resource
        else:
            target = resource
            for step in unquote(fragment[1:]).split("/"):
                name = step.replace("~1", "/").replace("~0", "~")
                if isinstance(target, dict) and name in target:
                    target = target[name]
                elif isinstance(target, list) and name.isdigit() and int(name) < len(target):
                    target = target[int(name)]
                else:
                    break
            else:
                yield target
