"""What a bundle folder differs in from the bundle that a source gives now (`build --check`)."""

from __future__ import annotations

from collections.abc import Iterator, Set

from ..errors import CODES, BundlerError, Diagnostic
from ..paths import junk, printable
from ..protocol.canonical import sha256
from ..tree import Tree, folders_of, strangers
from .digests import digest_of_file
from .layout import MANIFEST_NAME
from .manifest import BundleManifest
from .verify import why_different


def differences(tree: Tree, manifest: BundleManifest, executable: Set[str]) -> Iterator[Diagnostic]:
    """Each way in which the tree is not the bundle that `manifest` describes, executable bits included.

    `executable` are the paths of the bundle with an executable bit. Raises `file-read-failed`.
    """
    expected = {**manifest.files, MANIFEST_NAME: sha256(manifest.to_bytes())}
    kinds = dict.fromkeys(folders_of(expected), "folder") | dict.fromkeys(expected, "file")
    entries = list(tree.entries())
    for entry in strangers(entries, lambda entry: kinds.get(entry.path) == entry.kind):
        kind = junk(entry.path.rpartition("/")[2])
        path = printable(entry.path)
        yield _difference(
            path, f"the {entry.kind} `{path}` is not part of the bundle" + (f" ({kind.what})" if kind else "")
        )
    found = {entry.path for entry in entries if entry.kind == "file"}
    for path, listed in expected.items():
        if path not in found:
            yield _difference(path, f"`{path}` is missing")
            continue
        with tree.open(path) as reader:
            is_executable = reader.executable
        if digest_of_file(tree, path) != listed:
            yield _difference(path, f"`{path}` has other content{why_different(tree, path, listed)}")
        elif is_executable != (path in executable):
            yield _difference(path, f"`{path}` {'has an' if is_executable else 'lacks its'} executable bit")


def check_output_current(tree: Tree, manifest: BundleManifest, executable: Set[str]) -> None:
    """Raises `build-output-differs`, one diagnostic a difference."""
    found = list(differences(tree, manifest, executable))
    if found:
        raise BundlerError(
            "build-output-differs",
            f"{tree.describe('')} is not what the source builds now: {found[0].message}"
            + (f" (and {len(found) - 1} more)" if len(found) > 1 else ""),
            diagnostics=found,
        )


def _difference(path: str, message: str) -> Diagnostic:
    return Diagnostic(code="build-output-differs", message=message, path=path, hint=CODES["build-output-differs"])
