"""Verification records: what a host verified before, so that an unchanged bundle need not be judged again.

A record holds the fingerprint of one folder's whole content, under the versions of protocol and tool that judged
it, the values that were parsed of it, and the verdict on its signatures, bound to the policy and the attestations that
it follows from and to the time in which it holds. With it a start reads every byte and compares one digest; parsers,
schemas, rules and cryptography are passed over. A record that can't be used is none: the bundle is verified in full.

Whoever can write a record can vouch for a bundle. So their folder has to be the user's own (`folders`), outside of every
Provider.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any, NamedTuple

from .. import __version__
from ..bundle.recall import fingerprint_of, recall_bundle
from ..bundle.verified import VerifiedBundle
from ..errors import CODES, BundlerError, Diagnostic
from ..protocol import PROTOCOL_VERSION
from ..provider.sources import Parsed, parsed_values
from ..tree import Tree
from .folders import check_outside, open_own, own_folder
from .verdict import SignedBy, Trust

SCHEMA = "agent-bundler.verification-record.v2"
_MAX_BYTES = 64 * 1024 * 1024


class Recalled(NamedTuple):
    """What a record vouches for."""

    bundle: VerifiedBundle
    trust: Trust


class Records:
    """The records of one user in one folder, which is made where it is missing.

    Raises `records-folder-unsafe`, and `output-write-failed` where it can't be made.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = own_folder(os.fspath(folder), _unsafe)
        self.notes: list[Diagnostic] = []

    def recall(self, tree: Tree, root: str, context: str = "") -> Recalled | None:
        """The verified bundle in `tree`, whose folder is `root`; None where no record vouches for what lies there now.

        `context` stands for what else was verified with it, and what the verdict on it follows from. Raises what reading
        the tree raises.
        """
        check_outside(self.folder, root, _unsafe)
        record = self._read(root)
        if record is None or any(record.get(key) != value for key, value in _bound(root, context).items()):
            return None
        warnings = tuple(Diagnostic(**each) for each in record["warnings"])
        parsed = Parsed(record["documents"], record["frontMatter"])
        trust = _verdict(record["trust"])
        if not trust.since <= time.time() < trust.until:
            return None
        try:
            bundle = recall_bundle(tree, record["fingerprint"], parsed, warnings)
        except (KeyError, TypeError, ValueError):  # another version of this package wrote what it needed
            return None
        return Recalled(bundle, trust) if bundle is not None and bundle.digest == record["digest"] else None

    def keep(self, bundle: VerifiedBundle, trust: Trust, root: str, context: str = "") -> None:
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
            "trust": _verdict_as_json(trust),
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

    def _path(self, root: str) -> str:
        return os.path.join(self.folder, f"{sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:32]}.json")

    def _read(self, root: str) -> dict[str, Any] | None:
        """A record as it was written; None where there is none that only this user can have written."""
        try:
            descriptor = open_own(self._path(root))
            if descriptor is None:
                return None
            with open(descriptor, "rb") as file:
                if os.fstat(descriptor).st_size > _MAX_BYTES:
                    return None
                seal, _, text = file.read(_MAX_BYTES).partition(b"\n")
        except OSError:
            return None
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


def _verdict_as_json(trust: Trust) -> dict[str, Any]:
    """JSON has no times that are infinite."""
    times = {"since": trust.since, "until": trust.until}
    return {
        "state": trust.state,
        "reason": trust.reason,
        "claimed": trust.claimed,
        "signers": [[each.name, each.key_id] for each in trust.signers],
        **{name: moment if math.isfinite(moment) else None for name, moment in times.items()},
    }


def _verdict(value: dict[str, Any]) -> Trust:
    return Trust(
        state=value["state"],
        reason=value["reason"],
        signers=tuple(SignedBy(name=name, key_id=key_id) for name, key_id in value["signers"]),
        claimed=tuple(value["claimed"]),
        since=-math.inf if value["since"] is None else value["since"],
        until=math.inf if value["until"] is None else value["until"],
    )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _as_json(warning: Diagnostic) -> dict[str, Any]:
    found = {name: getattr(warning, name) for name in Diagnostic.__dataclass_fields__}
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in found.items()}


def _unsafe(folder: str, why: str) -> BundlerError:
    return BundlerError("records-folder-unsafe", f"the folder of verification records {folder} {why}", path=folder)
