"""`agent-bundler index`, as its users meet it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from bundler.publish.index import FolderIndex

from ..publish.index.releases import make_index, wheel
from .run import agent_bundler, in_process


@pytest.fixture
def index(tmp_path: Path) -> FolderIndex:
    made = make_index(tmp_path / "index", wheel(tmp_path))
    made.yank("demo", "1.0", reason="bad\u202e", who="me")
    return made


def answer(*arguments: str) -> dict[str, Any]:
    result = agent_bundler("index", *arguments, "--format", "json")
    assert result.status == 0, result.err
    value: dict[str, Any] = json.loads(result.out)
    return value


def refused(*arguments: str, status: int = 1) -> list[str]:
    """The codes of a refusal; the same command for people names each with its remedy."""
    result = agent_bundler("index", *arguments, "--format", "json")
    assert (result.status, result.out) == (status, "")
    codes = [each["code"] for each in json.loads(result.err)["error"]["diagnostics"]]
    shown = agent_bundler("index", *arguments).err
    assert all(f"[{code}]" in shown for code in codes)
    assert "remedy:" in shown
    assert "Traceback" not in shown
    return codes


def test_init(tmp_path: Path) -> None:
    made = answer("init", str(tmp_path / "new"))
    assert (made["state"], made["index"]) == ("made", str(tmp_path / "new"))
    assert refused("init", str(tmp_path / "new")) == ["index-exists"]
    assert agent_bundler("index", "init", f"file://{tmp_path}/second").out == f"made {tmp_path}/second\n"
    assert "no project" in agent_bundler("index", "list", str(tmp_path / "second")).out
    assert refused("init", str(tmp_path / "new" / "head"), status=3) == ["output-write-failed"]


def test_verify(index: FolderIndex) -> None:
    found = answer("verify", index.root)
    assert found == {
        "state": "consistent",
        "index": index.root,
        "number": 2,
        "head": index.head().digest,
        "projects": 1,
    }
    shown = agent_bundler("index", "verify", index.root).out
    assert shown == f"{index.root}: consistent, 1 project, 2 changes\n{index.head().digest}\n"
    (Path(index.root) / "files/demo/demo-9.tar.gz").write_text("left")
    result = agent_bundler("index", "verify", index.root)
    assert result.status == 0
    assert "warning[index-stray]" in result.err
    (Path(index.root) / "simple/index.html").unlink()
    (Path(index.root) / "files/demo/demo-1.0-py3-none-any.whl").unlink()
    assert refused("verify", index.root) == ["index-page-mismatch", "index-file-mismatch", "index-stray"]


def test_rebuild_and_gc(index: FolderIndex) -> None:
    assert answer("rebuild", index.root) == {"state": "nothing", "paths": []}
    assert agent_bundler("index", "rebuild", index.root).out == "everything is what the journal says\n"
    (Path(index.root) / "simple/index.html").unlink()
    assert agent_bundler("index", "rebuild", index.root).out == "rebuilt simple/index.html\n"
    assert agent_bundler("index", "gc", index.root).out == "nothing was left behind\n"
    (Path(index.root) / "files/demo/demo-9.tar.gz").write_text("left")
    assert answer("gc", index.root) == {"state": "removed", "paths": ["files/demo/demo-9.tar.gz"]}
    assert answer("verify", index.root)["state"] == "consistent"
    os.unlink(Path(index.root) / "journal/00000001.json")
    assert refused("rebuild", index.root) == ["index-invalid"]
    assert refused("gc", index.root) == ["index-invalid"]


def test_list(index: FolderIndex) -> None:
    (project,) = answer("list", index.root)["projects"]
    (file,) = project["files"]
    assert (project["name"], file["version"], file["yanked"]) == ("demo", "1.0", "bad\u202e")
    assert file["path"] == "files/demo/demo-1.0-py3-none-any.whl"
    shown = agent_bundler("index", "list", index.root).out
    assert shown.startswith("demo\n  1.0  demo-1.0-py3-none-any.whl  ")
    assert f"sha256:{file['hashes']['sha256']}, yanked: bad" in shown


@pytest.mark.parametrize("command", ["verify", "rebuild", "list", "gc"])
def test_no_index(tmp_path: Path, command: str) -> None:
    for reference in (str(tmp_path), str(tmp_path / "missing"), "https://example.org/simple"):
        assert refused(command, reference) == ["index-missing"]
    assert agent_bundler("index", command).status == 2


def test_as_a_process(index: FolderIndex) -> None:
    assert in_process("index", "verify", index.root).status == 0
    assert in_process("index", "--help").out.count("\n  ") >= 5
