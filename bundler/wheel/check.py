"""Wheel file → `VerifiedWheel`, read in place: neither unpacked nor installed.

1. the archive (`tree.archive`): its structure, names, kinds and bounds; 2. one .dist-info folder, whose name and
version are those of METADATA and of the file; 3. WHEEL says that this is data for any Python; 4. one entry point, a
Provider's, and none that an installer makes a command of; 5. nothing lies outside of the bundle's folder and the
.dist-info folder but one envelope beside the bundle, nothing in them that does not belong there; 6. modes are 0644 or 0755; 7. RECORD has one row
for each file and no other, with SHA-256 and size; 8. everything that a bundle must satisfy (`bundle.verify`);
9. RECORD's hashes are those of the content; 10. entry point, names and SBOM are those of the bundle's Provider.

Steps 1 to 5 end at their first fault; of the rest all faults are collected.

What is *not* verified: who made the wheel. Whoever changes all of it consistently makes another consistent wheel. The
envelope is handed on as it is: `trust` reads it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..bundle.digests import digest_of_file
from ..bundle.layout import MANIFEST_NAME
from ..bundle.verified import VerifiedBundle
from ..bundle.verify import verify_bundle
from ..errors import BundlerError
from ..paths import printable
from ..tree import CHUNK, Tree, folders_of
from ..tree.archive import Archive
from ..tree.once import OnceTree
from ..tree.zipped import ZipTree
from . import sbom
from .contents import Contents, contents_of, distribution_of
from .distinfo import Metadata, Row, bounded, check_wheel_file, mismatch, read_entry_points, read_metadata, read_record
from .identity import TAG, WheelIdentity, identity_of, owner_fault
from .metadata import LICENSE_FOLDER
from .naming import MAX_ENVELOPE, NAMESPACE, module_name

_INFO_FILES = ("METADATA", "WHEEL", "RECORD", "entry_points.txt")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedWheel:
    """A wheel that passed every check; `requires` is what pip would install with it, `envelope` what lies beside the bundle.

    `archive` is open as long as the block that verified it.
    """

    path: str
    identity: WheelIdentity
    bundle: VerifiedBundle
    contents: Contents
    envelope: bytes | None
    requires: tuple[str, ...]
    archive: Archive = field(repr=False, compare=False)

    def sha256(self) -> str:
        """The file's own digest in hexadecimal: of the one that was verified, whatever lies at its path by now."""
        hasher = hashlib.sha256()
        for at in range(0, self.archive.size, CHUNK):
            hasher.update(self.archive.read(at, min(CHUNK, self.archive.size - at)))
        return hasher.hexdigest()


@contextmanager
def open_wheel(path: str | os.PathLike[str]) -> Iterator[VerifiedWheel]:
    """The verified wheel at a path; its bundle's tree is open inside the block.

    Raises `file-missing`, the `archive-…` and `wheel-…` codes, and what verifying a bundle raises.
    """
    # 1. the archive
    archive = Archive(path)
    try:
        yield _verify(archive)
    finally:
        archive.close()


def _verify(archive: Archive) -> VerifiedWheel:
    tree = OnceTree(ZipTree(archive))
    # 2. the .dist-info folder
    info = _info_folder(tree)
    metadata = read_metadata(tree, info)
    # 3. and 4. what installers make of it
    check_wheel_file(tree, info, TAG)
    entry = read_entry_points(tree, info)
    identity = WheelIdentity(
        provider_id=entry.id, provider_version="", distribution=metadata.name, version=metadata.version
    )
    _check_names(archive, identity, info, metadata, entry.module)
    # 5. nothing else
    _check_places(archive, identity)
    # 6. modes
    faults: list[BundlerError] = list(bounded(_mode_faults(archive)))
    # 7. RECORD's rows
    rows = read_record(tree, info)
    faults.extend(bounded(_row_faults(archive, rows, f"{info}/RECORD")))
    # 8. the bundle
    try:
        bundle = verify_bundle(ZipTree(archive, f"{identity.bundle_folder}/"))
    except BundlerError as error:
        raise BundlerError.of([*faults, error]) from None
    # 9. RECORD's hashes
    envelope = tree.read(identity.envelope, MAX_ENVELOPE) if identity.envelope in archive.members else None
    digests = _digests(tree, archive, bundle, identity)
    faults.extend(bounded(_hash_faults(rows, digests, f"{info}/RECORD")))
    # 10. the Provider's names
    identity = identity_of(bundle.provider, metadata)
    if bundle.provider.id != entry.id:
        faults.append(
            BundlerError(
                "wheel-identity-mismatch",
                f"{info}/entry_points.txt is of the Provider `{entry.id}`, the bundle of `{bundle.provider.id}`",
                path=f"{info}/entry_points.txt",
            )
        )
    else:
        owner = owner_fault(identity, f"{info}/METADATA")
        faults.extend([owner] if owner is not None else [])
        faults.extend(sbom.faults(tree, info, identity, bundle.digest))
    if faults:
        raise BundlerError.of(faults)
    covered = {path: digest for path, digest in digests.items() if path.startswith(f"{info}/")}
    return VerifiedWheel(
        path=archive.file,
        identity=identity,
        bundle=bundle,
        contents=contents_of(bundle, distribution_of(identity.distribution, identity.version, info, covered)),
        envelope=envelope,
        requires=metadata.requires,
        archive=archive,
    )


def _info_folder(tree: Tree) -> str:
    found = [name for name in tree.names("") if name.endswith(".dist-info")]
    if len(found) != 1:
        named = ", ".join(map(printable, found)) or "none"
        raise BundlerError(
            "wheel-metadata-invalid",
            f"{tree.describe('')} has the .dist-info folders {named}; one is expected: it is no wheel of a Provider",
            path=tree.describe(""),
            hint="name a wheel that `agent-bundler wheel` wrote",
        )
    return found[0]


def _check_names(archive: Archive, identity: WheelIdentity, info: str, metadata: Metadata, module: str) -> None:
    name = os.path.basename(archive.file)
    if info != identity.dist_info:
        raise BundlerError(
            "wheel-identity-mismatch",
            f"METADATA is of {metadata.name} {metadata.version}; its folder is {printable(info)}, {identity.dist_info} is expected",
            path=f"{info}/METADATA",
        )
    if name != identity.wheel_name:
        raise BundlerError(
            "wheel-identity-mismatch",
            f"{archive.file} is a wheel of {metadata.name} {metadata.version}, whose name is {identity.wheel_name}",
            path=archive.file,
            hint=f"if you renamed it, name it {identity.wheel_name} again; else fetch it again from where it was published",
        )
    if module != module_name(identity.provider_id):
        raise BundlerError(
            "wheel-entry-point-invalid",
            f"{info}/entry_points.txt names {NAMESPACE}.{module} for `{identity.provider_id}`, whose folder is {identity.module}",
            path=f"{info}/entry_points.txt",
        )


def _check_places(archive: Archive, identity: WheelIdentity) -> None:
    bundle, info = f"{identity.bundle_folder}/", f"{identity.dist_info}/"
    faults = []
    for path in archive.members:
        if path.startswith(bundle) or path == identity.envelope:
            continue
        if path.startswith(info) and belongs_in_info(path[len(info) :]):
            continue
        faults.append(_foreign(path))
    # A folder that leads to none of the files would be one more thing that gets installed.
    faults.extend(_foreign(folder) for folder in sorted(archive.folders - folders_of(archive.members)))
    if faults:
        raise BundlerError.of(list(bounded(iter(faults))))


def belongs_in_info(name: str) -> bool:
    """Whether a file of that name in a .dist-info folder is one that a Provider's wheel has."""
    folder = name.partition("/")[0]
    return name in _INFO_FILES or (folder in (sbom.FOLDER, LICENSE_FOLDER) and "/" in name)


def _foreign(path: str) -> BundlerError:
    return BundlerError(
        "wheel-content-foreign", f"`{printable(path)}` is no part of a Provider's wheel", path=printable(path)
    )


def _mode_faults(archive: Archive) -> Iterator[BundlerError]:
    for path, member in archive.members.items():
        if member.mode & 0o777 not in (0o644, 0o755):
            yield BundlerError(
                "wheel-mode-invalid",
                f"`{printable(path)}` has the mode {member.mode & 0o777:04o}; 0644 or 0755 is expected",
                path=printable(path),
            )


def _row_faults(archive: Archive, rows: dict[str, Row], record: str) -> Iterator[BundlerError]:
    for path in archive.members:
        if path not in rows:
            yield mismatch(record, f"`{printable(path)}` is in the wheel and has no row")
    for path, row in rows.items():
        member = archive.members.get(path)
        if member is None:
            yield mismatch(record, f"`{printable(path)}` has a row and is not in the wheel")
        elif path == record:
            if row.digest is not None or row.size is not None:
                yield mismatch(record, "its own row has a hash or a size, which it cannot have")
        elif row.digest is None or row.size is None:
            yield mismatch(record, f"`{printable(path)}` has a row without hash or size")
        elif row.size != member.size:
            yield mismatch(record, f"`{printable(path)}` has {member.size:,} bytes and is recorded with {row.size:,}")


def _digests(tree: Tree, archive: Archive, bundle: VerifiedBundle, identity: WheelIdentity) -> dict[str, str]:
    """Of every file: the bundle's were hashed when it was verified, the others are now."""
    found = {f"{identity.bundle_folder}/{path}": digest for path, digest in bundle.manifest.files.items()}
    found[f"{identity.bundle_folder}/{MANIFEST_NAME}"] = bundle.manifest_digest
    return found | {path: digest_of_file(tree, path) for path in archive.members if path not in found}


def _hash_faults(rows: dict[str, Row], digests: dict[str, str], record: str) -> Iterator[BundlerError]:
    for path, row in rows.items():
        if path == record or row.digest is None or path not in digests:
            continue  # told by its row
        if digests[path] != row.digest:
            yield mismatch(
                record, f"`{printable(path)}` has the digest {digests[path]} and is recorded with {row.digest}"
            )
