"""Yanks: advice to installers against a version, unless something in the index needs it."""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ..errors import BundlerError
from ..protocol.documents import parse_json
from ..protocol.identifiers import is_id
from ..wheel.distinfo import MAX_BYTES, normalized
from ..wheel.naming import distribution_name, python_version
from .index import Changed, FolderIndex
from .index.layout import DOCUMENTS, MAX_DOCUMENT
from .index.records import METADATA, IndexFile
from .index.storage import files_below, read

_CHANNELS = f"{DOCUMENTS}/channels"


def yank(
    index: FolderIndex,
    reference: str,
    *,
    reason: str,
    who: str,
    distribution: str | None = None,
    expect_head: str | None = None,
    force: bool = False,
) -> Changed:
    """Advise installers against the release `ID@VERSION`; `distribution` where its author declared another name.

    Raises `release-in-use`, naming who, where a channel leads to it, or another project of the index needs it and would
    find no other version, unless `force`; `option-invalid`, `index-version-missing`, `index-conflict` where the index
    changes meanwhile, and what changes of an index raise.
    """
    project, version = split(reference, distribution)
    head = expect_head or index.head().digest
    users = [] if force else [*_channels(index, project, version), *_dependents(index, project, version)]
    if users:
        raise BundlerError("release-in-use", f"{reference} is needed: {'; '.join(users)}", path=index.root)
    return index.yank(project, version, reason=reason, who=who, expect_head=head)


def unyank(
    index: FolderIndex,
    reference: str,
    *,
    who: str,
    distribution: str | None = None,
    expect_head: str | None = None,
) -> Changed:
    """Take the advice back. Raises `option-invalid`, `index-version-missing`, and what changes of an index raise."""
    project, version = split(reference, distribution)
    return index.unyank(project, version, who=who, expect_head=expect_head)


def split(reference: str, distribution: str | None = None) -> tuple[str, str]:
    """Project and version of the release `ID@VERSION` in an index. Raises `option-invalid`."""
    provider_id, _, version = reference.partition("@")
    if not is_id(provider_id) or not version:
        message = f"{reference!r} is no release; ID@VERSION is expected, such as acme/release@1.0.0"
        raise BundlerError("option-invalid", message, hint="name Provider and version: ID@VERSION")
    with suppress(BundlerError):  # its author declared one
        version = python_version(version)
    return normalized(distribution or distribution_name(provider_id)), version


def _channels(index: FolderIndex, project: str, version: str) -> Iterator[str]:
    """The channels that lead to a version; one that can't be read may."""
    for place, _ in files_below(index.root, _CHANNELS):
        name = place.removeprefix(f"{DOCUMENTS}/")
        try:
            release = _pointed_at(read(index.root, place, MAX_DOCUMENT) or b"", name)
        except (BundlerError, KeyError, TypeError, ValueError):
            yield f"{name} can't be read, so it may lead there"
            continue
        if (normalized(release["distribution"]), release["pythonVersion"]) == (project, version):
            yield f"the channel {name} leads there"


def _pointed_at(data: bytes, name: str) -> dict[str, Any]:
    """What a channel's document says of the release that it leads to; its signature is nothing to us."""
    envelope = parse_json(data, name).value
    release = parse_json(b64decode(envelope["payload"], validate=True), name).value["release"]
    if not isinstance(release["distribution"], str) or not isinstance(release["pythonVersion"], str):
        raise TypeError(name)
    return dict(release)


def _dependents(index: FolderIndex, project: str, version: str) -> Iterator[str]:
    """The versions of other projects that need this one, and would find no other."""
    from packaging.metadata import parse_email
    from packaging.requirements import InvalidRequirement, Requirement

    others = _others(index, project, version)
    for other in index.projects():
        if other == project:
            continue
        for file in index.project(other):
            if file.metadata is None or file.yanked is not None:
                continue
            for text in parse_email(_metadata(index, file))[0].get("requires_dist", []):
                try:
                    needed = Requirement(text)
                except InvalidRequirement:
                    continue
                wants = needed.specifier
                if normalized(needed.name) != project or not wants.contains(version, prereleases=True):
                    continue
                if not any(wants.contains(each, prereleases=True) for each in others):
                    yield f"{other} {file.version} needs {needed}, and would find no other version"


def _others(index: FolderIndex, project: str, version: str) -> set[str]:
    from packaging.utils import canonicalize_version

    same = canonicalize_version(version)
    return {
        file.version
        for file in index.project(project)
        if file.yanked is None and canonicalize_version(file.version) != same
    }


def _metadata(index: FolderIndex, file: IndexFile) -> bytes:
    data = read(index.root, f"{file.path}.{METADATA}", MAX_BYTES)
    if data is None:
        path = os.path.join(index.root, f"{file.path}.{METADATA}")
        raise BundlerError("index-file-mismatch", f"{path} is missing, which the index lists", path=path)
    return data
