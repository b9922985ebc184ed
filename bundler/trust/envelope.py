"""DSSE envelopes: a payload with signatures over it, read strictly and written in one form.

What is signed is the pre-authentication encoding of type and payload, so that a payload of one type is never taken
for one of another. No signature is verified here (`verdict` does), and no cryptography is imported.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from dataclasses import dataclass
from typing import Any

from ..errors import BundlerError
from ..paths import printable
from ..protocol.documents import parse_json
from ..wheel.naming import MAX_ENVELOPE

#: The payload type of in-toto statements.
PAYLOAD_TYPE = "application/vnd.in-toto+json"
#: Signatures of one envelope.
MAX_SIGNATURES = 64
# Characters of a key's id, and of a signature: the largest known (ML-DSA-87) has some 6,200.
_MAX_KEY_ID, _MAX_SIGNATURE = 200, 16_384
# From the URL-safe alphabet, which DSSE allows too.
_STANDARD = str.maketrans("-_", "+/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One signature, and the id of the key that it says to be made with: a hint, which proves nothing."""

    key_id: str
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A payload of a type and its signatures; `name` is what messages call the file."""

    name: str
    payload: bytes
    signatures: tuple[Signature, ...]
    payload_type: str = PAYLOAD_TYPE

    @property
    def signed(self) -> bytes:
        """The bytes that signatures are over."""
        return signed_bytes(self.payload, self.payload_type)

    def to_bytes(self) -> bytes:
        """One line of JSON."""
        signatures = [{"keyid": each.key_id, "sig": b64encode(each.value).decode()} for each in self.signatures]
        payload = b64encode(self.payload).decode()
        document = {"payload": payload, "payloadType": self.payload_type, "signatures": signatures}
        return (json.dumps(document, separators=(",", ":")) + "\n").encode()


def signed_bytes(payload: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """The pre-authentication encoding of a payload: `DSSEv1`, length and text of the type, length and payload."""
    return b"DSSEv1 %d %b %d %b" % (len(payload_type), payload_type.encode(), len(payload), payload)


def read_envelope(data: bytes, name: str, payload_type: str = PAYLOAD_TYPE) -> Envelope:
    """The envelope in a file's bytes, whose payload is to be of this type. Raises `signature-invalid`."""
    if len(data) > MAX_ENVELOPE:
        raise invalid(name, f"has {len(data):,} bytes; {MAX_ENVELOPE:,} is the most")
    try:
        value = parse_json(data, name).value
    except BundlerError as error:
        raise invalid(name, f"is no envelope: {error.message}") from None
    table = _table(value, {"payload", "payloadType", "signatures"}, name)
    if table["payloadType"] != payload_type:
        raise invalid(
            name, f"has a payload of the type {printable(str(table['payloadType']))}; {payload_type} is expected"
        )
    listed = table["signatures"]
    if not isinstance(listed, list) or not 1 <= len(listed) <= MAX_SIGNATURES:
        raise invalid(name, f"needs a list of 1 to {MAX_SIGNATURES} signatures")
    return Envelope(
        name=name,
        payload=_bytes(table["payload"], name),
        signatures=tuple(_signature(each, name) for each in listed),
        payload_type=payload_type,
    )


def invalid(name: str, what: str) -> BundlerError:
    """`signature-invalid`."""
    return BundlerError("signature-invalid", f"{name} {what}", path=name)


def _signature(value: object, name: str) -> Signature:
    table = _table(value, {"keyid", "sig"}, name)
    key_id, signature = table["keyid"], table["sig"]
    if not isinstance(key_id, str) or not 1 <= len(key_id) <= _MAX_KEY_ID or len(str(signature)) > _MAX_SIGNATURE:
        raise invalid(name, "has a signature whose keyid or sig is not a text of the length that they have")
    return Signature(key_id=key_id, value=_bytes(signature, name))


def _table(value: object, keys: set[str], name: str) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != keys:
        raise invalid(name, f"needs objects with {', '.join(sorted(keys))} and nothing else")
    return value


def _bytes(text: object, name: str) -> bytes:
    """What a text in base64 stands for; each text that is not the one spelling of its bytes is refused."""
    if isinstance(text, str):
        standard = text.translate(_STANDARD)
        try:
            found = b64decode(standard, validate=True)
        except (Base64Error, ValueError):
            found = b""
        if found and b64encode(found).decode() == standard:
            return found
    raise invalid(name, "has a payload or signature that is no base64")
