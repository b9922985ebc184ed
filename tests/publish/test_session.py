"""One check at a time: commands that end, fail, hang and flood, and what is left of each."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest

from bundler.errors import BundlerError
from bundler.publish.evidence import Check
from bundler.publish.scrub import TAIL, Scrubber
from bundler.publish.session import CheckFailed, Session

from ..views import all_gone

ENVIRONMENT = {**os.environ, "ACME_TOKEN": "s3cr3t-value"}


class Told:
    """A session of these checks, and what it told."""

    def __init__(self, *names: str) -> None:
        self.told: list[tuple[str, str]] = []
        scrubber = Scrubber(ENVIRONMENT, {})
        self.session = Session(names, scrubber, lambda name, state: self.told.append((name, state)))

    def run(self, command: str | list[str], cwd: Path, **options: object) -> Check:
        """The next check, which has to fail or pass as it is expected to."""
        name = f"check-{len(self.session.reached)}"
        self.session.run(name, command, cwd=str(cwd), environment=ENVIRONMENT, **options)  # type: ignore[arg-type]
        return self.session.end()[len(self.session.reached) - 1]

    def fails(self, command: str | list[str], cwd: Path, **options: object) -> tuple[BundlerError, Check]:
        with pytest.raises(CheckFailed) as caught:
            self.run(command, cwd, **options)
        assert caught.value.error.code == "release-check-failed"
        return caught.value.error, self.session.end()[len(self.session.reached) - 1]


@pytest.fixture
def told() -> Told:
    return Told("check-0", "check-1")


def test_a_command_that_passes(told: Told, tmp_path: Path) -> None:
    check = told.run("echo out; echo err >&2; pwd; echo $ACME_TOKEN; cat", tmp_path)
    said = f"out\nerr\n{tmp_path}\n***\n"
    assert check.output is not None
    assert check.output.tail == said
    assert (check.output.digest, check.output.size) == (
        f"sha256:{hashlib.sha256(said.encode()).hexdigest()}",
        len(said),
    )
    assert (check.kind, check.state, check.exit_code) == ("project", "passed", 0)
    assert check.command == "echo out; echo err >&2; pwd; echo $ACME_TOKEN; cat"
    assert told.told[:2] == [("check-0", "running"), ("check-0", "passed")]
    assert told.told[-1] == ("check-1", "not-run")


def test_a_secret_in_the_command_itself(told: Told, tmp_path: Path) -> None:
    assert told.run(["/bin/echo", "s3cr3t-value"], tmp_path).command == ("/bin/echo", "***")


def test_a_command_that_fails(told: Told, tmp_path: Path) -> None:
    error, check = told.fails("echo one; echo Error: s3cr3t-value; echo two; exit 3", tmp_path)
    assert error.message == "the command of check-0 ended with exit status 3; it says: Error: ***"
    assert error.diagnostics[0].detail == {
        "check": "check-0",
        "exitStatus": 3,
        "output": ["one", "Error: ***", "two"],
    }
    assert (check.state, check.exit_code) == ("failed", 3)
    assert [each.state for each in told.session.end()] == ["failed", "not-run"]
    assert told.session.end()[1].output is None


@pytest.mark.parametrize(
    ("command", "how", "hint"),
    [
        ("kill -TERM $$", "was ended by signal 15", "the command tells it"),
        ("no-such-program-here", "ended with exit status 127", "install the program that is missing"),
        ("touch x; ./x", "ended with exit status 126", "make the program executable"),
        (["/no/such/program"], "can't be started: No such file or directory", "the command tells it"),
        (["x\0y"], "can't be started: embedded null byte", "the command tells it"),
    ],
)
def test_how_a_command_ended(command: str | list[str], how: str, hint: str, told: Told, tmp_path: Path) -> None:
    error, _ = told.fails(command, tmp_path)
    assert how in error.message
    assert error.hint is not None
    assert error.hint.startswith(hint)


def test_a_command_that_hangs_is_ended_with_all_that_it_started(told: Told, tmp_path: Path) -> None:
    script = "sh -c 'echo $$ > inner; trap \"\" TERM; while :; do sleep 1; done' & echo begun; wait"
    error, check = told.fails(script, tmp_path, timeout=1.0)
    assert "did not end within 1 seconds, and was ended with all that it had started; it says: begun" in error.message
    assert error.hint is not None
    assert "timeout" in error.hint
    assert check.exit_code is None
    assert all_gone([int((tmp_path / "inner").read_text())])


def test_what_a_command_leaves_running_is_ended(told: Told, tmp_path: Path) -> None:
    told.run("sleep 600 & echo $! > left", tmp_path)
    assert all_gone([int((tmp_path / "left").read_text())])


def test_a_flood_of_output_is_digested_and_its_end_kept(told: Told, tmp_path: Path) -> None:
    script = "import sys\nfor _ in range(50): sys.stdout.write('x' * 1_000_000)\nprint()"
    check = told.run([sys.executable, "-c", script], tmp_path)
    assert check.output is not None
    assert check.output.size == 50_000_001
    whole = b"x" * 50_000_000 + b"\n"
    assert check.output.digest == f"sha256:{hashlib.sha256(whole).hexdigest()}"
    assert len(check.output.tail) == TAIL


def test_the_folder_has_to_lie_inside(told: Told, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "out").symlink_to(tmp_path)
    (root / "file").touch()
    for cwd in (root / "out", root / "none", root / "file"):
        error, _ = Told("check-0").fails("true", cwd, inside=str(root))
        assert f"{cwd} is no folder in the source" in error.message
        assert error.hint == "correct `cwd` in [tool.agent-bundler.checks]"
    assert told.run("true", root, inside=str(root)).state == "passed"


def test_a_mask_for_new_files(told: Told, tmp_path: Path) -> None:
    told.run("touch x", tmp_path, umask=0o077)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o600


def test_what_looks_at_the_result_can_refuse_it(told: Told, tmp_path: Path) -> None:
    def refuse() -> None:
        raise BundlerError("release-check-failed", "it is another one", hint="look")

    error, check = told.fails("echo fine", tmp_path, then=refuse)
    assert (error.message, error.hint) == ("it is another one", "look")
    assert (check.state, check.exit_code) == ("failed", 0)
    assert check.output is not None
    assert check.output.tail == "fine\nerror[release-check-failed] it is another one\n"


@pytest.mark.parametrize("code", ["output-write-failed", "release-source-changed", "build-output-overlaps-source"])
def test_what_says_nothing_about_a_check_is_no_failure_of_it(code: str, told: Told) -> None:
    def refuse(log: object) -> None:
        raise BundlerError(code, "no")

    with pytest.raises(BundlerError) as caught:
        told.session.do("check-0", refuse)
    assert caught.value.code == code
    assert told.session.reached == []


def test_checks_have_one_order(told: Told) -> None:
    with pytest.raises(AssertionError, match="check-1 is not the next check"):
        told.session.do("check-1", lambda log: None)
