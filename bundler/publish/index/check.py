"""What is wrong with an index: journal, then pages against the journal, then files against both.

1. the journal is unbroken and the head is that of one of its entries; 2. each page and document is, byte by byte, what
the entries up to the head make it (so the HTML page says what the JSON page says), and there is no other; 3. each file
is there with its size and SHA-256, and a wheel says of itself what the pages say of it; 4. nothing else is there.

Where 1 fails nothing further is looked at. What is *not* verified: whether the journal is the one that was there before
(compare its head with one that you have kept), and who wrote anything (documents and accompanying files are signed).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

from ...errors import CODES, BundlerError, Diagnostic, Severity
from .change import pages_of, present_head
from .journal import check_head, read_entries
from .layout import DOCUMENTS, FILES, MAX_PAGE, SIMPLE, entry_place
from .lease import locked
from .records import IndexFile
from .storage import Stored, digest, files_below, read
from .wheels import read_wheel

#: Told of files, bytes and all files, now and then.
Progress = Callable[[int, int, int], None]


def nothing(files: int, size: int, total: int) -> None:
    """A progress that is not shown."""


def check(root: str, patience: float, progress: Progress = nothing) -> list[Diagnostic]:
    """The findings. Raises `index-locked`."""
    try:
        # What writers replace is looked at while none does. Files never change.
        with locked(root, patience, shared=True):
            head, entries = present_head(root), read_entries(root)
            pages, places = dict(_replaceable(root)), files_in(root)
        # 1. the journal
        count = check_head(entries, head)
        files, after = pages_of(entries)
        before = pages_of(entries[:count])[1] if count < len(entries) else after
        findings = [_begun(entry.number) for entry in entries[count:]]
        # 2. pages and documents; a change that was begun may have replaced some
        findings += _page_findings(pages, [before, after])
        # 3. and 4. files
        findings += file_findings(root, files, progress)
        findings += [_stray(path, "warning") for path in strays(places, files)]
    except BundlerError as error:
        if error.code == "index-locked":
            raise
        return list(error.diagnostics)
    return findings


def file_findings(root: str, files: Sequence[IndexFile], progress: Progress = nothing) -> Iterator[Diagnostic]:
    """What is wrong with files that are to be there."""
    size = 0
    for count, file in enumerate(files):
        progress(count, size, len(files))
        try:
            for path, expected in file.stored():
                found = digest(root, path)
                if found != expected:
                    raise _mismatch(path, found, expected)
            if file.metadata is not None:
                data, requires_python = read_wheel(os.path.join(root, file.path), file.name)
                said = (Stored(sha256(data).hexdigest(), len(data)), requires_python)
                if said != (file.metadata, file.requires_python):
                    message = f"`{file.path}` is not what the pages say: METADATA or Requires-Python differ"
                    raise BundlerError("index-file-mismatch", message, path=file.path)
        except BundlerError as error:
            yield from error.diagnostics
        size += file.content.size


def files_in(root: str) -> list[str]:
    """What lies below `files`. Raises `file-read-failed`."""
    return [path for path, _ in files_below(root, FILES)]


def strays(places: Iterable[str], named: Iterable[IndexFile]) -> list[str]:
    """Those of the places at which nothing lies that belongs to these files."""
    known = {path for each in named for path, _ in each.stored()}
    return [path for path in places if path not in known]


def _replaceable(root: str) -> Iterator[tuple[str, bytes | None]]:
    """Pages and documents with their content; None for what is no file that could be one."""
    for folder in (SIMPLE, DOCUMENTS):
        for path, is_file in files_below(root, folder):
            yield path, read(root, path, MAX_PAGE) if is_file else None


def _page_findings(pages: Mapping[str, bytes | None], expected: Sequence[Mapping[str, bytes]]) -> Iterator[Diagnostic]:
    for path in sorted({*pages, *expected[0], *expected[-1]}):
        wanted = [each.get(path) for each in expected]
        if path in pages and wanted == [None] * len(wanted):
            yield _stray(path, "error")
        elif pages.get(path) not in wanted:
            what = "is missing" if path not in pages else "is not what the journal makes it"
            yield from BundlerError("index-page-mismatch", f"`{path}` {what}", path=path).diagnostics


def _mismatch(path: str, found: Stored | None, expected: Stored) -> BundlerError:
    actual = "is missing" if found is None else f"has {found.size:,} bytes, sha256:{found.sha256}"
    message = f"`{path}` {actual}; {expected.size:,} bytes, sha256:{expected.sha256}, are expected"
    return BundlerError("index-file-mismatch", message, path=path)


def _begun(number: int) -> Diagnostic:
    path = entry_place(number)
    return Diagnostic(
        code="index-unfinished",
        severity="warning",
        message=f"the change of `{path}` was begun and is not in place yet",
        path=path,
        hint=CODES["index-unfinished"],
    )


def _stray(path: str, severity: Severity) -> Diagnostic:
    message = f"`{path}` is named by no page and no journal entry"
    return Diagnostic(code="index-stray", severity=severity, message=message, path=path, hint=CODES["index-stray"])
