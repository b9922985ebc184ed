"""What a host makes for a Route: which input it was asked with, and whether its answer is one (protocol: "Route").

Nothing is executed here: the host calls its handler itself, and hands in what came of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import BundlerError
from ..protocol import schemas
from ..protocol.canonical import Json, digest
from ..protocol.documents import MAX_BYTES, Document, describe, parse
from .locations import HostActionLocation
from .state import check_json

if TYPE_CHECKING:
    from .provider import OpenedProvider

SCHEMA = "agent-graph.host-action-result.v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostActionResult:
    """A result that is valid for the location with `id` and `revision`. Only `validate_host_action_result` makes one.

    The output is `inline`, or where `resource_ref` is not None what that names. `output_digest` is that of either.
    """

    id: str
    revision: str
    handler: str
    input_digest: str
    output_schema: str
    output_digest: str
    inline: Json
    resource_ref: str | None
    adapter: str
    adapter_version: str

    def to_json(self) -> dict[str, Json]:
        """`agent-graph.host-action-result.v1`."""
        resource = {"ref": self.resource_ref, "digest": self.output_digest}
        output = {"inline": self.inline} if self.resource_ref is None else {"resource": resource}
        return {
            "schema": SCHEMA,
            "handler": self.handler,
            "input_digest": self.input_digest,
            "output": {"schema": self.output_schema, **output},
            "receipt": {"adapter": self.adapter, "adapter_version": self.adapter_version},
        }


def host_action_input_digest(location: HostActionLocation) -> str:
    """The digest of what a handler is asked: `{handler, input: {schema, value}}`, by which its result names the input."""
    asked = {"schema": location.input_schema, "value": location.input}
    return digest({"handler": location.handler, "input": asked})


def validate_host_action_result(
    location: HostActionLocation, result: Json, provider: OpenedProvider
) -> HostActionResult:
    """The result of a host's handler, which has to be one for this location of the Provider.

    Raises `host-action-result-invalid` with one diagnostic a fault, `json-invalid` for what JSON can't say,
    `resource-missing` and `schema-limit-exceeded`, and what reading the output schema raises.
    """
    check_json(result, "the result")
    faults = [*_shape_faults(result), *_answer_faults(location, result), *_output_faults(location, result, provider)]
    if faults:
        raise BundlerError.of(faults)
    output = result["output"]
    resource = output.get("resource")
    return HostActionResult(
        id=location.id,
        revision=location.revision,
        handler=location.handler,
        input_digest=result["input_digest"],
        output_schema=location.output_schema,
        output_digest=digest(output["inline"]) if resource is None else resource["digest"],
        inline=output.get("inline"),
        resource_ref=None if resource is None else resource["ref"],
        adapter=result["receipt"]["adapter"],
        adapter_version=result["receipt"]["adapter_version"],
    )


def _shape_faults(result: Json) -> Iterator[BundlerError]:
    """What the protocol's schema says."""
    try:
        schemas.check(Document(path="the result", value=result, finite=True, _places=dict), "host-action-result")
    except BundlerError as error:
        for fault in error.diagnostics:
            message = fault.message
            if fault.code == "schema.oneOf":
                if not isinstance(result["output"], dict):
                    continue  # which is told as its type
                given = [name for name in ("inline", "resource") if name in result["output"]]
                message = f"`/output` has {'both' if given else 'neither'} `inline` {'and' if given else 'nor'} `resource`; expected exactly one of them"
            yield _fault_at(fault.pointer or "", message)


def _answer_faults(location: HostActionLocation, result: Json) -> Iterator[BundlerError]:
    """Whether it answers what was asked."""
    output = _member(result, "output")
    for pointer, found, expected in (
        ("/handler", _member(result, "handler"), location.handler),
        ("/input_digest", _member(result, "input_digest"), host_action_input_digest(location)),
        ("/output/schema", _member(output, "schema"), location.output_schema),
    ):
        # An empty text, and what is none, is told as a fault of the shape.
        if isinstance(found, str) and found and found != expected:
            yield _fault_at(
                pointer, f"`{pointer}` is {describe(found)}; the location of `{location.id}` asks for {expected}"
            )


def _output_faults(location: HostActionLocation, result: Json, provider: OpenedProvider) -> Iterator[BundlerError]:
    """Whether the Provider has what the location says, and inline output satisfies its schema."""
    from ..protocol.foreign import compile_schema

    resource = provider.resource(location.id)
    action = provider.provider.actions.get(resource.materializer or "")
    if action is None or action.handler is None or action.output_schema is None:
        yield _fault_at("", f"`{resource.id}` is not made by a host in the Provider `{provider.provider.id}`")
        return
    path = action.output_schema
    document = parse(provider.tree.read(path, MAX_BYTES), path)
    if document.value["$id"] != location.output_schema:
        message = f"the location of `{resource.id}` asks for {location.output_schema}, the Provider has {document.value['$id']}: it is that of another version"
        yield _fault_at("/output/schema", message)
        return
    output = _member(result, "output")
    if not isinstance(output, dict) or "inline" not in output:
        return
    for keyword, pointer, message in compile_schema(document).faults(output["inline"]):
        place = "/output/inline" + pointer
        yield _fault_at(place, f"the output breaks {path}: `{place}` {message} ({keyword})")


def _member(value: Json, name: str) -> Json:
    return value.get(name) if isinstance(value, dict) else None


def _fault_at(pointer: str, message: str) -> BundlerError:
    return BundlerError("host-action-result-invalid", message, pointer=pointer)
