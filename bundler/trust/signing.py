"""Private keys, and what is signed with them.

A key is an Ed25519 key in PEM, from a file or a variable of the environment, or whatever a URI of securesystemslib
names: then it never leaves its device. Passphrases come from the environment or are asked for. No private byte and no
passphrase stands in a message.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import CODES, BundlerError, Diagnostic
from .envelope import PAYLOAD_TYPE, Envelope, Signature, signed_bytes
from .files import read_text, write_new
from .keys import MAX_KEY, PublicKey, parse_public_key
from .statement import statement_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from securesystemslib.signer import Signer as LibrarySigner

    from ..wheel.contents import Contents

#: Gives the passphrase of what is named; None if there is none.
Passphrase = Callable[[str], str | None]
#: Where a passphrase is looked for before it is asked for.
PASSPHRASE_VARIABLE = "AGENT_BUNDLER_PASSPHRASE"  # noqa: S105 - its name
_ENVIRONMENT = "env:"
# Bytes; OpenSSL takes no more.
_MAX_PASSPHRASE = 1023


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """What signs: the public key by which it is known, and the signer of the library, which shows no secret."""

    public: PublicKey
    warnings: tuple[Diagnostic, ...] = ()
    _signer: LibrarySigner = field(repr=False)

    def sign(self, payload: bytes, payload_type: str = PAYLOAD_TYPE) -> Envelope:
        """An envelope with this one signature, which was verified. Raises `key-unusable`."""
        data = signed_bytes(payload, payload_type)
        try:
            made = self._signer.sign(data)
            self.public.loaded().verify_signature(made, data)
        except Exception as error:  # of devices and services, each has its own
            raise _unusable(self.public.key_id, error) from None
        signature = Signature(key_id=self.public.key_id, value=bytes.fromhex(made.signature))
        return Envelope(name="the new envelope", payload=payload, signatures=(signature,), payload_type=payload_type)

    def attest(self, contents: Contents) -> Envelope:
        """The inner attestation of what was verified."""
        return self.sign(statement_of(contents))


def load_signer(key: str, passphrase: Passphrase, public_key: str | None = None) -> Signer:
    """The signer that `key` names: a file, `env:NAME`, or a URI, for which `public_key` is a file with its public key.

    Raises `key-invalid`, `key-unusable`, `option-invalid`, and what reading files raises.
    """
    _refuse_secret(key)
    scheme = key.partition(":")[0]
    if key.startswith(_ENVIRONMENT):
        name = key.removeprefix(_ENVIRONMENT)
        text = os.environ.get(name, "")
        if not text.strip():
            raise BundlerError("key-invalid", f"the variable {name} of the environment holds no key")
        return _local(text, f"the variable {name}", passphrase)
    if not os.path.lexists(key) and scheme != key and scheme in _schemes():
        return _remote(key, scheme, passphrase, public_key)
    text, status = read_text(key, MAX_KEY)
    return _local(text, key, passphrase, _exposure(key, status))


def generate_key(path: str | os.PathLike[str], passphrase: str | None) -> PublicKey:
    """Make an Ed25519 key: the private one in `path`, readable for its user alone, the public one in `path`.pub.

    With a passphrase it is encrypted. Raises `key-exists` and `output-write-failed`; then nothing is written.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        KeySerializationEncryption,
        NoEncryption,
        PrivateFormat,
    )

    made = Ed25519PrivateKey.generate()
    encryption: KeySerializationEncryption = NoEncryption()
    if passphrase:
        encryption = BestAvailableEncryption(_checked(passphrase))
    public = _public(made)
    place = os.fspath(path)
    for taken in (place, f"{place}.pub"):
        if os.path.lexists(taken):
            raise BundlerError("key-exists", f"{taken} exists", path=taken)
    # The public one first: a private key that nobody knows the public one of is of no use.
    private = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    if not write_new(f"{place}.pub", public.pem.encode()):
        raise BundlerError("key-exists", f"{place}.pub exists", path=f"{place}.pub")
    written = False
    try:
        written = write_new(place, private, 0o600)
    finally:
        if not written:
            os.unlink(f"{place}.pub")
    if not written:
        raise BundlerError("key-exists", f"{place} exists", path=place)
    return public


def show_key(path: str, passphrase: Passphrase) -> PublicKey:
    """The public key in a file, or the one that belongs to the private key there. Raises what reading either raises."""
    _refuse_secret(path)
    text, _ = read_text(path, MAX_KEY)
    return _local(text, path, passphrase).public if "PRIVATE KEY" in text else parse_public_key(text, path)


def _refuse_secret(name: str) -> None:
    """Raises `key-invalid` where a key was given for the name of one, before a message repeats it."""
    if "PRIVATE KEY" in name:
        raise BundlerError(
            "key-invalid",
            "a private key was given where the name of one is expected",
            hint="name its file, or env:NAME for a variable that holds it",
        )


def _checked(passphrase: str) -> bytes:
    """Raises `option-invalid` for a passphrase that no key can be encrypted with."""
    try:
        data = passphrase.encode()
    except UnicodeEncodeError:
        data = b""
    if not 1 <= len(data) <= _MAX_PASSPHRASE:
        raise BundlerError("option-invalid", f"a passphrase is a text of at most {_MAX_PASSPHRASE:,} bytes in UTF-8")
    return data


def _local(text: str, name: str, passphrase: Passphrase, warnings: tuple[Diagnostic, ...] = ()) -> Signer:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from securesystemslib.signer import CryptoSigner

    if "PUBLIC KEY" in text:
        raise BundlerError("key-invalid", f"{name} is a public key; signing takes the private one", path=name)
    word: str | None = None
    if "ENCRYPTED" in text:
        word = passphrase(name)
        if not word:
            raise BundlerError("key-unusable", f"{name} is encrypted, and no passphrase was given", path=name)
    try:
        key = load_pem_private_key(text.encode(), None if word is None else word.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # What the library says can name parts of what it read.
        why = (
            "is no private key in PEM"
            if word is None
            else "can't be decrypted: the passphrase is wrong, or it is damaged"
        )
        raise BundlerError("key-unusable" if word else "key-invalid", f"{name} {why}", path=name) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise BundlerError("key-invalid", f"{name} is a {type(key).__name__}; an Ed25519 key is expected", path=name)
    public = _public(key)
    return Signer(public=public, warnings=warnings, _signer=CryptoSigner(key, public.loaded()))


def _remote(uri: str, scheme: str, passphrase: Passphrase, public_key: str | None) -> Signer:
    from securesystemslib.signer import Signer as LibrarySigner

    if public_key is None:
        raise BundlerError(
            "option-invalid",
            f"the key {scheme}:… needs its public key",
            hint="name the file that holds it: --public-key FILE",
        )
    text, _ = read_text(public_key, MAX_KEY)
    public = parse_public_key(text, public_key)

    def secret(name: str) -> str:
        return passphrase(name) or ""

    try:
        return Signer(public=public, _signer=LibrarySigner.from_priv_key_uri(uri, public.loaded(), secret))
    except BundlerError:
        raise
    except Exception as error:
        raise _unusable(f"{scheme}:…", error) from None


def _schemes() -> Any:
    from securesystemslib.signer import SIGNER_FOR_URI_SCHEME

    return SIGNER_FOR_URI_SCHEME


def _public(key: PrivateKeyTypes) -> PublicKey:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return parse_public_key(pem.decode(), "the public key")


def _exposure(path: str, status: os.stat_result) -> tuple[Diagnostic, ...]:
    if not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return ()
    return (
        Diagnostic(
            code="key-exposed",
            severity="warning",
            message=f"the private key {path} has the mode {stat.S_IMODE(status.st_mode):04o}: others can read it",
            path=path,
            hint=CODES["key-exposed"],
        ),
    )


def _unusable(name: str, error: Exception) -> BundlerError:
    """What a signer of the library says is not repeated: nobody knows what it holds."""
    return BundlerError("key-unusable", f"the key {name} can't be used: its signer ends with {type(error).__name__}")
