"""The verdict: which signatures count, and what becomes of those that do not."""

from __future__ import annotations

import base64
import json
import math
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bundler.errors import BundlerError
from bundler.trust.envelope import Envelope, Signature
from bundler.trust.judge import check_signer, judge, judge_source
from bundler.trust.keys import parse_public_key
from bundler.trust.policy import Rule, TrustedKey, TrustPolicy
from bundler.wheel.contents import Contents, Distribution

from ..signed import NOW, attest, policy, public, trusted

CONTENTS = Contents(
    provider_id="acme/demo",
    provider_version="1.0.0",
    digest="sha256:" + "1" * 64,
    manifest_digest="sha256:" + "2" * 64,
    executable=frozenset({"run.sh"}),
    distribution=Distribution(name="acme-demo", version="1.0.0", files={"METADATA": "sha256:" + "3" * 64}),
)
ABSENT, GOOD, BAD = "absent", "good", "bad"
MISSING, INVALID, UNTRUSTED = "signature-missing", "signature-invalid", "signature-untrusted"
EXPIRED, REVOKED = "signature-expired", "signature-revoked"


def broken(envelope: Envelope) -> Envelope:
    """The same statement under a signature with one bit changed."""
    (first,) = envelope.signatures
    value = bytes([first.value[0] ^ 1, *first.value[1:]])
    return replace(envelope, signatures=(replace(first, value=value),))


def outcome(envelopes: list[Envelope], rules: TrustPolicy | None, now: float = NOW) -> str:
    try:
        return judge(CONTENTS, envelopes, rules, now).state
    except BundlerError as error:
        return error.code


# fmt: off
#: envelope, key known, required, threshold, expired, release or key revoked → what the host may do.
#: A signature of one key is there, or none; the policy is there in all of these.
TABLE = [
    # envelope known  required threshold expired revoked     answer
    (ABSENT, True,  True,  1, False, "",        MISSING),
    (ABSENT, True,  True,  2, False, "",        MISSING),
    (ABSENT, True,  False, 1, False, "",        "consistent"),
    (ABSENT, True,  False, 2, False, "",        "consistent"),
    (ABSENT, False, True,  1, False, "",        MISSING),
    (ABSENT, False, True,  2, False, "",        MISSING),
    (ABSENT, False, False, 1, False, "",        "consistent"),
    (ABSENT, False, False, 2, False, "",        "consistent"),
    (ABSENT, True,  True,  1, True,  "",        MISSING),
    (ABSENT, True,  False, 1, True,  "",        "consistent"),
    (ABSENT, True,  True,  1, False, "key",     MISSING),
    (ABSENT, True,  False, 1, False, "key",     "consistent"),
    (ABSENT, True,  True,  1, False, "release", REVOKED),
    (ABSENT, True,  False, 1, False, "release", REVOKED),
    (ABSENT, False, True,  1, False, "release", REVOKED),
    (ABSENT, False, False, 1, False, "release", REVOKED),
    (GOOD,   True,  True,  1, False, "",        "trusted"),
    (GOOD,   True,  False, 1, False, "",        "trusted"),
    (GOOD,   True,  True,  2, False, "",        MISSING),
    (GOOD,   True,  False, 2, False, "",        MISSING),
    (GOOD,   False, True,  1, False, "",        UNTRUSTED),
    (GOOD,   False, False, 1, False, "",        UNTRUSTED),
    (GOOD,   False, True,  2, False, "",        UNTRUSTED),
    (GOOD,   False, False, 2, False, "",        UNTRUSTED),
    (GOOD,   True,  True,  1, True,  "",        EXPIRED),
    (GOOD,   True,  False, 1, True,  "",        EXPIRED),
    (GOOD,   True,  True,  2, True,  "",        EXPIRED),
    (GOOD,   True,  False, 2, True,  "",        EXPIRED),
    (GOOD,   False, True,  1, True,  "",        UNTRUSTED),
    (GOOD,   False, False, 1, True,  "",        UNTRUSTED),
    (GOOD,   True,  True,  1, False, "key",     REVOKED),
    (GOOD,   True,  False, 1, False, "key",     REVOKED),
    (GOOD,   True,  True,  2, False, "key",     REVOKED),
    (GOOD,   True,  True,  1, True,  "key",     REVOKED),
    (GOOD,   False, True,  1, False, "key",     REVOKED),
    (GOOD,   False, False, 1, False, "key",     REVOKED),
    (GOOD,   True,  True,  1, False, "release", REVOKED),
    (GOOD,   True,  False, 1, False, "release", REVOKED),
    (GOOD,   True,  True,  2, False, "release", REVOKED),
    (GOOD,   True,  True,  1, True,  "release", REVOKED),
    (GOOD,   False, True,  1, False, "release", REVOKED),
    (BAD,    True,  True,  1, False, "",        INVALID),
    (BAD,    True,  False, 1, False, "",        INVALID),
    (BAD,    True,  True,  2, False, "",        INVALID),
    (BAD,    True,  False, 2, False, "",        INVALID),
    (BAD,    True,  True,  1, True,  "",        INVALID),
    (BAD,    True,  False, 1, True,  "",        INVALID),
    (BAD,    False, True,  1, False, "",        UNTRUSTED),
    (BAD,    False, False, 1, False, "",        UNTRUSTED),
    (BAD,    True,  True,  1, False, "key",     REVOKED),
    (BAD,    True,  False, 1, False, "key",     REVOKED),
    (BAD,    True,  True,  1, False, "release", REVOKED),
    (BAD,    True,  False, 1, False, "release", REVOKED),
]
# fmt: on


@pytest.mark.parametrize(("envelope", "known", "required", "threshold", "expired", "revoked", "answer"), TABLE)
def test_the_truth_table(  # noqa: PLR0917 - its columns
    envelope: str, known: bool, required: bool, threshold: int, expired: bool, revoked: str, answer: str
) -> None:
    key = trusted("one" if known else "other", until=NOW - 1 if expired else math.inf)
    rules = TrustPolicy(
        keys=(key, trusted("unused")),
        default=Rule(required=required, threshold=threshold),
        refused_keys=frozenset({public("one").key_id} if revoked == "key" else ()),
        refused_releases=frozenset({"acme/demo@1.0.0"} if revoked == "release" else ()),
    )
    signed = attest("one", CONTENTS)
    found = {ABSENT: [], GOOD: [signed], BAD: [broken(signed)]}[envelope]
    assert outcome(found, rules) == answer


@pytest.mark.parametrize(("envelope", "answer"), [(ABSENT, "consistent"), (GOOD, "consistent"), (BAD, "consistent")])
def test_without_a_policy_nobody_is_believed(envelope: str, answer: str) -> None:
    signed = attest("one", CONTENTS)
    assert outcome({ABSENT: [], GOOD: [signed], BAD: [broken(signed)]}[envelope], None) == answer


def test_the_table_is_whole() -> None:
    """Each cell stands there once."""
    assert len({row[:-1] for row in TABLE}) == len(TABLE)
    assert {row[0] for row in TABLE} == {ABSENT, GOOD, BAD}
    for envelope in (ABSENT, GOOD, BAD):
        plain = {row[1:4] for row in TABLE if row[0] == envelope and row[4:6] == (False, "")}
        assert len(plain) >= 6


def test_what_a_verdict_says() -> None:
    rules = replace(
        policy(), keys=(trusted("two", since=5, until=NOW + 10), trusted("one", since=10, until=NOW + 20)),
        default=Rule(threshold=2),
    )  # fmt: skip
    trust = judge(CONTENTS, [attest("one", CONTENTS), attest("two", CONTENTS)], rules, NOW)
    assert [each.name for each in trust.signers] == ["one", "two"]
    assert (trust.since, trust.until, trust.trusted) == (10, NOW + 10, True)
    assert str(trust) == f"trusted: signed by one ({public('one').key_id}), two ({public('two').key_id})"
    assert str(judge(CONTENTS, [], None)) == "consistent, not trusted (it is not signed, and no policy was given)"
    claimed = judge(CONTENTS, [attest("one", CONTENTS)], None)
    assert (claimed.claimed, claimed.trusted) == ((public("one").key_id,), False)


def test_inner_and_detached_count_together_and_a_key_once() -> None:
    one, two = attest("one", CONTENTS), attest("two", CONTENTS)
    rules = policy("one", "two", threshold=2)
    assert outcome([one, two], rules) == "trusted"
    assert outcome([one, one], rules) == MISSING
    assert outcome([replace(one, signatures=(*one.signatures, *two.signatures))], rules) == "trusted"
    held = replace(rules, attestations={"two.dsse.json": two.to_bytes()})
    assert outcome([one], held) == "trusted"
    assert outcome([], held) == MISSING
    twice = replace(rules, attestations={"a.dsse.json": one.to_bytes(), "b.dsse.json": one.to_bytes()})
    assert outcome([one], twice) == MISSING


def test_a_signature_that_does_not_count_is_passed_over_where_enough_others_do() -> None:
    one, two = attest("one", CONTENTS), attest("two", CONTENTS)
    assert outcome([one, two], policy("two")) == "trusted"
    rotated = replace(policy(), keys=(trusted("one", until=NOW - 1), trusted("two")))
    assert outcome([one, two], rotated) == "trusted"
    assert (
        outcome([one, two], replace(policy("one", "two"), refused_keys=frozenset({public("one").key_id}))) == "trusted"
    )
    assert outcome([broken(one), two], policy("one", "two")) == INVALID


def test_the_worst_reason_is_told_first() -> None:
    envelopes = [attest(name, CONTENTS) for name in ("one", "two", "three")]
    rules = replace(policy(), keys=(trusted("two", until=NOW - 1),), refused_keys=frozenset({public("three").key_id}))
    with pytest.raises(BundlerError) as raised:
        judge(CONTENTS, envelopes, rules, NOW)
    assert [each.code for each in raised.value.diagnostics] == [REVOKED, EXPIRED, UNTRUSTED]


def test_time_is_the_hosts() -> None:
    signed = attest("one", CONTENTS)
    rules = replace(policy(), keys=(trusted("one", since=NOW, until=NOW + 100),))
    answers = {moment: outcome([signed], rules, moment) for moment in (NOW - 0.5, NOW, NOW + 99.9, NOW + 100)}
    assert list(answers.values()) == [EXPIRED, "trusted", "trusted", EXPIRED]
    with pytest.raises(BundlerError, match="is not valid before 2026-06-01T00:00:00Z"):
        judge(CONTENTS, [signed], rules, NOW - 1)


def test_a_key_signs_what_it_may() -> None:
    signed = attest("one", CONTENTS)
    for globs, answer in (
        ("acme/demo", "trusted"),
        ("acme/*", "trusted"),
        ("**", "trusted"),
        ("*/demo", "trusted"),
        ("*", UNTRUSTED),
        ("acme", UNTRUSTED),
        ("acme/dem", UNTRUSTED),
        ("acme/demo/*", UNTRUSTED),
        ("acm./demo", UNTRUSTED),
    ):
        assert outcome([signed], replace(policy(), keys=(trusted("one", providers=globs),))) == answer, globs


def test_the_first_rule_that_matches_holds() -> None:
    rules = replace(
        policy("one"),
        rules=(Rule(ids=("acme/d*",), required=False), Rule(ids=("acme/*",), threshold=2)),
    )
    assert outcome([], rules) == "consistent"
    assert outcome([], replace(rules, rules=rules.rules[::-1])) == MISSING


@pytest.mark.parametrize("release", ["acme/demo@1.0.0", "sha256:" + "1" * 64])
def test_a_refused_release(release: str) -> None:
    rules = replace(policy("one"), refused_releases=frozenset({release}))
    assert outcome([attest("one", CONTENTS)], rules) == REVOKED
    other = replace(CONTENTS, provider_version="1.0.1", digest="sha256:" + "4" * 64)
    assert judge(other, [attest("one", other)], rules, NOW).trusted


CHANGES: dict[str, Callable[[Contents], Contents]] = {
    "id": lambda it: replace(it, provider_id="acme/other"),
    "version": lambda it: replace(it, provider_version="1.0.1"),
    "bundle": lambda it: replace(it, digest="sha256:" + "9" * 64),
    "manifest": lambda it: replace(it, manifest_digest="sha256:" + "9" * 64),
    "bit set": lambda it: replace(it, executable=frozenset({"run.sh", "x"})),
    "bit cleared": lambda it: replace(it, executable=frozenset()),
    "distribution": lambda it: replace(it, distribution=replace(it.distribution, name="x")),  # type: ignore[type-var]
    "its version": lambda it: replace(it, distribution=replace(it.distribution, version="2")),  # type: ignore[type-var]
    "a file": lambda it: replace(it, distribution=replace(it.distribution, files={})),  # type: ignore[type-var]
    "no distribution signed": lambda it: replace(it, distribution=None),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("rules", [None, policy("one"), policy("one", required=False)], ids=["none", "required", "opt"])
def test_a_statement_about_something_else(change: str, rules: TrustPolicy | None) -> None:
    assert outcome([attest("one", CHANGES[change](CONTENTS))], rules) == INVALID


def test_a_bundle_is_covered_by_the_attestation_of_its_wheel() -> None:
    bundle = replace(CONTENTS, distribution=None)
    assert judge(bundle, [attest("one", CONTENTS)], policy("one"), NOW).trusted


def test_the_attestation_of_a_bundle_alone_is_none_of_its_wheel() -> None:
    alone = attest("one", replace(CONTENTS, distribution=None))
    held = replace(policy("one"), attestations={"x.dsse.json": alone.to_bytes()})
    assert outcome([], held) == MISSING
    assert outcome([attest("one", CONTENTS)], held) == "trusted"
    assert judge(replace(CONTENTS, distribution=None), [], held, NOW).trusted


def test_the_policys_attestations_of_other_releases_are_passed_over() -> None:
    other = attest("one", replace(CONTENTS, manifest_digest="sha256:" + "8" * 64))
    rules = replace(policy("one"), attestations={"x.dsse.json": other.to_bytes()})
    assert outcome([], rules) == MISSING
    lies = attest("one", replace(CONTENTS, provider_version="9.9.9"))
    assert outcome([], replace(rules, attestations={"x.dsse.json": lies.to_bytes()})) == INVALID
    for data in (b"", b"{}", b"\xff"):
        assert outcome([attest("one", CONTENTS)], replace(rules, attestations={"x.dsse.json": data})) == INVALID


def test_a_source_is_never_signed() -> None:
    with pytest.raises(BundlerError, match="asks for a signature") as raised:
        judge_source("acme/demo", "1.0.0", policy("one"))
    assert raised.value.code == MISSING
    judge_source("acme/demo", "1.0.0", policy("one", required=False))
    refused = replace(policy(required=False), refused_releases=frozenset({"acme/demo@1.0.0"}))
    with pytest.raises(BundlerError) as raised:
        judge_source("acme/demo", "1.0.0", refused)
    assert raised.value.code == REVOKED


def test_a_signer_whom_the_policy_would_not_count() -> None:
    signed = attest("one", CONTENTS)
    check_signer(signed, CONTENTS, policy("one", threshold=2), NOW)
    for rules, code in (
        (policy("two"), UNTRUSTED),
        (replace(policy("one"), refused_releases=frozenset({"acme/demo@1.0.0"})), REVOKED),
        (replace(policy(), keys=(trusted("one", until=NOW),)), EXPIRED),
    ):
        with pytest.raises(BundlerError) as raised:
            check_signer(signed, CONTENTS, rules, NOW)
        assert raised.value.code == code


def test_a_key_that_no_library_can_use() -> None:
    der = base64.b64encode(b"\x30\x03\x02\x01\x00").decode()
    key = parse_public_key(f"-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n", "x")
    signed = attest("one", CONTENTS)
    forged = replace(signed, signatures=(Signature(key_id=key.key_id, value=b"x"),))
    rules = TrustPolicy(keys=(TrustedKey(name="odd", key=key, providers=("**",)),))
    assert outcome([forged], rules) == "signature-verifier-failed"


@pytest.mark.parametrize(("kind", "scheme"), [("rsa", None), ("rsa", "rsa-pkcs1v15-sha256"), ("ec", None)])
def test_keys_of_other_types_verify(kind: str, scheme: str | None, tmp_path: Path) -> None:
    """As those of key services: what openssl signs over the same bytes counts."""
    private, pub = tmp_path / "key", tmp_path / "pub"
    make = ["-algorithm", "RSA"] if kind == "rsa" else ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
    subprocess.run(["openssl", "genpkey", *make, "-out", str(private)], check=True, capture_output=True)
    subprocess.run(["openssl", "pkey", "-in", str(private), "-pubout", "-out", str(pub)], check=True)
    key = parse_public_key(pub.read_text(), "pub", scheme)
    signed = attest("one", CONTENTS)
    (tmp_path / "data").write_bytes(signed.signed)
    pss = ["-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:32"] if kind == "rsa" and not scheme else []
    done = subprocess.run(
        ["openssl", "dgst", "-sha256", "-sign", str(private), *pss, str(tmp_path / "data")],
        check=True,
        capture_output=True,
    )
    other = replace(signed, signatures=(Signature(key_id=key.key_id, value=done.stdout),))
    rules = TrustPolicy(keys=(TrustedKey(name="service", key=key, providers=("**",)),))
    assert outcome([other], rules) == "trusted"
    assert outcome([broken(other)], rules) == INVALID


def test_the_same_key_and_content_give_the_same_bytes() -> None:
    assert attest("one", CONTENTS).to_bytes() == attest("one", CONTENTS).to_bytes()
    assert json.loads(attest("one", CONTENTS).payload)["subject"][0]["name"] == "manifest.json"
