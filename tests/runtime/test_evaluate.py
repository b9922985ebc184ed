"""Evaluation: the same as a second, slow reading of the protocol; its bounds; JSON's own semantics."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bundler.errors import BundlerError
from bundler.protocol.model import Action, Graph, Provider
from bundler.runtime.evaluate import Evaluation, evaluate
from bundler.runtime.state import OUTCOMES, look_up, make_state, same_scalar

from .slow_model import frame as slow_frame

OUTCOME = st.sampled_from(OUTCOMES)
CHECK = st.one_of(
    st.builds(
        lambda path, exists: {"path": path, "exists": exists}, st.sampled_from(("a", "b.c", "l.0")), st.booleans()
    ),
    st.builds(
        lambda path, equals: {"path": path, "equals": equals},
        st.sampled_from(("a", "b.c", "l.1")),
        st.sampled_from((True, 1, "x", None)),
    ),
)
FACTS = st.fixed_dictionaries(
    {},
    optional={
        "a": st.sampled_from((True, False, 1, 1.0, "x", None)),
        "b": st.sampled_from(({"c": 1}, {"c": True}, {}, "x")),
        "l": st.sampled_from(([], [1], ["x", None])),
    },
)


@st.composite
def a_graph(draw: st.DrawFn, number: int, total: int) -> dict[str, Any]:
    """A Graph that may enter those with a higher number; edges that are not repeat lead from lower to higher nodes."""
    names = [f"n{index}" for index in range(draw(st.integers(2, 6)))]
    kinds = ["action", "gate", "terminal", *(["subgraph"] if number + 1 < total else [])]
    nodes: list[dict[str, Any]] = []
    for name in names:
        kind = draw(st.sampled_from(kinds))
        node: dict[str, Any] = {"id": name, "kind": kind}
        if draw(st.integers(0, 3)) == 0:
            node["join"] = "any"
        if draw(st.integers(0, 3)) == 0:
            node["requiresFacts"] = draw(st.lists(CHECK, min_size=1, max_size=2))
        if kind in ("action", "gate"):
            node |= {"reasonCode": "route.x", "priority": draw(st.integers(-1, 1))}
            if draw(st.integers(0, 3)) == 0:
                node["satisfiedBy"] = draw(st.lists(CHECK, min_size=1, max_size=2))
        if kind == "action":
            node["action"] = "a.yaml"
        elif kind == "gate":
            node["gate"] = draw(
                st.sampled_from(
                    ({"id": "g", "prompt": "?"}, {"id": "g", "prompt": "?", "authority": "p", "delegatable": True})
                )
            )
        elif kind == "terminal":
            node["terminalOutcome"] = draw(st.sampled_from(("completed", "failed")))
        else:
            node |= {"graph": f"g{draw(st.integers(number + 1, total - 1))}", "entry": "default"}
        nodes.append(node)
    edges = []
    for _ in range(draw(st.integers(0, 10))):
        source, target = draw(st.integers(0, len(names) - 1)), draw(st.integers(0, len(names) - 1))
        outcomes = draw(st.lists(OUTCOME, min_size=1, max_size=3, unique=True))
        if nodes[source]["kind"] == "terminal":
            continue
        is_repeat = target <= source or draw(st.integers(0, 4)) == 0
        if is_repeat and nodes[target]["kind"] not in ("action", "gate"):
            continue
        edge = {"from": names[source], "to": names[target], "outcomes": outcomes}
        edges.append({**edge, "kind": "repeat"} if is_repeat else edge)
    return {
        "id": f"g{number}",
        "entrypoints": {"default": draw(st.sampled_from(names))},
        "nodes": nodes,
        "edges": edges,
    }


@st.composite
def a_question(draw: st.DrawFn) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    total = draw(st.integers(1, 3))
    graphs = [draw(a_graph(number, total)) for number in range(total)]
    steps = [f"{graph['id']}/{node['id']}" for graph in graphs for node in graph["nodes"]]
    inner = [
        f"{graphs[0]['id']}/{node['id']}>{other}"
        for node in graphs[0]["nodes"]
        if node["kind"] == "subgraph"
        for other in steps
        if other.startswith(node["graph"] + "/")
    ]
    keys = st.sampled_from([*steps, *inner, "no/where"])
    state = {
        "facts": draw(FACTS),
        "outcomes": draw(st.dictionaries(keys, OUTCOME, max_size=6)),
        "authorities": draw(st.sampled_from(([], ["p"], ["q"]))),
    }
    return graphs, state


def provider(graphs: list[dict[str, Any]]) -> Provider:
    """A Provider of these Graphs, as far as an evaluation looks at one."""
    action = Action.from_value("a.yaml", {"id": "a", "runner": "command", "effect": "read", "command": "x"})
    return Provider(
        **dict.fromkeys(("name", "description", "catalog")),
        id="acme/demo",
        version="1.0.0",
        manifest_path="provider.yaml",
        manifest={},
        graphs={graph["id"]: Graph.from_value(f"{graph['id']}.yaml", graph) for graph in graphs},
        actions={"a.yaml": action},
        resources={},
        skills={},
        documents={},
        executable=frozenset(),
    )


def ours(graphs: list[dict[str, Any]], state: dict[str, Any], entry: str = "default") -> Evaluation:
    asked = make_state(state["facts"], state["outcomes"], state["authorities"])
    return evaluate(provider(graphs), "sha256:0", graphs[0]["id"], entry, asked)


SETTINGS = settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))


@SETTINGS
@given(a_question())
def test_it_is_what_the_protocol_says(question: tuple[list[dict[str, Any]], dict[str, Any]]) -> None:
    graphs, state = question
    before = copy.deepcopy(question)
    found = ours(graphs, state)
    assert question == before
    expected = slow_frame({graph["id"]: graph for graph in graphs}, "g0", "default", "", state)
    codes = [each.code for each in found.diagnostics if each.code != "route-alternatives-truncated"]
    assert (found.status, found.outcome, codes) == (expected["status"], expected["outcome"], expected["codes"])
    offered = [
        (each.call_path, each.graph, each.node.id, each.availability == "immediate") for each in found.candidates
    ]
    assert sorted(offered) == sorted(expected["candidates"])
    ranks = [(each.availability != "immediate", -each.node.priority, each.route_id) for each in found.candidates]
    assert ranks == sorted(ranks)
    assert len(found.to_json()["alternativeRoutes"]) == min(3, max(0, len(offered) - 1))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(a_question(), st.randoms(use_true_random=False))
def test_the_order_of_nodes_changes_no_status(
    question: tuple[list[dict[str, Any]], dict[str, Any]], chance: Any
) -> None:
    graphs, state = question
    found = ours(graphs, state)
    mixed = copy.deepcopy(graphs)
    for graph in mixed:
        chance.shuffle(graph["nodes"])
    other = ours(mixed, state)
    assert (other.status, other.outcome) == (found.status, found.outcome)
    assert [each.route_id for each in other.candidates] == [each.route_id for each in found.candidates]


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
