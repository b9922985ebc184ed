"""Where a Route's Resources are, and whether the conversation has read them (specification: "Resources").

Locations of the three protocols: a file by its absolute path and digest; what a graph Action makes; what a host makes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import BundlerError
from ..protocol.canonical import Json
from ..protocol.documents import MAX_BYTES, front_matter, parse
from ..protocol.model import Action, Provider, Resource
from ..tree import Tree

_PREFIX = "agent-graph.resource-location."
_REVISION = re.compile(r"sha256:[a-f0-9]{64}\Z")
_SCHEMA_TYPE, _MARKDOWN = "application/schema+json", "text/markdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLocation:
    """A file: its absolute path, and the digest of its content."""

    id: str
    kind: str
    media_type: str
    digest: str
    file_path: str
    read_state: str | None = None

    def to_json(self) -> dict[str, Json]:
        """`agent-graph.resource-location.file.v1`."""
        return {**_common(self, "file.v1"), "digest": self.digest, "filePath": self.file_path, **_read_state(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphActionLocation:
    """What an Action of the Provider makes; once made, `digest` and `file_path` of it."""

    id: str
    kind: str
    media_type: str
    revision: str | None
    digest: str | None = None
    file_path: str | None = None
    read_state: str | None = None

    def to_json(self) -> dict[str, Json]:
        """`agent-graph.resource-location.graph-action.v1`."""
        revision = {} if self.revision is None else {"revision": self.revision}
        made = {"digest": self.digest, "filePath": self.file_path}
        content = {"materialize": {"resourceId": self.id}} if self.digest is None else made
        return {**_common(self, "graph-action.v1"), **revision, **content, **_read_state(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostActionLocation:
    """What the host makes: by which handler, from which input, and to which schema its answer has to be."""

    id: str
    kind: str
    media_type: str
    revision: str
    handler: str
    input_schema: str
    input: Json
    output_schema: str
    read_state: str | None = None

    def to_json(self) -> dict[str, Json]:
        """`agent-graph.resource-location.host-action.v1`."""
        made_by = {
            "handler": self.handler,
            "input": {"schema": self.input_schema, "value": self.input},
            "output_schema": self.output_schema,
        }
        return {
            **_common(self, "host-action.v1"),
            "revision": self.revision,
            "materialize": made_by,
            **_read_state(self),
        }


Location = FileLocation | GraphActionLocation | HostActionLocation


def _common(location: Location, protocol: str) -> dict[str, Json]:
    schema = f"{_PREFIX}{protocol}"
    return {"schema": schema, "id": location.id, "kind": location.kind, "mediaType": location.media_type}


def _read_state(location: Location) -> dict[str, Json]:
    return {} if location.read_state is None else {"readState": location.read_state}


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipts:
    """What the current conversation has read of one Provider: (id, digest), and (id, revision) of what was made."""

    read: frozenset[tuple[str, str]] = frozenset()
    made: frozenset[tuple[str, str | None]] = frozenset()

    def marked(self, location: Location) -> Location:
        """The location with its `readState`: a file is known by its digest, what is made by the Route's revision."""
        match location:
            case FileLocation():
                is_current = (location.id, location.digest) in self.read
            case _:
                is_current = (location.id, location.revision) in self.made
        return replace(location, read_state="current" if is_current else "read-required")


def read_receipts(value: Json, provider_id: str) -> Receipts:
    """Receipts from `agent-graph.resource-read-receipts.v1`.

    Raises `schema-invalid`, and `resource-receipts-provider-mismatch` for those of another Provider.
    """
    from ..protocol import schemas
    from ..protocol.documents import Document

    document = Document(path="the read receipts", value=value, finite=True, _places=dict)
    schemas.check(document, "resource-read-receipts")
    if value["provider"] != provider_id:
        raise BundlerError(
            "resource-receipts-provider-mismatch",
            f"the read receipts are of the Provider `{value['provider']}`, not of `{provider_id}`",
        )
    receipts = value["receipts"]
    return Receipts(
        read=frozenset((each["id"], each["digest"]) for each in receipts),
        made=frozenset((each["id"], each["revision"]) for each in receipts if "revision" in each),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Locator:
    """Finds what a Provider's Routes name: `root` is its absolute folder, `digest_of` a carried file's digest."""

    provider: Provider
    tree: Tree
    root: str
    digest_of: Callable[[str], str]
    _identities: dict[str, str] = field(default_factory=dict, repr=False)

    def path_of(self, path: str) -> str:
        """The absolute path of a carried file."""
        return os.path.join(self.root, *path.split("/"))

    def file(self, identity: str, kind: str, media_type: str, path: str) -> FileLocation:
        return FileLocation(
            id=identity, kind=kind, media_type=media_type, digest=self.digest_of(path), file_path=self.path_of(path)
        )

    def resource(self, path: str, revision: str) -> Location:
        """The location of the Resource whose descriptor or Markdown file is at `path`, as of a Route's revision."""
        return self.located(self.provider.resources[path], revision)

    def located(self, resource: Resource, revision: str | None) -> Location:
        """The location of a Resource. Raises `revision-invalid` for what is none, and where a host's needs one."""
        if resource.content is not None:
            return self.file(resource.id, resource.kind, resource.media_type, resource.content)
        if revision is not None and not _REVISION.match(revision):
            message = f"the revision is {revision!r}; `sha256:` and 64 hexadecimal digits are expected"
            raise BundlerError("revision-invalid", message)
        materializer = self.provider.actions[resource.materializer or ""]
        if materializer.handler is None:
            return GraphActionLocation(
                id=resource.id, kind=resource.kind, media_type=resource.media_type, revision=revision
            )
        if revision is None:
            raise BundlerError(
                "revision-invalid", f"`{resource.id}` is made by the host for one Route, and no revision was given"
            )
        return HostActionLocation(
            id=resource.id,
            kind=resource.kind,
            media_type=resource.media_type,
            revision=revision,
            handler=materializer.handler,
            input_schema=self._identity(materializer.input_schema or ""),
            input=resource.input,
            output_schema=self._identity(materializer.output_schema or ""),
        )

    def skill(self, path: str) -> FileLocation:
        """The location of an agent Action's Skill. Raises `skill-frontmatter-unusable` where it has no name."""
        name = None
        problem = "has no `name` text in its front matter"
        try:
            with self.tree.open(path) as reader:
                matter: Mapping[str, Any] = front_matter(reader.read_all(MAX_BYTES), path).value
            name = matter.get("name")
        except BundlerError as error:
            problem = f"can't be used: {error.message}"
        if not isinstance(name, str) or not name:
            raise BundlerError("skill-frontmatter-unusable", f"the Skill `{path}` {problem}", path=path)
        return self.file(f"skill.{name}", "skill", _MARKDOWN, path)

    def schema(self, action: Action, role: str) -> FileLocation | None:
        """The location of an Action's `input` or `output` schema, if it has one."""
        path = action.input_schema if role == "input" else action.output_schema
        return None if path is None else self.file(f"schema.{action.id}.{role}", "schema", _SCHEMA_TYPE, path)

    def _identity(self, path: str) -> str:
        """The `$id` of a host Action's schema, which loading has checked."""
        if path not in self._identities:
            self._identities[path] = str(parse(self.provider.documents[path], path).value["$id"])
        return self._identities[path]
