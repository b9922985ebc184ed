"""A new Provider: valid at once, and nothing of the user's is touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bundler.authoring.scaffold import scaffold
from bundler.bundle.verify import verify_bundle
from bundler.errors import BundlerError
from bundler.provider.load import load_provider
from bundler.tree import DirectoryTree

from ..builders import UNCOVERED, build_from, snapshot

TEMPLATE = Path(__file__).parents[2] / "templates" / "provider"


@pytest.mark.parametrize("identity", ["acme/release", "a", "1", "null", "true", "1.0", "0x1f", "a.b-c_d/e", "x" * 160])
def test_a_new_provider_loads_builds_and_verifies_under_its_id(tmp_path: Path, identity: str) -> None:
    manifest = scaffold(tmp_path / "new" / "provider", identity)
    assert manifest == tmp_path / "new" / "provider" / "provider.yaml"
    with DirectoryTree(manifest.parent) as tree:
        assert load_provider(tree).id == identity
    build_from(manifest.parent, tmp_path / "out")
    with DirectoryTree(tmp_path / "out") as tree:
        assert verify_bundle(tree).provider.id == identity


def test_all_but_the_id_is_the_templates(tmp_path: Path) -> None:
    scaffold(tmp_path / "new", "acme/x")
    ours, theirs = snapshot(tmp_path / "new"), snapshot(TEMPLATE)
    assert {path for path in theirs if ours[path] != theirs[path]} == {"provider.yaml"}
    assert os.access(tmp_path / "new" / "scripts" / "check.py", os.X_OK)
    assert "id: acme/x\n" in (tmp_path / "new" / "provider.yaml").read_text()


def test_an_existing_folder_keeps_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / "graphs").mkdir()
    scaffold(tmp_path, "acme/x")
    assert (tmp_path / "README.md").read_text() == "mine"
    assert (tmp_path / "graphs" / "release.yaml").is_file()


@pytest.mark.parametrize("name", ["provider.yaml", "tests/waits-for-approval.yaml", "skills/release/SKILL.md"])
def test_nothing_is_replaced_and_nothing_is_left(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("mine")
    before = snapshot(tmp_path)
    with pytest.raises(BundlerError) as raised:
        scaffold(tmp_path, "acme/x")
    assert (raised.value.code, raised.value.diagnostics[0].path) == ("provider-target-exists", str(tmp_path / name))
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("where", ["graphs", "."])
def test_a_file_in_a_folders_place(tmp_path: Path, where: str) -> None:
    (tmp_path / "it").mkdir()
    place = tmp_path / "it" / where
    if where == ".":
        (tmp_path / "it").rmdir()
    place.write_text("mine") if where != "." else (tmp_path / "it").write_text("mine")
    before = snapshot(tmp_path)
    with pytest.raises(BundlerError) as raised:
        scaffold(tmp_path / "it", "acme/x")
    assert raised.value.code == "provider-target-exists"
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("identity", ["", "A", "a b", "/a", "a/", "a\n", "-a", "é", "x" * 161, "../x"])
def test_what_is_no_id(tmp_path: Path, identity: str) -> None:
    with pytest.raises(BundlerError) as raised:
        scaffold(tmp_path / "new", identity)
    assert raised.value.code == "id-invalid"
    assert not (tmp_path / "new").exists()


def test_a_disk_that_is_full_leaves_nothing(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400)); from bundler.cli.main import main; main()"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-B",
            "-c",
            code,
            "init",
            str(tmp_path / "new"),
            "--id",
            "acme/x",
        ],  # no bytecode: it would be cut
        env=UNCOVERED,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "output-write-failed" in done.stderr) == (3, True)
    assert os.listdir(tmp_path) == []
