"""All checks of a source, with everything real: builds, twine, pip, environments, commands; and each of them failing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest

from bundler.authoring.scaffold import scaffold
from bundler.errors import BundlerError
from bundler.publish.checks import Checked, run_checks
from bundler.publish.evidence import Evidence, read_evidence
from bundler.publish.expectations import BUILT_IN
from bundler.publish.pitfalls import Pitfall, read_pitfalls
from bundler.wheel.check import open_wheel

from ..builders import build_from, snapshot

# Put together here, so that no scanner takes this file for a leak.
LIKE_A_TOKEN = "ghp_" + "aBcD3fGh1jKlMn0pQrStUvWxYz12344mLq9r"
SECRET = "correct horse battery"
CHECKS = """
[tool.agent-bundler.checks.look]
command = "pwd; echo $ACME_PASSPHRASE; test -f $AGENT_BUNDLER_WHEEL && test -f $AGENT_BUNDLER_SDIST && ls $AGENT_BUNDLER_BUNDLE"
cwd = "scripts"

[[tool.agent-bundler.accepted-secrets]]
path = "tests/token.txt"
kind = "betterleaks.github-pat"
reason = "an example"

[[tool.agent-bundler.accepted-secrets]]
path = "tests/token.txt"
kind = "betterleaks.private-key"
reason = "nothing like it is there"
"""
NAMES = [*BUILT_IN, "look"]
Step = Callable[[str, str], None]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original") / "source"
    scaffold(folder, "acme/release")
    return folder


@pytest.fixture
def source(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "source"))


def append(file: Path, text: str) -> None:
    with file.open("a") as stream:
        stream.write(text)


@dataclass(frozen=True)
class Passed:
    """What a run left that passed."""

    checked: Checked
    source: Path
    work: Path
    told: list[tuple[str, str]]
    during: dict[str, bytes]


@pytest.fixture(scope="module")
def passed(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Passed:
    root = tmp_path_factory.mktemp("passed")
    source = Path(shutil.copytree(original, root / "source"))
    append(source / "pyproject.toml", CHECKS)
    (source / "tests" / "token.txt").write_text(f"token: {LIKE_A_TOKEN}\n")
    work = root / "work"
    work.mkdir()
    known = {"check": "secrets", "expected": "e", "found": "f", "cause": "c"}
    (work / "pitfalls.json").write_text(json.dumps({"schema": "agent-bundler.pitfalls.v1", "pitfalls": [known]}))
    told: list[tuple[str, str]] = []
    before = snapshot(source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACME_PASSPHRASE", SECRET)
        with run_checks(source, work, progress=lambda name, state: told.append((name, state))) as checked:
            during = {path: Path(path).read_bytes() for path in (checked.wheel.path, checked.sdist)}
            with open_wheel(checked.wheel.path) as wheel:
                assert wheel.bundle.manifest == checked.manifest
    assert snapshot(source) == before
    return Passed(checked, source, work, told, during)


def test_every_check_passes_in_order(passed: Passed) -> None:
    evidence = passed.checked.evidence
    assert evidence.passed
    assert [check.name for check in evidence.checks] == NAMES
    assert passed.told == [(name, state) for name in NAMES for state in ("running", "passed")]
    for check in evidence.checks:
        assert (check.command is None, check.exit_code) == ((True, None) if check.kind == "library" else (False, 0))
        assert check.output is not None
        assert check.output.tail or check.name == "environment"
        assert check.seconds is not None


def test_evidence_is_kept_and_is_of_what_was_built(passed: Passed) -> None:
    evidence, manifest = passed.checked.evidence, passed.checked.manifest
    assert read_evidence((passed.work / "evidence.json").read_bytes()) == evidence
    assert evidence.bundle == manifest.digest
    assert evidence.provider == ("acme/release", "0.1.0")
    assert evidence.source is not None
    assert evidence.source.startswith("blake3:")
    assert [(file.name, file.sha256, file.size) for file in evidence.files] == [
        (os.path.basename(path), sha256(data).hexdigest(), len(data)) for path, data in passed.during.items()
    ]
    assert {"python", "twine", "hatchling", "pip", "agent-graph-bundler"} <= evidence.tools.keys()


def test_what_was_built_and_what_failed_before_are_gone(passed: Passed) -> None:
    assert os.listdir(passed.work) == ["evidence.json"]
    assert not any(map(os.path.exists, passed.during))


def test_the_projects_command_runs_in_its_folder_with_what_was_built(passed: Passed) -> None:
    look = passed.checked.evidence.checks[-1]
    assert look.kind == "project"
    assert look.output is not None
    first, second, *rest = look.output.tail.splitlines()
    assert (first, second) == ("{source}/scripts", "***")
    assert "manifest.json" in rest


def test_no_secret_and_no_place_of_this_machine_is_in_the_evidence(passed: Passed) -> None:
    written = (passed.work / "evidence.json").read_text()
    for text in (SECRET, LIKE_A_TOKEN, str(passed.source), str(passed.work), sys.executable):
        assert text not in written


def test_what_was_accepted_is_in_the_evidence_and_what_was_not_used_is_told(passed: Passed) -> None:
    (accepted,) = passed.checked.evidence.accepted
    assert (accepted.path, accepted.line, accepted.reason) == ("tests/token.txt", 1, "an example")
    assert [warning.code for warning in passed.checked.warnings] == ["secret-acceptance-unused"]


def failed(
    source: Path, work: Path, step: Step = lambda name, state: None
) -> tuple[BundlerError, Evidence, tuple[Pitfall, ...]]:
    """A run that fails at a check: the error, and what it left."""
    with pytest.raises(BundlerError) as caught, run_checks(source, work, progress=step):
        raise AssertionError("it passes")
    error = caught.value
    assert error.code == "release-check-failed"
    assert error.hint
    evidence = read_evidence((work / "evidence.json").read_bytes())
    pitfalls = read_pitfalls(work)
    assert not evidence.passed
    states = [check.state for check in evidence.checks]
    at = states.index("failed")
    assert states == ["passed"] * at + ["failed"] + ["not-run"] * (len(states) - at - 1)
    assert error.message.startswith(f"the check {evidence.checks[at].name} failed: ")
    assert pitfalls[0].check == evidence.checks[at].name
    assert sorted(os.listdir(work)) == ["evidence.json", "pitfalls.json"]
    return error, evidence, pitfalls


def test_a_fault_of_the_source(source: Path, tmp_path: Path) -> None:
    append(source / "codes.yaml", "x: [")
    (source / "graphs" / "release.yaml").unlink()
    error, evidence, (pitfall,) = failed(source, tmp_path / "work")
    assert evidence.checks[0].state == "failed"
    assert (evidence.source, evidence.provider, evidence.bundle, evidence.files) == (None, None, None, ())
    assert {each.code for each in error.diagnostics} >= {"file-missing"}
    assert pitfall.expected == BUILT_IN["validate"].expected
    assert pitfall.found in error.message


def test_graph_tests_that_fail(source: Path, tmp_path: Path) -> None:
    test = source / "tests" / "starts-with-the-check.yaml"
    test.write_text(test.read_text().replace("primaryNode: check", "primaryNode: publish"))
    error, evidence, (pitfall,) = failed(source, tmp_path / "work")
    assert (pitfall.check, evidence.source is None) == ("graph-tests", False)
    (fault,) = error.diagnostics
    assert fault.path == "tests/starts-with-the-check.yaml"
    assert 'expected "publish", received "check"' in fault.message


def test_graph_tests_that_are_demanded(source: Path, tmp_path: Path) -> None:
    shutil.rmtree(source / "tests")
    append(source / "pyproject.toml", "[tool.agent-bundler.checks.graph-tests]\nrequired = true\n")
    error, _, _ = failed(source, tmp_path / "work")
    assert error.diagnostics[0].code == "graph-tests-missing"


@pytest.mark.parametrize("left", [None, "notes.txt"])
def test_a_provider_without_graph_tests_is_told_so(left: str | None, source: Path, tmp_path: Path) -> None:
    shutil.rmtree(source / "tests")
    if left is not None:
        (source / "tests").mkdir()
        (source / "tests" / left).touch()
    manifest = source / "provider.yaml"
    manifest.write_text(manifest.read_text().replace("version: 0.1.0", "version: 0.1.0-5"))
    _, evidence, (pitfall,) = failed(source, tmp_path / "work")
    assert pitfall.check == "wheel"
    said = evidence.checks[NAMES.index("graph-tests")].output
    assert said is not None
    assert said.tail == "the Provider has no graph tests in tests/, so none was run\n"


def test_graph_tests_that_can_not_be_read(source: Path, tmp_path: Path) -> None:
    append(source / "tests" / "starts-with-the-check.yaml", "[")
    error, _, (pitfall,) = failed(source, tmp_path / "work")
    assert (pitfall.check, error.diagnostics[0].code) == ("graph-tests", "parse-failed")


def test_pitfalls_stay_until_their_check_passes(source: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    test = source / "tests" / "starts-with-the-check.yaml"
    good = test.read_text()
    test.write_text(good.replace("primaryNode: check", "primaryNode: publish"))
    assert [each.check for each in failed(source, work)[2]] == ["graph-tests"]
    manifest = source / "provider.yaml"
    manifest.write_text(manifest.read_text().replace("version: 0.1.0", "version: one"))
    assert [each.check for each in failed(source, work)[2]] == ["validate", "graph-tests"]
    test.write_text(good)
    manifest.write_text(manifest.read_text().replace("version: one", "version: 0.1.0-5"))
    assert [each.check for each in failed(source, work)[2]] == ["wheel"]


def inside(work: Path, pattern: str) -> Path:
    """What lies in the folder in which a run builds."""
    (found,) = work.glob(f".agent-bundler-*.wheel/{pattern}")
    return found


def change_bundle(work: Path) -> None:
    append(inside(work, "bundle/codes.yaml"), "\n")


def change_wheel(work: Path) -> None:
    append(inside(work, "dist/*.whl"), "x")


def change_installed(work: Path) -> None:
    append(inside(work, "venv/lib/python*/site-packages/agent_graph_providers/*/bundle/codes.yaml"), "\n")


def block_environment(work: Path) -> None:
    inside(work, "").joinpath("venv").touch()


@pytest.mark.parametrize(
    ("check", "sabotage", "told"),
    [
        ("rebuild", change_bundle, "find what changes from build to build"),
        ("wheel-verify", change_wheel, "fetch the wheel again"),
        ("environment", block_environment, "this Python was installed without"),
        ("install", change_wheel, "run the checks again while nothing changes the work folder"),
        ("verify-installed", change_installed, "rebuild the bundle from its source"),
    ],
)
def test_what_was_built_is_not_believed(
    check: str, sabotage: Callable[[Path], None], told: str, source: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"

    def step(name: str, state: str) -> None:
        if (name, state) == (check, "running"):
            sabotage(work)

    error, evidence, (pitfall,) = failed(source, work, step)
    assert pitfall.check == check
    assert error.hint is not None
    assert error.hint.startswith(told)
    assert len(evidence.files) == 2


def test_a_wheel_that_is_not_the_same_again(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def step(name: str, state: str) -> None:
        if (name, state) == ("wheel", "running"):  # what is built here, and not what is built again
            monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")

    error, evidence, (pitfall,) = failed(source, tmp_path / "work", step)
    assert pitfall.check == "rebuild-wheel"
    assert evidence.checks[NAMES.index("rebuild-wheel")].exit_code == 0
    assert "the wheel that was built again has the digest" in error.message


def test_a_readme_that_no_index_would_show(source: Path, tmp_path: Path) -> None:
    append(source / "pyproject.toml", 'readme = "README.rst"\n')
    (source / "README.rst").write_text("x\n=\n\n.. nothing-like-this:: y\n")
    error, _, (pitfall,) = failed(source, tmp_path / "work")
    assert pitfall.check == "wheel-check"
    assert 'Unknown directive type "nothing-like-this"' in error.message
    assert error.hint == "correct the readme that [tool.agent-bundler] names: an index would not show it"


def test_a_python_that_the_wheel_is_not_for(source: Path, tmp_path: Path) -> None:
    append(source / "pyproject.toml", 'requires-python = ">=3.99"\n')
    error, _, (pitfall,) = failed(source, tmp_path / "work")
    assert pitfall.check == "install"
    assert error.hint is not None
    assert error.hint.startswith("correct requires-python in [tool.agent-bundler]")


def test_a_secret_blocks_and_is_shown_nowhere(source: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    append(source / "scripts" / "check.py", f"# {LIKE_A_TOKEN}\n")
    error, evidence, _ = failed(source, work)
    assert [each.code for each in error.diagnostics] == ["secret-found"]
    assert error.diagnostics[0].path == "scripts/check.py"
    assert evidence.accepted == ()
    for text in (repr(error.to_json()), *(file.read_text() for file in work.iterdir())):
        assert LIKE_A_TOKEN not in text


def test_a_command_of_the_project_fails(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work"
    monkeypatch.setenv("ACME_TOKEN", SECRET)
    append(
        source / "pyproject.toml",
        '[tool.agent-bundler.checks]\nbad = { command = "echo $ACME_TOKEN; exit 4" }\nlater = { command = "true" }\n',
    )
    error, evidence, _ = failed(source, work)
    assert error.message == "the check bad failed: the command of bad ended with exit status 4; it says: ***"
    assert [(check.name, check.kind, check.state) for check in evidence.checks[-2:]] == [
        ("bad", "project", "failed"),
        ("later", "project", "not-run"),
    ]
    for text in (repr(error.to_json()), *(file.read_text() for file in work.iterdir())):
        assert SECRET not in text


def changed(source: Path, work: Path, step: Step = lambda name, state: None) -> BundlerError:
    """A run that is void: it leaves no evidence, not even an older one."""
    work.mkdir()
    (work / "evidence.json").write_text("older")
    with pytest.raises(BundlerError) as caught, run_checks(source, work, progress=step):
        raise AssertionError("it passes")
    assert caught.value.code == "release-source-changed"
    assert os.listdir(work) == []
    return caught.value


@pytest.mark.parametrize(
    "change",
    [
        lambda source: append(source / "provider.yaml", "\n"),
        lambda source: append(source / "provider.yaml", "["),
        lambda source: append(source / "pyproject.toml", "\n"),
        lambda source: append(source / "tests" / "new.txt", "x"),
        lambda source: append(source / "skills" / "release" / "new.md", "x"),
        lambda source: (source / "scripts" / "check.py").chmod(0o744),
        lambda source: (source / "codes.yaml").unlink(),
    ],
    ids=["content", "broken", "settings", "test added", "file added", "mode", "file removed"],
)
def test_a_source_that_changes_while_a_check_fails(
    change: Callable[[Path], None], source: Path, tmp_path: Path
) -> None:
    (source / "scripts" / "check.py").chmod(0o644)
    test = source / "tests" / "starts-with-the-check.yaml"
    test.write_text(test.read_text().replace("primaryNode: check", "primaryNode: publish"))

    def step(name: str, state: str) -> None:
        if (name, state) == ("graph-tests", "running"):
            change(source)

    assert "the source changed while the checks ran" in changed(source, tmp_path / "work", step).message


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("echo >> codes.yaml", "it is another one than before"),
        ("echo >> $AGENT_BUNDLER_WHEEL", "a command changed the wheel"),
    ],
)
def test_a_command_that_passes_and_changes_what_is_released(
    command: str, told: str, source: Path, tmp_path: Path
) -> None:
    append(source / "pyproject.toml", f"[tool.agent-bundler.checks]\nbad = {{ command = '{command}' }}\n")
    assert told in changed(source, tmp_path / "work").message


def test_what_does_not_belong_to_the_release_may_change(source: Path, tmp_path: Path) -> None:
    def step(name: str, state: str) -> None:
        if (name, state) == ("graph-tests", "running"):
            append(source / "notes.txt", "x")

    test = source / "tests" / "starts-with-the-check.yaml"
    test.write_text(test.read_text().replace("primaryNode: check", "primaryNode: publish"))
    assert failed(source, source / "dist" / "work", step)[2][0].check == "graph-tests"


@pytest.mark.parametrize("place", [".", "..", "skills/release/work", "tests/work", "link"])
def test_a_work_folder_that_would_change_the_release(place: str, source: Path) -> None:
    (source / "link").symlink_to("tests")
    before = snapshot(source.parent)
    with pytest.raises(BundlerError) as caught, run_checks(source, source / place):
        raise AssertionError("it passes")
    assert caught.value.code == "build-output-overlaps-source"
    assert snapshot(source.parent) == before


def test_invalid_settings_change_nothing(source: Path, tmp_path: Path) -> None:
    append(source / "pyproject.toml", "[tool.agent-bundler.checks]\nx = 1\n")
    with pytest.raises(BundlerError) as caught, run_checks(source, tmp_path / "work"):
        raise AssertionError("it passes")
    assert caught.value.code == "release-settings-invalid"
    assert not (tmp_path / "work").exists()


def test_only_a_source_is_released(source: Path, tmp_path: Path) -> None:
    build_from(source, tmp_path / "bundle")
    error, _, _ = failed(tmp_path / "bundle", tmp_path / "work")
    assert "is a bundle; a release is made from a source" in error.message


def test_a_work_folder_that_is_a_file(source: Path, tmp_path: Path) -> None:
    (tmp_path / "work").touch()
    with pytest.raises(BundlerError) as caught, run_checks(source, tmp_path / "work"):
        raise AssertionError("it passes")
    assert caught.value.code == "output-write-failed"


def test_links_and_fifos_in_the_work_folder_are_replaced(source: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "mine").write_text("mine")
    (work / "evidence.json").symlink_to(tmp_path / "mine")
    os.mkfifo(work / "pitfalls.json")
    append(source / "provider.yaml", "[")
    failed(source, work)
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_killed_run_leaves_nothing_that_is_believed(source: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    code = (
        "import os, sys\nfrom bundler.publish.checks import run_checks\n"
        "def step(name, state):\n    if (name, state) == ('sdist', 'passed'): os.kill(os.getpid(), 9)\n"
        "with run_checks(sys.argv[1], sys.argv[2], progress=step): pass\n"
    )
    done = subprocess.run([sys.executable, "-c", code, source, work], check=False)
    assert done.returncode == -signal.SIGKILL
    assert [name.startswith(".agent-bundler-") for name in os.listdir(work)] == [True]
    append(source / "provider.yaml", "[")
    failed(source, work)  # which looks at what is left
