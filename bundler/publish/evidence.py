"""Evidence: what the checks of a release found, all of it about one source (`agent-bundler.evidence.v1`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal, get_args

from ..protocol.canonical import Json
from ..protocol.documents import Document, describe, parse_json

SCHEMA = "agent-bundler.evidence.v1"
#: The name of its file in a work folder and in a release.
NAME = "evidence.json"

#: Who does the work of a check: this package, a tool that it starts, or a command of the project's own.
Kind = Literal["library", "tool", "project"]
State = Literal["passed", "failed", "not-run"]

_DIGEST = re.compile(r"(?:sha256|blake3):[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a check said: digest (`sha256:…`) and size in bytes of all of it, and its end as text; secrets are left out."""

    digest: str
    size: int
    tail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check. `command` is a list of arguments, the project's text, or None for what this package does itself.

    `exit_code` is that of the command, negative for a signal. `seconds` and `output` are None for what was not run.
    """

    name: str
    kind: Kind
    state: State
    command: tuple[str, ...] | str | None = None
    exit_code: int | None = None
    seconds: float | None = None
    output: Output | None = None

    def to_json(self) -> dict[str, Json]:
        output = self.output
        return {
            "name": self.name,
            "kind": self.kind,
            "state": self.state,
            "command": list(self.command) if isinstance(self.command, tuple) else self.command,
            "exitCode": self.exit_code,
            "seconds": self.seconds,
            "output": None if output is None else {"digest": output.digest, "size": output.size, "tail": output.tail},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltFile:
    """A file that was built; `sha256` in hexadecimal, `size` in bytes."""

    name: str
    sha256: str
    size: int

    def to_json(self) -> dict[str, Json]:
        return {"name": self.name, "sha256": self.sha256, "size": self.size}


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedFinding:
    """What looks like a secret and is accepted by name: where, what kind, and the reason that was given."""

    path: str
    line: int
    kind: str
    reason: str

    def to_json(self) -> dict[str, Json]:
        return {"path": self.path, "line": self.line, "kind": self.kind, "reason": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Every check in order, and what they were about.

    `source` is the fingerprint of the source, `provider` its id and version, `bundle` the bundle's digest; each is None
    where no check came as far. `tools` maps names to versions.
    """

    source: str | None
    provider: tuple[str, str] | None
    bundle: str | None
    files: tuple[BuiltFile, ...]
    tools: Mapping[str, str]
    accepted: tuple[AcceptedFinding, ...]
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every check was run and passed."""
        return bool(self.checks) and all(check.state == "passed" for check in self.checks)

    def to_json(self) -> dict[str, Json]:
        """`agent-bundler.evidence.v1`, its keys in one order."""
        return {
            "schema": SCHEMA,
            "passed": self.passed,
            "source": self.source,
            "provider": None if self.provider is None else dict(zip(("id", "version"), self.provider, strict=True)),
            "bundle": self.bundle,
            "files": [file.to_json() for file in self.files],
            "tools": dict(sorted(self.tools.items())),
            "acceptedSecrets": [finding.to_json() for finding in self.accepted],
            "checks": [check.to_json() for check in self.checks],
        }

    def to_bytes(self) -> bytes:
        """The file: two-space indent, a final newline."""
        return (json.dumps(self.to_json(), ensure_ascii=False, indent=2) + "\n").encode()


def read_evidence(data: bytes, path: str = NAME) -> Evidence:
    """The evidence in a file of that content; what `to_bytes` writes, and nothing else, is read.

    Raises `parse-failed` and `evidence-invalid`.
    """
    document = parse_json(data, path)
    reader = _Reader(document)
    top = reader.object("", document.value, _EVIDENCE)
    if top["schema"] != SCHEMA:
        raise reader.refused("/schema", f"is {describe(top['schema'])}; {SCHEMA} is expected")
    provider = top["provider"]
    if provider is not None:
        provider = tuple(reader.object("/provider", provider, {"id": str, "version": str}).values())
    evidence = Evidence(
        source=reader.digest("/source", top["source"]),
        provider=provider,
        bundle=reader.digest("/bundle", top["bundle"]),
        files=tuple(reader.file(*each) for each in reader.objects("/files", top["files"], _FILE)),
        tools=reader.texts("/tools", top["tools"]),
        accepted=tuple(
            AcceptedFinding(**each) for _, each in reader.objects("/acceptedSecrets", top["acceptedSecrets"], _ACCEPTED)
        ),
        checks=tuple(reader.check(*each) for each in reader.objects("/checks", top["checks"], _CHECK)),
    )
    if top["passed"] is not evidence.passed:
        raise reader.refused("/passed", "is not what the checks say")
    return evidence


_Types = type | tuple[type, ...]
_Shape = Mapping[str, _Types]

_EVIDENCE: _Shape = {
    "schema": str,
    "passed": bool,
    "source": (str, NoneType),
    "provider": (dict, NoneType),
    "bundle": (str, NoneType),
    "files": list,
    "tools": dict,
    "acceptedSecrets": list,
    "checks": list,
}
_FILE: _Shape = {"name": str, "sha256": str, "size": int}
_ACCEPTED: _Shape = {"path": str, "line": int, "kind": str, "reason": str}
_CHECK: _Shape = {
    "name": str,
    "kind": str,
    "state": str,
    "command": (list, str, NoneType),
    "exitCode": (int, NoneType),
    "seconds": (int, float, NoneType),
    "output": (dict, NoneType),
}
_OUTPUT: _Shape = {"digest": str, "size": int, "tail": str}


class _Reader:
    """Values of a document, each of the shape that is expected or refused with its place."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def refused(self, pointer: str, message: str) -> Exception:
        return self._document.fault("evidence-invalid", pointer, f"`{pointer}` {message}")

    def object(self, pointer: str, value: Json, shape: _Shape) -> dict[str, Any]:
        """The members, in the order of the shape."""
        if not isinstance(value, dict):
            raise self.refused(pointer, f"is {describe(value)}; an object is expected")
        if value.keys() != shape.keys():
            raise self.refused(pointer, f"has the members {', '.join(value)}; expected: {', '.join(shape)}")
        for key, types in shape.items():
            member = value[key]
            if not isinstance(member, types) or (isinstance(member, bool) and types is not bool):
                raise self.refused(f"{pointer}/{key}", f"is {describe(member)}, which does not belong there")
        return {key: value[key] for key in shape}

    def objects(self, pointer: str, values: list[Json], shape: _Shape) -> list[tuple[str, dict[str, Any]]]:
        return [
            (f"{pointer}/{index}", self.object(f"{pointer}/{index}", value, shape))
            for index, value in enumerate(values)
        ]

    def texts(self, pointer: str, value: dict[str, Json]) -> dict[str, str]:
        return self.object(pointer, value, dict.fromkeys(value, str))

    def digest(self, pointer: str, value: str | None) -> str | None:
        if value is not None and not _DIGEST.match(value):
            raise self.refused(pointer, f"is {describe(value)}; a digest is expected")
        return value

    def file(self, pointer: str, value: dict[str, Any]) -> BuiltFile:
        self.digest(f"{pointer}/sha256", f"sha256:{value['sha256']}")
        return BuiltFile(**value)

    def check(self, pointer: str, value: dict[str, Any]) -> Check:
        for key, choices in (("kind", get_args(Kind)), ("state", get_args(State))):
            if value[key] not in choices:
                raise self.refused(f"{pointer}/{key}", f"is {describe(value[key])}; expected: {', '.join(choices)}")
        command, output = value["command"], value["output"]
        if isinstance(command, list):
            if not all(isinstance(each, str) for each in command):
                raise self.refused(f"{pointer}/command", "is no list of texts")
            command = tuple(command)
        if output is not None:
            output = Output(**self.object(f"{pointer}/output", output, _OUTPUT))
            self.digest(f"{pointer}/output/digest", output.digest)
        if (output is None) != (value["state"] == "not-run"):
            raise self.refused(f"{pointer}/output", "and the state do not belong together")
        return Check(
            name=value["name"],
            kind=value["kind"],
            state=value["state"],
            command=command,
            exit_code=value["exitCode"],
            seconds=None if value["seconds"] is None else float(value["seconds"]),
            output=output,
        )
