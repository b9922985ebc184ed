"""The journal: what was changed, by whom and when, an entry a change, each with the digest of the one before.

An entry holds all that its change makes visible: of each file the whole record, of each document the whole content.
So pages follow from the entries, and a change that was begun can be completed by anybody, any number of times.
What the chain does not show is a journal that was cut at its end together with its head: only who has seen a
later head can tell.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from .layout import (
    HEAD,
    JOURNAL,
    MAX_ENTRY,
    MAX_SMALL,
    check_size,
    document_place,
    entry_place,
    invalid,
    to_bytes,
)
from .pages import read_json
from .records import IndexFile
from .storage import files_below, read

HEAD_SCHEMA = "agent-bundler.index-head.v1"
ENTRY_SCHEMA = "agent-bundler.index-entry.v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Number and digest of the last entry whose change is in place, and the fencing token of who made it."""

    number: int
    digest: str
    token: int

    def to_bytes(self) -> bytes:
        """The content of the file `head`."""
        return to_bytes({"schema": HEAD_SCHEMA, "number": self.number, "digest": self.digest, "token": self.token})


#: The head of an index in which nothing was ever changed.
START = Head(number=0, digest=f"sha256:{sha256().hexdigest()}", token=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What becomes visible at once: files whose record is new or another, and documents."""

    files: tuple[IndexFile, ...] = ()
    documents: Mapping[str, bytes] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "files": [each.to_json() for each in self.files],
            "documents": {name: b64encode(data).decode() for name, data in self.documents.items()},
        }

    @classmethod
    def of_json(cls, value: dict[str, Any]) -> Change:
        documents = {name: b64decode(text) for name, text in value["documents"].items()}
        for name in documents:
            document_place(name)
        return cls(files=tuple(map(IndexFile.of_json, value["files"])), documents=documents)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One change: `previous` is the digest of the entry before, `when` a time in UTC, `token` the writer's."""

    number: int
    previous: str
    token: int
    who: str
    when: str
    action: str
    change: Change

    def to_bytes(self) -> bytes:
        """The content of its file. Raises `index-limit-exceeded`."""
        change = self.change.to_json()
        value = {
            "schema": ENTRY_SCHEMA,
            "number": self.number,
            "previous": self.previous,
            "token": self.token,
            "who": self.who,
            "when": self.when,
            "action": self.action,
            "digest": _digest(to_bytes(change)),
            "change": change,
        }
        return check_size(to_bytes(value), MAX_ENTRY, "the journal entry")

    @property
    def head(self) -> Head:
        """The head of an index in which this is the last entry."""
        return Head(number=self.number, digest=_digest(self.to_bytes()), token=self.token)


def read_head(root: str) -> Head | None:
    """The head; None where there is none. Raises `index-invalid` and `file-read-failed`."""
    data = read(root, HEAD, MAX_SMALL)
    if data is None:
        return None

    def make(value: Any) -> Head:
        head = Head(number=value["number"], digest=value["digest"], token=value["token"])
        if head.to_bytes() != data or type(head.number) is not int or type(head.token) is not int:
            raise ValueError
        return head

    return read_json(data, HEAD, make)


def read_entry(root: str, before: Head) -> Entry | None:
    """The entry that follows a head; None where there is none.

    Raises `index-invalid` for one that is not what was written, or does not follow, and `file-read-failed`.
    """
    path = entry_place(before.number + 1)
    data = read(root, path, MAX_ENTRY)
    if data is None:
        return None

    def make(value: Any) -> Entry:
        names = ("number", "previous", "token", "who", "when", "action")
        entry = Entry(**{name: value[name] for name in names}, change=Change.of_json(value["change"]))
        if entry.to_bytes() != data or type(entry.token) is not int:
            raise ValueError
        return entry

    entry = read_json(data, path, make)
    if entry.number != before.number + 1:
        raise invalid(path, f"has the number {entry.number} inside")
    if entry.previous != before.digest:
        raise invalid(path, f"follows {entry.previous}; the entry before has the digest {before.digest}")
    if entry.token < before.token:
        raise invalid(path, f"has the token {entry.token}, the entry before {before.token}: who wrote it had no lease")
    return entry


def read_entries(root: str) -> list[Entry]:
    """All entries, those behind the head too.

    Raises `index-invalid` where one is missing or does not follow the one before, and `file-read-failed`.
    """
    entries: list[Entry] = []
    head = START
    while (entry := read_entry(root, head)) is not None:
        entries.append(entry)
        head = entry.head
    others = {path for path, _ in files_below(root, JOURNAL)} - {entry_place(each.number) for each in entries}
    if others:
        what = f"is no entry, or the one before is missing: the entries from 1 to {head.number} are there"
        raise invalid(min(others), what)
    return entries


def check_head(entries: list[Entry], head: Head) -> int:
    """How many entries are in place. Raises `index-invalid` where the head is that of none of them."""
    if head != (entries[head.number - 1].head if 0 < head.number <= len(entries) else START):
        raise invalid(HEAD, f"names entry {head.number}, {head.digest}, which the journal does not have")
    return head.number


def _digest(data: bytes) -> str:
    return f"sha256:{sha256(data).hexdigest()}"
