"""The commands that make, verify and show wheels and what is installed, as their users meet them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bundler.authoring.scaffold import scaffold

from ..builders import snapshot
from .run import agent_bundler, in_process

NAME = "agent_graph_provider_acme_release-0.1.0-py3-none-any.whl"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a source, its bundle, its wheel and an install."""
    root = tmp_path_factory.mktemp("made")
    scaffold(root / "source", "acme/release")
    assert agent_bundler("-m", str(root / "source"), "build", str(root / "bundle")).status == 0
    assert agent_bundler("-m", str(root / "source"), "wheel", str(root / "dist")).status == 0
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*install, "--target", root / "site", root / "dist" / NAME], check=True)
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return shutil.copytree(made, tmp_path / "made", symlinks=True)


def answer(*arguments: str) -> dict[str, Any]:
    result = agent_bundler(*arguments, "--format", "json")
    assert result.status == 0, result.err
    value: dict[str, Any] = json.loads(result.out)
    return value


def refused(*arguments: str) -> dict[str, Any]:
    """The error of a refusal; the same command for people names code and remedy."""
    result = agent_bundler(*arguments, "--format", "json")
    assert result.status == 1
    assert result.out == ""
    error: dict[str, Any] = json.loads(result.err)["error"]
    shown = agent_bundler(*arguments).err
    assert f"error[{error['diagnostics'][0]['code']}]" in shown
    assert "remedy:" in shown
    assert "Traceback" not in shown
    return error


def test_wheel(root: Path) -> None:
    value = answer("-m", str(root / "source"), "wheel", str(root / "new" / "dist"))
    assert value["path"] == str(root / "new" / "dist" / NAME)
    assert (value["distribution"], value["version"]) == ("agent-graph-provider-acme-release", "0.1.0")
    assert (value["provider"], value["declared"]) == ({"id": "acme/release", "version": "0.1.0"}, [])
    assert (root / "new" / "dist" / NAME).read_bytes() == (root / "dist" / NAME).read_bytes()
    shown = agent_bundler("-m", str(root / "bundle"), "wheel", str(root / "dist")).out
    assert shown.startswith(f"built {root / 'dist' / NAME}: acme/release 0.1.0")
    assert shown.endswith(value["digest"] + "\n")


def test_wheel_of_a_bundle_with_the_settings_of_its_source(root: Path) -> None:
    settings = root / "source" / "pyproject.toml"
    settings.write_text('[tool.agent-bundler]\ndistribution = "acme-tools"\nversion = "7"\nlicense = "MIT"\n')
    from_source = answer("-m", str(root / "source"), "wheel", str(root / "one"))
    from_bundle = answer("-m", str(root / "bundle"), "wheel", "--settings", str(settings), str(root / "two"))
    assert from_source["sha256"] == from_bundle["sha256"]
    assert from_source["declared"] == ["distribution", "version"]
    verified = answer("verify", from_source["path"])["bundles"][0]
    assert (verified["distribution"], verified["declared"]) == ("acme-tools", ["distribution", "version"])
    shown = agent_bundler("verify", from_source["path"]).out
    assert "the distribution is declared by its author, not derived from the Provider" in shown


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("pyproject.toml", "[tool.agent-bundler]\nnmae = 1\n"), "wheel-settings-invalid"),
        (("pyproject.toml", "[tool"), "parse-failed"),
        (("provider.yaml", ("version: 0.1.0", "version: 0.1.0-5")), "wheel-version-unmappable"),
        (("provider.yaml", ("version: 0.1.0", "version: one")), "schema-invalid"),
        (("scripts/check.py", "# {ROOT}\n"), "build-absolute-path-leak"),
    ],
)
def test_what_a_wheel_is_refused_for(root: Path, change: tuple[str, Any], code: str) -> None:
    source = root / "source"
    path, content = change
    file = source / path
    file.write_text(
        file.read_text().replace(*content) if isinstance(content, tuple) else content.replace("{ROOT}", str(source))
    )
    before = snapshot(root / "dist")
    assert refused("-m", str(source), "wheel", str(root / "dist"))["code"] == code
    assert snapshot(root / "dist") == before


def test_wheel_settings_that_do_not_exist(root: Path) -> None:
    error = refused("-m", str(root / "bundle"), "wheel", "--settings", str(root / "none.toml"), str(root / "x"))
    assert error["code"] == "file-missing"


def test_verify_takes_all_kinds_at_once(root: Path) -> None:
    wheel, bundle = str(root / "dist" / NAME), str(root / "bundle")
    value = answer("verify", wheel, bundle)
    assert [each["kind"] for each in value["bundles"]] == ["wheel", "bundle"]
    assert len({each["digest"] for each in value["bundles"]}) == 1
    assert value["trusted"] is False
    (root / "bundle" / "extra").write_text("x")
    error = refused("verify", wheel, bundle)
    assert error["code"] == "bundle-files-mismatch"
    assert error["diagnostics"][0]["message"].startswith(f"{bundle}: `extra` lies in the bundle")
    assert error["diagnostics"][-1]["code"] == "bundle-consistent"


def test_a_wheel_is_a_provider_for_every_command(root: Path) -> None:
    wheel = str(root / "dist" / NAME)
    assert answer("-m", wheel, "validate")["provider"]["id"] == "acme/release"
    assert answer("-m", wheel, "inspect", "provider")["counts"]["nodes"] == 5
    assert {file["path"] for file in answer("-m", wheel, "inspect", "files")["files"]} >= {"manifest.json"}
    assert answer("-m", wheel, "explain", "codes.yaml")["carried"] is True
    assert answer("-m", wheel, "digest") == answer("-m", str(root / "bundle"), "digest")
    assert "flowchart" in agent_bundler("-m", wheel, "graph").out
    assert (
        answer("-m", wheel, "build", str(root / "again"))["digest"] == answer("verify", wheel)["bundles"][0]["digest"]
    )
    assert snapshot(root / "again") == snapshot(root / "bundle")


@pytest.mark.parametrize("content", [b"", b"x", b"PK\x05\x06" + b"\0" * 18, b"PK\x03\x04" * 100])
def test_what_is_no_wheel(root: Path, content: bytes) -> None:
    (root / "dist" / NAME).write_bytes(content)
    assert refused("verify", str(root / "dist" / NAME))["code"] in ("archive-invalid", "wheel-metadata-invalid")


def test_paths_that_are_no_wheel(root: Path) -> None:
    assert refused("verify", str(root / "none.whl"))["code"] == "file-missing"
    (root / "folder.whl").mkdir()
    assert refused("verify", str(root / "folder.whl"))["code"] == "file-missing"


def test_list_and_verify_what_is_installed(root: Path) -> None:
    site = str(root / "site")
    (found,) = answer("list", "--path", site)["providers"]
    assert (found["id"], found["state"], found["location"]) == ("acme/release", "installed", site)
    shown = agent_bundler("list", "--path", site).out
    assert shown.startswith(f"acme/release: agent-graph-provider-acme-release 0.1.0 in {site}\n  not verified")
    (verified,) = answer("verify", "--installed", "--path", site)["bundles"]
    assert verified["bytecode"] == ["scripts/__pycache__/" + Path(verified["bytecode"][0]).name]
    assert answer("verify", "--installed", "acme/release", "--path", site)["bundles"] == [verified]
    assert refused("verify", "--installed", "acme/relaese", "--path", site)["code"] == "provider-not-installed"
    assert "did you mean `acme/release`" in agent_bundler("verify", "--installed", "acme/relaese", "--path", site).err


def test_nothing_installed_is_no_fault(tmp_path: Path) -> None:
    assert answer("list", "--path", str(tmp_path)) == {"providers": []}
    assert agent_bundler("list", "--path", str(tmp_path)).out == f"no Provider is installed in {tmp_path}\n"
    assert agent_bundler("verify", "--installed", "--path", str(tmp_path)).status == 0


def test_a_path_that_does_not_exist_is_no_empty_one(tmp_path: Path) -> None:
    for command in (["list"], ["verify", "--installed"]):
        assert refused(*command, "--path", str(tmp_path / "none"))["code"] == "file-missing"


def test_usage_errors(root: Path) -> None:
    for arguments in (["--path", "."], ["--installed", "-m", "x"], ["-m", "x", "y"]):
        assert agent_bundler("verify", *arguments).status == 2


def test_an_installed_provider_is_named_by_its_id(root: Path) -> None:
    result = in_process("-m", "provider:acme/release", "validate", PYTHONPATH=str(root / "site"))
    assert result.out.startswith("acme/release 0.1.0: valid")
    result = in_process("-m", "provider:acme/none", "validate", PYTHONPATH=str(root / "site"))
    assert result.err.startswith("error[provider-not-installed] no Provider `acme/none` is installed")
    (root / "site/agent_graph_providers/p_acme_release/bundle/codes.yaml").write_text("x")
    result = in_process("-m", "provider:acme/release", "inspect", "files", PYTHONPATH=str(root / "site"))
    assert result.err.startswith("error[bundle-file-digest-mismatch]")


def test_places_that_can_not_be_looked_at_are_told(root: Path) -> None:
    (root / "file").write_text("x")
    for place in (str(root / "file"), "/dev/null", ""):
        assert refused("verify", "--installed", "--path", place)["code"] == "file-missing"
    assert answer("verify", "--installed", "--path", str(root / "dist"))["state"] == "nothing"


def test_where_no_wheel_goes(root: Path) -> None:
    before = snapshot(root / "bundle")
    error = refused("-m", str(root / "source"), "wheel", str(root / "bundle"))
    assert error["code"] == "build-output-overlaps-source"
    assert snapshot(root / "bundle") == before
    (root / "file").write_text("x")
    result = agent_bundler("-m", str(root / "source"), "wheel", str(root / "file"))
    assert (result.status, f"{root / 'file'} is no folder" in result.err) == (3, True)


def test_what_a_killed_wheel_left_is_cleared(root: Path) -> None:
    left = root / "dist" / ".agent-bundler-0123456789abcdef.wheel"
    left.mkdir()
    (left / "half").write_text("x")
    assert agent_bundler("-m", str(root / "source"), "wheel", str(root / "dist")).status == 0
    assert [file.name for file in (root / "dist").iterdir()] == [NAME]


def test_a_wheel_of_a_wheel_keeps_its_names(root: Path) -> None:
    settings = root / "source" / "pyproject.toml"
    settings.write_text('[tool.agent-bundler]\ndistribution = "acme-tools"\nversion = "7"\n')
    first = answer("-m", str(root / "source"), "wheel", str(root / "one"))
    second = answer("-m", first["path"], "wheel", str(root / "two"))
    assert first["sha256"] == second["sha256"]


INTERRUPTED = """
import os, signal, sys
from bundler.__main__ import main

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
main()
"""


def test_interrupted_while_it_starts() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, "list"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "aborted\n")
