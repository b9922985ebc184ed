"""Building: the same bytes every time, modes whatever the umask, large files without memory."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from bundler.bundle.plan import make_plan
from bundler.bundle.verify import verify_bundle
from bundler.bundle.write import Folder, Nowhere, build, write_bundle
from bundler.errors import BundlerError
from bundler.provider.load import load_provider
from bundler.tree import CHUNK, DirectoryTree

from ..builders import UNCOVERED, build_from, snapshot, with_skill, write_out

FILES = with_skill(
    **{
        "run.sh": "#!/bin/sh\n",
        "deep/er/café.txt": "x",
        "deep/b": b"\x00\xff",
        "A": "1",
        "_": "2",
        "empty": "",
        "z z": "3",
        ".dot": "4",
    }
)


def source(root: Path) -> Path:
    write_out(FILES, root)
    (root / "skills/s/run.sh").chmod(0o755)
    return root


@pytest.fixture
def umask() -> Iterator[object]:
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def test_identical_trees_from_copies_of_one_source(tmp_path: Path) -> None:
    """Other path, modification times, umask, locale, time zone and order of files."""
    seen = []
    for number, (mask, locale, zone) in enumerate(
        [
            (0o000, "C", "UTC"),
            (0o022, "C.UTF-8", "Asia/Kolkata"),
            (0o077, "POSIX", "America/New_York"),
            (0o022, "C", "UTC"),
        ]
    ):
        root = tmp_path / ("x" * (number + 1)) / f"copy {number}"
        items = list(FILES.items())
        write_out(dict(items[::-1] if number else items), root)
        (root / "skills/s/run.sh").chmod((0o777, 0o744, 0o711, 0o755)[number])
        for file in root.rglob("*"):
            os.utime(file, (number * 1e8, number * 1e8))
        output = tmp_path / f"out{number}"
        code = f"import os; os.umask({mask}); from bundler.cli.main import main; main()"
        subprocess.run(
            [sys.executable, "-c", code, "-q", "-m", str(root), "build", str(output)],
            check=True,
            capture_output=True,
            env={
                **os.environ,
                "LC_ALL": locale,
                "TZ": zone,
                "PYTHONHASHSEED": str(number),
                **({"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"} if number == 3 else {}),
            },
        )
        seen.append(snapshot(output))
    assert seen[0] == seen[1] == seen[2] == seen[3]


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o777])
def test_modes_whatever_the_umask(tmp_path: Path, umask: object, mask: int) -> None:
    root = source(tmp_path / "root")
    assert callable(umask)
    umask(mask)
    build_from(root, tmp_path / "out")
    umask(0o022)
    modes = {
        path.relative_to(tmp_path / "out").as_posix(): stat.S_IMODE(path.stat().st_mode)
        for path in [tmp_path / "out", *(tmp_path / "out").rglob("*")]
    }
    assert {mode for path, mode in modes.items() if (tmp_path / "out" / path).is_dir()} == {0o755}
    assert {path for path, mode in modes.items() if mode == 0o755 and not (tmp_path / "out" / path).is_dir()} == {
        "skills/s/run.sh"
    }
    assert set(modes.values()) == {0o755, 0o644}


def test_an_executable_document_stays_executable(tmp_path: Path) -> None:
    root = source(tmp_path / "root")
    (root / "actions/work.yaml").chmod(0o700)
    (root / "provider.yaml").chmod(0o700)
    build_from(root, tmp_path / "out")
    assert stat.S_IMODE((tmp_path / "out/actions/work.yaml").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "out/provider.yaml").stat().st_mode) == 0o644  # generated


def test_links_become_files(tmp_path: Path) -> None:
    root = source(tmp_path / "root")
    (root / "skills/s/link").symlink_to("deep/b")
    (root / "skills/s/folder").symlink_to("../../graphs")
    build_from(root, tmp_path / "out")
    assert not any(path.is_symlink() for path in (tmp_path / "out").rglob("*"))
    assert (tmp_path / "out/skills/s/link").read_bytes() == b"\x00\xff"
    assert (tmp_path / "out/skills/s/folder/main.yaml").is_file()


def test_a_rebuild_from_a_bundle_is_the_same_bundle(tmp_path: Path) -> None:
    build_from(source(tmp_path / "root"), tmp_path / "one")
    with DirectoryTree(tmp_path / "one") as tree:
        bundle = verify_bundle(tree)
        build(make_plan(bundle.tree, bundle.provider), tmp_path / "two")
    assert snapshot(tmp_path / "one") == snapshot(tmp_path / "two")


def test_nowhere_gives_the_manifest_that_a_folder_gets(tmp_path: Path) -> None:
    with DirectoryTree(source(tmp_path / "root")) as tree:
        plan = make_plan(tree, load_provider(tree))
        nowhere = Nowhere()
        manifest = write_bundle(plan, nowhere)
        (tmp_path / "out").mkdir()
        assert write_bundle(plan, Folder(str(tmp_path / "out"))) == manifest
    assert nowhere.executable == {"skills/s/run.sh"}
    assert nowhere.sizes == {
        path.relative_to(tmp_path / "out").as_posix(): path.stat().st_size
        for path in (tmp_path / "out").rglob("*")
        if path.is_file()
    }


def test_progress_counts_files_and_bytes(tmp_path: Path) -> None:
    seen: list[tuple[int, int, int]] = []
    with DirectoryTree(source(tmp_path / "root")) as tree:
        plan = make_plan(tree, load_provider(tree))
        write_bundle(plan, Nowhere(), lambda *numbers: seen.append(numbers))
    assert [files for files, _, _ in seen] == list(range(1, len(plan.files) + 1))
    assert seen[-1][1] == sum(tree_size for tree_size in [len(plan.generated["provider.yaml"])]) + sum(
        (tmp_path / "root" / path).stat().st_size for path in plan.files if path not in plan.generated
    )


def test_a_large_file_costs_a_chunk_of_memory(tmp_path: Path) -> None:
    root = source(tmp_path / "root")
    with (root / "skills/s/model.bin").open("wb") as file:
        file.truncate(64 * CHUNK)
    for action in (lambda: build_from(root, tmp_path / "out"), lambda: verify_bundle(DirectoryTree(tmp_path / "out"))):
        action()
        tracemalloc.start()
        action()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 12 * CHUNK


def test_a_file_that_disappears_after_loading(tmp_path: Path) -> None:
    root = source(tmp_path / "root")
    with DirectoryTree(root) as tree:
        plan = make_plan(tree, load_provider(tree))
        (root / "skills/s/deep/b").unlink()
        with pytest.raises(BundlerError) as raised:
            build(plan, tmp_path / "out")
    assert raised.value.code == "file-missing"
    assert os.listdir(tmp_path) == ["root"]


def test_what_was_parsed_is_what_is_carried(tmp_path: Path) -> None:
    root = source(tmp_path / "root")
    before = (root / "actions/work.yaml").read_bytes()
    with DirectoryTree(root) as tree:
        plan = make_plan(tree, load_provider(tree))
        (root / "actions/work.yaml").write_text("changed: after loading\n")
        build(plan, tmp_path / "out")
    assert (tmp_path / "out/actions/work.yaml").read_bytes() == before


def test_a_full_disk_leaves_the_old_bundle(tmp_path: Path) -> None:
    """A real file system with no room: a loop-free way is a limit on the size of one file."""
    root = source(tmp_path / "root")
    build_from(root, tmp_path / "out")
    old = snapshot(tmp_path / "out")
    with (root / "skills/s/large").open("wb") as file:
        file.truncate(8 * CHUNK)
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({4 * CHUNK}, {4 * CHUNK})); from bundler.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", code, "-m", str(root), "build", str(tmp_path / "out")],
        env=UNCOVERED,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "output-write-failed" in done.stderr
    assert snapshot(tmp_path / "out") == old
    assert sorted(os.listdir(tmp_path)) == ["out", "root"]


def test_no_descriptor_is_left_open_by_a_failed_build(tmp_path: Path) -> None:
    root = source(tmp_path / "root")
    shutil.copytree(root, tmp_path / "not-a-bundle")
    before = len(os.listdir("/dev/fd"))
    for _ in range(3):
        with pytest.raises(BundlerError):
            build_from(root, tmp_path / "not-a-bundle")
    assert len(os.listdir("/dev/fd")) == before
