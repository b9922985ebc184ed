"""Command lines that another implementation answered: those of the commands that are here answer alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bundler.cli.main import _COMMANDS
from bundler.protocol.schemas import NAMES

from ..cli.run import Result, agent_bundler
from .cases import KEPT, collection

_REAL = KEPT / "real"
#: Lines of the list: all of them run once all their commands are there.
LINES = 34


def command_of(arguments: list[str]) -> str:
    """The name of the command, which global options may stand before."""
    return arguments[2] if arguments[0].startswith("-") else arguments[0]


_CASES = [case for case in collection("cli.json") if command_of(case["args"]) in _COMMANDS]


def test_commands_are_there() -> None:
    assert (KEPT / "cli.json").is_file()
    assert len(_CASES) == len(collection("cli.json")) == LINES
    assert {command_of(case["args"]) for case in _CASES} == {
        *("validate", "inspect", "code", "evaluate", "test", "schema", "build", "run", "route", "resource"),
    }


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that all lines share."""
    return tmp_path_factory.mktemp("work")


def alike(value: Any) -> Any:
    """What has to be equal: all but messages, places of diagnostics, and the version of a location's protocol."""
    if isinstance(value, list):
        return [alike(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("schema") == "agent-graph.resource-location.v1":
        value = {**value, "schema": "agent-graph.resource-location.file.v1"}
    hidden = ("message", "path") if {"code", "severity", "message"} <= value.keys() else ()
    return {key: alike(item) for key, item in value.items() if key not in hidden}


@pytest.mark.parametrize("case", _CASES, ids=[" ".join([case["provider"], *case["args"]]) for case in _CASES])
def test_command_line(case: dict[str, Any], work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = _REAL / case["provider"]
    monkeypatch.chdir(root)

    def run(arguments: list[str]) -> Result:
        filled = [each.replace("{ROOT}", str(root)).replace("{WORK}", str(work)) for each in arguments]
        return agent_bundler(*filled, "--format", "json")

    for before in case.get("before", ()):
        assert run(before).status == 0
    result = run(case["args"])
    assert result.status == case["exit"]
    if "error" in case:
        assert json.loads(result.err.splitlines()[-1])["error"]["code"] == case["error"]
        return
    expected = {"schemas": list(NAMES)} if case["args"] == ["schema", "list"] else case["stdout"]
    text = json.dumps(expected).replace("{ROOT}", str(root)).replace("{WORK}", str(work))
    assert alike(json.loads(result.out)) == alike(json.loads(text))


@pytest.mark.parametrize("name", ["shared-provider", "review-gate"])
def test_real_provider_builds_the_manifest_of_another_implementation(name: str, tmp_path: Path) -> None:
    output = tmp_path / "out"
    assert agent_bundler("-m", str(_REAL / name), "build", str(output)).status == 0
    assert (output / "manifest.json").read_bytes() == (_REAL / f"{name}.manifest.json").read_bytes()


def test_numbered_resource_is_refused_with_the_way_to_convert_it() -> None:
    result = agent_bundler("-m", str(_REAL / "simple-skill"), "validate")
    assert result.status == 1
    assert "resource-protocol-unsupported" in result.err
    assert "agent-graph.resource.file.v1" in result.err
