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
from bundler.wheel.build import make_wheel
from bundler.wheel.settings import Settings

from ..builders import build_from
from .cases import SHARED, lay_out, provider_cases

ASKED = [name for name, case in provider_cases().items() if case["expect"].get("evaluations")]
BUILT = [name for name in ASKED if "buildError" not in provider_cases()[name]["expect"]]


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
        opened.route(evaluation, each.route_id, revision=evaluation.revision, workspace="/workspace")
        for each in evaluation.candidates[:4]
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
    cases, queries = (151, 1_374) if SHARED.is_dir() else (90, 372)
    assert len(ASKED) >= cases
    assert sum(len(provider_cases()[name]["queries"]) for name in ASKED) >= queries
    assert len(BUILT) >= len(ASKED) - 2


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


@pytest.mark.parametrize("name", BUILT[::10])
def test_it_is_the_same_from_a_wheel(name: str, tmp_path: Path) -> None:
    case = provider_cases()[name]
    with open_provider(lay_out(case, tmp_path.resolve()) / case.get("manifest", "provider.yaml")) as source:
        # A version that Python's have no counterpart for is for the author to map.
        wheel = make_wheel(source, tmp_path / "dist", Settings(version="1.0"))
        with open_provider(wheel.path) as opened:
            for query, expected in zip(case["queries"], case["expect"]["evaluations"], strict=True):
                if "error" in expected:
                    assert answer(opened, query) == expected
                    continue
                found = ask(opened, query)
                assert found.to_json() == ask(source, query).to_json()
                assert found.revision == expected["evaluation"]["revision"]
                assert [each.route_id for each in found.candidates[:4]] == [
                    route["routeId"] for route in expected["routes"]
                ]
                if found.candidates:
                    with pytest.raises(BundlerError) as raised:
                        opened.route(found)
                    assert raised.value.code == "provider-not-installed"
