"""Graph tests: what passes, what fails and why, wherever the Provider lies."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bundler.errors import BundlerError
from bundler.protocol.canonical import Json
from bundler.runtime.coverage import measure
from bundler.runtime.graph_tests import GraphTestResult, junit, read_tests, run_tests
from bundler.runtime.open import open_provider
from bundler.runtime.provider import OpenedProvider
from bundler.wheel.build import make_wheel

from ..builders import build_from, write_out
from ..conformance.cases import SHARED

TEMPLATE = Path(__file__).parents[2] / "templates" / "provider"
REAL = SHARED.parent / "real"


@contextmanager
def sample() -> Iterator[OpenedProvider]:
    with open_provider(TEMPLATE) as opened:
        yield opened


def run(tmp_path: Path, expect: str, state: str = "") -> GraphTestResult:
    """The result of one test of the sample Provider."""
    text = f"schema: agent-graph.test.v1\nname: n\ngraph: release\nentry: default\n{state}expect:\n{expect}"
    write_out({"one.yaml": text}, tmp_path)
    with sample() as opened:
        (result,) = run_tests(opened, read_tests(tmp_path / "one.yaml"))
    return result


APPROVED = "state: { outcomes: { release/check: completed } }\n"
DELEGATED = "state: { outcomes: { release/check: completed }, authorities: [release.approve] }\n"


@pytest.mark.parametrize(
    ("state", "expect"),
    [
        ("", "  statusCode: actionable\n  primaryNode: check\n  primaryReasonCode: route.release.check\n"),
        ("", "  statusCode: actionable\n  alternativeNodes: []\n  availability: immediate\n"),
        ("", "  statusCode: actionable\n  requiredResources: [release.checklist]\n  recommendedResources: []\n"),
        ("", "  statusCode: actionable\n  recordNode: release/check\n  diagnosticsInclude: []\n"),
        (APPROVED, "  statusCode: waiting-user\n  gateResolution: user\n  inspectionCommand: git show --stat\n"),
        (DELEGATED, "  statusCode: actionable\n  gateResolution: session-authority\n"),
        (
            "state: { outcomes: { release/check: partial } }\n",
            "  statusCode: blocked\n  diagnosticsInclude: [no-route]\n",
        ),
    ],
)
def test_what_holds(tmp_path: Path, state: str, expect: str) -> None:
    assert run(tmp_path, expect, state).failures == ()


@pytest.mark.parametrize(
    ("state", "expect", "failures"),
    [
        ("", "  statusCode: blocked\n", ['statusCode: expected "blocked", received "actionable"']),
        (
            "",
            "  statusCode: actionable\n  primaryNode: publish\n",
            [
                'primaryNode: expected "publish", received "check"',
                "why: publish is not reached: each of its incoming edges has to match",
                "why: gatedBy from approve takes completed; approve is not reached: it does not match",
            ],
        ),
        (
            "",
            "  statusCode: actionable\n  primaryNode: none\n",
            ['primaryNode: expected "none", received "check"', "why: `example/release` has no node `none`"],
        ),
        ("", "  statusCode: actionable\n  command: x\n", ['command: expected "x", received "python3 ']),
        ("", "  statusCode: actionable\n  handler: x\n", ['handler: expected "x", received nothing']),
        ("", "  statusCode: actionable\n  outcome: completed\n", ['outcome: expected "completed", received nothing']),
        ("", "  statusCode: actionable\n  requiredResources: []\n", ["requiredResources: expected []"]),
        (
            "",
            "  statusCode: actionable\n  gateResolution: user\n",
            ['gateResolution: expected "user", received nothing'],
        ),
        (
            "",
            "  statusCode: actionable\n  diagnosticsInclude: [no-route]\n",
            ['diagnosticsInclude: expected ["no-route"]'],
        ),
        (
            APPROVED,
            "  statusCode: waiting-user\n  resolutionCommand: x\n",
            ['resolutionCommand: expected "x", received nothing'],
        ),
        (
            APPROVED,
            "  statusCode: waiting-user\n  inspectionHandler: x\n",
            ['inspectionHandler: expected "x", received nothing'],
        ),
    ],
)
def test_what_fails_and_why(tmp_path: Path, state: str, expect: str, failures: list[str]) -> None:
    found = run(tmp_path, expect, state).failures
    assert len(found) == len(failures)
    for one, other in zip(found, failures, strict=True):
        assert one.startswith(other)


def test_what_can_not_be_asked_fails(tmp_path: Path) -> None:
    text = "schema: agent-graph.test.v1\nname: n\ngraph: nothing\nentry: default\nexpect: { statusCode: blocked }\n"
    write_out({"one.yaml": text}, tmp_path)
    with sample() as opened:
        (result,) = run_tests(opened, read_tests(tmp_path))
    assert result.failures[0].startswith("graph-missing: `example/release` has no Graph `nothing`")


def code_of(path: Path) -> tuple[str, int]:
    with pytest.raises(BundlerError) as raised:
        read_tests(path)
    return raised.value.code, len(raised.value.diagnostics)


def test_files_that_are_no_tests(tmp_path: Path) -> None:
    assert code_of(tmp_path / "none") == ("test-path-missing", 1)
    assert code_of(tmp_path) == ("test-cases-empty", 1)
    write_out({"README.md": "x", "a/notes.txt": "x"}, tmp_path)
    assert code_of(tmp_path) == ("test-cases-empty", 1)
    write_out({"a/one.yaml": "{", "b.json": "{}", "c.yml": "schema: agent-graph.test.v1\n"}, tmp_path)
    code, count = code_of(tmp_path)
    assert (code, count) == ("schema-invalid", 5 + 4 + 1)
    (tmp_path / "d.yaml").symlink_to("/etc/hostname")
    assert "path-symlink-outside-provider" in str(code_of_all(tmp_path))


def code_of_all(path: Path) -> list[str]:
    with pytest.raises(BundlerError) as raised:
        read_tests(path)
    return [diagnostic.code for diagnostic in raised.value.diagnostics]


def test_the_sample_provider_reaches_everything() -> None:
    with sample() as opened:
        results = run_tests(opened, read_tests(TEMPLATE / "tests"))
        assert [result.failures for result in results] == [()] * 7
        measured = measure(opened.provider, [each.evaluation for each in results if each.evaluation is not None])
        assert {kind: each.missed for kind, each in measured.items()} == dict.fromkeys(
            ("nodes", "edges", "outcomes", "gates", "reasonCodes"), ()
        )
        first = [each.evaluation for each in results if each.test.name == "a release starts with the check"]
        some = {kind: each.to_json() for kind, each in measure(opened.provider, filter(None, first)).items()}
    assert some["nodes"]["missed"] == ["release/repair", "release/approve", "release/publish", "release/done"]
    assert some["gates"]["missed"] == ["release/approve by user", "release/approve by session-authority"]
    assert (some["edges"]["total"], some["edges"]["reached"]) == (5, 0)
    assert some["reasonCodes"]["missed"] == ["route.release.repair", "route.release.approve", "route.release.publish"]


def outcome(results: list[GraphTestResult]) -> list[Json]:
    return [(result.test.name, result.failures) for result in results]


@pytest.mark.parametrize("name", ["shared-provider", "review-gate"])
def test_published_providers_pass_wherever_they_lie(tmp_path: Path, name: str) -> None:
    source = REAL / name if REAL.is_dir() else TEMPLATE
    tests = read_tests(source / "tests")
    build_from(source, tmp_path / "bundle")
    with open_provider(source) as opened:
        expected = outcome(run_tests(opened, tests))
        wheel = make_wheel(opened, tmp_path / "dist")
    assert expected
    assert all(failures == () for _, failures in expected)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target"]
    subprocess.run([*install, tmp_path / "site", wheel.path], check=True)
    installed = f"provider:{wheel.identity.provider_id}"
    for reference in (str(tmp_path / "bundle"), wheel.path, installed):
        with open_provider(reference, path=[str(tmp_path / "site")]) as opened:
            assert outcome(run_tests(opened, tests)) == expected


def test_junit(tmp_path: Path) -> None:
    shutil.copytree(TEMPLATE / "tests", tmp_path / "tests")
    text = (tmp_path / "tests" / "starts-with-the-check.yaml").read_text()
    odd = 'name: "odd \\u0001 <&> \\ufffe"'
    (tmp_path / "tests" / "odd.yaml").write_text(
        text.replace("name: a release starts with the check", odd).replace("primaryNode: check", "primaryNode: publish")
    )
    with sample() as opened:
        results = run_tests(opened, read_tests(tmp_path / "tests"))
    suite = ElementTree.fromstring(junit(results, "example/release"))
    assert (suite.get("tests"), suite.get("failures")) == ("8", "1")
    (case,) = [each for each in suite if each.find("failure") is not None]
    assert case.get("name") == "odd \\u0001 <&> \\ufffe"
    failure = case.find("failure")
    assert failure is not None
    assert failure.text is not None
    assert failure.text.startswith('primaryNode: expected "publish", received "check"\nwhy: publish is not reached')
