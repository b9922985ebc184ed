"""What passed every check, once for all tests: signing and publishing begin from it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from bundler.publish.many import check_source
from bundler.publish.record import Release
from bundler.publish.release import Prepared, complete

from .. import installs, signed


def prepared(name: str = "demo") -> Prepared:
    """One of `installs`' Providers. Nothing changes its files."""
    return _prepared(name)


@cache
def _prepared(name: str) -> Prepared:
    folder = installs.folder() / name
    return check_source(str(installs.source(name)), str(folder / "releases"), str(folder / "checked"))


def released(output: Path, name: str = "demo", key: str | None = "release") -> Release:
    """A release of it, signed with that key."""
    return complete(prepared(name), output, signer=None if key is None else signed.signer(key))


def wheel_of(release: Release) -> bytes:
    return Path(release.path(release.wheel)).read_bytes()
