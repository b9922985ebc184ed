"""The highest sequence number that was seen of each signed document, so that an older one is not taken for the latest.

A file for each document, in a folder that is the user's own (`folders`): whoever can write there can bring back what
was revoked. A number is noted only after a signature that counts was verified, and never gets lower, however many
processes note theirs. A file that can't be read is not passed over: nothing would tell how much it knew.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256

from ..bundle.disk import alone
from ..bundle.swap import write_failed
from ..errors import BundlerError
from ..protocol.canonical import canonical
from .documents import Document
from .folders import open_own, own_folder

SCHEMA = "agent-bundler.sequence.v1"
_MAX_BYTES = 4096


class Sequences:
    """What one host saw of the documents of one index, in one folder, which is made where it is missing.

    Raises `folder-unsafe`, and `output-write-failed` where it can't be made.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = own_folder(os.fspath(folder), _unsafe)

    def is_new(self, document: Document) -> bool:
        """Whether it is later than what was seen; False for the very same.

        Raises `index-rolled-back` for an older one, and for another one with the same number, and
        `signature-verifier-failed` where what was seen can't be read.
        """
        found = self._read(document.subject)
        if found is None:
            return True
        sequence, digest = found
        if document.sequence > sequence:
            return True
        if (document.sequence, _digest(document)) == (sequence, digest):
            return False
        message = (
            f"{document.subject} has the sequence {document.sequence} and other content; {sequence} was seen before"
        )
        raise BundlerError("index-rolled-back", message)

    def keep(self, document: Document) -> None:
        """Note a document whose signature was verified. Raises the same, and `output-write-failed`."""
        if not self.is_new(document):
            return
        try:
            with alone(self.folder) as folder:
                if self.is_new(document):  # another process may have noted a later one meanwhile
                    self._write(document)
                    os.fsync(folder)
        except OSError as error:
            raise write_failed(self.folder, error) from None

    def _write(self, document: Document) -> None:
        path = self._path(document.subject)
        staged = f"{path}.new"  # one name is enough under the lock; that of a killed process is written over
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(staged, flags, 0o600), "wb") as file:
            file.write(_to_bytes(document.subject, document.sequence, _digest(document)))
            file.flush()
            os.fsync(file.fileno())
        os.replace(staged, path)

    def _read(self, subject: str) -> tuple[int, str] | None:
        """Number and digest of the latest one; None where none was seen."""
        path = self._path(subject)
        try:
            descriptor = open_own(path)
            if descriptor is None:
                raise _unreadable(path, subject, "it is not a file that only you can write")
            with open(descriptor, "rb", buffering=0) as file:
                data = file.read(_MAX_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(path, subject, os.strerror(error.errno or 0)) from None
        try:
            value = json.loads(data)
            sequence, digest = value["sequence"], value["digest"]
            if type(sequence) is int and data == _to_bytes(subject, sequence, digest):
                return sequence, digest
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        raise _unreadable(path, subject, "it is not what was written there")

    def _path(self, subject: str) -> str:
        return os.path.join(self.folder, f"{sha256(subject.encode()).hexdigest()[:32]}.json")


def _digest(document: Document) -> str:
    return f"sha256:{sha256(document.payload()).hexdigest()}"


def _to_bytes(subject: str, sequence: int, digest: str) -> bytes:
    value = {"schema": SCHEMA, "document": subject, "sequence": sequence, "digest": digest}
    return canonical(value).encode() + b"\n"


def _unreadable(path: str, subject: str, why: str) -> BundlerError:
    return BundlerError(
        "signature-verifier-failed",
        f"{path}, which tells what was seen of {subject}, can't be used: {why}",
        path=path,
        hint="put it back from a copy; remove it only if you know by other means that the document is the latest one",
    )


def _unsafe(folder: str, why: str) -> BundlerError:
    return BundlerError(
        "folder-unsafe",
        f"the folder of sequence numbers {folder} {why}",
        path=folder,
        hint="name a folder of your own that only you can write to, such as ~/.local/state/agent-bundler",
    )
