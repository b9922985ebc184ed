"""Signing releases: after every check has passed, and only what the policy would count."""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory

from ..bundle.digests import digest_file
from ..bundle.open import Opened, open_path
from ..errors import BundlerError
from ..tree import DirectoryTree
from ..wheel.build import epoch, survey
from ..wheel.check import open_wheel
from ..wheel.contents import Contents
from ..wheel.embed import embed
from ..wheel.rebuild import compare_with_source, wheel_info
from ..wheel.sdist import make_sdist
from ..wheel.settings import read_settings
from ..wheel.source import source_state
from .envelope import Envelope
from .files import read_small, write_new
from .host import StrPath
from .judge import check_signer
from .policy import TrustPolicy
from .provenance import SUFFIX, provenance_of
from .signing import Signer


def sign_wheel(path: StrPath, signer: Signer, policy: TrustPolicy | None = None) -> bool:
    """Put the signature into the wheel at `path`; False where the very same is there already.

    Raises what verifying the wheel raises, `key-unusable`, `signature-exists` for a wheel with another one, and with a
    policy what would keep the signature from counting. After an error the wheel is as it was.
    """
    with open_wheel(path) as wheel:
        envelope = attest(wheel.contents, signer, policy).to_bytes()
        if wheel.envelope == envelope:
            return False
        embed(wheel, envelope, wheel.path)
    return True


def sign_detached(contents: Contents, signer: Signer, path: StrPath, policy: TrustPolicy | None = None) -> bool:
    """Write the signature of what was verified into a file of its own; False where the very same is there already.

    Raises the same, and `signature-exists` where anything else lies there.
    """
    return _write(os.fspath(path), attest(contents, signer, policy))


def sign_provenance(path: StrPath, source: StrPath, signer: Signer, sdist: StrPath | None = None) -> str:
    """Write where the wheel at `path`, and an sdist, come from into a file beside the wheel; the file's path.

    Before that both are built from the source again, and compared. Raises `source-differs`, `signature-exists`, and
    what verifying and building raise.
    """
    wheel_file = os.path.abspath(os.fspath(path))
    with open_wheel(wheel_file) as wheel, open_path(source) as opened:
        if opened.bundle is not None:
            raise BundlerError("option-invalid", f"{opened.root} is a bundle; a source is expected", path=opened.root)
        subjects = {os.path.basename(wheel_file): wheel.sha256()}
        compare_with_source(wheel.bundle, wheel.contents, wheel_info(wheel_file, wheel.identity), opened)
        state = source_state(opened, read_settings(opened.tree))
        if sdist is not None:
            subjects |= _check_sdist(os.fspath(sdist), opened)
        provider = (wheel.contents.provider_id, wheel.contents.provider_version)
    envelope = signer.sign(provenance_of(subjects, provider, state, epoch=epoch()))
    place = wheel_file + SUFFIX
    _write(place, envelope)
    return place


def _check_sdist(sdist: str, source: Opened) -> dict[str, str]:
    """The digest of an sdist by its name. Raises `source-differs` unless it is the one that the source builds."""
    found = sha256_of(os.path.abspath(sdist))
    with TemporaryDirectory(prefix="agent-bundler-") as folder:
        if sha256_of(make_sdist(survey(source), folder)) != found:
            raise BundlerError("source-differs", f"{sdist} is not the sdist that {source.root} builds", path=sdist)
    return {os.path.basename(sdist): found}


def sha256_of(file: str) -> str:
    """The SHA-256 of a file in hexadecimal. Raises what reading raises."""
    with DirectoryTree(os.path.dirname(file)) as tree:
        return digest_file(tree, os.path.basename(file), "sha256").hex


def _write(place: str, envelope: Envelope) -> bool:
    data = envelope.to_bytes()
    if write_new(place, data):
        return True
    if read_small(place, len(data))[0] != data:
        raise BundlerError("signature-exists", f"{place} holds another signature", path=place)
    return False


def attest(contents: Contents, signer: Signer, policy: TrustPolicy | None = None) -> Envelope:
    """The signed statement about what was verified; with a policy only where it would count."""
    envelope = signer.attest(contents)
    if policy is not None:
        check_signer(envelope, contents, policy)
    return envelope
