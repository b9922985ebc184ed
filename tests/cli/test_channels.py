"""`promote`, `channels`, `resolve` and `revoke`, as their users meet them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bundler.publish.index import FolderIndex

from ..publish.index.releases import make_index
from ..signed import key_file, public, wheel
from ..trust.documents import write_policy
from .run import Result, agent_bundler, in_process

ID = "acme/demo"


@pytest.fixture
def index(tmp_path: Path) -> FolderIndex:
    return make_index(tmp_path / "index", Path(wheel("demo").path), Path(wheel("newer").path))


def promote(index: FolderIndex, version: str, *more: str, key: str = "channel") -> Result:
    line = ["promote", f"{ID}@{version}", "--channel", "stable", "--index", index.root, "--key", str(key_file(key))]
    return agent_bundler(*line, *more)


def revoke(index: FolderIndex, *more: str, key: str = "revocation") -> Result:
    return agent_bundler("revoke", "--index", index.root, "--key", str(key_file(key)), *more)


def answer(result: Result) -> dict[str, Any]:
    assert result.status == 0, result.err
    value: dict[str, Any] = json.loads(result.out)
    return value


def code(result: Result) -> str:
    assert (result.status, result.out) == (1, ""), result.err
    assert "Traceback" not in result.err
    found: str = json.loads(result.err)["error"]["code"]
    return found


def test_a_channel(index: FolderIndex, tmp_path: Path) -> None:
    policy = ("--policy", str(write_policy(tmp_path / "trust.toml")))
    as_json = ("--format", "json")
    assert agent_bundler("channels", "--index", index.root).out == f"no channel is in {index.root}\n"
    assert code(promote(index, "0.1.0", *policy, *as_json, key="release")) == "signature-untrusted"
    assert promote(index, "0.1.0", *policy).out == f"{ID}@stable points to 0.1.0\n{wheel('demo').digest}\n"
    assert promote(index, "0.1.0").out.startswith(f"{ID}@stable pointed before to 0.1.0\n")
    assert code(promote(index, "0.2.0", *as_json)) == "channel-moved"
    moved = answer(promote(index, "0.2.0", "--expect", "0.1.0", "--expires", "7", *as_json))
    assert (moved["state"], moved["version"], moved["sequence"]) == ("promoted", "0.2.0", 2)
    assert promote(index, "0.2.0", "--expires", "soon").status == 2

    line = f"agent-graph-provider-acme-demo==0.2.0 --hash=sha256:{wheel('newer').sha256}"
    assert moved["requirement"] == line
    listed = answer(agent_bundler("channels", "--index", index.root, *as_json))
    assert listed["channels"] == [{key: value for key, value in moved.items() if key != "state"}]
    shown = agent_bundler("channels", "--index", index.root).out
    assert shown == f"{ID}@stable  0.2.0  {wheel('newer').digest}  until {moved['expires']}\n"

    resolved = agent_bundler("resolve", f"{ID}@stable", "--index", index.root)
    assert (resolved.status, resolved.out) == (0, f"{line}\n")
    assert "note[provider-untrusted]" in resolved.err
    resolved = agent_bundler("resolve", f"{ID}@stable", "--index", Path(index.root).as_uri(), *policy)
    assert (resolved.out, resolved.err) == (f"{line}\n", "")
    found = answer(agent_bundler("resolve", f"{ID}@stable", "--index", index.root, *policy, *as_json))
    assert found["trust"]["signers"] == [{"name": "channel", "keyId": public("channel").key_id}]
    assert code(agent_bundler("resolve", f"{ID}@next", "--index", index.root, *as_json)) == "channel-missing"


def test_state(index: FolderIndex, tmp_path: Path) -> None:
    line = ["resolve", f"{ID}@stable", "--index", index.root, "--state", str(tmp_path / "state"), "--format", "json"]
    policy = ("--policy", str(write_policy(tmp_path / "trust.toml")))
    document = "channels/acme-demo/stable.dsse.json"
    promote(index, "0.1.0")
    first = index.document(document)
    assert first is not None
    promote(index, "0.2.0", "--expect", "0.1.0")
    assert answer(agent_bundler(*line, *policy))["version"] == "0.2.0"
    index.put_document(document, first, who="somebody")
    assert code(agent_bundler(*line, *policy)) == code(agent_bundler(*line)) == "index-rolled-back"


def test_a_revocation(index: FolderIndex) -> None:
    assert revoke(index).out.startswith("the list is signed anew\nthe list has 0 entries, the sequence 1,")
    promote(index, "0.1.0")
    shown = revoke(index, f"{ID}@0.1.0", "--reason", "it leaks").out
    assert shown.startswith(f"{ID}@0.1.0 is revoked\nthe list has 1 entry, the sequence 2,")
    assert revoke(index, f"{ID}@0.1.0", "--reason", "x").out.startswith(f"{ID}@0.1.0 was revoked before\n")
    result = revoke(index, f"{ID}@9.0.0", "--reason", "unseen", "--format", "json")
    assert json.loads(result.err)["code"] == "release-unknown"
    assert [each["release"] for each in answer(result)["revoked"]] == [f"{ID}@0.1.0", f"{ID}@9.0.0"]
    assert revoke(index, f"{ID}@0.2.0").status == revoke(index, "--reason", "x").status == 2
    assert code(revoke(index, f"{ID}@0.2.0", "--reason", "\n", "--format", "json")) == "option-invalid"
    resolved = agent_bundler("resolve", f"{ID}@stable", "--index", index.root, "--format", "json")
    assert code(resolved) == "signature-revoked"


@pytest.mark.parametrize("command", ["promote", "channels", "resolve", "revoke"])
def test_as_a_process(command: str, tmp_path: Path) -> None:
    assert "--index" in in_process(command, "--help").out
    more = {
        "promote": [f"{ID}@1.0.0", "--channel", "x", "--key", str(key_file("channel"))],
        "resolve": [f"{ID}@x"],
        "revoke": ["--key", str(key_file("revocation"))],
    }.get(command, [])
    assert code(in_process(command, *more, "--index", str(tmp_path), "--format", "json")) == "index-missing"
