"""Contents, envelopes, policy → `Trust`: is this release one that the host believes in?

1. every envelope that came with the release, or that the policy holds for it, says exactly what was verified;
2. the release is neither refused nor revoked, and the list that tells counts; 3. each signature: its key is known, may
sign this Provider, is not refused, verifies over the payload, and the host's clock lies in the key's time; 4. as many
different keys as the policy asks for are left.

A signature that is wrong is refused in any case; one that does not count is passed over where enough others do. No
time in a statement is believed, and a key's id in an envelope is only where to look.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import BundlerError
from ..paths import printable
from ..wheel.contents import Contents
from .documents import Document, Revocations, show_time
from .envelope import Envelope, Signature
from .policy import Rule, TrustedKey, TrustPolicy
from .statement import check_statement, is_about
from .verdict import SignedBy, Trust

if TYPE_CHECKING:
    from .sequences import Sequences

#: What decides where several signatures do not count, each for its own reason.
_WORST_FIRST = ("signature-revoked", "signature-expired", "signature-untrusted")


def judge(
    contents: Contents, envelopes: Sequence[Envelope], policy: TrustPolicy | None, now: float | None = None
) -> Trust:
    """The verdict; `now` is the time in seconds since 1970 if it is not that of the clock.

    Raises `signature-invalid`, `signature-revoked`, `signature-expired`, `signature-untrusted`, `signature-missing`,
    `signature-verifier-failed`, and for a list of revocations `index-expired` and `index-rolled-back`.
    """
    # 1. what the envelopes say
    for envelope in envelopes:
        check_statement(envelope, contents)
    claimed = tuple(dict.fromkeys(each.key_id for envelope in envelopes for each in envelope.signatures))
    if policy is None:
        why = "no policy says whose signature counts" if claimed else "it is not signed, and no policy was given"
        return Trust(state="consistent", reason=why, claimed=claimed)
    everything = [*envelopes, *_detached(policy, contents)]
    # 2. the release
    now = time.time() if now is None else now
    since, until = check_release(policy, contents.provider_id, contents.provider_version, contents.digest, now)
    # 3. each signature
    counted, passed_over = _sorted(everything, policy, {contents.provider_id}, now)
    # 4. enough of them
    rule = policy.rule_for(contents.provider_id)
    if len(counted) >= rule.threshold:
        return Trust(
            state="trusted",
            signers=tuple(sorted((_signer(each) for each in counted.values()), key=lambda each: each.name)),
            claimed=claimed,
            since=max(since, *(each.not_before for each in counted.values())),
            until=min(until, *(each.not_after for each in counted.values())),
        )
    trust = _without(f"{contents.provider_id} {contents.provider_version}", rule, counted, passed_over)
    return replace(trust, since=since, until=until)


def judge_provenance(
    envelope: Envelope, provider_id: str, policy: TrustPolicy | None, now: float | None = None
) -> tuple[SignedBy, ...]:
    """Who signed the provenance of a release of this Provider; nobody where no policy says whose signature counts.

    What it says is the signers' word. Raises the `signature-…` codes where none of the signatures counts.
    """
    if policy is None:
        return ()
    now = time.time() if now is None else now
    counted, passed_over = _sorted([envelope], policy, {provider_id}, now)
    if not counted:
        raise BundlerError.of(passed_over)
    return tuple(map(_signer, counted.values()))


def judge_source(provider_id: str, version: str, policy: TrustPolicy) -> None:
    """Raises what keeps a source from being used, which nobody can have signed: `signature-missing`, `signature-revoked`."""
    check_release(policy, provider_id, version, None)
    _without(f"the source of {provider_id} {version}", policy.rule_for(provider_id), {}, [])


def check_document(
    envelope: Envelope, document: Document, policy: TrustPolicy, now: float | None = None
) -> tuple[TrustedKey, ...]:
    """The keys whose signatures count for a document, at least one; whether it is the latest one is not looked at.

    A key counts for the purposes and Providers that the policy gives it: of a list of revocations, for all in it.
    Raises `signature-invalid`, `signature-revoked`, `signature-expired`, `signature-untrusted` and
    `signature-verifier-failed`.
    """
    now = time.time() if now is None else now
    counted, passed_over = _sorted([envelope], policy, document.provider_ids, now, purpose=document.PURPOSE)
    if not counted:
        raise _worst(passed_over)
    return tuple(counted.values())


def check_latest(document: Document, name: str, sequences: Sequences | None, now: float | None = None) -> None:
    """Note a document whose signatures count as seen, and raise `index-rolled-back` or `index-expired` for an old one."""
    if sequences is not None:
        sequences.keep(document)
    now = time.time() if now is None else now
    if not now < document.expires:
        message = f"{name}: {document.subject} expired on {show_time(document.expires)}; it is {show_time(now)} here"
        raise BundlerError("index-expired", message, path=name)


def check_signer(envelope: Envelope, contents: Contents, policy: TrustPolicy, now: float | None = None) -> None:
    """Raises what would keep the envelope's signatures from counting, whether or not they are enough."""
    now = time.time() if now is None else now
    check_release(policy, contents.provider_id, contents.provider_version, contents.digest, now)
    for signature in envelope.signatures:
        why_not = _why_not(signature, envelope, policy, {contents.provider_id}, now)
        if why_not is not None:
            raise why_not


def check_release(
    policy: TrustPolicy, provider_id: str, version: str, digest: str | None, now: float | None = None
) -> tuple[float, float]:
    """From and until when it is known that nobody refuses a release.

    Raises `signature-revoked` for one that the policy refuses or its list of revocations has, and what keeps that
    list from being believed.
    """
    for name in (f"{provider_id}@{version}", digest):
        if name in policy.refused_releases:
            raise BundlerError("signature-revoked", f"the trust policy refuses the release {name}")
    if policy.revocations is None or policy.revoked is None:
        return -math.inf, math.inf
    keys = check_document(policy.revocations, policy.revoked, policy, now)
    check_latest(policy.revoked, policy.revocations.name, policy.sequences, now)
    check_not_revoked(policy.revoked, policy.revocations.name, provider_id, version, digest)
    until = min(policy.revoked.expires, *(each.not_after for each in keys))
    return max(each.not_before for each in keys), until


def check_not_revoked(
    listed: Revocations, name: str, provider_id: str, version: str, digest: str | None = None
) -> None:
    """Raises `signature-revoked` for a release that the list, from a file of this name, has."""
    found = listed.find(provider_id, version, digest)
    if found is not None:
        raise BundlerError("signature-revoked", f"{name}: {found.release} is revoked: {found.reason}", path=name)


def _without(what: str, rule: Rule, counted: dict[str, TrustedKey], passed_over: list[BundlerError]) -> Trust:
    """The verdict where too few signatures count: absence may be allowed, what is there and does not suffice is not."""
    if not counted and not passed_over and not rule.required:
        return Trust(state="consistent", reason="it is not signed, which the policy allows")
    needed = "a signature" if rule.threshold == 1 else f"signatures of {rule.threshold} keys"
    if not passed_over:
        had = f"has {len(counted)}" if counted else "has none"
        raise BundlerError("signature-missing", f"{what} {had}; the trust policy asks for {needed}")
    raise _worst(passed_over)


def _worst(passed_over: list[BundlerError]) -> BundlerError:
    return BundlerError.of(sorted(passed_over, key=lambda error: _WORST_FIRST.index(error.code)))


def _sorted(
    envelopes: Sequence[Envelope],
    policy: TrustPolicy,
    provider_ids: Collection[str],
    now: float,
    *,
    purpose: str = "release",
) -> tuple[dict[str, TrustedKey], list[BundlerError]]:
    """The keys whose signatures count, by id, and why the other signatures do not. Raises `signature-invalid`."""
    counted: dict[str, TrustedKey] = {}
    passed_over: list[BundlerError] = []
    for envelope in envelopes:
        for signature in envelope.signatures:
            why_not = _why_not(signature, envelope, policy, provider_ids, now, purpose=purpose)
            if why_not is None:
                counted[signature.key_id] = policy.keys_by_id[signature.key_id]
            else:
                passed_over.append(why_not)
    return counted, passed_over


def _why_not(
    signature: Signature,
    envelope: Envelope,
    policy: TrustPolicy,
    provider_ids: Collection[str],
    now: float,
    *,
    purpose: str = "release",
) -> BundlerError | None:
    """Why a signature does not count; None where it does. Raises `signature-invalid` for a wrong one."""
    shown = printable(signature.key_id)
    if signature.key_id in policy.refused_keys:
        return BundlerError("signature-revoked", f"{envelope.name}: the trust policy refuses the key {shown}")
    key = policy.keys_by_id.get(signature.key_id)
    if key is None:
        return BundlerError("signature-untrusted", f"{envelope.name}: the trust policy does not have the key {shown}")
    foreign = sorted(each for each in provider_ids if not key.covers(each))
    if purpose not in key.purposes or foreign:
        what, only = (foreign[0], key.providers) if foreign else (f"for the purpose {purpose}", key.purposes)
        return BundlerError(
            "signature-untrusted",
            f"{envelope.name}: the key `{key.name}` may not sign {what}, only {', '.join(only)}",
        )
    _verify(signature, envelope, key)
    if not key.not_before <= now < key.not_after:
        limit, what = (key.not_before, "is not valid before") if now < key.not_before else (key.not_after, "expired on")
        return BundlerError(
            "signature-expired",
            f"{envelope.name}: the key `{key.name}` {what} {show_time(limit)}; it is {show_time(now)} here",
        )
    return None


def _verify(signature: Signature, envelope: Envelope, key: TrustedKey) -> None:
    """Raises `signature-invalid`, or `signature-verifier-failed` where it can't be told."""
    try:
        from securesystemslib.exceptions import UnverifiedSignatureError, VerificationError
        from securesystemslib.signer import Signature as LibrarySignature

        try:
            key.key.loaded().verify_signature(LibrarySignature(key.key.key_id, signature.value.hex()), envelope.signed)
        except (BundlerError, VerificationError) as error:
            raise _failed(key, str(error)) from None
        except UnverifiedSignatureError:
            raise BundlerError(
                "signature-invalid",
                f"{envelope.name}: the signature is not the one that the key `{key.name}` makes of this statement",
                path=envelope.name,
            ) from None
    except ImportError as error:
        raise _failed(key, f"a library is missing: {error}") from None


def _failed(key: TrustedKey, why: str) -> BundlerError:
    return BundlerError("signature-verifier-failed", f"signatures of the key `{key.name}` can't be verified: {why}")


def _detached(policy: TrustPolicy, contents: Contents) -> list[Envelope]:
    """The policy's attestations of this release. Raises `signature-invalid` where one can't be read, whatever it is of."""
    found = [envelope for envelope, statement in policy.attested if is_about(statement, contents)]
    for envelope in found:
        check_statement(envelope, contents)
    return found


def _signer(key: TrustedKey) -> SignedBy:
    return SignedBy(name=key.name, key_id=key.key.key_id)
