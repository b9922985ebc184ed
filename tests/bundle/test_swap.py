"""The output appears whole or not at all: killed at any moment, two builds at once, what is not ours."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from bundler.bundle import swap
from bundler.bundle.swap import recover, replacing
from bundler.bundle.verify import verify_bundle
from bundler.errors import BundlerError
from bundler.tree import DirectoryTree

from ..builders import UNCOVERED, build_from, minimal, snapshot, with_skill, write_out

BUILD = "from bundler.cli.main import main; main()"
# The same where the system could not exchange two folders in one step.
BUILD_BY_RENAMES = "from bundler.bundle import swap; swap._exchange = lambda first, second: False; " + BUILD


def run_build(root: Path, output: Path, code: str = BUILD) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", code, "-q", "-m", str(root), "build", str(output)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=UNCOVERED,  # a process that is killed leaves half of what it was covered
    )


def leftovers(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.startswith(".agent-bundler-")]


def test_onto_nothing_an_empty_folder_and_a_bundle(tmp_path: Path) -> None:
    root = write_out(minimal(), tmp_path / "root")
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty", "deep/er"):
        build_from(root, tmp_path / name)
    one = snapshot(tmp_path / "new")
    build_from(root, tmp_path / "new")
    assert snapshot(tmp_path / "new") == snapshot(tmp_path / "empty") == snapshot(tmp_path / "deep/er") == one
    assert leftovers(tmp_path) == []


def test_by_two_renames_where_folders_cannot_be_exchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swap, "_exchange", lambda first, second: False)
    build_from(write_out(minimal(), tmp_path / "root"), tmp_path / "out")
    build_from(write_out(with_skill(), tmp_path / "other"), tmp_path / "out")
    assert (tmp_path / "out" / "skills").is_dir()
    assert leftovers(tmp_path) == []


def test_through_a_link_the_folder_behind_it_is_replaced(tmp_path: Path) -> None:
    root = write_out(minimal(), tmp_path / "root")
    build_from(root, tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    build_from(write_out(with_skill(), tmp_path / "other"), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "skills").is_dir()


@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda out: (out / "mine.txt").write_text("x"),
        lambda out: (out / "graphs" / "mine.txt").write_text("x"),
        lambda out: (out / "mine").mkdir(),
        lambda out: (out / "link").symlink_to("/etc"),
        lambda out: (out / ".git").mkdir(),
        lambda out: (out / "notes~").write_text("x"),
        lambda out: (out / ".notes.swp").write_text("x"),
        lambda out: (out / "manifest.json").unlink(),
        lambda out: (out / "manifest.json").write_text("{}"),
        lambda out: (out / "manifest.json").write_bytes(b"\x00"),
    ],
)
def test_what_is_not_ours_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool, spoil: object
) -> None:
    if not exchange:
        monkeypatch.setattr(swap, "_exchange", lambda first, second: False)
    root = write_out(minimal(), tmp_path / "root")
    build_from(root, tmp_path / "out")
    assert callable(spoil)
    spoil(tmp_path / "out")
    before = snapshot(tmp_path / "out")
    with pytest.raises(BundlerError) as raised:
        build_from(root, tmp_path / "out")
    assert raised.value.code == "build-output-not-a-bundle"
    assert snapshot(tmp_path / "out") == before
    assert leftovers(tmp_path) == []


def test_a_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(BundlerError) as raised:
        build_from(write_out(minimal(), tmp_path / "root"), tmp_path / "out")
    assert raised.value.code == "build-output-not-a-bundle"
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.parametrize("exchange", [True, False])
def test_what_becomes_not_ours_while_we_build_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool
) -> None:
    """Between our look at the target and the exchange somebody puts a file there."""
    build_from(write_out(minimal(), tmp_path / "root"), tmp_path / "out")
    real = swap._exchange

    def spoiling(first: str, second: str) -> bool:
        (tmp_path / "out" / "mine.txt").write_text("x")
        return exchange and real(first, second)

    monkeypatch.setattr(swap, "_exchange", spoiling)
    with pytest.raises(BundlerError) as raised:
        build_from(tmp_path / "root", tmp_path / "out")
    assert raised.value.code == "build-output-not-a-bundle"
    assert (tmp_path / "out" / "mine.txt").read_text() == "x"
    assert leftovers(tmp_path) == []


def test_a_changed_or_incomplete_bundle_is_replaced(tmp_path: Path) -> None:
    root = write_out(minimal(), tmp_path / "root")
    build_from(root, tmp_path / "out")
    whole = snapshot(tmp_path / "out")
    (tmp_path / "out" / "graphs" / "main.yaml").unlink()
    (tmp_path / "out" / "provider.yaml").write_text("changed")
    (tmp_path / "out" / ".DS_Store").write_text("junk")
    build_from(root, tmp_path / "out")
    assert snapshot(tmp_path / "out") == whole


def test_an_error_in_the_middle_leaves_everything(tmp_path: Path) -> None:
    build_from(write_out(minimal(), tmp_path / "root"), tmp_path / "out")
    before = snapshot(tmp_path / "out")

    def half() -> None:
        with replacing(str(tmp_path / "out")) as staged:
            Path(staged, "half").write_text("x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()
    assert snapshot(tmp_path / "out") == before
    assert leftovers(tmp_path) == []


def test_leftovers_of_the_dead_are_cleared_those_of_the_living_stay(tmp_path: Path) -> None:
    root = write_out(minimal(), tmp_path / "root")
    with replacing(str(tmp_path / "out")) as living:
        Path(living, "x").write_text("living")
        dead = Path(str(living)[: -len("0123456789abcdef.new")] + "0123456789abcdef.new")
        (dead / "folder").mkdir(parents=True)
        recover(str(tmp_path / "out"))
        assert not dead.exists()
        assert Path(living, "x").read_text() == "living"
        for file in Path(living).iterdir():
            file.unlink()
    assert leftovers(tmp_path) == []
    build_from(root, tmp_path / "out")


def test_other_targets_leftovers_are_left_alone(tmp_path: Path) -> None:
    with replacing(str(tmp_path / "one")) as staged:
        other = Path(staged)
    other.mkdir()
    recover(str(tmp_path / "two"))
    assert other.is_dir()
    recover(str(tmp_path / "one"))
    assert not other.exists()


def test_a_kill_between_two_renames_is_undone_by_the_next_command(tmp_path: Path) -> None:
    root = write_out(minimal(), tmp_path / "root")
    build_from(root, tmp_path / "out")
    code = (
        "import os; from bundler.bundle import swap; swap._exchange = lambda first, second: False; real = os.rename\n"
        "def rename(source, target):\n"
        "    real(source, target)\n"
        "    if target.endswith('.old'): os.kill(os.getpid(), 9)\n"
        "os.rename = rename\n" + BUILD
    )
    process = run_build(root, tmp_path / "out", code)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    done = subprocess.run(
        [sys.executable, "-c", BUILD, "verify", str(tmp_path / "out")], capture_output=True, check=False
    )
    assert done.returncode == 0
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("code", [BUILD, BUILD_BY_RENAMES], ids=["exchange", "renames"])
def test_killed_at_any_moment_the_old_or_the_new_bundle_is_there(tmp_path: Path, code: str) -> None:
    chance = random.Random(code)
    roots = [
        write_out(with_skill(**{f"f{i}": f"{version} {i}\n" * 50 for i in range(60)}), tmp_path / version)
        for version in ("one", "two")
    ]
    output = tmp_path / "out"
    trees = []
    for root in roots:
        build_from(root, output)
        trees.append(snapshot(output))
    began = time.monotonic()
    process = run_build(roots[0], output, code)
    assert process.communicate(timeout=60) == (None, b"")
    took = time.monotonic() - began
    outcomes = set()
    for attempt in range(40):
        process = run_build(roots[attempt % 2], output, code)
        # Most of the time is start-up: the last third is where it writes.
        time.sleep(took * chance.uniform(0.4, 1.1))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        if not output.exists():  # between two renames: the next command sees to it
            assert code == BUILD_BY_RENAMES
            recover(str(output))
        found = snapshot(output)
        assert found in trees
        outcomes.add((found == trees[attempt % 2], process.returncode))
    assert any(status == -signal.SIGKILL for _, status in outcomes)
    build_from(roots[0], output)
    assert snapshot(output) == trees[0]
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("code", [BUILD, BUILD_BY_RENAMES], ids=["exchange", "renames"])
def test_two_builds_at_once_one_wins_whole(tmp_path: Path, code: str) -> None:
    roots = [
        write_out(with_skill(**{f"f{i}": f"{version} {i}" for i in range(40)}), tmp_path / version)
        for version in ("one", "two")
    ]
    trees = []
    for root in roots:
        build_from(root, tmp_path / "alone")
        trees.append(snapshot(tmp_path / "alone"))
    for _ in range(4):
        processes = [run_build(root, tmp_path / "out", code) for root in (*roots, *roots)]
        for process in processes:
            _, errors = process.communicate(timeout=120)
            assert (process.returncode, errors) == (0, b"")
        assert snapshot(tmp_path / "out") in trees
        with DirectoryTree(tmp_path / "out") as tree:
            verify_bundle(tree)
    assert leftovers(tmp_path) == []


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """A user who may not write there gets a clear error, and the old bundle stays."""
    root = write_out(minimal(), tmp_path / "root")
    (tmp_path / "parent").mkdir()
    build_from(root, tmp_path / "parent" / "out")
    before = snapshot(tmp_path / "parent" / "out")
    (tmp_path / "parent").chmod(0o555)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.chdir(tmp_path)  # the folders above may be closed to others
            if os.geteuid() == 0:
                os.setgroups([])
                os.setuid(65534)
            with replacing("parent/out"):
                os.write(write_end, b"entered")
        except BundlerError as error:
            os.write(write_end, error.code.encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as answer:
        assert answer.read() == "output-write-failed"
    os.waitpid(child, 0)
    (tmp_path / "parent").chmod(0o755)
    assert snapshot(tmp_path / "parent" / "out") == before


def test_a_bundle_that_was_made_read_only_is_replaced_and_nothing_else_is_changed() -> None:
    """As a user who is not root, whom modes bind."""
    code = (
        "import os, sys; from pathlib import Path; from tests.builders import build_from; home = Path(sys.argv[1])\n"
        "for source in sys.argv[2:]: build_from(source, home / 'warm')  # all is imported that is imported where used\n"
        "__import__('shutil').rmtree(home / 'warm'); os.chdir(home)\n"
        "if os.geteuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "build_from(sys.argv[2], 'out')\n"
        "for place in [*Path('out').rglob('*'), Path('out')]: place.chmod(0o555 if place.is_dir() else 0o444)\n"
        "before = home.stat().st_mode\n"
        "build_from(sys.argv[3], 'out')\n"
        "print(home.stat().st_mode == before, sorted(os.listdir('.')), sorted(os.listdir('out/skills/s')))\n"
    )
    # Not pytest's folder: the folders above that are closed to other users.
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        base.chmod(0o755)
        for source in ("one", "two"):
            write_out(with_skill(**{source: source}), base / source)
        home = base / "home"
        home.mkdir(0o755)
        if os.geteuid() == 0:
            os.chown(home, 65534, -1)
        done = subprocess.run(
            [sys.executable, "-c", code, str(home), str(base / "one"), str(base / "two")],
            cwd=Path(__file__).parents[2],
            env=UNCOVERED,
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.stdout, done.stderr) == ("True ['out'] ['SKILL.md', 'two']\n", "")


@pytest.mark.parametrize("exchange", [True, False])
def test_a_build_that_starts_while_another_replaces_clears_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool
) -> None:
    """What came out of the exchange is the other's until it is gone."""
    build_from(write_out(minimal(), tmp_path / "root"), tmp_path / "out")
    real = swap._not_replaceable

    def looking(target: str) -> str | None:
        recover(str(tmp_path / "out"))  # in another process: its locks are not ours
        return real(target)

    if not exchange:
        monkeypatch.setattr(swap, "_exchange", lambda first, second: False)
    monkeypatch.setattr(swap, "_not_replaceable", looking)
    build_from(write_out(with_skill(), tmp_path / "other"), tmp_path / "out")
    with DirectoryTree(tmp_path / "out") as tree:
        assert "skills/s/SKILL.md" in verify_bundle(tree).manifest.files


def test_folders_made_for_an_output_that_fails_are_gone(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "root"
    write_out(with_skill(leak=f"{root}/x"), root)
    with pytest.raises(BundlerError):
        build_from(root, tmp_path / "new" / "deep" / "out")
    assert os.listdir(tmp_path) == ["root"]


def test_a_folder_that_only_begins_like_ours_stays(tmp_path: Path) -> None:
    with replacing(str(tmp_path / "out")) as staged:
        mine = Path(staged).parent / (Path(staged).name[:-20] + "mine")
    mine.mkdir()
    recover(str(tmp_path / "out"))
    assert mine.is_dir()


def test_a_stage_that_another_build_takes_for_a_leftover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between making the folder and locking it, a build that starts clears it: another one is made."""
    real, calls = os.mkdir, []

    def mkdir(path: str, *rest: int) -> None:
        real(path, *rest)
        calls.append(path)
        if len(calls) == 1:
            recover(str(tmp_path / "out"))

    monkeypatch.setattr(swap.os, "mkdir", mkdir)
    with replacing(str(tmp_path / "out")) as staged:
        assert staged != calls[0]
        assert Path(staged).is_dir()
