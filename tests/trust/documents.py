"""Documents, and policies whose keys sign them: `release`, `channel` and `revocation` are named for what they sign."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bundler.trust.documents import PAYLOAD_TYPE, Channel, Document, Revocations, Revoked
from bundler.trust.envelope import Envelope
from bundler.trust.policy import PURPOSES, TrustPolicy

from ..signed import NOW, key_file, signer, trusted

DIGEST = "sha256:" + "1" * 64
LATER = int(NOW) + 86_400
CHANNEL = Channel(
    sequence=3,
    expires=LATER,
    provider_id="acme/demo",
    channel="stable",
    version="0.1.0",
    digest=DIGEST,
    distribution="agent-graph-provider-acme-demo",
    python_version="0.1.0",
    hashes=("2" * 64,),
)
ENTRY = Revoked(provider_id="acme/demo", version="0.1.0", digest=DIGEST, reason="it leaks")
LIST = Revocations(sequence=3, expires=LATER, revoked=(ENTRY,))


def sealed(document: Document, key: str | None = None) -> Envelope:
    """The document, signed by a key: the one for its kind where none is named."""
    return replace(signer(key or document.PURPOSE).sign(document.payload(), PAYLOAD_TYPE), name="the document")


def policy_for(**more: object) -> TrustPolicy:
    """A policy that trusts a key for each purpose."""
    keys = tuple(replace(trusted(each), purposes=(each,)) for each in PURPOSES)
    return TrustPolicy(keys=keys, **more)  # type: ignore[arg-type]


def write_policy(path: Path, more: str = "") -> Path:
    """The same as a file."""
    keys = "".join(
        f'[[keys]]\nname = "{each}"\npublic-key = "{key_file(each)}.pub"\nproviders = ["acme/*"]\npurposes = ["{each}"]\n'
        for each in PURPOSES
    )
    path.write_text(f'schema = "agent-bundler.trust.v1"\n{more}\n{keys}')
    return path
