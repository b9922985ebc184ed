"""Writers that are killed, stopped, out of space, or several at once."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from bundler.errors import BundlerError
from bundler.publish.index import FolderIndex
from bundler.publish.index.adding import Addition
from bundler.publish.index.change import writing
from bundler.publish.index.journal import Change
from bundler.publish.index.lease import locked

from .releases import at_step, beside, code_of, ended, in_child, make_index, visible, wheel


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels: one of `demo` that the index has, a next one and one of another project with what accompanies it."""
    folder = tmp_path_factory.mktemp("dist")
    for name, version in (("demo", "1.0"), ("demo", "1.1"), ("other", "1.0"), ("third", "1.0")):
        beside(wheel(folder, name, version), "provenance")
    return folder


@pytest.fixture(scope="module")
def template(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("template") / "index"
    make_index(root, *dist.glob("demo-1.0*"))
    return root


def publish(root: Path | str, dist: Path) -> FolderIndex:
    """A change of two projects, one of which is new, and of a document."""
    index = FolderIndex(root)
    files = [*dist.glob("demo-1.1*"), *dist.glob("other*")]
    index.add(files, who="publisher", documents={"channels/stable.json": b"stable"})
    return index


def copy_of(template: Path, target: Path) -> Path:
    return Path(shutil.copytree(template, target))


def errors(index: FolderIndex) -> list[str]:
    return [each.message for each in index.verify() if each.severity == "error"]


def test_killed_at_every_step(template: Path, dist: Path, tmp_path: Path) -> None:
    before = visible(FolderIndex(template))
    after = visible(publish(copy_of(template, tmp_path / "after"), dist))
    third = [*dist.glob("third*")]
    expected = FolderIndex(tmp_path / "after")
    expected.add(third, who="next")
    complete = visible(expected)
    for number in range(1, 1000):
        root = copy_of(template, tmp_path / str(number))
        answer = ended(*in_child(at_step(number, signal.SIGKILL, lambda root=root: publish(root, dist))))
        if answer:
            assert answer == "done"
            break
        index = FolderIndex(root, patience=5.0)
        # At once: each page is that of before or of after, and names nothing that is not there.
        for path, data in visible(index).items():
            assert data in (before.get(path), after.get(path)), (number, path)
        assert errors(index) == []
        # The next writer waits for nobody, and completes the change or passes over it.
        assert index.add(third, who="next").changed
        if index.head().number == 3:
            assert visible(index) == complete
        else:
            assert set(visible(index)) - set(before) == {f"simple/third/index.{kind}" for kind in ("html", "json")}
            index.gc()
        assert index.verify() == []
        # Publishing again is the same release.
        publish(root, dist)
        assert visible(index) == complete
        assert index.head().number == 3
        assert index.verify() == []
        shutil.rmtree(root)
    assert number > 40


def test_init_killed_at_every_step(tmp_path: Path) -> None:
    for number in range(1, 1000):
        root = tmp_path / str(number)
        if ended(*in_child(at_step(number, signal.SIGKILL, lambda root=root: FolderIndex.init(root)))):
            break
        if not (root / "head").exists():
            FolderIndex.init(root)
        assert FolderIndex(root).verify() == []
    assert number > 15


@pytest.mark.parametrize("work", ["rebuild", "gc", "yank"])
def test_mending_killed_at_every_step(template: Path, tmp_path: Path, work: str) -> None:
    for number in range(1, 1000):
        root = copy_of(template, tmp_path / str(number))
        index = FolderIndex(root, patience=5.0)
        (root / "files/demo/demo-9.tar.gz").write_text("left")
        if work == "rebuild":
            (root / "simple/demo/index.html").write_text("changed")
            (root / "simple/index.json").unlink()
        works = {
            "rebuild": index.rebuild,
            "gc": index.gc,
            "yank": partial(index.yank, "demo", "1", reason="r", who="w"),
        }
        answer = ended(*in_child(at_step(number, signal.SIGKILL, works[work])))
        if work != "rebuild":
            assert errors(index) == []
            visible(index)
        works[work]()
        index.gc()
        assert index.verify() == []
        if answer:
            break
    assert number > 10


def expire(root: Path) -> None:
    """What the passing of time does to a lease."""
    file = root / "lease"
    file.write_text(json.dumps({**json.loads(file.read_text()), "expires": int(time.time()) - 1}))


def test_stopped_at_any_step_while_another_one_takes_over(template: Path, dist: Path, tmp_path: Path) -> None:
    third = [*dist.glob("third*")]
    seen = set()
    for number in range(1, 1000, 3):
        root = copy_of(template, tmp_path / str(number))
        child, answer = in_child(at_step(number, signal.SIGSTOP, lambda root=root: publish(root, dist)))
        _, status = os.waitpid(child, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            with os.fdopen(answer) as file:
                assert file.read() == "done"
            break
        index = FolderIndex(root, patience=0.05)
        try:
            expire(root)
            taken_over = code_of(partial(index.add, third, who="other")) == ""
        finally:
            os.kill(child, signal.SIGCONT)
        said = ended(child, answer)
        seen.add((taken_over, said))
        files = {each.name for project in index.projects() for each in index.project(project)}
        if taken_over and said != "done":
            assert said == "index-lease-lost", number
            assert not any(name.startswith(("demo-1.1", "other")) for name in files)
        visible(index)
        assert errors(index) == []
        FolderIndex(root).add(third, who="other")
        publish(root, dist)
        index.gc()
        assert index.verify() == []
        shutil.rmtree(root)
    # Before the lock it loses; with the lock nobody takes over; when all is done both have done their work.
    assert (
        {(True, "index-lease-lost"), (False, "done")}
        <= seen
        <= {
            (True, "index-lease-lost"),
            (False, "done"),
            (True, "done"),
        }
    )


def test_a_writer_that_lost_its_lease_changes_nothing(template: Path, dist: Path, tmp_path: Path) -> None:
    root = copy_of(template, tmp_path / "index")
    index = FolderIndex(root, patience=0.1)

    def lose() -> None:
        with writing(index.root, "slow", 1.0) as slow:
            expire(root)
            publish(root, dist)
            before = visible(index)
            try:
                slow.commit("add", "slow", Change(documents={"a.json": b"x"}), [])
            finally:
                assert visible(index) == before

    assert code_of(lose) == "index-lease-lost"
    assert index.verify() == []


def test_two_writers_where_locks_do_not_exclude(template: Path, tmp_path: Path) -> None:
    """The link of the journal entry decides, even if the lease file says what it should not."""
    root = copy_of(template, tmp_path / "index")
    index = FolderIndex(root)

    def clash() -> None:
        with writing(index.root, "slow", 1.0) as slow:
            lease = (root / "lease").read_bytes()
            head = (root / "head").read_bytes()
            expire(root)
            index.put_document("a.json", b"other", who="other")
            (root / "staging" / slow.held.lease.nonce).mkdir()
            (root / "lease").write_bytes(lease)
            (root / "head").write_bytes(head)
            slow.commit("add", "slow", Change(documents={"a.json": b"mine"}), [])

    assert code_of(clash) == "index-lease-lost"
    assert index.document("a.json") == b"other"
    assert {each.code for each in index.verify()} == {"index-unfinished"}
    index.gc()
    assert index.verify() == []


def test_a_held_lease_is_waited_for_and_told(template: Path, tmp_path: Path) -> None:
    index = FolderIndex(copy_of(template, tmp_path / "index"), patience=0.1)
    with writing(index.root, "the other", 1.0), pytest.raises(BundlerError, match="the other \\(process") as caught:
        index.yank("demo", "1.0", reason="r", who="me")
    assert caught.value.code == "index-locked"
    assert index.yank("demo", "1.0", reason="r", who="me").changed


@pytest.mark.parametrize(
    ("change", "is_free"),
    [
        ({}, True),  # a process of this host that has ended
        ({"host": "elsewhere"}, False),
        ({"host": "elsewhere", "expires": 1}, True),
        ({"expires": 10**12}, True),  # a clock that was wrong
        ({"host": "elsewhere", "expires": 10**12}, True),
        ({"pid": -1}, True),
        ({"pid": 1}, False),
        ({"token": "x"}, True),
        (None, True),
    ],
)
def test_leases_that_hold_and_that_do_not(
    template: Path, tmp_path: Path, change: dict[str, object] | None, is_free: bool
) -> None:
    index = FolderIndex(copy_of(template, tmp_path / "index"), patience=0.1)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    file = Path(index.root) / "lease"
    lease = {**json.loads(file.read_text()), "pid": child, "expires": int(time.time()) + 60, "token": 40}
    file.write_text("{" if change is None else json.dumps({**lease, **change}))
    assert code_of(lambda: index.put_document("a.json", b"x", who="me")) == ("" if is_free else "index-locked")
    if change == {}:
        assert index.head().token == 41


def test_several_publishers_at_once(template: Path, dist: Path, tmp_path: Path) -> None:
    root = copy_of(template, tmp_path / "index")
    versions = [[f"{writer}.{number}" for number in range(4)] for writer in range(2, 6)]

    def publish_all(mine: list[str]) -> None:
        for version in mine:
            FolderIndex(root).add([wheel(tmp_path / version, "demo", version)], who=version)

    children = [in_child(lambda mine=mine: publish_all(mine)) for mine in versions]
    assert [ended(*each) for each in children] == ["done"] * 4
    index = FolderIndex(root)
    assert index.head().number == 17
    assert [each.version for each in index.project("demo")] == ["1.0", *(each for mine in versions for each in mine)]
    assert index.verify() == []


def test_several_publish_one_release(template: Path, dist: Path, tmp_path: Path) -> None:
    root = copy_of(template, tmp_path / "index")
    children = [in_child(lambda: publish(root, dist)) for _ in range(4)]
    assert [ended(*each) for each in children] == ["done"] * 4
    assert FolderIndex(root).head().number == 2
    assert FolderIndex(root).verify() == []


@pytest.mark.parametrize("limit", [0, 100, 150, 200, 300, 400, 600, 900, 1200])
def test_no_space_changes_nothing(template: Path, dist: Path, tmp_path: Path, limit: int) -> None:
    root = copy_of(template, tmp_path / "index")
    index = FolderIndex(root)
    before = visible(index)

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        publish(root, dist)

    assert ended(*in_child(work)) == "output-write-failed"
    assert visible(index) == before
    assert index.verify() == []
    publish(root, dist)
    assert index.verify() == []


def test_a_lease_is_given_back_on_a_full_disk(template: Path, tmp_path: Path) -> None:
    root = copy_of(template, tmp_path / "index")

    def work() -> None:
        with writing(str(root), "publisher", 1.0):
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    assert ended(*in_child(work)) == "done"
    assert not (root / "lease").exists()
    assert FolderIndex(root).put_document("a.json", b"x", who="me").head.token == 2
    assert FolderIndex(root).verify() == []


def test_a_file_system_without_links(
    template: Path, dist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    root = copy_of(template, tmp_path / "index")
    assert publish(root, dist).verify() == []
    with writing(str(root), "me", 1.0) as writer:
        (root / "journal/00000003.json").write_text("another writer's")
        assert code_of(lambda: writer.commit("add", "me", Change(documents={"a.json": b"x"}), [])) == "index-lease-lost"
    assert (root / "journal/00000003.json").read_text() == "another writer's"
    assert FolderIndex(root).head().number == 2


def test_a_lease_is_prolonged_while_files_are_copied(template: Path, dist: Path, tmp_path: Path) -> None:
    root = copy_of(template, tmp_path / "index")
    index = FolderIndex(root)
    with writing(index.root, "slow", 1.0) as slow:
        soon = int(time.time()) + 5
        slow.held.lease = replace(slow.held.lease, expires=soon)
        addition = Addition(slow, {})
        addition.add([dist / "third-1.0-py3-none-any.whl"])
        assert json.loads((root / "lease").read_text())["expires"] > soon
        expire(root)
        index.put_document("a.json", b"x", who="other")
        slow.held.lease = replace(slow.held.lease, expires=soon)
        with pytest.raises(BundlerError, match="was given it; nothing was changed") as caught:
            slow.held.renew()
        assert caught.value.code == "index-lease-lost"
    assert index.verify() == []


def test_a_held_lock_is_waited_for_and_told(template: Path, tmp_path: Path) -> None:
    root = str(copy_of(template, tmp_path / "index"))
    index = FolderIndex(root, patience=0.05)
    with locked(root, 1.0):
        for work in (index.verify, index.gc, index.rebuild, partial(index.put_document, "a.json", b"x", who="me")):
            assert code_of(work) == "index-locked"
    with locked(root, 1.0, shared=True):
        assert index.verify() == []
    assert index.head().number == 1
