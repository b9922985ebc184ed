"""A host with a list of revocations: what is on it is refused from that moment, whatever was verified before."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from bundler.errors import BundlerError
from bundler.runtime.open import open_provider
from bundler.trust.documents import Revocations, Revoked
from bundler.trust.judge import check_signer, judge, judge_source
from bundler.trust.policy import read_policy
from bundler.trust.sequences import Sequences

from ..signed import NOW, attest, install, trusted
from .documents import ENTRY, LATER, LIST, policy_for, sealed, write_policy
from .test_documents import code_of
from .test_judge import CONTENTS

FRESH = int(time.time()) + 86_400
OTHER = Revoked(provider_id="acme/other", version="9.0.0", digest=None, reason="it is broken")
MORE = 'revocations = "list.dsse.json"\nrevocations-state = "state"'


class Host:
    """A host with an installed Provider, a policy with a list, and a folder of records."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o755)
        self.folder, self.list = folder, folder / "list.dsse.json"
        self.site = install(folder / "site")
        self.policy = write_policy(folder / "trust.toml", MORE)
        self.publish(1, OTHER)

    def publish(self, sequence: int, *revoked: Revoked, key: str = "revocation", expires: int = FRESH) -> bytes:
        document = Revocations(sequence=sequence, expires=expires, revoked=revoked)
        data = sealed(document, key).to_bytes()
        self.list.write_bytes(data)
        return data

    def verdict(self, records: bool = True) -> str:
        try:
            with open_provider(
                "provider:acme/demo",
                path=[str(self.site)],
                policy=self.policy,
                records=self.folder / "records" if records else None,
            ) as opened:
                assert opened.trust is not None
                return opened.trust.state
        except BundlerError as error:
            return error.code

    def digest(self) -> str:
        with open_provider("provider:acme/demo", path=[str(self.site)]) as opened:
            assert opened.digest is not None
            return opened.digest


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.parametrize("by", ["name", "bundle"])
def test_what_is_revoked_is_refused_though_a_record_vouches_for_it(host: Host, by: str) -> None:
    assert host.verdict() == "trusted"
    assert len(list((host.folder / "records").iterdir())) == 1
    entry = ENTRY if by == "name" else replace(OTHER, digest=host.digest())
    host.publish(2, OTHER, entry)
    assert host.verdict() == host.verdict(records=False) == "signature-revoked"


def test_a_list_that_was_rolled_back_refuses_though_a_record_of_its_time_is_there(host: Host) -> None:
    first = host.publish(1, OTHER)
    assert host.verdict() == "trusted"
    host.publish(2, OTHER, ENTRY)
    assert host.verdict() == "signature-revoked"
    host.list.write_bytes(first)
    assert host.verdict() == host.verdict(records=False) == "index-rolled-back"
    host.publish(2, OTHER)
    assert host.verdict() == host.verdict(records=False) == "index-rolled-back"
    host.publish(3, OTHER)
    assert host.verdict() == host.verdict() == "trusted"


def test_an_expired_list_refuses_a_recorded_start(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    assert host.verdict() == "trusted"
    monkeypatch.setattr(time, "time", lambda: FRESH - 1.0)
    assert host.verdict() == "trusted"
    monkeypatch.setattr(time, "time", lambda: float(FRESH))
    assert host.verdict() == host.verdict(records=False) == "index-expired"


def test_what_is_no_list_refuses_everything(host: Host) -> None:
    assert host.verdict() == "trusted"
    whole = host.list.read_bytes()

    for harm, code in (
        (lambda: host.publish(2, key="release"), "signature-untrusted"),
        (lambda: host.publish(2, key="stranger"), "signature-untrusted"),
        (lambda: host.publish(2, Revoked(provider_id="foreign/x", version="1", digest=None, reason="x")), "signature-untrusted"),
        (lambda: host.publish(2, expires=int(time.time()) - 1), "index-expired"),
        (lambda: host.list.write_bytes(whole[:-20]), "signature-verifier-failed"),
        (lambda: host.list.write_bytes(b""), "signature-verifier-failed"),
        (lambda: host.list.write_bytes(attest("revocation", CONTENTS).to_bytes()), "signature-verifier-failed"),
        (host.list.unlink, "signature-verifier-failed"),
        (host.list.mkdir, "signature-verifier-failed"),
        (lambda: (host.list.rmdir(), os.mkfifo(host.list)), "signature-verifier-failed"),
    ):  # fmt: skip
        harm()
        assert host.verdict() == host.verdict(records=False) == code


def test_an_unsigned_number_is_not_noted(host: Host) -> None:
    host.publish(1000, key="stranger")
    assert host.verdict() == "signature-untrusted"
    host.publish(2, OTHER)
    assert host.verdict() == "trusted"


def test_what_was_seen_cannot_be_told(host: Host) -> None:
    assert host.verdict() == "trusted"
    (state,) = (host.folder / "state").iterdir()
    state.write_bytes(state.read_bytes()[:10])
    assert host.verdict() == host.verdict(records=False) == "signature-verifier-failed"


def test_a_policy_names_both_or_none(host: Host) -> None:
    for more in MORE.splitlines():
        write_policy(host.policy, more)
        with pytest.raises(BundlerError, match="missing") as raised:
            read_policy(host.policy)
        assert raised.value.code == "signature-verifier-failed"
    write_policy(host.policy, MORE)
    (host.folder / "state").mkdir()
    (host.folder / "state").chmod(0o777)
    assert code_of(lambda: read_policy(host.policy)) == "signature-verifier-failed"


def test_objects(tmp_path: Path) -> None:
    empty = replace(LIST, revoked=())
    signed = attest("release", CONTENTS)
    rules = policy_for(revocations=sealed(empty), sequences=Sequences(tmp_path / "state"))
    assert rules.digest != policy_for().digest
    assert rules.digest != replace(rules, revocations=sealed(replace(empty, sequence=4))).digest
    trust = judge(CONTENTS, [signed], rules, NOW)
    assert (trust.state, trust.until) == ("trusted", LATER)
    assert code_of(lambda: judge(CONTENTS, [signed], rules, LATER)) == "index-expired"
    older = replace(rules, revocations=sealed(replace(empty, sequence=2)))
    assert code_of(lambda: judge(CONTENTS, [signed], older, NOW)) == "index-rolled-back"
    assert code_of(older.check_sequence) == "index-rolled-back"
    by_digest = replace(OTHER, digest=CONTENTS.digest)
    for entry in (replace(ENTRY, version="1.0.0"), by_digest):
        listed = replace(rules, revocations=sealed(replace(LIST, revoked=(entry,), sequence=4)), sequences=None)
        assert code_of(lambda listed=listed: judge(CONTENTS, [signed], listed, NOW)) == "signature-revoked"
        assert code_of(lambda listed=listed: check_signer(signed, CONTENTS, listed, NOW)) == "signature-revoked"


def test_the_time_in_which_a_verdict_holds_is_also_that_of_the_lists_key() -> None:
    keys = tuple(
        replace(trusted(name, since=since, until=until), purposes=(name,))
        for name, since, until in (("release", 5, NOW + 30), ("revocation", 7, NOW + 20))
    )
    rules = replace(policy_for(revocations=sealed(replace(LIST, revoked=()))), keys=keys)
    trust = judge(CONTENTS, [attest("release", CONTENTS)], rules, NOW)
    assert (trust.since, trust.until) == (7, NOW + 20)
    optional = replace(rules, default=replace(rules.default, required=False))
    trust = judge(CONTENTS, [], optional, NOW)
    assert (trust.state, trust.since, trust.until) == ("consistent", 7, NOW + 20)


def test_a_source_is_held_to_the_list() -> None:
    fresh = replace(LIST, expires=FRESH)
    rules = replace(policy_for(revocations=sealed(fresh)), default=replace(policy_for().default, required=False))
    judge_source("acme/demo", "0.2.0", rules)
    assert code_of(lambda: judge_source("acme/demo", "0.1.0", rules)) == "signature-revoked"
