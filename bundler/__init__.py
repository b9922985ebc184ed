"""Build, verify and review bundles of Agent Graph Providers.

    from bundler import DirectoryTree, build, load_provider, make_plan, verify_bundle

    with DirectoryTree("my-provider") as tree:
        manifest = build(make_plan(tree, load_provider(tree)), "dist/provider")
    with DirectoryTree("dist/provider") as tree:
        bundle = verify_bundle(tree)          # bundle.digest == manifest.digest

Names are imported when they are used, so that a start pays only for what it needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .bundle.manifest import BundleManifest as BundleManifest
    from .bundle.open import Opened as Opened
    from .bundle.open import open_path as open_path
    from .bundle.plan import Plan as Plan
    from .bundle.plan import make_plan as make_plan
    from .bundle.verify import VerifiedBundle as VerifiedBundle
    from .bundle.verify import verify_bundle as verify_bundle
    from .bundle.write import Destination as Destination
    from .bundle.write import build as build
    from .bundle.write import write_bundle as write_bundle
    from .errors import BundlerError as BundlerError
    from .errors import Diagnostic as Diagnostic
    from .protocol.model import Provider as Provider
    from .provider.closure import Closure as Closure
    from .provider.closure import find_closure as find_closure
    from .provider.load import load_provider as load_provider
    from .tree import DirectoryTree as DirectoryTree
    from .tree import MemoryTree as MemoryTree
    from .tree import Tree as Tree

__version__ = "0.1.0"

#: Where each public name is defined.
_HOMES = {
    "BundleManifest": "bundle.manifest",
    "BundlerError": "errors",
    "Closure": "provider.closure",
    "Destination": "bundle.write",
    "Diagnostic": "errors",
    "DirectoryTree": "tree",
    "MemoryTree": "tree",
    "Opened": "bundle.open",
    "Plan": "bundle.plan",
    "Provider": "protocol.model",
    "Tree": "tree",
    "VerifiedBundle": "bundle.verify",
    "build": "bundle.write",
    "find_closure": "provider.closure",
    "load_provider": "provider.load",
    "make_plan": "bundle.plan",
    "open_path": "bundle.open",
    "verify_bundle": "bundle.verify",
    "write_bundle": "bundle.write",
}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604 - the keys are texts


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{home}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
