"""Envelopes and statements: one reading of each, and nothing that could be read in two ways."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundler.errors import BundlerError
from bundler.trust.envelope import (
    MAX_SIGNATURES,
    Envelope,
    Signature,
    read_envelope,
    signed_bytes,
)
from bundler.trust.statement import check_statement, read_statement, statement_of
from bundler.wheel.contents import Contents

CONTENTS = Contents(
    provider_id="acme/demo",
    provider_version="1.0.0",
    digest="sha256:" + "1" * 64,
    manifest_digest="sha256:" + "2" * 64,
    executable=frozenset({"b", "a"}),
)
ENVELOPE = Envelope(
    name="x", payload=statement_of(CONTENTS), signatures=(Signature(key_id="sha256:1", value=b"\xff\xfe\xfd"),)
)


def value() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ENVELOPE.to_bytes())
    return found


def refused(data: bytes | dict[str, Any]) -> str:
    with pytest.raises(BundlerError) as raised:
        read_envelope(data if isinstance(data, bytes) else json.dumps(data).encode(), "the file")
    assert raised.value.code == "signature-invalid"
    assert "the file" in raised.value.message
    return raised.value.message


def test_it_is_read_as_it_was_written() -> None:
    assert read_envelope(ENVELOPE.to_bytes(), "x") == ENVELOPE
    assert ENVELOPE.to_bytes().count(b"\n") == 1
    check_statement(ENVELOPE, CONTENTS)


@given(
    payload=st.binary(min_size=1, max_size=200),
    values=st.lists(st.binary(min_size=1, max_size=80), min_size=1, max_size=4),
)
def test_any_payload(payload: bytes, values: list[bytes]) -> None:
    signatures = tuple(Signature(key_id=f"k{number}", value=each) for number, each in enumerate(values))
    envelope = Envelope(name="x", payload=payload, signatures=signatures)
    assert read_envelope(envelope.to_bytes(), "x") == envelope
    assert envelope.signed.startswith(b"DSSEv1 28 application/vnd.in-toto+json ")
    assert envelope.signed.endswith(payload)


def test_what_is_signed_is_of_one_type_and_length() -> None:
    assert signed_bytes(b"ab") == b"DSSEv1 28 application/vnd.in-toto+json 2 ab"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"{}",
        b"[]",
        b"null",
        b'{"payload": 1}',
        b'{"payload":"YQ==","payload":"YQ==","payloadType":"application/vnd.in-toto+json","signatures":[]}',
        b"[" * 100_000,
        b"\x00" * 100,
    ],
)
def test_what_is_no_envelope(data: bytes) -> None:
    refused(data)


CHANGES: dict[str, tuple[str, Any]] = {
    "a key more": ("more", 1),
    "another type": ("payloadType", "application/vnd.dsse+json"),
    "no text as payload": ("payload", 1),
    "an empty payload": ("payload", ""),
    "no base64": ("payload", "a b="),
    "loose base64": ("payload", "YR=="),
    "unpadded base64": ("payload", "YQ"),
    "no signature": ("signatures", []),
    "no list": ("signatures", {}),
    "too many": ("signatures", [{"keyid": "k", "sig": "YQ=="}] * (MAX_SIGNATURES + 1)),
    "a signature without a key": ("signatures", [{"sig": "YQ=="}]),
    "a signature that says more": ("signatures", [{"keyid": "k", "sig": "YQ==", "cert": "x"}]),
    "a nameless key": ("signatures", [{"keyid": "", "sig": "YQ=="}]),
    "a long name": ("signatures", [{"keyid": "k" * 201, "sig": "YQ=="}]),
    "a long signature": ("signatures", [{"keyid": "k", "sig": "YQ==" * 5_000}]),
    "an empty signature": ("signatures", [{"keyid": "k", "sig": ""}]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_refused(name: str) -> None:
    key, found = CHANGES[name]
    refused({**value(), key: found})


def test_both_alphabets_of_base64_are_read() -> None:
    standard = value()
    assert standard["signatures"][0]["sig"] == "//79"
    standard["signatures"][0]["sig"] = "__79"
    assert read_envelope(json.dumps(standard).encode(), "x") == ENVELOPE


@pytest.mark.parametrize(
    "payload", [b"x", b"[]", b'{"_type": "https://in-toto.io/Statement/v0.1"}', b'{"a": 1, "a": 2}']
)
def test_what_is_no_statement(payload: bytes) -> None:
    envelope = Envelope(name="the file", payload=payload, signatures=ENVELOPE.signatures)
    with pytest.raises(BundlerError) as raised:
        read_statement(envelope)
    assert raised.value.code == "signature-invalid"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"predicateType": "https://slsa.dev/provenance/v1"}, "https://slsa.dev/provenance/v1"),
        ({"more": 1}, "more is 1 in the statement, here it is not given"),
        ({"subject": []}, "subject is [] in the statement"),
        ({"predicate": None}, "predicate is not given in the statement"),
        ({"predicate": "x" * 1_000}, "…"),
    ],
)
def test_a_statement_that_says_something_else(change: dict[str, Any], told: str) -> None:
    payload = json.dumps({**json.loads(ENVELOPE.payload), **change}).encode()
    with pytest.raises(BundlerError) as raised:
        check_statement(Envelope(name="f", payload=payload, signatures=ENVELOPE.signatures), CONTENTS)
    assert raised.value.code == "signature-invalid"
    assert told in raised.value.message


def test_many_differences_are_counted() -> None:
    found = json.loads(ENVELOPE.payload)
    found["predicate"] |= {f"k{number}": number for number in range(100)}
    with pytest.raises(BundlerError, match="and 80 more"):
        check_statement(
            Envelope(name="f", payload=json.dumps(found).encode(), signatures=ENVELOPE.signatures), CONTENTS
        )


def test_the_statement_is_canonical() -> None:
    assert json.loads(statement_of(CONTENTS))["predicate"]["executable"] == ["a", "b"]
    assert b" " not in statement_of(CONTENTS)
    assert base64.b64decode(value()["payload"]) == statement_of(CONTENTS)
