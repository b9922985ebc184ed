"""Signed documents: read in the one form in which they are written, and counted by what a key is trusted for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bundler.errors import BundlerError
from bundler.protocol.canonical import canonical
from bundler.trust.documents import (
    MAX_SEQUENCE,
    PAYLOAD_TYPE,
    Document,
    read_channel,
    read_document_envelope,
    read_revocations,
)
from bundler.trust.envelope import Envelope, read_envelope, signed_bytes
from bundler.trust.judge import check_document, check_latest, judge
from bundler.trust.policy import PURPOSES, TrustedKey, read_policy

from ..signed import NOW, attest, trusted
from .documents import CHANNEL, ENTRY, LIST, policy_for, sealed, write_policy
from .test_judge import CONTENTS

READ: dict[str, Callable[[Envelope], Document]] = {"channel": read_channel, "revocation": read_revocations}


def code_of(work: Callable[[], object]) -> str:
    try:
        work()
    except BundlerError as error:
        return error.code
    return ""


@pytest.mark.parametrize("document", [CHANNEL, LIST, replace(LIST, revoked=(replace(ENTRY, digest=None),))])
def test_what_is_written_is_read(document: Document) -> None:
    data = sealed(document).to_bytes()
    assert READ[document.PURPOSE](read_document_envelope(data, "x")) == document
    assert json.loads(document.payload())["schema"] == document.SCHEMA


def test_a_document_is_no_statement_and_a_statement_no_document() -> None:
    """Not even its signature is one: the type is signed too."""
    for data, other in (
        (sealed(CHANNEL).to_bytes(), "application/vnd.in-toto+json"),
        (attest("release", CONTENTS).to_bytes(), PAYLOAD_TYPE),
    ):
        with pytest.raises(BundlerError, match="payload of the type") as raised:
            read_envelope(data, "x", other)
        assert raised.value.code == "signature-invalid"
    payload = CHANNEL.payload()
    assert signed_bytes(payload, PAYLOAD_TYPE) != signed_bytes(payload)
    relabelled = replace(sealed(CHANNEL), payload_type="application/vnd.in-toto+json")
    assert code_of(lambda: check_document(relabelled, CHANNEL, policy_for(), NOW)) == "signature-invalid"
    assert code_of(lambda: read_revocations(sealed(CHANNEL))) == "signature-invalid"
    assert code_of(lambda: read_channel(sealed(LIST))) == "signature-invalid"


def changed(document: Document, path: str, value: Any) -> bytes:
    """The payload with another value at a place."""
    found = json.loads(document.payload())
    at = found
    *steps, last = path.split(".")
    for step in steps:
        at = at[int(step)] if isinstance(at, list) else at[step]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return canonical(found).encode()


WRONG: list[tuple[Document, str, Any]] = [
    *((CHANNEL, "sequence", value) for value in (0, -1, True, 1.5, "1", None, MAX_SEQUENCE + 1, ...)),
    *((CHANNEL, "expires", value) for value in ("2027-01-01", "2027-1-1T00:00:00Z", "2027-01-01T00:00:00+00:00")),
    *((CHANNEL, "expires", value) for value in (1, None, "2027-02-30T00:00:00Z", "0001-01-01T00:00:00Z", ...)),
    *((CHANNEL, "provider", value) for value in ("A", "", "acme/", 1, ...)),
    *((CHANNEL, "channel", value) for value in ("Stable", "../x", "", "x" * 33, "stable\n")),
    *((CHANNEL, "release", value) for value in ([], "x", None, ...)),
    *((CHANNEL, "release.version", value) for value in ("", "1 0", "1\n")),
    *((CHANNEL, "release.digest", value) for value in ("1" * 64, "sha256:" + "A" * 64, None, ...)),
    *((CHANNEL, "release.distribution", value) for value in ("a b", "-r x", "A", "a--b", "a==1")),
    *((CHANNEL, "release.pythonVersion", value) for value in ("1 --x", "1;", "")),
    *((CHANNEL, "release.hashes", value) for value in (["1"], "1" * 64, [None], {})),
    *((CHANNEL, place, 1) for place in ("more", "release.more")),
    *((LIST, "revoked", value) for value in ({}, "x", [1], [{}], ...)),
    *((LIST, "revoked.0.reason", value) for value in ("", "x" * 501, "two\nlines", "\x1b[2J", 1, ...)),
    *((LIST, "revoked.0.digest", value) for value in ("x", ...)),
    *((LIST, "revoked.0.provider", value) for value in ("", "a@b")),
    *((LIST, place, 1) for place in ("more", "revoked.0.more")),
]


@pytest.mark.parametrize(("document", "path", "value"), WRONG)
def test_what_is_no_document(document: Document, path: str, value: Any) -> None:
    envelope = replace(sealed(document), payload=changed(document, path, value))
    with pytest.raises(BundlerError) as raised:
        READ[document.PURPOSE](envelope)
    assert raised.value.code == "signature-invalid"
    assert "the document" in raised.value.message


@pytest.mark.parametrize(
    "payload",
    [b"", b"[]", b"{", b"\xff", json.dumps(json.loads(CHANNEL.payload())).encode(), CHANNEL.payload() + b"\n"],
)
def test_one_spelling(payload: bytes) -> None:
    assert code_of(lambda: read_channel(replace(sealed(CHANNEL), payload=payload))) == "signature-invalid"


@pytest.mark.parametrize("document", [CHANNEL, LIST])
@pytest.mark.parametrize("key", [*PURPOSES, "stranger"])
def test_a_key_counts_for_what_it_is_trusted_for(document: Document, key: str) -> None:
    expected = "" if key == document.PURPOSE else "signature-untrusted"
    assert code_of(lambda: check_document(sealed(document, key), document, policy_for(), NOW)) == expected


def test_only_a_key_for_releases_counts_for_releases() -> None:
    assert judge(CONTENTS, [attest("release", CONTENTS)], policy_for(), NOW).trusted
    for key in ("channel", "revocation"):
        assert code_of(lambda key=key: judge(CONTENTS, [attest(key, CONTENTS)], policy_for(), NOW)) == (
            "signature-untrusted"
        )


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (trusted("channel", providers="other/*"), "signature-untrusted"),
        (trusted("channel", until=NOW), "signature-expired"),
        (trusted("channel", since=NOW + 1), "signature-expired"),
        (trusted("channel"), ""),
    ],
)
def test_a_key_counts_within_its_bounds(key: TrustedKey, code: str) -> None:
    rules = replace(policy_for(), keys=(replace(key, purposes=("release", "channel")),))
    assert code_of(lambda: check_document(sealed(CHANNEL), CHANNEL, rules, NOW)) == code
    refused = replace(rules, refused_keys=frozenset({key.key.key_id}))
    assert code_of(lambda: check_document(sealed(CHANNEL), CHANNEL, refused, NOW)) == "signature-revoked"


def test_one_signature_that_counts_is_enough_and_a_wrong_one_too_much() -> None:
    good, stranger = sealed(CHANNEL), sealed(CHANNEL, "stranger")
    both = replace(good, signatures=(*stranger.signatures, *good.signatures))
    assert [each.name for each in check_document(both, CHANNEL, policy_for(), NOW)] == ["channel"]
    wrong = replace(good, signatures=(replace(good.signatures[0], value=b"\0" * 64), *stranger.signatures))
    assert code_of(lambda: check_document(wrong, CHANNEL, policy_for(), NOW)) == "signature-invalid"


def test_expiry() -> None:
    check_latest(CHANNEL, "x", None, CHANNEL.expires - 1)
    with pytest.raises(BundlerError, match="expired on 2026-06-02T00:00:00Z") as raised:
        check_latest(CHANNEL, "x", None, CHANNEL.expires)
    assert raised.value.code == "index-expired"


def test_purposes_in_a_file(tmp_path: Path) -> None:
    path = write_policy(tmp_path / "trust.toml")
    assert {each.name: each.purposes for each in read_policy(path).keys} == {each: (each,) for each in PURPOSES}
    text = path.read_text()
    path.write_text(text.replace('purposes = ["release"]\n', ""))
    assert read_policy(path).digest == policy_for().digest
    path.write_text(text.replace('purposes = ["channel"]', 'purposes = ["channel", "release"]'))
    assert read_policy(path).digest != policy_for().digest
    for wrong in ("[]", '"channel"', '["channels"]', "[1]"):
        path.write_text(text.replace('["channel"]', wrong))
        assert code_of(lambda: read_policy(path)) == "signature-verifier-failed"
