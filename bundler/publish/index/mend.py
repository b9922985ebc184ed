"""Pages from the journal again, and away with what ended writers left."""

from __future__ import annotations

import os
from contextlib import suppress

from ...bundle.disk import sync
from ...errors import BundlerError
from .change import files_of, pages_of, preparing, projects_of, writing
from .check import Progress, file_findings, files_in, nothing, strays
from .journal import START, Entry, check_head, read_entries, read_head
from .layout import DOCUMENTS, FILES, FOLDERS, HEAD, MAX_PAGE, SIMPLE
from .records import METADATA, read_name
from .storage import files_below, put, read


def rebuild(root: str, who: str, patience: float, progress: Progress = nothing) -> list[str]:
    """Make pages, documents and head what the journal says; the places of those that were not.

    Raises `index-invalid`, `index-file-mismatch`, and what `preparing` raises. After an error nothing has changed.
    """
    entries = read_entries(root)
    least = entries[-1].head if entries else START
    with preparing(root, who, least, patience) as writer:
        entries = read_entries(root)
        _check_not_cut(root, entries)
        files, pages = pages_of(entries)

        def beat(count: int, size: int, total: int) -> None:
            writer.held.renew()
            progress(count, size, total)

        findings = list(file_findings(root, files, beat))
        if findings:
            first = findings[0]
            raise BundlerError(first.code, first.message, hint=first.hint, diagnostics=findings)
        last = entries[-1].head if entries else START
        wrong = {path: data for path, data in {**pages, HEAD: last.to_bytes()}.items() if not _is(root, path, data)}
        staged = writer.stage(wrong.items())
        with writer.held.fenced():
            others = [path for folder in (SIMPLE, DOCUMENTS) for path, _ in files_below(root, folder)]
            for path in (gone := sorted(set(others) - pages.keys())):
                _remove(root, path)
            for each, path in staged:
                put(root, each, path)
    return [*gone, *wrong]


def remove_leftovers(root: str, who: str, patience: float) -> list[str]:
    """Remove files that a writer put in place and that no page and no journal entry names; their places.

    What no writer can have put there stays. Raises `index-invalid` and what `writing` raises.
    """
    with writing(root, who, patience) as writer:
        entries = read_entries(root)
        check_head(entries, writer.head)
        named = [each for entry in entries for each in entry.change.files]
        named += [each for project in projects_of(root) for each in (files_of(root, project) or {}).values()]
        with writer.held.fenced():
            gone = [path for path in strays(files_in(root), named) if _can_be_ours(root, path)]
            for path in gone:
                _remove(root, path)
    return gone


def _check_not_cut(root: str, entries: list[Entry]) -> None:
    """Raises `index-invalid` where the head is one that the journal does not lead to; one that says nothing is none."""
    try:
        head = read_head(root)
    except BundlerError:
        return
    if head is not None:
        check_head(entries, head)


def _can_be_ours(root: str, path: str) -> bool:
    folder, _, name = path.rpartition("/")
    try:
        read_name(name.removesuffix(f".{METADATA}"))
    except BundlerError:
        return False
    place = os.path.join(root, path)
    return os.path.dirname(folder) == FILES and os.path.isfile(place) and not os.path.islink(place)


def _remove(root: str, path: str) -> None:
    """Remove a file, and its folder where nothing else is in it. Raises OSError."""
    os.unlink(os.path.join(root, path))
    folder = os.path.join(root, os.path.dirname(path))
    sync(folder)
    if os.path.dirname(path) not in FOLDERS:
        with suppress(OSError):
            os.rmdir(folder)


def _is(root: str, path: str, data: bytes) -> bool:
    """Whether that is the content of what lies there."""
    try:
        return read(root, path, MAX_PAGE) == data
    except BundlerError:  # something else lies there
        return False
