"""Real installers: pip and uv, into fresh environments, from a folder and with hashes; the build backend, isolated and not.

The isolated builds take what the backend needs from the package index that pip and uv are configured with.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from bundler.authoring.scaffold import scaffold
from bundler.bundle.open import open_path
from bundler.runtime.open import open_provider
from bundler.wheel.build import BuiltWheel, make_wheel

from ..builders import snapshot
from ..cli.run import agent_bundler

ROOT = Path(__file__).parents[2]
UV = [sys.executable, "-m", "uv"]


def run(*command: str | Path, cwd: Path | None = None, **environment: str) -> str:
    """What the command printed; it has to succeed."""
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("provider") / "acme"
    scaffold(folder, "acme/release")
    return folder


@pytest.fixture(scope="module")
def wheel(provider: Path, tmp_path_factory: pytest.TempPathFactory) -> BuiltWheel:
    with open_path(provider) as opened:
        return make_wheel(opened, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel of this package."""
    folder = tmp_path_factory.mktemp("ours")
    source = tmp_path_factory.mktemp("checkout") / "project"
    names = ["bundler", "schemas", "templates", "pyproject.toml", "README.md", "LICENSE"]
    for name in names:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        (source / name).parent.mkdir(exist_ok=True)
        copy(ROOT / name, source / name)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, source)
    return folder


def environment(folder: Path) -> tuple[Path, Path]:
    """A fresh virtual environment without pip: its Python, and where it installs to."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    (site,) = folder.glob("lib/python*/site-packages")
    return folder / "bin" / "python", site


def files(found: dict[str, tuple[int, bytes | str]]) -> dict[str, bytes | str]:
    """Without folders: pip leaves the empty ones of the namespace."""
    return {path: content for path, (mode, content) in found.items() if not stat.S_ISDIR(mode)}


def pip(python: Path, *arguments: str | Path) -> str:
    return run(sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", *arguments)


def listed(site: Path) -> list[dict[str, str]]:
    result = agent_bundler("list", "--format", "json", "--path", str(site))
    assert result.status == 0, result.err
    providers: list[dict[str, str]] = json.loads(result.out)["providers"]
    return providers


def verified(site: Path) -> list[str]:
    result = agent_bundler("verify", "--installed", "--format", "json", "--path", str(site))
    assert result.status == 0, result.err
    assert json.loads(result.out)["trusted"] is False
    return [each["digest"] for each in json.loads(result.out)["bundles"]]


def test_pip_from_a_folder_and_with_hashes(wheel: BuiltWheel, tmp_path: Path) -> None:
    folder = Path(wheel.path).parent
    for name, arguments in (
        ("plain", ["--find-links", folder, wheel.identity.distribution]),
        ("hashed", ["--find-links", folder, "--require-hashes", "--only-binary", ":all:", "-r", tmp_path / "list"]),
    ):
        requirement = f"{wheel.identity.distribution}==0.1.0 --hash=sha256:{wheel.sha256}\n"
        (tmp_path / "list").write_text(requirement)
        python, site = environment(tmp_path / name)
        before = snapshot(site)
        pip(python, "install", "--no-index", *arguments)
        (found,) = listed(site)
        assert (found["id"], found["state"], found["digest"]) == ("acme/release", "installed", wheel.digest)
        assert verified(site) == [wheel.digest]
        script = site / wheel.identity.bundle_folder / "scripts" / "check.py"
        assert os.access(script, os.X_OK)
        assert any((script.parent / "__pycache__").iterdir())  # pip compiled it
        pip(python, "uninstall", "--yes", wheel.identity.distribution)
        assert files(snapshot(site)) == files(before)
        assert listed(site) == []


def test_another_hash_is_not_installed(wheel: BuiltWheel, tmp_path: Path) -> None:
    python, site = environment(tmp_path / "host")
    (tmp_path / "list").write_text(f"{wheel.identity.distribution}==0.1.0 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(AssertionError, match=f"Got +{wheel.sha256}"):
        pip(python, "install", "--no-index", "--find-links", Path(wheel.path).parent, "-r", tmp_path / "list")
    assert listed(site) == []


def test_uv_and_its_uninstall(wheel: BuiltWheel, tmp_path: Path) -> None:
    python, site = environment(tmp_path / "host")
    before = snapshot(site)
    install = [*UV, "pip", "install", "--python", python, "--no-index", "--find-links", Path(wheel.path).parent]
    run(*install, wheel.identity.distribution)
    assert verified(site) == [wheel.digest]
    run(*UV, "pip", "uninstall", "--python", python, wheel.identity.distribution)
    assert files(snapshot(site)) == files(before)


def test_two_providers_side_by_side(wheel: BuiltWheel, tmp_path: Path) -> None:
    scaffold(tmp_path / "other", "acme/re-lease")
    with open_path(tmp_path / "other") as opened:
        other = make_wheel(opened, tmp_path / "dist")
    python, site = environment(tmp_path / "host")
    pip(python, "install", "--no-index", wheel.path, other.path)
    assert [each["id"] for each in listed(site)] == ["acme/re-lease", "acme/release"]
    assert verified(site) == [other.digest, wheel.digest]
    pip(python, "uninstall", "--yes", other.identity.distribution)
    assert verified(site) == [wheel.digest]


def test_user_installs_and_the_path_of_this_python(wheel: BuiltWheel, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", tmp_path / "host")
    base = {"PYTHONUSERBASE": str(tmp_path / "user")}
    command = [sys.executable, "-m", "pip", "--python", tmp_path / "host" / "bin" / "python", "install", "--user"]
    run(*command, "--no-index", wheel.path, **base)
    (site,) = (tmp_path / "user").glob("lib/python*/site-packages")
    code = "from bundler.runtime.open import open_provider\nwith open_provider('provider:acme/release') as p: print(p.digest)"
    assert run(sys.executable, "-c", code, PYTHONPATH=f"{ROOT}{os.pathsep}{site}").strip() == wheel.digest


def test_importing_runs_nothing(wheel: BuiltWheel, tmp_path: Path) -> None:
    python, site = environment(tmp_path / "host")
    pip(python, "install", "--no-index", wheel.path)
    code = f"import {wheel.identity.module} as m; print(m.__file__, sorted(n for n in dir(m) if n[0] != '_'))"
    assert run(python, "-B", "-c", code).strip() == "None []"
    assert not list(site.glob("agent_graph_providers/*.py"))
    assert not list(python.parent.glob("*agent*"))  # no command either


def test_a_skill_that_names_an_installed_provider(
    wheel: BuiltWheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skill = tmp_path / "SKILL.md"
    skill.write_text(
        "---\nname: s\nmetadata:\n  agent-graph: provider:acme/release\n"
        "  agent-graph.graph: release\n  agent-graph.entry: default\n---\n"
    )
    assert agent_bundler("inspect", "skill", str(skill)).err.startswith("error[provider-unresolved]")
    run(sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--target", tmp_path / "site", wheel.path)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    result = agent_bundler("inspect", "skill", str(skill), "--format", "json")
    assert json.loads(result.out)["binding"]["provider"] == "acme/release"
    assert agent_bundler("--skill", str(skill), "validate").status == 0
    assert agent_bundler("--skill", str(skill), "-m", "provider:acme/release", "validate").status == 0
    # An explicit registry comes first, and may name something else.
    (tmp_path / "registry.json").write_text('{"acme/release": "elsewhere/provider.yaml"}')
    refused = agent_bundler("--skill", str(skill), "--registry", str(tmp_path / "registry.json"), "validate")
    assert refused.err.startswith("error[file-missing]")


# --- the build backend --------------------------------------------------------------------------------------


def outputs(folder: Path) -> dict[str, str]:
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir() if file.name[0] != "."
    }


def test_the_backend_without_isolation(provider: Path, wheel: BuiltWheel, tmp_path: Path) -> None:
    python = sys.executable
    run(python, "-m", "build", "--no-isolation", "--outdir", tmp_path / "build", provider)
    run(python, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", tmp_path / "pip", provider)
    run(*UV, "build", "--no-build-isolation", "--out-dir", tmp_path / "uv", provider)
    name = Path(wheel.path).name
    built = outputs(tmp_path / "build")
    assert outputs(tmp_path / "pip") == {name: wheel.sha256}
    assert outputs(tmp_path / "uv") == built
    assert built[name] == wheel.sha256
    (sdist,) = (tmp_path / "build").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        assert "agent_graph_provider_acme_release-0.1.0/tests/waits-for-approval.yaml" in archive.getnames()
    run(python, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", tmp_path / "again", sdist)
    assert outputs(tmp_path / "again") == {name: wheel.sha256}


def test_the_backend_in_isolation(provider: Path, wheel: BuiltWheel, ours: Path, tmp_path: Path) -> None:
    links = str(ours)
    name = Path(wheel.path).name
    run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path / "build", provider, PIP_FIND_LINKS=links)
    assert outputs(tmp_path / "build") == {name: wheel.sha256}
    run(*UV, "build", "--wheel", "--out-dir", tmp_path / "uv", provider, UV_FIND_LINKS=links)
    assert outputs(tmp_path / "uv") == {name: wheel.sha256}
    python, site = environment(tmp_path / "host")
    pip(python, "install", "--find-links", links, provider)
    assert verified(site) == [wheel.digest]
    with open_provider("provider:acme/release", path=[str(site)]) as opened:
        assert opened.provider.id == "acme/release"


def test_an_editable_install_is_refused(provider: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--no-build-isolation", "--target", tmp_path, "-e", provider]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "error[installed-editable] a Provider has no editable install" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"graphs/release.yaml": "{"}, "parse-failed"),
        ({"provider.yaml": None}, "file-missing"),
        ({"pyproject.toml": ("version", "version = 'x'")}, "wheel-settings-invalid"),
        ({"pyproject.toml": ("project", "[project]\nname = 'x'")}, "wheel-settings-invalid"),
    ],
)
def test_a_refusal_is_told_without_a_traceback(
    provider: Path, tmp_path: Path, change: dict[str, str | tuple[str, str] | None], code: str
) -> None:
    source = tmp_path / "source"
    shutil.copytree(provider, source)
    for path, content in change.items():
        if content is None:
            (source / path).unlink()
        elif isinstance(content, tuple):
            with (source / path).open("a") as file:
                file.write(content[1] + "\n")
        else:
            (source / path).write_text(content)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-build-isolation",
        "--no-deps",
        "-w",
        tmp_path / "out",
        source,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"error[{code}]" in done.stderr
    assert "remedy:" in done.stderr
    assert "Traceback" not in done.stderr


def test_config_settings_are_refused(provider: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-C", "a=b", "-o", tmp_path, provider]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "the config settings a are not known" in done.stdout + done.stderr
