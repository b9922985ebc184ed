"""From what passed every check to a release: the same one however often and wherever it is made, or nothing at all."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from bundler.errors import BundlerError
from bundler.publish.evidence import BuiltFile, read_evidence
from bundler.publish.index import FolderIndex
from bundler.publish.record import Release, read_release, read_states
from bundler.publish.release import Prepared, complete, release, work_folder
from bundler.publish.targets import FolderTarget, publish
from bundler.runtime.open import open_provider
from bundler.trust.envelope import Envelope, read_envelope
from bundler.trust.provenance import SUFFIX, check_provenance
from bundler.trust.signing import Signer
from bundler.wheel.check import open_wheel

from .. import installs, signed
from ..builders import snapshot
from .index.releases import at_step, code_of, ended, in_child, make_index
from .prepared import prepared, released, wheel_of


@pytest.fixture(scope="module", autouse=True)
def _checked() -> None:
    """Processes that tests fork have it."""
    prepared()


PLACE = "agent_graph_provider_acme_demo-0.1.0"


def with_sdist(folder: Path, change: Callable[[bytes], bytes]) -> Prepared:
    """What was checked, with another sdist, as if it had been checked."""
    built = prepared()
    sdist = folder / "changed" / os.path.basename(built.sdist)
    sdist.parent.mkdir()
    sdist.write_bytes(change(Path(built.sdist).read_bytes()))
    data = sdist.read_bytes()
    file = BuiltFile(name=sdist.name, sha256=sha256(data).hexdigest(), size=len(data))
    return replace(built, sdist=str(sdist), evidence=replace(built.evidence, files=(built.evidence.files[0], file)))


def index_with(folder: Path, made: Release) -> FolderIndex:
    index = make_index(folder)
    publish(made, FolderTarget(index=index, who="publisher"))
    return index


def test_a_source_becomes_a_signed_release(tmp_path: Path) -> None:
    checks: list[tuple[str, str]] = []
    made = release(
        installs.source(),
        tmp_path / "out",
        signer=signed.signer("release"),
        policy=signed.policy("release"),
        progress=lambda check, state: checks.append((check, state)),
    )
    assert made.is_new
    assert made.folder == str(tmp_path / "out" / PLACE)
    assert {path.name for path in Path(made.folder).iterdir()} == {*made.digests, "release.json"}
    assert (made.provider_id, made.version, made.signer) == ("acme/demo", "0.1.0", signed.public("release").key_id)
    assert ("secrets", "passed") in checks
    for name, digest in made.digests.items():
        assert sha256(Path(made.path(name)).read_bytes()).hexdigest() == digest
    with open_provider(made.path(made.wheel), policy=signed.policy("release")) as opened:
        assert opened.trust is not None
        assert opened.trust.trusted
        assert opened.digest == made.bundle
    evidence = read_evidence(Path(made.path("evidence.json")).read_bytes())
    assert evidence.passed
    assert json.loads(Path(made.path("manifest.json")).read_bytes())["digest"] == made.bundle
    assert json.loads(Path(made.path("bundle.cdx.json")).read_bytes())["bomFormat"] == "CycloneDX"
    envelope = read_envelope(Path(made.path(made.wheel + SUFFIX)).read_bytes(), "provenance")
    predicate = check_provenance(envelope, {name: made.digests[name] for name in made.distributions})
    (source,) = predicate["buildDefinition"]["resolvedDependencies"]
    assert evidence.source == f"blake3:{source['digest']['blake3']}"
    (byproduct,) = predicate["runDetails"]["byproducts"]
    assert {check["state"] for check in byproduct["annotations"]["checks"]} == {"passed"}
    assert read_release(made.folder) == made
    # Nothing else is left but the evidence of the checks.
    assert set(os.listdir(tmp_path / "out")) == {PLACE, "work"}
    assert os.listdir(work_folder(installs.source(), tmp_path / "out")) == ["evidence.json"]


def test_the_same_again_is_the_same_release(tmp_path: Path) -> None:
    first = released(tmp_path)
    before = snapshot(tmp_path)
    again = released(tmp_path)
    assert (first.is_new, again.is_new) == (True, False)
    assert (again, again.id) == (first, first.id)
    assert snapshot(tmp_path) == before


def test_on_another_machine_the_signature_of_the_index_is_taken_over(tmp_path: Path) -> None:
    """Its wheel too, whatever this machine would make of it: here the key is another one."""
    first = released(tmp_path / "first")
    index = index_with(tmp_path / "index", first)
    again = complete(
        prepared(),
        tmp_path / "second",
        signer=signed.signer("other"),
        policy=signed.policy("release", "other"),
        index=index,
    )
    assert again.is_new
    assert (again.id, again.signer) == (first.id, first.signer)
    for name in (*first.distributions, first.wheel + SUFFIX):
        assert Path(again.path(name)).read_bytes() == Path(first.path(name)).read_bytes()
    published = publish(again, FolderTarget(index=index, who="second"))
    assert (published.added, index.head().number) == ((), 1)


def test_without_the_index_another_key_makes_another_release_which_the_index_refuses(tmp_path: Path) -> None:
    index = index_with(tmp_path / "index", released(tmp_path / "first"))
    before = snapshot(tmp_path / "index")
    other = released(tmp_path / "second", key="other")
    assert code_of(lambda: publish(other, FolderTarget(index=index, who="second"))) == "release-conflict"
    (state,) = read_states(other.folder)
    assert (state.state, state.missing) == ("failed", (*other.distributions, other.wheel + SUFFIX))
    assert state.error is not None
    assert state.error.startswith("release-conflict: ")
    assert snapshot(tmp_path / "index").keys() == before.keys()


@pytest.mark.parametrize("where", ["folder", "index"])
def test_a_signature_that_nobody_vouches_for_is_not_taken_over(tmp_path: Path, where: str) -> None:
    index = index_with(tmp_path / "index", released(tmp_path / "first"))
    before = snapshot(tmp_path)
    output = tmp_path / ("first" if where == "folder" else "second")
    assert code_of(lambda: complete(prepared(), output, signer=signed.signer("other"), index=index)) == (
        "signature-untrusted"
    )
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("where", ["folder", "index"])
def test_other_content_is_a_conflict(tmp_path: Path, where: str) -> None:
    source = Path(shutil.copytree(installs.source(), tmp_path / "source"))
    (source / "data.txt").write_text("other data\n")
    index = index_with(tmp_path / "index", released(tmp_path / "first"))
    output = tmp_path / ("first" if where == "folder" else "second")
    shown = {path: data for path, data in snapshot(tmp_path).items() if not path.startswith(str(output / "work"))}
    with pytest.raises(BundlerError) as caught:
        release(source, output, signer=signed.signer("release"), index=index)
    assert caught.value.code == "release-conflict"
    assert str(index.root if where == "index" else output / PLACE) in caught.value.message
    after = {path: data for path, data in snapshot(tmp_path).items() if path in shown}
    assert after == shown
    assert [path for path in output.rglob("*.whl") if PLACE not in str(path.parent)] == []


def test_a_release_that_is_not_signed(tmp_path: Path) -> None:
    made = released(tmp_path, key=None)
    assert made.signer is None
    assert [warning.code for warning in made.warnings] == ["graph-tests-missing", "release-unsigned"]
    assert wheel_of(made) == Path(prepared().wheel).read_bytes()
    assert made.accompanying == ()
    assert released(tmp_path, key=None) == made
    before = snapshot(tmp_path)
    assert code_of(lambda: released(tmp_path)) == "release-conflict"
    assert snapshot(tmp_path) == before


def test_an_sdist_is_the_same_if_its_content_is(tmp_path: Path) -> None:
    first = released(tmp_path / "first")
    index = index_with(tmp_path / "index", first)
    signer = signed.signer("release")
    packed = with_sdist(tmp_path, lambda data: gzip.compress(gzip.decompress(data), 1))
    assert complete(packed, tmp_path / "first", signer=signer) == first
    assert complete(packed, tmp_path / "second", signer=signer, index=index).id == first.id
    (tmp_path / "changed").rename(tmp_path / "packed")
    other = with_sdist(tmp_path, lambda data: gzip.compress(gzip.decompress(data)[:-1] + b"x"))
    for output, known in (("first", None), ("third", index)):
        work = lambda output=output, known=known: complete(  # noqa: E731
            other, tmp_path / output, signer=signer, index=known
        )
        assert code_of(work) == "release-conflict"
    assert not (tmp_path / "third").exists()


class Failing:
    """A device that signs as often as it is told, then no more."""

    def __init__(self, signer: Any, times: int) -> None:
        self.signer, self.times = signer, times

    def sign(self, data: bytes) -> Any:
        if self.times == 0:
            raise OSError("the device is gone")
        self.times -= 1
        return self.signer.sign(data)


@pytest.mark.parametrize("times", [0, 1])
def test_what_fails_after_signing_leaves_nothing_signed(tmp_path: Path, times: int) -> None:
    """The provenance is the second thing that is signed."""
    real = signed.signer("release")
    failing = Signer(public=real.public, _signer=Failing(real._signer, times))  # type: ignore[arg-type]
    assert code_of(lambda: complete(prepared(), tmp_path / "out", signer=failing)) == "key-unusable"
    assert snapshot(tmp_path) == {}


def test_nothing_is_signed_that_the_policy_would_not_count(tmp_path: Path) -> None:
    signer, policy = signed.signer("release"), signed.policy("other")
    assert code_of(lambda: complete(prepared(), tmp_path / "out", signer=signer, policy=policy)) == (
        "signature-untrusted"
    )
    assert snapshot(tmp_path) == {}


def test_what_changed_after_the_checks_is_not_released(tmp_path: Path) -> None:
    other = with_sdist(tmp_path, lambda data: data)
    with open(other.sdist, "ab") as file:
        file.write(b"x")
    assert code_of(lambda: complete(other, tmp_path / "out")) == "release-source-changed"


def test_an_index_whose_file_is_not_the_one_that_it_lists(tmp_path: Path) -> None:
    first = released(tmp_path / "first")
    index = index_with(tmp_path / "index", first)
    (wheel,) = (tmp_path / "index").glob("files/*/*.whl")
    wheel.write_bytes(wheel.read_bytes() + b"x")
    assert code_of(lambda: complete(prepared(), tmp_path / "out", index=index)) == "index-file-mismatch"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("there", ["a file", "an empty folder", "a folder of something else"])
def test_what_is_no_release_is_not_replaced(tmp_path: Path, there: str) -> None:
    if there == "a file":
        (tmp_path / PLACE).write_text("mine")
    else:
        (tmp_path / PLACE).mkdir()
        if there != "an empty folder":
            (tmp_path / PLACE / "mine").write_text("mine")
    before = snapshot(tmp_path)
    assert code_of(lambda: released(tmp_path)) in ("release-invalid", "file-missing", "file-read-failed")
    assert snapshot(tmp_path) == before


def test_killed_at_every_step_of_signing_and_publishing(tmp_path: Path) -> None:
    """Whatever is there is whole, and the same command again ends where it would have ended at once."""
    expected = released(tmp_path / "expected")
    template = make_index(tmp_path / "template").root

    def work(root: Path) -> Release:
        index = FolderIndex(root / "index", patience=5.0)
        made = complete(prepared(), root / "out", signer=signed.signer("release"), index=index)
        publish(made, FolderTarget(index=index, who="publisher"))
        return made

    seen = set()
    for number in range(1, 1000, 2):
        root = tmp_path / str(number)
        shutil.copytree(template, root / "index")
        answer = ended(*in_child(at_step(number, signal.SIGKILL, lambda root=root: work(root))))
        if answer:
            assert answer == "done"
            break
        place = root / "out" / PLACE
        if place.exists():
            found = read_release(place)
            assert found == expected
            states = read_states(str(place))
            seen.add(states[0].state if states else "")
            listed = FolderIndex(root / "index").project(expected.distribution)
            if states and states[0].state == "succeeded":
                assert len(listed) == 2
        else:
            seen.add("no release")
        assert work(root) == expected
        assert {each.state for each in read_states(str(place))} == {"succeeded"}
        index = FolderIndex(root / "index")
        index.gc()
        assert index.verify() == []
        assert index.head().number == 1
        assert os.listdir(root / "out") == [PLACE]
        with open_wheel(place / expected.wheel) as wheel:
            assert wheel.envelope is not None
        shutil.rmtree(root)
    assert seen >= {"no release", "", "publishing"}
    assert number > 40


def test_two_at_once_make_one_release(tmp_path: Path) -> None:
    children = [in_child(lambda: released(tmp_path / "out")) for _ in range(2)]
    assert [ended(*child) for child in children] == ["done", "done"]
    assert os.listdir(tmp_path / "out") == [PLACE]
    assert isinstance(
        read_envelope(Path(tmp_path / "out" / PLACE / f"{PLACE}-py3-none-any.whl{SUFFIX}").read_bytes(), "x"), Envelope
    )
    assert read_release(tmp_path / "out" / PLACE).id == released(tmp_path / "other").id


@pytest.mark.parametrize("dirty", [False, True])
def test_what_a_release_writes_makes_its_source_not_dirty(tmp_path: Path, dirty: bool) -> None:
    source = Path(shutil.copytree(installs.source(), tmp_path / "source"))
    git = ["git", "-C", str(source), "-c", "user.name=n", "-c", "user.email=n@example.org"]
    for line in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "m"]):
        subprocess.run([*git, *line], check=True, capture_output=True)
    if dirty:
        (source / "notes.txt").write_text("new\n")
    made = release(source, source / "dist", signer=signed.signer("release"))
    envelope = read_envelope(Path(made.path(made.wheel + SUFFIX)).read_bytes(), "provenance")
    (found,) = check_provenance(envelope, {})["buildDefinition"]["resolvedDependencies"]
    assert found["annotations"]["dirty"] is dirty
    assert len(found["annotations"]["gitCommit"]) == 40
