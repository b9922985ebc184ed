"""Why a node is on offer or not, in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bundler.errors import BundlerError
from bundler.runtime.why import explain_node

from ..builders import minimal
from .test_route import code, opened


@pytest.mark.parametrize(
    ("outcomes", "node", "reasons"),
    [
        ({}, "work", ["main/work is on offer: route:"]),
        ({}, "main/work", ["main/work is on offer: route:"]),
        (
            {},
            "done",
            [
                "done is not reached: each of its incoming edges has to match",
                "flow from work takes completed; work is pending: it does not match",
            ],
        ),
        (
            {"main/work": "completed"},
            "done",
            [
                "the Graph `main` is complete with Outcome completed: nothing in it is on offer",
                "done is reached, and its Outcome is completed",
                "done is a terminal, which is never on offer itself",
            ],
        ),
        ({"main/work": "failed"}, "work", ["work is reached, and its Outcome is failed"]),
    ],
)
def test_why(tmp_path: Path, outcomes: dict[str, str], node: str, reasons: list[str]) -> None:
    with opened(minimal(), tmp_path) as provider:
        found = explain_node(provider.provider, provider.evaluate("main", outcomes=outcomes), node)
        assert len(found) == len(reasons)
        assert all(one.startswith(other) for one, other in zip(found, reasons, strict=True))
        assert code(explain_node, provider.provider, provider.evaluate("main"), "wrok") == "node-unknown"


def test_why_inside_of_a_subgraph(tmp_path: Path) -> None:
    outer = """schema: agent-graph.graph.v1
id: outer
entrypoints: { default: first }
nodes:
  - { id: first, kind: action, reasonCode: route.x, action: actions/work.yaml }
  - { id: below, kind: subgraph, graph: main, entry: default, requiresFacts: [{ path: a, exists: true }] }
  - { id: alone, kind: action, reasonCode: route.x, action: actions/work.yaml }
  - { id: end, kind: terminal, terminalOutcome: completed }
edges: [{ from: first, to: below }, { from: below, to: end }]
"""
    files = minimal(provider_yaml=str(minimal()["provider.yaml"]).replace("[", "[outer.yaml, "))
    with opened({**files, "outer.yaml": outer}, tmp_path) as provider:

        def why(node: str, **asked: Any) -> list[str]:
            return explain_node(provider.provider, provider.evaluate("outer", **asked), node)

        passed = {"outer/first": "completed"}
        assert why("outer/below>main/work", outcomes=passed, facts={"a": 1})[0].startswith(
            "outer/below>main/work is on offer"
        )
        assert why("outer/below>main/work")[0] == "below is not reached: each of its incoming edges has to match"
        blocked = why("outer/below>main/done", outcomes=passed)
        assert blocked[0] == "below is reached, and its Outcome is blocked: the node `below` requires `a` to exist"
        assert why("alone") == ["alone is not reached: it is not the entrypoint, and no edge leads to it"]
        assert (
            why("below", outcomes=passed, facts={"a": 1})[-1] == "below is a subgraph, which is never on offer itself"
        )


def graph(name: str, nodes: str, edges: str = "", entry: str = "start") -> str:
    """A Graph with an Action `start`, these nodes and a Terminal."""
    return f"""schema: agent-graph.graph.v1
id: {name}
entrypoints: {{ default: {entry} }}
nodes:
  - {{ id: start, kind: action, reasonCode: route.x, action: actions/work.yaml }}
{nodes}  - {{ id: end, kind: terminal, terminalOutcome: completed }}
edges: [{edges}]
"""


ACT = "  - {{ id: {0}, kind: action, reasonCode: route.x, action: actions/work.yaml{1} }}\n"


def test_what_is_told_of_a_node_is_its_own(tmp_path: Path) -> None:
    """Facts and Graphs may be called as nodes are."""
    nodes = ACT.format("other", ", requiresFacts: [{ path: start, exists: true }, { path: main, exists: true }]")
    nodes += ACT.format("main", "")
    text = graph(
        "main", nodes, "{ from: start, to: other, outcomes: [failed] }, { from: start, to: main, outcomes: [failed] }"
    )
    with opened(minimal(graphs__main_yaml=text), tmp_path) as provider:
        found = provider.evaluate("main", outcomes={"main/start": "failed", "main/main": "failed"})
        blocked = "the node `other` requires `start` to exist, `main` to exist"
        assert explain_node(provider.provider, found, "start") == ["start is reached, and its Outcome is failed"]
        assert explain_node(provider.provider, found, "main") == ["main is reached, and its Outcome is failed"]
        assert explain_node(provider.provider, found, "other") == [
            f"other is reached, and its Outcome is blocked: {blocked}"
        ]


def test_a_key_leads_through_the_graphs_that_are_entered(tmp_path: Path) -> None:
    below = "  - { id: below, kind: subgraph, graph: inner, entry: default }\n"
    files = {
        **minimal(provider_yaml=str(minimal()["provider.yaml"]).replace("graphs/main.yaml", "main.yaml, inner.yaml")),
        "main.yaml": graph("main", below, "{ from: start, to: below }, { from: below, to: end }"),
        "inner.yaml": graph("inner", ACT.format("more", ""), "{ from: start, to: more }, { from: more, to: end }"),
    }
    with opened(files, tmp_path) as provider:

        def why(node: str, **asked: Any) -> list[str]:
            return explain_node(provider.provider, provider.evaluate("main", **asked), node)

        def unknown(node: str) -> str:
            with pytest.raises(BundlerError) as raised:
                why(node)
            assert raised.value.code == "node-unknown"
            return raised.value.message

        entered = {"main/start": "completed"}
        assert why("main/below>inner/start", outcomes=entered)[0].startswith(
            "main/below>inner/start is on offer: route:"
        )
        assert why("main/below>inner/more", outcomes=entered) == [
            "more is not reached: each of its incoming edges has to match",
            "flow from start takes completed; start is pending: it does not match",
        ]
        ended = {**entered, "main/below>inner/start": "completed", "main/below>inner/more": "completed"}
        assert why("main/below>inner/start", outcomes=ended)[:2] == [
            "the Graph `main` is complete with Outcome completed: nothing in it is on offer",
            "the Graph `inner` is complete with Outcome completed: nothing in it is on offer",
        ]
        # A node of another Graph is no node of this one, whatever bears the same name here.
        assert "in the Graph `main`" in unknown("inner/start")
        assert "in the Graph `main`" in unknown("inner/start>inner/more")
        assert "in the Graph `inner`" in unknown("main/below>main/start")
        assert "`start` is no Subgraph" in unknown("main/start>inner/start")
        assert "did you mean `main/start`" in unknown("main/strat")
        assert "did you mean `main/start`" in unknown("strat")
        for name in ("", ">", "main/", "main/below>", "nowhere/start", "a>b"):
            assert unknown(name)


def test_ids_may_look_like_keys(tmp_path: Path) -> None:
    text = graph("main", ACT.format("main/start", "") + ACT.format("a/b", ""))
    with opened(minimal(graphs__main_yaml=text), tmp_path) as provider:
        found = provider.evaluate("main")
        for name, node in (
            ("main/start", "main/start"),
            ("main/main/start", "main/start"),
            ("main/a/b", "a/b"),
            ("a/b", "a/b"),
        ):
            (reason,) = explain_node(provider.provider, found, name)
            assert reason == f"{node} is not reached: it is not the entrypoint, and no edge leads to it"


def test_edges_that_match_and_those_that_do_not(tmp_path: Path) -> None:
    nodes = ACT.format("all", "") + ACT.format("any", ", join: any") + ACT.format("far", "")
    edges = ", ".join(
        (
            "{ from: start, to: all, kind: requires, outcomes: [failed, partial] }",
            "{ from: far, to: all, kind: consumes }",
            "{ from: far, to: any }",
            "{ from: far, to: far, kind: repeat }",
        )
    )
    with opened(minimal(graphs__main_yaml=graph("main", nodes, edges)), tmp_path) as provider:
        found = provider.evaluate("main", outcomes={"main/start": "partial"})
        assert explain_node(provider.provider, found, "all") == [
            "all is not reached: each of its incoming edges has to match",
            "requires from start takes failed or partial; start is partial: it matches",
            "consumes from far takes completed; far is not reached: it does not match",
        ]
        assert (
            explain_node(provider.provider, found, "any")[0]
            == "any is not reached: one of its incoming edges has to match"
        )
        assert explain_node(provider.provider, found, "far") == [
            "far is not reached: it is not the entrypoint, and no edge leads to it"
        ]
        for name, said in (("start", "the Graph `main` is in error"), ("any", "the Graph `main` is in error")):
            assert explain_node(provider.provider, provider.evaluate("main", "none"), name)[0].startswith(said)
