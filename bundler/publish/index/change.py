"""A change of an index: prepared under the lease, put in place under the lock.

Prepared are, in `staging` and flushed: the files, the journal entry, the pages that follow from it, the head. They are
put in place in this order, each by a rename, the entry by a link that fails where there is one of its number. Until the
entry is there nothing that was put in place is named by anything, and the next writer replaces it or `gc` removes it.
From then on the change is made: the next writer completes it before it does anything else, from the entry alone.
A page of a project never names what is not there, and the page of all projects none whose page is not there. JSON and
HTML pages are two files, and so change one after the other.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ...bundle.swap import write_failed
from ...errors import BundlerError
from .journal import Change, Entry, Head, read_entry, read_head
from .layout import (
    HEAD,
    JOURNAL,
    JSON_PAGE,
    MAX_PAGE,
    SIMPLE,
    STAGING,
    document_place,
    entry_place,
    invalid,
    project_page,
)
from .lease import HeldLease, leased, lost
from .pages import project_pages, read_project, read_root, root_pages
from .records import IndexFile
from .storage import make_folder, put, put_new, read, write

#: What is staged, and where it belongs.
Moves = list[tuple[str, str]]


@dataclass(slots=True, kw_only=True)
class Writer:
    """The one that may change the index, at its head, which is that of the journal."""

    root: str
    held: HeldLease
    head: Head
    folder: str
    _count: int = field(default=0, init=False)
    _files: dict[str, dict[str, IndexFile] | None] = field(default_factory=dict, init=False)

    def files(self, project: str) -> dict[str, IndexFile] | None:
        """What `files_of` gives, read once: nobody else changes it. Raises what it raises."""
        if project not in self._files:
            self._files[project] = files_of(self.root, project)
        return self._files[project]

    def place(self) -> str:
        """A place for something staged."""
        self._count += 1
        return os.path.join(self.folder, str(self._count))

    def stage(self, pages: Iterable[tuple[str, bytes]]) -> Moves:
        """Stage what belongs at each place. Raises OSError."""
        return [(write(self.place(), data), path) for path, data in pages]

    def commit(self, action: str, who: str, change: Change, files: Moves) -> None:
        """Make a change whose files are staged. Raises what `fenced` raises, and OSError."""
        entry = Entry(
            number=self.head.number + 1,
            previous=self.head.digest,
            token=self.held.lease.token,
            who=who,
            when=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            action=action,
            change=change,
        )
        written = write(self.place(), entry.to_bytes())
        self._switch(files, written, self._pages_after(change), entry.head)

    def complete(self) -> None:
        """Complete the change of a writer that was ended after its journal entry, where there is one."""
        while (entry := read_entry(self.root, self.head)) is not None:
            self._switch([], None, self._pages_after(entry.change, is_begun=True), entry.head)

    def _switch(self, files: Moves, entry: str | None, pages: list[tuple[str, bytes]], head: Head) -> None:
        staged = self.stage([*pages, (HEAD, head.to_bytes())])
        with self.held.fenced():
            if read_head(self.root) != self.head:
                raise lost(self.root)
            self._check_places([path for _, path in [*files, *staged]])
            for each, path in files:
                put(self.root, each, path)
            if entry is not None:
                try:
                    put_new(self.root, entry, entry_place(head.number))
                except FileExistsError:
                    raise lost(self.root) from None
            for each, path in staged:
                put(self.root, each, path)
        self.head = head
        self._files.clear()

    def _pages_after(self, change: Change, *, is_begun: bool = False) -> list[tuple[str, bytes]]:
        """Place and content of the pages and documents that a change leaves, in the order in which they are put in place.

        `is_begun` where some may be in place already.
        """
        projects: dict[str, dict[str, IndexFile]] = {}
        new = set()
        for each in change.files:
            found = self.files(each.project)
            projects.setdefault(each.project, dict(found or {}))[each.name] = each
            if found is None or is_begun:
                new.add(each.project)
        known = projects_of(self.root) if new else []
        # Of a change that was begun the one page of all projects can be in place, and the other not.
        is_listed = not new or (not is_begun and new <= set(known))
        return _pages(projects, None if is_listed else {*known, *new}, change.documents)

    def _check_places(self, paths: Sequence[str]) -> None:
        """Make folders, and raise before the journal entry what would keep from its place what follows from it."""
        for folder in {JOURNAL, *map(os.path.dirname, paths)}:
            make_folder(self.root, folder)
            place = os.path.join(self.root, folder)
            if not os.access(place, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), place)
        for path in paths:
            if os.path.isdir(os.path.join(self.root, path)):
                raise invalid(path, "is a folder; a file is expected")


@contextmanager
def writing(root: str, who: str, patience: float) -> Iterator[Writer]:
    """Be the writer; what an ended one had begun is complete. Raises what `preparing` raises, and `index-invalid`."""
    with preparing(root, who, present_head(root), patience) as writer:
        writer.head = present_head(root)
        writer.complete()
        yield writer


@contextmanager
def preparing(root: str, who: str, head: Head, patience: float) -> Iterator[Writer]:
    """Be the writer of an index that may be in any state; what ended ones left in `staging` is gone.

    Raises `index-locked`, `index-lease-lost`, and `output-write-failed` for every OSError in the block.
    """
    try:
        make_folder(root, STAGING)
        with leased(root, who, head.token, patience) as held:
            folder = os.path.join(root, STAGING, held.lease.nonce)
            try:
                with held.fenced():
                    _clear(root)
                    os.mkdir(folder)
                yield Writer(root=root, held=held, head=head, folder=folder)
            except (OSError, BundlerError):
                held.check()  # who was given the lease cleared what we had staged: whatever we met comes from that
                raise
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise write_failed(str(error.filename or root), error) from None


def present_head(root: str) -> Head:
    """The head. Raises `index-invalid` where there is none."""
    head = read_head(root)
    if head is None:
        raise invalid(HEAD, f"of {root} is missing")
    return head


def pages_of(entries: Iterable[Entry]) -> tuple[list[IndexFile], dict[str, bytes]]:
    """What a whole journal leaves: all files, and every page and document by its place."""
    projects: dict[str, dict[str, IndexFile]] = {}
    documents: dict[str, bytes] = {}
    for entry in entries:
        for each in entry.change.files:
            projects.setdefault(each.project, {})[each.name] = each
        documents |= entry.change.documents
    files = [each for files in projects.values() for each in files.values()]
    return files, dict(_pages(projects, projects, documents))


def _pages(
    projects: Mapping[str, Mapping[str, IndexFile]], listed: Iterable[str] | None, documents: Mapping[str, bytes]
) -> list[tuple[str, bytes]]:
    """Projects' pages, then the page that lists projects (None for none), then documents."""
    pages = [page for project, files in projects.items() for page in project_pages(project, files.values())]
    pages += root_pages(listed) if listed is not None else []
    return [*pages, *((document_place(name), data) for name, data in documents.items())]


def files_of(root: str, project: str) -> dict[str, IndexFile] | None:
    """A project's files by name; None where the index has no such project. Raises `index-invalid`, `file-read-failed`."""
    data = read(root, project_page(project, JSON_PAGE), MAX_PAGE)
    return None if data is None else {each.name: each for each in read_project(project, data)}


def projects_of(root: str) -> list[str]:
    """The projects. Raises `index-invalid`, `file-read-failed`."""
    path = f"{SIMPLE}/{JSON_PAGE}"
    data = read(root, path, MAX_PAGE)
    if data is None:
        raise invalid(path, "is missing")
    return read_root(data)


def _clear(root: str) -> None:
    """Remove what is staged: whoever holds the lease is the only one. Raises OSError."""
    place = os.path.join(root, STAGING)
    with os.scandir(place) as found:
        for entry in list(found):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)
