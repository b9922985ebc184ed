"""Graphs as Mermaid text."""

from __future__ import annotations

from pathlib import Path

from bundler.provider.load import load_provider
from bundler.provider.mermaid import draw
from bundler.tree import DirectoryTree

from ..builders import GRAPH, load, minimal

TEMPLATE = Path(__file__).parents[2] / "templates" / "provider"


def test_nodes_by_kind_and_effect_edges_by_kind_and_outcomes() -> None:
    with DirectoryTree(TEMPLATE) as tree:
        provider = load_provider(tree)
    assert draw(provider, provider.graphs["release"]).splitlines()[3:15] == [
        "flowchart TD",
        '  e0(("default")) --> n0',
        '  n0["check<br/>script, read"]:::read',
        '  n1["repair<br/>agent, write"]:::write',
        '  n2{{"approve<br/>Gate: authority release.approve, delegatable<br/>inspectionAction: read"}}:::gate',
        '  n3["publish<br/>host, external"]:::external',
        '  n4(["done<br/>completed"])',
        '  n0 -->|"failed"| n1',
        '  n1 -.->|"repeat"| n0',
        '  n0 -->|"requires"| n2',
        '  n2 ==>|"gatedBy"| n3',
        "  n3 --> n4",
    ]


def test_text_cannot_end_a_label() -> None:
    files = minimal(graphs__main_yaml=GRAPH.replace("id: main", "id: main"), provider_yaml=minimal()["provider.yaml"])
    provider = load(files)
    text = draw(provider, provider.graphs["main"])
    assert text.count('"') % 2 == 0
    assert 'title: "acme/demo 0.1.0 - main"' in text
