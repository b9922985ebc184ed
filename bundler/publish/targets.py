"""Where a release goes: a folder index, or a PyPI-compatible server. To add a target, add a class.

A target takes what it can and says of the rest that it does not: nothing of a release is dropped silently.
"""

from __future__ import annotations

import getpass
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from ..errors import CODES, BundlerError, Diagnostic
from ..wheel.working import working_folder
from .index import FolderIndex
from .record import NAME, Release, TargetState, check_files, note_state, put_folder, read_release, read_states
from .repository import Repository
from .server import Patience, Progress, upload

_PATIENCE = Patience()


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What became of a release at a target: names of the files that it got, had already, and took but does not show.

    `head` is that of a folder index's journal. `kept` is the folder into which went what the target does not take.
    """

    kind: str
    place: str
    added: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    unconfirmed: tuple[str, ...] = ()
    head: str | None = None
    kept: str | None = None
    warnings: tuple[Diagnostic, ...] = ()


class Target(Protocol):
    """A place that takes releases."""

    KIND: ClassVar[str]

    @property
    def place(self) -> str:
        """Its path or URL."""

    def takes(self, release: Release) -> tuple[str, ...]:
        """Names of the files that it is given."""

    def send(self, release: Release, progress: Progress) -> Published:
        """Give it what it does not have yet. Raises `release-conflict` for other content under a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderTarget:
    """A folder index; `who` stands in its journal."""

    KIND: ClassVar[str] = "folder"

    index: FolderIndex
    who: str
    expect_head: str | None = None

    @property
    def place(self) -> str:
        return self.index.root

    def takes(self, release: Release) -> tuple[str, ...]:
        return (*release.distributions, *release.accompanying)

    def send(self, release: Release, progress: Progress) -> Published:
        names = self.takes(release)
        changed = self.index.add(
            [release.path(name) for name in names],
            who=self.who,
            expect_head=self.expect_head,
            digests=release.digests,
        )
        passed = tuple(name for name in names if name in changed.passed)
        added = tuple(name for name in names if name not in passed)
        return Published(kind=self.KIND, place=self.place, added=added, passed=passed, head=changed.head.digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTarget:
    """A PyPI-compatible server. What it does not take is copied into a folder of the release's own in `evidence_dir`."""

    KIND: ClassVar[str] = "server"

    repository: Repository
    evidence_dir: str | None = None
    patience: Patience = _PATIENCE

    @property
    def place(self) -> str:
        return self.repository.url

    def takes(self, release: Release) -> tuple[str, ...]:
        return release.distributions

    def send(self, release: Release, progress: Progress) -> Published:
        left = [*(name for name in release.digests if name not in self.takes(release)), NAME]
        kept = None if self.evidence_dir is None else _keep(release, left, self.evidence_dir)
        warnings = []
        if kept is None:
            message = f"{self.place} takes no {', '.join(left)}: they are in {release.folder} only"
            warnings.append(
                Diagnostic(
                    code="target-unsupported", severity="warning", message=message, hint=CODES["target-unsupported"]
                )
            )
        paths = [release.path(name) for name in self.takes(release)]
        results = upload(paths, self.repository, progress, self.patience, digests=release.digests)
        by_state = {
            state: tuple(each.name for each in results if each.state == state)
            for state in ("uploaded", "already-there", "unconfirmed")
        }
        return Published(
            kind=self.KIND,
            place=self.place,
            added=by_state["uploaded"],
            passed=by_state["already-there"],
            unconfirmed=by_state["unconfirmed"],
            kept=kept,
            warnings=(*warnings, *(each.warning for each in results if each.warning is not None)),
        )


def publish(release: Release, target: Target, progress: Progress = lambda name, number, count, step: None) -> Published:
    """Give a target what it does not have of a release, and write down beside the release how far it is.

    Raises `release-invalid` where a file is not what was released, and what the target raises: then its state is
    `failed`, and the same call again goes on where this one ended.
    """
    check_files(release)
    state = TargetState(kind=target.KIND, place=target.place, state="publishing", missing=target.takes(release))
    note_state(release, state)
    try:
        published = target.send(release, progress)
    except BundlerError as error:
        note_state(release, replace(state, state="failed", error=f"{error.code}: {error.message}"))
        raise
    if not published.unconfirmed:
        state = replace(state, state="succeeded")
    note_state(release, replace(state, missing=published.unconfirmed))
    return published


def publish_all(
    release: Release, targets: Sequence[Target], progress: Progress = lambda name, number, count, step: None
) -> tuple[list[Published], list[BundlerError]]:
    """Publish to each target, whatever becomes of the others: what became of it, and what was raised."""
    published: list[Published] = []
    errors: list[BundlerError] = []
    try:
        for target in targets:
            _prepare(release, target)
    except BundlerError as error:
        return [], [error]
    for target in targets:
        try:
            published.append(publish(release, target, progress))
        except BundlerError as error:
            errors.append(error)
    return published, errors


def _prepare(release: Release, target: Target) -> None:
    """Write down that a release is to go to a target, unless more is known of it. Raises `output-write-failed`."""
    state = TargetState(kind=target.KIND, place=target.place, state="prepared", missing=target.takes(release))
    if (state.kind, state.place) not in {(each.kind, each.place) for each in read_states(release.folder)}:
        note_state(release, state)


def current_user() -> str:
    """Who makes a change, where nobody else is named."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name
        return f"uid {os.getuid()}"


def _keep(release: Release, names: list[str], evidence_dir: str) -> str:
    """Copy files of a release into a folder of its own, which is there whole or not at all; that folder.

    What an earlier run kept of the same release stays. Raises `release-conflict` and `output-write-failed`.
    """
    place = os.path.join(os.path.abspath(evidence_dir), os.path.basename(release.folder))
    with working_folder(os.path.dirname(place)) as work:
        staged = work / "kept"
        staged.mkdir()
        for name in names:
            shutil.copyfile(release.path(name), staged / name)
        if put_folder(staged, place):
            return place
    found = read_release(place)
    if found.id != release.id:
        message = f"{place} is of the release {found.id}; {release.id} was to be kept there"
        raise BundlerError("release-conflict", message, path=place)
    return place
