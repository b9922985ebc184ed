"""Verification records: what a host verified before, so that an unchanged bundle need not be judged again.

A record holds the fingerprint of one folder's whole content, under the versions of protocol and tool that judged
it, and the values that were parsed of it. With it a start reads every byte and compares one digest; parsers, schemas and
rules are passed over. A record
that can't be used is none: the bundle is verified in full.

Whoever can write a record can vouch for a bundle. So their folder has to belong to the user, be writable by nobody
else, on the whole way to it, and lie outside of every Provider.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any

from .. import __version__
from ..bundle.layout import PROVIDER_NAME
from ..bundle.verify import VerifiedBundle, fingerprint_of, recall_bundle, verify_bundle
from ..errors import CODES, BundlerError, Diagnostic
from ..protocol import PROTOCOL_VERSION
from ..provider.sources import Parsed, parsed_values
from ..tree import Tree

SCHEMA = "agent-bundler.verification-record.v1"
_MAX_BYTES = 64 * 1024 * 1024
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class Records:
    """The records of one user in one folder, which is made where it is missing.

    Raises `records-folder-unsafe`, and `output-write-failed` where it can't be made.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.path.realpath(os.fspath(folder))
        self.notes: list[Diagnostic] = []
        if not hasattr(os, "geteuid"):
            raise _unsafe(self.folder, "cannot be checked on this system")
        try:
            _make_folder(self.folder)
            _check_folder(self.folder)
        except OSError as error:
            raise _not_written(self.folder, error) from None

    def recall(self, tree: Tree, root: str, context: str = "") -> VerifiedBundle | None:
        """The verified bundle in `tree`, whose folder is `root`; None where no record vouches for what lies there now.

        `context` stands for what else was verified with it. Raises what reading the tree raises.
        """
        self._check_outside(root)
        record = self._read(root)
        if record is None or any(record.get(key) != value for key, value in _bound(root, context).items()):
            return None
        warnings = tuple(Diagnostic(**each) for each in record["warnings"])
        parsed = Parsed(record["documents"], record["frontMatter"])
        bundle = recall_bundle(tree, record["fingerprint"], parsed, warnings)
        return bundle if bundle is not None and bundle.digest == record["digest"] else None

    def keep(self, bundle: VerifiedBundle, root: str, context: str = "") -> None:
        """Write the record of a bundle that was just verified; `notes` tell what kept it from being written.

        Raises what reading the bundle raises.
        """
        self._check_outside(root)
        fingerprint = fingerprint_of(bundle)
        if fingerprint is None:
            return
        record = {
            **_bound(root, context),
            "digest": bundle.digest,
            "fingerprint": fingerprint,
            **dict(zip(("documents", "frontMatter"), parsed_values(bundle.tree, bundle.provider), strict=True)),
            "warnings": [_as_json(warning) for warning in bundle.warnings],
        }
        text = json.dumps(record).encode()
        path = self._path(root)
        staged = f"{path}.{os.urandom(8).hex()}.new"
        try:
            with open(staged, "xb", opener=_private) as file:
                file.write(sha256(text).hexdigest().encode() + b"\n" + text)
            os.replace(staged, path)
        except OSError as error:
            with suppress(OSError):
                os.unlink(staged)
            self.notes.append(
                Diagnostic(
                    code="record-not-kept",
                    severity="warning",
                    message=f"no verification record was kept in {self.folder}: {os.strerror(error.errno or 0)}",
                    path=self.folder,
                    hint=CODES["record-not-kept"],
                )
            )

    def verify(
        self, tree: Tree, root: str, context: str = "", verify: Callable[[Tree], VerifiedBundle] = verify_bundle
    ) -> VerifiedBundle:
        """The verified bundle in `tree`: recalled, or verified now and remembered. Raises what verifying raises."""
        bundle = self.recall(tree, root, context)
        if bundle is None:
            bundle = verify(tree)
            self.keep(bundle, root, context)
        return bundle

    def _path(self, root: str) -> str:
        return os.path.join(self.folder, f"{sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:32]}.json")

    def _read(self, root: str) -> dict[str, Any] | None:
        """A record as it was written; None where there is none that only this user can have written."""
        try:
            descriptor = os.open(self._path(root), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & _OTHERS_WRITE:
                return None
            if status.st_size > _MAX_BYTES:
                return None
            with open(descriptor, "rb", closefd=False) as file:
                seal, _, text = file.read(_MAX_BYTES).partition(b"\n")
        except OSError:
            return None
        finally:
            os.close(descriptor)
        if sha256(text).hexdigest().encode() != seal:  # torn, or not ours
            return None
        record: dict[str, Any] = json.loads(text)
        return record

    def _check_outside(self, root: str) -> None:
        """Raises `records-folder-unsafe` where the records lie in a Provider: that one, or one above them."""
        place = os.path.realpath(root)
        if self.folder == place or self.folder.startswith(place + os.sep):
            raise _unsafe(self.folder, f"lies in the Provider {root}")


def _bound(root: str, context: str) -> Mapping[str, str]:
    """What a record is of: another place, tool or protocol has records of its own."""
    return {
        "schema": SCHEMA,
        "tool": __version__,
        "protocol": PROTOCOL_VERSION,
        "root": os.fsencode(os.path.realpath(root)).decode(errors="backslashreplace"),
        "context": context,
    }


def _make_folder(folder: str) -> None:
    """Make what is missing of the way to the folder, for this user alone; nothing where it would not be safe."""
    missing = []
    place = folder
    while not os.path.isdir(place):
        missing.append(place)
        place = os.path.dirname(place)
    if missing:
        _check_way(folder, place)
    for each in reversed(missing):
        try:
            os.mkdir(each, 0o700)
        except FileExistsError:
            if not os.path.isdir(each):
                raise


def _check_folder(folder: str) -> None:
    """Raises `records-folder-unsafe` where anybody else could write a record, or put another folder in this one's place."""
    status = os.stat(folder)
    if status.st_uid != os.geteuid() or status.st_mode & _OTHERS_WRITE:
        raise _unsafe(folder, "does not belong to you alone: it needs to be yours, with no write permission for others")
    _check_way(folder, folder)


def _check_way(folder: str, place: str) -> None:
    """Raises `records-folder-unsafe` for what is wrong with `place` and the folders above, which lead to `folder`."""
    me = os.geteuid()
    while True:
        status = os.stat(place)
        shared = status.st_mode & _OTHERS_WRITE
        if status.st_uid not in (me, 0) or (shared and not status.st_mode & stat.S_ISVTX):
            raise _unsafe(folder, f"lies in {place}, in which others can put another folder in its place")
        if os.path.lexists(os.path.join(place, PROVIDER_NAME)):
            raise _unsafe(folder, f"lies in the Provider {place}")
        above = os.path.dirname(place)
        if above == place:
            return
        place = above


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _as_json(warning: Diagnostic) -> dict[str, Any]:
    found = {name: getattr(warning, name) for name in Diagnostic.__dataclass_fields__}
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in found.items()}


def _unsafe(folder: str, why: str) -> BundlerError:
    return BundlerError("records-folder-unsafe", f"the folder of verification records {folder} {why}", path=folder)


def _not_written(folder: str, error: OSError) -> BundlerError:
    return BundlerError("output-write-failed", f"{folder} can't be made: {os.strerror(error.errno or 0)}", path=folder)
