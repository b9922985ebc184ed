"""Verification records: what a host verified before, so that an unchanged bundle need not be judged again.

A record holds the fingerprint of one folder's whole content, under the versions of protocol and tool that judged
it, and the values that were parsed of it. With it a start reads every byte and compares one digest; parsers, schemas and
rules are passed over. A record
that can't be used is none: the bundle is verified in full.

Whoever can write a record can vouch for a bundle. So their folder has to be the user's own (`folders`), outside of every
Provider.
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
from ..bundle.recall import fingerprint_of, recall_bundle
from ..bundle.verified import VerifiedBundle
from ..bundle.verify import verify_bundle
from ..errors import CODES, BundlerError, Diagnostic
from ..protocol import PROTOCOL_VERSION
from ..provider.sources import Parsed, parsed_values
from ..tree import Tree
from .folders import OTHERS_WRITE, check_outside, own_folder

SCHEMA = "agent-bundler.verification-record.v1"
_MAX_BYTES = 64 * 1024 * 1024


class Records:
    """The records of one user in one folder, which is made where it is missing.

    Raises `records-folder-unsafe`, and `output-write-failed` where it can't be made.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = own_folder(os.fspath(folder), _unsafe)
        self.notes: list[Diagnostic] = []

    def recall(self, tree: Tree, root: str, context: str = "") -> VerifiedBundle | None:
        """The verified bundle in `tree`, whose folder is `root`; None where no record vouches for what lies there now.

        `context` stands for what else was verified with it. Raises what reading the tree raises.
        """
        check_outside(self.folder, root, _unsafe)
        record = self._read(root)
        if record is None or any(record.get(key) != value for key, value in _bound(root, context).items()):
            return None
        warnings = tuple(Diagnostic(**each) for each in record["warnings"])
        parsed = Parsed(record["documents"], record["frontMatter"])
        try:
            bundle = recall_bundle(tree, record["fingerprint"], parsed, warnings)
        except (KeyError, TypeError, ValueError):  # another version of this package wrote what it needed
            return None
        return bundle if bundle is not None and bundle.digest == record["digest"] else None

    def keep(self, bundle: VerifiedBundle, root: str, context: str = "") -> None:
        """Write the record of a bundle that was just verified; `notes` tell what kept it from being written.

        Raises what reading the bundle raises.
        """
        check_outside(self.folder, root, _unsafe)
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
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & OTHERS_WRITE:
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


def _bound(root: str, context: str) -> Mapping[str, str]:
    """What a record is of: another place, tool or protocol has records of its own."""
    return {
        "schema": SCHEMA,
        "tool": __version__,
        "protocol": PROTOCOL_VERSION,
        "root": os.fsencode(os.path.realpath(root)).decode(errors="backslashreplace"),
        "context": context,
    }


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _as_json(warning: Diagnostic) -> dict[str, Any]:
    found = {name: getattr(warning, name) for name in Diagnostic.__dataclass_fields__}
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in found.items()}


def _unsafe(folder: str, why: str) -> BundlerError:
    return BundlerError("records-folder-unsafe", f"the folder of verification records {folder} {why}", path=folder)
