"""The digest of everything that a Graph needs, on which revisions and so Route ids rest (protocol: `graph digest`)."""

from __future__ import annotations

from collections.abc import Callable

from ..protocol.canonical import collation_key, digest
from ..protocol.model import Provider
from ..provider.closure import Closure, Item


def graph_digest(provider: Provider, closure: Closure, graph: str, digest_of: Callable[[str], str]) -> str:
    """Of the Graph's own closure, Subgraphs included; the manifest and the Code Catalog are no part of it.

    `digest_of` gives the digest of a carried file by its path.
    """
    paths = closure.below(Item("graph", provider.graphs[graph].path))
    return digest(
        {
            "provider": {"id": provider.id, "version": provider.version},
            "graph": graph,
            "files": [[path, digest_of(path)] for path in sorted(paths, key=collation_key)],
        }
    )
