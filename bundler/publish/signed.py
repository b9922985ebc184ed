"""Signed documents in an index: read, and put in place by compare-and-swap."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from ..errors import BundlerError
from ..trust.documents import LATEST, MAX_SEQUENCE, PAYLOAD_TYPE, Document, read_document_envelope
from ..trust.envelope import Envelope
from ..trust.judge import check_document
from ..trust.policy import TrustPolicy
from ..trust.signing import Signer
from .index import FolderIndex

#: Days for which a document holds.
DAYS = 90
_MAX_DAYS = 3650
# How often a document is made again because the index changed meanwhile.
_TRIES = 100
_Document = TypeVar("_Document", bound=Document)


def change_document(
    index: FolderIndex,
    name: str,
    read: Callable[[Envelope], _Document],
    make: Callable[[_Document | None, int], _Document | None],
    *,
    signer: Signer,
    policy: TrustPolicy | None,
    who: str | None,
) -> _Document:
    """Put in place what `make` makes of the present document and the next sequence number, signed; what is there after it.

    `make` gives None to leave the present one. It is asked again where the index has changed meanwhile, so nothing is
    decided by what is not there any more; after an error the present document stays. `who` is the name in the journal,
    that of the key where none is given. Raises what `make` raises, `signature-invalid` for a present document that is
    none, with a policy what would keep the new one from counting, `key-unusable`, and what changing an index raises.
    """
    signed: Envelope | None = None
    for _ in range(_TRIES):
        head = index.head().digest
        data = index.document(name)
        envelope = None if data is None else read_document_envelope(data, name)
        present = None if envelope is None else read(envelope)
        document = make(present, _next(present))
        if document is None:
            if present is None:
                raise AssertionError("where nothing is, something is made")
            return present
        if signed is None or signed.payload != document.payload():
            signed = signer.sign(document.payload(), PAYLOAD_TYPE)
            if policy is not None:
                check_document(signed, document, policy)
        try:
            # As it will be read: nothing is put in place that nobody can use.
            again = read(read_document_envelope(signed.to_bytes(), name))
            index.put_document(name, signed.to_bytes(), who=who or signer.public.key_id, expect_head=head)
            return again
        except BundlerError as error:
            if error.code != "index-conflict":
                raise
    raise BundlerError("index-conflict", f"{index.root} changed each time that {name} was to be put in place")


def expiry(days: int) -> int:
    """The moment so many days from now, in whole seconds since 1970. Raises `option-invalid`."""
    if not 1 <= days <= _MAX_DAYS:
        raise BundlerError("option-invalid", f"{days} days are not from 1 to {_MAX_DAYS:,}")
    return min(int(time.time()) + days * 86_400, LATEST)


def _next(present: Document | None) -> int:
    sequence = 1 if present is None else present.sequence + 1
    if sequence > MAX_SEQUENCE:
        raise BundlerError("signature-invalid", f"{present.subject if present else ''} has the last sequence number")
    return sequence
