"""`resource locate` and `resource materialize`, as they are typed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bundler.protocol.canonical import sha256

from ..builders import UNCOVERED
from ..views import REVISION, all_gone, pids, with_command, write_view
from .run import Result, agent_bundler, in_process


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = write_view(tmp_path, with_command('printf "%s %s" "$AGENT_GRAPH_INPUT" "$PWD"'))
    monkeypatch.chdir(tmp_path / "work")
    return root


def materialize(provider: Path, *more: str, name: str = "view", revision: str = REVISION) -> Result:
    """The command, with JSON for its result, and a cache beside the Provider."""
    cache = str(provider.parent / "cache")
    options = ["--cache", cache, "--revision", revision, "--format", "json", *more]
    return agent_bundler("resource", "materialize", name, "-m", str(provider), *options)


def code(result: Result) -> str:
    assert (result.status, result.out) == (1, "")
    found: str = json.loads(result.err)["error"]["code"]
    return found


def test_locate(provider: Path) -> None:
    result = agent_bundler("resource", "locate", "guide", "-m", str(provider), "--format", "json")
    assert (result.status, json.loads(result.out)["filePath"]) == (0, str(provider / "guide.md"))
    result = agent_bundler("resource", "locate", "guide", "-m", str(provider))
    assert result.out.splitlines()[:2] == ["guide: procedure, text/markdown", str(provider / "guide.md")]
    result = agent_bundler("resource", "locate", "made", "--revision", REVISION, "-m", str(provider))
    assert '"handler": "acme.index"' in result.out
    assert agent_bundler("resource", "locate", "made", "-m", str(provider)).status == 1


def test_materialize(provider: Path) -> None:
    content = f"{{}} {provider.parent / 'work'}".encode()
    result = materialize(provider)
    value = json.loads(result.out)
    path = provider.parent / "cache" / f"{sha256(content).removeprefix('sha256:')}.txt"
    assert (result.status, result.err) == (0, "")
    assert value == {
        "schema": "agent-graph.resource-location.graph-action.v1",
        "id": "view",
        "kind": "context-view",
        "mediaType": "text/plain",
        "revision": REVISION,
        "digest": sha256(content),
        "filePath": str(path),
    }
    assert path.read_bytes() == content


def test_for_people(provider: Path) -> None:
    cache = provider.parent / "cache"
    result = agent_bundler(
        *("-m", str(provider), "resource", "materialize", "resources/view.yaml"),
        *("--cache", str(cache), "--revision", REVISION),
    )
    digest = sha256(f"{{}} {provider.parent / 'work'}".encode())
    path = cache / f"{digest.removeprefix('sha256:')}.txt"
    assert result.out.splitlines() == ["view: context-view, text/plain", str(path), digest]


def test_input_and_workspace(provider: Path, tmp_path: Path) -> None:
    (tmp_path / "input.json").write_text('{"from": "a file"}')
    (tmp_path / "elsewhere").mkdir()
    for given in ('{"from": "a file"}', f"@{tmp_path / 'input.json'}"):
        result = materialize(provider, "--input", given, "--workspace", "../elsewhere")
        content = Path(json.loads(result.out)["filePath"]).read_text()
        assert content == f'{{"from":"a file"}} {tmp_path / "elsewhere"}'
    assert code(materialize(provider, "--input", "[]")) == "json-object-required"
    assert code(materialize(provider, "--input", "{")) == "json-invalid"
    assert code(materialize(provider, "--workspace", "nowhere")) == "materializer-option-invalid"


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "ten", "", "1e3", "9" * 17, "9999999999999999", "\u0663"])
@pytest.mark.parametrize("option", ["--timeout-ms", "--max-output-bytes", "--max-error-bytes"])
def test_a_limit_that_is_no_positive_integer(provider: Path, option: str, value: str) -> None:
    result = materialize(provider, option, value)
    assert code(result) == "materializer-option-invalid"
    assert option.removeprefix("--") in json.loads(result.err)["error"]["message"]


def test_limits(provider: Path) -> None:
    assert code(materialize(provider, "--max-output-bytes", "1")) == "materializer-output-limit"
    write_view(provider.parent, with_command("echo said >&2; echo $$ >> pids; sleep 60"))
    assert code(materialize(provider, "--max-error-bytes", "1")) == "materializer-error-limit"
    result = materialize(provider, "--timeout-ms", "300")
    assert code(result) == "materializer-timeout"
    assert json.loads(result.err)["error"]["diagnostics"][0]["detail"]["stderr"] == ["said"]


def test_what_cannot_be_materialized(provider: Path) -> None:
    assert code(materialize(provider, name="guide")) == "resource-static"
    assert code(materialize(provider, name="made")) == "resource-host-action"
    assert code(materialize(provider, name="nothing")) == "resource-missing"
    assert code(materialize(provider, revision="latest")) == "revision-invalid"
    without = agent_bundler("resource", "materialize", "view", "-m", str(provider), "--cache", "c", "--format", "json")
    assert code(without) == "revision-invalid"
    assert code(materialize(provider, "--cache", str(provider / "cache"))) == "folder-unsafe"
    usage = agent_bundler("resource", "materialize", "view", "-m", str(provider), "--revision", REVISION)
    assert (usage.status, "--cache" in usage.err) == (2, True)


def test_a_failure_is_told_on_one_line(provider: Path) -> None:
    write_view(provider.parent, with_command("printf 'first\\nred \\033[31m' >&2; exit 3"))
    result = in_process(
        *("resource", "materialize", "view", "-m", str(provider), "--revision", REVISION),
        *("--cache", str(provider.parent / "cache")),
    )
    assert (result.status, result.out) == (1, "")
    assert "ended with exit status 3; its standard error ends in: first | red \\x1b[31m" in result.err
    assert "\x1b" not in result.err


def test_an_interrupt_ends_what_was_started(provider: Path, tmp_path: Path) -> None:
    write_view(tmp_path, with_command("echo $$ >> pids; sleep 60 & echo $! >> pids; wait"))
    command = ["resource", "materialize", "view", "-m", str(provider), "--cache", "../cache", "--revision", REVISION]
    main = "from bundler.cli.main import main; main()"
    with subprocess.Popen([sys.executable, "-B", "-c", main, *command], env=UNCOVERED, stderr=subprocess.PIPE) as host:
        started = pids(tmp_path / "work", 2)
        host.send_signal(signal.SIGINT)
        _, errors = host.communicate(timeout=60)
    assert (host.returncode, errors.strip()) == (130, b"aborted")
    assert all_gone(started)
    assert list((tmp_path / "cache").iterdir()) == []
