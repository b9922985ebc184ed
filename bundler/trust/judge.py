"""Contents, envelopes, policy → `Trust`: is this release one that the host believes in?

1. every envelope that came with the release, or that the policy holds for it, says exactly what was verified;
2. the release is not refused; 3. each signature: its key is known, may sign this Provider, is not refused, verifies over
the payload, and the host's clock lies in the key's time; 4. as many different keys as the policy asks for are left.

A signature that is wrong is refused in any case; one that does not count is passed over where enough others do. No
time in a statement is believed, and a key's id in an envelope is only where to look.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from ..errors import BundlerError
from ..paths import printable
from ..wheel.contents import Contents
from .envelope import Envelope, Signature, read_envelope
from .policy import Rule, TrustedKey, TrustPolicy
from .statement import check_statement, is_about, read_statement
from .verdict import Signer, Trust

#: What decides where several signatures do not count, each for its own reason.
_WORST_FIRST = ("signature-revoked", "signature-expired", "signature-untrusted")


def judge(
    contents: Contents, envelopes: Sequence[Envelope], policy: TrustPolicy | None, now: float | None = None
) -> Trust:
    """The verdict; `now` is the time in seconds since 1970 if it is not that of the clock.

    Raises `signature-invalid`, `signature-revoked`, `signature-expired`, `signature-untrusted`, `signature-missing`, and
    `signature-verifier-failed`.
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
    check_release(policy, contents.provider_id, contents.provider_version, contents.digest)
    # 3. each signature
    now = time.time() if now is None else now
    counted: dict[str, TrustedKey] = {}
    passed_over: list[BundlerError] = []
    for envelope in everything:
        for signature in envelope.signatures:
            why_not = _why_not(signature, envelope, policy, contents.provider_id, now)
            if why_not is None:
                counted[signature.key_id] = policy.keys_by_id[signature.key_id]
            else:
                passed_over.append(why_not)
    # 4. enough of them
    rule = policy.rule_for(contents.provider_id)
    if len(counted) >= rule.threshold:
        return Trust(
            state="trusted",
            signers=tuple(sorted((_signer(each) for each in counted.values()), key=lambda each: each.name)),
            claimed=claimed,
            since=max(each.not_before for each in counted.values()),
            until=min(each.not_after for each in counted.values()),
        )
    return _without(f"{contents.provider_id} {contents.provider_version}", rule, counted, passed_over)


def judge_provenance(
    envelope: Envelope, provider_id: str, policy: TrustPolicy | None, now: float | None = None
) -> tuple[Signer, ...]:
    """Who signed the provenance of a release of this Provider; nobody where no policy says whose signature counts.

    What it says is the signers' word. Raises the `signature-…` codes where none of the signatures counts.
    """
    if policy is None:
        return ()
    now = time.time() if now is None else now
    reasons = [(each, _why_not(each, envelope, policy, provider_id, now)) for each in envelope.signatures]
    counted = tuple(_signer(policy.keys_by_id[each.key_id]) for each, why_not in reasons if why_not is None)
    if not counted:
        raise BundlerError.of([why_not for _, why_not in reasons if why_not is not None])
    return counted


def judge_source(provider_id: str, version: str, policy: TrustPolicy) -> None:
    """Raises what keeps a source from being used, which nobody can have signed: `signature-missing`, `signature-revoked`."""
    check_release(policy, provider_id, version, None)
    _without(f"the source of {provider_id} {version}", policy.rule_for(provider_id), {}, [])


def check_signer(envelope: Envelope, contents: Contents, policy: TrustPolicy, now: float | None = None) -> None:
    """Raises what would keep the envelope's signatures from counting, whether or not they are enough."""
    check_release(policy, contents.provider_id, contents.provider_version, contents.digest)
    for signature in envelope.signatures:
        why_not = _why_not(signature, envelope, policy, contents.provider_id, time.time() if now is None else now)
        if why_not is not None:
            raise why_not


def check_release(policy: TrustPolicy, provider_id: str, version: str, digest: str | None) -> None:
    """Raises `signature-revoked` for a release that the policy refuses."""
    for name in (f"{provider_id}@{version}", digest):
        if name in policy.refused_releases:
            raise BundlerError("signature-revoked", f"the trust policy refuses the release {name}")


def _without(what: str, rule: Rule, counted: dict[str, TrustedKey], passed_over: list[BundlerError]) -> Trust:
    """The verdict where too few signatures count: absence may be allowed, what is there and does not suffice is not."""
    if not counted and not passed_over and not rule.required:
        return Trust(state="consistent", reason="it is not signed, which the policy allows")
    needed = "a signature" if rule.threshold == 1 else f"signatures of {rule.threshold} keys"
    if not passed_over:
        had = f"has {len(counted)}" if counted else "has none"
        raise BundlerError("signature-missing", f"{what} {had}; the trust policy asks for {needed}")
    raise BundlerError.of(sorted(passed_over, key=lambda error: _WORST_FIRST.index(error.code)))


def _why_not(
    signature: Signature, envelope: Envelope, policy: TrustPolicy, provider_id: str, now: float
) -> BundlerError | None:
    """Why a signature does not count; None where it does. Raises `signature-invalid` for a wrong one."""
    shown = printable(signature.key_id)
    if signature.key_id in policy.refused_keys:
        return BundlerError("signature-revoked", f"{envelope.name}: the trust policy refuses the key {shown}")
    key = policy.keys_by_id.get(signature.key_id)
    if key is None:
        return BundlerError("signature-untrusted", f"{envelope.name}: the trust policy does not have the key {shown}")
    if not key.covers(provider_id):
        return BundlerError(
            "signature-untrusted",
            f"{envelope.name}: the key `{key.name}` may not sign {provider_id}, only {', '.join(key.providers)}",
        )
    _verify(signature, envelope, key)
    if not key.not_before <= now < key.not_after:
        limit, what = (key.not_before, "is not valid before") if now < key.not_before else (key.not_after, "expired on")
        return BundlerError(
            "signature-expired", f"{envelope.name}: the key `{key.name}` {what} {_date(limit)}; it is {_date(now)} here"
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
    found = []
    for name, data in policy.attestations.items():
        envelope = read_envelope(data, name)
        if is_about(read_statement(envelope), contents):
            check_statement(envelope, contents)
            found.append(envelope)
    return found


def _signer(key: TrustedKey) -> Signer:
    return Signer(name=key.name, key_id=key.key.key_id)


def _date(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
