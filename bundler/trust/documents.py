"""Signed documents of an index: channels, and the list of what is revoked.

A document is the payload of an envelope of its own type: canonical JSON with a schema, a sequence number that is one
more each time it is changed, a time when it expires, and what it says. It is read in the very form in which it is
written, so nothing stands in one that is not understood. No signature is verified here (`judge` does).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, TypeVar

from ..errors import BundlerError
from ..protocol.canonical import Json, canonical
from ..protocol.documents import parse_json
from ..protocol.identifiers import is_id
from .envelope import Envelope, invalid, read_envelope

PAYLOAD_TYPE = "application/vnd.agent-bundler.document+json"
#: The highest sequence number: up to it JSON's numbers are exact everywhere.
MAX_SEQUENCE = 2**53 - 1
#: The last moment that four digits of a year can tell, in seconds since 1970.
LATEST = 253_402_300_799

_TIME = "%Y-%m-%dT%H:%M:%SZ"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")
_HASH = re.compile(r"[0-9a-f]{64}\Z")
_VERSION = re.compile(r"[0-9A-Za-z.+-]{1,256}\Z")
_CHANNEL = re.compile(r"[a-z0-9][a-z0-9-]{0,31}\Z")
_DISTRIBUTION = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_PYTHON_VERSION = re.compile(r"[0-9a-z.!+]{1,64}\Z")
_REASON = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]{1,500}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document(ABC):
    """What every document has; `expires` is in whole seconds since 1970."""

    SCHEMA: ClassVar[str]
    #: What a key has to be trusted for.
    PURPOSE: ClassVar[str]

    sequence: int
    expires: int

    @property
    @abstractmethod
    def subject(self) -> str:
        """Which document it is, whatever its sequence number."""

    @property
    @abstractmethod
    def provider_ids(self) -> frozenset[str]:
        """The Providers that it speaks of."""

    @abstractmethod
    def _content(self) -> dict[str, Json]: ...

    def payload(self) -> bytes:
        """What is signed."""
        head = {"schema": self.SCHEMA, "sequence": self.sequence, "expires": show_time(self.expires)}
        return canonical({**head, **self._content()}).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel(Document):
    """A pointer to a release of a Provider.

    `digest` is the bundle's; `distribution`, `python_version` and `hashes`, the SHA-256 of its wheels in hexadecimal,
    are how it is installed.
    """

    SCHEMA = "agent-bundler.channel.v1"
    PURPOSE = "channel"

    provider_id: str
    channel: str
    version: str
    digest: str
    distribution: str
    python_version: str
    hashes: tuple[str, ...]

    @property
    def subject(self) -> str:
        return f"the channel {self.provider_id}@{self.channel}"

    @property
    def provider_ids(self) -> frozenset[str]:
        return frozenset({self.provider_id})

    @property
    def requirement(self) -> str:
        """The line for pip and uv that means these wheels and nothing else."""
        hashes = "".join(f" --hash=sha256:{each}" for each in self.hashes)
        return f"{self.distribution}=={self.python_version}{hashes}"

    def _content(self) -> dict[str, Json]:
        return {
            "provider": self.provider_id,
            "channel": self.channel,
            "release": {
                "version": self.version,
                "digest": self.digest,
                "distribution": self.distribution,
                "pythonVersion": self.python_version,
                "hashes": list(self.hashes),
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked:
    """A release that is not to be used; `digest` is the bundle's, where it was known."""

    provider_id: str
    version: str
    digest: str | None
    reason: str

    @property
    def release(self) -> str:
        return f"{self.provider_id}@{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocations(Document):
    """The list of everything that was revoked."""

    SCHEMA = "agent-bundler.revocations.v1"
    PURPOSE = "revocation"

    revoked: tuple[Revoked, ...]

    @property
    def subject(self) -> str:
        return "the revocation list"

    @property
    def provider_ids(self) -> frozenset[str]:
        return frozenset(each.provider_id for each in self.revoked)

    def find(self, provider_id: str, version: str, digest: str | None) -> Revoked | None:
        """The entry of a release, by its name or its bundle."""
        for each in self.revoked:
            if (each.provider_id, each.version) == (provider_id, version) or (digest and each.digest == digest):
                return each
        return None

    def _content(self) -> dict[str, Json]:
        return {
            "revoked": [
                {"provider": each.provider_id, "version": each.version, "digest": each.digest, "reason": each.reason}
                for each in self.revoked
            ]
        }


_Document = TypeVar("_Document", bound=Document)


def read_document_envelope(data: bytes, name: str) -> Envelope:
    """The envelope of a document in a file's bytes. Raises `signature-invalid`."""
    return read_envelope(data, name, PAYLOAD_TYPE)


def read_channel(envelope: Envelope) -> Channel:
    """The channel in an envelope, unverified. Raises `signature-invalid`."""

    def make(value: dict[str, Any]) -> Channel:
        release = value["release"]
        return Channel(
            **_head(value),
            provider_id=_id(value["provider"]),
            channel=_matching(value["channel"], _CHANNEL),
            version=_matching(release["version"], _VERSION),
            digest=_matching(release["digest"], _DIGEST),
            distribution=_matching(release["distribution"], _DISTRIBUTION),
            python_version=_matching(release["pythonVersion"], _PYTHON_VERSION),
            hashes=tuple(_matching(each, _HASH) for each in release["hashes"]),
        )

    return _read(envelope, Channel.SCHEMA, make)


def read_revocations(envelope: Envelope) -> Revocations:
    """The revocation list in an envelope, unverified. Raises `signature-invalid`."""

    def make(value: dict[str, Any]) -> Revocations:
        revoked = tuple(
            Revoked(
                provider_id=_id(each["provider"]),
                version=_matching(each["version"], _VERSION),
                digest=None if each["digest"] is None else _matching(each["digest"], _DIGEST),
                reason=_matching(each["reason"], _REASON),
            )
            for each in value["revoked"]
        )
        return Revocations(**_head(value), revoked=revoked)

    return _read(envelope, Revocations.SCHEMA, make)


def is_channel(text: str) -> bool:
    """Whether the text is a name that a channel can have."""
    return _CHANNEL.match(text) is not None


def is_version(text: str) -> bool:
    """Whether the text can be the version of a release."""
    return _VERSION.match(text) is not None


def is_reason(text: str) -> bool:
    """Whether the text can stand in the list as a reason: one line, of at most 500 characters."""
    return _REASON.match(text) is not None and not text.isspace()


def show_time(moment: float) -> str:
    """A moment, in seconds since 1970, as documents have it."""
    return datetime.fromtimestamp(moment, UTC).strftime(_TIME)


def _read(envelope: Envelope, schema: str, make: Callable[[dict[str, Any]], _Document]) -> _Document:
    try:
        value = parse_json(envelope.payload, f"the payload of {envelope.name}").value
    except BundlerError as error:
        raise invalid(envelope.name, f"has no document: {error.message}") from None
    if not isinstance(value, dict) or value.get("schema") != schema:
        raise invalid(envelope.name, f"has a payload that is no document of the schema {schema}")
    try:
        document = make(value)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise invalid(envelope.name, f"is no proper {schema}: {_told(error)}") from None
    if document.payload() != envelope.payload:
        raise invalid(envelope.name, f"is no proper {schema}: it has other keys, or is not in canonical form")
    return document


def _told(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _head(value: dict[str, Any]) -> dict[str, int]:
    sequence = value["sequence"]
    if type(sequence) is not int or not 1 <= sequence <= MAX_SEQUENCE:
        raise ValueError(f"the sequence {sequence!r} is no number from 1 to {MAX_SEQUENCE}")
    expires = datetime.strptime(value["expires"], _TIME).replace(tzinfo=UTC)
    return {"sequence": sequence, "expires": int(expires.timestamp())}


def _id(value: object) -> str:
    if not isinstance(value, str) or not is_id(value):
        raise ValueError(f"{value!r} is no id of a Provider")
    return value


def _matching(value: object, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not pattern.match(value):
        raise ValueError(f"{value!r} is not what is expected at its place")
    return value
