"""A release at its targets: what each one takes, publishing again, and what is written down of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bundler.errors import BundlerError
from bundler.publish.record import read_release, read_states
from bundler.publish.repository import Repository
from bundler.publish.server import Patience, upload
from bundler.publish.targets import FolderTarget, ServerTarget, publish, publish_all
from bundler.runtime.open import open_provider
from bundler.trust.provenance import SUFFIX

from .. import installs, signed
from ..builders import snapshot
from .index.releases import code_of, make_index
from .prepared import released
from .servers import PASSWORD, USER, Index, pypiserver, refuse, serving

FAST = Patience(first_pause=0, tries=2, sleep=lambda seconds: None)


def server(url: str, evidence_dir: Path | None = None) -> ServerTarget:
    repository = Repository(url=url, simple_url=f"{url}simple/", username=USER, password=PASSWORD)
    return ServerTarget(
        repository=repository, evidence_dir=None if evidence_dir is None else str(evidence_dir), patience=FAST
    )


def test_a_folder_index_takes_provenance_too_and_pip_installs_what_hosts_trust(tmp_path: Path) -> None:
    made = released(tmp_path / "out")
    target = FolderTarget(index=make_index(tmp_path / "index"), who="publisher")
    first, again = publish(made, target), publish(made, target)
    names = (*made.distributions, made.wheel + SUFFIX)
    assert (first.added, first.passed) == (names, ())
    assert (again.added, again.passed, again.head) == ((), names, first.head)
    (state,) = read_states(made.folder)
    assert (state.kind, state.place, state.state, state.missing) == ("folder", str(tmp_path / "index"), "succeeded", ())
    site = tmp_path / "site"
    command = [*installs.PIP, "--index-url", (tmp_path / "index/simple").as_uri(), "--target", str(site)]
    subprocess.run([*command, f"{made.distribution}=={made.version}"], check=True, capture_output=True)
    with open_provider("provider:acme/demo", policy=signed.policy("release"), path=[str(site)]) as opened:
        assert opened.trust is not None
        assert opened.trust.trusted
    with pytest.raises(BundlerError):
        open_provider("provider:acme/demo", policy=signed.policy("other"), path=[str(site)]).__enter__()


def test_a_real_server_takes_wheel_and_sdist_and_the_rest_is_kept(tmp_path: Path) -> None:
    made = released(tmp_path / "out")
    rest = {"manifest.json", "evidence.json", "bundle.cdx.json", "release.json", made.wheel + SUFFIX}
    with pypiserver(tmp_path / "index") as url:
        published = publish(made, server(url, tmp_path / "evidence"))
        assert set(published.added) == set(made.distributions)
        assert {path.name for path in (tmp_path / "index").iterdir()} == set(made.distributions)
        assert published.kept == str(tmp_path / "evidence" / os.path.basename(made.folder))
        assert {path.name for path in Path(published.kept).iterdir()} == rest
        assert published.warnings == ()
        again = publish(made, server(url, tmp_path / "evidence"))
        assert (again.added, set(again.passed), again.kept) == ((), set(made.distributions), published.kept)
        (warning,) = publish(made, server(url)).warnings
        assert warning.code == "target-unsupported"
        assert all(name in warning.message for name in rest)
        site = tmp_path / "site"
        requirement = tmp_path / "requirements.txt"
        hashes = made.digests[made.wheel]
        requirement.write_text(f"{made.distribution}=={made.version} --hash=sha256:{hashes}\n")
        command = [*installs.PIP, "--index-url", f"{url}simple/", "--only-binary", ":all:", "--target", str(site)]
        subprocess.run([*command, "--requirement", str(requirement)], check=True, capture_output=True)
    with open_provider("provider:acme/demo", policy=signed.policy("release"), path=[str(site)]) as opened:
        assert opened.trust is not None
        assert opened.trust.trusted
    (state,) = read_states(made.folder)
    assert (state.kind, state.state, state.missing) == ("server", "succeeded", ())


def test_another_release_is_not_kept_over_the_first(tmp_path: Path) -> None:
    first, other = released(tmp_path / "first"), released(tmp_path / "other", key="other")
    with serving(Index()) as url:
        publish(first, server(url, tmp_path / "evidence"))
    before = snapshot(tmp_path / "evidence")
    listening = Index()
    with serving(listening) as url:
        assert code_of(lambda: publish(other, server(url, tmp_path / "evidence"))) == "release-conflict"
    assert listening.posts == []
    assert snapshot(tmp_path / "evidence") == before


def test_publishing_goes_on_where_it_failed(tmp_path: Path) -> None:
    made = released(tmp_path / "out")
    listening = Index()
    with serving(listening) as url:
        target = server(url, tmp_path / "evidence")
        listening.answers = [refuse(403)]
        assert code_of(lambda: publish(made, target)) == "publish-unauthorized"
        (state,) = read_states(made.folder)
        assert (state.state, state.missing) == ("failed", made.distributions)
        assert state.error is not None
        assert state.error.startswith("publish-unauthorized: ")
        assert PASSWORD not in state.error
        assert set(publish(made, target).added) == set(made.distributions)
    (state,) = read_states(made.folder)
    assert (state.state, state.missing, state.error) == ("succeeded", (), None)


def test_a_file_that_changed_since_is_not_uploaded(tmp_path: Path) -> None:
    made = released(tmp_path)
    listening = Index()
    with serving(listening) as url:
        repository, digests = server(url).repository, {made.wheel: "0" * 64}
        assert code_of(lambda: upload([made.path(made.wheel)], repository, digests=digests)) == "publish-file-invalid"
    assert (listening.posts, listening.gets) == ([], [])


def test_one_target_that_fails_does_not_keep_it_from_the_others(tmp_path: Path) -> None:
    made = released(tmp_path / "out")
    index = make_index(tmp_path / "index")
    targets = [
        FolderTarget(index=make_index(tmp_path / "other"), who="publisher", expect_head="sha256:0"),
        FolderTarget(index=index, who="publisher"),
    ]
    published, errors = publish_all(made, targets)
    assert [each.place for each in published] == [index.root]
    assert [error.code for error in errors] == ["index-conflict"]
    assert [state.state for state in read_states(made.folder)] == ["failed", "succeeded"]


@pytest.mark.parametrize("change", ["changed", "missing", "a link", "a FIFO"])
def test_what_is_not_what_was_released_is_not_published(tmp_path: Path, change: str) -> None:
    made = released(tmp_path / "out")
    index = make_index(tmp_path / "index")
    path = Path(made.path(made.wheel))
    data = path.read_bytes()
    path.unlink()
    if change == "changed":
        path.write_bytes(data[:-1] + b"x")
    elif change == "a link":
        (tmp_path / "elsewhere").write_bytes(data)
        path.symlink_to(tmp_path / "elsewhere")
    elif change == "a FIFO":
        os.mkfifo(path)
    assert code_of(lambda: publish(made, FolderTarget(index=index, who="publisher"))) == "release-invalid"
    assert (index.head().number, read_states(made.folder)) == (0, ())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"id": "sha256:', '"id": "sha256:0'),
        ('"version": "0.1.0"', '"version": "0.2.0"'),
        ('"signer": "sha256:', '"signer": "'),
        ('"name": "manifest.json"', '"name": "../manifest.json"'),
        ('"name": "manifest.json"', '"name": "evidence.json"'),
        ('"files": [', '"files": [{"name": "x"},'),
        ('"schema": "agent-bundler.release.v1"', '"schema": "agent-bundler.release.v2"'),
        ('"wheel": "', '"wheel": "x'),
        ('"bundle":', '"bundle" :'),
        ("{", "["),
        ("{", "\xff"),
    ],
)
def test_a_record_that_is_not_the_one_that_was_written(tmp_path: Path, before: str, after: str) -> None:
    made = released(tmp_path)
    record = Path(made.path("release.json"))
    assert before in record.read_text()
    record.write_bytes(record.read_text().replace(before, after, 1).encode("latin-1"))
    assert code_of(lambda: read_release(made.folder)) == "release-invalid"


def test_no_release(tmp_path: Path) -> None:
    assert code_of(lambda: read_release(tmp_path)) == "release-invalid"
    assert code_of(lambda: read_release(tmp_path / "none")) in ("file-missing", "file-read-failed")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "agent-bundler.release-targets.v1", "targets": [1]}'])
def test_states_that_are_not_ours_say_nothing_and_are_replaced(tmp_path: Path, text: str) -> None:
    made = released(tmp_path / "out")
    Path(made.path("targets.json")).write_text(text)
    assert read_states(made.folder) == ()
    publish(made, FolderTarget(index=make_index(tmp_path / "index"), who="publisher"))
    assert [state.state for state in read_states(made.folder)] == ["succeeded"]
