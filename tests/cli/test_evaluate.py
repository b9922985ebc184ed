"""`evaluate`, `route`, `code` and `resource`, as their users meet them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from bundler.authoring.scaffold import scaffold
from bundler.protocol.schemas import NAMES, schema_path

from .run import agent_bundler

CHECKED = '{"release/check": "completed"}'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    scaffold(tmp_path / "p", "acme/release")
    monkeypatch.chdir(tmp_path / "p")
    return tmp_path / "p"


def answer(*arguments: str) -> dict[str, Any]:
    """The JSON on stdout; where it has a schema, it satisfies that."""
    result = agent_bundler(*arguments, "--format", "json")
    assert result.status == 0, result.err
    value: dict[str, Any] = json.loads(result.out)
    name = str(value.get("schema", "")).removeprefix("agent-graph.").split(".")[0]
    if name in NAMES:
        jsonschema_rs.Draft202012Validator(json.loads(schema_path(name).read_bytes())).validate(value)
    return value


def refused(*arguments: str) -> str:
    result = agent_bundler(*arguments)
    assert (result.status, result.out) == (1, "")
    assert "remedy:" in result.err
    assert "Traceback" not in result.err
    return result.err.removeprefix("error[").partition("]")[0]


def test_evaluate(here: Path) -> None:
    value = answer("evaluate", "release")
    assert (value["statusCode"], value["primaryRoute"]["node"]) == ("actionable", "check")
    value = answer("evaluate", "release", "--outcomes", CHECKED)
    assert (value["statusCode"], value["primaryRoute"]["node"]) == ("waiting-user", "approve")
    for authority in (["release.approve"], ["x", "release.approve"], ["x", "--authority", "release.approve"]):
        asked = answer("evaluate", "release", "--outcomes", CHECKED, "--authority", *authority)
        assert asked["primaryRoute"]["availability"] == "immediate"
    (here / "facts.json").write_text('{"a": [1]}')
    one = answer("evaluate", "release", "--facts", "@facts.json")
    assert one["revision"] == answer("evaluate", "release", "--facts", '{"a": [1.0]}')["revision"] != value["revision"]
    assert answer("evaluate", "release", "--entry", "none")["diagnostics"][0]["code"] == "entry-missing"


def test_evaluate_for_people(here: Path) -> None:
    out = agent_bundler("evaluate", "release").out
    assert out.startswith("acme/release release, entry default: actionable\n  next  check (release/check), immediate\n")
    assert "route.release.check: The package has not been checked since it changed." in out
    done = '{"release/check": "completed", "release/approve": "completed", "release/publish": "completed"}'
    out = agent_bundler("evaluate", "release", "--outcomes", done).out
    assert out.startswith("acme/release release, entry default: complete with Outcome completed\n")
    stuck = agent_bundler("evaluate", "release", "--outcomes", '{"release/check": "partial"}').out
    assert "error[no-route] nothing in the Graph `release` is left to do" in stuck


def test_a_skill_selects(here: Path) -> None:
    skill = ["--skill", "skills/release/SKILL.md"]
    assert answer(*skill, "evaluate") == answer("evaluate", "release")
    assert answer(*skill, "route") == answer("route", "release")
    assert refused(*skill, "evaluate", "other") == "skill-graph-conflict"
    assert refused(*skill, "evaluate", "--entry", "other") == "skill-entry-conflict"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], "graph-selection-missing"),
        (["none"], "graph-missing"),
        (["release", "--facts", "{"], "json-invalid"),
        (["release", "--facts", "[]"], "json-object-required"),
        (["release", "--facts", '{"a": 1, "a": 2}'], "json-invalid"),
        (["release", "--facts", "@none.json"], "file-missing"),
        (["release", "--outcomes", '{"release/check": "done"}'], "outcome-invalid"),
        (["release", "--state", "none.json"], "file-read-failed"),
    ],
)
def test_what_evaluate_and_route_refuse(here: Path, arguments: list[str], code: str) -> None:
    assert refused("evaluate", *arguments) == code
    assert refused("route", *arguments) == code


def test_route(here: Path) -> None:
    value = answer("route", "release", "--workspace", "/w")
    assert value["commandPlan"][0]["command"] == f"python3 '{here}/scripts/check.py'"
    assert value["commandPlan"][0]["workingDirectory"] == "/w"
    (checklist,) = value["resources"]["required"]
    assert checklist["readState"] == "read-required"
    receipts = {
        "schema": "agent-graph.resource-read-receipts.v1",
        "provider": "acme/release",
        "receipts": [{"id": checklist["id"], "digest": checklist["digest"]}],
    }
    again = answer("route", "release", "--resource-receipts", json.dumps(receipts))
    assert again["resources"]["required"][0]["readState"] == "current"
    same = answer("route", "release", value["routeId"], "--revision", value["revision"], "--workspace", "/w")
    assert same == value
    assert refused("route", "release", "route:00000000000000000000") == "route-stale"
    assert refused("route", "release", "--revision", "sha256:" + "0" * 64) == "route-revision-stale"
    assert refused("route", "a", "b") == "route-arguments-invalid"
    assert refused("route", "release", "--outcomes", '{"release/check": "partial"}') == "route-unavailable"
    other = json.dumps({**receipts, "provider": "acme/other"})
    assert refused("route", "release", "--resource-receipts", other) == "resource-receipts-provider-mismatch"


def test_route_for_people(here: Path) -> None:
    out = agent_bundler("route", "release").out
    assert f"read in {here}: python3 '{here}/scripts/check.py'" in out
    assert "required: release.checklist (procedure, read-required)" in out
    assert "then record release/check and evaluate again" in out
    out = agent_bundler("route", "release", "--outcomes", CHECKED).out
    assert "Gate release-approval asks release.approve, resolved by user: Publish the package as it was checked?" in out
    assert f"inspection, read in {here}: git show --stat" in out


def test_why(here: Path) -> None:
    assert answer("route", "release", "--why", "publish")["reasons"] == [
        "publish is not reached: each of its incoming edges has to match",
        "gatedBy from approve takes completed; approve is not reached: it does not match",
    ]
    assert agent_bundler("route", "release", "--why", "check").out.startswith("release/check is on offer: route:")
    assert refused("route", "release", "--why", "none") == "node-unknown"


def test_codes(here: Path) -> None:
    listed = answer("code", "list")
    assert (listed["catalog"], len(listed["codes"])) == (str(here / "codes.yaml"), 4)
    assert "route-reason route.release.publish: The approved package is ready" in agent_bundler("code", "list").out
    located = answer("code", "locate", "route.release.check")
    assert located["document"]["filePath"] == str(here / "resources/checklist.md")
    assert "document" not in answer("code", "locate", "route.release.publish")
    assert "resources/checklist.md" in agent_bundler("code", "locate", "route.release.check").out
    assert refused("code", "locate", "route.release.chek") == "code-missing"
    text = (here / "provider.yaml").read_text()
    (here / "provider.yaml").write_text(text.replace("catalogs:\n  codes: codes.yaml\n", ""))
    assert answer("code", "list") == {"provider": "acme/release", "codes": []}
    assert refused("code", "locate", "route.release.check") == "code-missing"


def test_locating_resources(here: Path) -> None:
    value = answer("resource", "locate", "release.checklist")
    assert value["filePath"] == str(here / "resources/checklist.md")
    assert answer("resource", "locate", "resources/checklist.md") == value
    out = agent_bundler("resource", "locate", "release.checklist").out
    assert out == f"release.checklist: procedure, text/markdown\n{value['filePath']}\n{value['digest']}\n"
    assert refused("resource", "locate", "none") == "resource-missing"


def test_a_wheel_evaluates_and_has_no_routes(here: Path) -> None:
    built = answer("wheel", "../dist")["path"]
    assert answer("-m", built, "evaluate", "release") == answer("evaluate", "release")
    assert answer("-m", built, "test", "tests")["state"] == "passed"
    for arguments in (
        ["route", "release"],
        ["resource", "locate", "release.checklist"],
        ["code", "locate", "route.release.check"],
    ):
        assert refused("-m", built, *arguments) == "provider-not-installed"
