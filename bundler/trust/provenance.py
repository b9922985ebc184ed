"""The outer attestation: where the files of a release come from (SLSA provenance, version 1).

It stays beside the files. Its subjects are wheel and sdist; it holds no time, no place and no address of a repository,
which can hold credentials. What it says is the signer's word: a rebuild (`wheel.rebuild`) needs nobody's.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from .. import __version__
from ..paths import printable
from ..protocol.canonical import Json, canonical
from ..wheel.source import SourceState
from .envelope import Envelope, invalid
from .statement import STATEMENT, read_statement

PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "https://agent-graph.dev/build-types/provider/v1"
BUILDER = "https://agent-graph.dev/agent-graph-bundler"
#: What the names of provenance files end in, behind the name of the wheel.
SUFFIX = ".provenance.dsse.json"


def provenance_of(
    subjects: Mapping[str, str],
    provider: tuple[str, str],
    state: SourceState,
    *,
    epoch: int,
    checks: Sequence[Json] = (),
) -> bytes:
    """The statement, in canonical JSON. `subjects` are SHA-256 in hexadecimal by file name, `provider` id and version."""
    algorithm, _, digest = state.fingerprint.partition(":")
    source: dict[str, Json] = {"name": "source", "digest": {algorithm: digest}}
    if state.commit is not None:
        source["annotations"] = {"gitCommit": state.commit, "dirty": state.dirty}
    return canonical(
        {
            "_type": STATEMENT,
            "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(subjects.items())],
            "predicateType": PREDICATE,
            "predicate": {
                "buildDefinition": {
                    "buildType": BUILD_TYPE,
                    "externalParameters": {
                        "provider": {"id": provider[0], "version": provider[1]},
                        "sourceDateEpoch": epoch,
                    },
                    "resolvedDependencies": [source],
                },
                "runDetails": {
                    "builder": {"id": BUILDER, "version": tools()},
                    **({"byproducts": [{"name": "checks", "annotations": {"checks": list(checks)}}]} if checks else {}),
                },
            },
        }
    ).encode()


def tools() -> dict[str, Json]:
    """The versions of what a wheel's bytes follow from."""
    import zlib

    return {
        "agent-graph-bundler": __version__,
        "hatchling": version("hatchling"),
        "python": sys.version.split()[0],
        "zlib": zlib.ZLIB_RUNTIME_VERSION,
    }


def check_provenance(envelope: Envelope, files: Mapping[str, str]) -> dict[str, Any]:
    """The predicate of a provenance whose subjects hold these files, given as SHA-256 in hexadecimal by name.

    No signature is verified by that. Raises `signature-invalid`.
    """
    statement = read_statement(envelope)
    if statement.get("predicateType") != PREDICATE:
        raise invalid(envelope.name, f"is no provenance ({PREDICATE})")
    subjects = statement.get("subject")
    predicate = statement.get("predicate")
    found = (
        [(each.get("name"), each.get("digest")) for each in subjects or [] if isinstance(each, dict)]
        if isinstance(subjects, list)
        else []
    )
    for name, digest in files.items():
        if (name, {"sha256": digest}) not in found:
            raise invalid(envelope.name, f"is not about {printable(name)} with sha256:{digest}")
    if not isinstance(predicate, dict):
        raise invalid(envelope.name, "has no predicate")
    return predicate
