"""What a host brings to every opening: whom it believes, what was attested elsewhere, what it verified before."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from ..errors import BundlerError
from .files import read_small

if TYPE_CHECKING:
    from ..wheel.contents import Contents
    from .policy import TrustPolicy
    from .records import Records
    from .verdict import Trust

StrPath = str | os.PathLike[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """`attestations` are the bytes of detached envelopes by name, which have to be of what is opened.

    Where `authoring` is meant, sources are not held to the policy.
    """

    records: Records | None = None
    policy: TrustPolicy | None = None
    attestations: Mapping[str, bytes] = field(default_factory=dict)
    authoring: bool = False

    def binding(self, envelope: bytes | None) -> str:
        """What a verdict follows from beside the content, as one text; empty where there is nothing.

        Raises `index-rolled-back` where the policy's revocation list is not the latest one that was seen: a record of
        the time before would otherwise bring it back.
        """
        if self.policy is not None:
            self.policy.check_sequence()
        given = [*self.attestations.values(), *([] if envelope is None else [envelope])]
        policy = [] if self.policy is None else [f"policy {self.policy.digest}"]
        return "\n".join([*policy, *(f"attestation sha256:{sha256(each).hexdigest()}" for each in given)])

    def judge(self, contents: Contents, envelope: bytes | None, name: str) -> Trust:
        """The verdict on what was verified, with the envelope that came with it. Raises the `signature-…` codes."""
        from .envelope import read_envelope
        from .judge import judge

        given = dict(self.attestations) if envelope is None else {name: envelope, **self.attestations}
        return judge(contents, [read_envelope(data, each) for each, data in given.items()], self.policy)

    def judge_source(self, provider_id: str, version: str) -> None:
        """Raises what keeps a source from being used under the policy."""
        if self.attestations:
            raise BundlerError(
                "signature-invalid", f"an attestation is of what was built, and this is the source of {provider_id}"
            )
        if self.policy is not None and not self.authoring:
            from .judge import judge_source

            judge_source(provider_id, version, self.policy)


def make_host(
    *,
    records: StrPath | None = None,
    policy: TrustPolicy | StrPath | None = None,
    attestations: Iterable[StrPath] = (),
    demand_policy: bool = False,
    authoring: bool = False,
) -> Host:
    """A host with a folder of records, a policy or the file of one, and files of attestations, each if it has it.

    Raises `signature-verifier-failed` for a policy that can't be read, or is demanded and not there,
    `records-folder-unsafe`, and what reading the files raises.
    """
    if policy is None and demand_policy:
        raise BundlerError(
            "signature-verifier-failed", "a trust policy is demanded and none was given", hint="give a policy"
        )
    kept = None
    if records is not None:
        from .records import Records

        kept = Records(records)
    if isinstance(policy, str | os.PathLike):
        from .policy import read_policy

        policy = read_policy(policy)
    return Host(records=kept, policy=policy, attestations=read_attestations(attestations), authoring=authoring)


def read_attestations(files: Iterable[StrPath]) -> dict[str, bytes]:
    """The bytes of attestation files by name. Raises what reading raises."""
    from ..wheel.naming import MAX_ENVELOPE

    return {os.fspath(file): read_small(os.fspath(file), MAX_ENVELOPE)[0] for file in files}


def envelope_beside(folder: str) -> str:
    """Where the envelope of a bundle in a folder lies: beside the folder, since nothing else may lie in a bundle."""
    return f"{os.path.abspath(folder)}.dsse.json"


def read_beside(folder: str) -> bytes | None:
    """The envelope of a bundle in a folder, if there is one. Raises what reading raises."""
    place = envelope_beside(folder)
    return read_attestations([place])[place] if os.path.lexists(place) else None
