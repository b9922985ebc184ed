"""Read receipts: what a conversation has read, as the next Route wants to know it (specification: "Resources")."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..protocol import schemas
from ..protocol.canonical import Json
from ..protocol.documents import Document
from .host_actions import HostActionResult
from .locations import FileLocation, GraphActionLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReceipt:
    """That the content with this digest was read: of a file, or of what was made for a Route with this revision."""

    id: str
    digest: str
    revision: str | None = None

    def to_json(self) -> dict[str, Json]:
        """A member of `receipts` in `agent-graph.resource-read-receipts.v1`."""
        revision = {} if self.revision is None else {"revision": self.revision}
        return {"id": self.id, "digest": self.digest, **revision}


def receipt_of(read: FileLocation | GraphActionLocation | HostActionResult) -> ReadReceipt:
    """The receipt that reading a file, what an Action made, or what the host made gives.

    Raises ValueError for what no Action has made yet: it has no content to read.
    """
    if isinstance(read, FileLocation):
        return ReadReceipt(id=read.id, digest=read.digest)
    if isinstance(read, HostActionResult):
        return ReadReceipt(id=read.id, digest=read.output_digest, revision=read.revision)
    if read.digest is None:
        raise ValueError(f"`{read.id}` was not materialized: there is nothing to read")
    return ReadReceipt(id=read.id, digest=read.digest, revision=read.revision)


def make_receipts(provider_id: str, receipts: Iterable[ReadReceipt]) -> dict[str, Json]:
    """`agent-graph.resource-read-receipts.v1` of one Provider; receipts that say the same are told once.

    Raises `schema-invalid` for what is no receipt of the protocol, such as a digest of another algorithm.
    """
    value: dict[str, Json] = {
        "schema": "agent-graph.resource-read-receipts.v1",
        "provider": provider_id,
        "receipts": [receipt.to_json() for receipt in dict.fromkeys(receipts)],
    }
    schemas.check(Document(path="the read receipts", value=value, finite=True, _places=dict), "resource-read-receipts")
    return value
