"""One Provider, wherever it is: the same value from a source, a bundle, a wheel and an install."""

from __future__ import annotations

import os
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bundler.bundle.manifest import digest_of
from bundler.bundle.verify import verify_bundle
from bundler.errors import BundlerError
from bundler.runtime.open import find_manifest, open_installed, open_provider
from bundler.runtime.provider import OpenedProvider
from bundler.tree import DirectoryTree
from bundler.trust.host import Host
from bundler.wheel.installed import choose, list_installed

from ..builders import build_from, snapshot, with_skill, write_out
from ..cli.run import agent_bundler
from ..installs import BUNDLE, faults, install, source, wheel

ID = "acme/demo"
REFERENCE = f"provider:{ID}"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return install(tmp_path / "site")


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    build_from(source(), tmp_path / "bundle")
    return tmp_path / "bundle"


def error_of(reference: str | Path, **options: object) -> BundlerError:
    with pytest.raises(BundlerError) as raised, open_provider(reference, **options):  # type: ignore[arg-type]
        pass
    return raised.value


def content(opened: OpenedProvider) -> dict[str, bytes]:
    return {path: opened.tree.read(path, 1 << 30) for path in opened.closure.paths}


# --- wherever it is ---------------------------------------------------------------------------------------


def test_every_way_to_one_provider(site: Path, bundle: Path) -> None:
    references: dict[str | Path, str] = {
        bundle: "bundle",
        bundle / "manifest.json": "bundle",
        bundle / "provider.yaml": "bundle",
        wheel().path: "wheel",
        REFERENCE: "installed",
    }
    found = []
    for reference, kind in references.items():
        with open_provider(reference, path=[str(site)]) as opened:
            assert opened.kind == kind
            assert opened.bundle is not None
            found.append((opened.provider, opened.closure, opened.digest, opened.bundle.manifest, content(opened)))
    assert all(each == found[0] for each in found)
    assert found[0][2] == wheel().digest
    for reference in (source(), source() / "provider.yaml"):
        with open_provider(reference) as opened:
            assert (opened.kind, opened.bundle, opened.digest, opened.identity) == ("source", None, "", None)
            provider = found[0][0]
            assert (opened.provider.id, opened.provider.version) == (provider.id, provider.version)
            assert (opened.provider.graphs, opened.provider.actions) == (provider.graphs, provider.actions)
            ours, theirs = content(opened), found[0][4]
            assert ours.keys() == theirs.keys()
            assert [path for path in ours if ours[path] != theirs[path]] in ([], ["provider.yaml"])


@pytest.mark.parametrize("built", [False, True])
def test_what_is_said_of_each(site: Path, bundle: Path, built: bool) -> None:
    with open_provider(bundle, built=built) as opened:
        assert (opened.root, opened.identity, opened.requires, opened.bytecode) == (str(bundle), None, (), ())
        assert opened.manifest_path == str(bundle / "provider.yaml")
    with open_provider(wheel().path, built=built) as opened:
        assert (opened.root, opened.identity, opened.bytecode) == (wheel().path, wheel().identity, ())
    with open_provider(REFERENCE, path=[str(site)], built=built) as opened:
        assert (opened.root, opened.identity) == (str(site / BUNDLE), wheel().identity)
        assert len(opened.bytecode) == 2
        assert opened.files == sorted(["manifest.json", *opened.closure.paths])
        assert opened.warnings == ()


@pytest.mark.parametrize("built", [False, True])
def test_relative_names_mean_absolute_places(
    site: Path, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built: bool
) -> None:
    """What is opened is used from other folders: by scripts, and after the host changed its own."""
    shutil.copy(wheel().path, tmp_path)
    monkeypatch.chdir(tmp_path)
    for reference, root in (
        ("bundle", bundle),
        ("bundle/manifest.json", bundle),
        (os.path.basename(wheel().path), tmp_path / os.path.basename(wheel().path)),
        (REFERENCE, site / BUNDLE),
    ):
        with open_provider(reference, path=["site"], built=built) as opened:
            assert opened.root == str(root)
            assert opened.environment("cache") == {
                "AGENT_GRAPH_PROVIDER_ROOT": str(root),
                "PYTHONPYCACHEPREFIX": str(tmp_path / "cache"),
            }


def test_the_default_is_the_manifest_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(source())
    with open_provider() as opened:
        assert (opened.provider.id, opened.root) == (ID, str(source()))


def test_names_that_look_like_something_else(tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle.rename(tmp_path / "bundle.whl")
    with open_provider(tmp_path / "bundle.whl") as opened:
        assert opened.kind == "bundle"
    (tmp_path / "bundle.whl").rename(tmp_path / "provider:x")
    monkeypatch.chdir(tmp_path)
    with open_provider("./provider:x") as opened:
        assert opened.kind == "bundle"
    assert error_of("provider:x", path=[]).code == "provider-not-installed"


def test_one_that_was_listed_before(site: Path) -> None:
    found = list_installed([str(site)])
    with open_installed(Host(), found, choose(found, ID)) as opened:
        assert opened.digest == wheel().digest
    shutil.rmtree(site)
    with pytest.raises(BundlerError) as raised, open_installed(Host(), found, choose(found, ID)):
        pass
    assert raised.value.code == "file-missing"


# --- what is refused --------------------------------------------------------------------------------------


def test_a_source_is_refused_where_something_built_is_wanted() -> None:
    for reference in (source(), source() / "provider.yaml", source() / "manifest.json"):
        error = error_of(reference, built=True)
        assert error.code == "file-missing"
        assert error.hint
    with open_provider(source()):
        pass


def test_what_is_not_there(tmp_path: Path, site: Path) -> None:
    for reference in ("none", "none/provider.yaml", "none/manifest.json", "none.whl"):
        for built in (False, True):
            error = error_of(tmp_path / reference, built=built)
            assert error.code == "file-missing"
            assert str(tmp_path) in error.message
            assert os.path.basename(reference) in error.message or f"{tmp_path}/none" in error.message
            assert error.hint
    for name in ("", "acme/none", "ACME/DEMO", "acme/demo ", "../acme/demo", "agent-graph-provider-acme-demo"):
        error = error_of(f"provider:{name}", path=[str(site)])
        assert error.code == "provider-not-installed"
        assert f"no Provider `{name}` is installed" in error.message
        assert "acme/demo" in error.message
        assert error.hint
    assert "did you mean" in error_of("provider:acme/demi", path=[str(site)]).message


def test_tampered_things(site: Path, bundle: Path, tmp_path: Path) -> None:
    for root in (bundle, site / BUNDLE):
        (root / "data.txt").write_text("tampered")
    file = tmp_path / os.path.basename(wheel().path)
    data = Path(wheel().path).read_bytes()
    file.write_bytes(data.replace(b"data.txt", b"Data.txt", 1))
    assert error_of(bundle).code == "bundle-file-digest-mismatch"
    assert error_of(bundle / "provider.yaml").code == "bundle-file-digest-mismatch"
    assert error_of(bundle, built=True).code == "bundle-file-digest-mismatch"
    assert faults(REFERENCE, site) == ["bundle-file-digest-mismatch"]
    assert error_of(file).code == "archive-invalid"


def test_what_changes_while_it_is_open_is_refused_when_it_is_read(site: Path, bundle: Path) -> None:
    for reference, root in ((REFERENCE, site / BUNDLE), (str(bundle), bundle)):
        with open_provider(reference, path=[str(site)]) as opened:
            assert opened.tree.read("data.txt", 100) == b"data\n"
            (root / "data.txt").write_text("other")
            with pytest.raises(BundlerError) as raised:
                opened.tree.read("data.txt", 100)
            assert raised.value.code == "bundle-file-digest-mismatch"


def test_nothing_is_held_after_the_block(site: Path, bundle: Path, tmp_path: Path) -> None:
    def everything() -> None:
        for reference in (REFERENCE, str(bundle), wheel().path, str(source())):
            with open_provider(reference, path=[str(site)], records=tmp_path / "records") as opened:
                opened.tree.read("data.txt", 100)
            with pytest.raises(RuntimeError), open_provider(reference, path=[str(site)]):
                raise RuntimeError

    everything()
    before = len(os.listdir("/dev/fd"))
    for _ in range(3):
        everything()
    (site / BUNDLE / "more").write_text("")
    (bundle / "more").write_text("")
    for reference in (REFERENCE, str(bundle)):
        assert error_of(reference, path=[str(site)], records=tmp_path / "records").code == "bundle-files-mismatch"
    assert len(os.listdir("/dev/fd")) == before


def test_opening_writes_nothing(site: Path, bundle: Path) -> None:
    before = snapshot(site), snapshot(bundle)
    for reference in (REFERENCE, str(bundle)):
        with open_provider(reference, path=[str(site)]) as opened:
            content(opened)
    assert (snapshot(site), snapshot(bundle)) == before


# --- running what was verified ----------------------------------------------------------------------------


def run(opened: OpenedProvider, environment: dict[str, str]) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    script = os.path.join(opened.root, "scripts", "check.py")
    done = subprocess.run(
        [sys.executable, script], env={**clean, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_scripts_run_with_the_environment_are_those_that_were_verified(site: Path, tmp_path: Path) -> None:
    """Bytecode beside a script verifies as what it is, which is nothing; without the environment Python runs it."""
    (tmp_path / "evil.py").write_text('SAID = "evil"\n')
    (poisoned,) = (site / BUNDLE / "scripts" / "__pycache__").glob("lib.*.pyc")
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(tmp_path / "evil.py"), str(poisoned), invalidation_mode=unchecked)
    for _ in range(2):
        with open_provider(REFERENCE, path=[str(site)], records=tmp_path / "records") as opened:
            assert f"scripts/__pycache__/{poisoned.name}" in opened.bytecode
            assert run(opened, {}) == "evil"
            before = snapshot(site)
            for _ in range(2):
                assert run(opened, opened.environment(tmp_path / "cache")) == "good"
            assert snapshot(site) == before
    assert list((tmp_path / "cache").rglob("lib.*.pyc"))


# --- installed ones by their id ---------------------------------------------------------------------------


def test_the_manifest_of_an_installed_provider(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_manifest(ID) is None
    monkeypatch.syspath_prepend(site)
    assert find_manifest(ID) == str(site / BUNDLE / "provider.yaml")
    assert find_manifest("acme/none") is None
    (site / BUNDLE / "manifest.json").unlink()
    with pytest.raises(BundlerError) as raised:
        find_manifest(ID)
    assert raised.value.code == "installed-broken"


def test_commands_take_an_installed_provider(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "provider-not-installed" in agent_bundler("-m", REFERENCE, "validate").err
    monkeypatch.syspath_prepend(site)
    assert agent_bundler("-m", REFERENCE, "validate").status == 0
    text = f"---\nname: s\ndescription: x\nmetadata:\n  agent-graph: {REFERENCE}\n"
    text += "  agent-graph.graph: main\n  agent-graph.entry: default\n---\n"
    skill = write_out({**with_skill(), "skills/s/SKILL.md": text}, tmp_path / "skills") / "skills/s/SKILL.md"
    assert agent_bundler("--skill", str(skill), "validate").status == 0
    (site / BUNDLE / "data.txt").write_text("tampered")
    for arguments in (("-m", REFERENCE), ("--skill", str(skill))):
        result = agent_bundler(*arguments, "inspect", "provider")
        assert (result.status, "bundle-file-digest-mismatch" in result.err) == (1, True)


def test_verify_takes_bundles_wheels_and_installed_ones(
    site: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(site)
    result = agent_bundler("verify", str(bundle), wheel().path, REFERENCE, "--format", "json")
    assert (result.status, result.out.count(wheel().digest)) == (0, 3)
    result = agent_bundler("verify", str(source()))
    assert (result.status, "file-missing" in result.err) == (1, True)


def test_the_digest_is_that_of_the_manifest(bundle: Path) -> None:
    with DirectoryTree(bundle) as tree:
        verified = verify_bundle(tree)
    assert verified.digest == digest_of(verified.manifest.to_json()) == wheel().digest
