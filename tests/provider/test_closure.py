"""What is carried, why, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundler.provider.closure import Item, find_closure, not_carried
from bundler.provider.load import load_provider
from bundler.tree import DirectoryTree

from ..builders import ACTION, GRAPH, PROVIDER, load, memory, minimal, with_skill, write_out

TEMPLATE = Path(__file__).parents[2] / "templates" / "provider"


@pytest.fixture
def template() -> DirectoryTree:
    return DirectoryTree(TEMPLATE)


@pytest.mark.parametrize(
    ("path", "reasons"),
    [
        ("provider.yaml", ["the manifest"]),
        ("codes.yaml", ["provider.yaml › catalogs.codes"]),
        ("graphs/release.yaml", ["provider.yaml › graphs[0]"]),
        ("actions/check.yaml", ["graphs/release.yaml › node check"]),
        ("actions/show.yaml", ["graphs/release.yaml › node approve › inspectionAction"]),
        ("scripts/check.py", ["graphs/release.yaml › node check › actions/check.yaml › entry"]),
        ("skills/release/SKILL.md", ["graphs/release.yaml › node repair › actions/repair.yaml › skill"]),
        (
            "skills/release/references/repair.md",
            ["graphs/release.yaml › node repair › actions/repair.yaml › skill › skills/release/SKILL.md › its folder"],
        ),
        (
            "resources/checklist.md",
            [
                "provider.yaml › catalogs.codes › codes.yaml › code route.release.check",
                "provider.yaml › catalogs.codes › codes.yaml › code route.release.approve",
                "graphs/release.yaml › node check › resources.required[0]",
            ],
        ),
        ("tests/waits-for-approval.yaml", []),
    ],
)
def test_reasons(template: DirectoryTree, path: str, reasons: list[str]) -> None:
    assert find_closure(load_provider(template)).why(path) == reasons


def test_what_is_not_carried_is_told_once_with_its_reason(tmp_path: Path) -> None:
    files = {
        **with_skill(**{"__pycache__/a.pyc": "x"}),
        "notes/a": "",
        "notes/deep/b": "",
        "skills/other/SKILL.md": "",
        "tests/t.yaml": "",
    }
    with DirectoryTree(write_out(files, tmp_path / "root")) as tree:
        found = {entry.path: why for entry, why in not_carried(tree, find_closure(load_provider(tree)))}
    nothing = "nothing that is carried names it"
    assert found == {
        "notes": nothing,
        "tests": nothing,
        "skills/other": nothing,
        "skills/s/__pycache__": "left out: Python bytecode",
    }


def test_a_file_in_two_roles_brings_nothing_of_the_other_role() -> None:
    """A Graph whose Action only lists another Action's file does not need what that Action needs."""
    files = minimal(actions__work_yaml=ACTION + "files: [actions/other.yaml]\n")
    files["provider.yaml"] = PROVIDER.replace("]", ", graphs/two.yaml]")
    files["graphs/two.yaml"] = GRAPH.replace("id: main", "id: two").replace("work.yaml", "other.yaml")
    files["actions/other.yaml"] = ACTION.replace("id: work", "id: other") + "files: [data]\n"
    files["data"] = ""
    closure = find_closure(load(files))
    assert closure.below(Item("graph", "graphs/main.yaml")) == [
        "actions/other.yaml",
        "actions/work.yaml",
        "graphs/main.yaml",
    ]
    assert closure.below(Item("graph", "graphs/two.yaml")) == ["actions/other.yaml", "data", "graphs/two.yaml"]
    assert len(closure.why("actions/other.yaml")) == 2


def test_subgraphs_bring_what_they_carry() -> None:
    files = minimal()
    files["provider.yaml"] = PROVIDER.replace("]", ", graphs/top.yaml]")
    files["graphs/top.yaml"] = GRAPH.replace("id: main", "id: top").replace(
        "{ id: work, kind: action, reasonCode: route.main.work, action: actions/work.yaml }",
        "{ id: work, kind: subgraph, graph: main, entry: default }",
    )
    closure = find_closure(load(files))
    assert closure.below(Item("graph", "graphs/top.yaml")) == [
        "actions/work.yaml",
        "graphs/main.yaml",
        "graphs/top.yaml",
    ]


def test_a_skill_that_many_actions_share_is_listed_once() -> None:
    files = with_skill(**{f"file{i}": "" for i in range(300)})
    nodes = "".join(
        f"  - {{ id: n{i}, kind: action, reasonCode: route.a, action: actions/{i}.yaml }}\n" for i in range(300)
    )
    files["graphs/main.yaml"] = (
        f"schema: agent-graph.graph.v1\nid: main\nentrypoints: {{ default: n0 }}\nnodes:\n{nodes}"
        "  - { id: z, kind: terminal, terminalOutcome: completed }\nedges: []\n"
    )
    for i in range(300):
        files[f"actions/{i}.yaml"] = str(files["actions/work.yaml"]).replace("id: work", f"id: a{i}")
    closure = find_closure(load(files))
    assert sum(map(len, closure.reasons.values())) < 2000
    assert closure.why("skills/s/file7") == [
        "graphs/main.yaml › node n0 › actions/0.yaml › skill › skills/s/SKILL.md › its folder"
    ]
    assert len(closure.why("skills/s/SKILL.md")) == 300


@settings(deadline=None, max_examples=40)
@given(st.permutations(range(5)), st.sets(st.sampled_from(["a.txt", "b/c.txt", "b/d.txt", "e~x", "f.py"]), min_size=1))
def test_the_closure_is_the_same_in_whatever_order_files_lie(order: list[int], names: set[str]) -> None:
    files = {**with_skill(**{name: name for name in names}), "unrelated": ""}
    items = list(files.items())
    shuffled = dict(items[i % len(items)] for i in [*order, *range(len(items))])
    assert find_closure(load_provider(memory(shuffled))).paths == find_closure(load_provider(memory(files))).paths
    assert set(find_closure(load_provider(memory(files))).paths) == set(files) - {"unrelated"}
