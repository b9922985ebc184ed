"""Build, verify and review bundles of Agent Graph Providers.

    from bundler import build, make_plan, make_wheel, open_provider

    with open_provider("my-provider") as source:                 # a source: every rule is checked
        build(make_plan(source.tree, source.provider), "dist/provider")
        wheel = make_wheel(source, "dist")                        # wheel.digest identifies the bundle in it
    with open_provider("provider:acme/release") as provider:     # what pip installed, verified
        print(provider.digest)

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
    from .bundle.verified import VerifiedBundle as VerifiedBundle
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
    from .publish.channels import promote as promote
    from .publish.channels import resolve as resolve
    from .publish.checks import Checked as Checked
    from .publish.checks import run_checks as run_checks
    from .publish.evidence import Evidence as Evidence
    from .publish.evidence import read_evidence as read_evidence
    from .publish.index import FolderIndex as FolderIndex
    from .publish.many import release_many as release_many
    from .publish.pitfalls import Pitfall as Pitfall
    from .publish.pitfalls import read_pitfalls as read_pitfalls
    from .publish.record import Release as Release
    from .publish.record import read_release as read_release
    from .publish.release import release as release
    from .publish.repository import find_repository as find_repository
    from .publish.revoke import revoke as revoke
    from .publish.targets import FolderTarget as FolderTarget
    from .publish.targets import ServerTarget as ServerTarget
    from .publish.targets import publish_all as publish_all
    from .runtime.evaluate import Evaluation as Evaluation
    from .runtime.host_actions import HostActionResult as HostActionResult
    from .runtime.host_actions import host_action_input_digest as host_action_input_digest
    from .runtime.host_actions import validate_host_action_result as validate_host_action_result
    from .runtime.materialize import Materialized as Materialized
    from .runtime.open import open_provider as open_provider
    from .runtime.process import Limits as Limits
    from .runtime.provider import OpenedProvider as OpenedProvider
    from .runtime.receipts import ReadReceipt as ReadReceipt
    from .runtime.receipts import make_receipts as make_receipts
    from .runtime.receipts import receipt_of as receipt_of
    from .runtime.route import Route as Route
    from .tree import DirectoryTree as DirectoryTree
    from .tree import MemoryTree as MemoryTree
    from .tree import Tree as Tree
    from .trust.keys import parse_public_key as parse_public_key
    from .trust.policy import Rule as Rule
    from .trust.policy import TrustedKey as TrustedKey
    from .trust.policy import TrustPolicy as TrustPolicy
    from .trust.policy import read_policy as read_policy
    from .trust.sign import sign_wheel as sign_wheel
    from .trust.signing import Signer as Signer
    from .trust.signing import load_signer as load_signer
    from .trust.verdict import Trust as Trust
    from .wheel.build import BuiltWheel as BuiltWheel
    from .wheel.build import make_wheel as make_wheel
    from .wheel.check import VerifiedWheel as VerifiedWheel
    from .wheel.check import open_wheel as open_wheel
    from .wheel.installed import InstalledProvider as InstalledProvider
    from .wheel.installed import find_installed as find_installed
    from .wheel.installed import list_installed as list_installed
    from .wheel.settings import Settings as Settings

__version__ = "0.1.0"

#: Where each public name is defined.
_HOMES = {
    "BuiltWheel": "wheel.build",
    "BundleManifest": "bundle.manifest",
    "BundlerError": "errors",
    "Checked": "publish.checks",
    "Closure": "provider.closure",
    "Destination": "bundle.write",
    "Diagnostic": "errors",
    "DirectoryTree": "tree",
    "Evaluation": "runtime.evaluate",
    "Evidence": "publish.evidence",
    "FolderIndex": "publish.index",
    "FolderTarget": "publish.targets",
    "HostActionResult": "runtime.host_actions",
    "InstalledProvider": "wheel.installed",
    "Limits": "runtime.process",
    "Materialized": "runtime.materialize",
    "MemoryTree": "tree",
    "Opened": "bundle.open",
    "OpenedProvider": "runtime.provider",
    "Pitfall": "publish.pitfalls",
    "Plan": "bundle.plan",
    "Provider": "protocol.model",
    "ReadReceipt": "runtime.receipts",
    "Release": "publish.record",
    "Route": "runtime.route",
    "Rule": "trust.policy",
    "ServerTarget": "publish.targets",
    "Settings": "wheel.settings",
    "Signer": "trust.signing",
    "Tree": "tree",
    "Trust": "trust.verdict",
    "TrustPolicy": "trust.policy",
    "TrustedKey": "trust.policy",
    "VerifiedBundle": "bundle.verified",
    "VerifiedWheel": "wheel.check",
    "build": "bundle.write",
    "find_closure": "provider.closure",
    "find_installed": "wheel.installed",
    "find_repository": "publish.repository",
    "host_action_input_digest": "runtime.host_actions",
    "list_installed": "wheel.installed",
    "load_provider": "provider.load",
    "load_signer": "trust.signing",
    "make_plan": "bundle.plan",
    "make_receipts": "runtime.receipts",
    "make_wheel": "wheel.build",
    "open_path": "bundle.open",
    "open_provider": "runtime.open",
    "open_wheel": "wheel.check",
    "parse_public_key": "trust.keys",
    "promote": "publish.channels",
    "publish_all": "publish.targets",
    "read_evidence": "publish.evidence",
    "read_pitfalls": "publish.pitfalls",
    "read_policy": "trust.policy",
    "read_release": "publish.record",
    "receipt_of": "runtime.receipts",
    "release": "publish.release",
    "release_many": "publish.many",
    "resolve": "publish.channels",
    "revoke": "publish.revoke",
    "run_checks": "publish.checks",
    "sign_wheel": "trust.sign",
    "validate_host_action_result": "runtime.host_actions",
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
