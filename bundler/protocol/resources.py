"""The kinds of Resource: one table, one entry a descriptor protocol (specification: "Resources").

To add a kind, add an entry here and to `schemas/resource.schema.json`; nothing else switches on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: What a static Resource can be.
STATIC_KINDS = ("procedure", "diagnostic", "template", "schema", "skill")
#: The media type of a Markdown file that names none.
DEFAULT_MEDIA_TYPE = "text/markdown"
#: What the `schema` of every descriptor begins with.
DESCRIPTOR_PREFIX = "agent-graph.resource."


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceProtocol:
    """How a descriptor's content comes about."""

    #: The runners that its materializer may have; none for a static Resource, whose content is a file.
    runners: tuple[str, ...] = ()
    #: Whether the materializer needs both schemas, each with a versioned identity, and the descriptor an input.
    contract: bool = False

    @property
    def dynamic(self) -> bool:
        """Whether the content is made when a Route asks for it."""
        return bool(self.runners)


PROTOCOLS: Mapping[str, ResourceProtocol] = {
    "agent-graph.resource.file.v1": ResourceProtocol(),
    "agent-graph.resource.graph-action.v1": ResourceProtocol(runners=("command", "script")),
    "agent-graph.resource.host-action.v1": ResourceProtocol(runners=("host",), contract=True),
}
#: What a Markdown file with front matter is.
MARKDOWN = ResourceProtocol()

#: Descriptor protocols of 0.2, which 0.3 replaced.
NUMBERED = ("agent-graph.resource.v1", "agent-graph.resource.v2")


def conversion(schema: str) -> str:
    """How to go on from a descriptor protocol that is not supported."""
    if schema in NUMBERED:
        return (
            "protocol 0.3 replaced the numbered descriptors: with `path` write `schema: agent-graph.resource.file.v1`; "
            "with a materializer that is a command or script `agent-graph.resource.graph-action.v1` and `kind: context-view`; "
            "with one that is a host Action `agent-graph.resource.host-action.v1` and `input`"
        )
    return f"use one of: {', '.join(PROTOCOLS)}"
