"""Verification records under a policy: they spare the cryptography, and never outlive what the verdict follows from."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from bundler.errors import BundlerError
from bundler.runtime.open import open_provider
from bundler.trust import judge as judging
from bundler.trust.policy import TrustPolicy

from ..installs import record_row
from ..signed import ENVELOPE, install, policy, public, seal, trusted, wheel, write_policy

REFERENCE = "provider:acme/demo"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return install(tmp_path / "site")


def opening(site: Path, rules: TrustPolicy | Path | None, **more: object) -> str:
    try:
        with open_provider(
            REFERENCE,
            path=[str(site)],
            policy=rules,
            records=site.parent / "records",
            **more,  # type: ignore[arg-type]
        ) as found:
            assert found.trust is not None
            return found.trust.state
    except BundlerError as error:
        return error.code


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was judged, and not remembered."""
    found: list[str] = []
    real = judging.judge

    def judge(contents: object, *arguments: object) -> object:
        found.append("judged")
        return real(contents, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(judging, "judge", judge)
    return found


def test_an_unchanged_start_verifies_no_signature(site: Path, judged: list[str]) -> None:
    rules = policy("release")
    assert [opening(site, rules) for _ in range(3)] == ["trusted"] * 3
    assert judged == ["judged"]
    with open_provider(REFERENCE, path=[str(site)], policy=rules, records=site.parent / "records") as found:
        assert found.trust is not None
        assert [each.key_id for each in found.trust.signers] == [public("release").key_id]
        assert found.trust.claimed == (public("release").key_id,)


def test_an_unchanged_start_loads_no_cryptography(site: Path) -> None:
    rules = write_policy(site.parent / "trust.toml", "release")
    code = (
        "import sys\nfrom bundler import open_provider\n"
        f"with open_provider({REFERENCE!r}, path=[{str(site)!r}], policy={str(rules)!r}, "
        f"records={str(site.parent / 'records')!r}) as found: assert found.trust.trusted\n"
        "print(*[name for name in ('cryptography', 'securesystemslib', 'yaml', 'jsonschema_rs') if name in sys.modules])"
    )
    answers = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        for _ in range(2)
    ]
    assert answers == ["cryptography securesystemslib yaml jsonschema_rs", ""]


CHANGES: dict[str, Callable[[TrustPolicy], TrustPolicy]] = {
    "no key": lambda rules: replace(rules, keys=()),
    "another key": lambda rules: policy("other"),
    "a refused key": lambda rules: replace(rules, refused_keys=frozenset({public("release").key_id})),
    "a refused release": lambda rules: replace(rules, refused_releases=frozenset({"acme/demo@0.1.0"})),
    "a refused bundle": lambda rules: replace(rules, refused_releases=frozenset({wheel().digest})),
    "a higher threshold": lambda rules: policy("release", "other", threshold=2),
    "a key that has ended": lambda rules: replace(rules, keys=(trusted("release", until=time.time() - 1),)),
    "a broken attestation": lambda rules: replace(rules, attestations={"x.dsse.json": b"{}"}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_policy_ends_a_record(site: Path, name: str) -> None:
    rules = policy("release")
    assert opening(site, rules) == "trusted"
    assert opening(site, CHANGES[name](rules)).startswith("signature-")
    assert opening(site, rules) == "trusted"


def test_a_record_without_a_policy_is_none_for_one(site: Path) -> None:
    assert opening(site, None) == "consistent"
    assert opening(site, policy("other")) == "signature-untrusted"
    assert opening(site, policy("release")) == "trusted"
    assert opening(site, None) == "consistent"
    assert opening(site, None, demand_policy=True) == "signature-verifier-failed"


def test_a_record_ends_with_the_key(site: Path, monkeypatch: pytest.MonkeyPatch, judged: list[str]) -> None:
    now = time.time()
    rules = replace(policy(), keys=(trusted("release", since=now - 100, until=now + 100),))
    moments = [now, now + 50, now - 99, now + 100, now + 1_000, now - 101, now + 99]
    answers = []
    for moment in moments:
        monkeypatch.setattr(time, "time", lambda moment=moment: moment)
        answers.append(opening(site, rules))
    assert answers == [
        *("trusted", "trusted", "trusted", "signature-expired", "signature-expired", "signature-expired", "trusted")
    ]
    assert len(judged) == 4


def test_attestations_are_bound(site: Path, tmp_path: Path, judged: list[str]) -> None:
    with open_provider(REFERENCE, path=[str(site)]) as found:
        assert found.contents is not None
        (tmp_path / "a.dsse.json").write_bytes(seal("second", found.contents))
    judged.clear()
    both = policy("release", "second", threshold=2)
    attestations = [tmp_path / "a.dsse.json"]
    assert [opening(site, both, attestations=attestations) for _ in range(2)] == ["trusted"] * 2
    assert judged == ["judged"]
    assert opening(site, both) == "signature-missing"
    (tmp_path / "a.dsse.json").write_bytes(b"{}")
    assert opening(site, both, attestations=attestations) == "signature-invalid"


def test_another_envelope_ends_a_record(site: Path) -> None:
    rules = policy("release", "other")
    assert opening(site, rules) == "trusted"
    with open_provider(REFERENCE, path=[str(site)]) as found:
        assert found.contents is not None
        (site / ENVELOPE).write_bytes(seal("thief", found.contents))
    record_row(site, ENVELOPE)
    assert opening(site, rules) == "signature-untrusted"


def test_an_executable_bit_ends_a_record(site: Path) -> None:
    rules = policy("release")
    assert opening(site, rules) == "trusted"
    (site / "agent_graph_providers/p_acme_demo/bundle/data.txt").chmod(0o755)
    assert opening(site, rules) == "signature-invalid"


def test_what_is_refused_is_never_recorded(site: Path) -> None:
    assert opening(site, policy("other")) == "signature-untrusted"
    assert list((site.parent / "records").iterdir()) == []


def test_a_forged_verdict_is_none_without_the_seal(site: Path, judged: list[str]) -> None:
    rules = policy("release")
    opening(site, rules)
    (record,) = (site.parent / "records").iterdir()
    seal_, text = record.read_bytes().split(b"\n", 1)
    value = json.loads(text)
    value["trust"]["reason"] = "forged"
    record.write_bytes(seal_ + b"\n" + json.dumps(value).encode())
    assert opening(site, rules) == "trusted"
    assert len(judged) == 2
    assert sha256(record.read_bytes().split(b"\n", 1)[1]).hexdigest().encode() == record.read_bytes()[:64]


def test_bundles_keep_their_verdict_too(site: Path, tmp_path: Path, judged: list[str]) -> None:
    import shutil

    bundle = tmp_path / "bundle"
    shutil.copytree(site / "agent_graph_providers/p_acme_demo/bundle", bundle)
    shutil.rmtree(bundle / "scripts/__pycache__")
    shutil.copy(site / ENVELOPE, f"{bundle}.dsse.json")
    states = []
    for _ in range(2):
        with open_provider(bundle, policy=policy("release"), records=tmp_path / "records") as found:
            assert found.trust is not None
            states.append(found.trust.state)
    assert (states, judged) == (["trusted", "trusted"], ["judged"])
    Path(f"{bundle}.dsse.json").unlink()
    with (
        pytest.raises(BundlerError) as raised,
        open_provider(bundle, policy=policy("release"), records=tmp_path / "records"),
    ):
        pass
    assert raised.value.code == "signature-missing"
