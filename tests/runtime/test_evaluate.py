"""Evaluation: the same as a second, slow reading of the protocol; its bounds; JSON's own semantics."""

from __future__ import annotations

import copy
import json
from collections import OrderedDict
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bundler.errors import BundlerError
from bundler.runtime.evaluate import Evaluation, evaluate
from bundler.runtime.open import open_provider
from bundler.runtime.state import OUTCOMES, look_up, make_state, same_scalar

from ..builders import ACTION, GRAPH, minimal, write_out
from .questions import EMPTY, SIZE, ours, provider, question
from .slow_model import frame as slow_frame

#: What a question is made from; hypothesis makes one that fails smaller.
DATA = st.binary(min_size=SIZE, max_size=SIZE)
TRUNCATED = "route-alternatives-truncated"


def bounded(examples: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))


def seen(evaluation: Evaluation) -> tuple[Any, ...]:
    """All but the revision and what rests on it."""
    candidates = {(each.state_key, each.call_path, each.status, each.availability) for each in evaluation.candidates}
    return evaluation.status, evaluation.outcome, candidates, [each.code for each in evaluation.diagnostics]


# --- the second reading -----------------------------------------------------------------------------------


@bounded(1_100)
@given(DATA)
def test_it_is_what_the_protocol_says(data: bytes) -> None:
    graphs, state = question(data)
    before = copy.deepcopy((graphs, state))
    found = ours(graphs, state)
    assert (graphs, state) == before
    expected = slow_frame({graph["id"]: graph for graph in graphs}, "g0", "default", "", state)
    codes = [(each.code, each.path) for each in found.diagnostics if each.code != TRUNCATED]
    assert (found.status, found.outcome, codes) == (expected["status"], expected["outcome"], expected["codes"])
    offered = [
        (each.call_path, each.graph, each.node.id, each.availability == "immediate") for each in found.candidates
    ]
    assert sorted(offered) == sorted(expected["candidates"])
    priorities = {(graph["id"], node["id"]): node.get("priority", 0) for graph in graphs for node in graph["nodes"]}
    ranks = [
        (not immediate, -priorities[graph, node], each.route_id)
        for each, (_, graph, node, immediate) in zip(found.candidates, offered, strict=True)
    ]
    assert ranks == sorted(ranks)
    assert (found.diagnostics[-1:] and found.diagnostics[-1].code == TRUNCATED) == (len(offered) > 4 or found.diagnostics[-1:] and False)


@bounded(200)
@given(DATA, st.permutations(range(9)))
def test_the_order_of_nodes_changes_no_route(data: bytes, order: list[int]) -> None:
    graphs, state = question(data)
    mixed = copy.deepcopy(graphs)
    for graph in mixed:
        nodes = graph["nodes"]
        graph["nodes"] = [nodes[index] for index in order if index < len(nodes)]
    one, other = ours(graphs, state), ours(mixed, state)
    assert (one.status, one.outcome, one.candidates) == (other.status, other.outcome, tuple_of(one, other))


@bounded(200)
@given(DATA, st.sampled_from(OUTCOMES))
def test_an_unknown_key_changes_the_revision_and_nothing_else(data: bytes, outcome: str) -> None:
    graphs, state = question(data)
    more = {**state, "outcomes": {**state["outcomes"], "g0/nowhere": outcome, "g0/n0>g1/nowhere": outcome}}
    one, other = ours(graphs, state), ours(graphs, more)
    assert seen(one) == seen(other)
    assert one.revision != other.revision


@bounded(200)
@given(DATA)
def test_what_is_beside_an_outcome_changes_nothing(data: bytes) -> None:
    graphs, state = question(data)
    records = {
        key: {"outcome": outcome, "recordedAt": f"2026-01-{day % 28 + 1:02}T00:00:00Z", "detail": str(day)}
        for day, (key, outcome) in enumerate(reversed(state["outcomes"].items()))
    }
    one = ours(graphs, state)
    other = ours(graphs, {**state, "outcomes": records, "authorities": [*state["authorities"] * 2][::-1]})
    assert one.to_json() == other.to_json()


def chain(length: int, **more: Any) -> dict[str, Any]:
    nodes: list[dict[str, Any]] = [
        {"id": f"n{step}", "kind": "action", "action": "a.yaml", "reasonCode": "route.x"} for step in range(length)
    ]
    end = {"id": "done", "kind": "terminal", "terminalOutcome": "completed"}
    edges = [{"from": f"n{step}", "to": f"n{step + 1}" if step + 1 < length else "done"} for step in range(length)]
    return {"id": "g0", "entrypoints": {"default": "n0"}, "nodes": [*nodes, end], "edges": edges, **more}


EMPTY: dict[str, Any] = {"facts": {}, "outcomes": {}, "authorities": []}


def test_a_long_chain_ends() -> None:
    outcomes = {f"g0/n{step}": "completed" for step in range(49_999)}
    found = ours([chain(50_000)], {**EMPTY, "outcomes": outcomes})
    assert [each.node.id for each in found.candidates] == ["n49999"]
    assert ours([chain(50_000)], {**EMPTY, "outcomes": {**outcomes, "g0/n49999": "completed"}}).status == "complete"


def doubling(levels: int) -> list[dict[str, Any]]:
    """Graphs that each enter the next twice; the last offers one Action."""
    graphs = []
    for level in range(levels):
        nodes: list[dict[str, Any]] = [
            {"id": name, "kind": "subgraph", "graph": f"g{level + 1}", "entry": "default"} for name in ("n0", "n1")
        ]
        edge = {"from": "n0", "to": "n1", "outcomes": ["pending", "completed"]}
        graphs.append({"id": f"g{level}", "entrypoints": {"default": "n0"}, "nodes": nodes, "edges": [edge]})
    return [*graphs, chain(1, id=f"g{levels}")]


def test_frames_that_no_record_tells_apart_are_evaluated_once() -> None:
    found = ours(doubling(13), EMPTY)
    assert len(found.candidates) == 2**13
    assert len({each.route_id for each in found.candidates}) == 2**13
    with pytest.raises(BundlerError) as raised:
        ours(doubling(60), EMPTY)
    assert raised.value.code == "evaluation-limit"
    # A record tells one of them apart from all others.
    key = ">".join([*(f"g{level}/n1" for level in range(13)), "g13/n0"])
    told = ours(doubling(13), {**EMPTY, "outcomes": {key: "completed"}})
    assert len(told.candidates) == 2**13 - 1


def deep(levels: int) -> list[dict[str, Any]]:
    graphs: list[dict[str, Any]] = []
    for level in range(levels):
        node = {"id": "n0", "kind": "subgraph", "graph": f"g{level + 1}", "entry": "default"}
        graphs.append({"id": f"g{level}", "entrypoints": {"default": "n0"}, "nodes": [node], "edges": []})
    return [*graphs, chain(1, id=f"g{levels}")]


def test_depth_has_a_bound_of_its_own() -> None:
    (candidate,) = ours(deep(999), EMPTY).candidates
    assert candidate.call_path[0] == "g0/n0"
    assert len(candidate.call_path) == 999
    with pytest.raises(BundlerError) as raised:
        ours(deep(1_000), EMPTY)
    assert raised.value.code == "evaluation-limit"


def test_what_is_unknown() -> None:
    found = ours([chain(1)], EMPTY, entry="none")
    assert (found.status, [each.code for each in found.diagnostics], found.candidates) == (
        "error",
        ["entry-missing"],
        (),
    )
    with pytest.raises(BundlerError) as raised:
        evaluate(provider([chain(1)]), "", "none", "default", make_state())
    assert raised.value.code == "graph-missing"


def test_what_a_revision_rests_on() -> None:
    one = ours([chain(1)], {"facts": {"a": 1.0}, "outcomes": {"g0/n0": "failed"}, "authorities": ["q", "p", "q"]})
    same = {
        "facts": {"a": 1},
        "outcomes": {"g0/n0": {"outcome": "failed", "recordedAt": "x"}},
        "authorities": ["p", "q"],
    }
    assert ours([chain(1)], same).revision == one.revision
    for change in ({"facts": {"a": 2}}, {"outcomes": {"g0/no": "failed"}}, {"authorities": []}):
        assert ours([chain(1)], {**same, **change}).revision != one.revision


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        *((1, 1.0, True), (True, 1, False), (1, True, False), (0, -0.0, False), (0.0, 0, True), (None, None, True)),
        *((None, False, False), ("1", 1, False), (2**53, float(2**53), True), (2**70, float(2**70), True)),
        *(([1], [1], False), ({}, {}, False), ("x", "x", True), (False, False, True), (False, 0, False)),
    ],
)
def test_equality_of_scalars(left: Any, right: Any, equal: bool) -> None:
    assert same_scalar(left, right) is equal


@pytest.mark.parametrize(
    ("path", "found"),
    [
        *(
            ("a.b", (True, 1)),
            ("a.c", (False, None)),
            ("l.0", (True, "x")),
            ("l.1", (True, None)),
            ("l.2", (False, None)),
        ),
        *(("l.00", (False, None)), ("l.01", (False, None)), ("l.-1", (False, None)), ("l.x", (False, None))),
        *(("l.9999999999999999999999", (False, None)), ("a.b.c", (False, None)), ("n", (True, None)), ("0", (True, 5))),
    ],
)
def test_looking_up(path: str, found: tuple[bool, Any]) -> None:
    assert look_up({"a": {"b": 1}, "l": ["x", None], "n": None, "0": 5}, path) == found


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (([],), "json-object-required"),
        (({}, ["x"]), "json-object-required"),
        (({"a": float("nan")},), "json-invalid"),
        (({"a": [float("inf")]},), "json-invalid"),
        (({"a": 10**400},), "json-invalid"),
        (({"a": "\ud800"},), "json-invalid"),
        (({"\ud800": 1},), "json-invalid"),
        (({1: 1},), "json-invalid"),
        (({"a": {1, 2}},), "json-invalid"),
        (({}, {"k": "done"}), "outcome-invalid"),
        (({}, {"k": {"outcome": None}}), "outcome-invalid"),
        (({}, {5: "failed"}), "outcome-invalid"),
        (({}, {}, [5]), "option-invalid"),
        (({}, {}, [""]), "option-invalid"),
    ],
)
def test_what_is_no_state(arguments: tuple[Any, ...], code: str) -> None:
    with pytest.raises(BundlerError) as raised:
        make_state(*arguments)
    assert raised.value.code == code
    assert raised.value.hint


def test_one_authority_may_be_a_text() -> None:
    assert make_state({}, {}, "p").authorities == {"p"}


def test_big_numbers_are_doubles_in_the_revision() -> None:
    one, other = (
        ours([chain(1)], {**EMPTY, "facts": {"a": 2**60 + 1}}),
        ours([chain(1)], {**EMPTY, "facts": {"a": 2.0**60}}),
    )
    assert one.revision == other.revision
    assert json.dumps(one.to_json()) == json.dumps(other.to_json())
