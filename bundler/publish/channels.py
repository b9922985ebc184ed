"""Channels: named pointers to releases (`acme/release@stable`), each a signed document of the index."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..errors import BundlerError
from ..trust.documents import Channel, is_channel, read_channel, read_document_envelope
from ..trust.judge import check_document, check_latest, check_not_revoked, check_release
from ..trust.policy import TrustPolicy
from ..trust.sequences import Sequences
from ..trust.signing import Signer
from ..trust.verdict import SignedBy, Trust
from ..wheel.naming import slug
from .fetch import document_name, fetch_document
from .index import FolderIndex
from .index.layout import DOCUMENTS
from .index.storage import files_below
from .published import Published, find_published, split_reference
from .revoke import read_list
from .signed import DAYS, change_document, expiry

FOLDER, SUFFIX = "channels", ".dsse.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promoted:
    """A channel as it is now; `changed` is False where it pointed there already."""

    channel: Channel
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A channel as an index had it, and what a host may believe of it."""

    channel: Channel
    trust: Trust


def promote(
    index: FolderIndex,
    reference: str,
    *,
    channel: str,
    signer: Signer,
    expect: str | None = None,
    days: int = DAYS,
    policy: TrustPolicy | None = None,
    distribution: str | None = None,
    who: str | None = None,
) -> Promoted:
    """Point a channel of a Provider to a release in the index: `ID@VERSION`, or `ID@sha256:…` with its bundle's digest.

    `expect` is the version or bundle digest to which the channel has to point now; None for a channel that is new. One
    that points to the release already is left, unless that is expected: then it is signed anew, to hold for `days`.
    Raises `channel-moved` where it points elsewhere, `option-invalid`, `signature-revoked` for a release that is revoked,
    and what `find_published` and `change_document` raise. After an error the channel is as it was.
    """
    _check_channel(channel)
    release = find_published(index, reference, distribution)
    if policy is not None:
        check_release(policy, release.provider_id, release.version, release.digest)
    changed = False

    def make(present: Channel | None, sequence: int) -> Channel | None:
        nonlocal changed
        changed = False
        _check_listed(index.root, release.provider_id, release.version, release.digest)
        if not _is_expected(present, expect):
            if present is not None and (present.version, present.digest) == (release.version, release.digest):
                return None
            found = "does not exist" if present is None else f"points to {present.version} ({present.digest})"
            wanted = "a new channel" if expect is None else expect
            message = f"the channel {release.provider_id}@{channel} of {index.root} {found}; {wanted} is expected"
            raise BundlerError("channel-moved", message, path=index.root)
        changed = True
        return _channel(release, channel, sequence, expires)

    expires = expiry(days)
    name = place_of(release.provider_id, channel)
    made = change_document(index, name, read_channel, make, signer=signer, policy=policy, who=who)
    return Promoted(channel=made, changed=changed)


def resolve(
    reference: str,
    index: str | os.PathLike[str],
    *,
    policy: TrustPolicy | None = None,
    sequences: Sequences | None = None,
) -> Resolved:
    """What `ID@CHANNEL` means in the index in a folder, at a `file://` URL, or at one of a web server.

    Its `channel.requirement` is the line for pip. With a policy a key that it trusts for channels of this Provider has
    to have signed it, and `sequences`, those of the policy where none are given, keep an older one from coming back.
    Without a policy it is consistent, not trusted. Raises `option-invalid`, `channel-missing`, `index-expired`,
    `index-rolled-back`, the `signature-…` codes, also for a release that the index's list or the policy's revokes, and
    what `fetch_document` raises.
    """
    provider_id, channel = split_reference(reference, "ID@CHANNEL")
    _check_channel(channel)
    place = place_of(provider_id, channel)
    name = document_name(index, place)
    data = fetch_document(index, place)
    if data is None:
        raise BundlerError("channel-missing", f"there is no {name}", path=name)
    envelope = read_document_envelope(data, name)
    found = read_channel(envelope)
    if (found.provider_id, found.channel) != (provider_id, channel):
        message = f"{name} is the channel {found.provider_id}@{found.channel}; {reference} is expected"
        raise BundlerError("signature-invalid", message, path=name)
    claimed = tuple(each.key_id for each in envelope.signatures)
    trust = Trust(state="consistent", reason="no policy says whose signature counts", claimed=claimed)
    if policy is not None:
        keys = check_document(envelope, found, policy)
        signers = tuple(SignedBy(name=each.name, key_id=each.key.key_id) for each in keys)
        trust = Trust(state="trusted", signers=signers, claimed=claimed, until=found.expires)
        check_latest(found, name, sequences or policy.sequences)
        check_release(policy, found.provider_id, found.version, found.digest)
    else:
        # An unsigned number is compared and not noted: anybody could have written it.
        if sequences is not None:
            sequences.is_new(found)
        check_latest(found, name, None)
    _check_listed(index, found.provider_id, found.version, found.digest)
    return Resolved(channel=found, trust=trust)


def list_channels(index: FolderIndex) -> list[Channel]:
    """The channels of an index, sorted by Provider and name, unverified.

    Raises `signature-invalid` for one that is none, and what reading an index raises.
    """
    found = []
    for path, _ in files_below(index.root, f"{DOCUMENTS}/{FOLDER}"):
        name = path.removeprefix(f"{DOCUMENTS}/")
        data = index.document(name)
        if data is not None:
            found.append(read_channel(read_document_envelope(data, name)))
    return sorted(found, key=lambda each: (each.provider_id, each.channel))


def place_of(provider_id: str, channel: str) -> str:
    """The name of a channel's document."""
    return f"{FOLDER}/{slug(provider_id)}/{channel}{SUFFIX}"


def _channel(release: Published, channel: str, sequence: int, expires: int) -> Channel:
    return Channel(
        sequence=sequence,
        expires=expires,
        provider_id=release.provider_id,
        channel=channel,
        version=release.version,
        digest=release.digest,
        distribution=release.distribution,
        python_version=release.python_version,
        hashes=(release.hash,),
    )


def _is_expected(present: Channel | None, expect: str | None) -> bool:
    if present is None or expect is None:
        return present is None and expect is None
    return expect in (present.version, present.digest)


def _check_listed(index: str | os.PathLike[str], provider_id: str, version: str, digest: str) -> None:
    """Raises `signature-revoked` for what the index's own list has, whoever signed that: it only ever takes away."""
    found = read_list(index)
    if found is not None:
        check_not_revoked(*found, provider_id, version, digest)


def _check_channel(channel: str) -> None:
    if not is_channel(channel):
        message = f"{channel!r} is no name of a channel"
        raise BundlerError(
            "option-invalid", message, hint="use up to 32 lower-case letters, digits and -, such as stable"
        )
