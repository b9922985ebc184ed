"""A bundle that was verified before → `VerifiedBundle` again, by one fingerprint of all its bytes."""

from __future__ import annotations

from ..errors import Diagnostic
from ..protocol.canonical import sha256
from ..provider.closure import find_closure
from ..provider.load import load_provider
from ..provider.sources import Parsed
from ..tree import Entry, Tree, folders_of
from . import manifest as bundle_manifest
from .fingerprint import fingerprint_tree
from .layout import MANIFEST_NAME
from .listed import MAX_KEPT_BYTES, ListedTree
from .verified import VerifiedBundle, prove


def recall_bundle(
    tree: Tree, fingerprint: str, parsed: Parsed, warnings: tuple[Diagnostic, ...]
) -> VerifiedBundle | None:
    """The bundle of a tree that was verified when it had this fingerprint; None if it has another one now.

    Only for what `fingerprint_of` and `parsed_values` gave of a verified bundle, from where nobody else can have put it.
    Schemas and rules are passed over, and nothing is parsed again; every byte is read. Raises what reading raises.
    """
    kept: dict[str, tuple[bytes, bool]] = {}
    executable: set[str] = set()
    found_now = fingerprint_tree(tree, tree.entries(), kept, executable, room=MAX_KEPT_BYTES, keep=(MANIFEST_NAME,))
    if found_now != fingerprint:
        return None
    # What was hashed is what is read, however large: a second look could be another manifest.
    found = kept.pop(MANIFEST_NAME, None)
    if found is None:
        return None
    manifest, _ = bundle_manifest.read(found[0], judge=False)
    listed = ListedTree(tree, manifest.files)
    listed.kept = kept
    provider = load_provider(listed, manifest.provider_manifest, parsed=parsed)
    closure = find_closure(provider)
    listed.kept = {}
    return prove(
        tree=listed,
        manifest=manifest,
        manifest_digest=sha256(found[0]),
        executable=frozenset(executable),
        provider=provider,
        closure=closure,
        warnings=warnings,
    )


def fingerprint_of(bundle: VerifiedBundle) -> str | None:
    """The fingerprint of the verified content; None if something else lies there by now. Raises what reading raises."""
    tree, manifest = bundle.tree, bundle.manifest
    files = {*manifest.files, MANIFEST_NAME}
    entries = list(tree.entries())
    expected = {Entry(path, "file") for path in files} | {Entry(path, "folder") for path in folders_of(files)}
    if set(entries) != expected:
        return None
    kept: dict[str, tuple[bytes, bool]] = {}
    executable: set[str] = set()
    # Read through the listed tree: content that is not what was verified is refused.
    fingerprint = fingerprint_tree(tree, entries, kept, executable, room=0, keep=(MANIFEST_NAME,))
    if MANIFEST_NAME not in kept or sha256(kept[MANIFEST_NAME][0]) != bundle.manifest_digest:
        return None
    return fingerprint if executable == bundle.executable else None
