"""What git is asked, by repositories that would run commands."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bundler.bundle.open import open_path
from bundler.wheel.settings import read_settings
from bundler.wheel.source import SourceState, source_state

from ..builders import minimal, write_out


def git(root: Path, *arguments: str) -> str:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "protocol.file.allow=always"]
    done = subprocess.run(["git", "-C", str(root), *who, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def committed(root: Path) -> Path:
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "x")
    return root


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return committed(write_out(minimal(), tmp_path / "source"))


def state(root: Path) -> SourceState:
    with open_path(root) as opened:
        return source_state(opened, read_settings(opened.tree))


def test_filters_of_a_repository_do_not_run(repository: Path, tmp_path: Path) -> None:
    assert not state(repository).dirty
    (repository / ".git/info/attributes").write_text("* filter=x\n")
    git(repository, "config", "filter.x.clean", f"touch {tmp_path}/ran; cat")
    (repository / "provider.yaml").touch()
    found = state(repository)
    assert (found.commit, found.dirty) == (git(repository, "rev-parse", "HEAD"), True)
    assert not (tmp_path / "ran").exists()


def test_filters_of_submodules_do_not_run(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/a").write_text("a")
    committed(tmp_path / "inner")
    git(repository, "submodule", "--quiet", "add", str(tmp_path / "inner"), "sub")
    git(repository, "commit", "-qm", "y")
    (repository / ".git/modules/sub/info/attributes").write_text("* filter=x\n")
    git(repository / "sub", "config", "filter.x.clean", f"touch {tmp_path}/ran; cat")
    (repository / "sub/a").touch()
    assert state(repository).dirty
    assert not (tmp_path / "ran").exists()


def test_nothing_is_fetched(repository: Path, tmp_path: Path) -> None:
    tree = git(repository, "rev-parse", "HEAD^{tree}")
    for name, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", "ssh://host.invalid/x"),
        ("core.sshCommand", f"touch {tmp_path}/ran; false"),
    ):
        git(repository, "config", name, value)
    (repository / ".git/objects" / tree[:2] / tree[2:]).unlink()
    assert state(repository).dirty
    assert not (tmp_path / "ran").exists()
