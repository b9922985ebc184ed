"""Installed Provider → `VerifiedInstall`: what pip put on disk, against RECORD, its manifest, and its neighbours.

1. METADATA, WHEEL and the entry point, as in a wheel; 2. everything that a bundle must satisfy (`bundle.verify`),
Python's bytecode of listed scripts aside, which installers make and which is told; 3. RECORD: each bundle
file has a row with its digest, each row of the distribution is a file of it with its hash, nothing of it lies elsewhere;
4. the Provider's folder holds its bundle, an envelope or none, and nothing else; 5. entry point, names and SBOM are those of the bundle.
`check_neighbours` adds what only all distributions together tell.

What is *not* verified: who made it, which `trust` tells by the envelope; bytecode, and what installers write. Whoever
may write to the folder can make another consistent install.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ..bundle.digests import digest_of_file
from ..bundle.layout import MANIFEST_NAME
from ..bundle.verified import VerifiedBundle
from ..bundle.verify import verify_bundle
from ..errors import CODES, BundlerError, Diagnostic
from ..paths import printable
from ..tree import DirectoryTree, Entry, Tree
from ..tree.once import OnceTree
from . import sbom
from .contents import INSTALLER_FILES, Contents, contents_of, distribution_of
from .distinfo import (
    MAX_BYTES,
    Metadata,
    Row,
    bounded,
    check_wheel_file,
    mismatch,
    read_entry_points,
    read_metadata,
    read_record,
    record_paths,
)
from .identity import TAG, WheelIdentity, identity_of, owner_fault
from .installed import InstalledProvider, duplicates, locations
from .naming import ENVELOPE_NAME, MAX_ENVELOPE, NAMESPACE

_BYTECODE = re.compile(r"(?P<stem>.+)\.(?!opt-)[a-z][a-z0-9-]*(?:\.opt-[a-z0-9]+)?\.pyc\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedInstall:
    """An installed Provider that passed every check; `bytecode` are the tolerated files, which nothing vouches for."""

    installed: InstalledProvider
    identity: WheelIdentity
    bundle: VerifiedBundle
    contents: Contents
    envelope: bytes | None
    bytecode: tuple[str, ...]
    requires: tuple[str, ...]
    context: str
    recalled: bool


class InstalledTree(DirectoryTree):
    """A bundle's folder as an installer left it: bytecode of scripts that lie there is passed over, and noted."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.bytecode: tuple[str, ...] = ()

    def entries(self, descend: Callable[[str], bool] = lambda folder: True) -> Iterator[Entry]:
        found = list(super().entries(descend))
        kinds = {entry.path: entry.kind for entry in found}
        passed = {entry.path for entry in found if entry.kind == "file" and _is_bytecode(entry.path, kinds)}
        self.bytecode = tuple(sorted(passed))
        # A folder that holds nothing else goes with it, and one whose bytecode was removed.
        kept = {entry.path.rpartition("/")[0] for entry in found if entry.path not in passed}
        scripts = {entry.path.rpartition("/")[0] for entry in found if entry.path.endswith(".py")}
        folders = {path for path, kind in kinds.items() if kind == "folder" and _is_cache(path, scripts)} - kept
        return iter([entry for entry in found if entry.path not in passed and entry.path not in folders])


def _is_bytecode(path: str, kinds: Mapping[str, str]) -> bool:
    """`__pycache__/X.<tag>[.opt-N].pyc` beside a file X.py."""
    folder, _, name = path.rpartition("/")
    above, _, cache = folder.rpartition("/")
    matched = _BYTECODE.match(name) if cache == "__pycache__" else None
    if matched is None:
        return False
    script = f"{matched['stem']}.py"
    return kinds.get(f"{above}/{script}" if above else script) == "file"


def _is_cache(path: str, scripts: Collection[str]) -> bool:
    folder, _, name = path.rpartition("/")
    return name == "__pycache__" and folder in scripts


#: Gives the bundle of a tree that was verified before, under a text that stands for what was verified with it.
Recall = Callable[[Tree, str], VerifiedBundle | None]


@contextmanager
def verified_install(
    installed: InstalledProvider, recall: Recall = lambda tree, context: None
) -> Iterator[VerifiedInstall]:
    """The verified install; its bundle's tree is open inside the block.

    Where `recall` knows it, it is not verified again.

    Raises what keeps it from being used: `installed-…` and `wheel-…` codes, and what verifying a bundle raises.
    """
    if installed.problem is not None:
        problem = installed.problem
        raise BundlerError(problem.code, problem.message, hint=problem.hint, diagnostics=(problem,))
    with DirectoryTree(installed.location) as disk, InstalledTree(installed.root) as tree:
        _check_place(installed, disk, tree)
        site = OnceTree(disk)
        beside, digests = _beside(installed, site)
        context = _context(beside, digests)
        metadata = read_metadata(site, installed.info)
        known = recall(tree, context)
        bundle = known or _verify(installed, site, tree, metadata, digests)
        if known is None and _context(*_beside(installed, disk)) != context:
            raise mismatch(f"{installed.info}/RECORD", "what it lists was changed while it was verified")
        if bundle.provider.id != installed.id:
            raise BundlerError(
                "wheel-identity-mismatch",
                f"{installed.info} was of `{installed.id}` when it was found, and is of `{bundle.provider.id}` now",
                path=installed.info,
            )
        envelope = _envelope(installed)
        covered = {path: digest for path, digest in digests.items() if path != envelope}
        yield VerifiedInstall(
            installed=installed,
            identity=identity_of(bundle.provider, metadata),
            bundle=bundle,
            contents=contents_of(bundle, distribution_of(metadata.name, metadata.version, installed.info, covered)),
            envelope=site.read(envelope, MAX_ENVELOPE) if envelope in digests else None,
            bytecode=tree.bytecode,
            requires=metadata.requires,
            context=context,
            recalled=known is not None,
        )


def _beside(installed: InstalledProvider, site: Tree) -> tuple[list[str], dict[str, str]]:
    """The names beside the bundle, and the digests of the envelope there and of the .dist-info folder's files."""
    names = site.names(f"{NAMESPACE}/{installed.module}")
    paths = [*_info_entries(site, installed.info), *([_envelope(installed)] if ENVELOPE_NAME in names else [])]
    return names, {path: digest_of_file(site, path) for path in paths}


def _context(names: Iterable[str], digests: Mapping[str, str]) -> str:
    """What is verified with an installed bundle, as one text: another one is another install."""
    return "\n".join([*(f"{path!a} {digest}" for path, digest in digests.items()), *map(ascii, names)])


def _envelope(installed: InstalledProvider) -> str:
    return f"{NAMESPACE}/{installed.module}/{ENVELOPE_NAME}"


def _check_place(installed: InstalledProvider, site: DirectoryTree, tree: DirectoryTree) -> None:
    """Raises `installed-broken` where the bundle's folder is reached by a link: RECORD then is of another place."""
    expected = os.path.join(site.root, os.path.relpath(installed.root, installed.location))
    if tree.root != expected:
        raise BundlerError(
            "installed-broken",
            f"{installed.distribution} in {installed.location} is broken: "
            f"a symbolic link leads to its bundle, which lies in {tree.root}",
            path=installed.location,
        )


def _verify(
    installed: InstalledProvider, site: Tree, tree: InstalledTree, metadata: Metadata, digests: Mapping[str, str]
) -> VerifiedBundle:
    info = installed.info
    # 1. what an installer made of it
    check_wheel_file(site, info, TAG)
    entry = read_entry_points(site, info)
    # 2. the bundle
    bundle = verify_bundle(tree)
    identity = identity_of(bundle.provider, metadata)
    faults: list[BundlerError] = []
    # 3. RECORD
    record = f"{info}/RECORD"
    rows = read_record(site, info)
    faults.extend(bounded(_bundle_row_faults(record, rows, identity, bundle, set(tree.bytecode))))
    faults.extend(bounded(_other_row_faults(record, rows, identity, digests)))
    # 4. the Provider's folder
    for name in site.names(os.path.dirname(identity.bundle_folder)):
        if name not in ("bundle", ENVELOPE_NAME):
            faults.append(_foreign(f"{os.path.dirname(identity.bundle_folder)}/{name}"))
    # 5. names
    if (entry.id, f"{NAMESPACE}.{entry.module}", info) != (bundle.provider.id, identity.module, identity.dist_info):
        faults.append(
            BundlerError(
                "wheel-identity-mismatch",
                f"{info} says that it is of `{entry.id}` in {entry.module}; "
                f"a bundle of `{bundle.provider.id}` belongs to {identity.dist_info} and {identity.module}",
                path=info,
            )
        )
    else:
        owner = owner_fault(identity, f"{info}/METADATA")
        faults.extend([owner] if owner is not None else [])
        faults.extend(sbom.faults(site, info, identity, bundle.digest))
    if faults:
        raise BundlerError.of(faults)
    return bundle


def _bundle_row_faults(
    record: str, rows: Mapping[str, Row], identity: WheelIdentity, bundle: VerifiedBundle, bytecode: set[str]
) -> Iterator[BundlerError]:
    folder = f"{identity.bundle_folder}/"
    digests = {folder + path: digest for path, digest in bundle.manifest.files.items()}
    digests[folder + MANIFEST_NAME] = bundle.manifest_digest
    kinds = dict.fromkeys(digests, "file")
    for path, digest in digests.items():
        if path not in rows:
            yield mismatch(record, f"`{printable(path)}` is in the bundle and has no row")
        else:
            yield from _hash_fault(record, rows[path], digest)
    for path in rows:
        # Bytecode that lies there, or was compiled once and is gone.
        is_passed = path.removeprefix(folder) in bytecode or _is_bytecode(path, kinds)
        if path.startswith(folder) and path not in digests and not is_passed:
            yield _foreign(path)


def _other_row_faults(
    record: str, rows: Mapping[str, Row], identity: WheelIdentity, digests: Mapping[str, str]
) -> Iterator[BundlerError]:
    """`digests` are those of what lies there beside the bundle."""
    info = identity.dist_info
    for path, row in rows.items():
        if path == record or path.startswith(f"{identity.bundle_folder}/"):
            continue
        if path in digests:
            if row.digest is not None or path.removeprefix(f"{info}/") not in INSTALLER_FILES:
                yield from _hash_fault(record, row, digests[path])
        elif path == identity.envelope or posixpath.normpath(path).startswith(f"{info}/"):
            yield mismatch(record, f"`{printable(path)}` has a row and does not lie there")
        else:
            yield _foreign(path)
    for path in digests:
        if path not in rows:
            yield mismatch(record, f"`{printable(path)}` lies there and has no row")


def _info_entries(site: Tree, info: str) -> Iterator[str]:
    for path in site.files(info):
        if isinstance(path, BundlerError):
            raise path
        yield path


def _hash_fault(record: str, row: Row, actual: str) -> Iterator[BundlerError]:
    if row.digest != actual:
        recorded = "no hash" if row.digest is None else row.digest
        yield mismatch(record, f"`{printable(row.path)}` has the digest {actual} and is recorded with {recorded}")


def _foreign(path: str) -> BundlerError:
    return BundlerError(
        "wheel-content-foreign", f"`{printable(path)}` is no part of the installed Provider", path=printable(path)
    )


def check_neighbours(
    found: Sequence[InstalledProvider], ids: Collection[str] = (), path: Iterable[str] | None = None
) -> list[Diagnostic]:
    """What no single distribution shows: ids that two claim, paths that two own, folders that none owns, code there.

    `found` is what `list_installed` gave for the path; of the Providers with these `ids`, or of all without any.
    """
    meant = [each for each in found if not ids or each.id in ids]
    findings = duplicates(meant)
    for location in locations(path):
        if not os.path.isdir(os.path.join(location, NAMESPACE)):
            continue
        modules = {each.module for each in meant if each.location == location}
        known = {each.module for each in found if each.location == location}
        with DirectoryTree(location) as site:
            shared: dict[tuple[str, ...], list[str]] = {}
            for name, infos in _owners(site).items():
                if len(infos) > 1 and name.split("/")[1] in modules:
                    shared.setdefault(tuple(infos), []).append(name)
            findings += [
                _finding(
                    "installed-path-shared",
                    paths[0],
                    f"{location}: `{printable(paths[0])}`"
                    + (f" (and {len(paths) - 1:,} more)" if len(paths) > 1 else "")
                    + f" belongs to {' and to '.join(infos)}; what lies there is of the one that was installed last",
                )
                for infos, paths in shared.items()
            ]
            findings += [
                _finding("installed-stray", path, f"{location}: `{printable(path)}` belongs to no installed Provider")
                for path in (f"{NAMESPACE}/{name}" for name in site.names(NAMESPACE) if not ids and name not in known)
                if _holds_files(os.path.join(location, path))
            ]
    return findings


def _holds_files(place: str) -> bool:
    """Whether anything but folders lies there: pip leaves the empty ones of what it removed."""
    if os.path.islink(place) or not os.path.isdir(place):
        return True
    with DirectoryTree(place) as tree:
        return any(entry.kind != "folder" for entry in tree.entries())


def _finding(code: str, path: str, message: str) -> Diagnostic:
    return Diagnostic(code=code, message=message, path=printable(path), hint=CODES[code])


def _owners(site: DirectoryTree) -> dict[str, list[str]]:
    """For each path in the namespace the distributions whose RECORD has it."""
    owners: dict[str, list[str]] = {}
    for info in site.names(""):
        if not info.endswith(".dist-info"):
            continue
        try:
            if NAMESPACE.encode() not in site.read(f"{info}/RECORD", MAX_BYTES):
                continue
            paths = list(record_paths(site, info))
        except BundlerError:
            continue  # a distribution's own fault, which its verification tells
        for path in paths:
            normal = os.path.normpath(path).replace(os.sep, "/")
            if normal.startswith(f"{NAMESPACE}/"):
                owners.setdefault(normal, []).append(info)
    return owners
