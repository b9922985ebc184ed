"""Routes: what is chosen, what is planned, what a Gate shows, what has been read."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from bundler.errors import BundlerError
from bundler.protocol.canonical import sha256
from bundler.protocol.schemas import schema_path
from bundler.runtime.locations import read_receipts
from bundler.runtime.open import open_provider
from bundler.runtime.provider import OpenedProvider
from bundler.wheel.build import make_wheel

from ..builders import ACTION, GRAPH, SKILL, SKILL_ACTION, Files, build_from, minimal, write_out
from ..views import REVISION, with_command, write_view

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
        assert found.primary is not None
        assert code(provider.route, found, "route:x", revision="sha256:0") == "route-revision-stale"
        assert code(provider.route, found, "route:x", revision=found.revision) == "route-stale"
        ended = provider.evaluate("main", outcomes={"main/work": "completed"})
        assert code(provider.route, ended) == "route-unavailable"
        assert code(provider.route, ended, found.primary.route_id) == "route-stale"
        assert code(provider.route, ended, revision=found.revision) == "route-revision-stale"
        assert code(provider.route, provider.evaluate("main", outcomes={"main/work": "failed"})) == "route-unavailable"
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


@pytest.mark.parametrize(
    ("runtime", "program"), [("node", "node"), ("bun", "bun"), ("python", "python3"), ("shell", "sh")]
)
def test_programs_of_scripts(tmp_path: Path, runtime: str, program: str) -> None:
    script = SCRIPT.replace("runtime: shell", f"runtime: {runtime}\ncwd: provider").partition("args")[0]
    with opened({**minimal(actions__work_yaml=script), "go it.sh": "x"}, tmp_path / "it's") as provider:
        (step,) = provider.route(provider.evaluate("main")).command_plan
    root = str(tmp_path / "it's" / "p")
    quoted = f"{root}/go it.sh".replace("'", "'\"'\"'")
    assert (step.command, step.working_directory) == (f"{program} '{quoted}'", root)


def test_a_plan_is_what_a_shell_runs(tmp_path: Path) -> None:
    """Every argument comes out as it was written, whatever it holds."""
    words = ["", " ", "it's", "''", '"', "$HOME", "`id`", "$(id)", "a\\b", "a\nb", "*", "-n", "é", "#", "!x", "a;b|c&d"]
    text = SCRIPT.partition("args")[0] + f"args: {json.dumps(words)}\n"
    files = {**minimal(actions__work_yaml=text), "go it.sh": "printf '%s\\0' \"$@\"\n"}
    with opened(files, tmp_path / "a 'b' $c") as provider:
        (step,) = provider.route(provider.evaluate("main"), workspace=tmp_path).command_plan
    assert step.command is not None
    done = subprocess.run(["sh", "-c", step.command], cwd=step.working_directory, capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == words


def test_without_a_workspace_the_current_folder_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with opened(minimal(), tmp_path) as provider:
        found = provider.evaluate("main")
        for workspace, expected in ((None, tmp_path), ("sub/../w", tmp_path / "w"), (tmp_path / "x", tmp_path / "x")):
            (step,) = provider.route(found, workspace=workspace).command_plan
            assert step.working_directory == str(expected)


def test_schemas_of_an_action_are_located(tmp_path: Path) -> None:
    text = ACTION + "inputSchema: schemas/in.json\noutputSchema: schemas/out.json\n"
    files = {**minimal(actions__work_yaml=text), "schemas/in.json": "{}", "schemas/out.json": '{"type": "object"}'}
    with opened(files, tmp_path) as provider:
        action = as_json(provider.route(provider.evaluate("main")))["action"]
    for name, role, file in (("inputSchema", "input", "in.json"), ("outputSchema", "output", "out.json")):
        assert action[name] == {
            "schema": "agent-graph.resource-location.file.v1",
            "id": f"schema.work.{role}",
            "kind": "schema",
            "mediaType": "application/schema+json",
            "digest": sha256(str(files[f"schemas/{file}"]).encode()),
            "filePath": str(tmp_path / "p" / "schemas" / file),
        }


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


@pytest.mark.parametrize("authority", ["p", "q"])
@pytest.mark.parametrize(
    ("delegated", "inspection", "resolution", "lists"),
    [
        ("", "look", "work", [["guide"], []]),
        ("    delegated: { }\n", "look", "work", [["guide"], []]),
        ("    delegated: { inspection: required }\n", "look", "work", [["guide"], []]),
        ("    delegated: { inspection: skip }\n", None, "work", [["guide"], []]),
        ("    delegated: { resolutionAction: actions/other.yaml }\n", "look", "other", [["guide"], []]),
        ("    delegated: { resources: { } }\n", "look", "work", [[], []]),
        ("    delegated: { resources: { required: [], recommended: [] } }\n", "look", "work", [[], []]),
        ("    delegated: { resources: { recommended: [guide.md] } }\n", "look", "work", [[], ["guide"]]),
    ],
)
def test_the_delegated_rules(  # noqa: PLR0917
    tmp_path: Path,
    authority: str,
    delegated: str,
    inspection: str | None,
    resolution: str,
    lists: list[list[str]],
) -> None:
    """They hold for the authority that the Gate names, and for nobody else."""
    lines = [line for line in GATE.splitlines(keepends=True) if "delegated:" not in line]
    place = next(index for index, line in enumerate(lines) if "resources:" in line)
    graph = "".join([*lines[:place], delegated, *lines[place:]])
    with opened({**GATED, "graphs/main.yaml": graph}, tmp_path) as provider:
        value = as_json(provider.route(provider.evaluate("main", authorities=[authority])))
    if authority == "q":
        inspection, resolution, lists = "look", "work", [["guide"], []]
    gate = value["gate"]
    assert gate["resolution"] == ("session-authority" if authority == "p" else "user")
    assert value["availability"] == ("immediate" if authority == "p" else "requires-user")
    assert gate.get("inspectionAction", {"action": {"id": None}})["action"]["id"] == inspection
    assert gate["resolutionAction"]["action"]["id"] == resolution
    assert [[each["id"] for each in value["resources"][need]] for need in ("required", "recommended")] == lists
    assert (value["commandPlan"], "action" in value) == ([], False)
    assert (gate["id"], gate["prompt"], gate["authority"], gate["delegatable"]) == ("ok", "Go on?", "p", True)


def test_a_plain_gate_says_no_more_than_it_was_given(tmp_path: Path) -> None:
    lines = GATE.replace(", authority: p, delegatable: true", "").splitlines(keepends=True)
    graph = "".join(line for line in lines if "delegated:" not in line and "Action:" not in line)
    with opened({**GATED, "graphs/main.yaml": graph}, tmp_path) as provider:
        value = as_json(provider.route(provider.evaluate("main", authorities=["p"])))
    assert value["gate"] == {"id": "ok", "prompt": "Go on?", "resolution": "user"}


def test_a_route_inside_of_subgraphs(tmp_path: Path) -> None:
    outer = """schema: agent-graph.graph.v1
id: {0}
entrypoints: {{ default: below }}
nodes: [{{ id: below, kind: subgraph, graph: {1}, entry: default }}, {{ id: end, kind: terminal, terminalOutcome: completed }}]
edges: [{{ from: below, to: end }}]
"""
    listed = str(minimal()["provider.yaml"]).replace("[", "[one.yaml, two.yaml, ")
    files = {
        **minimal(provider_yaml=listed),
        "one.yaml": outer.format("one", "two"),
        "two.yaml": outer.format("two", "main"),
    }
    with opened(files, tmp_path) as provider:
        value = as_json(provider.route(provider.evaluate("one")))
        assert value["callPath"] == ["one/below", "two/below"]
        assert value["afterAction"] == {"evaluate": True, "recordNode": "one/below>two/below>main/work"}
        done = {value["afterAction"]["recordNode"]: "completed"}
        assert provider.evaluate("one", outcomes=done).status == "complete"
        assert provider.evaluate("one", outcomes={"main/work": "completed"}).status == "actionable"


def test_receipts_of_the_three_protocols(tmp_path: Path) -> None:
    with open_provider(write_view(tmp_path, with_command("true"))) as provider:
        found = provider.evaluate("main")
        fresh = as_json(provider.route(found))["resources"]["required"]
        assert [(each["id"], each["readState"]) for each in fresh] == [
            *(("view", "read-required"), ("made", "read-required"), ("guide", "read-required")),
        ]
        some = "sha256:" + "1" * 64
        made = [{"id": name, "digest": some, "revision": found.revision} for name in ("view", "made")]
        value = {
            "schema": "agent-graph.resource-read-receipts.v1",
            "provider": "acme/demo",
            "receipts": [*made, {"id": "guide", "digest": fresh[2]["digest"]}],
        }
        receipts = read_receipts(value, "acme/demo")
        read = as_json(provider.route(found, receipts=receipts))["resources"]["required"]
        assert [each["readState"] for each in read] == ["current"] * 3
        assert found == provider.evaluate("main")  # receipts are no part of a State
        # Of another Route, what is made has to be read again; a file is the same.
        later = as_json(provider.route(provider.evaluate("main", facts={"a": 1}), receipts=receipts))
        assert [each["readState"] for each in later["resources"]["required"]] == [
            *("read-required", "read-required", "current"),
        ]


def test_a_host_action_is_told_from_what_was_verified(tmp_path: Path) -> None:
    """A schema that is replaced after it was verified changes nothing that a Route says of it."""
    root = write_view(tmp_path, with_command("true"))
    build_from(root, tmp_path / "bundle")
    with open_provider(tmp_path / "bundle") as provider:
        expected = as_json(provider.route(provider.evaluate("main")))
    with open_provider(tmp_path / "bundle") as provider:
        (tmp_path / "bundle/schemas/request.json").write_text('{"$id": "evil/v1"}')
        assert as_json(provider.route(provider.evaluate("main"))) == expected


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


@pytest.mark.parametrize("revision", ["", "x", "sha256:", "sha256:" + "G" * 64, "sha256:" + "0" * 64 + "\n"])
@pytest.mark.parametrize("resource", ["view", "made"])
def test_what_is_made_belongs_to_a_revision(tmp_path: Path, resource: str, revision: str) -> None:
    with open_provider(write_view(tmp_path, with_command("true"))) as provider:
        assert code(provider.locate, resource, revision=revision) == "revision-invalid"
        located = provider.locate(resource, revision=REVISION).to_json()
    jsonschema_rs.Draft202012Validator(json.loads(schema_path("resource-location").read_bytes())).validate(located)
    assert located["revision"] == REVISION


CATALOG = """schema: agent-graph.code-catalog.v1
codes:
  - { code: route.main.work, kind: route-reason, summary: Work is left, document: guide.md }
  - { code: acme.broken, kind: diagnostic, severity: warning, summary: It is broken }
"""


def test_locating_codes(tmp_path: Path) -> None:
    listed = f"{minimal()['provider.yaml']}catalogs: {{ codes: codes.yaml }}\n"  # type: ignore[str-bytes-safe]
    with opened({**minimal(provider_yaml=listed), "codes.yaml": CATALOG, "guide.md": GUIDE}, tmp_path) as provider:
        found, document = provider.locate_code("route.main.work")
        assert (found.summary, found.kind) == ("Work is left", "route-reason")
        assert document == provider.locate("guide")
        assert as_json(provider.route(provider.evaluate("main")))["hint"] == "Work is left"
        found, document = provider.locate_code("acme.broken")
        assert (found.severity, document) == ("warning", None)
        assert code(provider.locate_code, "acme.brokn") == "code-missing"
        wheel = make_wheel(provider, tmp_path / "dist")
    with open_provider(wheel.path) as provider:
        assert provider.locate_code("acme.broken") == (found, None)
        assert code(provider.locate_code, "route.main.work") == "provider-not-installed"
