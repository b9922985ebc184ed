"""Runs: a host's memory of one Graph, in a file at a path that the host names (protocol: "Run").

A Run is changed by one writer at a time and appears whole: killed at any moment, the file is the one before or after.
Events are only ever added. Session authorities stay in the Run that they were given to: a checkpoint has none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice

from ..errors import CODES, BundlerError, Diagnostic, Suggestions
from ..protocol.canonical import Json
from ..protocol.identifiers import is_id
from ..protocol.model import Node, Provider
from .run_files import existing, locked, missing, new_file, read_file, replace_file
from .run_values import ABSENT, MAX_BYTES, Event, OutcomeRecord, Run, parse_run, run_bytes, write_time
from .state import OUTCOMES, check_json, make_state, outcome_invalid

__all__ = [
    "ABSENT",
    "Event",
    "OutcomeRecord",
    "Run",
    "checkpoint_run",
    "find_state_key",
    "read_run",
    "record_outcome",
    "resume_run",
    "set_authorities",
    "set_facts",
    "start_run",
]

#: State keys that a misspelt one is compared with.
_MOST_KEYS = 500

AnyPath = str | os.PathLike[str]
#: The clock: an aware time.
Now = Callable[[], datetime]


def _now() -> datetime:
    return datetime.now(UTC)


def read_run(path: AnyPath) -> Run:
    """The Run in a file. Raises `file-read-failed`, `parse-failed` and `schema-invalid`."""
    name = os.fspath(path)
    return parse_run(read_file(name, MAX_BYTES).data, name)


def start_run(
    path: AnyPath,
    provider: Provider,
    graph: str,
    entry: str = "default",
    *,
    workspace: AnyPath | None = None,
    facts: Mapping[str, Json] | None = None,
    authorities: Iterable[str] = (),
    now: Now = _now,
) -> Run:
    """A new Run of a Graph of the Provider, at a path where nothing lies yet.

    `workspace` is the folder in which the commands of its Routes run; the Run holds its absolute path. Raises
    `graph-missing`, `entry-missing`, `run-target-exists`, `run-locked`, `run-limit-exceeded`, `output-write-failed`, and
    for what is given `json-object-required`, `json-invalid` and `option-invalid`.
    """
    from uuid import uuid4

    found = provider.graphs.get(graph)
    if found is None:
        near = Suggestions().near(graph, provider.graphs)
        raise BundlerError(
            "graph-missing", f"`{provider.id}` has no Graph `{graph}`{near}; it has: {', '.join(provider.graphs)}"
        )
    if entry not in found.entrypoints:
        names = ", ".join(found.entrypoints)
        raise BundlerError("entry-missing", f"the Graph `{graph}` has no entrypoint `{entry}`; it has: {names}")
    make_state(facts)
    folder = None if workspace is None else os.path.abspath(workspace)
    check_json(folder, "the workspace")
    at = write_time(now())
    run = Run(
        id=f"run-{uuid4()}",
        provider=provider.id,
        graph=graph,
        entry=entry,
        workspace=folder,
        created_at=at,
        updated_at=at,
        facts=dict(facts or {}),
        outcomes={},
        authorities=_unique(authorities),
        events=(),
    )
    return _create(path, run.with_event(at, "run.started"))


def record_outcome(
    path: AnyPath, key: str, outcome: str, *, detail: Json = ABSENT, provider: str | None = None, now: Now = _now
) -> Run:
    """Record the latest Outcome of a state key; the Run as it is then. `find_state_key` tells what a key should be.

    With `provider` the Run has to be of the Provider with that id. Raises `outcome-invalid`, `json-invalid`,
    `run-provider-mismatch`, `run-locked`, `run-limit-exceeded`, `output-write-failed` and what reading the Run raises.
    """
    if outcome not in OUTCOMES or not key:
        raise outcome_invalid(key, outcome)
    check_json(key, "the state key")
    if detail is not ABSENT:
        check_json(detail, "the detail")

    def edit(run: Run, at: str) -> Run:
        record = OutcomeRecord(outcome=outcome, recorded_at=at, detail=detail)
        changed = replace(run, outcomes={**run.outcomes, key: record})
        return changed.with_event(at, "node.outcome-recorded", node=key, outcome=outcome, detail=detail)

    return _change(path, edit, provider, now)


def set_facts(
    path: AnyPath,
    facts: Mapping[str, Json],
    *,
    replace_all: bool = False,
    provider: str | None = None,
    now: Now = _now,
) -> Run:
    """Lay Facts over those of the Run, top-level key by key, or put them in the place of all of them.

    The event tells which keys were given, not their values. Raises what `record_outcome` raises, and
    `json-object-required`.
    """
    make_state(facts)

    def edit(run: Run, at: str) -> Run:
        changed = replace(run, facts=dict(facts) if replace_all else {**run.facts, **facts})
        return changed.with_event(at, "facts.replaced" if replace_all else "facts.updated", detail=sorted(facts))

    return _change(path, edit, provider, now)


def set_authorities(
    path: AnyPath, authorities: Iterable[str] = (), *, provider: str | None = None, now: Now = _now
) -> Run:
    """Put these session authorities in the place of those of the Run; none clears them.

    Raises what `record_outcome` raises, and `option-invalid` for what is no id.
    """
    unique = _unique(authorities)

    def edit(run: Run, at: str) -> Run:
        return replace(run, authorities=unique).with_event(at, "authorities.updated", detail=list(unique))

    return _change(path, edit, provider, now)


def checkpoint_run(path: AnyPath, to: AnyPath, *, now: Now = _now) -> Run:
    """Copy the Run, without its authorities, to a path where nothing lies yet; the Run, which notes it.

    Raises `run-target-exists` and what `record_outcome` raises. The copy is there before the Run says so, and goes again
    if the Run can't say so.
    """
    place, target = existing(path), missing(to)
    with locked(place, target):
        content = read_file(place, MAX_BYTES)
        run = parse_run(content.data, os.fspath(path))
        data, run = run_bytes(run.with_event(run.time_of_change(now()), "run.checkpointed", detail=_as_text(target)))
        copy, _ = run_bytes(replace(run, authorities=()))
        with new_file(target, copy):
            replace_file(place, data, content.status)
    return run


def resume_run(checkpoint: AnyPath, to: AnyPath, *, now: Now = _now) -> Run:
    """A Run that goes on from a checkpoint, at a path where nothing lies yet, without authorities.

    Raises `run-target-exists`, `run-locked`, `run-limit-exceeded`, `output-write-failed` and what reading the checkpoint
    raises.
    """
    run = replace(read_run(checkpoint), authorities=())
    detail = _as_text(os.path.abspath(checkpoint))
    return _create(to, run.with_event(run.time_of_change(now()), "run.resumed", detail=detail))


def find_state_key(provider: Provider, graph: str, name: str) -> tuple[str, Diagnostic | None]:
    """The state key that is meant in a Run of the Graph: a state key, or the id of a node of that Graph.

    A key under which nothing is ever looked up comes with a warning: `node-unknown`, or `record-without-effect` for a
    Subgraph node, whose Outcome is that of its own Graph. Raises `graph-missing`, and `node-unknown` for what can be no
    state key.
    """
    found = provider.graphs.get(graph)
    if found is None:
        raise BundlerError("graph-missing", f"`{provider.id}` has no Graph `{graph}`, which the Run is of")
    key, node = name, _find_node(provider, graph, name)
    if node is None and any(each.id == name for each in found.nodes):
        key = f"{graph}/{name}"
        node = _find_node(provider, graph, key)
    if node is None:
        known = list(islice(_keys(provider, graph), _MOST_KEYS + 1))
        # A node below a Subgraph is often named without the way to it.
        meant = next((each for each in known if each.endswith(f">{key}")), None)
        near = f" (did you mean `{meant}`?)" if meant else Suggestions(most_options=_MOST_KEYS).near(key, known)
        message = f"the Graph `{graph}` leads to no node `{key}`{near}"
        if "/" not in key:
            near = Suggestions().near(f"{graph}/{key}", known)
            raise BundlerError("node-unknown", f"the Graph `{graph}` has no node `{key}`{near}")
        return key, Diagnostic(
            code="node-unknown",
            severity="warning",
            message=f"{message}: the record changes the revision and nothing else",
            hint=CODES["node-unknown"],
        )
    if node.graph is not None:
        return key, Diagnostic(
            code="record-without-effect",
            severity="warning",
            message=f"`{key}` is a Subgraph node: its Outcome is that of the Graph `{node.graph}`, whatever is recorded",
            hint=CODES["record-without-effect"],
        )
    return key, None


def _create(path: AnyPath, run: Run) -> Run:
    place = missing(path)
    data, written = run_bytes(run)
    with locked(place), new_file(place, data):
        return written


def _change(path: AnyPath, edit: Callable[[Run, str], Run], provider: str | None, now: Now) -> Run:
    place = existing(path)
    with locked(place):
        content = read_file(place, MAX_BYTES)
        run = parse_run(content.data, os.fspath(path))
        if provider is not None:
            run.check_provider(provider)
        data, written = run_bytes(edit(run, run.time_of_change(now())))
        replace_file(place, data, content.status)
    return written


def _unique(authorities: Iterable[str]) -> tuple[str, ...]:
    texts = [authorities] if isinstance(authorities, str) else list(authorities)
    for each in texts:
        if not isinstance(each, str) or not is_id(each):
            raise BundlerError(
                "option-invalid",
                f"the authority {each!r} is no id",
                hint="name an authority as a Gate does: lower-case letters, digits and . _ / -",
            )
    return tuple(dict.fromkeys(texts))


def _as_text(path: str) -> str:
    """A path in JSON, whose texts hold no bytes that are not UTF-8."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _find_node(provider: Provider, graph: str, key: str) -> Node | None:
    """The node that a state key leads to from the Graph."""
    node: Node | None = None
    inner: str | None = graph
    for step in key.split(">"):
        if inner is None:
            return None
        node = next((each for each in provider.graphs[inner].nodes if step == f"{inner}/{each.id}"), None)
        if node is None:
            return None
        inner = node.graph
    return node


def _keys(provider: Provider, graph: str) -> Iterator[str]:
    """The state keys of what can be recorded from the Graph on, the nearest first."""
    pending = [("", graph)]
    for prefix, inner in pending:
        for node in provider.graphs[inner].nodes:
            key = f"{prefix}{inner}/{node.id}"
            if node.graph is not None:
                pending.append((f"{key}>", node.graph))
            else:
                yield key
