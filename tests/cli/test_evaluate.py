"""`evaluate`, `route`, `code` and `resource`, as their users meet them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from bundler.authoring.scaffold import scaffold
from bundler.protocol.schemas import NAMES, schema_path

from ..views import REVISION, with_command, write_view
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
    judge(value)
    return value


def judge(value: dict[str, Any]) -> None:
    """Hold a protocol object against its schema; other values have none."""
    if "schema" in value:
        name = value["schema"].removeprefix("agent-graph.").split(".")[0]
        assert name in NAMES
        jsonschema_rs.Draft202012Validator(json.loads(schema_path(name).read_bytes())).validate(value)


def refused(*arguments: str) -> str:
    """The code of the error, which is the same for people and in the envelope."""
    result = agent_bundler(*arguments)
    assert (result.status, result.out) == (1, "")
    assert "remedy:" in result.err
    assert "Traceback" not in result.err
    told = agent_bundler(*arguments, "--format", "json")
    assert (told.status, told.out) == (1, "")
    envelope = json.loads(told.err)
    judge(envelope)
    code = str(envelope["error"]["code"])
    assert code in result.err
    return code


def test_evaluate(here: Path) -> None:
    value = answer("evaluate", "release")
    assert (value["statusCode"], value["primaryRoute"]["node"]) == ("actionable", "check")
    value = answer("evaluate", "release", "--outcomes", CHECKED)
    assert (value["statusCode"], value["primaryRoute"]["node"]) == ("waiting-user", "approve")
    for authority in (
        ["--authority", "release.approve"],
        ["--authority=release.approve"],
        ["--authority", "x", "release.approve"],
        ["--authority", "x", "--authority", "release.approve"],
        ["--authority", "release.approve", "x", "--entry", "default"],
        ["--authority", "x", "-q", "--authority", "release.approve"],
    ):
        asked = answer("evaluate", "release", *authority, "--outcomes", CHECKED)
        assert asked["primaryRoute"]["availability"] == "immediate"
        assert asked == answer("evaluate", "--outcomes", CHECKED, "release", *authority)
    assert answer("evaluate", "release", "--authority", "--outcomes", CHECKED) == value  # none are given
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


def test_files_of_arguments(here: Path, tmp_path: Path) -> None:
    facts, outcomes, receipts = (tmp_path / name for name in ("facts.json", "outcomes.json", "receipts.json"))
    facts.write_text('{"a": [1, null, "é"]}\n')
    outcomes.write_text(CHECKED)
    one = answer("route", "release", "--facts", f"@{facts}", "--outcomes", f"@{outcomes}")
    assert one == answer("route", "release", "--facts", facts.read_text(), "--outcomes", CHECKED)
    (here / "link.json").symlink_to(facts)  # a link is the host's own affair, wherever it leads
    assert answer("route", "release", "--facts", "@link.json", "--outcomes", CHECKED) == one
    value = {"schema": "agent-graph.resource-read-receipts.v1", "provider": "acme/release", "receipts": []}
    receipts.write_text(json.dumps(value))
    assert answer("route", "release", "--resource-receipts", f"@{receipts}") == answer("route", "release")
    facts.write_text('{"a": 1,}')
    told = agent_bundler("evaluate", "release", "--facts", f"@{facts}").err
    assert f"{facts}:1:" in told


def test_a_skill_selects(here: Path) -> None:
    skill = ["--skill", "skills/release/SKILL.md"]
    assert answer(*skill, "evaluate") == answer("evaluate", "release")
    assert answer(*skill, "route") == answer("route", "release")
    assert refused(*skill, "evaluate", "other") == "skill-graph-conflict"
    assert refused(*skill, "evaluate", "--entry", "other") == "skill-entry-conflict"
    assert answer(*skill, "evaluate", "release", "--entry", "default") == answer("evaluate", "release")
    assert refused(*skill, "route", "other") == "skill-graph-conflict"
    assert refused(*skill, "-m", "elsewhere", "evaluate") == "option-invalid"
    assert answer(*skill, "-m", "provider.yaml", "evaluate") == answer("evaluate", "release")
    route_id = answer("evaluate", "release")["primaryRoute"]["routeId"]
    assert answer(*skill, "route", route_id) == answer("route", "release", route_id)
    file = here / "skills/release/SKILL.md"
    text = file.read_text()
    for old, new, code in (
        ("agent-graph.graph: release", "agent-graph.graph: other", "skill-graph-missing"),
        ("agent-graph.entry: default", "agent-graph.entry: other", "skill-entry-missing"),
    ):
        assert old in text
        file.write_text(text.replace(old, new))
        assert refused(*skill, "evaluate") == code


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
        (["release", "--facts", "@"], "file-missing"),
        (["release", "--facts", "@resources"], "file-missing"),
        (["release", "--facts", ""], "json-invalid"),
        (["release", "--facts", "{} x"], "json-invalid"),
        (["release", "--facts", '{"a": NaN}'], "json-invalid"),
        (["release", "--facts", '{"a": 1e400}'], "json-invalid"),
        (["release", "--facts", '{"a": "\\ud800"}'], "json-invalid"),
        (["release", "--facts", "{\udcff}"], "json-invalid"),
        (["release", "--facts", "null"], "json-object-required"),
        (["release", "--outcomes", "[]"], "json-object-required"),
        (["release", "--outcomes", '{"release/check": {"outcome": 1}}'], "outcome-invalid"),
        (["release", "--outcomes", '{"release/check": {}}'], "outcome-invalid"),
        (["release", "--authority", ""], "option-invalid"),
        (["release", "--authority", "\udcff"], "json-invalid"),
        (["release", "--entry", "\udcff"], "json-invalid"),
        (["release", "--state", "none.json"], "file-read-failed"),
        (["release", "-m", "nowhere"], "file-missing"),
        (["release", "-m", "provider:acme/nowhere"], "provider-not-installed"),
        (["release", "--skill", "nowhere/SKILL.md"], "file-missing"),
        (["release", "--skill", "resources/checklist.md"], "skill-binding-missing"),
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
    for arguments in (["a", "b"], ["a", "b", "c"], ["route:x", "release"], ["release", "other", value["routeId"]]):
        assert refused("route", *arguments) == "route-arguments-invalid"
    assert refused("route", value["routeId"]) == "graph-selection-missing"
    wrong = ["route", "release", "route:x", "--revision", "latest"]
    assert refused(*wrong) == "route-revision-stale"  # is told before the id is looked at
    for text, code in (
        ("", "json-invalid"),
        ("{", "json-invalid"),
        ("[]", "json-object-required"),
        ("{}", "schema-invalid"),
    ):
        assert refused("route", "release", "--resource-receipts", text) == code
    assert refused("route", "release", "--resource-receipts", "@none.json") == "file-missing"
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
    for name in ("none", "release/none", "release/check>release/approve", ""):
        assert refused("route", "release", "--why", name) == "node-unknown"
    found = answer("route", "release", "--why", "approve", "--outcomes", CHECKED)
    assert found["reasons"] == [f"release/approve is on offer: {found_id(CHECKED)}, requires-user"]
    assert found["revision"] == answer("evaluate", "release", "--outcomes", CHECKED)["revision"]


def found_id(outcomes: str) -> str:
    return str(answer("evaluate", "release", "--outcomes", outcomes)["primaryRoute"]["routeId"])


def test_a_run_is_a_state(here: Path, tmp_path: Path) -> None:
    run = str(tmp_path / "run.json")
    started = ["run", "start", "release", "--state", run, "--workspace", "/w", "--facts", '{"a": 1, "b": 1}']
    answer(*started, "--authority", "release.approve")
    answer("run", "record", "check", "completed", "--state", run)
    same = ["--facts", '{"b": 2, "a": 1}', "--outcomes", CHECKED, "--authority", "release.approve", "x"]
    one = answer("evaluate", "--state", run, "--facts", '{"b": 2}', "--authority", "x")
    assert one == answer("evaluate", "release", *same)
    assert one["primaryRoute"]["node"] == "approve"
    (plan,) = answer("route", "--state", run)["gate"]["inspectionAction"]["commandPlan"]
    assert plan["workingDirectory"] == "/w"
    (plan,) = answer("route", "--state", run, "--workspace", "/v")["gate"]["inspectionAction"]["commandPlan"]
    assert plan["workingDirectory"] == "/v"
    failed = CHECKED.replace("completed", "failed")
    over = answer("evaluate", "--state", run, "--outcomes", failed)
    kept = ["--facts", '{"a": 1, "b": 1}', "--authority", "release.approve"]
    assert over == answer("evaluate", "release", *kept, "--outcomes", failed)
    text = (here / "provider.yaml").read_text()
    (here / "provider.yaml").write_text(text.replace("acme/release", "acme/other"))
    assert refused("evaluate", "--state", run) == "run-provider-mismatch"


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
    for name in ("none", "", "/etc/passwd", "../p/resources/checklist.md", "actions/check.yaml", "\udcff"):
        assert refused("resource", "locate", name) == "resource-missing"


def test_locating_what_is_made(tmp_path: Path) -> None:
    root = str(write_view(tmp_path, with_command("true")))
    assert answer("-m", root, "resource", "locate", "view")["materialize"] == {"resourceId": "view"}
    for name, found in (("view", "view"), ("resources/made.yaml", "made")):
        value = answer("-m", root, "resource", "locate", name, "--revision", REVISION)
        assert (value["id"], value["revision"]) == (found, REVISION)
        assert refused("-m", root, "resource", "locate", name, "--revision", "latest") == "revision-invalid"
    assert refused("-m", root, "resource", "locate", "made") == "revision-invalid"
    assert agent_bundler("-m", root, "resource", "locate", "made", "--revision", REVISION).out.startswith(
        'made: context-view, application/json\n{"handler": "acme.index"'
    )


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
