"""The SBOM of a wheel (PEP 770): CycloneDX, one root component with the bundle's digest.

The bundle's files are listed with their digests in its manifest.json; here they are not said again. There is no
clock in it and no random serial: the same bundle under the same names gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..errors import BundlerError
from ..protocol.documents import parse_json
from ..tree import Tree
from .identity import WheelIdentity

#: Its place in a wheel's .dist-info folder.
FOLDER, NAME = "sboms", "bundle.cdx.json"
#: The largest that is read, in bytes.
MAX_BYTES = 4 * 1024 * 1024
_PROPERTY = "agent-graph:"
# For serial numbers (RFC 9562, version 5) of our own.
_NAMESPACE = "1f1d5a5c-6f0e-5b0a-9f0b-2f6d6f2a7c11"


def sbom(identity: WheelIdentity, digest: str, license_expression: str | None, summary: str) -> bytes:
    """The document's bytes. Pure."""
    from uuid import UUID, uuid5

    purl = _purl(identity)
    component: dict[str, Any] = {
        "type": "data",
        "bom-ref": purl,
        "name": identity.distribution,
        "version": identity.version,
        "description": summary,
        "hashes": _hashes(digest),
        **({"licenses": [{"expression": license_expression}]} if license_expression else {}),
        "purl": purl,
        "properties": [{"name": _PROPERTY + name, "value": value} for name, value in _said(identity, digest)],
    }
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid5(UUID(_NAMESPACE), f'{purl} {digest}')}",
        "version": 1,
        "metadata": {"component": component},
    }
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def _purl(identity: WheelIdentity) -> str:
    return f"pkg:pypi/{identity.distribution}@{identity.version}"


def _hashes(digest: str) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": digest.removeprefix("sha256:")}]


def _said(identity: WheelIdentity, digest: str) -> list[tuple[str, str]]:
    """What a verification compares, by name."""
    return [
        ("provider", identity.provider_id),
        ("version", identity.provider_version),
        ("bundle-digest", digest),
        ("module", identity.module),
        *(("declared", name) for name in identity.declared),
    ]


def faults(tree: Tree, info: str, identity: WheelIdentity, digest: str) -> Iterator[BundlerError]:
    """What is wrong with the document in a .dist-info folder: missing, broken, or of something else."""
    path = f"{info}/{FOLDER}/{NAME}"
    try:
        check(tree.read(path, MAX_BYTES), path, identity, digest)
    except BundlerError as error:
        if error.code not in ("file-missing", "parse-failed"):
            yield error
            return
        what = "is missing" if error.code == "file-missing" else f"can't be used: {error.message}"
        yield BundlerError("wheel-identity-mismatch", f"{path} {what}", path=path)


def check(data: bytes, path: str, identity: WheelIdentity, digest: str) -> None:
    """Raises `wheel-identity-mismatch` where the document is of another wheel or bundle, or declares other names."""
    component = _table(_table(_table(parse_json(data, path).value).get("metadata")).get("component"))
    properties = component.get("properties")
    found = [
        (str(each.get("name")).removeprefix(_PROPERTY), each.get("value"))
        for each in map(_table, properties if isinstance(properties, list) else [])
        if str(each.get("name")).startswith(_PROPERTY)
    ]
    names = {"name": identity.distribution, "version": identity.version, "purl": _purl(identity)}
    said = {**names, "hashes": _hashes(digest)}
    if all(component.get(key) == value for key, value in said.items()) and found == _said(identity, digest):
        return
    declared = [value for name, value in found if name == "declared"]
    if declared != list(identity.declared):
        raise BundlerError(
            "wheel-identity-mismatch",
            f"{path} declares {' and '.join(map(str, declared)) or 'nothing'} to be set by the author; "
            f"what is not derived from the Provider is {' and '.join(identity.declared) or 'nothing'}",
            path=path,
        )
    raise BundlerError(
        "wheel-identity-mismatch", f"{path} describes something else than this wheel's bundle", path=path
    )


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
