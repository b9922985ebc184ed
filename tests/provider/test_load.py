"""Loading: every fault is found, the first in the protocol's order decides, nothing follows from another fault."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bundler.errors import BundlerError, Diagnostic
from bundler.protocol.documents import MAX_BYTES
from bundler.provider.load import load_provider
from bundler.tree import DirectoryTree

from ..builders import (
    ACTION,
    GRAPH,
    PROVIDER,
    SKILL_ACTION,
    load,
    load_error,
    memory,
    minimal,
    with_files,
    with_skill,
    write_out,
)


def codes(error: BundlerError) -> list[str]:
    return [diagnostic.code for diagnostic in error.diagnostics]


def graph(nodes: str, edges: str = "[]", identity: str = "main") -> str:
    head = f"schema: agent-graph.graph.v1\nid: {identity}\nentrypoints: {{ default: a }}\nnodes:\n"
    return f"{head}{nodes}  - {{ id: z, kind: terminal, terminalOutcome: completed }}\nedges: {edges}\n"


NODE = "  - { id: a, kind: action, reasonCode: route.a, action: actions/work.yaml }\n"


def test_the_minimal_provider_loads() -> None:
    provider = load(minimal())
    assert (provider.id, provider.version, provider.manifest_path) == ("acme/demo", "0.1.0", "provider.yaml")
    assert list(provider.graphs) == ["main"]
    assert list(provider.actions) == ["actions/work.yaml"]
    assert provider.catalog is None


def test_one_broken_part_does_not_hide_another() -> None:
    files = minimal()
    files["provider.yaml"] = PROVIDER.replace(
        "[graphs/main.yaml]", "[graphs/main.yaml, graphs/two.yaml, graphs/three.yaml]"
    )
    files["graphs/two.yaml"] = "a: [\n"
    files["graphs/three.yaml"] = graph(NODE.replace("work", "other"), identity="three")
    files["actions/work.yaml"] = ACTION + "extra: 1\n"
    error = load_error(files)
    assert error.code == "parse-failed"
    assert codes(error) == ["parse-failed", "schema.additionalProperties", "file-missing"]
    assert [diagnostic.path for diagnostic in error.diagnostics] == [
        "graphs/two.yaml",
        "actions/work.yaml",
        "actions/other.yaml",
    ]


def test_every_schema_fault_of_a_document_is_told_with_its_place() -> None:
    error = load_error(
        minimal(
            actions__work_yaml="schema: agent-graph.action.v1\nid: Work\nrunner: command\neffect: none\ncommand: ''\n"
        )
    )
    assert error.code == "schema-invalid"
    assert [(d.code, d.pointer, d.line) for d in error.diagnostics] == [
        ("schema.pattern", "/id", 2),
        ("schema.enum", "/effect", 4),
        ("schema.minLength", "/command", 5),
    ]


def test_a_broken_manifest_hides_nothing_that_it_still_names() -> None:
    files = minimal(
        provider_yaml=PROVIDER.replace("0.1.0", "x") + "catalogs: { codes: none.yaml }\nextra: 1\n",
        graphs__main_yaml="a: [",
    )
    assert codes(load_error(files)) == ["schema.pattern", "schema.additionalProperties", "file-missing", "parse-failed"]
    for graphs in ("[/etc/x, 5, '../y', graphs/main.yaml]", "graphs/main.yaml", "{}"):
        assert (
            load_error(minimal(provider_yaml=PROVIDER.replace("[graphs/main.yaml]", graphs))).code == "schema-invalid"
        )


@pytest.mark.parametrize(
    ("files", "meant"),
    [
        (minimal(actions__work_yaml=ACTION.replace("effect", "efect")), "did you mean `effect`?"),
        (minimal(actions__work_yaml=ACTION + "zzz: 1\n"), "allowed are: schema, id,"),
        (minimal(graphs__main_yaml=GRAPH.replace("to: done", "to: doen")), "did you mean `done`?"),
        (minimal(graphs__main_yaml=GRAPH.replace("default: work", "default: wrok")), "did you mean `work`?"),
        (
            minimal(graphs__main_yaml=GRAPH.replace("actions/work.yaml", "actions/Work.yaml")),
            "did you mean `work.yaml`?",
        ),
        (minimal(actions__work_yaml=ACTION + "files: [actions/wrok.yaml]\n"), "did you mean `work.yaml`?"),
        ({"provider.yml": PROVIDER}, "did you mean `provider.yml`?"),
        (minimal(actions__work_yaml=""), "the document is empty; expected: object"),
        (minimal(provider_yaml=PROVIDER.replace("0.1.0", "0.1")), "put it in quotes"),
    ],
)
def test_what_was_probably_meant_is_told(files: dict[str, str | bytes], meant: str) -> None:
    error = load_error(files)
    assert meant in error.message + "".join(diagnostic.message for diagnostic in error.diagnostics)


def test_an_unknown_field_is_shown_where_its_name_stands() -> None:
    error = load_error(minimal(provider_yaml=PROVIDER + "catalog:\n  codes: codes.yaml\n"))
    assert [(d.line, d.column) for d in error.diagnostics] == [(5, 1)]
    text = '{"schema": "agent-graph.provider.v1", "id": "a", "version": "0.1.0", "graphs": ["graphs/main.yaml"],\n "other":\n 1}'
    with pytest.raises(BundlerError) as raised:
        load_provider(memory({**minimal(), "p.json": text}), "p.json")
    assert [(d.line, d.column) for d in raised.value.diagnostics] == [(2, 2)]


def test_a_graph_under_a_duplicate_id_is_not_missing() -> None:
    files = minimal(graphs__main_yaml=graph("  - { id: a, kind: subgraph, graph: two, entry: default }\n"))
    files["provider.yaml"] = PROVIDER.replace("]", ", graphs/two.yaml]")
    files["graphs/two.yaml"] = graph(NODE)
    assert codes(load_error(files)) == ["graph-id-duplicate"]


def test_a_fault_is_told_once_however_often_the_file_is_named() -> None:
    nodes = "".join(
        f"  - {{ id: {name}, kind: action, reasonCode: route.a, action: actions/none.yaml }}\n" for name in "abc"
    )
    error = load_error(minimal(graphs__main_yaml=graph(nodes)))
    assert codes(error) == ["file-missing"]
    assert error.diagnostics[0].detail["namedBy"] == "graphs/main.yaml"
    assert error.diagnostics[0].detail["namedLine"] == 5


def test_a_graph_that_could_not_be_read_is_not_missing() -> None:
    files = minimal(graphs__main_yaml=graph("  - { id: a, kind: subgraph, graph: two, entry: default }\n"))
    files["provider.yaml"] = PROVIDER.replace("]", ", graphs/two.yaml]")
    files["graphs/two.yaml"] = "not: a graph\n"
    assert "subgraph-missing" not in codes(load_error(files))


def test_order_manifest_before_everything() -> None:
    files = minimal(provider_yaml=PROVIDER + "compatibility: { node: nonsense }\n", graphs__main_yaml="a: [")
    assert codes(load_error(files)) == ["compatibility-range-invalid", "parse-failed"]


def test_order_code_catalog_before_graphs() -> None:
    files = minimal(provider_yaml=PROVIDER + "catalogs: { codes: codes.yaml }\n", graphs__main_yaml="a: [")
    assert codes(load_error(files)) == ["file-missing", "parse-failed"]


def test_order_of_a_graphs_own_rules() -> None:
    nodes = NODE + NODE + "  - { id: g, kind: gate, reasonCode: route.g, gate: { id: g, prompt: go } }\n"
    edges = """
  - { from: a, to: ghost }
  - { from: z, to: a }
  - { from: a, to: g }
  - { from: a, to: g }
  - { from: a, to: z, kind: repeat }
  - { from: a, to: z, kind: gatedBy }
  - { from: g, to: a }"""
    text = graph(nodes, edges).replace("default: a", "default: nowhere")
    assert codes(load_error(minimal(graphs__main_yaml=text))) == [
        "graph-node-duplicate",
        "graph-entry-missing",
        "graph-edge-node-missing",
        "graph-terminal-edge-invalid",
        "graph-edge-duplicate",
        "graph-repeat-target-invalid",
        "graph-gated-by-source-invalid",
        "graph-flow-cycle",
    ]


def test_edges_are_duplicates_by_kind_ends_and_outcomes_as_listed() -> None:
    edges = (
        "[{from: a, to: z, outcomes: [completed, failed]}, {from: a, to: z, outcomes: [failed, completed]}, "
        "{from: a, to: z, kind: requires}, {from: a, to: z}]"
    )
    load(minimal(graphs__main_yaml=graph(NODE, edges)))
    error = load_error(
        minimal(
            graphs__main_yaml=graph(NODE, "[{from: a, to: z}, {from: a, to: z, kind: flow, outcomes: [completed]}]")
        )
    )
    assert codes(error) == ["graph-edge-duplicate"]


def test_order_within_a_gate() -> None:
    gate = """  - id: a
    kind: gate
    reasonCode: route.a
    gate: { id: g, prompt: go }
    delegated: { inspection: skip, resolutionAction: actions/look.yaml, resources: { required: [r3.md] } }
    resolutionAction: actions/look.yaml
    resources: { required: [r1.md], recommended: [r2.md] }
"""
    files = minimal(graphs__main_yaml=graph(gate), actions__work_yaml=None)
    files["actions/look.yaml"] = ACTION.replace("write", "read").replace("work", "look")
    error = load_error(files)
    assert codes(error) == [
        "gate-delegated-policy-invalid",
        "gate-delegated-inspection-missing",
        "gate-resolution-effect-invalid",
        "gate-resolution-effect-invalid",
        "file-missing",
        "file-missing",
        "file-missing",
    ]
    assert [d.path for d in error.diagnostics[-3:]] == ["r1.md", "r2.md", "r3.md"]


def test_order_within_an_action() -> None:
    action = ACTION.replace("command\n", "script\n", 1).replace("command: make work", "entry: e.py\nruntime: python")
    error = load_error(
        minimal(actions__work_yaml=action + "files: [f1, f2]\ninputSchema: in.json\noutputSchema: out.json\n")
    )
    assert [d.path for d in error.diagnostics] == ["e.py", "in.json", "out.json", "f1", "f2"]


def test_recursion_reason_codes_and_materializers_come_last() -> None:
    nodes = "  - { id: a, kind: subgraph, graph: main, entry: default }\n" + NODE.replace("id: a", "id: b").replace(
        "yaml }", "yaml, resources: { required: [v.yaml] } }"
    )
    files = minimal(provider_yaml=PROVIDER + "catalogs: { codes: codes.yaml }\n", graphs__main_yaml=graph(nodes))
    files["codes.yaml"] = "schema: agent-graph.code-catalog.v1\ncodes: []\n"
    files["v.yaml"] = (
        "schema: agent-graph.resource.graph-action.v1\nid: v\nkind: context-view\nmediaType: text/plain\nmaterializer: actions/work.yaml\n"
    )
    assert codes(load_error(files)) == ["graph-recursion", "route-reason-code-missing", "materializer-effect-invalid"]


def test_long_graphs_and_chains_of_graphs_need_no_recursion() -> None:
    count = 3000
    nodes = "".join(
        f"  - {{ id: n{i}, kind: action, reasonCode: route.a, action: actions/work.yaml }}\n" for i in range(count)
    )
    edges = "[" + ", ".join(f"{{from: n{i}, to: n{i + 1}}}" for i in range(count - 1)) + "]"
    load(minimal(graphs__main_yaml=graph(nodes, edges).replace("default: a", "default: n0")))
    files = minimal()
    files["provider.yaml"] = PROVIDER.replace(
        "[graphs/main.yaml]", "[" + ", ".join(f"g/{i}.yaml" for i in range(1500)) + "]"
    )
    for i in range(1500):
        node = f"  - {{ id: a, kind: subgraph, graph: g{i + 1}, entry: default }}\n" if i < 1499 else NODE
        files[f"g/{i}.yaml"] = graph(node, identity=f"g{i}")
    assert len(load(files).graphs) == 1500


HOST = "schema: agent-graph.action.v1\nid: mat\nrunner: host\neffect: read\nhandler: acme.make\ninputSchema: in.json\noutputSchema: out.json\n"
HOSTED = "schema: agent-graph.resource.host-action.v1\nid: h\nkind: context-view\nmediaType: text/plain\nmaterializer: mat.yaml\ninput: { n: 1 }\n"
SCHEMA = '{"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "acme.%s/v1", "type": "object", "properties": {"n": {"type": "integer"}}}'


def hosted(**changes: str) -> dict[str, str | bytes]:
    files = minimal(
        graphs__main_yaml=GRAPH.replace("actions/work.yaml }", "actions/work.yaml, resources: { required: [h.yaml] } }")
    )
    files.update({"h.yaml": HOSTED, "mat.yaml": HOST, "in.json": SCHEMA % "in", "out.json": SCHEMA % "out"})
    files.update({name.replace("_", "."): text for name, text in changes.items()})
    return files


@pytest.mark.parametrize(
    ("changes", "code", "path"),
    [
        ({"h_yaml": HOSTED.replace("n: 1", "n: x")}, "resource-input-invalid", "h.yaml"),
        ({"out_json": '{"$id": "acme.out"}'}, "materializer-schema-identity-invalid", "out.json"),
        ({"in_json": '{"$id": "acme.in/v0"}'}, "materializer-schema-identity-invalid", "in.json"),
        ({"in_json": '{"$id": "acme.in/v1", "$ref": "other.json"}'}, "schema-reference-external", "in.json"),
        ({"out_json": '{"$id": "acme.out/v1", "type": "nothing"}'}, "schema-invalid", "out.json"),
        ({"in_json": '{"$id": "acme.in/v1",}'}, "parse-failed", "in.json"),
        ({"mat_yaml": HOST.replace("outputSchema: out.json\n", "")}, "materializer-schema-missing", "h.yaml"),
        ({"mat_yaml": HOST.replace("effect: read", "effect: external")}, "materializer-effect-invalid", "h.yaml"),
    ],
)
def test_host_action_resources(changes: dict[str, str], code: str, path: str) -> None:
    load(hosted())
    error = load_error(hosted(**changes))
    assert (error.code, error.diagnostics[0].path) == (code, path)


def test_resources_of_every_file_name(tmp_path: Path) -> None:
    files = minimal(
        graphs__main_yaml=GRAPH.replace(
            "actions/work.yaml }", "actions/work.yaml, resources: { required: [A.YAML, b.Json, c.txt, d] } }"
        )
    )
    files["A.YAML"] = (
        "schema: agent-graph.resource.file.v1\nid: a\nkind: template\nmediaType: text/plain\npath: c.txt\n"
    )
    files["b.Json"] = (
        '{"schema": "agent-graph.resource.file.v1", "id": "b", "kind": "template", "mediaType": "text/plain", "path": "c.txt"}'
    )
    files["c.txt"] = files["d"] = "---\nid: c\nkind: skill\n---\n"
    files["d"] = "---\nid: d\nkind: skill\nmediaType: text/x\n---\n"
    provider = load(files)
    assert {r.id: (r.kind, r.media_type, r.content) for r in provider.resources.values()} == {
        "a": ("template", "text/plain", "c.txt"),
        "b": ("template", "text/plain", "c.txt"),
        "c": ("skill", "text/markdown", "c.txt"),
        "d": ("skill", "text/x", "d"),
    }


def test_a_markdown_resource_may_be_larger_than_what_is_parsed(tmp_path: Path) -> None:
    files = minimal(
        graphs__main_yaml=GRAPH.replace("actions/work.yaml }", "actions/work.yaml, resources: { required: [big.md] } }")
    )
    files["big.md"] = b"---\nid: big\nkind: procedure\n---\n" + b"\xff" * MAX_BYTES
    assert load(files).resources["big.md"].id == "big"
    files["big.md"] = b"---\nid: big\n" + b"#" * MAX_BYTES
    assert load_error(files).code == "frontmatter-invalid"


def test_an_action_larger_than_what_is_parsed() -> None:
    error = load_error(minimal(actions__work_yaml=ACTION.encode() + b"#" * MAX_BYTES))
    assert error.code == "parse-failed"


@pytest.mark.parametrize(
    "text", [b"", b"\x00", b"\xff\xfe", bytes(range(256)), b"- a\n", b"---\n---\n", b"&a [*a]", b"'", b"\xef\xbb\xbf"]
)
@pytest.mark.parametrize("path", ["provider.yaml", "graphs/main.yaml", "actions/work.yaml"])
def test_odd_content_is_an_error_with_a_code(text: bytes, path: str) -> None:
    error = load_error({**minimal(), path: text})
    assert error.code in ("parse-failed", "schema-invalid")
    assert error.diagnostics[0].path == path


def test_a_range_that_excludes_this_protocol_is_a_warning() -> None:
    warnings: list[Diagnostic] = []
    files = minimal(provider_yaml=PROVIDER + "compatibility: { agentGraph: ^0.2.0, node: '>=99' }\n")
    load_provider(memory(files), warn=warnings.append)
    assert [(w.code, w.severity, w.line) for w in warnings] == [("compatibility-unsupported", "warning", 5)]


def test_skill_folders_leave_out_junk_and_carry_the_rest(tmp_path: Path) -> None:
    inside = dict.fromkeys((".hidden", "a.pyc.txt", "tests/t.yaml", "film.swf", "deep/er/file"), "x")
    names = ".DS_Store ._a Thumbs.db __pycache__/m.cpython-311.pyc m.pyc .git/HEAD .a.swp deep/.b.swo b~ .#lock #auto#"
    left = dict.fromkeys(names.split(), "x")
    root = write_out(with_skill(**inside, **left), tmp_path / "root")
    (root / "skills/s/.#emacs").symlink_to("user@host.1:2")  # an editor's lock dangles
    os.mkfifo(root / "skills/s/__pycache__/pipe")
    with DirectoryTree(root) as tree:
        skill = load_provider(tree).skills["skills/s/SKILL.md"]
    assert sorted(skill.files) == sorted(["skills/s/SKILL.md", *(f"skills/s/{name}" for name in inside)])
    assert skill.left_out == {
        "skills/s/.DS_Store": "macOS folder settings",
        "skills/s/._a": "macOS resource fork",
        "skills/s/Thumbs.db": "Windows thumbnails",
        "skills/s/__pycache__": "Python bytecode",
        "skills/s/m.pyc": "Python bytecode",
        "skills/s/.git": "git's own files",
        "skills/s/.a.swp": "editor's swap file",
        "skills/s/deep/.b.swo": "editor's swap file",
        "skills/s/b~": "editor's backup file",
        "skills/s/.#lock": "editor's lock file",
        "skills/s/.#emacs": "editor's lock file",
        "skills/s/#auto#": "editor's autosave file",
    }


def test_junk_that_is_named_is_carried() -> None:
    assert "m.pyc" in load(with_files(minimal(), {"m.pyc": b"x"})).actions["actions/work.yaml"].files
    files = minimal(actions__work_yaml=SKILL_ACTION.replace("SKILL.md", "SKILL.md~"))
    files["skills/s/SKILL.md~"] = "---\n---\n"
    assert load(files).skills["skills/s/SKILL.md~"].files == ("skills/s/SKILL.md~",)


def test_every_fault_of_a_skill_folder_is_told(tmp_path: Path) -> None:
    root = write_out(with_skill(), tmp_path / "root")
    folder = root / "skills/s"
    os.mkfifo(folder / "pipe")
    (folder / "out").symlink_to("/etc/hostname")
    (folder / "gone").symlink_to("nowhere")
    (folder / "self").symlink_to(".")
    (folder / "again").symlink_to("again")
    with DirectoryTree(root) as tree, pytest.raises(BundlerError) as raised:
        load_provider(tree)
    assert sorted((d.path, d.code) for d in raised.value.diagnostics) == [
        ("skills/s/again", "file-missing"),
        ("skills/s/gone", "file-missing"),
        ("skills/s/out", "path-symlink-outside-provider"),
        ("skills/s/pipe", "file-missing"),
        ("skills/s/self", "file-missing"),
    ]


def test_a_reference_through_a_library_call() -> None:
    for path, code in (("/provider.yaml", "absolute-path-forbidden"), ("../provider.yaml", "path-outside-provider")):
        with pytest.raises(BundlerError) as raised:
            load_provider(memory(minimal()), path)
        assert raised.value.code == code


def test_unreadable_files(tmp_path: Path) -> None:
    root = write_out(minimal(), tmp_path / "root")
    (root / "actions/work.yaml").chmod(0)
    assert as_nobody(root) == ("file-read-failed", "actions/work.yaml")


def as_nobody(root: Path) -> tuple[str, str]:
    """Code and path of what loading raises, for a user who is not root (root reads everything)."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with DirectoryTree(root) as tree:  # opened before: the folders above belong to root alone
                if os.geteuid() == 0:
                    os.setgroups([])
                    os.setuid(65534)
                load_provider(tree)
        except BundlerError as error:
            os.write(write_end, f"{error.code} {error.diagnostics[0].path}".encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as answer:
        code, _, path = answer.read().partition(" ")
    os.waitpid(child, 0)
    return code, path


def test_many_misspelt_names_are_told_without_looking_for_each() -> None:
    nodes = "".join(
        f"  - {{ id: node-{i}, kind: action, reasonCode: route.a, action: actions/work.yaml }}\n" for i in range(2000)
    )
    edges = "[" + ", ".join(f"{{ from: nodes-{i}, to: z }}" for i in range(2000)) + "]"
    error = load_error(minimal(graphs__main_yaml=graph(nodes, edges).replace("default: a", "default: node-1")))
    assert len(error.diagnostics) == 2000
