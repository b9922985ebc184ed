"""Evidence as a value and as a file: what was written is read, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bundler.errors import BundlerError
from bundler.publish.evidence import AcceptedFinding, BuiltFile, Check, Evidence, Output, read_evidence

SAID = Output(digest=f"sha256:{'1' * 64}", size=4, tail="ü\n\x1b")
EVIDENCE = Evidence(
    source=f"blake3:{'2' * 64}",
    provider=("acme/demo", "0.1.0"),
    bundle=f"sha256:{'3' * 64}",
    files=(BuiltFile(name="a.whl", sha256="4" * 64, size=7),),
    tools={"twine": "7", "build": "1"},
    accepted=(AcceptedFinding(path="a", line=1, kind="k", reason="r"),),
    checks=(
        Check(name="build", kind="library", state="passed", seconds=0.5, output=SAID),
        Check(name="install", kind="tool", state="passed", command=("pip", "x"), exit_code=0, seconds=1.0, output=SAID),
        Check(name="lint", kind="project", state="passed", command="make lint", exit_code=0, seconds=2.25, output=SAID),
    ),
)
FAILED = replace(
    EVIDENCE,
    source=None,
    provider=None,
    bundle=None,
    files=(),
    checks=(
        Check(name="build", kind="library", state="failed", seconds=0.0, output=SAID),
        Check(name="lint", kind="project", state="not-run"),
    ),
)


@pytest.mark.parametrize("evidence", [EVIDENCE, FAILED])
def test_what_is_written_is_read(evidence: Evidence) -> None:
    assert read_evidence(evidence.to_bytes()) == evidence
    assert read_evidence(evidence.to_bytes()).to_bytes() == evidence.to_bytes()
    assert json.loads(evidence.to_bytes()) == evidence.to_json()


def test_keys_have_one_order() -> None:
    other = replace(EVIDENCE, tools=dict(reversed(EVIDENCE.tools.items())))
    assert other.to_bytes() == EVIDENCE.to_bytes()
    assert list(EVIDENCE.to_json()["tools"]) == ["build", "twine"]


def test_only_checks_that_were_all_made_pass() -> None:
    assert EVIDENCE.passed
    assert not FAILED.passed
    left = Check(name="lint", kind="project", state="not-run")
    assert not replace(EVIDENCE, checks=(*EVIDENCE.checks, left)).passed


def test_no_check_is_no_pass() -> None:
    assert not replace(EVIDENCE, checks=()).passed


def put(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """A change of one member."""
    *way, last = [int(step) if step.isdigit() else step for step in path.split("/")]

    def change(document: Any) -> None:
        for step in way:
            document = document[step]
        document[last] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        put("schema", "agent-bundler.evidence.v2"),
        put("more", 1),
        put("passed", False),
        put("passed", 1),
        put("source", "blake3:xyz"),
        put("source", 3),
        put("bundle", ""),
        put("provider", {"id": "x"}),
        put("provider", ["x", "y"]),
        put("provider", {"id": "x", "version": 1}),
        put("files", {}),
        put("files/0/size", True),
        put("files/0/size", "7"),
        put("files/0/sha256", "5"),
        put("files/0/name", None),
        put("tools/twine", 7),
        put("acceptedSecrets/0/secret", "s3cr3t"),
        put("acceptedSecrets/0", "x"),
        put("checks/0/kind", "magic"),
        put("checks/0/state", "skipped"),
        put("checks/0/state", "not-run"),
        put("checks/0/state", "failed"),
        put("checks/0/output", None),
        put("checks/0/output/digest", "md5:1"),
        put("checks/0/output/tail", 1),
        put("checks/0/seconds", "1"),
        put("checks/1/command", ["pip", 1]),
        put("checks/1/command", 5),
        put("checks/1/exitCode", 0.5),
    ],
)
def test_what_is_not_evidence(change: Callable[[dict[str, Any]], None]) -> None:
    document = EVIDENCE.to_json()
    change(document)
    with pytest.raises(BundlerError) as caught:
        read_evidence(json.dumps(document).encode(), "e.json")
    assert caught.value.code == "evidence-invalid"
    assert caught.value.message.startswith("e.json:")
    assert caught.value.diagnostics[0].pointer is not None


@pytest.mark.parametrize("data", [b"[]", b"null", b"{}", b'"x"'])
def test_what_is_no_object(data: bytes) -> None:
    with pytest.raises(BundlerError) as caught:
        read_evidence(data)
    assert caught.value.code == "evidence-invalid"


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b'{"schema": 1, "schema": 2}', EVIDENCE.to_bytes()[:-3], b"[" * 100_000]
)
def test_what_is_no_json(data: bytes) -> None:
    with pytest.raises(BundlerError) as caught:
        read_evidence(data)
    assert caught.value.code == "parse-failed"
