"""Bundle → `VerifiedBundle`: the checks of loading a bundle, in their order (protocol: "The bundle").

1. manifest.json: read, parsed, its schema; 2. the overall digest; 3. each listed file once, inside the
root, present, of its digest; 4. catalog entries against `files`; 5. the provider manifest is listed;
6. identity; 7. everything that a source Provider must satisfy; 8. catalogs against what is reachable;
9. the file set against what is reachable and against what lies in the tree; 10. the dependency index.

All differences are collected, the first one gives the code. What was hashed is what is parsed.

What is *not* verified: who made the bundle. Digests that match its own manifest make it *consistent*;
*trusted* takes a signature. Executable bits are in no digest.
"""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace

from ..errors import BundlerError, Diagnostic
from ..paths import fold, junk, normalize, printable
from ..protocol import schemas
from ..protocol.canonical import key_order, sha256
from ..protocol.documents import MAX_BYTES, parse
from ..protocol.model import Provider
from ..provider.closure import Closure, find_closure
from ..provider.load import load_provider
from ..tree import Entry, Tree, folders_of, strangers
from . import manifest as bundle_manifest
from .digests import digest_file
from .layout import MANIFEST_NAME, MAX_MANIFEST_BYTES
from .listed import MAX_KEPT_BYTES, ListedTree
from .manifest import BundleManifest, CatalogEntry
from .verified import VerifiedBundle, prove

# Differences named one by one; the rest is counted.
_MAX_NAMED = 200


def verify_bundle(tree: Tree) -> VerifiedBundle:
    """The bundle whose manifest.json lies in the tree's root. The tree must stay open while it is used.

    Raises `BundlerError`: `file-missing`, `parse-failed`, `schema-invalid`, the `bundle-…` codes, and those of loading.
    """
    data, executable = _read_manifest(tree)
    try:
        return _verify(tree, data, executable)
    except BundlerError as error:
        raise _for_its_user(error) from None


def _verify(tree: Tree, data: bytes, executable: bool) -> VerifiedBundle:
    # 1. the manifest
    manifest, document = bundle_manifest.read(data)
    faults: list[BundlerError] = []
    # 2. the overall digest
    actual = bundle_manifest.digest_of(document.value)
    if actual != manifest.digest:
        faults.append(
            BundlerError(
                "bundle-digest-mismatch",
                f"{MANIFEST_NAME} has the digest {actual}, and names {manifest.digest} as its own: it was changed after it was built",
                path=MANIFEST_NAME,
            )
        )
    # 3. each listed file
    listed = ListedTree(tree, manifest.files)
    entries = list(tree.entries())
    broken = list(_file_faults(document.value["files"], manifest, tree, listed, entries))
    if faults or broken:
        # What else lies there belongs to the same story; its content is not looked at.
        extra = _disk_faults(entries, manifest, reported={fault.diagnostics[0].path for fault in broken})
        raise BundlerError.of(_bounded([*faults, *broken, *extra]))
    # 4. catalogs against files
    faults.extend(_catalog_file_faults(manifest))
    # 5. the provider manifest is listed
    if manifest.provider_manifest not in manifest.files:
        faults.append(
            BundlerError(
                "bundle-provider-unlisted",
                f"{MANIFEST_NAME} names the provider manifest `{manifest.provider_manifest}` and does not list it among its files",
                path=MANIFEST_NAME,
            )
        )
        raise BundlerError.of(faults)
    # 6. identity
    faults.extend(_identity_faults(listed, manifest))
    # 7. what a source must satisfy
    warnings: list[Diagnostic] = []
    try:
        provider = load_provider(listed, manifest.provider_manifest, warn=warnings.append)
    except BundlerError as error:
        raise BundlerError.of([*faults, error]) from None
    closure = find_closure(provider)
    # 8. catalogs against what is reachable
    faults.extend(_catalog_faults(manifest, bundle_manifest.catalogs(provider, manifest.files)))
    # 9. the file set against what is reachable, and what lies there
    faults.extend(_reachable_faults(manifest, closure))
    faults.extend(_disk_faults(entries, manifest))
    # 10. the dependency index
    faults.extend(_dependency_faults(manifest, provider))
    if faults:
        raise BundlerError.of(_bounded(faults))
    listed.kept.clear()
    return prove(
        tree=listed,
        manifest=manifest,
        manifest_digest=sha256(data),
        executable=frozenset({*listed.executable, *([MANIFEST_NAME] if executable else [])}),
        provider=provider,
        closure=closure,
        warnings=tuple(warnings),
    )


_REMEDY = "rebuild the bundle from its source, or fetch it again from where it was published"


def _for_its_user(error: BundlerError) -> BundlerError:
    """The same error with the remedy of those who have a bundle: the one of an author would have them change it."""
    diagnostics = [
        diagnostic
        if diagnostic.code.startswith("bundle-") or diagnostic.code == "file-read-failed"
        else replace(diagnostic, hint=_REMEDY)
        for diagnostic in error.diagnostics
    ]
    return BundlerError(error.code, error.message, hint=diagnostics[0].hint, diagnostics=diagnostics)


def _read_manifest(tree: Tree) -> tuple[bytes, bool]:
    """The bytes of manifest.json, and whether it is executable."""
    try:
        with tree.open(MANIFEST_NAME) as reader:
            return reader.read_all(MAX_MANIFEST_BYTES), reader.executable
    except BundlerError as error:
        if error.code == "file-missing":
            raise BundlerError(
                error.code,
                f"{tree.describe('')} is no bundle: {error.message}",
                path=MANIFEST_NAME,
                hint="name the folder that `agent-bundler build` wrote",
            ) from None
        raise


def _file_faults(
    files: list[dict[str, str]], manifest: BundleManifest, tree: Tree, listed: ListedTree, entries: list[Entry]
) -> Iterator[BundlerError]:
    """Read and hash every listed file, in the order listed; keep what will be parsed, note what is executable."""
    parsed = {entry.path for catalog in manifest.catalogs.values() for entry in catalog} | {manifest.provider_manifest}
    spellings = {fold(entry.path): entry.path for entry in entries if entry.path not in manifest.files}
    room = MAX_KEPT_BYTES
    seen: set[str] = set()
    changed = 0
    for file in files:
        path = file["path"] if file["path"] in manifest.files else normalize(file["path"])
        if path in seen:
            yield BundlerError("bundle-file-duplicate", f"{MANIFEST_NAME} lists `{path}` twice", path=path)
            continue
        seen.add(path)
        data: bytes | None = None
        try:
            small = tree.small(path)
            if small is not None:
                data, is_executable = small
                actual = sha256(data)
            else:
                digested = digest_file(tree, path, "sha256")
                actual, is_executable = f"sha256:{digested.hex}", digested.executable
        except BundlerError as error:
            yield _why_missing(path, error, spellings) if error.code == "file-missing" else error
            continue
        if is_executable:
            listed.executable.add(path)
        if actual != file["digest"]:
            changed += 1
            why = why_different(tree, path, file["digest"]) if changed <= _MAX_NAMED else ""
            yield BundlerError(
                "bundle-file-digest-mismatch",
                f"`{path}` is not the file that was built{why}: it has {actual}, listed is {file['digest']}",
                path=path,
                detail={"listed": file["digest"], "actual": actual},
            )
        elif data is not None and path in parsed and len(data) <= room:
            room -= len(data)
            listed.kept[path] = (data, is_executable)


def why_different(tree: Tree, path: str, listed: str) -> str:
    """What happened to the content, where trying it out can tell."""
    try:
        data = tree.read(path, MAX_BYTES)
    except BundlerError:  # too large, or gone by now: the difference itself is told anyway
        return ""
    bom = codecs.BOM_UTF8
    unix = data.replace(b"\r\n", b"\n")
    tries = (
        ("only its line ends differ", unix),
        ("only its line ends differ", unix.replace(b"\n", b"\r\n")),
        ("a byte order mark was added", data.removeprefix(bom)),
        ("its byte order mark is gone", bom + data),
        ("its line ends differ and a byte order mark was added", unix.removeprefix(bom)),
        ("only the line end at its end differs", data.rstrip(b"\r\n") + b"\n"),
        ("only the line end at its end differs", data.rstrip(b"\r\n")),
        ("only its Unicode form differs", _normalized(data, "NFC")),
        ("only its Unicode form differs", _normalized(data, "NFD")),
    )
    for what, candidate in tries:
        if sha256(candidate) == listed:
            return f" ({what})"
    return ""


def _normalized(data: bytes, form: str) -> bytes:
    try:
        return unicodedata.normalize(form, data.decode()).encode()  # type: ignore[arg-type]
    except UnicodeDecodeError:
        return data


def _why_missing(path: str, error: BundlerError, spellings: Mapping[str, str]) -> BundlerError:
    """The same error, with the file that lies there under another spelling of the name."""
    other = spellings.get(fold(path))
    if other is None:
        return error
    how = "case" if other.lower() == path.lower() else "Unicode form"
    message = f"`{path}` does not exist; `{printable(other)}` does, whose name differs only in {how}"
    return BundlerError(error.code, message, path=path)


def _catalog_file_faults(manifest: BundleManifest) -> Iterator[BundlerError]:
    for name, entries in manifest.catalogs.items():
        for entry in entries:
            listed = manifest.files.get(entry.path)
            if listed != entry.digest:
                problem = "is not among the files" if listed is None else f"has {listed} among the files"
                yield BundlerError(
                    "bundle-catalog-mismatch",
                    f"{MANIFEST_NAME}: `{name}` names `{entry.id}` with {entry.path} and {entry.digest}, which {problem}",
                    path=MANIFEST_NAME,
                )


def _identity_faults(tree: ListedTree, manifest: BundleManifest) -> Iterator[BundlerError]:
    path = manifest.provider_manifest
    try:
        document = parse(tree.read(path, MAX_BYTES), path)
        schemas.check(document, "provider")
    except BundlerError:
        return  # loading tells it
    for name, listed in (("id", manifest.provider_id), ("version", manifest.provider_version)):
        actual = document.value[name]
        if actual != listed:
            yield BundlerError(
                "bundle-provider-mismatch",
                f"{MANIFEST_NAME} is of a Provider with the {name} {listed}, {path} of one with {actual}",
                path=MANIFEST_NAME,
            )


def _catalog_faults(
    manifest: BundleManifest, expected: Mapping[str, tuple[CatalogEntry, ...]]
) -> Iterator[BundlerError]:
    for name, wanted in expected.items():
        found = manifest.catalogs[name]
        for entry in sorted(set(wanted) - set(found)):
            yield BundlerError(
                "bundle-catalog-mismatch",
                f"{MANIFEST_NAME}: `{name}` lacks `{entry.id}` ({entry.path}), which the Provider reaches",
                path=MANIFEST_NAME,
            )
        for entry in sorted(set(found) - set(wanted)):
            yield BundlerError(
                "bundle-catalog-mismatch",
                f"{MANIFEST_NAME}: `{name}` names `{entry.id}` ({entry.path}), which the Provider does not reach so",
                path=MANIFEST_NAME,
            )
        if len(found) != len(set(found)):
            yield BundlerError(
                "bundle-catalog-mismatch", f"{MANIFEST_NAME}: `{name}` lists an entry twice", path=MANIFEST_NAME
            )


def _reachable_faults(manifest: BundleManifest, closure: Closure) -> Iterator[BundlerError]:
    reachable = {item.path for item in closure.reasons}
    for path in sorted(reachable - set(manifest.files)):
        yield BundlerError(
            "bundle-files-mismatch",
            f"`{path}` is needed ({closure.why(path)[0]}) and not listed in {MANIFEST_NAME}",
            path=path,
        )
    for path in sorted(set(manifest.files) - reachable):
        yield BundlerError(
            "bundle-files-mismatch",
            f"`{path}` is listed in {MANIFEST_NAME}, and nothing in the Provider names it",
            path=path,
        )


def _disk_faults(
    entries: list[Entry], manifest: BundleManifest, reported: Set[str | None] = frozenset()
) -> Iterator[BundlerError]:
    """Everything in the tree that is no listed file, not manifest.json, and no folder leading to one."""
    listed = {*manifest.files, MANIFEST_NAME}
    folders = folders_of(listed)
    expected = dict.fromkeys(folders, "folder") | dict.fromkeys(listed, "file")
    for entry in strangers(entries, lambda entry: expected.get(entry.path) == entry.kind):
        path = printable(entry.path)
        if path in reported:
            continue
        if entry.path in expected:
            yield BundlerError(
                "bundle-files-mismatch",
                f"`{path}` is a {entry.kind}; the bundle was built with a {expected[entry.path]} there",
                path=path,
            )
            continue
        kind = junk(entry.path.rpartition("/")[2])
        what = entry.kind + (f", {kind.what}" if kind else "")
        yield BundlerError(
            "bundle-files-mismatch", f"`{path}` lies in the bundle and is not part of it ({what})", path=path
        )


def _dependency_faults(manifest: BundleManifest, provider: Provider) -> Iterator[BundlerError]:
    found = manifest.graph_dependencies
    wanted = {graph.id: graph.dependencies for graph in provider.graphs.values()}
    for graph in sorted({*found, *wanted}, key=key_order):
        if sorted(found.get(graph, ("-",))) != sorted(wanted.get(graph, ("-",))):
            named, needed = (
                ", ".join(index[graph]) or "none" if graph in index else "nothing at all" for index in (found, wanted)
            )
            yield BundlerError(
                "bundle-dependencies-mismatch",
                f"{MANIFEST_NAME}: the dependency index names {named} for the Graph `{graph}`, whose Subgraphs are {needed}",
                path=MANIFEST_NAME,
            )


def _bounded(faults: list[BundlerError]) -> list[BundlerError]:
    if len(faults) <= _MAX_NAMED:
        return faults
    rest = len(faults) - _MAX_NAMED
    return [*faults[:_MAX_NAMED], BundlerError(faults[0].code, f"and {rest} further differences")]
