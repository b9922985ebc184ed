"""The protocol's schemas, what they refuse and how it is told; schemas that a Provider brings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from bundler.data import copy_out
from bundler.errors import BundlerError, Diagnostic
from bundler.protocol.documents import parse_json, parse_yaml, pointer_step
from bundler.protocol.schemas import (
    MAX_FAULTS,
    NAMES,
    check,
    schema_path,
)

ROOT = Path(__file__).parents[2]
SCHEMAS = {name: json.loads(schema_path(name).read_bytes()) for name in NAMES}
DRAFT = "https://json-schema.org/draft/2020-12/schema"
DIGEST = "sha256:" + "0123456789abcdef" * 4
TIME = "2026-11-30T12:00:00Z"


def faults(name: str, value: Any) -> tuple[Diagnostic, ...]:
    """What a schema finds wrong with a value; nothing if it is valid."""
    document = parse_json(json.dumps(value).encode(), "f.json")
    found: BundlerError | None = None
    try:
        check(document, name)
    except BundlerError as error:
        found = error
    if found is None:
        return ()
    assert found.code == "schema-invalid"
    assert found.diagnostics
    return found.diagnostics


def walk(value: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its pointer."""
    yield pointer, value
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in below:
        yield from walk(item, pointer + pointer_step(key))


def parent(value: Any, pointer: str) -> tuple[Any, Any]:
    """What holds the value at a pointer, and its key or index there."""
    *steps, last = (step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])
    for step in steps:
        value = value[int(step)] if isinstance(value, list) else value[step]
    return (value, int(last)) if isinstance(value, list) else (value, last)


def changed(value: Any, pointer: str, item: Any) -> Any:
    """A copy with another value at a pointer."""
    value = json.loads(json.dumps(value))
    container, key = parent(value, pointer)
    container[key] = item
    return value


def removed(value: Any, pointer: str) -> Any:
    """A copy without the field at a pointer."""
    value = json.loads(json.dumps(value))
    container, key = parent(value, pointer)
    del container[key]
    return value


def pattern(pointer: str) -> str:
    """A pointer with `*` for indices."""
    return "/".join("*" if step.isdigit() else step for step in pointer.split("/"))


# The files


def test_the_names_are_those_of_the_protocol_and_of_the_files() -> None:
    assert sorted(NAMES) == list(NAMES)
    assert set(NAMES) == {
        "provider",
        "graph",
        "action",
        "resource",
        "code-catalog",
        "code-location",
        "resource-location",
        "resource-read-receipts",
        "host-action-result",
        "skill-binding",
        "evaluation",
        "route",
        "run",
        "test-case",
        "bundle",
        "error",
        "inspect",
    }
    assert {path.name for path in (ROOT / "schemas").iterdir()} == {f"{name}.schema.json" for name in NAMES}
    assert {schema_path(name).parent for name in NAMES} == {ROOT / "schemas"}


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_one_of_draft_2020_12_with_its_id(name: str) -> None:
    schema = SCHEMAS[name]
    assert schema["$schema"] == DRAFT
    assert schema["$id"] == f"https://agent-graph.dev/schemas/{name}.schema.json"
    assert schema["title"]
    jsonschema_rs.meta.validate(schema)
    jsonschema_rs.Draft202012Validator(schema)


@pytest.mark.parametrize("name", NAMES)
def test_every_reference_of_a_schema_is_to_a_definition_of_its_own_and_every_definition_is_used(name: str) -> None:
    references = {value for pointer, value in walk(SCHEMAS[name]) if pointer.endswith("/$ref")}
    assert references == {f"#/$defs/{definition}" for definition in SCHEMAS[name].get("$defs", {})}


def test_definitions_of_one_name_are_identical_in_all_files() -> None:
    seen: dict[str, tuple[str, Any]] = {}
    for name, schema in SCHEMAS.items():
        for definition, value in schema.get("$defs", {}).items():
            first, expected = seen.setdefault(definition, (name, value))
            assert value == expected, f"{definition} of {name} is not that of {first}"


@pytest.mark.parametrize("name", ["", "Provider", "provider.schema.json", "../pyproject", "provider\n", "nothing"])
def test_an_unknown_schema(name: str) -> None:
    for call in (lambda: schema_path(name),):
        with pytest.raises(BundlerError) as caught:
            call()
        assert caught.value.code == "schema-type-unknown"
    assert not Path("never-written").exists()


def test_a_schema_is_extracted_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert copy_out(schema_path("graph"), "g.json") == str(tmp_path / "g.json")
    assert (tmp_path / "g.json").read_bytes() == schema_path("graph").read_bytes()


def test_extraction_overwrites_nothing(tmp_path: Path) -> None:
    target = tmp_path / "g.json"
    target.write_text("mine")
    for output in (target, tmp_path):
        with pytest.raises(BundlerError) as caught:
            copy_out(schema_path("graph"), str(output))
        assert caught.value.code == "schema-target-exists"
    assert target.read_text() == "mine"


def test_extraction_to_a_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(BundlerError) as caught:
        copy_out(schema_path("graph"), str(tmp_path / "no" / "g.json"))
    assert caught.value.code == "output-write-failed"
    assert caught.value.is_environment


# What is valid, which fields are optional, and that there are no others

CHECKS = [{"path": "a.b_c-0", "equals": None}, {"path": "x", "exists": False}]
RESOURCES = {"required": ["r/a.md"], "recommended": ["./r//b.md"]}
NODE = {"description": "", "priority": -5, "join": "any", "requiresFacts": CHECKS}
WORK = {**NODE, "reasonCode": "route.main.work", "satisfiedBy": CHECKS, "resources": RESOURCES}
GRAPH = {
    "schema": "agent-graph.graph.v1",
    "id": "main",
    "description": "",
    "entrypoints": {"default": "work", "other/one": "ask"},
    "nodes": [
        {"id": "work", "kind": "action", "action": "actions/work.yaml", **WORK},
        {
            "id": "ask",
            "kind": "gate",
            **WORK,
            "gate": {"id": "g", "prompt": "Go on?", "authority": "owner", "delegatable": True},
            "inspectionAction": "actions/look.yaml",
            "resolutionAction": "actions/decide.yaml",
            "delegated": {"inspection": "skip", "resolutionAction": "actions/auto.yaml", "resources": RESOURCES},
        },
        {"id": "sub", "kind": "subgraph", "graph": "other", "entry": "default", **NODE},
        {"id": "done", "kind": "terminal", "terminalOutcome": "waiting-user", **NODE},
    ],
    "edges": [{"from": "work", "to": "done", "kind": "gatedBy", "outcomes": ["completed", "partial"]}],
}
ACTION = {
    "schema": "agent-graph.action.v1",
    "id": "work",
    "description": "",
    "effect": "external",
    "files": ["a.txt"],
    "cwd": "provider",
    "inputSchema": "in.json",
    "outputSchema": "out.json",
}
OWN = {
    "command": {"command": "make"},
    "script": {"entry": "run.py", "runtime": "python", "args": ["", "-x"]},
    "agent": {"skill": "skills/s/SKILL.md"},
    "host": {"handler": "acme/handler"},
}
ACTIONS = {runner: {**ACTION, "runner": runner, **own} for runner, own in OWN.items()}
RESOURCE = {"id": "r", "kind": "template", "mediaType": "text/plain", "description": ""}
FILE_RESOURCE = {"schema": "agent-graph.resource.file.v1", **RESOURCE, "path": "r.txt"}
GRAPH_RESOURCE = {
    "schema": "agent-graph.resource.graph-action.v1",
    **RESOURCE,
    "kind": "context-view",
    "materializer": "actions/m.yaml",
}
HOST_RESOURCE = {
    "schema": "agent-graph.resource.host-action.v1",
    **RESOURCE,
    "materializer": "actions/m.yaml",
    "input": {"any": [1]},
}
PROVIDER = {
    "schema": "agent-graph.provider.v1",
    "id": "acme/demo",
    "version": "0.1.0",
    "name": "Demo",
    "description": "",
    "graphs": ["graphs/main.yaml"],
    "catalogs": {"codes": "codes.yaml"},
    "compatibility": {"agentGraph": "^0.3.0", "node": ">=20"},
}
CODE = {"code": "a.b", "kind": "diagnostic", "summary": "What", "severity": "info", "document": "d.md"}
CATALOG = {
    "schema": "agent-graph.code-catalog.v1",
    "codes": [CODE, {"code": "route.main.work", "kind": "route-reason", "summary": "Why", "document": "d.md"}],
}
DIAGNOSTIC = {"code": "c", "severity": "error", "message": "", "path": "p", "documentRef": "d", "detail": {"x": 1}}
FILE_LOCATION = {
    "schema": "agent-graph.resource-location.file.v1",
    "id": "r",
    "kind": "procedure",
    "mediaType": "text/markdown",
    "digest": DIGEST,
    "filePath": "/p/r.md",
    "readState": "current",
}
GRAPH_LOCATION = {
    "schema": "agent-graph.resource-location.graph-action.v1",
    "id": "r",
    "kind": "context-view",
    "mediaType": "text/plain",
    "revision": DIGEST,
    "readState": "read-required",
    "materialize": {"resourceId": "r"},
}
MADE_LOCATION = {**removed(GRAPH_LOCATION, "/materialize"), "digest": DIGEST, "filePath": "/c/r"}
HOST_LOCATION = {
    "schema": "agent-graph.resource-location.host-action.v1",
    "id": "r",
    "kind": "context-view",
    "mediaType": "text/plain",
    "revision": DIGEST,
    "readState": "current",
    "materialize": {"handler": "h", "input": {"schema": "a.in/v1", "value": {"x": 1}}, "output_schema": "a.out/v1"},
}
LOCATIONS = {"file": FILE_LOCATION, "graph": GRAPH_LOCATION, "made": MADE_LOCATION, "host": HOST_LOCATION}
SUMMARY = {
    "routeId": "route:" + "0123456789" * 2,
    "graph": "main",
    "node": "work",
    "statusCode": "actionable",
    "reasonCode": "route.main.work",
    "hint": "",
    "availability": "immediate",
    "label": "",
}
EVALUATION = {
    "schema": "agent-graph.evaluation.v1",
    "provider": "acme/demo",
    "graph": "main",
    "entry": "default",
    "revision": DIGEST,
    "statusCode": "actionable",
    "outcome": "completed",
    "primaryRoute": SUMMARY,
    "alternativeRoutes": [SUMMARY, SUMMARY, SUMMARY],
    "diagnostics": [DIAGNOSTIC],
}
PLAN = [
    {"command": "make", "effect": "read", "cwd": "provider", "workingDirectory": "/p"},
    {"handler": "h", "effect": "write", "cwd": "workspace", "workingDirectory": "/w"},
]
ROUTE_ACTION = {
    "id": "work",
    "runner": "agent",
    "effect": "write",
    "skill": FILE_LOCATION,
    "inputSchema": FILE_LOCATION,
    "outputSchema": FILE_LOCATION,
}
ROUTE = {
    "schema": "agent-graph.route.v1",
    "provider": "acme/demo",
    "revision": DIGEST,
    **removed(SUMMARY, "/label"),
    "callPath": ["main/sub"],
    "action": ROUTE_ACTION,
    "commandPlan": PLAN,
    "resources": {"required": list(LOCATIONS.values()), "recommended": [FILE_LOCATION]},
    "gate": {
        "id": "g",
        "prompt": "Go on?",
        "authority": "owner",
        "delegatable": False,
        "resolution": "session-authority",
        "inspectionAction": {"action": ROUTE_ACTION, "commandPlan": PLAN},
        "resolutionAction": {"action": ROUTE_ACTION, "commandPlan": []},
    },
    "diagnostics": [DIAGNOSTIC],
    "afterAction": {"evaluate": True, "recordNode": "main/work"},
}
RECORD = {"outcome": "failed", "recordedAt": TIME, "detail": {"x": 1}}
RUN = {
    "schema": "agent-graph.run.v1",
    "id": "run-1",
    "provider": "acme/demo",
    "graph": "main",
    "entry": "default",
    "workspace": "/w",
    "createdAt": TIME,
    "updatedAt": "2026-11-30t12:00:00.123+01:00",
    "facts": {"x": [1]},
    "outcomes": {"main/sub>other/work": RECORD},
    "authorities": ["owner"],
    "events": [
        {
            "sequence": 1,
            "at": TIME,
            "type": "node.outcome-recorded",
            "node": "main/work",
            "outcome": "failed",
            "detail": {},
        }
    ],
}
TEST = {
    "schema": "agent-graph.test.v1",
    "name": "it works",
    "graph": "main",
    "entry": "default",
    "state": {
        "facts": {"x": 1},
        "outcomes": {"main/work": "completed", "main/ask": RECORD},
        "authorities": ["owner"],
    },
    "expect": {
        "statusCode": "blocked",
        "primaryNode": "work",
        "primaryReasonCode": "route.main.work",
        "alternativeNodes": ["ask"],
        "availability": "requires-user",
        "command": "make",
        "handler": "h",
        "requiredResources": ["r"],
        "recommendedResources": [],
        "gateResolution": "user",
        "inspectionCommand": "make",
        "inspectionHandler": "h",
        "inspectionSkill": "skill.s",
        "inspectionInputSchema": "schema.a.input",
        "resolutionCommand": "make",
        "resolutionHandler": "h",
        "resolutionSkill": "skill.s",
        "resolutionInputSchema": "schema.a.input",
        "recordNode": "main/work",
        "outcome": "completed",
        "diagnosticsInclude": ["no-route"],
    },
}
ENTRY = {"id": "x", "path": "x.yaml", "digest": DIGEST}
BUNDLE = {
    "schema": "agent-graph.bundle.v1",
    "provider": {"id": "acme/demo", "version": "0.1.0"},
    "providerManifest": "provider.yaml",
    "graphs": [ENTRY],
    "actions": [ENTRY],
    "resources": [{**ENTRY, "id": "Any Text!"}],
    "schemas": [{**ENTRY, "id": "Any Text!"}],
    "files": [{"path": "x.yaml", "digest": DIGEST}],
    "graphDependencies": {"main": ["other"], "other": []},
    "digest": DIGEST,
}
ERROR = {
    "schema": "agent-graph.error.v1",
    "state": "error",
    "error": {"code": "c", "message": "", "diagnostics": [DIAGNOSTIC]},
}
INSPECT = {
    "schema": "agent-graph.inspect.v1",
    "state": "valid",
    "provider": {"id": "acme/demo", "version": "0.1.0", "manifest": "/p/provider.yaml"},
    "counts": {"graphs": 1, "nodes": 1, "edges": 0, "actions": 1, "resources": 1, "codes": 1},
    "graphs": [
        {
            "id": "main",
            "description": "",
            "path": "g.yaml",
            "entrypoints": {"default": "work"},
            "nodes": [{"id": "work", "kind": "action", "description": "", "reasonCode": "route.x", "priority": 0}],
            "dependencies": ["other"],
        }
    ],
    "actions": [{"id": "work", "runner": "host", "effect": "read", "path": "a.yaml"}],
    "resources": [{"id": "r", "kind": "skill", "dynamic": False, "path": "r.md"}],
    "codes": [CODE],
}
RESULT = {
    "schema": "agent-graph.host-action-result.v1",
    "handler": "h",
    "input_digest": DIGEST,
    "output": {"schema": "a.out/v1", "inline": None},
    "receipt": {"adapter": "a", "adapter_version": "1"},
}
BINDING = {
    "schema": "agent-graph.skill-binding.v1",
    "skillPath": "/s/SKILL.md",
    "locator": "path:../../provider.yaml",
    "graph": "main",
    "entry": "default",
    "manifestPath": "/p/provider.yaml",
    "provider": "acme/demo",
}
RECEIPTS = {
    "schema": "agent-graph.resource-read-receipts.v1",
    "provider": "acme/demo",
    "receipts": [{"id": "r", "digest": DIGEST, "revision": DIGEST}],
}
CODE_LOCATION = {"schema": "agent-graph.code-location.v1", "provider": "acme/demo", **CODE, "document": FILE_LOCATION}

#: Each with every field that it may have.
VALID: dict[str, tuple[str, Any]] = {
    "provider": ("provider", PROVIDER),
    "graph": ("graph", GRAPH),
    **{f"action-{runner}": ("action", value) for runner, value in ACTIONS.items()},
    "resource-file": ("resource", FILE_RESOURCE),
    "resource-graph": ("resource", GRAPH_RESOURCE),
    "resource-host": ("resource", HOST_RESOURCE),
    "code-catalog": ("code-catalog", CATALOG),
    "code-location": ("code-location", CODE_LOCATION),
    **{f"location-{kind}": ("resource-location", value) for kind, value in LOCATIONS.items()},
    "receipts": ("resource-read-receipts", RECEIPTS),
    "result-inline": ("host-action-result", RESULT),
    "result-file": (
        "host-action-result",
        changed(RESULT, "/output", {"schema": "a.out/v1", "resource": {"ref": "x", "digest": DIGEST}}),
    ),
    "skill-binding": ("skill-binding", BINDING),
    "evaluation": ("evaluation", EVALUATION),
    "route": ("route", ROUTE),
    "run": ("run", RUN),
    "test-case": ("test-case", TEST),
    "bundle": ("bundle", BUNDLE),
    "error": ("error", ERROR),
    "inspect": ("inspect", INSPECT),
}

#: Fields that may be missing, by the name of the schema and the pattern of their pointer.
OPTIONAL = {
    "provider": "/name /description /catalogs /catalogs/codes /compatibility /compatibility/agentGraph /compatibility/node",
    "graph": "/description /nodes/*/description /nodes/*/priority /nodes/*/join /nodes/*/requiresFacts "
    "/nodes/*/satisfiedBy /nodes/*/resources /nodes/*/resources/required /nodes/*/resources/recommended "
    "/nodes/*/inspectionAction /nodes/*/resolutionAction /nodes/*/delegated /nodes/*/delegated/inspection "
    "/nodes/*/delegated/resolutionAction /nodes/*/delegated/resources /nodes/*/delegated/resources/required "
    "/nodes/*/delegated/resources/recommended /nodes/*/gate/authority /nodes/*/gate/delegatable /edges/*/kind /edges/*/outcomes",
    "action": "/description /files /cwd /inputSchema /outputSchema /args",
    "resource": "/description",
    "code-catalog": "/codes/*/severity /codes/*/document",
    "code-location": "/severity /document /document/readState",
    "resource-location": "/readState",
    "resource-read-receipts": "/receipts/*/revision",
    "evaluation": "/outcome /primaryRoute /primaryRoute/hint /alternativeRoutes/*/hint",
    "route": "/hint /action /gate /gate/authority /gate/delegatable /gate/inspectionAction /gate/resolutionAction "
    "/resources/required/*/readState /resources/recommended/*/readState",
    "run": "/workspace /outcomes/main~1sub>other~1work/detail /events/*/node /events/*/outcome /events/*/detail",
    "test-case": "/state /state/facts /state/outcomes /state/authorities /state/outcomes/main~1ask/detail",
    "inspect": "/state /graphs/*/description /graphs/*/nodes/*/description /graphs/*/nodes/*/reasonCode "
    "/codes/*/severity /codes/*/document",
}
#: Objects that are anybody's data.
DATA = {"facts", "detail", "input", "value", "inline"}
#: Objects whose keys are names, not fields.
MAPS = {"entrypoints", "graphDependencies", "outcomes"}


def optional(name: str, pointer: str, value: Any) -> bool:
    """Whether the protocol lets the field be missing."""
    step = pattern(pointer)
    if step in OPTIONAL.get(name, "").split():
        return True
    last = pointer.rpartition("/")[2]
    if name in ("evaluation", "route", "error") and "/diagnostics/" in pointer:
        return last in ("path", "documentRef", "detail")
    if (name == "route" and "/action/" in pointer) or pointer.startswith("/action/"):
        return last in ("skill", "inputSchema", "outputSchema", "readState")
    if name == "test-case" and pointer.startswith("/expect/"):
        return last != "statusCode"
    # The revision of a location is optional only where a Graph's Action makes it.
    container, _ = parent(value, pointer)
    return last == "revision" and container.get("schema") == "agent-graph.resource-location.graph-action.v1"


def fields(value: Any, pointer: str = "", last: str = "") -> Iterator[tuple[str, dict[str, Any], bool]]:
    """(pointer, object, whether its keys are names) of each object that is no data."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from fields(item, f"{pointer}/{index}")
    elif isinstance(value, dict) and (last not in DATA or ("schema" in value and last == "input")):
        yield pointer, value, last in MAPS
        for key, item in value.items():
            yield from fields(item, pointer + pointer_step(key), key)


LEVELS = [
    (title, name, pointer)
    for title, (name, value) in VALID.items()
    for pointer, _, is_map in fields(value)
    if not is_map
]
FIELDS = [
    (title, pointer + pointer_step(key))
    for title, (_, value) in VALID.items()
    for pointer, item, is_map in fields(value)
    if not is_map
    for key in item
]


@pytest.mark.parametrize("title", list(VALID))
def test_an_object_with_every_field_is_valid(title: str) -> None:
    assert faults(*VALID[title]) == ()


@pytest.mark.parametrize("name", NAMES)
def test_every_schema_has_an_object_in_this_test(name: str) -> None:
    assert name in {schema for schema, _ in VALID.values()}


@pytest.mark.parametrize(("title", "name", "pointer"), LEVELS)
def test_unknown_fields_are_refused_at_every_level(title: str, name: str, pointer: str) -> None:
    value = changed(VALID[title][1], f"{pointer}/Unknown ~0field", 1)
    found = faults(name, value)
    assert found
    if name not in ("route", "resource-location", "host-action-result"):
        # The alternatives of those are told as one fault.
        (fault,) = found
        assert (fault.code, fault.pointer) == ("schema.additionalProperties", f"{pointer}/Unknown ~0field")


@pytest.mark.parametrize(("title", "pointer"), FIELDS)
def test_which_fields_are_optional(title: str, pointer: str) -> None:
    name, value = VALID[title]
    assert (faults(name, removed(value, pointer)) == ()) == optional(name, pointer, value)


@pytest.mark.parametrize("title", list(VALID))
def test_the_schema_must_be_named_exactly(title: str) -> None:
    name, value = VALID[title]
    for other in ("", value["schema"] + " ", value["schema"].replace(".v1", ".v2"), 1, None):
        found = faults(name, changed(value, "/schema", other))
        assert [fault.pointer for fault in found] == ["/schema"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [None, True, 1, "x", [], {}])
def test_what_is_no_object_of_the_protocol_is_refused(name: str, value: Any) -> None:
    assert all(fault.pointer == "" for fault in faults(name, value))
    assert faults(name, value)


# Fields of another kind


@pytest.mark.parametrize("runner", list(OWN))
def test_fields_of_another_runner_are_refused(runner: str) -> None:
    for other, own in OWN.items():
        for key, item in own.items():
            if other != runner:
                found = faults("action", {**ACTIONS[runner], key: item})
                assert [(fault.code, fault.pointer) for fault in found] == [("schema.additionalProperties", f"/{key}")]


NEVER = {
    "action": "gate graph entry inspectionAction resolutionAction delegated terminalOutcome",
    "gate": "action graph entry terminalOutcome",
    "subgraph": "action reasonCode gate inspectionAction resolutionAction delegated terminalOutcome satisfiedBy resources",
    "terminal": "action reasonCode gate graph entry inspectionAction resolutionAction delegated satisfiedBy resources",
}


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind, names in NEVER.items() for field in names.split()])
def test_what_a_kind_of_node_never_has(kind: str, field: str) -> None:
    index = list(NEVER).index(kind)
    item = next(node[field] for node in GRAPH["nodes"] if field in node)
    found = faults("graph", changed(GRAPH, f"/nodes/{index}/{field}", item))
    assert [(fault.code, fault.pointer) for fault in found] == [
        ("schema.additionalProperties", f"/nodes/{index}/{field}")
    ]


@pytest.mark.parametrize(
    ("value", "key", "item"),
    [
        (FILE_RESOURCE, "materializer", "a.yaml"),
        (FILE_RESOURCE, "input", {}),
        (GRAPH_RESOURCE, "path", "a.md"),
        (GRAPH_RESOURCE, "input", {}),
        (HOST_RESOURCE, "path", "a.md"),
    ],
)
def test_fields_of_another_descriptor_are_refused(value: dict[str, Any], key: str, item: Any) -> None:
    found = faults("resource", {**value, key: item})
    assert [(fault.code, fault.pointer) for fault in found] == [("schema.additionalProperties", f"/{key}")]


STATIC = ["procedure", "diagnostic", "template", "schema", "skill"]


@pytest.mark.parametrize(
    ("value", "kinds"),
    [(FILE_RESOURCE, STATIC), (GRAPH_RESOURCE, ["context-view"]), (HOST_RESOURCE, [*STATIC, "context-view"])],
)
def test_the_kinds_of_each_descriptor(value: dict[str, Any], kinds: list[str]) -> None:
    for kind in [*STATIC, "context-view", "other", "", None]:
        assert (faults("resource", {**value, "kind": kind}) == ()) == (kind in kinds)


def test_a_location_that_a_graphs_action_makes_has_the_command_or_the_file() -> None:
    for name in ("digest", "filePath"):
        assert faults("resource-location", removed(MADE_LOCATION, f"/{name}"))
        assert faults("resource-location", {**GRAPH_LOCATION, name: MADE_LOCATION[name]})
    assert faults("resource-location", {**MADE_LOCATION, **GRAPH_LOCATION})


def test_an_output_is_inline_or_a_resource() -> None:
    both = {"schema": "s", "inline": 1, "resource": {"ref": "x", "digest": DIGEST}}
    assert faults("host-action-result", changed(RESULT, "/output", both))
    assert faults("host-action-result", changed(RESULT, "/output", {"schema": "s"}))
    for value in (None, 0, "", [], {}):
        assert not faults("host-action-result", changed(RESULT, "/output/inline", value))


def test_a_severity_is_only_that_of_a_diagnostic_and_a_reason_begins_with_route() -> None:
    reason = {"code": "route.x", "kind": "route-reason", "summary": "s"}
    assert not faults("code-catalog", changed(CATALOG, "/codes", [reason, {**reason, "kind": "diagnostic"}]))
    assert [fault.pointer for fault in faults("code-catalog", changed(CATALOG, "/codes/1/severity", "info"))] == [
        "/codes/1/severity"
    ]
    assert [fault.pointer for fault in faults("code-catalog", changed(CATALOG, "/codes/1/code", "a.b"))] == [
        "/codes/1/code"
    ]


@pytest.mark.parametrize("value", ["x", "", 1, -1.5, True, False, None])
def test_a_check_equals_a_scalar(value: Any) -> None:
    assert not faults("graph", changed(GRAPH, "/nodes/0/requiresFacts/0/equals", value))


@pytest.mark.parametrize(
    "value",
    [
        {"path": "a"},
        {"path": "a", "equals": 1, "exists": True},
        {"path": "a", "equals": []},
        {"path": "a", "equals": {}},
        {"path": "a", "exists": "true"},
        {"path": "", "exists": True},
        {"path": "a b", "exists": True},
        {"path": "a\n", "exists": True},
        {"path": "ä", "exists": True},
        {"path": "a/b", "exists": True},
        {"path": "a[0]", "exists": True},
    ],
)
def test_what_is_no_check(value: dict[str, Any]) -> None:
    for pointer in ("/nodes/0/requiresFacts/0", "/nodes/1/satisfiedBy/1"):
        found = faults("graph", changed(GRAPH, pointer, value))
        assert len(found) == 1
        assert (found[0].pointer or "").startswith(pointer)


# Limits


LIMITS: list[tuple[str, str, list[Any], list[Any]]] = [
    ("provider", "/name", ["x", "x" * 120, "🚀" * 120, "\n"], ["", "x" * 121, "🚀" * 121, 1, None]),
    ("provider", "/description", ["", "x" * 1000, "🚀" * 1000], ["x" * 1001, None]),
    ("provider", "/graphs", [["a", "b"], ["a", "./a"]], [[], ["a", "a"], "a", [1], [""]]),
    ("provider", "/catalogs", [{}], [[], None]),
    ("provider", "/compatibility", [{}], [[], "^1"]),
    ("provider", "/compatibility/node", ["x"], ["", 20]),
    ("provider", "/compatibility/agentGraph", ["not a range"], ["", None]),
    ("graph", "/description", ["x" * 1000], ["x" * 1001]),
    ("graph", "/entrypoints", [{"a": "b"}], [{}, {"A": "b"}, {"a": "B"}, {"a": 1}, {"": "b"}, []]),
    ("graph", "/nodes", [], [[], {}]),
    ("graph", "/edges", [[]], [{}, None]),
    ("graph", "/nodes/0/description", ["x" * 1000], ["x" * 1001]),
    ("graph", "/nodes/0/priority", [-1000, 0, 1000, 2.0], [-1001, 1001, 0.5, "1", True, None]),
    ("graph", "/nodes/0/join", ["all", "any"], ["ALL", "", None]),
    ("graph", "/nodes/0/requiresFacts", [[]], [{}, None]),
    ("graph", "/nodes/0/satisfiedBy", [], [[], None]),
    ("graph", "/nodes/0/resources", [{}], [[], None]),
    ("graph", "/nodes/0/resources/required", [[], ["a", "b"]], [["a", "a"], "a", ["/a"]]),
    ("graph", "/nodes/1/gate/prompt", ["x", "x" * 1000], ["", "x" * 1001]),
    ("graph", "/nodes/1/gate/delegatable", [True, False], ["true", 1, None]),
    ("graph", "/nodes/1/delegated", [{}], [None, []]),
    ("graph", "/nodes/1/delegated/inspection", ["required", "skip"], ["optional", None]),
    ("graph", "/edges/0/kind", ["flow", "consumes", "requires", "gatedBy", "repeat"], ["gatedby", "", None]),
    ("graph", "/edges/0/outcomes", [["failed"]], [[], ["failed", "failed"], ["done"], "failed"]),
    ("action", "/description", ["x" * 1000], ["x" * 1001]),
    ("action", "/effect", ["read", "write", "external"], ["Read", "", None]),
    ("action", "/cwd", ["workspace", "provider"], ["/", None]),
    ("action", "/command", ["x", "x" * 100_000], ["", None]),
    ("action", "/files", [[], ["a", "b"]], [["a", "a"], "a", [1]]),
    ("resource", "/mediaType", ["x"], ["", None]),
    ("resource", "/description", ["x" * 1000], ["x" * 1001]),
    ("code-catalog", "/codes", [[]], [{}, None]),
    ("code-catalog", "/codes/0/summary", ["x", "x" * 160], ["", "x" * 161]),
    ("code-catalog", "/codes/0/severity", ["info", "warning", "error"], ["fatal", None]),
    ("code-catalog", "/codes/0/kind", [], ["other", None]),
    ("evaluation", "/alternativeRoutes", [[]], [[SUMMARY] * 4]),
    ("evaluation", "/statusCode", ["actionable", "waiting-user", "blocked", "complete", "error"], ["completed", ""]),
    ("evaluation", "/primaryRoute/routeId", [], ["route:" + "0" * 19, "route:" + "0" * 21, "route:" + "G" * 20, "0" * 20]),
    ("evaluation", "/primaryRoute/label", ["", "x"], [None]),
    ("route", "/afterAction/evaluate", [], [False, 1, "true"]),
    ("route", "/callPath", [[]], ["main/sub", [""]]),
    ("route", "/gate/resolution", ["user", "session-authority"], ["owner"]),
    ("run", "/events/0/sequence", [1, 10**15], [0, -1, 1.5]),
    ("run", "/authorities", [[]], [["a", "a"], ["A"], "a"]),
    ("run", "/createdAt", ["2026-11-30T12:00:00.5-12:30"], ["2026-11-30", "2026-11-30T12:00:00", "", 1, f"{TIME}\n"]),
    ("test-case", "/state/outcomes", [{}], [{"a": "done"}, {"a": 1}, {"a": {"outcome": "failed"}}, []]),
    ("test-case", "/name", ["x"], [""]),
    ("bundle", "/resources/0/id", ["x", "Ä b"], ["", 1]),
    ("bundle", "/schemas/0/id", ["x", "Ä b"], ["", 1]),
    ("bundle", "/graphDependencies", [{}, {"Any": []}], [{"a": ["A"]}, {"a": "b"}, []]),
    ("host-action-result", "/input_digest", ["x"], ["", None]),
    ("host-action-result", "/receipt/adapter", ["x"], [""]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "pointer", "good", "bad"), LIMITS)
def test_limits_at_the_bound_and_beyond(name: str, pointer: str, good: list[Any], bad: list[Any]) -> None:
    base = next(value for schema, value in VALID.values() if schema == name)
    for item in good:
        assert faults(name, changed(base, pointer, item)) == ()
    for item in bad:
        found = faults(name, changed(base, pointer, item))
        assert found
        assert all((fault.pointer or "").startswith(pointer) for fault in found)


OUTCOMES = ["completed", "partial", "failed", "unverified", "skipped", "pending", "blocked", "waiting-user"]


@pytest.mark.parametrize(
    ("name", "pointer"),
    [
        ("graph", "/nodes/3/terminalOutcome"),
        ("graph", "/edges/0/outcomes/0"),
        ("evaluation", "/outcome"),
        ("test-case", "/expect/outcome"),
    ],
)
def test_the_outcomes(name: str, pointer: str) -> None:
    base = removed(GRAPH, "/edges/0/outcomes/1") if name == "graph" else VALID[name][1]
    for outcome in OUTCOMES:
        assert not faults(name, changed(base, pointer, outcome))
    for outcome in ("Completed", "done", "", "waiting_user", None):
        assert faults(name, changed(base, pointer, outcome))


@pytest.mark.parametrize(
    ("name", "pointer"),
    [
        ("provider", "/id"),
        ("graph", "/id"),
        ("graph", "/nodes/0/id"),
        ("graph", "/nodes/1/gate/id"),
        ("graph", "/nodes/1/gate/authority"),
        ("graph", "/nodes/2/graph"),
        ("graph", "/nodes/2/entry"),
        ("graph", "/edges/0/from"),
        ("graph", "/edges/0/to"),
        ("graph", "/entrypoints/default"),
        ("action", "/id"),
        ("resource", "/id"),
        ("code-catalog", "/codes/0/code"),
        ("bundle", "/graphs/0/id"),
        ("bundle", "/actions/0/id"),
        ("bundle", "/provider/id"),
    ],
)
def test_ids(name: str, pointer: str) -> None:
    base = next(value for schema, value in VALID.values() if schema == name)
    for item in ("a", "0", "a/b", "a.b_c-d/e", "a..b", "a//b", "a" * 160, "0-0"):
        assert not faults(name, changed(base, pointer, item))
    for item in (
        "",
        "A",
        "aB",
        "-a",
        "a-",
        ".a",
        "a.",
        "/a",
        "a/",
        "_a",
        "a b",
        "ä",
        "a\n",
        "a" * 161,
        "٣",
        1,
        None,
        ["a"],
    ):
        (fault,) = faults(name, changed(base, pointer, item))
        assert fault.pointer == pointer


@pytest.mark.parametrize(
    ("name", "pointer"),
    [
        ("provider", "/graphs/0"),
        ("provider", "/catalogs/codes"),
        ("graph", "/nodes/0/action"),
        ("graph", "/nodes/0/resources/required/0"),
        ("graph", "/nodes/1/inspectionAction"),
        ("graph", "/nodes/1/resolutionAction"),
        ("graph", "/nodes/1/delegated/resolutionAction"),
        ("graph", "/nodes/1/delegated/resources/recommended/0"),
        ("action", "/files/0"),
        ("action", "/inputSchema"),
        ("action", "/outputSchema"),
        ("resource", "/path"),
        ("code-catalog", "/codes/0/document"),
        ("bundle", "/files/0/path"),
        ("bundle", "/schemas/0/path"),
        ("bundle", "/providerManifest"),
    ],
)
def test_paths(name: str, pointer: str) -> None:
    base = next(value for schema, value in VALID.values() if schema == name)
    for item in ("x", "./x", "x//y/", "...", "..x", "x..", "x/..y", "ä 🚀", "1:x", "x/C:y", ".", " ", "x\u2028y", "~"):
        assert not faults(name, changed(base, pointer, item))
    for item in (
        *(
            "",
            "/",
            "/x",
            "C:x",
            "c:/x",
            "..",
            "../x",
            "x/..",
            "x/../y",
            "./..",
            "x\\y",
            "x\n",
            "\nx",
            "x\n../y",
            "x\x00y",
        ),
        *("x\x7f", "x\x85y", "x\ty", 1, None, ["x"]),
    ):
        found = faults(name, changed(base, pointer, item))
        assert {fault.pointer for fault in found} == {pointer}


@pytest.mark.parametrize("base", [("provider", PROVIDER, "/version"), ("bundle", BUNDLE, "/provider/version")])
def test_versions(base: tuple[str, Any, str]) -> None:
    name, value, pointer = base
    for version in ("0.0.0", "1.2.3", "10.20.30", "1.2.3-rc.1", "1.2.3-0", "1.2.3-a-b.c", "1.2.3-01", "1.2.3-."):
        assert not faults(name, changed(value, pointer, version))
    for version in (
        *("", "1", "1.2", "1.2.3.4", "v1.2.3", "01.2.3", "1.02.3", "1.2.03", "1.2.3+b", "1.2.3-", "1.2.3-a+b"),
        *("1.2.3\n", "١.0.0", "1.2.3-ä", " 1.2.3", 1.2),
    ):
        assert [fault.pointer for fault in faults(name, changed(value, pointer, version))] == [pointer]


def test_reason_codes() -> None:
    pointer = "/nodes/0/reasonCode"
    for code in ("route.a", "route.a.b/c_d-e", "route." + "a" * 154):
        assert not faults("graph", changed(GRAPH, pointer, code))
    for code in (
        "",
        "route",
        "route.",
        "Route.a",
        "route.A",
        "route.a.",
        "a.route.b",
        "xroute.a",
        "routeXa",
        "route.a\n",
        "route." + "a" * 155,
    ):
        assert [fault.pointer for fault in faults("graph", changed(GRAPH, pointer, code))] == [pointer]


def test_digests() -> None:
    for digest in (
        "",
        DIGEST[7:],
        DIGEST.upper(),
        DIGEST[:-1],
        DIGEST + "0",
        "sha512:" + DIGEST[7:],
        DIGEST + "\n",
        DIGEST[:-1] + "g",
    ):
        for pointer in ("/digest", "/files/0/digest", "/graphs/0/digest"):
            assert [fault.pointer for fault in faults("bundle", changed(BUNDLE, pointer, digest))] == [pointer]


# How faults are told


def test_each_fault_has_a_diagnostic_with_keyword_pointer_line_and_column_in_the_order_of_the_file() -> None:
    text = """\
schema: agent-graph.graph.v1
id: Main
entrypoints: {}
nodes:
  - id: work
    kind: action
    priority: 1001
    action: ../x
    gate: {id: g, prompt: x}
    requiresFacts:
      - {path: a}
  - { id: done, kind: nothing }
edges: [{ from: a, to: b, outcomes: [] }, { from: a, to: b, outcomes: [failed, failed] }]
a/b~c: 1
"""
    with pytest.raises(BundlerError) as caught:
        check(parse_yaml(text.encode(), "graphs/main.yaml"), "graph")
    error = caught.value
    assert error.code == "schema-invalid"
    assert [(fault.code, fault.pointer, fault.line, fault.column) for fault in error.diagnostics] == [
        ("schema.pattern", "/id", 2, 5),
        ("schema.minProperties", "/entrypoints", 3, 14),
        ("schema.required", "/nodes/0", 5, 5),
        ("schema.maximum", "/nodes/0/priority", 7, 15),
        ("schema.not", "/nodes/0/action", 8, 13),
        ("schema.additionalProperties", "/nodes/0/gate", 9, 5),
        ("schema.oneOf", "/nodes/0/requiresFacts/0", 11, 9),
        ("schema.enum", "/nodes/1/kind", 12, 23),
        ("schema.minItems", "/edges/0/outcomes", 13, 37),
        ("schema.uniqueItems", "/edges/1/outcomes", 13, 71),
        ("schema.additionalProperties", "/a~1b~0c", 14, 1),
    ]
    assert {fault.path for fault in error.diagnostics} == {"graphs/main.yaml"}
    assert {fault.severity for fault in error.diagnostics} == {"error"}
    assert error.message.startswith("graphs/main.yaml:2:5 `/id` ")
    assert error.message.endswith("(and 10 more)")
    assert "schema path graph" in (error.hint or "")


def test_faults_of_json_have_places_too() -> None:
    with pytest.raises(BundlerError) as caught:
        check(parse_json(b'{"schema": "agent-graph.provider.v1",\n "id": 5}', "p.json"), "provider")
    assert [(fault.code, fault.pointer, fault.line, fault.column) for fault in caught.value.diagnostics] == [
        ("schema.required", "", 1, 1),
        ("schema.required", "", 1, 1),
        ("schema.type", "/id", 2, 8),
    ]
    assert ["`version`" in fault.message or "`graphs`" in fault.message for fault in caught.value.diagnostics[:2]] == [
        True
    ] * 2


@pytest.mark.parametrize("number", [".inf", "-.inf", ".nan", "1e400"])
def test_a_number_that_json_has_not_fails_the_schema_at_its_place(number: str) -> None:
    text = f"schema: agent-graph.action.v1\nid: a\nrunner: command\neffect: read\ncommand: x\ndescription: {number}\n"
    with pytest.raises(BundlerError) as caught:
        check(parse_yaml(text.encode(), "a.yaml"), "action")
    assert [(fault.code, fault.pointer, fault.line) for fault in caught.value.diagnostics] == [
        ("schema.type", "/description", 6)
    ]


def test_a_number_that_json_has_not_fails_even_where_anything_else_is_allowed() -> None:
    text = json.dumps({**HOST_RESOURCE, "input": {"deep": [0]}}).replace("[0]", "[1e999]")
    with pytest.raises(BundlerError) as caught:
        check(parse_json(text.encode(), "r.json"), "resource")
    assert [(fault.code, fault.pointer) for fault in caught.value.diagnostics] == [("schema.type", "/input/deep/0")]


def test_faults_are_listed_up_to_a_bound_and_the_rest_is_counted() -> None:
    value = {**PROVIDER, **{f"x{index}": 1 for index in range(MAX_FAULTS + 10)}}
    with pytest.raises(BundlerError) as caught:
        check(parse_json(json.dumps(value).encode(), "p.json"), "provider")
    assert len(caught.value.diagnostics) == MAX_FAULTS
    assert f"(and {MAX_FAULTS + 9} more)" in caught.value.message
