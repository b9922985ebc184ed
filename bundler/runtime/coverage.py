"""What of a Provider no graph test reaches: nodes, edges, the Outcomes that edges take, ways through Gates, reason codes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..protocol.canonical import Json
from ..protocol.model import Graph, Provider
from .evaluate import Evaluation
from .frames import Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """One kind of thing: how many there are, and those that no test reached, in the Provider's order."""

    total: int
    missed: tuple[str, ...]

    def to_json(self) -> dict[str, Json]:
        return {"total": self.total, "reached": self.total - len(self.missed), "missed": list(self.missed)}


def measure(provider: Provider, evaluations: Iterable[Evaluation]) -> dict[str, Covered]:
    """What the evaluations reached, by kind: nodes, edges, outcomes, gates, reasonCodes.

    A node is reached when it has an Outcome, an edge when it matches, an Outcome of an edge when its source had that one. A
    Gate is reached for each way in which it can be resolved, a reason code when a Route with it was on offer.
    """
    nodes: set[tuple[str, str]] = set()
    outcomes: set[tuple[str, str, str]] = set()
    gates: set[str] = set()
    codes: set[str] = set()
    for evaluation in evaluations:
        for frame in _frames(evaluation.frame):
            nodes.update((frame.graph, node) for node in frame.outcomes)
            outcomes.update((frame.graph, node, outcome) for node, outcome in frame.outcomes.items())
        for candidate in evaluation.candidates:
            codes.add(candidate.reason_code)
            if candidate.node.gate is not None:
                way = "session-authority" if candidate.availability == "immediate" else "user"
                gates.add(f"{candidate.graph}/{candidate.node.id} by {way}")
    graphs = list(provider.graphs.values())
    all_outcomes = [
        (f"{_edge(graph, index)} on {outcome}", (graph.id, edge.source, outcome))
        for graph in graphs
        for index, edge in enumerate(graph.edges)
        for outcome in edge.outcomes
    ]
    taken = {
        (graph.id, index)
        for graph in graphs
        for index, edge in enumerate(graph.edges)
        if any((graph.id, edge.source, outcome) in outcomes for outcome in edge.outcomes)
    }
    return {
        "nodes": _covered(
            (f"{graph.id}/{node.id}", (graph.id, node.id) in nodes) for graph in graphs for node in graph.nodes
        ),
        "edges": _covered(
            (_edge(graph, index), (graph.id, index) in taken) for graph in graphs for index in range(len(graph.edges))
        ),
        "outcomes": _covered((name, key in outcomes) for name, key in all_outcomes),
        "gates": _covered((way, way in gates) for graph in graphs for way in _ways(graph)),
        "reasonCodes": _covered((code, code in codes) for code in _reason_codes(provider)),
    }


def _frames(frame: Frame) -> Iterator[Frame]:
    """A frame and those below it, each once: several Subgraphs may share one."""
    pending, seen = [frame], {id(frame)}
    while pending:
        each = pending.pop()
        yield each
        for inner in each.inner.values():
            if id(inner) not in seen:
                seen.add(id(inner))
                pending.append(inner)


def _covered(items: Iterable[tuple[str, bool]]) -> Covered:
    every = list(items)
    return Covered(total=len(every), missed=tuple(name for name, is_reached in every if not is_reached))


def _edge(graph: Graph, index: int) -> str:
    edge = graph.edges[index]
    return f"{graph.id}: {edge.source} → {edge.target} ({edge.kind})"


def _ways(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        if node.gate is not None:
            yield f"{graph.id}/{node.id} by user"
            if node.gate.delegatable and node.gate.authority is not None:
                yield f"{graph.id}/{node.id} by session-authority"


def _reason_codes(provider: Provider) -> list[str]:
    """Those that nodes use, and those of the Code Catalog."""
    used = [node.reason_code for graph in provider.graphs.values() for node in graph.nodes if node.reason_code]
    listed = [code.code for code in provider.catalog.codes if code.kind == "route-reason"] if provider.catalog else []
    return list(dict.fromkeys([*used, *listed]))
