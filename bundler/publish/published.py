"""What an index has of a release: `ID@VERSION`, or `ID@sha256:…` with its bundle's digest → its wheel, verified."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

from ..errors import BundlerError
from ..protocol.identifiers import is_id
from ..wheel.check import open_wheel
from ..wheel.distinfo import normalized
from ..wheel.naming import distribution_name, python_version
from .index import FolderIndex, IndexFile
from .index.storage import digest

_DIGEST = "sha256:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A release in an index: `digest` is the bundle's, `hash` the wheel's SHA-256 in hexadecimal."""

    provider_id: str
    version: str
    digest: str
    distribution: str
    python_version: str
    hash: str


def split_reference(reference: str, what: str) -> tuple[str, str]:
    """The Provider id and what follows the `@`. Raises `option-invalid`; `what` tells what is expected."""
    provider_id, _, rest = reference.partition("@")
    if not is_id(provider_id) or not rest:
        raise BundlerError("option-invalid", f"{reference!r} is no {what}", hint=f"give {what}")
    return provider_id, rest


def find_published(index: FolderIndex, reference: str, distribution: str | None = None) -> Published:
    """The release in an index, after its wheel was verified.

    `distribution` is the name of its distribution where its author declared another one than follows from the id. Raises
    `option-invalid`, `release-missing`, `index-file-mismatch` where the wheel is not the one that the index lists, and
    what verifying a wheel and reading an index raise.
    """
    provider_id, wanted = split_reference(reference, "ID@VERSION, or ID@sha256:… with the bundle's digest")
    project = distribution or distribution_name(provider_id)
    derived = None
    if not wanted.startswith(_DIGEST):
        with suppress(BundlerError):  # its author declared a version
            derived = python_version(wanted)
    files = [each for each in index.project(project) if each.name.endswith(".whl")]
    files.reverse()
    # The newest one first; that of a version which follows from the Provider's is found without opening others.
    for file in sorted(files, key=lambda each: each.version != derived):
        with open_wheel(os.path.join(index.root, file.path)) as wheel:
            found = Published(
                provider_id=wheel.contents.provider_id,
                version=wheel.contents.provider_version,
                digest=wheel.contents.digest,
                distribution=normalized(wheel.identity.distribution),
                python_version=wheel.identity.version,
                hash=file.content.sha256,
            )
            if found.provider_id == provider_id and wanted in (found.version, found.digest):
                _check_content(index, file)
                return found
    where = f"{index.root} has no wheel of {provider_id}"
    raise BundlerError("release-missing", f"{where} whose version or bundle is {wanted}, among those of {project}")


def _check_content(index: FolderIndex, file: IndexFile) -> None:
    if digest(index.root, file.path) != file.content:
        message = f"`{file.path}` of {index.root} is not the wheel that the index lists"
        raise BundlerError("index-file-mismatch", message, path=file.path)
