"""Graph tests: states, and what an Evaluation and its primary Route have to be (protocol: `agent-graph.test.v1`).

Nothing is executed, and no model is called. What is tested is what a host would get: the same code makes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import BundlerError
from ..protocol import schemas
from ..protocol.canonical import Json, canonical
from ..protocol.documents import MAX_BYTES, parse
from ..tree import DirectoryTree
from .provider import OpenedProvider
from .route import GateAction, PlanStep, Route, make_route
from .why import explain_node

if TYPE_CHECKING:
    from .evaluate import Evaluation

_ENDINGS = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphTest:
    """A test as its file says it; `path` is the file's absolute path."""

    path: str
    name: str
    graph: str
    entry: str
    facts: dict[str, Json]
    outcomes: dict[str, Json]
    authorities: tuple[str, ...]
    expect: dict[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphTestResult:
    """How a test ended: `failures` is empty where it passed. `evaluation` is None where there could be none."""

    test: GraphTest
    failures: tuple[str, ...]
    evaluation: Evaluation | None

    @property
    def passed(self) -> bool:
        return not self.failures

    def to_json(self) -> dict[str, Json]:
        return {
            "name": self.test.name,
            "path": self.test.path,
            "passed": self.passed,
            "failures": list(self.failures),
        }


def read_tests(path: str | os.PathLike[str]) -> list[GraphTest]:
    """The tests in a file, or in all YAML and JSON files below a folder, sorted by path.

    Raises `test-path-missing`, `test-cases-empty` (there is no vacuous pass), and every fault of the files together.
    """
    place = os.path.abspath(os.fspath(path))
    if not os.path.lexists(place):
        raise BundlerError("test-path-missing", f"{place} does not exist; a graph test or a folder of them is expected")
    folder, name = (place, None) if os.path.isdir(place) else os.path.split(place)
    tests: list[GraphTest] = []
    faults: list[BundlerError] = []
    with DirectoryTree(folder) as tree:
        found = [name] if name is not None else tree.files("")
        for each in found:
            if isinstance(each, BundlerError):
                faults.append(each)
            elif name is not None or each.lower().endswith(_ENDINGS):
                try:
                    tests.append(_read(tree.read(each, MAX_BYTES), each, os.path.join(folder, *each.split("/"))))
                except BundlerError as error:
                    faults.append(error)
    if faults:
        raise BundlerError.of(faults)
    if not tests:
        raise BundlerError("test-cases-empty", f"{place} holds no graph test, so nothing would be tested")
    return sorted(tests, key=lambda test: test.path)


def _read(data: bytes, path: str, place: str) -> GraphTest:
    document = parse(data, path)
    schemas.check(document, "test-case")
    value: dict[str, Any] = document.value
    state = value.get("state", {})
    return GraphTest(
        path=place,
        name=value["name"],
        graph=value["graph"],
        entry=value["entry"],
        facts=state.get("facts", {}),
        outcomes=state.get("outcomes", {}),
        authorities=tuple(state.get("authorities", ())),
        expect=value["expect"],
    )


def run_tests(opened: OpenedProvider, tests: Sequence[GraphTest]) -> list[GraphTestResult]:
    """Every test's result, in order. What a Provider can't be asked fails the test that asks it."""
    return [_run(opened, test) for test in tests]


def _run(opened: OpenedProvider, test: GraphTest) -> GraphTestResult:
    try:
        evaluation = opened.evaluate(
            test.graph, test.entry, facts=test.facts, outcomes=test.outcomes, authorities=test.authorities
        )
        primary = evaluation.primary
        # As of a wheel nothing is run from, its files may have any place here.
        route = make_route(opened.locator, evaluation, primary) if primary is not None else None
    except BundlerError as error:
        return GraphTestResult(test=test, failures=(f"{error.code}: {error.message}",), evaluation=None)
    failures = [*_failures(test.expect, evaluation, route)]
    wanted = test.expect.get("primaryNode")
    if failures and isinstance(wanted, str) and (primary is None or primary.node.id != wanted):
        failures += _why(opened, evaluation, wanted)
    return GraphTestResult(test=test, failures=tuple(failures), evaluation=evaluation)


def _why(opened: OpenedProvider, evaluation: Evaluation, node: str) -> Iterator[str]:
    """Why the node that was expected is not the primary one: what is known of it, or what came before it."""
    on_offer = next((each for each in evaluation.candidates if each.node.id == node), None)
    if on_offer is not None and evaluation.primary is not None:
        first = evaluation.primary
        yield (
            f"why: {node} is on offer ({on_offer.availability}, priority {on_offer.node.priority}); {first.node.id} is "
            f"ranked before it ({first.availability}, priority {first.node.priority})"
        )
        return
    try:
        for reason in explain_node(opened.provider, evaluation, node):
            yield f"why: {reason}"
    except BundlerError as error:
        yield f"why: {error.message}"


_Received = Callable[["Evaluation", "Route | None"], Json]


def _failures(expect: dict[str, Json], evaluation: Evaluation, route: Route | None) -> Iterator[str]:
    for name, expected in expect.items():
        received = _RECEIVED[name](evaluation, route)
        if name == "diagnosticsInclude":
            missing = [code for code in expected if code not in received]
            if missing:
                yield f"{name}: expected {_shown(missing)} among the diagnostics, received {_shown(received)}"
        elif canonical(expected) != canonical(received):
            yield f"{name}: expected {_shown(expected)}, received {_shown(received)}"


def _shown(value: Json) -> str:
    return "nothing" if value is None else canonical(value)


def _step(plan: Sequence[PlanStep], what: str) -> Json:
    return getattr(plan[0], what) if plan else None


def _primary(what: Callable[[Any], Json]) -> _Received:
    return lambda evaluation, route: None if evaluation.primary is None else what(evaluation.primary)


def _route(what: Callable[[Route], Json]) -> _Received:
    return lambda evaluation, route: None if route is None else what(route)


def _gate(which: str, what: Callable[[GateAction], Json]) -> _Received:
    def received(evaluation: Evaluation, route: Route | None) -> Json:
        action: GateAction | None = None if route is None or route.gate is None else getattr(route.gate, which)
        return None if action is None else what(action)

    return received


def _gate_table(name: str, which: str) -> dict[str, _Received]:
    return {
        f"{name}Command": _gate(which, lambda each: _step(each.command_plan, "command")),
        f"{name}Handler": _gate(which, lambda each: _step(each.command_plan, "handler")),
        f"{name}Skill": _gate(which, lambda each: None if each.action.skill is None else each.action.skill.id),
        f"{name}InputSchema": _gate(
            which, lambda each: None if each.action.input_schema is None else each.action.input_schema.id
        ),
    }


#: What each expectation is compared with.
_RECEIVED: dict[str, _Received] = {
    "statusCode": lambda evaluation, route: evaluation.status,
    "outcome": lambda evaluation, route: evaluation.outcome,
    "primaryNode": _primary(lambda first: first.node.id),
    "primaryReasonCode": _primary(lambda first: first.reason_code),
    "availability": _primary(lambda first: first.availability),
    "recordNode": _primary(lambda first: first.state_key),
    "alternativeNodes": lambda evaluation, route: [each.node.id for each in evaluation.alternatives],
    "command": _route(lambda route: _step(route.command_plan, "command")),
    "handler": _route(lambda route: _step(route.command_plan, "handler")),
    "requiredResources": _route(lambda route: [location.id for location in route.required]),
    "recommendedResources": _route(lambda route: [location.id for location in route.recommended]),
    "gateResolution": _route(lambda route: None if route.gate is None else route.gate.resolution),
    **_gate_table("inspection", "inspection"),
    **_gate_table("resolution", "resolve"),
    "diagnosticsInclude": lambda evaluation, route: [each.code for each in evaluation.diagnostics],
}


def junit(results: Sequence[GraphTestResult], provider: str) -> bytes:
    """The results as JUnit's XML, which CI servers read."""
    from xml.etree import ElementTree as Tree

    failed = sum(not result.passed for result in results)
    suite = Tree.Element("testsuite", name=_xml(provider), tests=str(len(results)), failures=str(failed), errors="0")
    for result in results:
        case = Tree.SubElement(
            suite,
            "testcase",
            classname=_xml(result.test.graph),
            name=_xml(result.test.name),
            file=_xml(result.test.path),
        )
        if not result.passed:
            failure = Tree.SubElement(case, "failure", message=_xml(result.failures[0]))
            failure.text = _xml("\n".join(result.failures))
    written: bytes = Tree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _xml(text: str) -> str:
    """What XML 1.0 can hold: other characters are spelled out."""
    return "".join(
        each
        if each in "\t\n\r" or (each >= " " and each not in "\ufffe\uffff" and not "\ud800" <= each <= "\udfff")
        else f"\\u{ord(each):04x}"
        for each in text
    )
