"""Skill bindings and registries (specification: "Provider and Skill binding")."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import BundlerError
from ..protocol.canonical import Json
from ..protocol.documents import MAX_BYTES, describe, front_matter, parse
from ..protocol.model import Provider
from ..tree import DirectoryTree

#: A Provider's id → the path of its manifest, None where the host does not have it.
Find = Callable[[str], str | None]

_KEYS = ("agent-graph", "agent-graph.graph", "agent-graph.entry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """What a SKILL.md declares, with its locator resolved to a manifest on disk.

    `is_found` says that the host has the Provider, and no registry named its place.
    """

    skill_path: str
    locator: str
    graph: str
    entry: str
    manifest_path: str
    provider_id: str | None
    is_found: bool = False

    def to_json(self, provider: Provider) -> dict[str, Json]:
        """`agent-graph.skill-binding.v1`."""
        return {
            "schema": "agent-graph.skill-binding.v1",
            "skillPath": self.skill_path,
            "locator": self.locator,
            "graph": self.graph,
            "entry": self.entry,
            "manifestPath": self.manifest_path,
            "provider": provider.id,
        }

    def check(self, provider: Provider) -> None:
        """Raises `provider-id-mismatch`, `skill-graph-missing` or `skill-entry-missing`."""
        if self.provider_id is not None and provider.id != self.provider_id:
            raise BundlerError(
                "provider-id-mismatch",
                f"the registry names {self.manifest_path} for `{self.provider_id}`, which is the Provider `{provider.id}`",
                path=self.manifest_path,
            )
        graph = provider.graphs.get(self.graph)
        if graph is None:
            raise BundlerError(
                "skill-graph-missing",
                f"{self.skill_path} names the Graph `{self.graph}`; `{provider.id}` has: {', '.join(provider.graphs)}",
                path=self.skill_path,
            )
        if self.entry not in graph.entrypoints:
            raise BundlerError(
                "skill-entry-missing",
                f"{self.skill_path} names the entrypoint `{self.entry}`; the Graph `{graph.id}` has: {', '.join(graph.entrypoints)}",
                path=self.skill_path,
            )


def read_binding(
    skill: str | os.PathLike[str],
    registry: str | os.PathLike[str] | None = None,
    find: Find = lambda provider_id: None,
) -> Binding:
    """The binding of a SKILL.md on disk. A `provider:` locator is looked up in the registry, then with `find`.

    `find` gives the path of the manifest of a Provider that the host has, by its id.

    Raises the `frontmatter-…`, `skill-…`, `registry-invalid` and `provider-unresolved` errors. Whether
    the Graph and Entry exist is for `Binding.check`, once the Provider is loaded.
    """
    path = os.path.abspath(os.fspath(skill))
    values = _declared(path)
    locator: str = values[0]
    scheme, _, target = locator.partition(":")
    provider_id = None
    is_found = False
    if scheme == "path" and target and "\0" not in target:
        if os.path.isabs(target) or target[1:2] == ":":
            raise BundlerError(
                "skill-locator-absolute", f"{path} has the locator {locator!r}, an absolute path", path=path
            )
        manifest = os.path.normpath(os.path.join(os.path.dirname(path), target))
    elif scheme == "provider" and target:
        provider_id = target
        registered = _registered(target, registry)
        manifest = registered or find(target) or ""
        if not manifest:
            raise _unresolved(target, registry, path)
        is_found = registered is None
    else:
        raise BundlerError(
            "skill-locator-invalid",
            f"{path} has the locator {locator!r}; `path:` or `provider:` with what it names is expected",
            path=path,
        )
    return Binding(
        skill_path=path,
        locator=locator,
        graph=values[1],
        entry=values[2],
        manifest_path=manifest,
        provider_id=provider_id,
        is_found=is_found,
    )


def _declared(path: str) -> tuple[str, str, str]:
    with DirectoryTree(os.path.dirname(path)) as tree:
        value: dict[str, Any] = front_matter(tree.read(os.path.basename(path), MAX_BYTES), path).value
    metadata = value.get("metadata")
    declared = metadata if isinstance(metadata, dict) else {}
    missing = [key for key in _KEYS if not isinstance(declared.get(key), str) or not declared[key]]
    if missing:
        found = "is not bound" if len(missing) == len(_KEYS) else "is bound only in part"
        raise BundlerError(
            "skill-binding-missing",
            f"{path} {found}: its front matter lacks {', '.join(f'`metadata.{key}`' for key in missing)}",
            path=path,
        )
    return declared["agent-graph"], declared["agent-graph.graph"], declared["agent-graph.entry"]


def _registered(provider_id: str, registry: str | os.PathLike[str] | None) -> str | None:
    if registry is None:
        return None
    file = Path(os.path.abspath(os.fspath(registry)))
    try:
        with DirectoryTree(file.parent) as tree:
            value = parse(tree.read(file.name, MAX_BYTES), str(file)).value
    except BundlerError as error:
        raise BundlerError("registry-invalid", f"the registry can't be used: {error.message}", path=str(file)) from None
    providers = value.get("providers", value) if isinstance(value, dict) else value
    if not isinstance(providers, dict) or not all(
        isinstance(path, str) and path and "\0" not in path for path in providers.values()
    ):
        raise BundlerError(
            "registry-invalid",
            f"the registry {file} is {describe(value)}; a mapping of Provider ids to paths of manifests is expected",
            path=str(file),
        )
    manifest = providers.get(provider_id)
    return None if manifest is None else os.path.normpath(os.path.join(file.parent, manifest))


def _unresolved(provider_id: str, registry: str | os.PathLike[str] | None, skill: str) -> BundlerError:
    where = "no registry was given" if registry is None else f"the registry {os.fspath(registry)} does not name it"
    return BundlerError(
        "provider-unresolved",
        f"{skill} names the Provider `{provider_id}`; {where}, and it is not installed",
        path=skill if registry is None else os.path.abspath(os.fspath(registry)),
    )
