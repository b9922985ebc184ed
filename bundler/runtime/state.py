"""What an evaluation is made from: Facts, Outcomes, authorities; JSON's own equality (protocol: "Evaluation")."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ..errors import BundlerError
from ..protocol.canonical import Json, scalar
from ..protocol.documents import describe
from ..protocol.model import Check

OUTCOMES = ("completed", "partial", "failed", "unverified", "skipped", "pending", "blocked", "waiting-user")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Facts as a JSON object, the latest Outcome by state key, and the session authorities. `make_state` checks them."""

    facts: Mapping[str, Json] = field(default_factory=dict)
    outcomes: Mapping[str, str] = field(default_factory=dict)
    authorities: frozenset[str] = frozenset()


def make_state(
    facts: Mapping[str, Json] | None = None,
    outcomes: Mapping[str, Any] | None = None,
    authorities: Iterable[str] = (),
) -> State:
    """The state of these values, which are copied. An Outcome is a text, or a record with `outcome`.

    Raises `json-object-required`, `json-invalid` for what is no JSON, `outcome-invalid` and `option-invalid`.
    """
    for name, value in (("facts", facts), ("outcomes", outcomes)):
        if value is not None and not isinstance(value, Mapping):
            raise BundlerError("json-object-required", f"the {name} are {describe(value)}; a JSON object is expected")
    facts = {} if facts is None else facts
    check_json(facts, "facts")
    found: dict[str, str] = {}
    for key, record in (outcomes or {}).items():
        check_json(key, "a key of the outcomes")
        outcome = record.get("outcome") if isinstance(record, Mapping) else record
        if not isinstance(key, str) or outcome not in OUTCOMES:
            raise outcome_invalid(key, outcome)
        found[key] = outcome
    texts = [authorities] if isinstance(authorities, str) else list(authorities)
    for each in texts:
        if not isinstance(each, str) or not each:
            raise BundlerError("option-invalid", f"the authority {each!r} is no text", hint="name the authority's id")
        check_json(each, "an authority")
    return State(facts=_plain(facts), outcomes=MappingProxyType(found), authorities=frozenset(texts))


def outcome_invalid(key: object, outcome: object) -> BundlerError:
    """`outcome-invalid`, for a state key."""
    return BundlerError(
        "outcome-invalid", f"the Outcome of {key!r} is {outcome!r}; expected one of: {', '.join(OUTCOMES)}"
    )


def check_json(value: Json, what: str) -> None:
    """Raises `json-invalid` for what JSON can't say.

    That is NaN, infinities, keys and values of other types, lone surrogates, and what holds itself.
    """
    pending: list[tuple[Json, str]] = [(value, what)]
    around: list[tuple[int, int]] = []  # the containers that the value at hand lies in: id, how much was pending
    inside: set[int] = set()
    while pending:
        while around and len(pending) <= around[-1][1]:
            inside.remove(around.pop()[0])
        each, place = pending.pop()
        if isinstance(each, Mapping | list | tuple):
            if id(each) in inside:
                raise BundlerError("json-invalid", f"{place} holds itself")
            inside.add(id(each))
            around.append((id(each), len(pending)))
        if isinstance(each, Mapping):
            for key, inner in each.items():
                if not isinstance(key, str):
                    raise BundlerError("json-invalid", f"{place} has the key {key!r}; JSON's keys are texts")
                check_json(key, f"a key of {place}") if not key.isascii() else None
                pending.append((inner, f"{place}.{key}"))
        elif isinstance(each, list | tuple):
            pending.extend((inner, f"{place}.{index}") for index, inner in enumerate(each))
        elif isinstance(each, float) and not math.isfinite(each):
            raise BundlerError("json-invalid", f"{place} is {each}, which is no number of JSON")
        elif isinstance(each, int) and not isinstance(each, bool):
            try:
                float(each)
            except OverflowError:
                raise BundlerError("json-invalid", f"{place} is beyond what a number of JSON holds") from None
        elif isinstance(each, str):
            if not each.isascii() and any("\ud800" <= character <= "\udfff" for character in each):
                raise BundlerError("json-invalid", f"{place} holds a lone surrogate, which is no character")
        elif each is not None and not isinstance(each, bool | float):
            raise BundlerError("json-invalid", f"{place} is a {type(each).__name__}, which JSON has not")


def _plain(value: Json) -> Json:
    """The same JSON in dicts and lists of its own, which is what canonical JSON is written of."""
    whole: list[Json] = [None]
    pending: list[tuple[Json, Any, Json]] = [(whole, 0, value)]
    while pending:
        place, key, each = pending.pop()
        if isinstance(each, Mapping):
            place[key] = dict.fromkeys(each)
            pending.extend((place[key], name, inner) for name, inner in each.items())
        elif isinstance(each, list | tuple):
            place[key] = [None] * len(each)
            pending.extend((place[key], index, inner) for index, inner in enumerate(each))
        else:
            place[key] = each
    return whole[0]


def satisfied(check: Check, facts: Mapping[str, Json]) -> bool:
    """Whether a fact check is true (specification: "Fact checks")."""
    present, value = look_up(facts, check.path)
    if check.exists is not None:
        return present is check.exists
    return present and same_scalar(value, check.equals)


def look_up(facts: Json, path: str) -> tuple[bool, Json]:
    """Whether there is a value at a dotted path, and that value. A segment without a leading zero indexes a list."""
    value = facts
    for segment in path.split("."):
        if isinstance(value, Mapping):
            if segment not in value:
                return False, None
            value = value[segment]
        elif isinstance(value, list | tuple):
            if not segment.isdigit() or not segment.isascii() or (segment[0] == "0" and segment != "0"):
                return False, None
            if len(segment) > 18 or int(segment) >= len(value):
                return False, None
            value = value[int(segment)]
        else:
            return False, None
    return True, value


def same_scalar(left: Json, right: Json) -> bool:
    """Equality of JSON's scalars: numbers are equal when they are the same double (0 and -0 are not), true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        first, second = float(left), float(right)
        return first == second and math.copysign(1, first) == math.copysign(1, second)
    return type(left) is type(right) and not isinstance(left, dict | list | tuple) and left == right


def as_text(value: Json) -> str:
    """A value of a Fact, for people."""
    return describe(value) if isinstance(value, Mapping | list | tuple) else scalar(value)
