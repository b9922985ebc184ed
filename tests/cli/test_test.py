"""`agent-bundler test`, as its users meet it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bundler.authoring.scaffold import scaffold

from .run import agent_bundler


@pytest.fixture
def source(tmp_path: Path) -> Path:
    scaffold(tmp_path / "source", "acme/release")
    return tmp_path / "source"


def spoil(source: Path) -> None:
    test = source / "tests" / "starts-with-the-check.yaml"
    test.write_text(test.read_text().replace("primaryNode: check", "primaryNode: publish"))


def test_passing_and_failing(source: Path) -> None:
    result = agent_bundler("-m", str(source), "test")
    assert (result.status, result.err) == (0, "")
    assert result.out.endswith("7 tests, 0 failed\n")
    assert f"passed  a release starts with the check ({source}/tests/starts-with-the-check.yaml)" in result.out
    spoil(source)
    result = agent_bundler("-m", str(source), "test")
    assert result.status == 1
    assert "FAILED  a release starts with the check" in result.out
    assert '        primaryNode: expected "publish", received "check"' in result.out
    assert "        why: publish is not reached" in result.out
    assert result.out.endswith("7 tests, 1 failed\n")


def test_json(source: Path) -> None:
    value = json.loads(agent_bundler("-m", str(source), "test", "--format", "json", "--coverage").out)
    assert (value["state"], value["total"], value["failed"]) == ("passed", 7, 0)
    assert value["coverage"]["nodes"] == {"total": 5, "reached": 5, "missed": []}
    spoil(source)
    (source / "provider.yaml").write_text(
        (source / "provider.yaml").read_text().replace("agentGraph: ^0.3.0", "agentGraph: ^0.2.0")
    )
    result = agent_bundler("-m", str(source), "test", "--format", "json")
    value = json.loads(result.out)
    assert (result.status, value["state"], value["failed"]) == (1, "failed", 1)
    failed = [each for each in value["results"] if not each["passed"]]
    assert failed[0]["failures"][0] == 'primaryNode: expected "publish", received "check"'
    assert json.loads(result.err)["code"] == "compatibility-unsupported"  # warnings are told of a failed run too


def test_coverage_for_people(source: Path) -> None:
    (source / "tests" / "approves-with-a-session-authority.yaml").unlink()
    out = agent_bundler("-m", str(source), "test", "--coverage").out
    assert "Gates: 1 of 2 reached\n        not reached: release/approve by session-authority\n" in out
    assert "reason codes: 4 of 4 reached" in out


def test_a_file_a_folder_and_junit(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = tmp_path / "bundle"
    assert agent_bundler("-m", str(source), "build", str(bundle)).status == 0
    one = source / "tests" / "starts-with-the-check.yaml"
    result = agent_bundler("-m", str(bundle), "test", str(one), "--junit", str(tmp_path / "out.xml"))
    assert result.out.endswith("1 test, 0 failed\n")
    assert ElementTree.parse(tmp_path / "out.xml").getroot().get("tests") == "1"
    monkeypatch.chdir(tmp_path)
    assert agent_bundler("-m", "bundle", "test").err.splitlines()[1].startswith("error[test-path-missing]")
    shutil.copytree(source / "tests", tmp_path / "tests")
    assert agent_bundler("-m", "bundle", "test").out.endswith("7 tests, 0 failed\n")
    refused = agent_bundler("-m", "bundle", "test", "--junit", str(tmp_path))
    assert (refused.status, "error[output-write-failed]" in refused.err) == (3, True)


@pytest.mark.parametrize(("files", "code"), [({}, "test-cases-empty"), ({"a.yaml": "{"}, "parse-failed")])
def test_what_is_refused(source: Path, tmp_path: Path, files: dict[str, str], code: str) -> None:
    folder = tmp_path / "more"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    result = agent_bundler("-m", str(source), "test", str(folder))
    assert (result.status, f"error[{code}]" in result.err, "remedy:" in result.err) == (1, True, True)
