"""Provider → what its bundle holds; everything that a build refuses before it writes (protocol: "Build refuses")."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..errors import BundlerError, Diagnostic
from ..paths import (
    WINDOWS_PATH_LIMIT,
    code_unit_key,
    collisions,
    printable,
    unportable,
    windows_character,
    windows_length,
)
from ..protocol.documents import parse_yaml
from ..protocol.emit import provider_yaml
from ..protocol.model import Provider
from ..provider.closure import Closure, find_closure
from ..tree import Tree
from .manifest import MANIFEST_NAME, MAX_FILES, PROVIDER_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A bundle before it is written: `files` are its paths, sorted; `generated` those whose bytes we make.

    `warnings` are about names that only some systems cannot hold.
    """

    tree: Tree
    provider: Provider
    closure: Closure
    files: tuple[str, ...]
    generated: Mapping[str, bytes]
    warnings: tuple[Diagnostic, ...]


def make_plan(tree: Tree, provider: Provider) -> Plan:
    """The plan of a loaded Provider's bundle.

    Raises `build-generated-name-clash`, `path-not-portable` and `path-collision`, all of them together.
    """
    closure = find_closure(provider)
    text = provider_yaml(provider.manifest)
    if parse_yaml(text.encode(), PROVIDER_NAME).value != provider.manifest:
        raise AssertionError(f"the normalized {PROVIDER_NAME} does not read back the same")
    carried = {item.path for item in closure.reasons if item.role != "manifest"}
    if provider.manifest_path == PROVIDER_NAME:
        carried.discard(PROVIDER_NAME)  # an Action may list it: the generated one stands in its place
    faults = [
        BundlerError(
            "build-generated-name-clash",
            f"`{path}` is carried ({closure.why(path)[0]}), and the build writes a file of that name",
            path=path,
        )
        for path in (MANIFEST_NAME, PROVIDER_NAME)
        if path in carried
    ]
    files = sorted(carried | {PROVIDER_NAME}, key=code_unit_key)
    if len(files) > MAX_FILES:
        faults.append(
            BundlerError(
                "tree-limit-exceeded", f"the bundle would hold {len(files):,} files; {MAX_FILES:,} is the most"
            )
        )
    faults.extend(portability_faults(files))
    if faults:
        raise BundlerError.of(faults)
    return Plan(
        tree=tree,
        provider=provider,
        closure=closure,
        files=tuple(files),
        generated={PROVIDER_NAME: text.encode()},
        warnings=tuple(_warnings(provider, files)),
    )


def portability_faults(files: list[str]) -> list[BundlerError]:
    """`path-not-portable` and `path-collision` for the paths of a bundle."""
    faults = [
        BundlerError(
            "path-not-portable", f"`{printable(path)}` can't be a file on every system: {reason}", path=printable(path)
        )
        for path in files
        if (reason := unportable(path)) is not None
    ]
    for first, second in collisions([*files, MANIFEST_NAME]):
        how = "case" if first.lower() == second.lower() else "Unicode form or case"
        faults.append(
            BundlerError(
                "path-collision",
                f"`{first}` and `{second}` differ only in {how}: some systems hold one file for both",
                path=second,
                detail={"other": first},
            )
        )
    return faults


def check_output(tree_root: str, plan: Plan, output: str) -> None:
    """Raises `build-output-overlaps-source` where the output would touch what the bundle is made from.

    `tree_root` is the source root with links resolved, `output` an absolute path.
    """
    target = os.path.realpath(output)

    def refuse(why: str) -> BundlerError:
        return BundlerError("build-output-overlaps-source", f"the output {output} {why}", path=output)

    if target == tree_root:
        raise refuse("is the Provider root")
    if tree_root.startswith(target.rstrip(os.sep) + os.sep):
        raise refuse("is a folder above the Provider root")
    if not target.startswith(tree_root + os.sep):
        return
    inside = target[len(tree_root) + 1 :].replace(os.sep, "/")
    for path in plan.files:
        if path == inside or path.startswith(inside + "/"):
            raise refuse(f"holds `{path}`, which the bundle carries")
        if inside.startswith(path + "/"):
            raise refuse(f"lies below `{path}`, which is a file that the bundle carries")
    for skill in plan.provider.skills:
        folder = skill.rpartition("/")[0]
        real = os.path.realpath(os.path.join(tree_root, folder))
        if folder and (f"{inside}/".startswith(f"{folder}/") or f"{target}{os.sep}".startswith(real + os.sep)):
            raise refuse(f"lies in the Skill folder `{folder}`, which the bundle carries whole")


def name_warnings(provider: Provider, closure: Closure) -> list[Diagnostic]:
    """Names that only some systems cannot hold, and (as warnings, before a build) those that it would refuse."""
    files = closure.paths
    refused = [replace(fault.diagnostics[0], severity="warning") for fault in portability_faults(files)]
    return [*refused, *_warnings(provider, files)]


def _warnings(provider: Provider, files: list[str]) -> list[Diagnostic]:
    warnings = []
    slug = provider.id.replace("/", "_")
    for path in [*files, MANIFEST_NAME]:
        length = windows_length(slug, path)
        if length > WINDOWS_PATH_LIMIT:
            warnings.append(
                Diagnostic(
                    code="path-long",
                    severity="warning",
                    path=path,
                    message=f"`{path}` is {length} characters long once installed on a typical Windows host; {WINDOWS_PATH_LIMIT} is its limit",
                    hint="shorten the path, or tell Windows users to enable long paths",
                )
            )
        character = windows_character(path)
        if character is not None:
            warnings.append(
                Diagnostic(
                    code="path-not-portable",
                    severity="warning",
                    path=path,
                    message=f"`{path}` contains `{character}`, which Windows cannot hold in a name",
                    hint="rename the file if the Provider is meant for Windows too",
                )
            )
    return warnings
