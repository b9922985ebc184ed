"""Why a node is on offer or not: in words, from one evaluation."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import BundlerError, Suggestions
from ..protocol.model import Graph, Node, Provider
from .evaluate import Evaluation
from .frames import Frame


def explain_node(provider: Provider, evaluation: Evaluation, name: str) -> list[str]:
    """Why the node is on offer or not; `name` is its id, or its state key where it lies in a Subgraph.

    Raises `node-unknown`.
    """
    graph = provider.graphs[evaluation.graph]
    is_own = any(node.id == name for node in graph.nodes)  # ids may hold what keys are made with
    is_key = not is_own and any(name.startswith(f"{each}/") for each in provider.graphs)
    key = name if is_key else f"{graph.id}/{name}"
    for candidate in evaluation.candidates:
        if candidate.state_key == key:
            return [f"{key} is on offer: {candidate.route_id}, {candidate.availability}"]
    frame: Frame | None = evaluation.frame
    reasons: list[str] = []
    *above, last = key.split(">")
    for step in above:
        node = _find(provider, graph, step, name)
        if node.graph is None:
            raise _unknown(provider, step, name, f": `{node.id}` is no Subgraph")
        if frame is not None:
            reasons += _frame_reasons(graph, frame)
            if node.id not in frame.inner:
                reasons += _node_reasons(graph, node, frame)
            frame = frame.inner.get(node.id)
        graph = provider.graphs[node.graph]
    node = _find(provider, graph, last, name)
    if frame is None:
        return reasons or [f"the Graph `{graph.id}` was not entered"]
    return [*reasons, *_frame_reasons(graph, frame), *_node_reasons(graph, node, frame)]


def _find(provider: Provider, graph: Graph, step: str, name: str) -> Node:
    """The node that a step of a state key names, which has to lie in the Graph that was come to."""
    for node in graph.nodes:
        if step == f"{graph.id}/{node.id}":
            return node
    raise _unknown(provider, step, name, f" in the Graph `{graph.id}`")


def _unknown(provider: Provider, step: str, name: str, more: str) -> BundlerError:
    known = [f"{graph.id}/{node.id}" for graph in provider.graphs.values() for node in graph.nodes]
    near = "" if step in known else Suggestions().near(step, known)
    return BundlerError("node-unknown", f"`{provider.id}` has no node `{name}`{more}{near}")


def _frame_reasons(graph: Graph, frame: Frame) -> Iterator[str]:
    if frame.status == "complete":
        yield f"the Graph `{graph.id}` is complete with Outcome {frame.outcome}: nothing in it is on offer"
    elif frame.status == "error":
        yield f"the Graph `{graph.id}` is in error: nothing in it is on offer"


def _node_reasons(graph: Graph, node: Node, frame: Frame) -> Iterator[str]:
    outcome = frame.outcomes.get(node.id)
    if outcome is not None:
        told = [
            each.message
            for each in frame.diagnostics
            if not isinstance(each, Frame) and each.message.startswith(f"the node `{node.id}` ")
        ]
        yield f"{node.id} is reached, and its Outcome is {outcome}" + (f": {told[0]}" if told else "")
        if node.kind in ("subgraph", "terminal"):
            yield f"{node.id} is a {node.kind}, which is never on offer itself"
        return
    edges = [edge for edge in graph.edges if edge.target == node.id and edge.kind != "repeat"]
    if not edges:
        yield f"{node.id} is not reached: it is not the entrypoint, and no edge leads to it"
        return
    yield f"{node.id} is not reached: {'one' if node.join == 'any' else 'each'} of its incoming edges has to match"
    for edge in edges:
        found = frame.outcomes.get(edge.source)
        state = "is not reached" if found is None else f"is {found}"
        verdict = "matches" if found in edge.outcomes else "does not match"
        yield f"{edge.kind} from {edge.source} takes {' or '.join(edge.outcomes)}; {edge.source} {state}: it {verdict}"
