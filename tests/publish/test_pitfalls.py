"""What failed is remembered until it passes, and what lies in its place instead is nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bundler.publish import pitfalls
from bundler.publish.pitfalls import Pitfall, read_pitfalls, updated


def pitfall(check: str, found: str = "f") -> Pitfall:
    return Pitfall(check=check, expected="e", found=found, cause="c")


def test_what_was_written_is_read(tmp_path: Path) -> None:
    known = (pitfall("a", "ü\n"), pitfall("b"))
    (tmp_path / pitfalls.NAME).write_bytes(pitfalls.to_bytes(known))
    assert read_pitfalls(tmp_path) == known


def test_what_passed_is_forgotten_and_what_was_not_reached_is_not() -> None:
    before = (pitfall("build"), pitfall("secrets"))
    assert updated(before, ["validate", "build", "wheel"], pitfall("wheel")) == (pitfall("wheel"), pitfall("secrets"))
    assert updated(before, ["validate", "build"], pitfall("build", "new"))[0] == pitfall("build", "new")
    assert len(updated((), ["a"], pitfall("a", "x" * 5000))[0].found) == 1000


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"\xff", b"[]", b"3", b'{"schema": "x", "pitfalls": [{}]}', b'{"schema": "agent-bundler.pitfalls.v1"}'),
        b'{"schema": "agent-bundler.pitfalls.v1", "pitfalls": [{"check": "a"}]}',
        b'{"schema": "agent-bundler.pitfalls.v1", "pitfalls": 3}',
        pitfalls.to_bytes([pitfall("a")]).replace(b'"e"', b"1"),
        b" " * (2 << 20),
    ],
)
def test_what_is_not_ours_is_nothing(content: bytes, tmp_path: Path) -> None:
    (tmp_path / pitfalls.NAME).write_bytes(content)
    assert read_pitfalls(tmp_path) == ()


def test_where_nothing_can_be_read(tmp_path: Path) -> None:
    assert read_pitfalls(tmp_path) == read_pitfalls(tmp_path / "none") == ()
    os.mkfifo(tmp_path / pitfalls.NAME)
    assert read_pitfalls(tmp_path) == ()
