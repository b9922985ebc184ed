"""Secrets of the environment are in no output that is kept, however it comes."""

from __future__ import annotations

import hashlib
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundler.publish.scrub import TAIL, Recorder, Scrubber, without_secrets

KEY = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49\n-----END PRIVATE KEY-----\n"
ENVIRONMENT = {
    "TWINE_PASSWORD": "pypi-AgEIcHlw",
    "GITHUB_TOKEN": "ghp_16C7",
    "my_secret": "s3cr3t/ä?x",
    "SIGNING_PASSPHRASE": "correct horse",
    "SIGNING_KEY": KEY,
    "LONGER_TOKEN": "ghp_16C7e42F",
    "INDEX": "https://user:hunter2@index.example/simple",
    "SHORT_TOKEN": "on",
    "EMPTY_TOKEN": "",
    "PWD": "/home/me/source",
    "LANG": "C.UTF-8",
}
SECRETS = [
    *("pypi-AgEIcHlw", "ghp_16C7", "s3cr3t/ä?x", "correct horse", "MIGHAgEAMBMGByqGSM49", "hunter2"),
    *(quote("s3cr3t/ä?x", safe=""), quote("correct horse", safe=""), "ghp_16C7e42F"),
]
SCRUBBER = Scrubber(ENVIRONMENT, {"/tmp/work": "{work}", "/tmp/work/bundle": "{bundle}"})


def record(*parts: bytes) -> tuple[str, str, int]:
    recorder = Recorder(SCRUBBER)
    for part in parts:
        recorder.receive(part)
    said = recorder.finish()
    return said.tail, said.digest, said.size


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_in_no_text(secret: str) -> None:
    assert SCRUBBER.text(f"a {secret} b") == "a *** b"
    assert record(f"a {secret} b".encode())[0] == "a *** b"


@given(st.lists(st.sampled_from([*SECRETS, " ", "gh", "ghp_", "x\n"])), st.lists(st.integers(0, 200)))
def test_a_secret_is_in_no_output_whatever_its_parts(texts: list[str], cuts: list[int]) -> None:
    data = " ".join(texts).encode()
    places = sorted({min(cut, len(data)) for cut in cuts})
    parts = [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]
    tail, digest, size = record(*parts)
    assert not any(secret in tail for secret in SECRETS)
    assert (tail, digest, size) == record(data)
    assert tail == SCRUBBER.text(data.decode())
    assert digest == f"sha256:{hashlib.sha256(tail.encode()).hexdigest()}"
    assert size == len(tail.encode())


def test_what_is_no_secret_stays() -> None:
    text = "on index.example /home/me/source C.UTF-8 user"
    assert SCRUBBER.text(text) == text


def test_places_have_names() -> None:
    assert SCRUBBER.text("/tmp/work/x /tmp/work/bundle/y") == "{work}/x {bundle}/y"


def test_the_digest_is_of_all_and_the_tail_is_bounded() -> None:
    data = b"x" * 1000 + b"\n"
    tail, digest, size = record(*[data] * 100)
    assert digest == f"sha256:{hashlib.sha256(data * 100).hexdigest()}"
    assert (size, len(tail)) == (100_100, TAIL)


def test_bytes_that_are_no_text() -> None:
    assert record(b"\xff\x00 pypi-AgEIcHlw \xc3")[0] == "\ufffd\x00 *** \ufffd"
    assert SCRUBBER.text("\udcff") == "\\xff"


def test_nothing_to_scrub() -> None:
    recorder = Recorder(Scrubber({}, {}))
    recorder.say("a", "b")
    assert recorder.finish().tail == "a\nb\n"


def test_an_environment_without_secrets() -> None:
    assert without_secrets(ENVIRONMENT).keys() == {"INDEX", "PWD", "LANG"}
