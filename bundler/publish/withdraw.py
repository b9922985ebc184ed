"""Yanks: advice to installers against a version, unless something in the index needs it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from ..errors import BundlerError
from ..trust.documents import read_channel, read_document_envelope
from ..wheel.distinfo import MAX_BYTES, normalized
from ..wheel.naming import distribution_name, python_version
from .index import Changed, FolderIndex
from .index.layout import DOCUMENTS, MAX_DOCUMENT
from .index.records import METADATA, IndexFile
from .index.storage import files_below, read
from .published import split_reference

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
    project, version = _place(reference, distribution)
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
    project, version = _place(reference, distribution)
    return index.unyank(project, version, who=who, expect_head=expect_head)


def _place(reference: str, distribution: str | None) -> tuple[str, str]:
    """Project and version of a release in an index. Raises `option-invalid`."""
    provider_id, version = split_reference(reference, "ID@VERSION")
    with suppress(BundlerError):  # its author declared one
        version = python_version(version)
    return normalized(distribution or distribution_name(provider_id)), version


def _channels(index: FolderIndex, project: str, version: str) -> Iterator[str]:
    """The channels that lead to a version; one that can't be read may."""
    for place, _ in files_below(index.root, _CHANNELS):
        name = place.removeprefix(f"{DOCUMENTS}/")
        try:
            channel = read_channel(read_document_envelope(read(index.root, place, MAX_DOCUMENT) or b"", name))
        except BundlerError:
            yield f"{name} can't be read, so it may lead there"
            continue
        if (channel.distribution, channel.python_version) == (project, version):
            yield f"the channel {name} leads there"


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
