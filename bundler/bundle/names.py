"""Names of a bundle's files that some system cannot hold: refused, or warned of, before a host meets them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..errors import BundlerError, Diagnostic
from ..paths import WINDOWS_PATH_LIMIT, collisions, printable, unportable, windows_character, windows_length
from ..protocol.model import Provider
from ..provider.closure import Closure
from .layout import MANIFEST_NAME


def portability_faults(files: Sequence[str]) -> list[BundlerError]:
    """`path-not-portable` and `path-collision` for the paths of a bundle."""
    faults = [
        BundlerError(
            "path-not-portable", f"`{printable(path)}` can't be a file on every system: {reason}", path=printable(path)
        )
        for path in files
        if (reason := unportable(path)) is not None
    ]
    for first, second in collisions([*files, MANIFEST_NAME]):
        how, shown = "case", (first, second)
        if first.lower() != second.lower():  # they may look the same
            how, shown = "Unicode form or case", (ascii(first)[1:-1], ascii(second)[1:-1])
        message = f"`{shown[0]}` and `{shown[1]}` differ only in {how}: some systems hold one file for both"
        faults.append(BundlerError("path-collision", message, path=second, detail={"other": first}))
    return faults


def portability_warnings(provider: Provider, files: Sequence[str]) -> Iterator[Diagnostic]:
    """`path-long` under a typical site-packages of Windows, and characters that only Windows cannot hold."""
    slug = provider.id.replace("/", "_")
    for path in [*files, MANIFEST_NAME]:
        length = windows_length(slug, path)
        if length > WINDOWS_PATH_LIMIT:
            yield Diagnostic(
                code="path-long",
                severity="warning",
                path=path,
                message=f"`{path}` is {length} characters long once installed on a typical Windows host, "
                f"{WINDOWS_PATH_LIMIT} is its limit",
                hint="shorten the path, or tell Windows users to enable long paths",
            )
        character = windows_character(path)
        if character is not None:
            yield Diagnostic(
                code="path-not-portable",
                severity="warning",
                path=path,
                message=f"`{path}` contains `{character}`, which Windows cannot hold in a name",
                hint="rename the file if the Provider is meant for Windows too",
            )


def junk_notes(closure: Closure) -> list[Diagnostic]:
    """What was left out of Skill folders, in one note."""
    if not closure.left_out:
        return []
    named = [f"{path} ({what})" for path, what in sorted(closure.left_out.items())]
    more = f" and {len(named) - 3} more" if len(named) > 3 else ""
    message = f"left out of Skill folders: {printable(', '.join(named[:3]))}{more}"
    return [
        Diagnostic(
            code="junk-left-out", severity="info", message=message, hint="`agent-bundler inspect files` lists all of it"
        )
    ]


def name_warnings(provider: Provider, closure: Closure) -> list[Diagnostic]:
    """The warnings, and (as warnings, before a build) what it would refuse."""
    files = closure.paths
    refused = [replace(fault.diagnostics[0], severity="warning") for fault in portability_faults(files)]
    return [*refused, *portability_warnings(provider, files), *junk_notes(closure)]
