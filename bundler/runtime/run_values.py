"""What a Run holds, and its bytes (protocol: "Run"). Pure: where Runs lie is `run_files`', what is done to them `runs`'."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from ..errors import BundlerError
from ..protocol import schemas
from ..protocol.canonical import Json
from ..protocol.documents import MAX_LEVELS, Document, parse_json

SCHEMA = "agent-graph.run.v1"
#: The largest Run that is read or written, in bytes.
MAX_BYTES = 64 * 1024 * 1024
#: Values in one Run: an event has about seven.
MAX_VALUES = 4_000_000


_json = json.JSONEncoder(ensure_ascii=False).encode


class Absent(Enum):
    """Says that there is no detail, since null is one."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRecord:
    """The latest Outcome of a state key; `detail` is any JSON, or `ABSENT`."""

    outcome: str
    recorded_at: str
    detail: Json = ABSENT

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> OutcomeRecord:
        return cls(outcome=value["outcome"], recorded_at=value["recordedAt"], detail=value.get("detail", ABSENT))

    def to_json(self) -> dict[str, Json]:
        return {"outcome": self.outcome, "recordedAt": self.recorded_at, **_detail(self.detail)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a Run; `sequence` counts from 1, `node` is a state key."""

    sequence: int
    at: str
    type: str
    node: str | None = None
    outcome: str | None = None
    detail: Json = ABSENT

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> Event:
        return cls(
            sequence=value["sequence"],
            at=value["at"],
            type=value["type"],
            node=value.get("node"),
            outcome=value.get("outcome"),
            detail=value.get("detail", ABSENT),
        )

    def to_json(self) -> dict[str, Json]:
        return {
            "sequence": self.sequence,
            "at": self.at,
            "type": self.type,
            **({} if self.node is None else {"node": self.node}),
            **({} if self.outcome is None else {"outcome": self.outcome}),
            **_detail(self.detail),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """`agent-graph.run.v1`; `outcomes` by state key, `events` the oldest first."""

    id: str
    provider: str
    graph: str
    entry: str
    workspace: str | None
    created_at: str
    updated_at: str
    facts: Mapping[str, Json]
    outcomes: Mapping[str, OutcomeRecord]
    authorities: tuple[str, ...]
    events: tuple[Event, ...]

    def to_json(self) -> dict[str, Any]:
        """The protocol object."""
        return {
            "schema": SCHEMA,
            "id": self.id,
            "provider": self.provider,
            "graph": self.graph,
            "entry": self.entry,
            **({} if self.workspace is None else {"workspace": self.workspace}),
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
            "facts": dict(self.facts),
            "outcomes": {key: record.to_json() for key, record in self.outcomes.items()},
            "authorities": list(self.authorities),
            "events": [event.to_json() for event in self.events],
        }

    def check_provider(self, provider_id: str) -> None:
        """Raises `run-provider-mismatch` where the Run is of another Provider."""
        if self.provider != provider_id:
            raise BundlerError(
                "run-provider-mismatch",
                f"the Run {self.id} is of the Provider `{self.provider}`, not of `{provider_id}`",
            )

    def time_of_change(self, now: datetime) -> str:
        """When a change made now happens: never before what has happened, whatever the clock says."""
        last = [self.created_at, self.updated_at, *(event.at for event in self.events[-1:])]
        known = [(at, text) for text in last if (at := _read_time(text)) is not None]
        at = _read_time(write_time(now))  # of the precision that is written
        if at is None or not known or max(known)[0] < at:
            return write_time(now)
        latest, text = max(known)
        # As it stands there where it is UTC: it may be finer than what we write.
        return text if text.endswith("Z") else write_time(latest, "microseconds")

    def with_event(self, at: str, kind: str, **more: Any) -> Run:
        """The Run with one event more, of the next number."""
        sequence = self.events[-1].sequence + 1 if self.events else 1
        return replace(self, updated_at=at, events=(*self.events, Event(sequence=sequence, at=at, type=kind, **more)))


def parse_run(data: bytes, path: str) -> Run:
    """The Run in these bytes. Raises `parse-failed` and `schema-invalid`."""
    if len(data) > MAX_BYTES:
        raise BundlerError(
            "parse-failed",
            f"`{path}` is larger than {MAX_BYTES:,} bytes, the most that is parsed",
            path=path,
            hint="start a new Run",
        )
    return _from_document(parse_json(data, path, max_values=MAX_VALUES))


def run_bytes(run: Run) -> tuple[bytes, Run]:
    """The bytes of a Run, and the Run that will be read from them: what can't be read again is not written.

    What was put into it has to be JSON. Raises `schema-invalid` and `run-limit-exceeded`.
    """
    try:
        data = _layout(run.to_json()).encode()
        if len(data) > MAX_BYTES:
            raise _beyond_limits(run)
        document = parse_json(data, f"the Run {run.id}", max_values=MAX_VALUES)
    except RecursionError:
        raise _beyond_limits(run) from None
    except BundlerError as error:
        if error.code != "parse-failed":
            raise
        raise _beyond_limits(run) from None  # only the bounds are left: the bytes are JSON
    return data, _from_document(document)


def write_time(at: datetime, precision: str = "milliseconds") -> str:
    """RFC 3339, in UTC."""
    return at.astimezone(UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def _read_time(text: str) -> datetime | None:
    """The moment; None for what has the form of one and is none, such as a 30 February, or a leap second."""
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _from_document(document: Document) -> Run:
    schemas.check(document, "run")
    value: dict[str, Any] = document.value
    for pointer, what in _disorder(value["events"]):
        raise document.fault("schema-invalid", pointer, what, hint="number the events upwards, as they happened")
    return Run(
        id=value["id"],
        provider=value["provider"],
        graph=value["graph"],
        entry=value["entry"],
        workspace=value.get("workspace"),
        created_at=value["createdAt"],
        updated_at=value["updatedAt"],
        facts=value["facts"],
        outcomes={key: OutcomeRecord.from_value(record) for key, record in value["outcomes"].items()},
        authorities=tuple(value["authorities"]),
        events=tuple(map(Event.from_value, value["events"])),
    )


def _layout(value: dict[str, Any]) -> str:
    """JSON with a member a line, and of what grows an entry a line: for people, for diffs, and fast."""
    members = []
    for name, member in value.items():
        if member and name == "events":
            text = "[\n    " + ",\n    ".join(map(_json, member)) + "\n  ]"
        elif member and name in ("facts", "outcomes"):
            text = "{\n    " + ",\n    ".join(f"{_json(key)}: {_json(item)}" for key, item in member.items()) + "\n  }"
        else:
            text = _json(member)
        members.append(f"  {_json(name)}: {text}")
    return "{\n" + ",\n".join(members) + "\n}\n"


def _disorder(events: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Numbers of events after which there is no next one to tell."""
    last = 0
    for index, event in enumerate(events):
        sequence = event["sequence"]
        if not isinstance(sequence, int) or sequence <= last:
            yield f"/events/{index}/sequence", f"is {sequence}; a number above {last} is expected"
            return
        last = sequence


def _detail(detail: Json) -> dict[str, Json]:
    return {} if detail is ABSENT else {"detail": detail}


def _beyond_limits(run: Run) -> BundlerError:
    return BundlerError(
        "run-limit-exceeded",
        f"the Run {run.id} would be too large: {MAX_BYTES:,} bytes, {MAX_VALUES:,} values and {MAX_LEVELS} levels are the most",
    )
