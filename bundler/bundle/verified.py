"""`VerifiedBundle`: the proof that a bundle was verified, which everything that uses one asks for."""

from __future__ import annotations

from ..errors import Diagnostic
from ..protocol.model import Provider
from ..provider.closure import Closure
from .listed import ListedTree
from .manifest import BundleManifest


class VerifiedBundle:
    """A bundle that passed every check: internally consistent. Only `verify` and `recall` make one.

    `tree` gives the listed files and no others, and refuses content that has changed since.
    """

    __slots__ = ("closure", "executable", "manifest", "manifest_digest", "provider", "tree", "warnings")

    tree: ListedTree
    manifest: BundleManifest
    #: The digest of manifest.json as a file.
    manifest_digest: str
    #: Paths of the files with an executable bit, manifest.json among them, which no digest of the bundle covers.
    executable: frozenset[str]
    provider: Provider
    closure: Closure
    warnings: tuple[Diagnostic, ...]

    def __init__(self) -> None:
        raise TypeError("a VerifiedBundle comes from verify_bundle only")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a VerifiedBundle does not change")

    @property
    def digest(self) -> str:
        """The overall digest, which identifies the bundle."""
        return self.manifest.digest


def prove(**members: object) -> VerifiedBundle:
    """For `verify` and `recall` alone."""
    bundle = object.__new__(VerifiedBundle)
    for name, value in members.items():
        object.__setattr__(bundle, name, value)
    return bundle
