"""A Provider, wherever it is → opened: a source, a bundle, a wheel, or what pip installed.

What was built is only ever used through verification, and with a policy through its verdict on the signatures. Opening
never fetches and never executes anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from ..bundle.layout import MANIFEST_NAME, PROVIDER_NAME
from ..bundle.open import open_bundle, open_path, recover_missing
from ..trust.host import Host, StrPath, envelope_beside, make_host, read_beside
from .provider import Kind, OpenedProvider

if TYPE_CHECKING:
    from ..bundle.verified import VerifiedBundle
    from ..errors import Diagnostic
    from ..tree import Tree
    from ..trust.policy import TrustPolicy
    from ..trust.verdict import Trust
    from ..wheel.installed import InstalledProvider

SCHEME = "provider:"


@contextmanager
def open_provider(
    reference: StrPath = PROVIDER_NAME,
    *,
    policy: TrustPolicy | StrPath | None = None,
    attestations: Iterable[StrPath] = (),
    demand_policy: bool = False,
    records: StrPath | None = None,
    path: Iterable[str] | None = None,
    built: bool = False,
) -> Iterator[OpenedProvider]:
    """The Provider that is meant; its tree is open inside the block.

    `reference` is the path of a source, a manifest, a bundle or a wheel file, or `provider:ID` for the installed one,
    looked for in the folders of `path` (`sys.path` where none is given). With `built` a source is refused.

    `policy`, or the path of a trust.toml, says whose signature is needed; without one a Provider opens as consistent, not
    trusted, which `trust` of what is opened tells, unless a policy is demanded. `attestations` are files of detached
    signatures, all of this Provider. `records` is a folder for verification records: with one, an unchanged bundle is
    neither judged nor its signatures verified again. Raises what loading, verifying and finding raise, and the
    `signature-…` codes.
    """
    host = make_host(records=records, policy=policy, attestations=attestations, demand_policy=demand_policy)
    with open_on(host, reference, path=path, built=built) as opened:
        yield opened


@contextmanager
def open_on(
    host: Host, reference: StrPath = PROVIDER_NAME, *, path: Iterable[str] | None = None, built: bool = False
) -> Iterator[OpenedProvider]:
    """The same for a host that opens several."""
    text = os.fspath(reference)
    if text.startswith(SCHEME):
        from ..wheel.installed import choose, list_installed

        found = list_installed(path)
        opening = open_installed(host, found, choose(found, text.removeprefix(SCHEME)))
    elif text.endswith(".whl") and not os.path.isdir(text):
        opening = _open_wheel(host, text)
    elif built:
        opening = _open_bundle(host, text)
    else:
        opening = _open_folder(host, text)
    with opening as opened:
        yield opened


@contextmanager
def open_installed(
    host: Host, found: Sequence[InstalledProvider], installed: InstalledProvider
) -> Iterator[OpenedProvider]:
    """One of the Providers that `list_installed` found. Raises what keeps it from being used."""
    from ..wheel.installed import shadow_notes
    from ..wheel.installed_check import verified_install

    memory = _Memory(host, installed.root)
    with verified_install(installed, memory.recall) as install:
        trust = memory.trust or host.judge(install.contents, install.envelope, installed.envelope)
        notes = [*shadow_notes(found, installed), *memory.keep(install.bundle, trust)]
        yield _opened(
            install.bundle,
            trust,
            installed.root,
            "installed",
            notes,
            contents=install.contents,
            identity=install.identity,
            requires=install.requires,
            bytecode=install.bytecode,
        )


def find_manifest(provider_id: str) -> str | None:
    """Where the manifest of an installed Provider lies, for Skills that name it by id; None if it is not installed.

    It is not verified by that: open it as `provider:ID`. Raises what keeps an installed one from being used.
    """
    from ..wheel.installed import choose, list_installed

    found = list_installed()
    if all(each.id != provider_id for each in found):
        return None
    return os.path.join(choose(found, provider_id).root, PROVIDER_NAME)


@contextmanager
def _open_folder(host: Host, place: str) -> Iterator[OpenedProvider]:
    memory = _Memory(host, "")
    with open_path(place, memory.verify) as opened:
        if opened.bundle is not None:
            yield _judged(host, memory, opened.bundle, opened.root)
            return
        host.judge_source(opened.provider.id, opened.provider.version)
        members = {each.name: getattr(opened, each.name) for each in fields(opened)}
        yield OpenedProvider(**members, kind="source")


@contextmanager
def _open_bundle(host: Host, place: str) -> Iterator[OpenedProvider]:
    is_manifest = os.path.basename(place) == MANIFEST_NAME and not os.path.isdir(place)
    folder = os.path.abspath(os.path.dirname(os.path.abspath(place)) if is_manifest else place)
    recover_missing(folder)
    memory = _Memory(host, "")
    with open_bundle(folder, memory.verify) as bundle:
        yield _judged(host, memory, bundle, folder)


def _judged(host: Host, memory: _Memory, bundle: VerifiedBundle, folder: str) -> OpenedProvider:
    from ..wheel.contents import contents_of

    contents = contents_of(bundle)
    trust = memory.trust or host.judge(contents, memory.envelope, envelope_beside(folder))
    return _opened(bundle, trust, folder, "bundle", memory.keep(bundle, trust), contents=contents)


@contextmanager
def _open_wheel(host: Host, file: str) -> Iterator[OpenedProvider]:
    from ..wheel.check import open_wheel

    with open_wheel(file) as wheel:
        trust = host.judge(wheel.contents, wheel.envelope, f"{wheel.path}: {wheel.identity.envelope}")
        more: dict[str, Any] = {"contents": wheel.contents, "identity": wheel.identity, "requires": wheel.requires}
        yield _opened(wheel.bundle, trust, wheel.path, "wheel", **more)


class _Memory:
    """What the host's records know of one bundle while it is opened."""

    def __init__(self, host: Host, root: str) -> None:
        self._host, self._root = host, root
        self._context = ""
        self.envelope: bytes | None = None
        #: The verdict of the record, where there is one.
        self.trust: Trust | None = None

    def recall(self, tree: Tree, context: str) -> VerifiedBundle | None:
        """The bundle in a tree that a record vouches for; `context` stands for what was verified with it."""
        if self._host.records is None:
            return None
        self._context = "\n".join(filter(None, (context, self._host.binding(self.envelope))))
        found = self._host.records.recall(tree, self._root, self._context)
        if found is None:
            return None
        self.trust = found.trust
        return found.bundle

    def verify(self, tree: Tree) -> VerifiedBundle:
        """The bundle in a folder, recalled or verified now, and the envelope that lies beside the folder."""
        from ..bundle.verify import verify_bundle

        self._root = tree.roots[-1]
        self.envelope = read_beside(tree.roots[0])
        return self.recall(tree, "") or verify_bundle(tree)

    def keep(self, bundle: VerifiedBundle, trust: Trust) -> list[Diagnostic]:
        """Remember what was verified just now; what kept it from being written."""
        if self._host.records is None or self.trust is not None:
            return []
        self._host.records.keep(bundle, trust, self._root, self._context)
        return self._host.records.notes


def _opened(
    bundle: VerifiedBundle,
    trust: Trust,
    root: str,
    kind: Kind,
    notes: Iterable[Diagnostic] = (),
    **more: Any,
) -> OpenedProvider:
    return OpenedProvider(
        root=root,
        tree=bundle.tree,
        provider=bundle.provider,
        closure=bundle.closure,
        bundle=bundle,
        trust=trust,
        warnings=(*bundle.warnings, *notes),
        kind=kind,
        **more,
    )
