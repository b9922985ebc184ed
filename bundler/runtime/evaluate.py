"""Which step is legal next: a Graph, an Entry and a State → an Evaluation (protocol: "Evaluation"). Pure.

`frames` does the work; here stand what comes out, the order of Routes, and their ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..errors import BundlerError, Diagnostic
from ..paths import code_unit_key
from ..protocol.canonical import digest
from ..protocol.model import Node, Provider
from .frames import Frame, Frames, availability, entry_missing, limit
from .state import State, check_json

#: Routes on offer, and diagnostics, of one evaluation.
MAX_CANDIDATES = 10_000
#: Subgraphs passed on the way to each of them, together: so long are all call paths.
MAX_STEPS = 200_000
#: Routes beside the primary one.
MAX_ALTERNATIVES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A Route on offer; `call_path` names the Subgraph nodes passed, outermost first, each as `graph/node`."""

    route_id: str
    graph: str
    node: Node
    call_path: tuple[str, ...]
    status: str
    availability: str
    reason_code: str
    hint: str | None

    @property
    def state_key(self) -> str:
        """Under which its Outcome is recorded."""
        return ">".join((*self.call_path, f"{self.graph}/{self.node.id}"))

    @property
    def label(self) -> str:
        return self.node.id if self.node.description is None else self.node.description

    def to_json(self) -> dict[str, Any]:
        """The route summary of an Evaluation."""
        return {
            "routeId": self.route_id,
            "graph": self.graph,
            "node": self.node.id,
            "statusCode": self.status,
            "reasonCode": self.reason_code,
            **({} if self.hint is None else {"hint": self.hint}),
            "availability": self.availability,
            "label": self.label,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """`agent-graph.evaluation.v1`; `candidates` are all Routes on offer, in their order, `frame` how it came to that."""

    provider: str
    graph: str
    entry: str
    revision: str
    status: str
    outcome: str | None
    candidates: tuple[Candidate, ...]
    diagnostics: tuple[Diagnostic, ...]
    frame: Frame = field(repr=False, compare=False)

    @property
    def primary(self) -> Candidate | None:
        return self.candidates[0] if self.candidates else None

    @property
    def alternatives(self) -> tuple[Candidate, ...]:
        return self.candidates[1 : 1 + MAX_ALTERNATIVES]

    def to_json(self) -> dict[str, Any]:
        """The protocol object."""
        return {
            "schema": "agent-graph.evaluation.v1",
            "provider": self.provider,
            "graph": self.graph,
            "entry": self.entry,
            "revision": self.revision,
            "statusCode": self.status,
            **({} if self.outcome is None else {"outcome": self.outcome}),
            **({} if self.primary is None else {"primaryRoute": self.primary.to_json()}),
            "alternativeRoutes": [each.to_json() for each in self.alternatives],
            "diagnostics": [each.to_json() for each in self.diagnostics],
        }


def evaluate(provider: Provider, graph_digest: str, graph: str, entry: str, state: State) -> Evaluation:
    """The Evaluation of a Graph from one of its entrypoints.

    `graph_digest` is the digest of everything that the Graph needs (`revision.graph_digest`). An entrypoint that does not
    exist is an Evaluation with status error. Raises `graph-missing`, and `evaluation-limit` beyond the stated bounds.
    """
    if graph not in provider.graphs:
        raise BundlerError(
            "graph-missing", f"`{provider.id}` has no Graph `{graph}`; it has: {', '.join(provider.graphs)}"
        )
    check_json(entry, "the entry")
    revision = digest(
        {
            "provider": graph_digest,
            "graphId": graph,
            "entry": entry,
            "facts": state.facts,
            "outcomes": dict(state.outcomes),
            "authorities": sorted(state.authorities, key=code_unit_key),
        }
    )
    found = provider.graphs[graph]
    frame = Frames(provider, state).run(graph, entry) if entry in found.entrypoints else entry_missing(found, entry)
    candidates = _candidates(provider, frame, graph, revision, state)
    diagnostics = list(_flat_diagnostics(frame))
    if len(candidates) > 1 + MAX_ALTERNATIVES:
        detail = {"available": len(candidates) - 1, "returned": MAX_ALTERNATIVES}
        message = f"{detail['available']} alternative Routes are on offer, the first {MAX_ALTERNATIVES} are named"
        diagnostics.append(
            Diagnostic(code="route-alternatives-truncated", severity="info", message=message, detail=detail)
        )
    return Evaluation(
        provider=provider.id,
        graph=graph,
        entry=entry,
        revision=revision,
        status=frame.status,
        outcome=frame.outcome,
        candidates=candidates,
        diagnostics=tuple(diagnostics),
        frame=frame,
    )


def _candidates(provider: Provider, frame: Frame, graph: str, revision: str, state: State) -> tuple[Candidate, ...]:
    """Everything on offer, in order: availability, priority, route id."""
    if frame.candidates > MAX_CANDIDATES:
        raise limit(f"more than {MAX_CANDIDATES:,} Routes are on offer")
    if frame.candidate_steps > MAX_STEPS:
        raise limit(f"more than {MAX_STEPS:,} Subgraphs lie on the ways to all Routes")
    hints = {code.code: code.summary for code in provider.catalog.codes} if provider.catalog is not None else {}
    found: list[Candidate] = []
    pending: list[tuple[Frame, tuple[str, ...]]] = [(frame, ())]
    while pending:
        inner, path = pending.pop()
        for node, below in inner.offers:
            if below is not None:
                pending.append((below, (*path, f"{inner.graph}/{node.id}")))
                continue
            status, available = availability(node, state)
            identity = digest({"revision": revision, "graph": inner.graph, "node": node.id, "callPath": list(path)})
            reason = node.reason_code or ""
            found.append(
                Candidate(
                    route_id=f"route:{identity.removeprefix('sha256:')[:20]}",
                    graph=inner.graph,
                    node=node,
                    call_path=path,
                    status=status,
                    availability=available,
                    reason_code=reason,
                    hint=hints.get(reason),
                )
            )
    found.sort(key=lambda each: (each.availability != "immediate", -each.node.priority, each.route_id))
    return tuple(found)


def _flat_diagnostics(frame: Frame) -> Iterator[Diagnostic]:
    if frame.told > MAX_CANDIDATES:
        raise limit(f"there are more than {MAX_CANDIDATES:,} diagnostics")
    if frame.told_steps > MAX_STEPS:
        raise limit(f"more than {MAX_STEPS:,} Subgraphs lie on the ways to all diagnostics")
    pending: list[Diagnostic | Frame] = [frame]
    while pending:
        each = pending.pop()
        if isinstance(each, Frame):
            pending.extend(reversed(each.diagnostics))
        else:
            yield each
