"""Evaluation: the same as a second, slow reading of the protocol; its bounds; JSON's own semantics."""

from __future__ import annotations

import copy
import json
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
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


@bounded(2_000)
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
    truncated = [each.detail for each in found.diagnostics if each.code == TRUNCATED]
    assert truncated == ([{"available": len(offered) - 1, "returned": 3}] if len(offered) > 4 else [])
    assert len(found.to_json()["alternativeRoutes"]) == min(3, max(0, len(offered) - 1))


@bounded(200)
@given(DATA, st.permutations(range(9)))
def test_the_order_of_nodes_changes_no_route(data: bytes, order: list[int]) -> None:
    graphs, state = question(data)
    mixed = copy.deepcopy(graphs)
    for graph in mixed:
        nodes = graph["nodes"]
        graph["nodes"] = [nodes[index] for index in order if index < len(nodes)]
    one, other = ours(graphs, state), ours(mixed, state)
    assert (one.status, one.outcome, one.candidates) == (other.status, other.outcome, other.candidates)
    assert sorted(each.code for each in one.diagnostics) == sorted(each.code for each in other.diagnostics)


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


# --- what it comes to -------------------------------------------------------------------------------------


def a_graph(*nodes: dict[str, Any], edges: list[dict[str, Any]] | None = None, name: str = "g0") -> dict[str, Any]:
    """A Graph that enters at its first node; what a kind needs is filled in."""
    needed = {
        "action": {"action": "a.yaml", "reasonCode": "route.x"},
        "gate": {"gate": {"id": "g", "prompt": "?"}, "reasonCode": "route.x"},
        "terminal": {"terminalOutcome": "completed"},
        "subgraph": {"entry": "default"},
    }
    filled = [{**needed[node["kind"]], **node} for node in nodes]
    return {"id": name, "entrypoints": {"default": nodes[0]["id"]}, "nodes": filled, "edges": edges or []}


def fan(*ends: dict[str, Any]) -> dict[str, Any]:
    """An Action that leads to all of these once it is recorded as completed."""
    edges = [{"from": "start", "to": end["id"]} for end in ends]
    return a_graph({"id": "start", "kind": "action"}, *ends, edges=edges)


STARTED = {**EMPTY, "outcomes": {"g0/start": "completed"}}


def test_ambiguous_terminals() -> None:
    ends = [
        {"id": name, "kind": "terminal", "terminalOutcome": outcome}
        for name, outcome in (("t", "skipped"), ("u", "completed"), ("v", "skipped"))
    ]
    stuck = {"id": "w", "kind": "action", "requiresFacts": [{"path": "a", "exists": True}]}
    found = ours([fan({"id": "open", "kind": "action"}, *ends, stuck)], STARTED)
    assert (found.status, found.outcome, found.candidates) == ("error", None, ())
    assert [each.code for each in found.diagnostics] == ["required-fact-missing", "terminal-outcome-ambiguous"]
    assert found.diagnostics[-1].to_json()["detail"] == {"outcomes": ["completed", "skipped"]}
    # Terminals that agree end it, whatever their Outcome; by their records, too.
    records = {**STARTED["outcomes"], "g0/u": "pending", "g0/t": "pending", "g0/v": "pending"}
    found = ours([fan({"id": "open", "kind": "action"}, *ends)], {**EMPTY, "outcomes": records})
    assert (found.status, found.outcome, found.candidates, found.diagnostics) == ("complete", "pending", (), ())


@pytest.mark.parametrize("count", [0, 1, 4, 5, 60])
def test_alternatives_are_truncated(count: int) -> None:
    found = ours([fan(*({"id": f"n{number}", "kind": "action"} for number in range(count)))], STARTED)
    value = found.to_json()
    assert len(found.candidates) == count
    assert ("primaryRoute" in value, len(value["alternativeRoutes"])) == (count > 0, min(max(count - 1, 0), 3))
    told = [each for each in value["diagnostics"] if each["code"] == TRUNCATED]
    expected = [("info", {"available": count - 1, "returned": 3})] if count > 4 else []
    assert [(each["severity"], each["detail"]) for each in told] == expected
    assert value["diagnostics"][-1:] == told or count == 0


def test_the_order_of_routes() -> None:
    """Availability, priority, Route id."""
    gate = {"id": "gate", "kind": "gate", "priority": 1000}
    actions = [{"id": f"n{number}", "kind": "action", "priority": number // 3} for number in range(6)]
    found = ours([fan(gate, *actions)], STARTED)
    assert [each.node.priority for each in found.candidates] == [1, 1, 1, 0, 0, 0, 1000]
    assert [each.availability for each in found.candidates] == [*["immediate"] * 6, "requires-user"]
    for three in (found.candidates[:3], found.candidates[3:6]):
        assert [each.route_id for each in three] == sorted(each.route_id for each in three)
    assert found.status == "actionable"


def test_an_empty_description_is_a_label() -> None:
    labels = [
        ours([a_graph({"id": "n", "kind": "action", **more})], EMPTY).to_json()["primaryRoute"]["label"]
        for more in ({}, {"description": ""}, {"description": "Do it"})
    ]
    assert labels == ["n", "", "Do it"]


def test_a_repeat_onto_a_node_that_is_not_legal() -> None:
    """It is blocked at once: what follows in the same round sees that."""
    nodes = (
        {"id": "work", "kind": "action"},
        {"id": "again", "kind": "action", "requiresFacts": [{"path": "a", "exists": True}]},
        {"id": "end", "kind": "terminal"},
    )
    edges = [
        {"from": "work", "to": "again", "kind": "repeat", "outcomes": ["completed"]},
        {"from": "again", "to": "work", "kind": "repeat", "outcomes": ["blocked"]},
        {"from": "work", "to": "end", "outcomes": ["completed"]},
    ]
    state = {**EMPTY, "outcomes": {"g0/work": "completed", "g0/again": "completed"}}
    found = ours([a_graph(*nodes, edges=edges)], state)
    assert ([each.node.id for each in found.candidates], found.status) == (["work"], "actionable")
    assert [each.code for each in found.diagnostics] == ["required-fact-missing"]
    found = ours([a_graph(*nodes, edges=edges[::-1])], state)
    assert (found.status, found.outcome) == ("complete", "completed")


# --- bounds -----------------------------------------------------------------------------------------------


def chain(length: int, name: str = "g0") -> dict[str, Any]:
    """Actions one after the other, and a Terminal."""
    nodes = [{"id": f"n{step}", "kind": "action"} for step in range(length)]
    edges = [{"from": f"n{step}", "to": f"n{step + 1}" if step + 1 < length else "done"} for step in range(length)]
    return a_graph(*nodes, {"id": "done", "kind": "terminal"}, edges=edges, name=name)


def test_a_long_chain_ends() -> None:
    outcomes = {f"g0/n{step}": "completed" for step in range(100_000)}
    long = provider([chain(100_000)])
    assert evaluate(long, "", "g0", "default", make_state({}, outcomes)).status == "complete"
    found = evaluate(long, "", "g0", "default", make_state({}, {**outcomes, "g0/n99999": "pending"}))
    assert [each.node.id for each in found.candidates] == ["n99999"]


def nested(levels: int, *, twice: bool, end: dict[str, Any], first: int = 0) -> list[dict[str, Any]]:
    """Graphs that each enter the next, once or twice; the last holds one node."""
    graphs = []
    for level in range(first, first + levels):
        nodes = [{"id": f"n{way}", "kind": "subgraph", "graph": f"g{level + 1}"} for way in range(1 + twice)]
        edges = [{"from": "n0", "to": "n1", "outcomes": list(OUTCOMES)}] if twice else []
        if end is DONE:  # and so are all around it
            nodes.append(DONE)
            edges.append({"from": f"n{int(twice)}", "to": DONE["id"]})
        graphs.append(a_graph(*nodes, edges=edges, name=f"g{level}"))
    return [*graphs, a_graph(end, name=f"g{first + levels}")]


ACT: dict[str, Any] = {"id": "n", "kind": "action"}
BLOCKED: dict[str, Any] = {**ACT, "requiresFacts": [{"path": "a", "exists": True}]}
DONE: dict[str, Any] = {"id": "done", "kind": "terminal"}


@pytest.mark.parametrize(
    ("levels", "end", "status"),
    [
        (13, ACT, "actionable"),
        (14, ACT, "evaluation-limit"),
        (40, ACT, "evaluation-limit"),
        (999, ACT, "evaluation-limit"),
        (13, BLOCKED, "blocked"),
        (14, BLOCKED, "evaluation-limit"),
        (40, BLOCKED, "evaluation-limit"),
        (14, DONE, "complete"),
        (40, DONE, "complete"),
        (999, DONE, "complete"),
    ],
)
def test_subgraphs_that_enter_the_next_twice(levels: int, end: dict[str, Any], status: str) -> None:
    graphs = nested(levels, twice=True, end=end)
    if status == "evaluation-limit":
        with pytest.raises(BundlerError) as raised:
            ours(graphs, EMPTY)
        assert raised.value.code == status
        return
    found = ours(graphs, EMPTY)
    assert found.status == status
    assert len({each.route_id for each in found.candidates}) == (2**13 if end is ACT else 0)
    told = [each.code for each in found.diagnostics if each.code != TRUNCATED]
    assert told == ["required-fact-missing"] * (2**13 if end is BLOCKED else 0)
    assert len(repr(found.frame)) < 500  # what frames share is not written out


def test_a_record_tells_frames_apart() -> None:
    key = ">".join([*(f"g{level}/n{level % 2}" for level in range(13)), "g13/n"])
    found = ours(nested(13, twice=True, end=ACT), {**EMPTY, "outcomes": {key: "completed"}})
    assert len(found.candidates) == 2**13 - 1
    assert key not in {each.state_key for each in found.candidates}


@pytest.mark.parametrize("end", [ACT, BLOCKED])
def test_long_ways_to_many_have_a_bound(end: dict[str, Any]) -> None:
    """9,000 Routes are few enough, but not with 900 Subgraphs on the way to each."""
    inner = nested(899, twice=False, end=end, first=1)

    def many(count: int) -> Evaluation:
        ways = ({"id": f"n{number}", "kind": "subgraph", "graph": "g1"} for number in range(count))
        return ours([fan(*ways), *inner], STARTED)

    found = many(200)
    assert len(found.candidates if end is ACT else found.diagnostics) == 200
    with pytest.raises(BundlerError) as raised:
        many(9_000)
    assert raised.value.code == "evaluation-limit"


def test_depth_has_a_bound_of_its_own() -> None:
    (candidate,) = ours(nested(999, twice=False, end=ACT), EMPTY).candidates
    assert candidate.call_path == tuple(f"g{level}/n0" for level in range(999))
    with pytest.raises(BundlerError) as raised:
        ours(nested(1_000, twice=False, end=ACT), EMPTY)
    assert raised.value.code == "evaluation-limit"


@pytest.mark.parametrize("is_first", [True, False])
def test_the_bound_is_the_same_whatever_was_evaluated_before(is_first: bool) -> None:
    """The lower half is entered on its own, too: that it is known already makes the whole no less deep."""
    graphs = nested(1_000, twice=False, end=ACT)
    ways = [{"id": "long", "kind": "subgraph", "graph": "g1"}, {"id": "short", "kind": "subgraph", "graph": "g500"}]
    graphs[0] = fan(*(ways[::-1] if is_first else ways))
    with pytest.raises(BundlerError) as raised:
        ours(graphs, STARTED)
    assert raised.value.code == "evaluation-limit"


def test_an_unknown_entry_or_graph() -> None:
    found = ours([chain(1)], EMPTY, entry="none")
    assert (found.status, found.candidates) == ("error", ())
    assert [(each.code, each.path) for each in found.diagnostics] == [("entry-missing", "g0.yaml")]
    with pytest.raises(BundlerError) as raised:
        evaluate(provider([chain(1)]), "", "none", "default", make_state())
    assert raised.value.code == "graph-missing"


# --- the revision -----------------------------------------------------------------------------------------


def test_what_a_revision_rests_on() -> None:
    one = ours([chain(1)], {"facts": {"a": 1.0}, "outcomes": {"g0/n0": "failed"}, "authorities": ["q", "p", "q"]})
    same = {
        "facts": {"a": 1},
        "outcomes": {"g0/n0": {"outcome": "failed", "recordedAt": "x"}},
        "authorities": ["p", "q"],
    }
    assert ours([chain(1)], same).revision == one.revision
    assert ours([chain(1)], same, "none").revision != one.revision
    for change in ({"facts": {"a": 2}}, {"outcomes": {"g0/no": "failed"}}, {"authorities": []}):
        assert ours([chain(1)], {**same, **change}).revision != one.revision


OUTER = """schema: agent-graph.graph.v1
id: outer
entrypoints: { default: below }
nodes:
  - { id: below, kind: subgraph, graph: main, entry: default }
  - { id: done, kind: terminal, terminalOutcome: completed }
edges: [{ from: below, to: done }]
"""
THREE = {
    **minimal(),
    "outer.yaml": OUTER,
    "other.yaml": GRAPH.replace("main", "other").replace("actions/work.yaml", "actions/other.yaml"),
    "actions/other.yaml": ACTION.replace("id: work", "id: other"),
    "codes.yaml": "schema: agent-graph.code-catalog.v1\ncodes:\n"
    + "".join(f"  - {{ code: route.{name}.work, kind: route-reason, summary: s }}\n" for name in ("main", "other")),
    "provider.yaml": str(minimal()["provider.yaml"]).replace("[", "[outer.yaml, other.yaml, ")
    + "catalogs: { codes: codes.yaml }\n",
}


@pytest.mark.parametrize(
    ("path", "old", "new", "changed"),
    [
        ("other.yaml", "id: work", "description: d, id: work", {"other"}),
        ("actions/other.yaml", "make work", "make more", {"other"}),
        ("actions/work.yaml", "make work", "make more", {"main", "outer"}),
        ("graphs/main.yaml", "entrypoints", "description: d\nentrypoints", {"main", "outer"}),
        ("graphs/main.yaml", "schema:", "# a comment\nschema:", {"main", "outer"}),
        ("outer.yaml", "schema:", "# a comment\nschema:", {"outer"}),
        ("codes.yaml", "summary: s", "summary: other", set()),
        ("provider.yaml", "catalogs", "description: d\ncatalogs", set()),
        ("provider.yaml", "0.1.0", "0.1.1", {"main", "other", "outer"}),
        ("provider.yaml", "acme/demo", "acme/other", {"main", "other", "outer"}),
    ],
)
def test_files_that_a_revision_rests_on(tmp_path: Path, path: str, old: str, new: str, changed: set[str]) -> None:
    revisions = []
    text = str(THREE[path])
    assert old in text
    for name, files in (("one", THREE), ("two", {**THREE, path: text.replace(old, new)})):
        with open_provider(write_out(files, tmp_path / name)) as opened:
            revisions.append({graph: opened.evaluate(graph).revision for graph in ("main", "other", "outer")})
    one, two = revisions
    assert {graph for graph in one if one[graph] != two[graph]} == changed


# --- JSON -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        *((1, 1.0, True), (True, 1, False), (1, True, False), (0, -0.0, False), (0.0, 0, True), (None, None, True)),
        *((None, False, False), ("1", 1, False), (2**53, float(2**53), True), (2**70, float(2**70), True)),
        *(([1], [1], False), ({}, {}, False), ("x", "x", True), (False, False, True), (False, 0, False)),
        *(((), (), False), (2**53 + 1, 2.0**53, True), (-0.0, -0.0, True), (-0.0, 0.0, False), (0.1 + 0.2, 0.3, False)),
        *(("", None, False), ("", False, False), ("1", "1.0", False), ("\u00e9", "e\u0301", False)),
    ],
)
def test_equality_of_scalars(left: Any, right: Any, equal: bool) -> None:
    assert same_scalar(left, right) is equal
    assert same_scalar(right, left) is equal


@pytest.mark.parametrize(
    ("path", "found"),
    [
        *(("a.b", (True, 1)), ("a.c", (False, None)), ("a.b.c", (False, None)), ("n", (True, None))),
        *(("l", (True, ["x", None])), ("l.0", (True, "x")), ("l.1", (True, None)), ("l.2", (False, None))),
        *(("l.00", (False, None)), ("l.01", (False, None)), ("l.-1", (False, None)), ("l.x", (False, None))),
        *(("l.1.x", (False, None)), ("l.+1", (False, None)), ("l.", (False, None)), ("", (False, None))),
        *(("l.\u0661", (False, None)), ("l.9999999999999999999999", (False, None)), ("l.1_0", (False, None))),
        *(("t.1", (True, 2)), ("t.2", (False, None)), ("0", (True, 5)), ("d.01", (True, 3)), ("d.1", (False, None))),
    ],
)
def test_looking_up(path: str, found: tuple[bool, Any]) -> None:
    facts = {"a": {"b": 1}, "l": ["x", None], "n": None, "0": 5, "t": (1, 2), "d": {"01": 3}}
    assert look_up(facts, path) == found


ENDLESS: list[Any] = [[]]
ENDLESS[0].append({"x": ENDLESS})


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (([],), "json-object-required"),
        (({}, ["x"]), "json-object-required"),
        (({"a": float("nan")},), "json-invalid"),
        (({"a": [float("inf")]},), "json-invalid"),
        (({"a": [-float("inf")]},), "json-invalid"),
        (({"a": 10**400},), "json-invalid"),
        (({"a": "\ud800"},), "json-invalid"),
        (({"a": ["\udfff x"]},), "json-invalid"),
        (({"\ud800": 1},), "json-invalid"),
        (({1: 1},), "json-invalid"),
        (({"a": {None: 1}},), "json-invalid"),
        (({"a": {1, 2}},), "json-invalid"),
        (({"a": ("x", {"b": b"x"})},), "json-invalid"),
        (({"a": Decimal(1)},), "json-invalid"),
        (({"a": ENDLESS},), "json-invalid"),
        (({}, {"g0/\ud800": "failed"}), "json-invalid"),
        (({}, {}, ["\udcff"]), "json-invalid"),
        (({}, {"k": "done"}), "outcome-invalid"),
        (({}, {"k": "Failed"}), "outcome-invalid"),
        (({}, {"k": None}), "outcome-invalid"),
        (({}, {"k": ["failed"]}), "outcome-invalid"),
        (({}, {"k": {}}), "outcome-invalid"),
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


def test_an_entry_is_a_text() -> None:
    with pytest.raises(BundlerError) as raised:
        ours([chain(1)], EMPTY, "\udcff")
    assert raised.value.code == "json-invalid"


def test_values_of_any_make() -> None:
    """Mappings and tuples are JSON's objects and lists; what they hold may change afterwards."""
    graphs = [a_graph({**ACT, "satisfiedBy": [{"path": "l.0.x", "equals": 1}]})]
    plain: dict[str, Any] = {"l": [{"x": 1.0}], "m": {}}
    expected = ours(graphs, {**EMPTY, "facts": plain})
    assert expected.frame.outcomes == {"n": "completed"}
    for facts in (
        MappingProxyType(plain),
        OrderedDict(plain),
        {"m": OrderedDict(), "l": (MappingProxyType({"x": 1}),)},
        {"m": defaultdict(list), "l": [Counter(x=1)]},
    ):
        assert ours(graphs, {**EMPTY, "facts": facts}) == expected
    state = make_state(plain)
    plain["l"].clear()
    assert state.facts == {"l": [{"x": 1.0}], "m": {}}


def test_deep_values_are_walked_without_recursion() -> None:
    inner: Any = 1
    for _ in range(5_000):
        inner = [inner]
    shared: list[Any] = [[], {}]
    facts = {"deep": inner, "same": [shared, shared, {"again": shared}]}
    found = ours([chain(1)], {**EMPTY, "facts": facts})
    assert found.revision != ours([chain(1)], {**EMPTY, "facts": {**facts, "deep": [inner]}}).revision


def test_one_authority_may_be_a_text() -> None:
    assert make_state({}, {}, "p").authorities == {"p"}


def test_big_numbers_are_doubles_in_the_revision() -> None:
    one, other = (ours([chain(1)], {**EMPTY, "facts": {"a": number}}) for number in (2**60 + 1, 2.0**60))
    assert one.revision == other.revision
    assert json.dumps(one.to_json()) == json.dumps(other.to_json())
