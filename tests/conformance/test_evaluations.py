"""Every evaluation that the cases hold: the Evaluation as JSON, and a summary of the first Routes."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from bundler.errors import BundlerError
from bundler.protocol.schemas import schema_path
from bundler.runtime.evaluate import Evaluation
from bundler.runtime.open import open_provider
from bundler.runtime.provider import OpenedProvider
from bundler.runtime.route import make_route

from ..builders import build_from
from .cases import lay_out, provider_cases

ASKED = [name for name, case in provider_cases().items() if case["expect"].get("evaluations")]


@cache
def validator(name: str) -> Any:
    return jsonschema_rs.Draft202012Validator(json.loads(schema_path(name).read_bytes()))


def ask(opened: OpenedProvider, query: dict[str, Any]) -> Evaluation:
    state = query["state"]
    return opened.evaluate(
        query["graph"],
        query.get("entry", "default"),
        facts=state.get("facts"),
        outcomes=state.get("outcomes"),
        authorities=state.get("authorities", ()),
    )


def answer(opened: OpenedProvider, query: dict[str, Any]) -> dict[str, Any]:
    """What a case expects, as ours: diagnostics without message and path."""
    try:
        evaluation = ask(opened, query)
    except BundlerError as error:
        return {"error": error.code}
    value = json.loads(json.dumps(evaluation.to_json()))
    validator("evaluation").validate(value)
    for diagnostic in value["diagnostics"]:
        del diagnostic["message"]
        diagnostic.pop("path", None)
    routes = [
        make_route(opened.locator, evaluation, each, workspace="/workspace") for each in evaluation.candidates[:4]
    ]
    return {"evaluation": value, "routes": [summary(route.to_json(), opened.root) for route in routes]}


def summary(route: dict[str, Any], root: str) -> dict[str, Any]:
    validator("route").validate(route)
    kept = ("routeId", "graph", "node", "statusCode", "reasonCode", "hint", "availability", "callPath", "commandPlan")
    value: dict[str, Any] = {name: route[name] for name in kept if name in route}
    if "action" in route:
        value["action"] = action(route["action"])
    for name, locations in route["resources"].items():
        value[name] = [[each["id"], each["readState"], each.get("digest")] for each in locations]
    if "gate" in route:
        value["gate"] = {
            name: {"action": action(item["action"]), "commandPlan": item["commandPlan"]}
            if name in ("inspectionAction", "resolutionAction")
            else item
            for name, item in route["gate"].items()
        }
    value["recordNode"] = route["afterAction"]["recordNode"]
    relative: dict[str, Any] = json.loads(json.dumps(value).replace(root, "{ROOT}"))
    return relative


def action(value: dict[str, Any]) -> dict[str, Any]:
    return {name: item["id"] if isinstance(item, dict) else item for name, item in value.items()}


def test_there_are_evaluations() -> None:
    assert len(ASKED) >= 100


@pytest.mark.parametrize("name", ASKED)
def test_case(name: str, tmp_path: Path) -> None:
    case = provider_cases()[name]
    base = tmp_path.resolve()
    root = lay_out(case, base)
    manifest = case.get("manifest", "provider.yaml")
    places = [root / manifest]
    if "buildError" not in case["expect"]:
        build_from(root, base / "out", manifest)
        places.append(base / "out")
    for place in places:
        with open_provider(place) as opened:
            for query, expected in zip(case["queries"], case["expect"]["evaluations"], strict=True):
                assert answer(opened, query) == expected
