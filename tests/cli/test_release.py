"""`agent-bundler release`, `publish`, `release-many`, `yank`: as their users meet them, and what they never show."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from bundler.trust.signing import PASSPHRASE_VARIABLE, generate_key

from .. import installs, signed
from ..publish.index.releases import make_index
from ..publish.servers import PASSWORD, USER, pypiserver
from .run import agent_bundler, in_process

PASSPHRASE = "a passphrase that is nowhere else"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return Path(shutil.copytree(installs.source(), tmp_path / "source"))


def processes(stop: threading.Event, seen: set[bytes]) -> None:
    """What lists of processes show until it is over."""
    while not stop.is_set():
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                seen.add(entry.read_bytes())
            except OSError:
                continue


def test_from_key_to_index_server_and_install_and_no_secret_anywhere(source: Path, tmp_path: Path) -> None:
    """A project's own check prints its environment, which has to be without what opens the key."""
    key = tmp_path / "secrets" / "release.key"
    key.parent.mkdir()
    public = generate_key(key, PASSPHRASE)
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["agent-graph-bundler"]\nbuild-backend = "bundler.backend"\n'
        '[tool.agent-bundler.checks.look]\ncommand = "env"\n'
    )
    index = make_index(tmp_path / "work" / "index")
    seen: set[bytes] = set()
    stop = threading.Event()
    watching = threading.Thread(target=processes, args=(stop, seen))
    watching.start()
    try:
        with pypiserver(tmp_path / "server") as url:
            result = in_process(
                *("release", str(source), "--output", str(tmp_path / "work/out"), "--key", str(key)),
                *("--index", index.root, "--repository", url, "--evidence-dir", str(tmp_path / "work/evidence")),
                cwd=tmp_path,
                TWINE_USERNAME=USER,
                TWINE_PASSWORD=PASSWORD,
                **{PASSPHRASE_VARIABLE: PASSPHRASE},
            )
            assert (result.status, result.err.count("error[")) == (0, 0), result.err
            assert len(list((tmp_path / "server").iterdir())) == 2
    finally:
        stop.set()
        watching.join()
    assert public.key_id in result.out
    assert any(b"twine" in line for line in seen)
    private = key.read_text().splitlines()[1]
    seen = {line for line in seen if b"pypiserver" not in line}  # the server was started with what it asks for
    secrets = [text.encode() for text in (PASSPHRASE, PASSWORD, private)]
    written = [path.read_bytes() for path in (tmp_path / "work").rglob("*") if path.is_file()]
    assert len(written) > 15
    for data in (result.out.encode(), result.err.encode(), *seen, *written):
        assert not any(secret in data for secret in secrets)
    site = tmp_path / "site"
    command = [*installs.PIP, "--index-url", Path(index.root, "simple").as_uri(), "--target", str(site)]
    subprocess.run([*command, "agent-graph-provider-acme-demo"], check=True, capture_output=True)
    policy = tmp_path / "trust.toml"
    policy.write_text(
        f'schema = "agent-bundler.trust.v1"\n[[keys]]\nname = "r"\npublic-key = "{key}.pub"\nproviders = ["acme/*"]\n'
    )
    shown = in_process("verify", "provider:acme/demo", "--policy", str(policy), PYTHONPATH=str(site))
    assert (shown.status, "trusted" in shown.out) == (0, True), shown.err


def test_publishing_again_and_what_it_says(source: Path, tmp_path: Path) -> None:
    index, key = make_index(tmp_path / "index"), str(signed.key_file("release"))
    output = str(tmp_path / "out")
    line = ("release", str(source), "--output", output, "--key", key, "--index", index.root, "--format", "json")
    first = json.loads(agent_bundler(*line).out)
    assert (first["state"], first["signer"]) == ("released", signed.public("release").key_id)
    assert [len(target["added"]) for target in first["targets"]] == [3]
    again = agent_bundler("publish", first["path"], "--index", index.root, "--expect-head", first["targets"][0]["head"])
    assert again.status == 0
    assert first["id"] in again.out
    assert f"published to {index.root}: 0 added, 3 there already" in again.out
    refused = agent_bundler("publish", first["path"], "--index", index.root, "--expect-head", "sha256:0")
    assert (refused.status, "error[index-conflict]" in refused.err) == (1, True)
    yanked = agent_bundler("yank", "acme/demo@0.1.0", "--index", index.root, "--reason", "wrong")
    assert yanked.out.startswith("yanked acme/demo@0.1.0\n")
    again = agent_bundler("yank", "acme/demo@0.1.0", "--index", index.root, "--reason", "wrong", "--format", "json")
    assert json.loads(again.out)["state"] == "unchanged"
    assert agent_bundler("unyank", "acme/demo@0.1.0", "--index", index.root).out.startswith("unyanked ")


def test_a_dry_run_leaves_evidence_and_what_failed_is_told_first(source: Path, tmp_path: Path) -> None:
    line = ("release", str(source), "--output", str(tmp_path / "out"), "--dry-run")
    action = source / "actions/work.yaml"
    text = action.read_text()
    action.unlink()
    assert "error[file-missing]" in agent_bundler(*line).err
    action.write_text(text)
    result = agent_bundler(*line)
    assert (result.status, result.err.startswith("known pitfall, validate: ")) == (0, True)
    assert "nothing was signed, released or published" in result.out
    assert os.listdir(tmp_path / "out") == ["work"]
    value = json.loads(agent_bundler(*line, "--format", "json").out)
    assert (value["state"], value["evidence"]["passed"], value["pitfalls"]) == ("checked", True, [])


def test_release_many(source: Path, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(source, tmp_path / "broken"))
    (broken / "actions/work.yaml").unlink()
    line = ("release-many", str(broken), str(source), "--output", str(tmp_path / "out"), "--jobs", "1")
    result = in_process(*line, cwd=tmp_path)
    assert result.status == 1
    rows = [row.split() for row in result.out.splitlines()]
    assert [row[0] for row in rows] == ["state", "failed", "released"]
    assert "error[release-check-failed]" in result.err
    assert "warning[release-unsigned]" in result.err
    value = json.loads(in_process(*line, "--format", "json", cwd=tmp_path).out)
    assert value["failed"] == 1
    assert [each["state"] for each in value["releases"]] == ["failed", "unchanged"]
    assert value["releases"][0]["error"]["code"] == "release-check-failed"


@pytest.mark.parametrize(
    "line",
    [
        ("publish", "."),
        ("publish", ".", "--index", "i", "--evidence-dir", "e"),
        ("release", "--expect-head", "x"),
        ("release", "--repository", "https://example.org/", "--who", "x"),
        ("release-many",),
        ("yank", "acme/demo@1.0.0", "--index", "i"),
    ],
)
def test_options_that_do_not_go_together(line: tuple[str, ...]) -> None:
    result = agent_bundler(*line)
    assert (result.status, result.out) == (2, "")
