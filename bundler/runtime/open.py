"""A Provider, wherever it is → opened: a source, a bundle, a wheel, or what pip installed.

What was built is only ever used through verification. Opening never fetches and never executes anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from ..bundle.layout import MANIFEST_NAME, PROVIDER_NAME
from ..bundle.open import open_bundle, open_path, recover_missing
from .provider import Kind, OpenedProvider

if TYPE_CHECKING:
    from ..bundle.verified import VerifiedBundle
    from ..errors import Diagnostic
    from ..tree import Tree
    from ..trust.records import Records
    from ..wheel.installed import InstalledProvider

SCHEME = "provider:"


@contextmanager
def open_provider(
    reference: str | os.PathLike[str] = PROVIDER_NAME,
    *,
    records: str | os.PathLike[str] | None = None,
    path: Iterable[str] | None = None,
    built: bool = False,
) -> Iterator[OpenedProvider]:
    """The Provider that is meant; its tree is open inside the block.

    `reference` is the path of a source, a manifest, a bundle or a wheel file, or `provider:ID` for the installed one,
    looked for in the folders of `path` (`sys.path` where none is given). With `built` a source is refused. `records` is
    a folder for verification records: with one, an unchanged bundle is not judged again. Raises what loading, verifying
    and finding raise.
    """
    text = os.fspath(reference)
    if text.startswith(SCHEME):
        from ..wheel.installed import choose, list_installed

        found = list_installed(path)
        opening = open_installed(found, choose(found, text.removeprefix(SCHEME)), records=records)
    elif text.endswith(".whl") and not os.path.isdir(text):
        opening = _open_wheel(text)
    elif built:
        opening = _open_bundle(text, _records(records))
    else:
        opening = _open_folder(text, _records(records))
    with opening as opened:
        yield opened


@contextmanager
def open_installed(
    found: Sequence[InstalledProvider], installed: InstalledProvider, *, records: str | os.PathLike[str] | None = None
) -> Iterator[OpenedProvider]:
    """One of the Providers that `list_installed` found. Raises what keeps it from being used."""
    from ..wheel.installed import shadow_notes
    from ..wheel.installed_check import verified_install

    known = _records(records)

    def recall(tree: Tree, context: str) -> VerifiedBundle | None:
        return None if known is None else known.recall(tree, installed.root, context)

    with verified_install(installed, recall) as install:
        notes = shadow_notes(found, installed)
        if known is not None and not install.recalled:
            known.keep(install.bundle, installed.root, install.context)
            notes += known.notes
        yield _opened(
            install.bundle,
            installed.root,
            "installed",
            notes,
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
def _open_folder(place: str, records: Records | None) -> Iterator[OpenedProvider]:
    with open_path(place, _verifier(records)) as opened:
        if opened.bundle is not None:
            yield _opened(opened.bundle, opened.root, "bundle", records.notes if records else ())
            return
        members = {each.name: getattr(opened, each.name) for each in fields(opened)}
        yield OpenedProvider(**members, kind="source")


@contextmanager
def _open_bundle(place: str, records: Records | None) -> Iterator[OpenedProvider]:
    is_manifest = os.path.basename(place) == MANIFEST_NAME and not os.path.isdir(place)
    folder = os.path.abspath(os.path.dirname(os.path.abspath(place)) if is_manifest else place)
    recover_missing(folder)
    with open_bundle(folder, _verifier(records)) as bundle:
        yield _opened(bundle, folder, "bundle", records.notes if records else ())


@contextmanager
def _open_wheel(file: str) -> Iterator[OpenedProvider]:
    from ..wheel.check import open_wheel

    with open_wheel(file) as wheel:
        yield _opened(wheel.bundle, wheel.path, "wheel", identity=wheel.identity, requires=wheel.requires)


def _records(folder: str | os.PathLike[str] | None) -> Records | None:
    if folder is None:
        return None
    from ..trust.records import Records

    return Records(folder)


def _verifier(records: Records | None) -> Callable[[Tree], VerifiedBundle] | None:
    return None if records is None else lambda tree: records.verify(tree, tree.roots[-1])


def _opened(
    bundle: VerifiedBundle, root: str, kind: Kind, notes: Iterable[Diagnostic] = (), **more: Any
) -> OpenedProvider:
    return OpenedProvider(
        root=root,
        tree=bundle.tree,
        provider=bundle.provider,
        closure=bundle.closure,
        bundle=bundle,
        warnings=(*bundle.warnings, *notes),
        kind=kind,
        **more,
    )
