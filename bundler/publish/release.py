"""The pipeline of a release: source → checks → signature → provenance → a folder that is there whole or not at all.

The same version with the same content is the same release, whoever makes it again, and wherever: a signature that is
there already, in the folder of releases or in the index, is taken over and never made anew. Sameness is the bundle's
digest and what else the signature covers of the wheel, and for the sdist its content without its compression.
"""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass, field, replace
from hashlib import file_digest, sha256
from pathlib import Path

from ..bundle.layout import MANIFEST_NAME
from ..errors import CODES, BundlerError, Diagnostic
from ..protocol.canonical import Json
from ..trust.envelope import read_envelope
from ..trust.files import read_small
from ..trust.judge import check_signer
from ..trust.policy import TrustedKey, TrustPolicy
from ..trust.provenance import SUFFIX, check_provenance, provenance_of
from ..trust.sign import attest
from ..trust.signing import Signer
from ..trust.statement import check_statement
from ..wheel.build import epoch
from ..wheel.check import VerifiedWheel, open_wheel
from ..wheel.embed import embed
from ..wheel.naming import MAX_ENVELOPE
from ..wheel.rebuild import wheel_info
from ..wheel.sbom import FOLDER as SBOM_FOLDER
from ..wheel.sbom import NAME as SBOM_NAME
from ..wheel.source import SourceState, state_of
from ..wheel.working import working_folder
from .checks import Checked, run_checks
from .evidence import NAME as EVIDENCE_NAME
from .evidence import Evidence
from .index import FolderIndex
from .index.storage import copy
from .record import NAME, Release, check_files, describe_file, put_folder, read_release
from .session import Progress

WORK = "work"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What passed every check and is not signed: paths of wheel and sdist, what was found, and the source's state."""

    wheel: str
    sdist: str
    evidence: Evidence
    source: SourceState
    warnings: tuple[Diagnostic, ...]


def release(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str] = "dist",
    *,
    signer: Signer | None = None,
    policy: TrustPolicy | None = None,
    index: FolderIndex | None = None,
    progress: Progress = lambda check, state: None,
) -> Release:
    """Make every check of a source, and of what passed a release in a folder of its own in `output`.

    `index` is looked into for the same release; with `policy` nothing is signed that it would not count. Raises what
    `run_checks` raises, and what `complete` does.
    """
    with run_checks(source, work_folder(source, output), progress=progress) as checked:
        return complete(prepared(source, output, checked), output, signer=signer, policy=policy, index=index)


def work_folder(source: str | os.PathLike[str], output: str | os.PathLike[str]) -> str:
    """Where the checks of a source keep evidence, and what failed: each source has its own folder."""
    place = os.path.realpath(os.fspath(source))
    root = place if os.path.isdir(place) else os.path.dirname(place)
    key = sha256(os.fsencode(place)).hexdigest()[:8]
    return os.path.join(os.path.abspath(os.fspath(output)), WORK, f"{os.path.basename(root)}-{key}")


def prepared(source: str | os.PathLike[str], output: str | os.PathLike[str], checked: Checked) -> Prepared:
    """What was checked, with what git says of its source."""
    text = os.path.realpath(os.fspath(source))
    root = text if os.path.isdir(text) else os.path.dirname(text)
    if checked.evidence.source is None:
        raise AssertionError("evidence that passed is about a source")
    return Prepared(
        wheel=checked.wheel.path,
        sdist=checked.sdist,
        evidence=checked.evidence,
        source=state_of(root, checked.evidence.source, os.path.realpath(os.fspath(output))),
        warnings=checked.warnings,
    )


def complete(
    built: Prepared,
    output: str | os.PathLike[str],
    *,
    signer: Signer | None = None,
    policy: TrustPolicy | None = None,
    index: FolderIndex | None = None,
) -> Release:
    """Sign what passed, and put the release in its place; the one that is there already if it is the same.

    Raises `release-conflict` where `output` or the index has other content under that version, or an unsigned one that
    was to be signed; `release-invalid`, `release-source-changed`; `key-unusable`; with a policy what keeps the signature
    from counting; `signature-untrusted` where a signature is there that neither key nor policy vouches for;
    `index-file-mismatch`, and `output-write-failed`. After an error nothing was added, and nothing signed is left.
    """
    folder = os.path.abspath(os.fspath(output))
    with open_wheel(built.wheel) as wheel, working_folder(folder) as work:
        _check_built(built)
        place = os.path.join(folder, wheel.identity.stem)
        if not os.path.lexists(place):
            staged = work / "release"
            staged.mkdir()
            made = _Making(built=built, wheel=wheel, folder=staged, signer=signer, policy=policy, index=index).make()
            if put_folder(staged, place):
                return replace(made, folder=place, is_new=True, warnings=_warnings(built, made))
        # It is there, or another process was first.
        found = read_release(place)
        check_files(found)
        _check_same(found.path(found.wheel), wheel, signer, policy, place)
        _check_same_sdist(found.path(wheel.identity.sdist_name), built.sdist, place)
        return replace(found, warnings=_warnings(built, found))


@dataclass(slots=True, kw_only=True)
class _Making:
    """A release that is being made in a folder: from what was built, or from what the index has of it already."""

    built: Prepared
    wheel: VerifiedWheel
    folder: Path
    signer: Signer | None
    policy: TrustPolicy | None
    index: FolderIndex | None
    #: What the index has under the project, by name: path and digest.
    earlier: dict[str, tuple[str, str]] = field(init=False)

    def __post_init__(self) -> None:
        self.earlier = {} if self.index is None else _files_of(self.index, self.wheel)

    @property
    def where(self) -> str:
        return "" if self.index is None else self.index.root

    def make(self) -> Release:
        identity = self.wheel.identity
        signed = self._make_wheel()
        self._make_sdist()
        self._write(MANIFEST_NAME, self.wheel.bundle.manifest.to_bytes())
        self._write(EVIDENCE_NAME, self.built.evidence.to_bytes())
        self._write(SBOM_NAME, wheel_info(self.built.wheel, identity)(f"{SBOM_FOLDER}/{SBOM_NAME}"))
        names = [identity.wheel_name, identity.sdist_name, MANIFEST_NAME, EVIDENCE_NAME, SBOM_NAME]
        if signed is not None:
            names.append(self._make_provenance())
        made = Release(
            folder=str(self.folder),
            provider_id=identity.provider_id,
            provider_version=identity.provider_version,
            distribution=identity.distribution,
            version=identity.version,
            bundle=self.wheel.bundle.digest,
            signer=signed,
            wheel=identity.wheel_name,
            files=tuple(describe_file(str(self.folder), name) for name in names if name),
        )
        self._write(NAME, made.to_bytes())
        return made

    def _make_wheel(self) -> str | None:
        """Put the wheel there, signed if it can be; the id of the key that signed it."""
        target = self.folder / self.wheel.identity.wheel_name
        if self._take(target.name):
            return _check_same(str(target), self.wheel, self.signer, self.policy, self.where)
        if self.signer is None:
            _copy(self.built.wheel, target)
            return None
        embed(self.wheel, attest(self.wheel.contents, self.signer, self.policy).to_bytes(), target)
        return self.signer.public.key_id

    def _make_sdist(self) -> None:
        target = self.folder / self.wheel.identity.sdist_name
        if self._take(target.name):
            _check_same_sdist(str(target), self.built.sdist, self.where)
        else:
            _copy(self.built.sdist, target)

    def _make_provenance(self) -> str:
        """The name of the provenance; empty where there is none, and nobody to sign it."""
        identity = self.wheel.identity
        name = identity.wheel_name + SUFFIX
        subjects = {
            each: describe_file(str(self.folder), each).sha256 for each in (identity.wheel_name, identity.sdist_name)
        }
        if self._take(name):
            data, _ = read_small(str(self.folder / name), MAX_ENVELOPE)
            check_provenance(read_envelope(data, name), subjects)
            return name
        if self.signer is None:
            return ""
        provider = (identity.provider_id, identity.provider_version)
        statement = provenance_of(
            subjects, provider, self.built.source, epoch=epoch(), checks=_checks(self.built.evidence)
        )
        self._write(name, self.signer.sign(statement).to_bytes())
        return name

    def _take(self, name: str) -> bool:
        """Copy a file that the index has of this release; False where it has none."""
        if name not in self.earlier:
            return False
        path, expected = self.earlier[name]
        found = _copy(path, self.folder / name)
        if found != expected:
            message = f"{path} has the digest {found}; the index lists {expected}"
            raise BundlerError("index-file-mismatch", message, path=path)
        return True

    def _write(self, name: str, data: bytes) -> None:
        with (self.folder / name).open("xb") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(data)


def _files_of(index: FolderIndex, wheel: VerifiedWheel) -> dict[str, tuple[str, str]]:
    """What an index has under this project, by name: path and digest."""
    return {
        os.path.basename(place): (os.path.join(index.root, place), stored.sha256)
        for file in index.project(wheel.identity.distribution)
        for place, stored in file.stored()
    }


def _checks(evidence: Evidence) -> list[Json]:
    """What the provenance says of the checks: nothing that differs from run to run."""
    return [
        {"name": check.name, "kind": check.kind, "state": check.state, "exitCode": check.exit_code}
        for check in evidence.checks
    ]


def _policy_of(signer: Signer) -> TrustPolicy:
    """The policy of whoever has that key and no policy."""
    return TrustPolicy(keys=(TrustedKey(name=signer.public.key_id, key=signer.public, providers=("**",)),))


def _check_built(built: Prepared) -> None:
    """Raises `release-source-changed` where the files are not those that were checked."""
    paths = (built.wheel, built.sdist)
    if tuple(describe_file(*os.path.split(path)) for path in paths) != built.evidence.files:
        message = f"{' or '.join(paths)} is not what was checked"
        raise BundlerError("release-source-changed", message)


def _check_same(
    path: str, wheel: VerifiedWheel, signer: Signer | None, policy: TrustPolicy | None, where: str
) -> str | None:
    """The key that signed a wheel that is there already. Raises `release-conflict` where it is not the same."""
    contents = wheel.contents
    with open_wheel(path) as before:
        found, data = before.contents, before.envelope
    if found != contents:
        what = f"the bundle {found.digest}; {contents.digest} was built"
        if found.digest == contents.digest:
            what = "the same bundle, and other executable bits or .dist-info files than were built"
        raise _conflict(wheel, where, what)
    if data is None:
        if signer is not None:
            raise _conflict(wheel, where, "the same content unsigned, which does not change any more")
        return None
    envelope = read_envelope(data, wheel.identity.envelope)
    check_statement(envelope, contents)
    if policy is None and signer is not None:
        policy = _policy_of(signer)
    if policy is not None:
        check_signer(envelope, contents, policy)
    return envelope.signatures[0].key_id


def _check_same_sdist(path: str, built: str, where: str) -> None:
    if _content_of(path) != _content_of(built):
        name = os.path.basename(path)
        message = f"{where} has {name} with other content than was built, and the same bundle"
        raise BundlerError("release-conflict", message, path=where)


def _content_of(sdist: str) -> str:
    """The digest of what is compressed: the compression depends on zlib."""
    try:
        with gzip.open(sdist, "rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except (OSError, EOFError) as error:
        raise BundlerError("release-invalid", f"{sdist} can't be read: {error}", path=sdist) from None


def _conflict(wheel: VerifiedWheel, where: str, what: str) -> BundlerError:
    name = f"{wheel.identity.provider_id} {wheel.identity.provider_version}"
    return BundlerError("release-conflict", f"{where} has {name} with {what}", path=where)


def _copy(source: str, target: Path) -> str:
    """Copy a regular file; its SHA-256 in hexadecimal. Raises `file-missing`, `file-read-failed`, and OSError."""
    return copy(source, str(target), lambda: None).sha256


def _warnings(built: Prepared, made: Release) -> tuple[Diagnostic, ...]:
    if made.signer is not None:
        return built.warnings
    message = f"{made.provider_id} {made.provider_version} is not signed: hosts with a trust policy refuse it"
    unsigned = Diagnostic(
        code="release-unsigned", severity="warning", message=message, path=made.folder, hint=CODES["release-unsigned"]
    )
    return (*built.warnings, unsigned)
