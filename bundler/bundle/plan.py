"""Provider → what its bundle holds; everything that a build refuses before it writes (protocol: "Build refuses")."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..errors import BundlerError, Diagnostic
from ..paths import code_unit_key, to_system
from ..protocol.documents import parse_yaml
from ..protocol.emit import provider_yaml
from ..protocol.model import Provider
from ..provider.closure import Closure, find_closure
from ..tree import Tree
from .layout import MANIFEST_NAME, MAX_FILES, PROVIDER_NAME
from .listed import ListedTree
from .names import portability_faults, portability_warnings


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


def make_plan(tree: Tree, provider: Provider, closure: Closure | None = None) -> Plan:
    """The plan of a loaded Provider's bundle; `closure` where it is known already.

    Raises `build-generated-name-clash`, `path-not-portable` and `path-collision`, all of them together.
    """
    closure = closure or find_closure(provider)
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
        warnings=tuple(portability_warnings(provider, files)),
    )


def check_output(plan: Plan, output: str) -> None:
    """Raises `build-output-overlaps-source` where the output would touch what the bundle is made from.

    Compared are real places, so that no link leads around the check. `output` is an absolute path.
    """
    if not plan.tree.roots:
        return
    root, target = os.path.realpath(plan.tree.roots[0]), os.path.realpath(output)

    def refuse(why: str) -> BundlerError:
        return BundlerError("build-output-overlaps-source", f"the output {output} {why}", path=output)

    if target == root:
        raise refuse("is the Provider root")
    if _within(root, target):
        raise refuse("is a folder above the Provider root")
    if not _within(target, root):
        return  # links lead to places inside the root only
    if isinstance(plan.tree, ListedTree):
        raise refuse("lies in the bundle that it is built from, to which everything in it belongs")
    skills = {skill.rpartition("/")[0] for skill in plan.provider.skills} - {""}
    places: dict[str, str] = {}
    for path in plan.files:
        folder, _, name = path.rpartition("/")
        if folder not in places:
            places[folder] = os.path.realpath(os.path.join(root, os.fsdecode(to_system(folder))))
            skill = next((above for above in _with_those_above(folder) if above in skills), None)
            if skill is not None and (target == places[folder] or _within(target, places[folder])):
                raise refuse(f"lies in the Skill folder `{skill}`, which the bundle carries whole")
        place = os.path.join(places[folder], os.fsdecode(to_system(name)))
        place = os.path.realpath(place) if os.path.islink(place) else place
        if place == target or _within(place, target):
            raise refuse(f"holds `{path}`, which the bundle carries")
        if _within(target, place):
            raise refuse(f"lies below `{path}`, which is a file that the bundle carries")


def _with_those_above(folder: str) -> Iterator[str]:
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


def _within(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)
