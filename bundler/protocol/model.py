"""The protocol's objects as frozen values (specification: "Provider", "Graph", "Action", "Resources", "Code Catalog").

They are made from values that a schema has accepted; paths are in normal form, defaults filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..paths import normalize
from .canonical import Json
from .resources import MARKDOWN, ResourceProtocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A fact check: `equals` a scalar, or (where `equals` is absent) `exists`."""

    path: str
    exists: bool | None
    equals: Json

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> Check:
        return cls(path=value["path"], exists=value.get("exists"), equals=value.get("equals"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLists:
    """The Resources of a node, as paths."""

    required: tuple[str, ...] = ()
    recommended: tuple[str, ...] = ()

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> ResourceLists:
        return cls(required=_paths(value.get("required")), recommended=_paths(value.get("recommended")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What must be resolved at a Gate, and by whom."""

    id: str
    prompt: str
    authority: str | None
    delegatable: bool | None

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> Gate:
        return cls(
            id=value["id"],
            prompt=value["prompt"],
            authority=value.get("authority"),
            delegatable=value.get("delegatable"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegated:
    """What differs when a session authority resolves the Gate. `resources` None: those of the node."""

    inspection: str | None
    resolution_action: str | None
    resources: ResourceLists | None

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> Delegated:
        return cls(
            inspection=value.get("inspection"),
            resolution_action=_path(value.get("resolutionAction")),
            resources=ResourceLists.from_value(value["resources"]) if "resources" in value else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of a Graph; what its kind never has is None or empty."""

    id: str
    kind: str
    description: str | None
    priority: int
    join: str
    requires_facts: tuple[Check, ...]
    satisfied_by: tuple[Check, ...]
    reason_code: str | None
    resources: ResourceLists
    action: str | None
    gate: Gate | None
    inspection_action: str | None
    resolution_action: str | None
    delegated: Delegated | None
    graph: str | None
    entry: str | None
    terminal_outcome: str | None

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> Node:
        gate = value.get("gate")
        delegated = value.get("delegated")
        return cls(
            id=value["id"],
            kind=value["kind"],
            description=value.get("description"),
            priority=value.get("priority", 0),
            join=value.get("join", "all"),
            requires_facts=tuple(map(Check.from_value, value.get("requiresFacts", ()))),
            satisfied_by=tuple(map(Check.from_value, value.get("satisfiedBy", ()))),
            reason_code=value.get("reasonCode"),
            resources=ResourceLists.from_value(value.get("resources", {})),
            action=_path(value.get("action")),
            gate=None if gate is None else Gate.from_value(gate),
            inspection_action=_path(value.get("inspectionAction")),
            resolution_action=_path(value.get("resolutionAction")),
            delegated=None if delegated is None else Delegated.from_value(delegated),
            graph=value.get("graph"),
            entry=value.get("entry"),
            terminal_outcome=value.get("terminalOutcome"),
        )

    def actions(self) -> tuple[tuple[str, str], ...]:
        """(role, path) of the Actions that the node names, in the order in which they are checked."""
        delegated = self.delegated.resolution_action if self.delegated else None
        roles = (
            ("action", self.action),
            ("inspectionAction", self.inspection_action),
            ("delegated.resolutionAction", delegated),
            ("resolutionAction", self.resolution_action),
        )
        return tuple((role, path) for role, path in roles if path is not None)

    def resource_paths(self) -> tuple[tuple[str, str], ...]:
        """(role, path) of the Resources that the node names, in the order in which they are checked."""
        lists = [("resources", self.resources)]
        if self.delegated and self.delegated.resources:
            lists.append(("delegated.resources", self.delegated.resources))
        return tuple(
            (f"{name}.{need}[{index}]", path)
            for name, each in lists
            for need, paths in (("required", each.required), ("recommended", each.recommended))
            for index, path in enumerate(paths)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """An edge of a Graph."""

    source: str
    target: str
    kind: str
    outcomes: tuple[str, ...]

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> Edge:
        return cls(
            source=value["from"],
            target=value["to"],
            kind=value.get("kind", "flow"),
            outcomes=tuple(value.get("outcomes", ("completed",))),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A Graph and the path of its file."""

    id: str
    path: str
    description: str | None
    entrypoints: Mapping[str, str]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    @classmethod
    def from_value(cls, path: str, value: Mapping[str, Any]) -> Graph:
        return cls(
            id=value["id"],
            path=path,
            description=value.get("description"),
            entrypoints=dict(value["entrypoints"]),
            nodes=tuple(map(Node.from_value, value["nodes"])),
            edges=tuple(map(Edge.from_value, value["edges"])),
        )

    @property
    def dependencies(self) -> tuple[str, ...]:
        """The ids of the Subgraphs that its nodes name, each once, sorted."""
        return tuple(sorted({node.graph for node in self.nodes if node.graph is not None}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An Action and the path of its file; what its runner never has is None or empty."""

    id: str
    path: str
    description: str | None
    runner: str
    effect: str
    files: tuple[str, ...]
    cwd: str
    input_schema: str | None
    output_schema: str | None
    command: str | None
    entry: str | None
    runtime: str | None
    args: tuple[str, ...]
    skill: str | None
    handler: str | None

    @classmethod
    def from_value(cls, path: str, value: Mapping[str, Any]) -> Action:
        return cls(
            id=value["id"],
            path=path,
            description=value.get("description"),
            runner=value["runner"],
            effect=value["effect"],
            files=_paths(value.get("files")),
            cwd=value.get("cwd", "workspace"),
            input_schema=_path(value.get("inputSchema")),
            output_schema=_path(value.get("outputSchema")),
            command=value.get("command"),
            entry=_path(value.get("entry")),
            runtime=value.get("runtime"),
            args=tuple(value.get("args", ())),
            skill=_path(value.get("skill")),
            handler=value.get("handler"),
        )

    @property
    def invocation(self) -> str:
        """What it names to be run or read, on one line as far as its author wrote one, for people."""
        import shlex

        named = self.command or self.handler or self.skill
        return named or " ".join([str(self.runtime), str(self.entry), *map(shlex.quote, self.args)])

    @property
    def schemas(self) -> tuple[str, ...]:
        """The paths of its input and output schema, as far as it has them."""
        return tuple(path for path in (self.input_schema, self.output_schema) if path is not None)

    def file_paths(self) -> tuple[tuple[str, str], ...]:
        """(role, path) of the files that the Action names, its Skill aside, in the order in which they are checked."""
        roles = [("entry", self.entry), ("inputSchema", self.input_schema), ("outputSchema", self.output_schema)]
        named = [(role, path) for role, path in roles if path is not None]
        return (*named, *((f"files[{index}]", path) for index, path in enumerate(self.files)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A Resource: `path` is its descriptor's or Markdown file's, `content` that of a static one's content."""

    id: str
    path: str
    kind: str
    media_type: str
    description: str | None
    protocol: ResourceProtocol
    content: str | None
    materializer: str | None
    input: Json

    @classmethod
    def from_descriptor(cls, path: str, value: Mapping[str, Any], protocol: ResourceProtocol) -> Resource:
        return cls(
            id=value["id"],
            path=path,
            kind=value["kind"],
            media_type=value["mediaType"],
            description=value.get("description"),
            protocol=protocol,
            content=_path(value.get("path")),
            materializer=_path(value.get("materializer")),
            input=value.get("input"),
        )

    @classmethod
    def from_front_matter(cls, path: str, value: Mapping[str, Any], media_type: str) -> Resource:
        return cls(
            id=value["id"],
            path=path,
            kind=value["kind"],
            media_type=media_type,
            description=None,
            protocol=MARKDOWN,
            content=path,
            materializer=None,
            input=None,
        )

    @property
    def dynamic(self) -> bool:
        """Whether a materializer makes its content."""
        return self.protocol.dynamic


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """An entry of the Code Catalog."""

    code: str
    kind: str
    summary: str
    severity: str | None
    document: str | None

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> Code:
        return cls(
            code=value["code"],
            kind=value["kind"],
            summary=value["summary"],
            severity=value.get("severity"),
            document=_path(value.get("document")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """The Code Catalog and the path of its file."""

    path: str
    codes: tuple[Code, ...]

    @classmethod
    def from_value(cls, path: str, value: Mapping[str, Any]) -> Catalog:
        return cls(path=path, codes=tuple(map(Code.from_value, value["codes"])))


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFolder:
    """The files of a Skill: its folder's, or the file alone where it lies in the Provider root.

    `left_out` are files and folders that are junk by `paths.JUNK`: path → what it is.
    """

    files: tuple[str, ...]
    left_out: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A Provider that satisfies every rule: only loading makes one.

    `graphs` by id in manifest order; `actions`, `resources` and `skills` by path in the order met, a
    Skill by the path of the file that its Action names. `documents` holds the bytes of what was parsed,
    `executable` those paths of it that have an executable bit.
    """

    id: str
    version: str
    name: str | None
    description: str | None
    manifest_path: str
    manifest: Mapping[str, Any]
    graphs: Mapping[str, Graph]
    actions: Mapping[str, Action]
    resources: Mapping[str, Resource]
    catalog: Catalog | None
    skills: Mapping[str, SkillFolder]
    documents: Mapping[str, bytes]
    executable: frozenset[str]


def _path(value: str | None) -> str | None:
    return None if value is None else normalize(value)


def _paths(values: list[str] | None) -> tuple[str, ...]:
    return tuple(map(normalize, values or ()))
