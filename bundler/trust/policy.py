"""A host's trust policy: whose signatures count, for which Providers, and what is refused in any case.

Read from `trust.toml`, or made of the same objects. What can't be read refuses everything
(`signature-verifier-failed`): a host without its policy trusts nobody.
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ..errors import BundlerError, Suggestions
from ..protocol.canonical import canonical
from ..wheel.naming import MAX_ENVELOPE
from .files import read_small, read_text
from .keys import MAX_KEY, PublicKey, parse_public_key

if TYPE_CHECKING:
    from .documents import Revocations
    from .envelope import Envelope
    from .sequences import Sequences

SCHEMA = "agent-bundler.trust.v1"
#: What a key can be trusted to sign.
PURPOSES = ("release", "channel", "revocation")
#: What the names of detached attestations end in.
ATTESTATION_SUFFIX = ".dsse.json"
#: Bytes of a trust.toml, attestations in its folder, and the highest threshold.
MAX_BYTES = 4 * 1024 * 1024
MAX_ATTESTATIONS = 10_000
#: Bytes of all of them together.
MAX_ATTESTED_BYTES = 256 * 1024 * 1024
MAX_THRESHOLD = 64
# As ids are written, with stars.
_GLOB = re.compile(r"[a-z0-9._/*-]{1,200}\Z")
_PURPOSE = re.compile(rf"(?:{'|'.join(PURPOSES)})\Z")
_KEY_ID = re.compile(r"sha256:[0-9a-f]{64}\Z")
_RELEASE = re.compile(r"sha256:[0-9a-f]{64}\Z|[a-z0-9][a-z0-9._/-]{0,159}@[0-9A-Za-z.-]{1,256}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedKey:
    """A key that may sign the Providers whose ids match one of `providers`, from `not_before` until `not_after`.

    It counts for its `purposes` only: releases, channels, lists of revocations. In a glob `*` is any text without `/`,
    `**` any text. Times are seconds since 1970, by the host's clock.
    """

    name: str
    key: PublicKey
    providers: tuple[str, ...]
    purposes: tuple[str, ...] = ("release",)
    not_before: float = -math.inf
    not_after: float = math.inf

    def covers(self, provider_id: str) -> bool:
        return matches(self.providers, provider_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What holds for the Providers whose ids match one of `ids`: is a signature required, and of how many keys."""

    ids: tuple[str, ...] = ("**",)
    required: bool = True
    threshold: int = 1


@dataclass(frozen=True, kw_only=True)
class TrustPolicy:
    """Whom a host believes. Of `rules` the first one that matches holds, or else `default`.

    `refused_keys` are key ids, `refused_releases` bundle digests and texts such as `acme/release@1.0.0`;
    `attestations` are the bytes of detached envelopes by file name. `revocations` is the signed list of what is revoked,
    as it was when the policy was made; where it does not count, or is not the latest one that `sequences` knows of,
    nothing is trusted. Raises `signature-verifier-failed` for what contradicts itself.
    """

    keys: tuple[TrustedKey, ...]
    default: Rule = Rule()
    rules: tuple[Rule, ...] = ()
    refused_keys: frozenset[str] = frozenset()
    refused_releases: frozenset[str] = frozenset()
    attestations: Mapping[str, bytes] = field(default_factory=dict)
    revocations: Envelope | None = None
    sequences: Sequences | None = None

    def __post_init__(self) -> None:
        seen: dict[str, str] = {}
        for each in self.keys:
            other = seen.setdefault(each.key.key_id, each.name)
            if other != each.name or [key.name for key in self.keys].count(each.name) > 1:
                raise _unusable(f"the trust policy has the key `{each.name}` twice ({each.key.key_id})")
            if not each.not_before < each.not_after:
                raise _unusable(f"the key `{each.name}` of the trust policy is never valid: it ends before it begins")
        for rule in (self.default, *self.rules):
            if not 1 <= rule.threshold <= MAX_THRESHOLD:
                raise _unusable(
                    f"the trust policy has a threshold of {rule.threshold}; 1 to {MAX_THRESHOLD} is expected"
                )

    @cached_property
    def keys_by_id(self) -> Mapping[str, TrustedKey]:
        return {each.key.key_id: each for each in self.keys}

    @cached_property
    def digest(self) -> str:
        """What a verification record is bound to: another policy has another one."""
        value = {
            "keys": [
                [
                    *(each.name, each.key.key_id, each.key.scheme, list(each.providers)),
                    *(repr(each.not_before), repr(each.not_after), list(each.purposes)),
                ]
                for each in self.keys
            ],
            "rules": [[list(each.ids), each.required, each.threshold] for each in (self.default, *self.rules)],
            "refused": [sorted(self.refused_keys), sorted(self.refused_releases)],
            "attestations": [[name, sha256(data).hexdigest()] for name, data in sorted(self.attestations.items())],
            "revocations": None if self.revocations is None else sha256(self.revocations.to_bytes()).hexdigest(),
        }
        return f"sha256:{sha256(canonical(value).encode()).hexdigest()}"

    @cached_property
    def attested(self) -> tuple[tuple[Envelope, Mapping[str, Any]], ...]:
        """Envelopes and statements of the attestations, unverified. Raises `signature-invalid` where one can't be read."""
        from .envelope import read_envelope
        from .statement import read_statement

        envelopes = [read_envelope(data, name) for name, data in self.attestations.items()]
        return tuple((envelope, read_statement(envelope)) for envelope in envelopes)

    @cached_property
    def revoked(self) -> Revocations | None:
        """What the list of revocations says, unverified; None without one. Raises `signature-invalid`."""
        if self.revocations is None:
            return None
        from .documents import read_revocations

        return read_revocations(self.revocations)

    def check_sequence(self) -> None:
        """Raises `index-rolled-back` where a later list was seen, and `signature-verifier-failed` where none can tell."""
        if self.revoked is not None and self.sequences is not None:
            self.sequences.is_new(self.revoked)

    def rule_for(self, provider_id: str) -> Rule:
        return next((rule for rule in self.rules if matches(rule.ids, provider_id)), self.default)


def matches(globs: tuple[str, ...], provider_id: str) -> bool:
    """Whether an id matches one of the globs."""
    return any(_pattern(glob).match(provider_id) for glob in globs)


def _pattern(glob: str) -> re.Pattern[str]:
    parts = re.split(r"(\*+)", glob)
    text = "".join(
        ("[^/]*" if part == "*" else ".*") if part.startswith("*") else re.escape(part) for part in parts if part
    )
    return re.compile(text + r"\Z")


def read_policy(path: str | os.PathLike[str]) -> TrustPolicy:
    """The policy in a `trust.toml`; files that it names are relative to its folder.

    Raises `signature-verifier-failed`: nothing is trusted by a policy that can't be read.
    """
    name = os.fspath(path)
    try:
        return _read(name)
    except BundlerError as error:
        if error.code == "signature-verifier-failed":
            raise
        raise _unusable(
            f"the trust policy {name} can't be used, so nothing is trusted: {error.message}", name
        ) from None


def _read(name: str) -> TrustPolicy:
    import tomllib

    text, status = read_text(name, MAX_BYTES)
    _check_owner(name, status)
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unusable(f"the trust policy {name} is not valid TOML: {error}", name) from None
    table = _Table(document, name, os.path.dirname(os.path.abspath(name)))
    table.only(
        *("schema", "signatures", "threshold", "attestations", "keys", "providers", "refused"),
        *("revocations", "revocations-state"),
    )
    if document.get("schema") != SCHEMA:
        raise table.wrong("schema", f'"{SCHEMA}"')
    refused = table.table("refused")
    refused.only("keys", "releases")
    folder = table.text("attestations")
    revocations, sequences = _revocations(table)
    return TrustPolicy(
        keys=tuple(_key(each) for each in table.tables("keys")),
        default=_rule(table, ("**",)),
        rules=tuple(_provider_rule(each) for each in table.tables("providers")),
        refused_keys=frozenset(refused.texts("keys", _KEY_ID, "a key's id such as sha256:…")),
        refused_releases=frozenset(refused.texts("releases", _RELEASE, "ID@VERSION or a bundle's digest")),
        attestations={} if folder is None else _attestations(os.path.join(table.folder, folder)),
        revocations=revocations,
        sequences=sequences,
    )


def _revocations(table: _Table) -> tuple[Envelope | None, Sequences | None]:
    file, folder = table.text("revocations"), table.text("revocations-state")
    if file is None and folder is None:
        return None, None
    if file is None or folder is None:
        what = "a file, with `revocations-state`, the folder in which the latest list that was seen is kept in mind,"
        raise table.wrong("revocations" if file is None else "revocations-state", what)
    from .documents import read_document_envelope
    from .sequences import Sequences

    path = os.path.join(table.folder, file)
    listed = read_document_envelope(read_small(path, MAX_ENVELOPE)[0], path)
    return listed, Sequences(os.path.join(table.folder, folder))


def _key(table: _Table) -> TrustedKey:
    table.only("name", "public-key", "scheme", "providers", "purposes", "not-before", "not-after")
    name, text = table.text("name"), table.text("public-key")
    if not name or not text:
        raise table.wrong("name" if not name else "public-key", "a text")
    if "-----BEGIN" not in text:
        path = os.path.join(table.folder, text)
        text, status = read_text(path, MAX_KEY)
        _check_owner(path, status)
    return TrustedKey(
        name=name,
        key=parse_public_key(text, f"the key `{name}`", table.text("scheme")),
        providers=table.texts("providers", _GLOB, "an id, or one with stars such as acme/*", at_least=1),
        purposes=_purposes(table),
        not_before=table.time("not-before", -math.inf),
        not_after=table.time("not-after", math.inf),
    )


def _purposes(table: _Table) -> tuple[str, ...]:
    if "purposes" not in table.values:
        return ("release",)
    return table.texts("purposes", _PURPOSE, f"one of {', '.join(PURPOSES)}", at_least=1)


def _provider_rule(table: _Table) -> Rule:
    table.only("ids", "signatures", "threshold")
    return _rule(table, table.texts("ids", _GLOB, "an id, or one with stars such as acme/*", at_least=1))


def _rule(table: _Table, ids: tuple[str, ...]) -> Rule:
    signatures = table.text("signatures") or "required"
    if signatures not in ("required", "optional"):
        raise table.wrong("signatures", '"required" or "optional"')
    threshold = table.values.get("threshold", 1)
    if type(threshold) is not int or not 1 <= threshold <= MAX_THRESHOLD:
        raise table.wrong("threshold", f"a number from 1 to {MAX_THRESHOLD}")
    return Rule(ids=ids, required=signatures == "required", threshold=threshold)


def _attestations(folder: str) -> dict[str, bytes]:
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(ATTESTATION_SUFFIX))
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise BundlerError("file-read-failed", f"{folder} can't be read: {reason}", path=folder) from None
    if len(names) > MAX_ATTESTATIONS:
        raise _unusable(f"{folder} holds {len(names):,} attestations; {MAX_ATTESTATIONS:,} is the most", folder)
    found: dict[str, bytes] = {}
    room = MAX_ATTESTED_BYTES
    for place in (os.path.join(folder, name) for name in names):
        found[place] = read_small(place, MAX_ENVELOPE)[0]
        room -= len(found[place])
        if room < 0:
            raise _unusable(f"{folder} holds attestations of more than {MAX_ATTESTED_BYTES:,} bytes", folder)
    return found


def _check_owner(path: str, status: os.stat_result) -> None:
    """Whoever can write to the policy decides whom the host believes."""
    if hasattr(os, "geteuid") and (status.st_uid not in (os.geteuid(), 0) or status.st_mode & stat.S_IWOTH):
        raise _unusable(f"{path} can be written by others than you and root, who would decide whom you trust", path)


class _Table:
    """A table of the file: its values by key, refused with the place where they stand."""

    def __init__(self, values: object, place: str, folder: str) -> None:
        if not isinstance(values, dict):
            raise _unusable(f"{place} is no table", place)
        self.values: dict[str, Any] = values
        self.place, self.folder = place, folder

    def only(self, *keys: str) -> None:
        for key in self.values:
            if key not in keys:
                near = Suggestions().near(key, keys)
                raise _unusable(f"{self.place}: `{key}` is not known{near}", self.place)

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is not None and (not isinstance(value, str) or not value or "\0" in value):
            raise self.wrong(key, "a text")
        return value

    def texts(self, key: str, pattern: re.Pattern[str], what: str, at_least: int = 0) -> tuple[str, ...]:
        found = self.values.get(key, [])
        if not isinstance(found, list) or len(found) < at_least:
            raise self.wrong(key, f"a list, each {what}")
        for each in found:
            if not isinstance(each, str) or not pattern.match(each):
                raise _unusable(f"{self.place}: {key} names {_shown(each)}; {what} is expected", self.place)
        return tuple(found)

    def time(self, key: str, default: float) -> float:
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, datetime) or value.tzinfo is None:
            raise self.wrong(key, "a time with its offset, such as 2027-01-01T00:00:00Z")
        try:
            return value.astimezone(UTC).timestamp()
        except OverflowError:  # in UTC it lies outside of the years that have four digits
            raise self.wrong(key, "a time in the years 1 to 9999") from None

    def table(self, key: str) -> _Table:
        return _Table(self.values.get(key, {}), f"{self.place}: {key}", self.folder)

    def tables(self, key: str) -> list[_Table]:
        found = self.values.get(key, [])
        if not isinstance(found, list):
            raise self.wrong(key, f"a list of tables ([[{key}]])")
        return [_Table(each, f"{self.place}: {key}[{number}]", self.folder) for number, each in enumerate(found)]

    def wrong(self, key: str, expected: str) -> BundlerError:
        found = _shown(self.values[key]) if key in self.values else "missing"
        return _unusable(f"{self.place}: `{key}` is {found}; {expected} is expected", self.place)


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of so many digits
        text = "a number of thousands of digits"
    return text if len(text) <= 200 else text[:200] + "…"


def _unusable(what: str, path: str | None = None) -> BundlerError:
    return BundlerError("signature-verifier-failed", what, path=path)
