"""A folder index, as its users have it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self
from urllib.parse import urlsplit
from urllib.request import url2pathname

from ...bundle.swap import write_failed
from ...errors import BundlerError, Diagnostic
from ...wheel.distinfo import normalized
from .adding import Addition
from .change import Writer, files_of, present_head, projects_of, writing
from .check import Progress, check, nothing
from .journal import START, Change, Head
from .layout import (
    FOLDERS,
    HEAD,
    HTML_PAGE,
    JOURNAL,
    JSON_PAGE,
    LOCK,
    MAX_DOCUMENT,
    SIMPLE,
    STAGING,
    check_size,
    document_place,
)
from .lease import locked
from .mend import rebuild, remove_leftovers
from .pages import root_pages
from .records import IndexFile
from .storage import put, read, write

#: Seconds that a writer waits for another.
PATIENCE = 30.0
_MAX_TEXT = 500
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What became of a change: the head after it, names of what was added or changed, and of what was there already."""

    head: Head
    changed: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()


class FolderIndex:
    """A folder that pip and uv install from, by `file://`, a web server, or storage that it is copied to.

    Everybody may read it at any time. Whoever changes it waits `patience` seconds for another writer. Each change
    raises `index-locked`, `index-lease-lost`, `index-conflict` where the digest of the journal's head is not
    `expect_head`, `index-invalid`, `file-read-failed`, `output-write-failed`, `index-limit-exceeded` and
    `option-invalid`, and then has changed nothing; what is there already is no change and has no entry. A writer that
    is ended, or whose disk fails, while it puts a change in place leaves the index as it was before, or the rest of the
    change to the next writer.
    """

    def __init__(self, reference: str | os.PathLike[str], *, patience: float = PATIENCE) -> None:
        """The index in a folder, or at a `file://` URL. Raises `index-missing`."""
        self.root, self.patience = folder_of(reference), patience
        if not any(os.path.lexists(os.path.join(self.root, name)) for name in (HEAD, JOURNAL)):
            message = f"{self.root} is no index: it has neither `{HEAD}` nor `{JOURNAL}`"
            raise BundlerError("index-missing", message, path=self.root)

    @classmethod
    def init(cls, reference: str | os.PathLike[str]) -> Self:
        """A new index in a folder, which is made; what an ended `init` left in it is completed.

        Raises `index-exists` where the folder holds anything else, `index-locked` and `output-write-failed`.
        """
        root = folder_of(reference)
        try:
            os.makedirs(root, exist_ok=True)
            _check_unused(root)
            with locked(root, PATIENCE):
                _check_unused(root)  # another one may have been at it
                for name in FOLDERS:
                    os.makedirs(os.path.join(root, name), exist_ok=True)
                for path, data in (*root_pages([]), (HEAD, START.to_bytes())):
                    put(root, write(os.path.join(root, STAGING, os.urandom(8).hex()), data), path)
        except OSError as error:
            raise write_failed(str(error.filename or root), error) from None
        return cls(root)

    # --- what it holds --------------------------------------------------------------------------------

    def head(self) -> Head:
        """The journal's head. Raises `index-invalid` and `file-read-failed`."""
        return present_head(self.root)

    def projects(self) -> list[str]:
        """The projects, sorted. Raises `index-invalid` and `file-read-failed`."""
        return projects_of(self.root)

    def project(self, name: str) -> list[IndexFile]:
        """A project's files by version, none where there is no such project. Raises `index-invalid`, `file-read-failed`."""
        return list((files_of(self.root, normalized(name)) or {}).values())

    def document(self, name: str) -> bytes | None:
        """A document; None where there is none. Raises `index-document-invalid`, `index-invalid`, `file-read-failed`."""
        return read(self.root, document_place(name), MAX_DOCUMENT)

    # --- what changes it ------------------------------------------------------------------------------

    def add(
        self,
        files: Iterable[str | os.PathLike[str]],
        *,
        who: str,
        expect_head: str | None = None,
        digests: Mapping[str, str] | None = None,
        documents: Mapping[str, bytes] | None = None,
    ) -> Changed:
        """Add wheels, sdists and what accompanies them (`FILE.SUFFIX` beside FILE), and documents, as one change.

        `digests` are the SHA-256, in hexadecimal, that files of these names are to have. Raises `release-conflict`
        where a file of that name is there with other content, `index-file-refused`, `index-document-invalid`,
        `wheel-metadata-invalid`, the `archive-…` codes, `file-missing`.
        """
        documents = documents or {}
        for name, data in documents.items():
            document_place(name)
            check_size(data, MAX_DOCUMENT, f"the document {name}")
        with self._writing(who, expect_head) as writer:
            addition = Addition(writer, digests or {})
            addition.add(files)
            new = {name: data for name, data in documents.items() if self.document(name) != data}
            addition.passed += [name for name in documents if name not in new]
            return self._commit(
                writer, "add", who, Change(files=tuple(addition.changed.values()), documents=new), addition
            )

    def put_document(self, name: str, data: bytes, *, who: str, expect_head: str | None = None) -> Changed:
        """Put a document in place, of which the index knows nothing but its name. Raises `index-document-invalid`."""
        return self.add([], who=who, expect_head=expect_head, documents={name: data})

    def yank(self, project: str, version: str, *, reason: str, who: str, expect_head: str | None = None) -> Changed:
        """Advise installers against a version (PEP 592). Raises `index-version-missing`."""
        if not reason.strip():
            raise BundlerError("option-invalid", "the reason of a yank is empty; a text is expected")
        return self._set_yanked(project, version, _checked(reason, "the reason"), who=who, expect_head=expect_head)

    def unyank(self, project: str, version: str, *, who: str, expect_head: str | None = None) -> Changed:
        """Take the advice back. Raises `index-version-missing`."""
        return self._set_yanked(project, version, None, who=who, expect_head=expect_head)

    # --- what is wrong with it, and what is done about it ----------------------------------------------

    def verify(self, progress: Progress = nothing) -> list[Diagnostic]:
        """What is wrong: errors, and as warnings what the next writer completes and `gc` removes. Changes nothing.

        Raises `index-locked`.
        """
        return check(self.root, self.patience, progress)

    def rebuild(self, *, who: str = "rebuild", progress: Progress = nothing) -> list[str]:
        """Make pages, documents and head what the journal says; the places of those that were something else.

        Raises `index-invalid` for a journal that is broken, or ends before the head (a head that is wrong has to be
        removed first), `index-file-mismatch` where a file is not what a page would say, and what changes raise. After
        an error nothing has changed.
        """
        return rebuild(self.root, _checked(who, "who makes the change"), self.patience, progress)

    def gc(self, *, who: str = "gc") -> list[str]:
        """Remove what ended writers left: files that no page and no journal entry names; their places.

        Raises `index-invalid` for a journal or page that is broken, and what changes raise.
        """
        return remove_leftovers(self.root, _checked(who, "who makes the change"), self.patience)

    # --- within ---------------------------------------------------------------------------------------

    def _set_yanked(
        self, project: str, version: str, reason: str | None, *, who: str, expect_head: str | None
    ) -> Changed:
        from packaging.utils import canonicalize_version

        with self._writing(who, expect_head) as writer:
            same = canonicalize_version(version)
            files = (writer.files(normalized(project)) or {}).values()
            found = [each for each in files if canonicalize_version(each.version) == same]
            if not found:
                message = f"{self.root} has no version {version} of {project}"
                raise BundlerError("index-version-missing", message, path=self.root)
            changed = tuple(replace(each, yanked=reason) for each in found if each.yanked != reason)
            return self._commit(writer, "unyank" if reason is None else "yank", who, Change(files=changed))

    @contextmanager
    def _writing(self, who: str, expect_head: str | None) -> Iterator[Writer]:
        if not who.strip():
            raise BundlerError("option-invalid", "who makes the change is an empty text; a name is expected")
        _checked(who, "who makes the change")
        with writing(self.root, who, self.patience) as writer:
            if expect_head not in (None, writer.head.digest):
                raise BundlerError(
                    "index-conflict",
                    f"the journal's head of {self.root} is {writer.head.digest}; {expect_head} is expected",
                    path=self.root,
                )
            yield writer

    def _commit(
        self, writer: Writer, action: str, who: str, change: Change, addition: Addition | None = None
    ) -> Changed:
        if change.files or change.documents:
            writer.commit(action, who, change, addition.moves if addition else [])
        names = (*(each.name for each in change.files), *change.documents)
        return Changed(head=writer.head, changed=names, passed=tuple(addition.passed) if addition else ())


def folder_of(reference: str | os.PathLike[str]) -> str:
    """The absolute path of a folder that is named by its path or a `file://` URL. Raises `index-missing`."""
    text = os.fspath(reference)
    scheme, colon, _ = text.partition("://")
    if colon:
        url = urlsplit(text)
        if scheme.lower() != "file" or url.netloc not in ("", "localhost") or url.query or url.fragment:
            message = f"{text} is no folder of this machine; a path or a file:// URL is expected"
            raise BundlerError("index-missing", message, hint="name the folder of an index")
        text = url2pathname(url.path)
    if not text or "\0" in text:
        raise BundlerError("index-missing", f"{text!r} is no path", hint="name the folder of an index")
    return os.path.abspath(text)


def _checked(text: str, what: str) -> str:
    if len(text) > _MAX_TEXT or _CONTROL.search(text):
        message = f"{what} is longer than {_MAX_TEXT} characters, or has control characters"
        raise BundlerError("option-invalid", message, hint="give one line of text")
    return text


def _check_unused(root: str) -> None:
    for name in sorted(os.listdir(root)):
        found: list[str] = []
        if name not in (*FOLDERS, LOCK):
            found = [name]
        elif name in FOLDERS and name != STAGING:
            found = [f"{name}/{each}" for each in os.listdir(os.path.join(root, name))]
        for path in found:
            if path not in (f"{SIMPLE}/{JSON_PAGE}", f"{SIMPLE}/{HTML_PAGE}"):
                what = "is an index already" if path == HEAD else f"holds {path}"
                raise BundlerError("index-exists", f"{root} {what}; a new or empty folder is expected", path=root)
