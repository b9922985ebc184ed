"""The inner attestation: an in-toto statement that says which bytes a release is, and nothing else.

Its subject is manifest.json, which lists the bundle's files with their digests; its predicate what that does not
cover. There is no time in it and no place, so the same content gives the same statement.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..bundle.layout import MANIFEST_NAME
from ..errors import BundlerError
from ..paths import printable
from ..protocol.canonical import Json, canonical
from ..protocol.documents import parse_json
from ..wheel.contents import Contents
from .envelope import Envelope, invalid

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://agent-graph.dev/attestations/bundle/v1"
# Differences that are named one by one; the rest is counted.
_MAX_NAMED = 20


def statement_of(contents: Contents) -> bytes:
    """The statement about what was verified, in canonical JSON."""
    return canonical(_statement(contents)).encode()


def read_statement(envelope: Envelope) -> dict[str, Any]:
    """The statement in an envelope, of any predicate. Raises `signature-invalid`."""
    try:
        value = parse_json(envelope.payload, f"the payload of {envelope.name}").value
    except BundlerError as error:
        raise invalid(envelope.name, f"has no statement: {error.message}") from None
    if not isinstance(value, dict) or value.get("_type") != STATEMENT:
        raise invalid(envelope.name, f"has a payload that is no statement ({STATEMENT})")
    return value


def is_about(statement: Mapping[str, Any], contents: Contents) -> bool:
    """Whether it is an inner attestation whose subject is this manifest.json, whatever else it says.

    One of a bundle alone is none of its wheel: it says nothing of what else is installed.
    """
    if statement.get("predicateType") != PREDICATE or statement.get("subject") != _subject(contents):
        return False
    predicate = statement.get("predicate")
    is_of_bundle = isinstance(predicate, dict) and predicate.get("distribution", "") is None
    return contents.distribution is None or not is_of_bundle


def check_statement(envelope: Envelope, contents: Contents) -> None:
    """Raises `signature-invalid`, with what differs, where the statement is not the one about these contents.

    Of a bundle without a distribution, what it says of one can't be compared, and is passed over.
    """
    found = read_statement(envelope)
    if found.get("predicateType") != PREDICATE:
        raise invalid(
            envelope.name,
            f"is an attestation of the type {printable(str(found.get('predicateType')))}; {PREDICATE} is expected",
        )
    wanted = _statement(contents)
    if contents.distribution is None and isinstance(found.get("predicate"), dict):
        found = {**found, "predicate": {**found["predicate"], "distribution": None}}
    differences = list(_differences(found, wanted, ""))
    if differences:
        rest = len(differences) - _MAX_NAMED
        named = differences[:_MAX_NAMED] + ([f"and {rest} more"] if rest > 0 else [])
        raise invalid(envelope.name, f"signs something else than lies here: {'; '.join(named)}")


def _statement(contents: Contents) -> dict[str, Json]:
    distribution = contents.distribution
    return {
        "_type": STATEMENT,
        "subject": _subject(contents),
        "predicateType": PREDICATE,
        "predicate": {
            "provider": {"id": contents.provider_id, "version": contents.provider_version},
            "digest": contents.digest,
            "executable": list[Json](sorted(contents.executable)),
            "distribution": distribution
            and {"name": distribution.name, "version": distribution.version, "files": dict(distribution.files)},
        },
    }


def _subject(contents: Contents) -> list[Json]:
    return [{"name": MANIFEST_NAME, "digest": {"sha256": contents.manifest_digest.removeprefix("sha256:")}}]


def _differences(found: object, wanted: object, place: str) -> Iterator[str]:
    """Where two values differ, by the path to it."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in sorted({*found, *wanted}):
            yield from _differences(found.get(key), wanted.get(key), f"{place}.{key}" if place else key)
    elif found != wanted or type(found) is not type(wanted):
        yield f"{printable(place)} is {_shown(found)} in the statement, here it is {_shown(wanted)}"


def _shown(value: object) -> str:
    text = "not given" if value is None else json.dumps(value, ensure_ascii=False)
    return printable(text if len(text) <= 200 else text[:200] + "…")
