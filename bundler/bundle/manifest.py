"""`manifest.json` of a bundle: what it holds, its bytes, its digest (protocol: "The bundle").

The bytes are those that other implementations of the protocol write for the same Provider.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from json.encoder import encode_basestring
from types import MappingProxyType
from typing import Any, NamedTuple

from ..paths import code_unit_key, normalize
from ..protocol import schemas
from ..protocol.canonical import Json, collation_key, digest, key_order
from ..protocol.documents import Document, parse_json
from ..protocol.model import Provider
from .layout import MANIFEST_NAME, MAX_MANIFEST_VALUES

SCHEMA = "agent-graph.bundle.v1"


class CatalogEntry(NamedTuple):
    """A Graph, Action, Resource or schema: its id, its file and that file's digest."""

    id: str
    path: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleManifest:
    """The manifest as a value; `files` maps each path to its digest, in the order listed."""

    provider_id: str
    provider_version: str
    provider_manifest: str
    graphs: tuple[CatalogEntry, ...]
    actions: tuple[CatalogEntry, ...]
    resources: tuple[CatalogEntry, ...]
    schemas: tuple[CatalogEntry, ...]
    files: Mapping[str, str]
    graph_dependencies: Mapping[str, tuple[str, ...]]
    digest: str

    @property
    def catalogs(self) -> dict[str, tuple[CatalogEntry, ...]]:
        """The four catalogs by their member in manifest.json."""
        return {"graphs": self.graphs, "actions": self.actions, "resources": self.resources, "schemas": self.schemas}

    def to_json(self) -> dict[str, Json]:
        """`agent-graph.bundle.v1`, its members in the order in which they are written."""
        return {
            "schema": SCHEMA,
            "provider": {"id": self.provider_id, "version": self.provider_version},
            "providerManifest": self.provider_manifest,
            **{
                name: [{"id": entry.id, "path": entry.path, "digest": entry.digest} for entry in entries]
                for name, entries in self.catalogs.items()
            },
            "files": [{"path": path, "digest": listed} for path, listed in self.files.items()],
            "graphDependencies": {graph: list(named) for graph, named in self.graph_dependencies.items()},
            "digest": self.digest,
        }

    def to_bytes(self) -> bytes:
        """The file: two-space indent, a final newline."""
        return (_indented(self.to_json(), "") + "\n").encode()


def describe(provider: Provider, provider_manifest: str, files: Mapping[str, str]) -> BundleManifest:
    """The manifest of a Provider whose carried files, in any order, have these digests. Pure."""
    manifest = BundleManifest(
        provider_id=provider.id,
        provider_version=provider.version,
        provider_manifest=provider_manifest,
        **catalogs(provider, files),
        files=MappingProxyType({path: files[path] for path in sorted(files, key=code_unit_key)}),
        graph_dependencies=MappingProxyType(
            {name: provider.graphs[name].dependencies for name in sorted(provider.graphs, key=key_order)}
        ),
        digest="",
    )
    return replace(manifest, digest=digest_of(manifest.to_json()))


def catalogs(provider: Provider, files: Mapping[str, str]) -> dict[str, tuple[CatalogEntry, ...]]:
    """The four catalogs of a Provider; a path that is missing in `files` gets the empty text as digest. Pure."""
    schema_ids = {path: path for action in provider.actions.values() for path in action.schemas}
    # A Resource's id wins over the path; of two Resources with one file the id that sorts first.
    for resource in sorted(provider.resources.values(), key=lambda resource: collation_key(resource.id), reverse=True):
        if resource.kind == "schema" and resource.content is not None:
            schema_ids[resource.content] = resource.id
    named = {
        "graphs": [(graph.id, graph.path) for graph in provider.graphs.values()],
        "actions": [(action.id, action.path) for action in provider.actions.values()],
        "resources": [(resource.id, resource.path) for resource in provider.resources.values()],
    }
    entries = {name: sorted(pairs, key=lambda pair: collation_key(pair[0])) for name, pairs in named.items()}
    entries["schemas"] = [(schema_ids[path], path) for path in sorted(schema_ids, key=collation_key)]
    return {
        name: tuple(CatalogEntry(identity, path, files.get(path, "")) for identity, path in pairs)
        for name, pairs in entries.items()
    }


def read(data: bytes, path: str = MANIFEST_NAME, *, judge: bool = True) -> tuple[BundleManifest, Document]:
    """The manifest in bytes, and its document. Its digest is not checked here; without `judge` neither is its schema.

    Raises `parse-failed` and `schema-invalid`. A path that is listed twice is kept once: the document shows it.
    """
    document = parse_json(data, path, max_values=MAX_MANIFEST_VALUES)
    if judge:
        schemas.check(document, "bundle")
    value: dict[str, Any] = document.value

    def entries(name: str) -> tuple[CatalogEntry, ...]:
        return tuple(CatalogEntry(entry["id"], normalize(entry["path"]), entry["digest"]) for entry in value[name])

    return BundleManifest(
        provider_id=value["provider"]["id"],
        provider_version=value["provider"]["version"],
        provider_manifest=normalize(value["providerManifest"]),
        graphs=entries("graphs"),
        actions=entries("actions"),
        resources=entries("resources"),
        schemas=entries("schemas"),
        files=MappingProxyType({normalize(file["path"]): file["digest"] for file in value["files"]}),
        graph_dependencies=MappingProxyType(
            {graph: tuple(named) for graph, named in value["graphDependencies"].items()}
        ),
        digest=value["digest"],
    ), document


def digest_of(value: Mapping[str, Json]) -> str:
    """The overall digest: that of the manifest without `digest`."""
    return digest({key: item for key, item in value.items() if key != "digest"})


def _indented(value: Json, indent: str) -> str:
    """JSON as `JSON.stringify(value, null, 2)` lays it out; `json.dumps` with an indent is many times slower."""
    below = indent + "  "
    if isinstance(value, dict):
        items = [f"{encode_basestring(key)}: {_indented(item, below)}" for key, item in value.items()]
        opening, closing = "{", "}"
    elif isinstance(value, list):
        items = [_indented(item, below) for item in value]
        opening, closing = "[", "]"
    else:
        return encode_basestring(value)
    if not items:
        return opening + closing
    inside = f",\n{below}".join(items)
    return f"{opening}\n{below}{inside}\n{indent}{closing}"
