"""`agent-bundler run …`, as its users meet it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from bundler.authoring.scaffold import scaffold
from bundler.protocol.schemas import schema_path

from .run import agent_bundler

VALIDATORS = {
    f"agent-graph.{name}.v1": jsonschema_rs.Draft202012Validator(json.loads(schema_path(name).read_bytes()))
    for name in ("run", "evaluation", "route")
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    scaffold(tmp_path / "p", "acme/release")
    monkeypatch.chdir(tmp_path / "p")
    return tmp_path / "p"


def answer(*arguments: str) -> dict[str, Any]:
    result = agent_bundler(*arguments, "--format", "json")
    assert result.status == 0, result.err
    value: dict[str, Any] = json.loads(result.out)
    if "schema" in value:
        VALIDATORS[value["schema"]].validate(value)
    return value


def refused(*arguments: str) -> str:
    result = agent_bundler("run", *arguments)
    assert (result.status, result.out) == (1, "")
    assert "remedy:" in result.err
    told = agent_bundler("run", *arguments, "--format", "json")
    return str(json.loads(told.err)["error"]["code"])


def test_a_whole_run(here: Path) -> None:
    started = answer("run", "start", "release", "--state", "r.json", "--facts", '{"a": 1}', "--authority", "x", "y")
    assert (started["facts"], started["authorities"]) == ({"a": 1}, ["x", "y"])
    assert answer("run", "record", "check", "completed", "--state", "r.json")["outcomes"].keys() == {"release/check"}
    status = answer("run", "status", "--state", "r.json")
    assert (status["run"]["id"], status["run"]["state"]) == (started["id"], str(here / "r.json"))
    assert status["run"].keys() == {"id", "state", "updatedAt"}
    VALIDATORS["agent-graph.evaluation.v1"].validate(status["evaluation"])
    noted = answer("run", "record", "release/check", "completed", "--detail", "note", "--state", "r.json")
    assert noted["outcomes"]["release/check"]["detail"] == "note"
    assert status["evaluation"]["statusCode"] == "waiting-user"
    assert answer("run", "authority", "--set", "release.approve", "z", "--state", "r.json")["authorities"] == [
        "release.approve",
        "z",
    ]
    assert answer("route", "--state", "r.json")["gate"]["resolution"] == "session-authority"
    assert answer("evaluate", "--state", "r.json")["primaryRoute"]["availability"] == "immediate"
    assert answer("run", "facts", "--set", '{"b": 2}', "--state", "r.json")["facts"] == {"a": 1, "b": 2}
    assert answer("run", "facts", "--set", '{"c": 3}', "--replace", "--state", "r.json")["facts"] == {"c": 3}
    copied = answer("run", "checkpoint", "--state", "r.json", "--to", "c.json")
    assert (copied["checkpoint"], copied["run"]["authorities"]) == (str(here / "c.json"), ["release.approve", "z"])
    resumed = answer("run", "resume", "c.json", "--state", "r2.json")
    assert resumed["authorities"] == []
    events = answer("run", "events", "--state", "r2.json")["events"]
    assert [event["type"] for event in events][-2:] == ["run.checkpointed", "run.resumed"]
    assert answer("run", "authority", "--state", "r.json")["authorities"] == []


def test_for_people(here: Path) -> None:
    assert agent_bundler("run", "start", "release", "--state", "r.json").out.startswith("started run-")
    assert (
        agent_bundler("run", "record", "check", "failed", "--state", "r.json").out == "recorded release/check: failed\n"
    )
    shown = agent_bundler("run", "status", "--state", "r.json").out
    assert "2 events\nacme/release release, entry default: actionable\n  next  repair (release/repair)" in shown
    assert "node.outcome-recorded  release/check  failed" in agent_bundler("run", "events", "--state", "r.json").out
    assert agent_bundler("run", "facts", "--set", "{}", "--state", "r.json").out == "the Facts are {}\n"
    assert agent_bundler("run", "authority", "--state", "r.json").out == "the authorities are none\n"
    assert agent_bundler("run", "checkpoint", "--state", "r.json", "--to", "c.json").out.endswith("to c.json\n")
    assert agent_bundler("run", "resume", "c.json", "--state", "r2.json").out.endswith("in r2.json\n")


def test_a_misspelt_node_is_recorded_and_told(here: Path) -> None:
    assert agent_bundler("run", "start", "release", "--state", "r.json").status == 0
    result = agent_bundler("run", "record", "release/chekc", "completed", "--state", "r.json")
    assert result.status == 0
    assert (
        "warning[node-unknown] the Graph `release` leads to no node `release/chekc` (did you mean `release/check`?)"
        in result.err
    )
    assert "remedy:" in result.err
    told = agent_bundler("run", "record", "release/chekc", "failed", "--state", "r.json", "--format", "json")
    assert json.loads(told.err)["severity"] == "warning"
    assert json.loads(told.out)["outcomes"] == json.loads(Path("r.json").read_text())["outcomes"]
    assert agent_bundler("run", "record", "release/check", "failed", "--state", "r.json").err == ""
    assert refused("record", "chekc", "completed", "--state", "r.json") == "node-unknown"


def test_a_skill_names_graph_and_entry(here: Path) -> None:
    skill = ["--skill", "skills/release/SKILL.md"]
    assert answer(*skill, "run", "start", "--state", "r.json")["graph"] == "release"
    result = agent_bundler(*skill, "run", "start", "other", "--state", "r2.json")
    assert result.err.startswith("error[skill-graph-conflict]")
    result = agent_bundler(*skill, "run", "start", "release", "--entry", "other", "--state", "r2.json")
    assert result.err.startswith("error[skill-entry-conflict]")
    assert not Path("r2.json").exists()
    assert answer(*skill, "run", "record", "check", "completed", "--state", "r.json")["outcomes"]
    assert answer(*skill, "run", "status", "--state", "r.json")["evaluation"]["statusCode"] == "waiting-user"


def test_refusals(here: Path) -> None:
    assert agent_bundler("run", "start", "release", "--state", "r.json").status == 0
    assert refused("start", "release", "--state", "r.json") == "run-target-exists"
    assert refused("start", "none", "--state", "x.json") == "graph-missing"
    assert refused("start", "release", "--entry", "none", "--state", "x.json") == "entry-missing"
    assert refused("start", "--state", "x.json") == "graph-selection-missing"
    assert refused("start", "release", "--facts", "[]", "--state", "x.json") == "json-object-required"
    assert refused("record", "check", "nonsense", "--state", "r.json") == "outcome-invalid"
    assert refused("status", "--state", "none.json") == "file-read-failed"
    assert refused("facts", "--set", "{", "--state", "r.json") == "json-invalid"
    assert refused("record", "check", "failed", "--detail", "@none", "--state", "r.json") == "file-missing"
    scaffold(here.parent / "other", "acme/other")
    other = str(here.parent / "other")
    before = Path("r.json").read_bytes()
    for arguments in (["status"], ["record", "check", "failed"], ["facts", "--set", "{}"], ["authority"]):
        result = agent_bundler("-m", other, "run", *arguments, "--state", "r.json")
        assert result.err.startswith("error[run-provider-mismatch]")
    for command in ("evaluate", "route"):
        result = agent_bundler("-m", other, command, "--state", "r.json")
        assert result.err.startswith("error[run-provider-mismatch]")
    assert refused("authority", "--set", "A B", "--state", "r.json") == "option-invalid"
    assert refused("facts", "--set", "@none", "--state", "r.json") == "file-missing"
    assert refused("checkpoint", "--state", "r.json", "--to", "r.json") == "run-target-exists"
    assert refused("resume", "none.json", "--state", "x.json") == "file-read-failed"
    assert refused("events", "--state", ".") == "file-read-failed"
    Path("bad.json").write_text("{}")
    assert refused("resume", "bad.json", "--state", "x.json") == "schema-invalid"
    assert refused("record", "check", "failed", "--state", "bad.json") == "schema-invalid"
    assert Path("r.json").read_bytes() == before
    assert not Path("x.json").exists()


def test_what_cannot_be_written_is_the_environments_fault(here: Path) -> None:
    result = agent_bundler("run", "start", "release", "--state", "none/r.json", "--format", "json")
    assert (result.status, json.loads(result.err)["error"]["code"]) == (3, "output-write-failed")


def test_without_a_provider(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoint, resume and events need none."""
    assert agent_bundler("run", "start", "release", "--state", "../r.json").status == 0
    monkeypatch.chdir(tmp_path)
    assert answer("run", "checkpoint", "--state", "r.json", "--to", "c.json")["run"]["graph"] == "release"
    assert answer("run", "resume", "c.json", "--state", "r2.json")["graph"] == "release"
    assert len(answer("run", "events", "--state", "r2.json")["events"]) == 3
    assert refused("status", "--state", "r2.json") == "file-missing"


def test_paths_and_files(here: Path) -> None:
    (here / "facts.json").write_text('{"a": {"b": [1]}}')
    run = answer("run", "start", "release", "--state", "r.json", "--facts", "@facts.json", "--workspace", "..")
    assert (run["facts"], run["workspace"]) == ({"a": {"b": [1]}}, str(here.parent))
    assert answer("route", "--state", "r.json")["commandPlan"][0]["workingDirectory"] == str(here.parent)
    assert answer("run", "facts", "--set", "@facts.json", "--state", "r.json")["events"][-1]["detail"] == ["a"]


@pytest.mark.parametrize(
    ("given", "detail"),
    [
        ("null", None),
        ("1", 1),
        ('{"a": 1}', {"a": 1}),
        ("two words", "two words"),
        ("NaN", "NaN"),
        ("{", "{"),
        ("", ""),
    ],
)
def test_details_are_json_or_text(here: Path, given: str, detail: Any) -> None:
    assert agent_bundler("run", "start", "release", "--state", "r.json").status == 0
    run = answer("run", "record", "check", "failed", "--detail", given, "--state", "r.json")
    assert run["outcomes"]["release/check"]["detail"] == detail
    assert "detail" not in answer("run", "record", "check", "failed", "--state", "r.json")["events"][-1]


def test_authorities_are_several_after_one_option_or_the_option_repeated(here: Path) -> None:
    assert agent_bundler("run", "start", "release", "--authority", "a", "b", "--state", "r.json").status == 0
    for given in (["--set", "c", "d", "c"], ["--set", "c", "--set", "d"]):
        assert answer("run", "authority", *given, "--state", "r.json")["authorities"] == ["c", "d"]
    assert answer("run", "authority", "--state", "r.json")["authorities"] == []


@pytest.mark.parametrize(
    "name", ["start", "status", "record", "facts", "authority", "checkpoint", "resume", "events", ""]
)
def test_help_has_an_example(name: str) -> None:
    result = agent_bundler("run", *([name] if name else []), "--help")
    assert (result.status, "Example: agent-bundler run" in result.out, "--manifest" in result.out) == (0, True, True)
