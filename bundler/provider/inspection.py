"""Provider → `agent-graph.inspect.v1`: what a Provider holds, as `inspect provider` and `validate` answer."""

from __future__ import annotations

from typing import Any

from ..protocol.canonical import Json, collation_key
from ..protocol.model import Code, Graph, Node, Provider


def inspect_provider(provider: Provider, manifest: str) -> dict[str, Any]:
    """The protocol object; `manifest` is the provider manifest's absolute path. Pure."""
    graphs = sorted(provider.graphs.values(), key=lambda graph: collation_key(graph.id))
    actions = sorted(provider.actions.values(), key=lambda action: collation_key(action.id))
    resources = sorted(provider.resources.values(), key=lambda resource: collation_key(resource.id))
    codes = provider.catalog.codes if provider.catalog is not None else ()
    return {
        "schema": "agent-graph.inspect.v1",
        "provider": {"id": provider.id, "version": provider.version, "manifest": manifest},
        "counts": {
            "graphs": len(graphs),
            "nodes": sum(len(graph.nodes) for graph in graphs),
            "edges": sum(len(graph.edges) for graph in graphs),
            "actions": len(actions),
            "resources": len(resources),
            "codes": len(codes),
        },
        "graphs": [_graph(graph) for graph in graphs],
        "actions": [
            {"id": action.id, "runner": action.runner, "effect": action.effect, "path": action.path}
            for action in actions
        ],
        "resources": [
            {"id": resource.id, "kind": resource.kind, "dynamic": resource.dynamic, "path": resource.path}
            for resource in resources
        ],
        "codes": [_code(code) for code in codes],
    }


def _graph(graph: Graph) -> dict[str, Json]:
    return _present(
        {
            "id": graph.id,
            "description": graph.description,
            "path": graph.path,
            "entrypoints": dict(graph.entrypoints),
            "nodes": [_node(node) for node in graph.nodes],
            "dependencies": list(graph.dependencies),
        }
    )


def _node(node: Node) -> dict[str, Json]:
    return _present(
        {
            "id": node.id,
            "kind": node.kind,
            "description": node.description,
            "reasonCode": node.reason_code,
            "priority": node.priority,
        }
    )


def _code(code: Code) -> dict[str, Json]:
    return _present(
        {
            "code": code.code,
            "kind": code.kind,
            "summary": code.summary,
            "severity": code.severity,
            "document": code.document,
        }
    )


def _present(members: dict[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in members.items() if value is not None}
