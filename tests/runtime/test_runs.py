"""Runs: what they hold, and that they are whole whatever happens to who writes them."""

from __future__ import annotations

import copy
import errno
import fcntl
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import jsonschema_rs
import pytest

from bundler.errors import BundlerError
from bundler.protocol.model import Provider
from bundler.protocol.schemas import schema_path
from bundler.runtime.run_files import locked
from bundler.runtime.run_values import MAX_BYTES
from bundler.runtime.runs import (
    ABSENT,
    Run,
    checkpoint_run,
    find_state_key,
    read_run,
    record_outcome,
    resume_run,
    set_authorities,
    set_facts,
    start_run,
)

from ..builders import GRAPH, PROVIDER, UNCOVERED, load, minimal

VALIDATOR = jsonschema_rs.Draft202012Validator(json.loads(schema_path("run").read_bytes()))
START = datetime(2026, 1, 1, tzinfo=UTC)
DEMO = load(minimal())


def start(path: Path, **more: Any) -> Run:
    return start_run(path, DEMO, "main", now=lambda: START, **more)


def content(path: Path) -> dict[str, Any]:
    """The Run in the file, which satisfies its schema; its events are numbered without gaps."""
    value: dict[str, Any] = json.loads(path.read_bytes())
    VALIDATOR.validate(value)
    assert [event["sequence"] for event in value["events"]] == list(range(1, len(value["events"]) + 1))
    assert value["updatedAt"] >= value["events"][-1]["at"]
    return value


def code(call: Callable[..., object], *arguments: Any, **more: Any) -> str:
    with pytest.raises(BundlerError) as raised:
        call(*arguments, **more)
    assert raised.value.hint
    return raised.value.code


def change(file: Path, **members: Any) -> None:
    """Change a Run by hand."""
    file.write_text(json.dumps({**json.loads(file.read_bytes()), **members}))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    start(tmp_path / "run.json")
    return tmp_path / "run.json"


# What a Run holds


def test_what_a_run_holds(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    run = start(path, workspace="/w", facts={"a": {"b": 1.5}, "é": "☃"}, authorities=["x", "y", "x"])
    value = content(path)
    assert value == run.to_json()
    assert (value["provider"], value["graph"], value["entry"]) == ("acme/demo", "main", "default")
    assert (value["createdAt"], value["updatedAt"]) == ("2026-01-01T00:00:00.000Z",) * 2
    assert (value["facts"], value["authorities"], value["workspace"]) == (
        {"a": {"b": 1.5}, "é": "☃"},
        ["x", "y"],
        "/w",
    )
    assert value["events"] == [{"sequence": 1, "at": "2026-01-01T00:00:00.000Z", "type": "run.started"}]
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_run(path) == run
    assert os.listdir(tmp_path) == ["run.json"]
    assert start(tmp_path / "other.json").id != run.id


def test_the_clock_tells_the_time_in_utc(file: Path) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    at = record_outcome(file, "main/work", "completed").updated_at
    assert before <= datetime.fromisoformat(at)
    east = timezone(timedelta(hours=5))
    again = datetime(2100, 1, 1, 3, tzinfo=east)
    assert record_outcome(file, "main/work", "failed", now=lambda: again).updated_at == "2099-12-31T22:00:00.000Z"


def test_changes_are_events(file: Path) -> None:
    record_outcome(file, "main/work", "failed", detail={"why": "x"}, now=lambda: START + timedelta(seconds=1))
    record_outcome(file, "main/work", "completed", now=lambda: START + timedelta(seconds=2))
    set_facts(file, {"a": 1, "b": {"c": 2}})
    assert set_facts(file, {"b": 3}).facts == {"a": 1, "b": 3}
    set_facts(file, {"d": 4}, replace_all=True)
    run = set_authorities(file, ["p", "p"])
    value = content(file)
    assert value["outcomes"] == {"main/work": {"outcome": "completed", "recordedAt": "2026-01-01T00:00:02.000Z"}}
    assert (value["facts"], value["authorities"]) == ({"d": 4}, ["p"])
    assert [event["type"] for event in value["events"]] == [
        *("run.started", "node.outcome-recorded", "node.outcome-recorded"),
        *("facts.updated", "facts.updated", "facts.replaced", "authorities.updated"),
    ]
    assert value["events"][1] == {
        "sequence": 2,
        "at": "2026-01-01T00:00:01.000Z",
        "type": "node.outcome-recorded",
        "node": "main/work",
        "outcome": "failed",
        "detail": {"why": "x"},
    }
    assert [event["detail"] for event in value["events"][3:]] == [["a", "b"], ["b"], ["d"], ["p"]]
    assert run == read_run(file)
    assert set_authorities(file).authorities == ()


@pytest.mark.parametrize("detail", [None, False, 0, "", [], {"a": [None]}])
def test_every_detail_is_one_and_none_is_none(file: Path, detail: Any) -> None:
    run = record_outcome(file, "main/work", "completed", detail=detail)
    assert content(file)["outcomes"]["main/work"]["detail"] == content(file)["events"][-1]["detail"] == detail
    assert read_run(file).outcomes["main/work"].detail == run.events[-1].detail == detail
    run = record_outcome(file, "main/work", "completed")
    assert "detail" not in content(file)["outcomes"]["main/work"]
    assert "detail" not in content(file)["events"][-1]
    assert run.events[-1].detail is ABSENT
    assert copy.deepcopy(run) == pickle.loads(pickle.dumps(run)) == run


def test_what_comes_back_is_what_will_be_read(file: Path) -> None:
    """Numbers are doubles, tuples lists: also in the Run that a change returns."""
    run = set_facts(file, {"large": 2**60, "one": 1.0, "zero": -0.0, "pair": (1, 2)})
    assert run == read_run(file)
    assert run.facts["pair"] == [1, 2]
    assert (repr(run.facts["one"]), repr(run.facts["zero"])) == ("1", "-0.0")


def test_checkpoint_and_resume(file: Path, tmp_path: Path) -> None:
    set_authorities(file, ["p"])
    (tmp_path / "other").mkdir()
    for to in (tmp_path / "copy.json", tmp_path / "other" / "copy.json"):
        run = checkpoint_run(file, to)
        assert (run, run.authorities) == (read_run(file), ("p",))
        saved = content(to)
        assert saved == {**content(file), "authorities": []}
        assert (saved["events"][-1]["type"], saved["events"][-1]["detail"]) == ("run.checkpointed", str(to))
        assert to.stat().st_mode & 0o777 == 0o600
    resumed = resume_run(tmp_path / "copy.json", tmp_path / "again.json")
    assert content(tmp_path / "again.json") == resumed.to_json()
    assert (resumed.id, resumed.created_at, resumed.authorities) == (run.id, run.created_at, ())
    assert resumed.events[:-1] == read_run(tmp_path / "copy.json").events
    assert (resumed.events[-1].type, resumed.events[-1].detail) == ("run.resumed", str(tmp_path / "copy.json"))
    # A Run that never was a checkpoint gives no authorities away either.
    assert resume_run(file, tmp_path / "third.json").authorities == ()
    assert content(tmp_path / "third.json")["authorities"] == []


# Time


def test_time_does_not_go_back(file: Path, tmp_path: Path) -> None:
    record_outcome(file, "main/a", "completed", now=lambda: START + timedelta(hours=1))
    run = record_outcome(file, "main/b", "completed", now=lambda: START)
    assert run.updated_at == run.events[-1].at == run.outcomes["main/b"].recorded_at == "2026-01-01T01:00:00.000Z"
    checkpoint_run(file, tmp_path / "copy.json", now=lambda: START)
    assert resume_run(tmp_path / "copy.json", tmp_path / "r.json", now=lambda: START).updated_at == run.updated_at


@pytest.mark.parametrize(
    ("found", "written"),
    [
        ("2027-01-01T00:00:00.123456789Z", "2027-01-01T00:00:00.123456789Z"),
        ("2027-01-01T02:00:00.000001+02:00", "2027-01-01T00:00:00.000001Z"),
        ("2027-01-01t00:00:00z", "2027-01-01T00:00:00.000000Z"),
        # What has the form of a time and is none says nothing.
        ("2027-13-45T99:00:00Z", "2026-01-01T00:00:00.000Z"),
        ("0001-01-01T00:00:00+23:00", "2026-01-01T00:00:00.000Z"),
    ],
)
@pytest.mark.parametrize("where", ["updatedAt", "events"])
def test_times_of_other_hands(file: Path, found: str, written: str, where: str) -> None:
    event = {"sequence": 1, "at": found, "type": "run.started"}
    change(file, **({"updatedAt": found} if where == "updatedAt" else {"events": [event]}))
    assert set_facts(file, {}, now=lambda: START).updated_at == written


def test_events_of_other_hands(file: Path) -> None:
    one = {"at": "2026-01-01T00:00:00Z", "type": "run.started"}
    change(file, events=[])
    assert set_facts(file, {}).events[-1].sequence == 1
    change(file, events=[{**one, "sequence": 3}, {**one, "sequence": 7}])
    assert set_facts(file, {}).events[-1].sequence == 8
    for numbers in ([2, 1], [1, 1], [1, 1e300], [2**60]):
        change(file, events=[{**one, "sequence": number} for number in numbers])
        assert code(read_run, file) == "schema-invalid"
    with pytest.raises(BundlerError, match=r"run\.json:1:\d+ is .*; a number above 0 is expected"):
        read_run(file)


# What is refused


def test_nothing_is_replaced(file: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    (tmp_path / "folder").mkdir()
    checkpoint_run(file, tmp_path / "copy.json")
    before = file.read_bytes()
    for target in (file, tmp_path / "link", tmp_path / "folder"):
        assert code(start, target) == "run-target-exists"
        assert code(checkpoint_run, file, target) == "run-target-exists"
        assert code(resume_run, tmp_path / "copy.json", target) == "run-target-exists"
    assert file.read_bytes() == before
    assert not (tmp_path / "nothing").exists()


def test_what_is_refused(file: Path, tmp_path: Path) -> None:
    before = file.read_bytes()
    new = tmp_path / "new.json"
    assert code(start_run, new, DEMO, "mian") == "graph-missing"
    assert code(start_run, new, DEMO, "main", "other") == "entry-missing"
    assert code(start, new, facts={"a": {1}}) == "json-invalid"
    assert code(start, new, facts=[1]) == "json-object-required"
    assert code(start, new, workspace="/w\udcff") == "json-invalid"
    assert code(start, tmp_path / "none" / "run.json") == "output-write-failed"
    assert code(start, file / "run.json") == "output-write-failed"
    assert code(start, Path(f"{tmp_path}/{'x' * 300}")) == "output-write-failed"
    assert code(start, f"{tmp_path}/a\0b") == "option-invalid"
    assert code(record_outcome, file, "main/a", "done") == "outcome-invalid"
    assert code(record_outcome, file, "", "completed") == "outcome-invalid"
    assert code(record_outcome, file, "main/\udcff", "completed") == "json-invalid"
    assert code(record_outcome, file, "main/a", "failed", detail=float("nan")) == "json-invalid"
    assert code(set_facts, file, {"a": float("inf")}) == "json-invalid"
    assert code(set_facts, file, "a") == "json-object-required"
    for authority in ("", "A B", "x" * 161, 1):
        assert code(set_authorities, file, [authority]) == "option-invalid"
        assert code(start, new, authorities=[authority]) == "option-invalid"
    assert code(record_outcome, tmp_path / "none.json", "main/a", "failed") == "file-read-failed"
    assert code(record_outcome, tmp_path / "none" / "run.json", "main/a", "failed") == "file-read-failed"
    assert code(checkpoint_run, tmp_path / "none.json", new) == "file-read-failed"
    assert code(resume_run, tmp_path / "none.json", new) == "file-read-failed"
    assert code(read_run, f"{file}\0") == "file-read-failed"
    assert code(record_outcome, f"{file}\0", "main/a", "failed") == "file-read-failed"
    assert file.read_bytes() == before
    assert os.listdir(tmp_path) == ["run.json"]


def test_a_run_of_another_provider(file: Path) -> None:
    before = file.read_bytes()
    assert code(read_run(file).check_provider, "acme/other") == "run-provider-mismatch"
    assert code(record_outcome, file, "main/work", "failed", provider="acme/other") == "run-provider-mismatch"
    assert code(set_facts, file, {}, provider="acme/other") == "run-provider-mismatch"
    assert code(set_authorities, file, provider="acme/other") == "run-provider-mismatch"
    assert file.read_bytes() == before
    set_facts(file, {}, provider="acme/demo")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "parse-failed"),
        (b"\xff\x00\x01", "parse-failed"),
        (b"\xef\xbb\xbf{}", "parse-failed"),
        (b'{"id": 1, "id": 1}', "parse-failed"),
        (b"[" * 300 + b"]" * 300, "parse-failed"),
        (b"[]", "schema-invalid"),
        (b"{}", "schema-invalid"),
    ],
)
def test_files_that_are_no_runs(file: Path, tmp_path: Path, data: bytes, expected: str) -> None:
    file.write_bytes(data)
    assert code(read_run, file) == expected
    assert code(record_outcome, file, "main/a", "completed") == expected
    assert code(checkpoint_run, file, tmp_path / "copy.json") == expected
    assert code(resume_run, file, tmp_path / "copy.json") == expected
    assert file.read_bytes() == data
    assert os.listdir(tmp_path) == ["run.json"]


def test_places_that_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to("nothing")
    for place in (*(tmp_path / name for name in ("fifo", "loop", "nowhere", "none")), tmp_path, Path("/dev/null")):
        assert code(read_run, place) == "file-read-failed"
        assert code(record_outcome, place, "main/a", "completed") == "file-read-failed"
    with pytest.raises(BundlerError, match="it is a FIFO"):
        read_run(tmp_path / "fifo")


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "run.json").open("wb") as file:
        file.truncate(MAX_BYTES * 1000)
    assert code(read_run, tmp_path / "run.json") == "parse-failed"
    with pytest.raises(BundlerError, match="larger than 67,108,864 bytes"):
        record_outcome(tmp_path / "run.json", "main/a", "completed")


def test_what_could_not_be_read_again_is_not_written(file: Path, tmp_path: Path) -> None:
    before = file.read_bytes()
    deep: Any = []
    for _ in range(198):
        deep = [deep]
    assert code(set_facts, file, {"a": deep}) == "run-limit-exceeded"
    for _ in range(100_000):
        deep = [deep]
    assert code(set_facts, file, {"a": deep}) == "run-limit-exceeded"
    assert code(set_facts, file, {"a": "x" * MAX_BYTES}) == "run-limit-exceeded"
    assert code(start, tmp_path / "new.json", facts={"a": "x" * MAX_BYTES}) == "run-limit-exceeded"
    assert file.read_bytes() == before
    assert os.listdir(tmp_path) == ["run.json"]


# Where a Run lies


def test_links_and_modes_are_kept(file: Path, tmp_path: Path) -> None:
    file.chmod(0o640)
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.json"
    link.symlink_to(file)
    record_outcome(link, "main/a", "completed")
    assert link.is_symlink()
    assert content(file)["outcomes"].keys() == {"main/a"}
    assert file.stat().st_mode & 0o777 == 0o640
    (tmp_path / "folder").symlink_to(tmp_path / "elsewhere")
    start(tmp_path / "folder" / "new.json")
    assert sorted(os.listdir(tmp_path / "elsewhere")) == ["link.json", "new.json"]


def test_paths_relative_and_odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert start(Path("run.json"), workspace="w").workspace == str(tmp_path / "w")
    odd = os.fsdecode(b"c\xff\n.json")
    checkpoint_run("run.json", odd)
    assert resume_run(odd, "again.json").events[-1].detail == f"{tmp_path}/c\\xff\n.json"
    assert content(tmp_path / "again.json")["events"][-2]["detail"] == f"{tmp_path}/c\\xff\n.json"


def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As FAT and some network file systems answer, which a test can't mount."""

    def refuse(source: str, target: str) -> None:
        if Path(target).name == "raced.json":  # somebody who knows no lock was faster
            Path(target).touch()
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    start(tmp_path / "run.json")
    content(tmp_path / "run.json")
    assert code(start, tmp_path / "run.json") == "run-target-exists"
    assert code(start, tmp_path / "raced.json") == "run-target-exists"
    assert (tmp_path / "raced.json").read_bytes() == b""
    assert sorted(os.listdir(tmp_path)) == ["raced.json", "run.json"]


def test_a_mask_that_takes_all_does_not_lock_the_owner_out(tmp_path: Path) -> None:
    old = os.umask(0o777)
    try:
        start(tmp_path / "run.json")
    finally:
        os.umask(old)
    assert (tmp_path / "run.json").stat().st_mode & 0o777 == 0o600


def test_a_run_that_was_changed_by_hand_meanwhile_is_not_overwritten(file: Path, tmp_path: Path) -> None:
    def edit() -> datetime:  # the clock is read between reading and writing
        change(file, facts={"by": "hand"})
        return START

    assert code(record_outcome, file, "main/a", "completed", now=edit) == "run-locked"
    assert (content(file)["facts"], content(file)["outcomes"]) == ({"by": "hand"}, {})
    assert code(checkpoint_run, file, tmp_path / "copy.json", now=edit) == "run-locked"
    assert os.listdir(tmp_path) == ["run.json"]

    def remove() -> datetime:
        file.unlink()
        return START

    assert code(record_outcome, file, "main/a", "completed", now=remove) == "output-write-failed"
    assert os.listdir(tmp_path) == []


def test_no_descriptor_is_left_open(file: Path, tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    for _ in range(3):
        record_outcome(file, "main/a", "completed")
        assert code(read_run, tmp_path) == "file-read-failed"
        assert code(start, file) == "run-target-exists"
        assert code(record_outcome, file, "main/a", "completed", provider="acme/other") == "run-provider-mismatch"
    assert len(os.listdir("/dev/fd")) == before


# Processes that end, wait, or can't write


def spawn(script: str, *arguments: object) -> subprocess.Popen[bytes]:
    """A process of its own, which is not covered: it may be killed."""
    command = [sys.executable, "-B", "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=UNCOVERED, cwd=Path(__file__).parents[2])


def kill_when_it_says_something(process: subprocess.Popen[bytes], after: float) -> None:
    """SIGKILL some time after its first line."""
    assert process.stdout is not None
    assert process.stdout.readline()
    time.sleep(after)
    process.kill()
    process.wait()
    process.stdout.close()


RECORDS = """
import sys
from bundler.runtime.runs import record_outcome
number = 0
while True:
    number += 1
    record_outcome(sys.argv[1], f"main/n{number % 5}", "completed", detail="x" * 2000)
    print(number, flush=True)
"""


def test_a_killed_writer_leaves_the_run_before_or_after(file: Path) -> None:
    chance = random.Random(5)
    seen = content(file)["events"]
    for _ in range(20):
        kill_when_it_says_something(spawn(RECORDS, file), chance.random() * 0.03)
        events = content(file)["events"]
        assert events[: len(seen)] == seen
        assert len(events) > len(seen)
        seen = events
    record_outcome(file, "main/a", "completed")
    assert os.listdir(file.parent) == [file.name]


COPIES = """
import sys
from bundler.runtime.runs import checkpoint_run, resume_run
number = int(sys.argv[2])
while True:
    number += 1
    checkpoint_run(sys.argv[1], f"copy-{number}.json")
    print(number, flush=True)
    resume_run(f"copy-{number}.json", f"run-{number}.json")
"""


def test_a_killed_checkpoint_or_resume_leaves_whole_files(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(7)
    copies = COPIES.replace("import sys\n", f"import os, sys\nos.chdir({str(tmp_path)!r})\n", 1)
    for turn in range(8):
        kill_when_it_says_something(spawn(copies, file, turn * 100_000), chance.random() * 0.03)
        made = sorted(tmp_path.glob("*.json"))
        noted = {event["detail"] for event in content(file)["events"] if event["type"] == "run.checkpointed"}
        # A copy may be there that the Run does not tell of yet, never the other way round.
        assert noted <= {str(path) for path in made}
        for path in made:
            content(path)
    set_facts(file, {})
    assert all(name.endswith(".json") for name in os.listdir(tmp_path))


def test_what_a_killed_writer_left_goes_and_nothing_else(file: Path) -> None:
    left = file.parent / ".agent-bundler-0123456789abcdef.run"
    left.write_bytes(b"{")
    others = [".agent-bundler-0123456789abcdef.new", ".agent-bundler-x.run", "notes.run"]
    for name in others:
        (file.parent / name).touch()
    set_facts(file, {})
    assert sorted(os.listdir(file.parent)) == sorted([*others, "run.json"])


MANY = """
import sys
from bundler.runtime import run_files
from bundler.runtime.runs import record_outcome
run_files.PATIENCE = 60  # a slow disk is no failure here
for number in range(10):
    record_outcome(sys.argv[1], f"main/p{sys.argv[2]}-{number}", "completed")
"""


def test_no_event_is_lost_when_many_write(file: Path) -> None:
    processes = [spawn(MANY, file, each) for each in range(8)]
    assert [process.communicate()[0] for process in processes] == [b""] * 8
    assert [process.returncode for process in processes] == [0] * 8
    value = content(file)
    assert [event["type"] for event in value["events"][1:]] == ["node.outcome-recorded"] * 80
    assert len(value["outcomes"]) == 80
    assert os.listdir(file.parent) == [file.name]


def together(*calls: Callable[[], object]) -> list[str]:
    """What became of calls that begin at once: their codes, sorted; empty for those that succeed."""
    results: list[str] = []
    barrier = Barrier(len(calls))

    def run(call: Callable[[], object]) -> None:
        barrier.wait()
        try:
            call()
            results.append("")
        except BundlerError as error:
            results.append(error.code)

    threads = [Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(results)


def test_of_those_who_start_at_once_one_wins(tmp_path: Path) -> None:
    for turn in range(10):
        place = tmp_path / f"{turn}.json"
        assert together(*[lambda place=place: start(place)] * 4) == ["", *["run-target-exists"] * 3]
        content(place)


def test_two_who_copy_into_each_others_folder_do_not_wait_for_each_other(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        start(tmp_path / name / "run.json")
    for turn in range(20):
        calls = [
            lambda one=one, two=two, turn=turn: checkpoint_run(tmp_path / one / "run.json", tmp_path / two / f"{turn}")
            for one, two in (("a", "b"), ("b", "a"))
        ]
        assert together(*calls) == ["", ""]


def test_a_holder_that_does_not_end(file: Path, tmp_path: Path) -> None:
    before = file.read_bytes()
    held = os.open(file.parent, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    calls = [
        lambda: record_outcome(file, "main/a", "completed"),
        lambda: start(tmp_path / "new.json"),
        lambda: checkpoint_run(file, tmp_path / "copy.json"),
    ]
    assert together(*calls) == ["run-locked"] * 3
    assert read_run(file).to_json() == json.loads(before)  # readers do not wait
    os.close(held)
    assert (file.read_bytes(), os.listdir(tmp_path)) == (before, ["run.json"])
    record_outcome(file, "main/a", "completed")


def test_a_holder_that_ends_in_time(file: Path) -> None:
    release = Barrier(2)

    def hold() -> None:
        with locked(str(file)):
            release.wait()
            time.sleep(0.1)

    holder = Thread(target=hold)
    holder.start()
    release.wait()
    record_outcome(file, "main/a", "completed")
    holder.join()


HOLDS = """
import sys, time
from bundler.runtime.run_files import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_crashed_holder_blocks_nobody(file: Path) -> None:
    kill_when_it_says_something(spawn(HOLDS, file), 0)
    record_outcome(file, "main/a", "completed")


# After the imports the process may write no more, and is not root.
FAILS = """
import os, resource, sys
from pathlib import Path
from bundler.errors import BundlerError
from bundler.runtime.runs import checkpoint_run, read_run, record_outcome, resume_run, set_facts
import fcntl
read_run(sys.argv[1])
def tell(call, *arguments):
    try:
        call(*arguments)
        print("done")
    except BundlerError as error:
        print(error.code)
"""
FULL = (
    FAILS
    + """
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
tell(set_facts, sys.argv[1], {"a": "x" * 5000})
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 2000))
tell(checkpoint_run, sys.argv[1], "copy.json")
tell(resume_run, sys.argv[1], "copy.json")
"""
)
NOT_ALLOWED = (
    FAILS
    + """
if os.geteuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)
tell(record_outcome, "run.json", "main/a", "completed")
Path(".").chmod(0o555)
tell(record_outcome, "run.json", "main/a", "completed")
tell(checkpoint_run, "run.json", "copy.json")
tell(resume_run, "run.json", "copy.json")
Path(".").chmod(0o755)
Path("run.json").chmod(0o400)
tell(record_outcome, "run.json", "main/a", "completed")
tell(checkpoint_run, "run.json", "copy.json")
Path("run.json").chmod(0o200)
tell(record_outcome, "run.json", "main/a", "completed")
Path("run.json").chmod(0o600)
Path(".").chmod(0o300)
tell(record_outcome, "run.json", "main/a", "completed")
Path(".").chmod(0o755)
tell(record_outcome, "run.json", "main/a", "completed")
"""
)


def test_a_disk_that_is_full(file: Path, tmp_path: Path) -> None:
    before = file.read_bytes()
    here = FULL.replace("import os, resource, sys\n", f"import os, resource, sys\nos.chdir({str(tmp_path)!r})\n", 1)
    assert spawn(here, file).communicate()[0] == b"output-write-failed\n" * 3
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == [file.name]


def test_what_may_not_be_written() -> None:
    # Not pytest's folder: the folders above that are closed to other users.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start(folder / "run.json")
        if os.geteuid() == 0:
            os.chown(folder, 65534, -1)
            os.chown(folder / "run.json", 65534, -1)
        code = NOT_ALLOWED.replace("import os, resource, sys\n", f"import os, resource, sys\nos.chdir({name!r})\n", 1)
        answers = spawn(code, folder / "run.json").communicate()[0].decode().split()
        assert answers == [
            "done",
            *["output-write-failed"] * 3,
            *["output-write-failed"] * 2,
            *("file-read-failed", "output-write-failed", "done"),
        ]
        assert os.listdir(folder) == ["run.json"]
        assert len(content(folder / "run.json")["events"]) == 3


def test_the_owner_stays(file: Path) -> None:
    """What root writes into another's Run the other can still read; where we are not root, it is ours anyway."""
    owner = 65534 if os.geteuid() == 0 else os.geteuid()
    os.chown(file, owner, -1)
    before = file.stat()
    record_outcome(file, "main/a", "completed")
    after = file.stat()
    assert (after.st_uid, after.st_gid, after.st_mode) == (owner, before.st_gid, before.st_mode)


# State keys

NESTED = GRAPH.replace("id: main", "id: outer").replace(
    "{ id: work, kind: action, reasonCode: route.main.work, action: actions/work.yaml }",
    "{ id: work, kind: subgraph, graph: main, entry: default }",
)


@pytest.fixture(scope="module")
def nested() -> Provider:
    provider = PROVIDER.replace("[graphs/main.yaml]", "[graphs/main.yaml, graphs/outer.yaml]")
    return load({**minimal(provider_yaml=provider), "graphs/outer.yaml": NESTED})


@pytest.mark.parametrize(
    ("graph", "name", "key"),
    [
        ("main", "work", "main/work"),
        ("main", "main/work", "main/work"),
        ("main", "done", "main/done"),
        ("outer", "outer/work>main/work", "outer/work>main/work"),
        ("outer", "outer/work>main/done", "outer/work>main/done"),
    ],
)
def test_state_keys(nested: Provider, graph: str, name: str, key: str) -> None:
    assert find_state_key(nested, graph, name) == (key, None)


@pytest.mark.parametrize(
    ("graph", "name", "near"),
    [
        ("main", "main/wrok", "(did you mean `main/work`?)"),
        ("main", "Main/Work", "(did you mean `main/work`?)"),
        ("main", "main/work>main/work", "leads to no node"),
        ("main", "outer/done", "leads to no node"),
        ("outer", "main/work", "(did you mean `outer/work>main/work`?)"),
        ("outer", "outer/work>main/wrok", "(did you mean `outer/work>main/work`?)"),
        ("outer", "outer/work>outer/done", "leads to no node"),
        ("main", "/", "leads to no node"),
    ],
)
def test_state_keys_without_effect(nested: Provider, graph: str, name: str, near: str) -> None:
    key, warning = find_state_key(nested, graph, name)
    assert (key, warning is not None and warning.code) == (name, "node-unknown")
    assert warning is not None
    assert near in warning.message
    assert warning.hint


def test_a_subgraph_node_has_no_outcome_of_its_own(nested: Provider) -> None:
    for name in ("work", "outer/work"):
        key, warning = find_state_key(nested, "outer", name)
        assert (key, warning is not None and warning.code) == ("outer/work", "record-without-effect")


def test_what_is_no_state_key(nested: Provider) -> None:
    assert code(find_state_key, nested, "main", "wrok") == "node-unknown"
    assert code(find_state_key, nested, "gone", "work") == "graph-missing"
    with pytest.raises(BundlerError, match="did you mean `main/work`"):
        find_state_key(nested, "main", "wrok")
    with pytest.raises(BundlerError):
        find_state_key(nested, "main", "")
