"""Providers that pip installed: found by their metadata, which is read; code is never imported.

What a distribution in one of the folders of `sys.path` says in `[agent_graph.providers]` is a Provider. As for
imports, the first one on the path wins. Broken installs are told, not raised, so that one does not hide the others.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from ..bundle.layout import MANIFEST_NAME, MAX_MANIFEST_BYTES
from ..errors import CODES, BundlerError, Diagnostic
from ..paths import printable
from ..tree import DirectoryTree
from .distinfo import MAX_ENTRY_POINTS, check_entry_point, normalized, parse_entry_points, read_metadata
from .naming import ENVELOPE_NAME, GROUP, NAMESPACE, claimed_by, module_name

_INFO = (".dist-info", ".egg-info")
ARCHIVES = (".whl", ".zip", ".egg")
_MAX_DIRECT_URL = 64 * 1024
# What pip renames to remove it begins so, and is left if pip is killed; pip passes it over too.
_REMOVED = "~"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledProvider:
    """What one distribution says of a Provider; nothing of it is verified.

    `location` is the folder on the path, `info` the distribution's folder in it, `module` the Provider's folder below
    `agent_graph_providers`. `digest` is what manifest.json says of itself. `problem` tells why it can't be used, and
    `shadowed_by` which location of the same distribution comes first on the path.
    """

    id: str
    distribution: str
    version: str
    location: str
    info: str
    module: str | None
    digest: str | None = None
    problem: Diagnostic | None = None
    shadowed_by: str | None = None

    @property
    def root(self) -> str:
        """The bundle's folder."""
        return os.path.join(self.location, NAMESPACE, self.module or "", "bundle")

    @property
    def envelope(self) -> str:
        """Where the signed statement about the bundle lies, if there is one."""
        return os.path.join(self.location, NAMESPACE, self.module or "", ENVELOPE_NAME)


def list_installed(path: Iterable[str] | None = None) -> list[InstalledProvider]:
    """Every Provider on the path (`sys.path` where none is given), in its order, those that can't be used too."""
    found: list[InstalledProvider] = []
    first: dict[tuple[str, str], str] = {}
    for location in locations(path):
        for each in _once(sorted(_at(location), key=lambda each: (each.id, each.info))):
            key = (each.id, each.distribution)
            before = first.setdefault(key, location)
            found.append(each if before == location else replace(each, shadowed_by=before))
    return found


def choose(everything: Sequence[InstalledProvider], provider_id: str) -> InstalledProvider:
    """The Provider of that id that comes first among those that `list_installed` gave.

    Raises `provider-not-installed`; `installed-provider-duplicate` where two distributions claim the id; and the
    problem that keeps it from being used.
    """
    found = [each for each in everything if each.id == provider_id]
    if not found:
        raise not_installed(everything, provider_id)
    others = duplicates(found)
    if others:
        raise BundlerError("installed-provider-duplicate", others[0].message, diagnostics=others)
    chosen = found[0]
    if chosen.problem is not None:
        raise BundlerError(
            chosen.problem.code, chosen.problem.message, hint=chosen.problem.hint, diagnostics=(chosen.problem,)
        )
    return chosen


def find_installed(provider_id: str, path: Iterable[str] | None = None) -> InstalledProvider:
    """The installed Provider of that id, not verified. Raises what `choose` raises."""
    return choose(list_installed(path), provider_id)


def not_installed(everything: Sequence[InstalledProvider], provider_id: str) -> BundlerError:
    """`provider-not-installed`, with what is installed."""
    from ..errors import Suggestions

    known = sorted({each.id for each in everything})
    return BundlerError(
        "provider-not-installed",
        f"no Provider `{printable(provider_id)}` is installed{Suggestions().near(provider_id, known)}; "
        f"installed: {', '.join(known) or 'none'}",
    )


def shadow_notes(everything: Sequence[InstalledProvider], chosen: InstalledProvider) -> list[Diagnostic]:
    """What a user is told of further installs of the chosen Provider, which are not used."""
    return [
        Diagnostic(
            code="installed-shadowed",
            severity="warning",
            message=f"{chosen.id}: {chosen.distribution} {chosen.version} in {chosen.location} is used; "
            f"{each.version} in {each.location} comes after it on the path",
            path=each.location,
            hint=CODES["installed-shadowed"],
        )
        for each in everything
        if each.id == chosen.id and each.shadowed_by is not None
    ]


def duplicates(found: Sequence[InstalledProvider]) -> list[Diagnostic]:
    """`installed-provider-duplicate` for each id that more than one distribution claims."""
    claims: dict[str, dict[str, InstalledProvider]] = {}
    for each in found:
        claims.setdefault(each.id, {}).setdefault(each.distribution, each)
    return [
        Diagnostic(
            code="installed-provider-duplicate",
            message=f"the Provider `{provider_id}` is claimed by "
            + " and by ".join(f"{each.distribution} {each.version} in {each.location}" for each in owners.values()),
            hint=CODES["installed-provider-duplicate"],
        )
        for provider_id, owners in claims.items()
        if len(owners) > 1
    ]


def claimed_once(found: Sequence[InstalledProvider]) -> list[InstalledProvider]:
    """The same, where an id that several distributions claim is a problem of each: none of them is opened."""
    claims: dict[str, list[InstalledProvider]] = {}
    for each in found:
        claims.setdefault(each.id, []).append(each)
    told = {provider_id: duplicates(owners) for provider_id, owners in claims.items()}
    return [replace(each, problem=told[each.id][0]) if told[each.id] else each for each in found]


def locations(path: Iterable[str] | None) -> Iterator[str]:
    """The folders and archives of the path, absolute, each once."""
    seen: set[str] = set()
    for each in sys.path if path is None else path:
        try:
            location = os.path.abspath(each or os.curdir)
            real = os.path.realpath(location)
        except (OSError, ValueError):
            continue  # as for imports: a relative one where the current folder is gone, or one that is no path
        if real not in seen:
            seen.add(real)
            yield location


def _at(location: str) -> Iterator[InstalledProvider]:
    if location.endswith(ARCHIVES) and os.path.isfile(location):
        yield from _zipped(location)
        return
    try:
        with os.scandir(location) as entries:
            names = [entry.name for entry in entries]
    except OSError:
        return  # as for imports: what is no folder, or can't be read, holds nothing
    infos = [name for name in names if name.endswith(_INFO) and not name.startswith(_REMOVED)]
    if not infos:
        return
    with DirectoryTree(location) as tree:
        for info in infos:
            yield from _distribution(tree, location, info)


def _distribution(tree: DirectoryTree, location: str, info: str) -> Iterator[InstalledProvider]:
    path = f"{info}/entry_points.txt"
    try:
        # Most distributions have none, or none of ours; opening one is cheaper than asking whether it is there.
        text = tree.read(path, MAX_ENTRY_POINTS)
        why = f"{path} names no Provider"
    except BundlerError as error:
        text, why = b"", error.message
    if GROUP.encode() not in text:
        yield from _unnamed(tree, location, info, why)
        return
    entries = parse_entry_points(text.decode(errors="replace"))
    for group, name, value in entries:
        if group == GROUP:
            yield _provider(tree, location, info, name, value, alone=len(entries) == 1)


def _unnamed(tree: DirectoryTree, location: str, info: str, why: str) -> Iterator[InstalledProvider]:
    """A distribution without a Provider's entry point whose name is one's: broken, where that one's folder is there."""
    provider_id = claimed_by(normalized(info.partition("-")[0]))
    if provider_id is not None and tree.names(f"{NAMESPACE}/{module_name(provider_id)}"):
        found = _guessed(provider_id, location, info)
        yield replace(found, problem=_problem(found, _broken(found, why)))


def _guessed(name: str, location: str, info: str) -> InstalledProvider:
    """What the names alone say."""
    stem = printable(info.rpartition(".")[0])
    distribution, _, version = stem.partition("-")
    return InstalledProvider(
        id=printable(name),
        distribution=normalized(distribution),
        version=version,
        location=location,
        info=info,
        module=None,
    )


def _once(found: list[InstalledProvider]) -> Iterator[InstalledProvider]:
    """Those of one folder. Where a distribution has several .dist-info folders, nothing tells which one is current."""
    infos: dict[str, dict[str, None]] = {}
    for each in found:
        infos.setdefault(each.distribution, {})[printable(each.info)] = None
    for each in found:
        several = infos[each.distribution]
        if each.problem is None and len(several) > 1:
            why = f"{' and '.join(several)} lie there: an upgrade left one, as `pip install --target --upgrade` does"
            yield replace(each, problem=_problem(each, _broken(each, why)))
        else:
            yield each


def _provider(
    tree: DirectoryTree, location: str, info: str, name: str, value: str, *, alone: bool
) -> InstalledProvider:
    found = _guessed(name, location, info)
    try:
        if not info.endswith(".dist-info"):
            raise _broken(found, "it was installed without a wheel (by setup.py), and lists no files")
        entry = check_entry_point(f"{info}/entry_points.txt", name, value)
        found = replace(found, module=entry.module)
        metadata = read_metadata(tree, info)
        found = replace(found, distribution=metadata.name, version=metadata.version)
        if not alone:
            raise _broken(found, "it has further entry points: a Provider has one, and installs no commands")
        return replace(found, digest=_digest(tree, found))
    except BundlerError as error:
        return replace(found, problem=_problem(found, error))


def _digest(tree: DirectoryTree, found: InstalledProvider) -> str:
    """What the installed manifest.json says of itself. Raises what tells why there is none."""
    path = f"{NAMESPACE}/{found.module}/bundle/{MANIFEST_NAME}"
    try:
        digest = json.loads(tree.read(path, MAX_MANIFEST_BYTES))["digest"]
        if _DIGEST.match(digest):
            return str(digest)
        raise _broken(found, f"{path} has no digest of a bundle")
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _broken(found, f"{path} is damaged") from None
    except BundlerError as error:
        if _is_editable(tree, found.info):
            raise BundlerError(
                "installed-editable",
                f"{found.distribution} in {found.location} is an editable install: it points at a source, and has no bundle",
                path=found.location,
            ) from None
        if error.code == "file-missing":
            raise _broken(
                found,
                f"{path} is missing: it was removed in part, built by something else, or not copied, "
                "which `pip install --target` does where another Provider is; give pip all of them at once",
            ) from None
        raise


def _is_editable(tree: DirectoryTree, info: str) -> bool:
    with suppress(BundlerError, ValueError, AttributeError, RecursionError):
        value = json.loads(tree.read(f"{info}/direct_url.json", _MAX_DIRECT_URL))
        return bool(value.get("dir_info", {}).get("editable"))
    return False


def _problem(found: InstalledProvider, error: BundlerError) -> Diagnostic:
    if error.code in ("installed-broken", "installed-editable"):
        return error.diagnostics[0]
    message = f"{found.distribution} in {found.location} is broken: {error.message}"
    return Diagnostic(code="installed-broken", message=message, path=found.location, hint=CODES["installed-broken"])


def _broken(found: InstalledProvider, why: str) -> BundlerError:
    return BundlerError(
        "installed-broken",
        f"{found.distribution} {found.version} in {found.location} is broken: {why}",
        path=found.location,
    )


def _zipped(file: str) -> Iterator[InstalledProvider]:
    """A Provider's wheel that was put on the path as it is: Python can import from it, a host can't run from it."""
    import zlib
    from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

    broken = (OSError, EOFError, BadZipFile, ValueError, NotImplementedError, RuntimeError, zlib.error)
    with suppress(*broken), ZipFile(file) as archive:
        for name in archive.namelist():
            info, _, rest = name.partition("/")
            entry = archive.getinfo(name)
            if rest != "entry_points.txt" or entry.file_size > MAX_ENTRY_POINTS:
                continue
            if entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
                continue  # nothing that makes wheels writes it, and its errors are legion
            for group, provider_id, _ in parse_entry_points(archive.read(name).decode(errors="replace")):
                if group == GROUP:
                    message = (
                        f"{file} is an archive on the path: its files are not on disk, where a host runs them from"
                    )
                    yield replace(
                        _guessed(provider_id, file, info),
                        problem=Diagnostic(
                            code="installed-zipped", message=message, path=file, hint=CODES["installed-zipped"]
                        ),
                    )
