"""A path on disk → a loaded Provider: from a source, or from a bundle, which is verified first.

A folder, a manifest file, or a bundle's manifest.json may be named. What lies beside a bundle's
manifest.json is a bundle however it is named: its provider manifest never loads unverified.
"""

from __future__ import annotations

import json
import os
import posixpath
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import BundlerError, Diagnostic
from ..paths import code_unit_key
from ..protocol.model import Provider
from ..provider.closure import Closure, find_closure
from ..provider.load import load_provider
from ..tree import DirectoryTree, Tree
from .layout import MANIFEST_NAME, MAX_MANIFEST_BYTES, PROVIDER_NAME

if TYPE_CHECKING:
    from .verified import VerifiedBundle

    Verify = Callable[[DirectoryTree], VerifiedBundle]

# How often a bundle is read again that is replaced meanwhile.
_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A loaded Provider with its tree. `bundle` is its proof of verification; None for a source."""

    root: str
    tree: Tree
    provider: Provider
    closure: Closure
    bundle: VerifiedBundle | None
    warnings: tuple[Diagnostic, ...]

    @property
    def manifest_path(self) -> str:
        """The provider manifest as an absolute path."""
        return os.path.join(self.root, *self.provider.manifest_path.split("/"))

    @property
    def files(self) -> list[str]:
        """What a reader of the whole would read: the carried files, of a bundle also its manifest.json."""
        generated = [MANIFEST_NAME] if self.bundle is not None else []
        return sorted([*self.closure.paths, *generated], key=code_unit_key)


@contextmanager
def open_path(path: str | os.PathLike[str] = PROVIDER_NAME, verify: Verify | None = None) -> Iterator[Opened]:
    """The Provider at a path; its tree is open inside the block. Raises what loading or verifying raises.

    `verify` is what verifies a bundle, if it is not `verify_bundle`.
    """
    place = os.path.abspath(os.fspath(path))
    recover_missing(place)
    root, name = (place, None) if os.path.isdir(place) else (os.path.dirname(place), os.path.basename(place))
    with ExitStack() as stack:
        tree = stack.enter_context(DirectoryTree(root))
        if _is_bundle(tree, name):
            bundle = stack.enter_context(open_bundle(root, verify))
            yield Opened(
                root=root,
                tree=bundle.tree,
                provider=bundle.provider,
                closure=bundle.closure,
                bundle=bundle,
                warnings=bundle.warnings,
            )
            return
        warnings: list[Diagnostic] = []
        provider = load_provider(tree, name or PROVIDER_NAME, warn=warnings.append)
        yield Opened(
            root=root,
            tree=tree,
            provider=provider,
            closure=find_closure(provider),
            bundle=None,
            warnings=tuple(warnings),
        )


@contextmanager
def open_bundle(folder: str, verify: Verify | None = None) -> Iterator[VerifiedBundle]:
    """The verified bundle in a folder; its tree is open inside the block. Raises what verifying raises.

    A bundle that a build replaces while it is read is read again.
    """
    from .verify import verify_bundle

    verify = verify or verify_bundle
    with ExitStack() as stack:
        for _ in range(_TRIES):
            tree = stack.enter_context(DirectoryTree(folder))
            try:
                bundle = verify(tree)
                break
            except BundlerError:
                if not tree.replaced:
                    raise
        else:
            tree = stack.enter_context(DirectoryTree(folder))
            bundle = verify(tree)
        yield bundle


def recover_missing(place: str) -> None:
    """Where nothing lies, put back what a build that was killed while it replaced a bundle left beside.

    `place` is the bundle's folder, or a file in it.
    """
    for folder in (place, os.path.dirname(place)):
        if not os.path.lexists(folder):
            from .swap import recover

            recover(folder)


def check_readable(opened: Opened) -> None:
    """Raises `file-read-failed` and its like for every carried file that can't be opened."""
    faults: list[BundlerError] = []
    for path in opened.files:
        try:
            opened.tree.check(path)
        except BundlerError as error:
            faults.append(error)
    if faults:
        raise BundlerError.of(faults)


def _is_bundle(tree: DirectoryTree, name: str | None) -> bool:
    """Whether the folder is a bundle and `name` (None for the folder itself) belongs to it."""
    try:
        data = tree.read(MANIFEST_NAME, MAX_MANIFEST_BYTES)
    except BundlerError as error:
        if error.code == "file-missing":
            return False
        raise  # what can't be read may be a bundle's: it is not passed by
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        # Something else's, or a bundle's that was damaged: then the word is in it.
        return b"agent-graph.bundle." in data and name in (None, MANIFEST_NAME, PROVIDER_NAME)
    if not isinstance(value, dict) or not str(value.get("schema")).startswith("agent-graph.bundle."):
        return False
    named = value.get("providerManifest")
    return name in (None, MANIFEST_NAME) or not isinstance(named, str) or name == posixpath.normpath(named)
