"""A Graph entered once: rounds that give every reached node its Outcome (protocol: "Evaluation").

1. each reached node without an Outcome gets one, in the order reached; a Subgraph's is that of its own frame;
2. repeat edges once, in file order, each seeing the resets before it;
3. nodes not yet reached are judged by their incoming edges.

Work is linear in nodes and edges: an edge is looked at when the Outcome of its source changes, which happens at most
twice; how many incoming edges of a node match is counted. Frames that no record distinguishes are evaluated once for
each Graph and Entry. Nothing recurses, so no Provider ends it by depth.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any

from ..errors import BundlerError, Diagnostic
from ..protocol.model import Check, Graph, Node, Provider
from .state import State, as_text, satisfied

#: Frames inside of each other.
MAX_DEPTH = 1_000


@dataclass(slots=True, eq=False)
class Frame:
    """What became of a Graph entered once: `outcomes` of the nodes reached, `inner` frames of Subgraphs.

    `offers` are node, and for a Subgraph its frame; `diagnostics` likewise. `candidates` and `told` count what that comes
    to, `candidate_steps` and `told_steps` the Subgraphs to be passed on the way to each. Frames share frames: written out,
    or compared member by member, they would be exponentially large.
    """

    status: str
    outcome: str | None = None
    offers: list[tuple[Node, Frame | None]] = field(default_factory=list, repr=False)
    diagnostics: list[Diagnostic | Frame] = field(default_factory=list, repr=False)
    graph: str = ""
    depth: int = 1
    candidates: int = 0
    told: int = 0
    candidate_steps: int = 0
    told_steps: int = 0
    outcomes: dict[str, str] = field(default_factory=dict, repr=False)
    inner: dict[str, Frame] = field(default_factory=dict, repr=False)


class _Edges:
    """A Graph's edges by their ends; nodes and edges are named by their place in the file."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.place = {node.id: index for index, node in enumerate(graph.nodes)}
        self.targets = [self.place[edge.target] for edge in graph.edges]
        self.leaving: list[list[int]] = [[] for _ in graph.nodes]
        self.entering = [0] * len(graph.nodes)
        for index, edge in enumerate(graph.edges):
            self.leaving[self.place[edge.source]].append(index)
            if edge.kind != "repeat":
                self.entering[self.targets[index]] += 1


_Request = tuple[str, str, str]


class Frames:
    """All frames of one evaluation: each is run until it asks for another, on a stack of our own."""

    def __init__(self, provider: Provider, state: State) -> None:
        self._provider = provider
        self._state = state
        self._keys = sorted(state.outcomes)
        self._edges: dict[str, _Edges] = {}
        self._known: dict[_Request, Frame] = {}

    def run(self, graph: str, entry: str) -> Frame:
        running = [((graph, entry, ""), self._start(graph, entry, ""))]
        answer: Frame | None = None
        while running:
            request, frame = running[-1]
            try:
                wanted = frame.send(answer) if answer is not None else next(frame)
            except StopIteration as ended:
                answer = self._known[request] = ended.value
                running.pop()
                continue
            prefix = wanted[2] if self._is_recorded(wanted[2]) else "\0"
            key = (wanted[0], wanted[1], prefix)
            answer = self._known.get(key)
            if len(running) + (1 if answer is None else answer.depth) > MAX_DEPTH:
                raise limit(f"Subgraphs lie in each other more than {MAX_DEPTH:,} deep")
            if answer is None:
                running.append((key, self._start(*key)))
        if answer is None:
            raise AssertionError("a frame ends with what became of it")
        return answer

    def _is_recorded(self, prefix: str) -> bool:
        """Whether a record says something of a frame; of one without records it does not matter where it lies."""
        index = bisect_left(self._keys, prefix)
        return index < len(self._keys) and self._keys[index].startswith(prefix)

    def _start(self, graph: str, entry: str, prefix: str) -> Generator[_Request, Frame, Frame]:
        edges = self._edges.get(graph)
        if edges is None:
            edges = self._edges[graph] = _Edges(self._provider.graphs[graph])
        return _Rounds(edges, self._state, prefix).run(edges.graph.entrypoints[entry])


class _Rounds:
    """One frame at work."""

    def __init__(self, edges: _Edges, state: State, prefix: str) -> None:
        self._graph, self._edges, self._state, self._prefix = edges.graph, edges, state, prefix
        size = len(edges.graph.nodes)
        self._outcomes: list[str | None] = [None] * size
        self._reached: list[int] = []
        self._is_reached = bytearray(size)
        self._blocked: set[int] = set()
        self._frames: dict[int, Frame] = {}
        self._matching = bytearray(len(edges.graph.edges))
        self._count = [0] * size
        # What is to be looked at: nodes whose incoming edges changed, repeat edges whose source did.
        self._touched: set[int] = set()
        self._repeats: list[int] = []
        self._later: list[int] = []

    def run(self, entry: str) -> Generator[_Request, Frame, Frame]:
        fresh = [self._edges.place[entry]]
        self._reach(fresh[0])
        while fresh:
            # 1. Outcomes
            for place in fresh:
                node = self._graph.nodes[place]
                if node.graph is not None and node.entry is not None and self._is_legal(place):
                    inner = f"{self._key(node)}>" if self._prefix != "\0" else "\0"
                    self._frames[place] = yield node.graph, node.entry, inner
                self._outcomes[place] = self._outcome(place, node)
                self._changed(place, -1)
            # 2. and 3., once more where a reset is still to be seen by an edge before it in the file
            self._repeat()
            fresh = self._flow()
            while not fresh and self._later:
                self._repeat()
                fresh = self._flow()
        return self._result()

    def _key(self, node: Node) -> str:
        return f"{self._prefix}{self._graph.id}/{node.id}"

    def _is_legal(self, place: int) -> bool:
        checks = self._graph.nodes[place].requires_facts
        if all(satisfied(check, self._state.facts) for check in checks):
            return True
        self._blocked.add(place)
        return False

    def _outcome(self, place: int, node: Node) -> str:
        frame = self._frames.get(place)
        if frame is not None:
            if frame.status == "complete" and frame.outcome is not None:
                return frame.outcome
            return {"error": "failed", "waiting-user": "waiting-user"}.get(frame.status, "pending")
        if place in self._blocked or not self._is_legal(place):
            return "blocked"
        record = None if self._prefix == "\0" else self._state.outcomes.get(self._key(node))
        if node.terminal_outcome is not None:
            return record or node.terminal_outcome
        if node.satisfied_by:
            if all(satisfied(check, self._state.facts) for check in node.satisfied_by):
                return "completed"
            if record == "completed":
                return "unverified"
        return record or "pending"

    def _reach(self, place: int) -> None:
        self._is_reached[place] = True
        self._reached.append(place)

    def _changed(self, place: int, now: int) -> None:
        """Look at the edges that leave a node whose Outcome changed while the repeat edge `now` was followed."""
        outcome = self._outcomes[place]
        for index in self._edges.leaving[place]:
            edge = self._graph.edges[index]
            matches = outcome in edge.outcomes
            if edge.kind == "repeat":
                if matches:
                    heappush(self._repeats if index > now else self._later, index)
            elif matches != self._matching[index]:
                self._matching[index] = matches
                target = self._edges.targets[index]
                self._count[target] += 1 if matches else -1
                self._touched.add(target)

    def _repeat(self) -> None:
        """Follow the repeat edges that match, in file order: their targets are reached, and pending or not legal."""
        self._repeats, self._later = self._later + self._repeats, []
        heapify(self._repeats)
        while self._repeats:
            index = heappop(self._repeats)
            edge = self._graph.edges[index]
            if self._outcomes[self._edges.place[edge.source]] not in edge.outcomes:
                continue  # reset by an edge before it
            target = self._edges.targets[index]
            if not self._is_reached[target]:
                self._reach(target)
            outcome = "pending" if target not in self._blocked and self._is_legal(target) else "blocked"
            if self._outcomes[target] != outcome:
                self._outcomes[target] = outcome
                self._changed(target, index)

    def _flow(self) -> list[int]:
        """The nodes that are reached by the edges that match now."""
        fresh = []
        for place in sorted(self._touched):
            if self._is_reached[place]:
                continue
            wanted = 1 if self._graph.nodes[place].join == "any" else self._edges.entering[place]
            if self._count[place] >= wanted:
                self._reach(place)
                fresh.append(place)
        self._touched.clear()
        return fresh

    def _result(self) -> Frame:
        nodes = self._graph.nodes
        frame = Frame("blocked", graph=self._graph.id)
        frame.outcomes = {nodes[place].id: str(self._outcomes[place]) for place in self._reached}
        frame.inner = {nodes[place].id: inner for place, inner in self._frames.items()}
        frame.depth += max((inner.depth for inner in self._frames.values()), default=0)
        for place in self._reached:
            if place in self._blocked:
                missing = [check for check in nodes[place].requires_facts if not satisfied(check, self._state.facts)]
                frame.diagnostics.append(_missing(self._graph, nodes[place], missing))
        open_frames = [
            (place, inner)
            for place in self._reached
            if (inner := self._frames.get(place)) is not None and inner.status != "complete"
        ]
        for _, inner in open_frames:
            if inner.told:
                frame.diagnostics.append(inner)
                frame.told_steps += inner.told_steps + inner.told
        ended = {self._outcomes[place] for place in self._reached if nodes[place].terminal_outcome is not None}
        if len(ended) > 1:
            frame.status = "error"
            outcomes = sorted(str(each) for each in ended)
            message = f"Terminals with the Outcomes {', '.join(outcomes)} are reached in the Graph `{self._graph.id}`"
            frame.diagnostics.append(
                _finding("terminal-outcome-ambiguous", self._graph, message, {"outcomes": outcomes})
            )
        elif ended:
            frame.status, frame.outcome = "complete", ended.pop()
        else:
            self._offer(frame)
        frame.told = sum(each.told if isinstance(each, Frame) else 1 for each in frame.diagnostics)
        return frame

    def _offer(self, frame: Frame) -> None:
        statuses = set()
        for place in self._reached:
            node = self._graph.nodes[place]
            inner = self._frames.get(place)
            if inner is not None:
                if inner.status != "complete" and inner.candidates:
                    frame.offers.append((node, inner))
                    frame.candidates += inner.candidates
                    frame.candidate_steps += inner.candidate_steps + inner.candidates
                    statuses.add(inner.status)
            elif node.kind in ("action", "gate") and self._outcomes[place] in ("pending", "waiting-user"):
                frame.offers.append((node, None))
                frame.candidates += 1
                statuses.add(availability(node, self._state)[0])
        if statuses:
            frame.status = "actionable" if "actionable" in statuses else "waiting-user"
        elif not frame.diagnostics:
            message = f"nothing in the Graph `{self._graph.id}` is left to do, and no Terminal is reached"
            frame.diagnostics.append(_finding("no-route", self._graph, message))


def availability(node: Node, state: State) -> tuple[str, str]:
    """Status and availability of an Action or Gate that is on offer."""
    if node.gate is None or (node.gate.delegatable and node.gate.authority in state.authorities):
        return "actionable", "immediate"
    return "waiting-user", "requires-user"


def entry_missing(graph: Graph, entry: str) -> Frame:
    """The frame of a Graph that has no such entrypoint."""
    message = f"the Graph `{graph.id}` has no entrypoint `{entry}`; it has: {', '.join(graph.entrypoints)}"
    return Frame("error", diagnostics=[_finding("entry-missing", graph, message)], graph=graph.id, told=1)


def _missing(graph: Graph, node: Node, checks: list[Check]) -> Diagnostic:
    wanted = ", ".join(
        f"`{check.path}` {'to exist' if check.exists else 'not to exist'}"
        if check.exists is not None
        else f"`{check.path}` to be {as_text(check.equals)}"
        for check in checks
    )
    return _finding("required-fact-missing", graph, f"the node `{node.id}` requires {wanted}")


def _finding(code: str, graph: Graph, message: str, detail: Mapping[str, Any] | None = None) -> Diagnostic:
    return Diagnostic(code=code, message=message, path=graph.path, detail=detail or {})


def limit(what: str) -> BundlerError:
    """`evaluation-limit`: more than a host is to wait for."""
    return BundlerError("evaluation-limit", what)
