"""Resources: descriptors, Markdown with front matter, and the contract of a materializer."""

from __future__ import annotations

import re
from typing import Any

from ..errors import BundlerError
from ..protocol.documents import Document, describe, pointer_step
from ..protocol.identifiers import is_id
from ..protocol.model import Action, Resource
from ..protocol.resources import DEFAULT_MEDIA_TYPE, DESCRIPTOR_PREFIX, PROTOCOLS, STATIC_KINDS, conversion
from ..protocol.schemas import SHAPES
from .sources import Sources

_SCHEMA_IDENTITY = re.compile(r"[a-z0-9][a-z0-9._/-]*/v[1-9][0-9]*\Z")
_DESCRIPTOR_ENDINGS = (".yaml", ".yml", ".json")


def read_resource(sources: Sources, path: str) -> tuple[Document, Resource]:
    """The Resource whose descriptor or Markdown file lies at `path`, and that file's document.

    Raises the `frontmatter-…` and `resource-…` errors, `parse-failed` and `schema-invalid`. A content file that
    is missing is noted, not raised.
    """
    return _descriptor(sources, path) if path.lower().endswith(_DESCRIPTOR_ENDINGS) else _markdown(sources, path)


def check_materializer(sources: Sources, resource: Resource, action: Action, named_in: Document) -> None:
    """Note what keeps the Action from being the Resource's materializer: effect, runner, contract."""
    if action.effect != "read":
        message = f"the materializer {action.path} has effect {action.effect}; read is expected"
        sources.note(named_in.fault("materializer-effect-invalid", "/materializer", message))
    if action.runner not in resource.protocol.runners:
        expected = " or ".join(resource.protocol.runners)
        message = f"the materializer {action.path} has runner {action.runner}; {expected} is expected"
        hint = f"name an Action whose runner is {expected}"
        sources.note(named_in.fault("materializer-runner-invalid", "/materializer", message, hint=hint))
    elif resource.protocol.contract:
        with sources.collecting():
            _check_contract(sources, resource, action, named_in)


def _descriptor(sources: Sources, path: str) -> tuple[Document, Resource]:
    document = sources.document(path)
    schema = document.value.get("schema") if isinstance(document.value, dict) else None
    if not isinstance(schema, str) or not schema.startswith(DESCRIPTOR_PREFIX):
        raise BundlerError(
            "frontmatter-missing",
            f"`{path}` is no Resource: its `schema` is no descriptor protocol, and it has no front matter",
            path=path,
            hint=f"give it a `schema`, one of: {', '.join(PROTOCOLS)}",
        )
    protocol = PROTOCOLS.get(schema)
    if protocol is None:
        message = f"the descriptor protocol {schema} is not supported"
        raise document.fault("resource-protocol-unsupported", "/schema", message, hint=conversion(schema))
    sources.check(document, "resource")
    resource = Resource.from_descriptor(path, document.value, protocol)
    if resource.content is not None:
        sources.require(resource.content, document, "/path")
    return document, resource


def _markdown(sources: Sources, path: str) -> tuple[Document, Resource]:
    document = sources.front_matter(path)
    value: dict[str, Any] = document.value
    media_key = "media-type" if "media-type" in value else "mediaType"
    media_type = value.get(media_key, DEFAULT_MEDIA_TYPE)
    for key, item in (("id", value.get("id")), ("kind", value.get("kind")), (media_key, media_type)):
        if not isinstance(item, str) or not item:
            found = f"is {describe(item)}" if key in value else "is missing"
            raise document.fault("resource-metadata-invalid", pointer_step(key), f"`{key}` {found}; a text is expected")
    if not is_id(value["id"]):
        message = f"`id` is {describe(value['id'])}; expected {SHAPES['id']}"
        raise document.fault("resource-metadata-invalid", "/id", message)
    if value["kind"] not in STATIC_KINDS:
        message = f"`kind` is {describe(value['kind'])}; expected one of: {', '.join(STATIC_KINDS)}"
        raise document.fault("resource-kind-invalid", "/kind", message)
    return document, Resource.from_front_matter(path, value, media_type)


def _check_contract(sources: Sources, resource: Resource, action: Action, named_in: Document) -> None:
    """A host Action's schemas: present, identified, self-contained; and the input satisfies its schema."""
    from ..protocol.foreign import compile_schema

    named = (("inputSchema", action.input_schema), ("outputSchema", action.output_schema))
    missing = [role for role, path in named if path is None]
    if missing:
        raise named_in.fault(
            "materializer-schema-missing",
            "/materializer",
            f"the materializer {action.path} lacks {' and '.join(missing)}",
        )
    documents = [sources.document(path) for _, path in named if path is not None]
    faults = [error for document in documents if (error := _identity_fault(document)) is not None]
    if faults:
        raise BundlerError.of(faults)
    compiled = [compile_schema(document) for document in documents]
    broken = compiled[0].faults(resource.input)
    if broken:
        raise BundlerError.of(
            [
                named_in.fault(
                    "resource-input-invalid",
                    "/input" + pointer,
                    f"the input breaks {action.input_schema}: `{'/input' + pointer}` {message} ({keyword})",
                )
                for keyword, pointer, message in broken
            ]
        )


def _identity_fault(document: Document) -> BundlerError | None:
    identity = document.value.get("$id") if isinstance(document.value, dict) else None
    if isinstance(identity, str) and _SCHEMA_IDENTITY.match(identity):
        return None
    found = "missing" if identity is None else describe(identity)
    message = f"`$id` is {found}; a versioned identity is expected, such as acme.request/v1"
    return document.fault("materializer-schema-identity-invalid", "/$id", message)
