"""A path on disk: a source, or a bundle, which never loads unverified."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bundler.bundle.open import check_readable, open_bundle, open_path
from bundler.errors import BundlerError
from bundler.tree import DirectoryTree

from ..builders import PROVIDER, build_from, minimal, with_skill, write_out


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    build_from(write_out(minimal(), tmp_path / "root"), tmp_path / "out")
    return tmp_path / "out"


@pytest.mark.parametrize("name", ["", "provider.yaml"])
def test_a_source_by_its_folder_or_its_manifest(tmp_path: Path, name: str) -> None:
    root = write_out(minimal(), tmp_path / "root")
    with open_path(root / name) as opened:
        assert (opened.bundle, opened.manifest_path) == (None, str(root / "provider.yaml"))
        assert opened.files == ["actions/work.yaml", "graphs/main.yaml", "provider.yaml"]


def test_a_source_manifest_of_any_name(tmp_path: Path) -> None:
    for name in ("release.yaml", "manifest.json"):
        text = json.dumps(
            {"schema": "agent-graph.provider.v1", "id": "acme/demo", "version": "0.1.0", "graphs": ["graphs/main.yaml"]}
        )
        root = write_out({**minimal(provider_yaml=None), name: text}, tmp_path / name)
        with open_path(root / name) as opened:
            assert (opened.bundle, opened.provider.manifest_path) == (None, name)


@pytest.mark.parametrize("name", ["", "manifest.json", "provider.yaml"])
def test_a_bundle_is_verified_however_it_is_named(bundle: Path, name: str) -> None:
    with open_path(bundle / name) as opened:
        assert opened.bundle is not None
        assert "manifest.json" in opened.files
    (bundle / "actions/work.yaml").write_text("tampered")
    with pytest.raises(BundlerError) as raised, open_path(bundle / name):
        pass
    assert raised.value.code == "bundle-file-digest-mismatch"


@pytest.mark.parametrize("name", ["", "manifest.json", "provider.yaml"])
@pytest.mark.parametrize(
    ("old", "new"),
    [('"schema"', '"sch\\u0065ma"'), ('": "provider.yaml"', '": ".//provider.yaml"'), ('"files": [', '"files": [[')],
)
def test_a_manifest_in_another_spelling_is_still_a_bundles(bundle: Path, name: str, old: str, new: str) -> None:
    text = (bundle / "manifest.json").read_text()
    assert old in text
    (bundle / "manifest.json").write_text(text.replace(old, new, 1))
    (bundle / "provider.yaml").write_text(PROVIDER + "# tampered\n")
    with pytest.raises(BundlerError), open_path(bundle / name):
        pass


def test_a_bundle_that_is_replaced_while_it_is_read_is_read_again(
    tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bundler.bundle import verify

    real, calls = verify.verify_bundle, []

    def slow(tree: DirectoryTree) -> object:
        calls.append(tree)
        if len(calls) == 1:  # another build replaces and removes what we have opened
            build_from(write_out(with_skill(), tmp_path / "other"), bundle)
        return real(tree)

    monkeypatch.setattr(verify, "verify_bundle", slow)
    with open_bundle(str(bundle)) as found:
        assert "skills/s/SKILL.md" in found.manifest.files
    assert len(calls) == 2


def test_a_manifest_that_cannot_be_read_is_not_passed_by(bundle: Path) -> None:
    (bundle / "manifest.json").unlink()
    (bundle / "manifest.json").symlink_to("/etc/hostname")
    with pytest.raises(BundlerError) as raised, open_path(bundle):
        pass
    assert raised.value.code == "path-symlink-outside-provider"


def test_a_manifest_json_of_something_else_beside_a_source(tmp_path: Path) -> None:
    root = write_out({**minimal(), "manifest.json": '{"name": "an extension"}'}, tmp_path / "root")
    with open_path(root) as opened:
        assert opened.bundle is None


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(BundlerError) as raised, open_path(tmp_path / "nothing"):
        pass
    assert raised.value.code == "file-missing"


def test_carried_files_that_cannot_be_opened_are_all_named(tmp_path: Path) -> None:
    root = write_out(with_skill(a="1", b="2", c="3"), tmp_path / "root")
    with open_path(root) as opened:
        check_readable(opened)
        for name in "ab":
            (root / "skills/s" / name).unlink()
        with pytest.raises(BundlerError) as raised:
            check_readable(opened)
    assert [d.path for d in raised.value.diagnostics] == ["skills/s/a", "skills/s/b"]


def test_warnings_come_along(tmp_path: Path) -> None:
    files = minimal(provider_yaml=PROVIDER + "compatibility: { agentGraph: ^0.2.0 }\n")
    build_from(write_out(files, tmp_path / "root"), tmp_path / "out")
    for place in ("root", "out"):
        with open_path(tmp_path / place) as opened:
            assert [warning.code for warning in opened.warnings] == ["compatibility-unsupported"]
