"""Routes: what is chosen, what is planned, what a Gate shows, what has been read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from bundler.errors import BundlerError
from bundler.protocol.schemas import schema_path
from bundler.runtime.locations import read_receipts
from bundler.runtime.open import open_provider
from bundler.runtime.provider import OpenedProvider
from bundler.runtime.why import explain_node
from bundler.wheel.build import make_wheel

from ..builders import ACTION, GRAPH, SKILL, SKILL_ACTION, Files, minimal, write_out

GATE = """schema: agent-graph.graph.v1
id: main
entrypoints: { default: ask }
nodes:
  - id: ask
    kind: gate
    reasonCode: route.main.ask
    gate: { id: ok, prompt: Go on?, authority: p, delegatable: true }
    inspectionAction: actions/look.yaml
    resolutionAction: actions/work.yaml
    delegated: { inspection: skip, resolutionAction: actions/other.yaml, resources: { recommended: [guide.md] } }
    resources: { required: [guide.md] }
  - { id: done, kind: terminal, terminalOutcome: completed }
edges: [{ from: ask, to: done }]
"""
LOOK = "schema: agent-graph.action.v1\nid: look\nrunner: host\neffect: read\nhandler: acme.look\n"
OTHER = "schema: agent-graph.action.v1\nid: other\nrunner: agent\neffect: write\nskill: skills/s/SKILL.md\n"
GUIDE = "---\nid: guide\nkind: procedure\n---\n\n# Guide\n"
SCRIPT = """schema: agent-graph.action.v1
id: work
runner: script
effect: write
runtime: shell
entry: go it.sh
args: ["it's", '', 'a b']
"""
GATED = {
    **minimal(graphs__main_yaml=GATE),
    "actions/look.yaml": LOOK,
    "actions/other.yaml": OTHER,
    "guide.md": GUIDE,
    "skills/s/SKILL.md": SKILL,
}


@contextmanager
def opened(files: Files, root: Path) -> Iterator[OpenedProvider]:
    with open_provider(write_out(files, root / "p")) as found:
        yield found


def as_json(route: Any) -> dict[str, Any]:
    value: dict[str, Any] = route.to_json()
    jsonschema_rs.Draft202012Validator(json.loads(schema_path("route").read_bytes())).validate(value)
    return value


def code(call: Any, *arguments: Any, **more: Any) -> str:
    with pytest.raises(BundlerError) as raised:
        call(*arguments, **more)
    assert raised.value.hint
    return raised.value.code


def test_the_revision_is_checked_before_the_id(tmp_path: Path) -> None:
    with opened(minimal(), tmp_path) as provider:
        found = provider.evaluate("main")
        assert code(provider.route, found, "route:x", revision="sha256:0") == "route-revision-stale"
        assert code(provider.route, found, "route:x", revision=found.revision) == "route-stale"
        assert code(provider.route, provider.evaluate("main", outcomes={"main/work": "failed"})) == "route-unavailable"
        assert found.primary is not None
        assert as_json(provider.route(found, found.primary.route_id, revision=found.revision))["node"] == "work"


@pytest.mark.parametrize(
    ("action", "plan"),
    [
        (ACTION, {"command": "make work"}),
        (ACTION + "cwd: provider\n", {"command": "make work", "cwd": "provider", "workingDirectory": "{ROOT}"}),
        (
            SCRIPT,
            {"command": "sh '{ROOT}/go it.sh' 'it'\"'\"'s' '' 'a b'"},
        ),
        (
            "schema: agent-graph.action.v1\nid: work\nrunner: host\neffect: write\nhandler: acme.do\n",
            {"handler": "acme.do"},
        ),
        (SKILL_ACTION, None),
    ],
)
def test_command_plans(tmp_path: Path, action: str, plan: dict[str, str] | None) -> None:
    files = {**minimal(actions__work_yaml=action), "go it.sh": "x", "skills/s/SKILL.md": SKILL}
    with opened(files, tmp_path) as provider:
        value = as_json(provider.route(provider.evaluate("main"), workspace="/w"))
    expected = {"effect": "write", "cwd": "workspace", "workingDirectory": "/w", **(plan or {})}
    text = json.dumps([expected] if plan is not None else []).replace("{ROOT}", str(tmp_path / "p"))
    assert value["commandPlan"] == json.loads(text)


def test_a_skill_comes_first_and_needs_a_name(tmp_path: Path) -> None:
    graph = GRAPH.replace("action: actions/work.yaml", "action: actions/work.yaml, resources: { required: [guide.md] }")
    files = {
        **minimal(actions__work_yaml=SKILL_ACTION, graphs__main_yaml=graph),
        "guide.md": GUIDE,
        "skills/s/SKILL.md": SKILL,
    }
    with opened(files, tmp_path) as provider:
        value = as_json(provider.route(provider.evaluate("main")))
    assert [each["id"] for each in value["resources"]["required"]] == ["skill.s", "guide"]
    assert value["action"]["skill"]["filePath"] == str(tmp_path / "p/skills/s/SKILL.md")
    for text in ("no front matter", "---\nname: 5\n---\n", "---\nname: ''\n---\n"):
        with opened({**files, "skills/s/SKILL.md": text}, tmp_path) as provider:
            assert code(provider.route, provider.evaluate("main")) == "skill-frontmatter-unusable"


def test_a_gate_with_and_without_authority(tmp_path: Path) -> None:
    with opened(GATED, tmp_path) as provider:
        user = as_json(provider.route(provider.evaluate("main"), workspace="/w"))
        session = as_json(provider.route(provider.evaluate("main", authorities=["p"])))
    assert (user["commandPlan"], user["statusCode"], user["gate"]["resolution"]) == ([], "waiting-user", "user")
    assert user["gate"]["inspectionAction"]["commandPlan"][0]["handler"] == "acme.look"
    assert user["gate"]["resolutionAction"]["commandPlan"][0]["command"] == "make work"
    assert [len(user["resources"][each]) for each in ("required", "recommended")] == [1, 0]
    assert (session["statusCode"], session["gate"]["resolution"]) == ("actionable", "session-authority")
    assert "inspectionAction" not in session["gate"]
    assert session["gate"]["resolutionAction"]["action"]["skill"]["id"] == "skill.s"
    assert [len(session["resources"][each]) for each in ("required", "recommended")] == [0, 1]


def test_what_was_read(tmp_path: Path) -> None:
    with opened(GATED, tmp_path) as provider:
        found = provider.evaluate("main")
        (guide,) = provider.route(found).required
        assert guide.read_state == "read-required"
        receipt = {"id": "guide", "digest": guide.to_json()["digest"]}
        receipts = {"schema": "agent-graph.resource-read-receipts.v1", "provider": "acme/demo", "receipts": [receipt]}
        (guide,) = provider.route(found, receipts=read_receipts(receipts, "acme/demo")).required
        assert guide.read_state == "current"
        other = {**receipts, "receipts": [{**receipt, "digest": "sha256:" + "0" * 64}]}
        (guide,) = provider.route(found, receipts=read_receipts(other, "acme/demo")).required
        assert guide.read_state == "read-required"
    assert code(read_receipts, receipts, "acme/other") == "resource-receipts-provider-mismatch"
    assert code(read_receipts, {**receipts, "more": 1}, "acme/demo") == "schema-invalid"


def test_a_wheel_file_has_no_routes(tmp_path: Path) -> None:
    with opened(GATED, tmp_path) as provider:
        expected = provider.evaluate("main").to_json()
        wheel = make_wheel(provider, tmp_path / "dist")
    with open_provider(wheel.path) as provider:
        found = provider.evaluate("main")
        assert found.to_json() == expected
        assert code(provider.route, found) == "provider-not-installed"
        assert code(provider.locate, "guide") == "provider-not-installed"


def test_locating(tmp_path: Path) -> None:
    with opened(GATED, tmp_path) as provider:
        by_id, by_path = provider.locate("guide"), provider.locate("./guide.md")
        assert by_id == by_path
        assert by_id.to_json()["filePath"] == str(tmp_path / "p/guide.md")
        assert code(provider.locate, "guied") == "resource-missing"
        assert code(provider.locate, "../x") == "resource-missing"
        assert code(provider.locate_code, "route.x") == "code-missing"


@pytest.mark.parametrize(
    ("outcomes", "node", "reasons"),
    [
        ({}, "work", ["main/work is on offer: route:"]),
        ({}, "main/work", ["main/work is on offer: route:"]),
        (
            {},
            "done",
            [
                "done is not reached: each of its incoming edges has to match",
                "flow from work takes completed; work is pending: it does not match",
            ],
        ),
        (
            {"main/work": "completed"},
            "done",
            [
                "the Graph `main` is complete with Outcome completed: nothing in it is on offer",
                "done is reached, and its Outcome is completed",
                "done is a terminal, which is never on offer itself",
            ],
        ),
        ({"main/work": "failed"}, "work", ["work is reached, and its Outcome is failed"]),
    ],
)
def test_why(tmp_path: Path, outcomes: dict[str, str], node: str, reasons: list[str]) -> None:
    with opened(minimal(), tmp_path) as provider:
        found = explain_node(provider.provider, provider.evaluate("main", outcomes=outcomes), node)
        assert len(found) == len(reasons)
        assert all(one.startswith(other) for one, other in zip(found, reasons, strict=True))
        assert code(explain_node, provider.provider, provider.evaluate("main"), "wrok") == "node-unknown"


def test_why_inside_of_a_subgraph(tmp_path: Path) -> None:
    outer = """schema: agent-graph.graph.v1
id: outer
entrypoints: { default: first }
nodes:
  - { id: first, kind: action, reasonCode: route.x, action: actions/work.yaml }
  - { id: below, kind: subgraph, graph: main, entry: default, requiresFacts: [{ path: a, exists: true }] }
  - { id: alone, kind: action, reasonCode: route.x, action: actions/work.yaml }
  - { id: end, kind: terminal, terminalOutcome: completed }
edges: [{ from: first, to: below }, { from: below, to: end }]
"""
    files = minimal(provider_yaml=str(minimal()["provider.yaml"]).replace("[", "[outer.yaml, "))
    with opened({**files, "outer.yaml": outer}, tmp_path) as provider:

        def why(node: str, **asked: Any) -> list[str]:
            return explain_node(provider.provider, provider.evaluate("outer", **asked), node)

        passed = {"outer/first": "completed"}
        assert why("outer/below>main/work", outcomes=passed, facts={"a": 1})[0].startswith(
            "outer/below>main/work is on offer"
        )
        assert why("outer/below>main/work")[0] == "below is not reached: each of its incoming edges has to match"
        blocked = why("outer/below>main/done", outcomes=passed)
        assert blocked[0] == "below is reached, and its Outcome is blocked: the node `below` requires `a` to exist"
        assert why("alone") == ["alone is not reached: it is not the entrypoint, and no edge leads to it"]
        assert (
            why("below", outcomes=passed, facts={"a": 1})[-1] == "below is a subgraph, which is never on offer itself"
        )
