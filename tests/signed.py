"""Keys, signed wheels and trust policies: made once, a test changes one thing."""

from __future__ import annotations

import math
import shutil
import subprocess
from functools import cache
from pathlib import Path

from bundler.bundle.open import open_path
from bundler.trust.envelope import Envelope
from bundler.trust.keys import PublicKey
from bundler.trust.policy import Rule, TrustedKey, TrustPolicy
from bundler.trust.signing import Signer, generate_key, load_signer
from bundler.wheel.build import BuiltWheel, make_wheel
from bundler.wheel.contents import Contents

from . import installs

#: The envelope of the Provider `acme/demo`, as it is installed.
ENVELOPE = f"{installs.MODULE}/bundle.dsse.json"
#: A moment, in seconds since 1970: 2026-06-01.
NOW = 1_780_272_000.0


def no_passphrase(name: str) -> None:
    """Nobody is there to ask."""


@cache
def key_file(name: str) -> Path:
    """A private key that is not encrypted; the public one lies beside it."""
    path = installs.folder() / f"{name}.key"
    generate_key(path, None)
    return path


@cache
def signer(name: str) -> Signer:
    return load_signer(str(key_file(name)), no_passphrase)


def public(name: str) -> PublicKey:
    return signer(name).public


def trusted(name: str, *, providers: str = "acme/*", since: float = -math.inf, until: float = math.inf) -> TrustedKey:
    return TrustedKey(name=name, key=public(name), providers=(providers,), not_before=since, not_after=until)


def policy(*names: str, required: bool = True, threshold: int = 1) -> TrustPolicy:
    """A policy that trusts these keys for `acme/*`."""
    return TrustPolicy(
        keys=tuple(trusted(name) for name in names), default=Rule(required=required, threshold=threshold)
    )


def seal(name: str, contents: Contents) -> bytes:
    return signer(name).attest(contents).to_bytes()


def attest(name: str, contents: Contents) -> Envelope:
    return signer(name).attest(contents)


def wheel(name: str = "demo") -> BuiltWheel:
    """The wheel of one of `installs`' Providers, signed by the key `release`, with a licence and an executable script."""
    return _wheel(name)


@cache
def _wheel(name: str) -> BuiltWheel:
    root = Path(shutil.copytree(installs.source(name), installs.folder() / name / "signed-source"))
    (root / "LICENSE").write_text("a licence\n")
    (root / "scripts/check.py").chmod(0o755)
    with open_path(root) as opened:
        return make_wheel(
            opened, installs.folder() / name / "signed-dist", seal=lambda contents: seal("release", contents)
        )


@cache
def _installed(name: str) -> Path:
    target = installs.folder() / f"signed-{name}"
    command = [*installs.PIP, "--no-index", "--no-deps", "--target", str(target), wheel(name).path]
    subprocess.run(command, check=True, capture_output=True)
    return target


def install(target: Path, name: str = "demo") -> Path:
    """A copy of a folder into which pip put the signed wheel."""
    return Path(shutil.copytree(_installed(name), target, symlinks=True))


def write_policy(path: Path, *names: str, more: str = "") -> Path:
    """The same policy as a file, with `more` before the keys."""
    keys = "".join(
        f'[[keys]]\nname = "{name}"\npublic-key = "{key_file(name)}.pub"\nproviders = ["acme/*"]\n' for name in names
    )
    path.write_text(f'schema = "agent-bundler.trust.v1"\n{more}\n{keys}')
    return path
