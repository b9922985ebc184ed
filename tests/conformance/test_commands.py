"""Command lines that another implementation answered: those of the commands that are here answer alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bundler.protocol.schemas import NAMES

from ..cli.run import agent_bundler
from .cases import KEPT, collection

_REAL = KEPT / "real"
_KNOWN = ("validate", "build", "inspect", "schema")
_CASES = [case for case in collection("cli.json") if case["args"][0] in _KNOWN]


def test_commands_are_there() -> None:
    assert (KEPT / "cli.json").is_file()
    assert len(_CASES) >= 7


@pytest.mark.parametrize("case", _CASES, ids=[" ".join([case["provider"], *case["args"]]) for case in _CASES])
def test_command_line(case: dict[str, Any], tmp_path: Path) -> None:
    root = _REAL / case["provider"]
    arguments = [argument.replace("{ROOT}", str(root)).replace("{WORK}", str(tmp_path)) for argument in case["args"]]
    result = agent_bundler(*arguments, "-m", str(root), "--format", "json")
    assert result.status == case["exit"]
    if "error" in case:
        assert json.loads(result.err)["error"]["code"] == case["error"]
        return
    expected = {"schemas": list(NAMES)} if case["args"] == ["schema", "list"] else case["stdout"]
    assert json.loads(result.out) == json.loads(json.dumps(expected).replace("{ROOT}", str(root)))


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
