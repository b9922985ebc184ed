"""An envelope in a wheel: one file and one row more, every other byte as it was."""

from __future__ import annotations

import os
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from bundler.errors import BundlerError
from bundler.wheel import embed as embedding
from bundler.wheel.check import open_wheel
from bundler.wheel.embed import embed

from ..archives import entry, folder, write
from ..installs import BUNDLE, INFO, MODULE, wheel

ENVELOPE = f"{MODULE}/bundle.dsse.json"
DATA = b'{"an": "envelope"}\n'


def put(source: str | Path, target: Path, data: bytes = DATA) -> None:
    with open_wheel(source) as opened:
        embed(opened, data, target)


@pytest.fixture
def name() -> str:
    return Path(wheel("demo").path).name


def test_one_file_and_one_row_more(tmp_path: Path, name: str) -> None:
    put(wheel("demo").path, tmp_path / name)
    with zipfile.ZipFile(wheel("demo").path) as old, zipfile.ZipFile(tmp_path / name) as new:
        assert new.testzip() is None
        record = f"{INFO}/RECORD"
        assert new.namelist() == [*(each for each in old.namelist() if each != record), ENVELOPE, record]
        for each in old.infolist():
            if each.filename != record:
                found = new.getinfo(each.filename)
                assert new.read(found) == old.read(each)
                assert (found.external_attr, found.date_time, found.compress_size, found.header_offset) == (
                    *(each.external_attr, each.date_time, each.compress_size, each.header_offset),
                )
        assert new.read(ENVELOPE) == DATA
        first, rest = new.read(record).split(b"\n", 1)
        assert first.startswith(f"{ENVELOPE},sha256=".encode())
        assert first.endswith(b",19")
        assert rest == old.read(record)
        assert new.getinfo(ENVELOPE).external_attr == old.getinfo(record).external_attr
    with open_wheel(tmp_path / name) as opened:
        assert opened.envelope == DATA
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o644
    assert os.listdir(tmp_path) == [name]


def test_in_place_and_the_same_again(tmp_path: Path, name: str) -> None:
    path = Path(shutil.copy(wheel("demo").path, tmp_path / name))
    put(path, path)
    put(wheel("demo").path, tmp_path / "other" / name)
    assert path.read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_a_wheel_has_one(tmp_path: Path, name: str) -> None:
    put(wheel("demo").path, tmp_path / name)
    before = (tmp_path / name).read_bytes()
    with pytest.raises(BundlerError) as raised:
        put(tmp_path / name, tmp_path / name, b"other")
    assert raised.value.code == "signature-exists"
    assert (tmp_path / name).read_bytes() == before


def test_record_need_not_lie_last(tmp_path: Path, name: str) -> None:
    """As other tools write wheels: RECORD in the middle, entries for folders, stored files."""
    with zipfile.ZipFile(wheel("demo").path) as old:
        files = {each: old.read(each) for each in old.namelist()}
    record = files.pop(f"{INFO}/RECORD")
    entries = [
        entry(f"{INFO}/RECORD", record),
        *(entry(path, data, zip64=path.endswith("data.txt")) for path, data in files.items()),
    ]
    entries.insert(3, folder(BUNDLE))
    (tmp_path / name).write_bytes(write(entries))
    put(tmp_path / name, tmp_path / "out" / name)
    with open_wheel(tmp_path / "out" / name) as opened, open_wheel(wheel("demo").path) as plain:
        assert opened.contents == plain.contents
        assert opened.envelope == DATA


def test_what_is_too_large_for_it(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "_MAX_SIZE", 100)
    with pytest.raises(BundlerError) as raised:
        put(wheel("demo").path, tmp_path / name)
    assert raised.value.code == "wheel-too-large"
    assert os.listdir(tmp_path) == []


def test_a_wheel_that_changes_meanwhile(tmp_path: Path, name: str) -> None:
    path = Path(shutil.copy(wheel("demo").path, tmp_path / name))
    with open_wheel(path) as opened:
        other = replace(opened, contents=replace(opened.contents, provider_version="9.9.9"))
        with pytest.raises(BundlerError) as raised:
            embed(other, DATA, path)
    assert raised.value.code == "wheel-source-changed"
    assert path.read_bytes() == Path(wheel("demo").path).read_bytes()


def test_where_nothing_can_be_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BundlerError) as raised:
        put(wheel("demo").path, tmp_path / "file" / name)
    assert raised.value.code == "output-write-failed"
