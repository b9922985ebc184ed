"""The highest sequence number that was seen: it never gets lower, and what can't be read is not passed over."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bundler.errors import BundlerError
from bundler.trust.documents import Revocations
from bundler.trust.sequences import Sequences

from ..publish.index.releases import at_step, code_of, ended, in_child
from .documents import CHANNEL, LIST


def numbered(sequence: int) -> Revocations:
    return replace(LIST, sequence=sequence)


@pytest.fixture
def kept(tmp_path: Path) -> Sequences:
    made = Sequences(tmp_path / "a" / "state")
    made.keep(numbered(5))
    return made


def state_file(kept: Sequences) -> Path:
    (found,) = Path(kept.folder).iterdir()
    return found


def test_it_never_gets_lower(kept: Sequences) -> None:
    assert not kept.is_new(numbered(5))
    assert kept.is_new(numbered(6))
    assert kept.is_new(CHANNEL)  # each document has its own
    assert kept.is_new(replace(CHANNEL, channel="next"))
    for older in (numbered(4), replace(numbered(5), revoked=()), replace(numbered(5), expires=LIST.expires + 1)):
        with pytest.raises(BundlerError, match="5 was seen before") as raised:
            kept.keep(older)
        assert raised.value.code == "index-rolled-back"
    kept.keep(numbered(7))
    again = Sequences(kept.folder)
    assert code_of(lambda: again.keep(numbered(6))) == "index-rolled-back"
    assert not again.is_new(numbered(7))
    assert state_file(kept).stat().st_mode & 0o077 == 0


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def of_another(path: Path) -> None:
    path.write_text(path.read_text().replace("the revocation list", "another list"))


def a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "harm",
    [
        torn,
        of_another,
        a_link,
        a_fifo,
        a_folder,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\0" * 100_000),
        lambda path: path.write_text("[" * 3000),
        lambda path: path.chmod(0o666),
    ],
)
def test_what_cannot_be_read_is_refused(kept: Sequences, harm: Callable[[Path], object]) -> None:
    harm(state_file(kept))
    for document in (numbered(5), numbered(9)):
        with pytest.raises(BundlerError, match="can't be used") as raised:
            kept.keep(document)
        assert raised.value.code == "signature-verifier-failed"


def test_the_folder_is_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    assert code_of(lambda: Sequences(tmp_path / "shared")) == "folder-unsafe"
    (tmp_path / "file").write_text("")
    assert code_of(lambda: Sequences(tmp_path / "file")) == "output-write-failed"


def test_processes_at_once(tmp_path: Path) -> None:
    numbers = range(1, 13)

    def note(number: int) -> None:
        Sequences(tmp_path / "state").keep(numbered(number))

    children = [in_child(lambda number=number: note(number)) for number in numbers]
    answers = [ended(*child) for child in children]
    assert set(answers) <= {"done", "index-rolled-back"}
    assert answers[-1] == "done"
    assert not Sequences(tmp_path / "state").is_new(numbered(12))


def test_killed_at_every_step(tmp_path: Path) -> None:
    for step in range(1, 20):
        folder = tmp_path / str(step)
        Sequences(folder).keep(numbered(5))
        answer = ended(
            *in_child(at_step(step, signal.SIGKILL, lambda folder=folder: Sequences(folder).keep(numbered(6))))
        )
        found = Sequences(folder)
        assert code_of(lambda found=found: found.keep(numbered(4))) == "index-rolled-back"
        found.keep(numbered(6))
        assert not found.is_new(numbered(6))
        if answer:
            assert answer == "done"
            break
    assert step > 3
