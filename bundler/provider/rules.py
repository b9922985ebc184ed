"""What a Graph must satisfy beyond its schema (protocol: "Order of checks", 3, 5 and 6). Pure; linear."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..errors import BundlerError, Suggestions
from ..protocol.documents import Document
from ..protocol.model import Catalog, Edge, Graph, Node


def graph_faults(graph: Graph, document: Document, suggestions: Suggestions) -> Iterator[BundlerError]:
    """Every fault of one Graph: nodes, Terminal, entries; each edge; cycle."""
    nodes: dict[str, Node] = {}
    for index, node in enumerate(graph.nodes):
        if node.id in nodes:
            yield document.fault(
                "graph-node-duplicate", f"/nodes/{index}/id", f"names the node `{node.id}` a second time"
            )
        nodes.setdefault(node.id, node)
    if not any(node.kind == "terminal" for node in graph.nodes):
        yield document.fault("graph-terminal-missing", "/nodes", f"the Graph `{graph.id}` has no Terminal")
    for name, entry in graph.entrypoints.items():
        if entry not in nodes:
            yield document.fault(
                "graph-entry-missing",
                _entry(name),
                f"the entrypoint `{name}` names `{entry}`, which is no node of this Graph{suggestions.near(entry, nodes)}",
            )
    seen: set[Edge] = set()
    for index, edge in enumerate(graph.edges):
        pointer = f"/edges/{index}"
        ends = (("from", edge.source), ("to", edge.target))
        for end, name in ends:
            if name in nodes:
                continue
            yield document.fault(
                "graph-edge-node-missing",
                f"{pointer}/{end}",
                f"the edge names `{name}`, which is no node of this Graph{suggestions.near(name, nodes)}",
            )
        source, target = nodes.get(edge.source), nodes.get(edge.target)
        if source is not None and source.kind == "terminal":
            yield document.fault(
                "graph-terminal-edge-invalid",
                f"{pointer}/from",
                f"the edge starts at the Terminal `{edge.source}`",
            )
        if edge in seen:
            yield document.fault(
                "graph-edge-duplicate",
                pointer,
                f"repeats the {edge.kind} edge from `{edge.source}` to `{edge.target}` for {', '.join(edge.outcomes)}",
            )
        seen.add(edge)
        if edge.kind == "repeat" and target is not None and target.kind not in ("action", "gate"):
            yield document.fault(
                "graph-repeat-target-invalid",
                f"{pointer}/to",
                f"the repeat edge leads to `{edge.target}`, a {target.kind}; an Action or Gate is expected",
            )
        if edge.kind == "gatedBy" and source is not None and source.kind != "gate":
            yield document.fault(
                "graph-gated-by-source-invalid",
                f"{pointer}/from",
                f"the gatedBy edge starts at `{edge.source}`, a {source.kind}; a Gate is expected",
            )
    cycle = find_cycle(_targets(graph.edges, nodes))
    if cycle is not None:
        yield document.fault(
            "graph-flow-cycle", "/edges", f"edges other than repeat lead in a circle: {' → '.join(cycle)}"
        )


def recursion_fault(graphs: Mapping[str, Graph], documents: Mapping[str, Document]) -> BundlerError | None:
    """The fault of Graphs that lead back to themselves through Subgraph nodes."""
    cycle = find_cycle(
        {name: tuple(target for target in graph.dependencies if target in graphs) for name, graph in graphs.items()}
    )
    if cycle is None:
        return None
    graph = graphs[cycle[0]]
    index = next(index for index, node in enumerate(graph.nodes) if node.graph == cycle[1])
    return documents[graph.id].fault(
        "graph-recursion",
        f"/nodes/{index}/graph",
        f"Graphs lead back to themselves: {' → '.join(cycle)}",
    )


def reason_code_faults(
    graph: Graph, document: Document, catalog: Catalog, suggestions: Suggestions
) -> Iterator[BundlerError]:
    """Every reasonCode that the Code Catalog does not hold as a route-reason."""
    kinds = {code.code: code.kind for code in catalog.codes}
    for index, node in enumerate(graph.nodes):
        if node.reason_code is None:
            continue
        kind = kinds.get(node.reason_code)
        pointer = f"/nodes/{index}/reasonCode"
        if kind is None:
            yield document.fault(
                "route-reason-code-missing",
                pointer,
                f"`{node.reason_code}` is not in the Code Catalog {catalog.path}{suggestions.near(node.reason_code, kinds)}",
            )
        elif kind != "route-reason":
            yield document.fault(
                "route-reason-code-kind-invalid",
                pointer,
                f"`{node.reason_code}` is a {kind} in the Code Catalog {catalog.path}; a route-reason is expected",
            )


def find_cycle(targets: Mapping[str, Sequence[str]]) -> list[str] | None:
    """A way that ends where it began, or None. Every target must be a key. Linear, without recursion."""
    done: set[str] = set()
    for start in targets:
        if start in done:
            continue
        way = [start]
        on_way = {start}
        pending = [iter(targets[start])]
        while pending:
            target = next(pending[-1], None)
            if target is None:
                pending.pop()
                left = way.pop()
                on_way.discard(left)
                done.add(left)
            elif target in on_way:
                return [*way[way.index(target) :], target]
            elif target not in done:
                way.append(target)
                on_way.add(target)
                pending.append(iter(targets[target]))
    return None


def _targets(edges: Sequence[Edge], nodes: Mapping[str, Node]) -> dict[str, list[str]]:
    targets: dict[str, list[str]] = {name: [] for name in nodes}
    for edge in edges:
        if edge.kind != "repeat" and edge.source in nodes and edge.target in nodes:
            targets[edge.source].append(edge.target)
    return targets


def _entry(name: str) -> str:
    return "/entrypoints/" + name.replace("~", "~0").replace("/", "~1")
