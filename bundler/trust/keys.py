"""Public keys, as texts in PEM: read without cryptography, so that a policy can be.

A key's id is the SHA-256 of its DER form, which `openssl pkey -pubin -outform DER | sha256sum` prints too.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from ..errors import BundlerError

if TYPE_CHECKING:
    from securesystemslib.signer import SSlibKey

_PEM = re.compile(r"\s*-----BEGIN PUBLIC KEY-----\s([A-Za-z0-9+/=\s]+)-----END PUBLIC KEY-----\s*\Z")
# What an Ed25519 key in DER begins with; 32 bytes follow.
_ED25519 = bytes.fromhex("302a300506032b6570032100")
_ED25519_SIZE = len(_ED25519) + 32
#: The largest file with a key, in bytes.
MAX_KEY = 64 * 1024
SCHEMES = (
    *("ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"),
    *("rsassa-pss-sha256", "rsassa-pss-sha384", "rsassa-pss-sha512"),
    *("rsa-pkcs1v15-sha256", "rsa-pkcs1v15-sha384", "rsa-pkcs1v15-sha512"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKey:
    """A public key; `scheme` where it is not the one that its type has (RSA: rsassa-pss-sha256)."""

    key_id: str
    pem: str
    scheme: str | None = None

    def loaded(self) -> SSlibKey:
        """The key for securesystemslib. Raises `key-invalid` for what it can't use."""
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
        from securesystemslib.signer import SSlibKey

        try:
            return SSlibKey.from_crypto(load_pem_public_key(self.pem.encode()), self.key_id, self.scheme)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise BundlerError("key-invalid", f"the public key {self.key_id} can't be used: {error}") from None


def parse_public_key(text: str, name: str, scheme: str | None = None) -> PublicKey:
    """The key in a PEM text; `name` is what messages call it. Raises `key-invalid`."""
    found = _PEM.match(text)
    body = "".join(found.group(1).split()) if found is not None else ""
    try:
        der = b64decode(body, validate=True)
    except (Base64Error, ValueError):
        der = b""
    if not der or b64encode(der).decode() != body:
        secret = " (a private key stands there: keep it to yourself)" if "PRIVATE KEY" in text else ""
        raise BundlerError("key-invalid", f"{name} is no public key in PEM{secret}", path=name)
    if der.startswith(_ED25519[:9]) and (not der.startswith(_ED25519) or len(der) != _ED25519_SIZE):
        raise BundlerError("key-invalid", f"{name} is an Ed25519 key of the wrong length", path=name)
    if scheme is not None and scheme not in SCHEMES:
        raise BundlerError("key-invalid", f"{name}: the scheme {scheme!r} is none of {', '.join(SCHEMES)}", path=name)
    lines = [body[at : at + 64] for at in range(0, len(body), 64)]
    pem = "\n".join(["-----BEGIN PUBLIC KEY-----", *lines, "-----END PUBLIC KEY-----", ""])
    return PublicKey(key_id=f"sha256:{sha256(der).hexdigest()}", pem=pem, scheme=scheme)
