"""Revocation: releases that are not to be used any more, in one signed list of the index, for ever."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import BundlerError
from ..trust.documents import Revocations, Revoked, is_reason, is_version, read_document_envelope, read_revocations
from ..trust.envelope import Envelope
from ..trust.judge import check_document
from ..trust.policy import TrustPolicy
from ..trust.signing import Signer
from .fetch import document_name, fetch_document
from .index import FolderIndex
from .published import find_published, split_reference
from .signed import DAYS, change_document, expiry

#: The name of the list's document.
PLACE = "revocations.dsse.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The list as it is now, and the entry that was asked for; `changed` is False where it was there already."""

    revocations: Revocations
    entry: Revoked
    changed: bool


def revoke(
    index: FolderIndex,
    reference: str,
    *,
    reason: str,
    signer: Signer,
    days: int = DAYS,
    policy: TrustPolicy | None = None,
    distribution: str | None = None,
    who: str | None = None,
) -> Listed:
    """Add the release `ID@VERSION` to the index's list, whatever points to it; nothing takes it from there again.

    Its bundle is named too where the index has a wheel of it that can be read (`entry.digest` is None where not). Raises
    `option-invalid`, with a policy what keeps the list, present and new, from counting, and what `change_document` raises.
    After an error the list is as it was.
    """
    provider_id, version = split_reference(reference, "ID@VERSION")
    if not is_version(version):
        raise BundlerError("option-invalid", f"{version!r} is no version of a Provider")
    if not is_reason(reason):
        raise BundlerError("option-invalid", "the reason has to be one line of 1 to 500 characters")
    try:
        digest = find_published(index, reference, distribution).digest
    except BundlerError:  # whatever is wrong with the wheel: it is no reason not to revoke it
        digest = None
    entry = Revoked(provider_id=provider_id, version=version, digest=digest, reason=reason)
    changed = False

    def make(present: Revocations | None, sequence: int) -> Revocations | None:
        nonlocal entry, changed
        there = present.revoked if present is not None else ()
        same = [each for each in there if each.release == entry.release and digest in (None, each.digest)]
        changed = not same
        if same:
            entry = same[0]
            return None
        return Revocations(sequence=sequence, expires=expires, revoked=(*there, entry))

    expires = expiry(days)
    made = change_document(index, PLACE, _reader(policy), make, signer=signer, policy=policy, who=who)
    return Listed(revocations=made, entry=entry, changed=changed)


def renew(
    index: FolderIndex, *, signer: Signer, days: int = DAYS, policy: TrustPolicy | None = None, who: str | None = None
) -> Revocations:
    """Sign the list anew as it is, to hold for `days`; an empty one where there is none. Raises what `revoke` raises.

    Hosts that have the list refuse everything once it has expired.
    """
    expires = expiry(days)

    def make(present: Revocations | None, sequence: int) -> Revocations:
        return Revocations(sequence=sequence, expires=expires, revoked=present.revoked if present is not None else ())

    return change_document(index, PLACE, _reader(policy), make, signer=signer, policy=policy, who=who)


def read_list(index: str | os.PathLike[str]) -> tuple[Revocations, str] | None:
    """The list of an index, unverified, and what messages call it; None where there is none.

    Raises `signature-invalid`, and what `fetch_document` raises.
    """
    data = fetch_document(index, PLACE)
    if data is None:
        return None
    name = document_name(index, PLACE)
    return read_revocations(read_document_envelope(data, name)), name


def _reader(policy: TrustPolicy | None) -> Callable[[Envelope], Revocations]:
    """Reads the list, and raises where somebody else than the policy's keys signed it: what it says is signed anew.

    A key that is not valid any more, or refused, does not count for hosts; its list has to be replaced all the same.
    """

    def read(envelope: Envelope) -> Revocations:
        found = read_revocations(envelope)
        if policy is not None:
            try:
                check_document(envelope, found, policy)
            except BundlerError as error:
                if error.code not in ("signature-expired", "signature-revoked"):
                    raise
        return found

    return read
