"""Tree → Provider: every rule, in the order that decides the code (protocol: "Order of checks").

1. the manifest; 2. the Code Catalog and its documents; 3. each Graph in manifest order; 4. what each
node names; 5. recursion between Graphs; 6. reason codes; 7. materializers.

A broken part does not hide another: all faults are collected, and the first gives the code. Parts that a
broken one leaves unknown are not reported as missing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType

from ..errors import BundlerError, Diagnostic
from ..paths import junk, normalize
from ..protocol.canonical import Json
from ..protocol.documents import Document
from ..protocol.model import Action, Catalog, Graph, Node, Provider, Resource, SkillFolder
from ..tree import Tree
from .resources import check_materializer, read_resource
from .rules import graph_faults, reason_code_faults, recursion_fault
from .sources import Parsed, Sources


def load_provider(
    tree: Tree,
    manifest: str = "provider.yaml",
    *,
    warn: Callable[[Diagnostic], object] = lambda warning: None,
    parsed: Parsed | None = None,
) -> Provider:
    """The Provider whose manifest lies at `manifest` in the tree (specification: "Provider and Skill binding").

    `warn` is called for what is no fault but worth a word (`compatibility-unsupported`). Raises
    `BundlerError` with every fault that could be found. Nothing is executed, nothing fetched. With `parsed`
    schemas and rules are passed over: for content that is known to have satisfied them, and to have these values.
    """
    return _Loader(tree, warn, parsed).load(normalize(manifest))


class _Loader:
    def __init__(self, tree: Tree, warn: Callable[[Diagnostic], object], parsed: Parsed | None) -> None:
        self._sources = Sources(tree, parsed)
        self._warn = warn
        # By path; None for what is broken and was reported.
        self._actions: dict[str, Action | None] = {}
        self._resources: dict[str, Resource | None] = {}
        self._skills: dict[str, SkillFolder] = {}
        self._action_ids: dict[str, str] = {}
        self._resource_ids: dict[str, str] = {}
        self._graphs: dict[str, Graph] = {}
        self._graph_documents: dict[str, Document] = {}
        self._graphs_unknown = False

    def load(self, manifest_path: str) -> Provider:
        # 1. the manifest: where it is broken, the rest is looked at as far as it names it
        manifest = self._manifest(manifest_path)
        # 2. the Code Catalog
        catalog = self._catalog(manifest)
        # 3. each Graph
        for index, path in _usable_paths(manifest.value.get("graphs")):
            self._graph(path, manifest, index)
        # 4. what each node names
        for graph in self._graphs.values():
            document = self._graph_documents[graph.id]
            for index, node in enumerate(graph.nodes):
                self._node(node, document, f"/nodes/{index}")
        if self._sources.judge:
            self._judge_graphs(catalog)
        # 7. materializers
        for resource in list(self._resources.values()):
            if resource is not None and resource.materializer is not None:
                self._materializer(resource, resource.materializer)
        if self._sources.faults:
            raise BundlerError.of(self._sources.faults)
        return Provider(
            id=manifest.value["id"],
            version=manifest.value["version"],
            name=manifest.value.get("name"),
            description=manifest.value.get("description"),
            manifest_path=manifest_path,
            manifest=manifest.value,
            graphs=MappingProxyType(self._graphs),
            actions=MappingProxyType({path: action for path, action in self._actions.items() if action is not None}),
            resources=MappingProxyType({path: found for path, found in self._resources.items() if found is not None}),
            catalog=catalog,
            skills=MappingProxyType(self._skills),
            documents=MappingProxyType(self._sources.bytes),
            executable=frozenset(self._sources.executable),
        )

    def _judge_graphs(self, catalog: Catalog | None) -> None:
        # 5. recursion
        recursion = recursion_fault(self._graphs, self._graph_documents)
        if recursion is not None:
            self._sources.note(recursion)
        # 6. reason codes
        if isinstance(catalog, Catalog):
            for graph in self._graphs.values():
                self._sources.faults.extend(
                    reason_code_faults(graph, self._graph_documents[graph.id], catalog, self._sources.suggestions)
                )

    # --- the manifest and the Code Catalog ------------------------------------------------------------

    def _manifest(self, path: str) -> Document:
        try:
            manifest = self._sources.document(path)
        except BundlerError as error:
            folder, _, name = path.rpartition("/")
            if error.code != "file-missing":
                raise
            where = self._sources.tree.describe(folder)
            near = self._sources.suggestions.near(name, self._sources.tree.names(folder))
            raise BundlerError(
                error.code,
                f"{where} holds no Provider: {error.message}{near}",
                path=path,
                hint="name a Provider with -m: its folder, which holds provider.yaml, or its manifest file",
            ) from None
        with self._sources.collecting():
            self._sources.check(manifest, "provider")
            if self._sources.judge:
                self._compatibility(manifest)
        value = manifest.value
        if self._sources.faults and (not isinstance(value, dict) or value.get("schema") != "agent-graph.provider.v1"):
            raise BundlerError.of(self._sources.faults)  # something else: what it names is nobody's
        return manifest

    def _compatibility(self, manifest: Document) -> None:
        ranges = manifest.value.get("compatibility", {})
        if not ranges:
            return
        from ..protocol import PROTOCOL_VERSION
        from ..protocol.versions import Range

        for name, text in ranges.items():
            pointer = f"/compatibility/{name}"
            try:
                wanted = Range(text)
            except ValueError as error:
                self._sources.note(
                    manifest.fault("compatibility-range-invalid", pointer, f"is no version range: {error}")
                )
                continue
            if name == "agentGraph" and not wanted.admits(PROTOCOL_VERSION):
                message = f"the range {text} excludes protocol {PROTOCOL_VERSION}"
                unsupported = manifest.fault("compatibility-unsupported", pointer, message)
                self._warn(replace(unsupported.diagnostics[0], severity="warning"))

    def _catalog(self, manifest: Document) -> Catalog | None:
        catalogs = manifest.value.get("catalogs")
        named = _usable_paths([catalogs.get("codes")] if isinstance(catalogs, dict) else None)
        if not named:
            return None
        path = named[0][1]
        with self._sources.collecting(manifest, "/catalogs/codes"):
            document = self._sources.document(path, "code-catalog")
            catalog = Catalog.from_value(path, document.value)
            seen: set[str] = set()
            for index, code in enumerate(catalog.codes):
                if code.code in seen:
                    self._sources.note(
                        document.fault(
                            "code-catalog-code-duplicate",
                            f"/codes/{index}/code",
                            f"lists the code `{code.code}` a second time",
                        )
                    )
                seen.add(code.code)
            for index, code in enumerate(catalog.codes):
                if code.document is None:
                    continue
                pointer = f"/codes/{index}/document"
                resource = self._resource(code.document, document, pointer)
                if resource is not None and resource.dynamic:
                    self._sources.note(
                        document.fault(
                            "code-document-dynamic",
                            pointer,
                            f"the document of `{code.code}` is {resource.path}, whose content a materializer makes; a static Resource is expected",
                        )
                    )
            return catalog
        return None

    # --- Graphs and nodes -------------------------------------------------------------------------------

    def _graph(self, path: str, manifest: Document, index: int) -> None:
        document: Document | None = None
        with self._sources.collecting(manifest, f"/graphs/{index}"):
            document = self._sources.document(path, "graph")
        if document is None:
            self._graphs_unknown = True  # it may be the one that a node enters
            return
        graph = Graph.from_value(path, document.value)
        if self._sources.judge:
            self._sources.faults.extend(graph_faults(graph, document, self._sources.suggestions))
        first = self._graphs.setdefault(graph.id, graph)
        if first is graph:
            self._graph_documents[graph.id] = document
            return
        self._graphs_unknown = True  # what it was meant to be called is not known
        message = f"the id `{graph.id}` is that of {first.path} too"
        self._sources.note(document.fault("graph-id-duplicate", "/id", message))

    def _node(self, node: Node, document: Document, pointer: str) -> None:
        if node.kind == "subgraph":
            self._subgraph(node, document, pointer)
        elif node.kind == "action" and node.action is not None:
            self._action(node.action, document, f"{pointer}/action")
        elif node.kind == "gate":
            self._gate(node, document, pointer)
        for role, path in node.resource_paths():
            self._resource(path, document, pointer + _role_pointer(role))

    def _subgraph(self, node: Node, document: Document, pointer: str) -> None:
        graph = self._graphs.get(node.graph or "")
        if graph is None:
            if not self._graphs_unknown:
                near = self._sources.suggestions.near(node.graph or "", self._graphs)
                message = (
                    f"the node `{node.id}` enters the Graph `{node.graph}`, which the manifest does not list{near}"
                )
                self._sources.note(document.fault("subgraph-missing", f"{pointer}/graph", message))
        elif node.entry not in graph.entrypoints:
            self._sources.note(
                document.fault(
                    "subgraph-entry-missing",
                    f"{pointer}/entry",
                    f"the node `{node.id}` enters `{graph.id}` at `{node.entry}`, which is none of its entrypoints ({', '.join(graph.entrypoints)})",
                )
            )

    def _gate(self, node: Node, document: Document, pointer: str) -> None:
        if node.inspection_action is not None:
            action = self._action(node.inspection_action, document, f"{pointer}/inspectionAction")
            if action is not None and action.effect != "read":
                self._sources.note(
                    document.fault(
                        "gate-inspection-effect-invalid",
                        f"{pointer}/inspectionAction",
                        f"the inspection Action {action.path} has effect {action.effect}; read is expected",
                    )
                )
        delegated = node.delegated
        if delegated is not None:
            gate = node.gate
            if gate is None or not gate.delegatable or gate.authority is None:
                self._sources.note(
                    document.fault(
                        "gate-delegated-policy-invalid",
                        f"{pointer}/delegated",
                        f"the Gate `{node.id}` has `delegated` and no session authority may resolve it",
                    )
                )
            if delegated.inspection is not None and node.inspection_action is None:
                self._sources.note(
                    document.fault(
                        "gate-delegated-inspection-missing",
                        f"{pointer}/delegated/inspection",
                        f"the Gate `{node.id}` has no inspectionAction that could be {delegated.inspection}",
                    )
                )
            if delegated.resolution_action is not None:
                self._resolution(delegated.resolution_action, document, f"{pointer}/delegated/resolutionAction")
        if node.resolution_action is not None:
            self._resolution(node.resolution_action, document, f"{pointer}/resolutionAction")

    def _resolution(self, path: str, document: Document, pointer: str) -> None:
        action = self._action(path, document, pointer)
        if action is not None and action.effect == "read":
            self._sources.note(
                document.fault(
                    "gate-resolution-effect-invalid",
                    pointer,
                    f"the resolution Action {action.path} has effect read; write or external is expected",
                )
            )

    # --- Actions ----------------------------------------------------------------------------------------

    def _action(self, path: str, named_in: Document, pointer: str) -> Action | None:
        if path in self._actions:
            return self._actions[path]
        self._actions[path] = None
        with self._sources.collecting(named_in, pointer):
            document = self._sources.document(path, "action")
            action = self._actions[path] = Action.from_value(path, document.value)
            first = self._action_ids.setdefault(action.id, path)
            if first != path:
                self._sources.note(
                    document.fault("action-id-duplicate", "/id", f"the id `{action.id}` is that of {first} too")
                )
            for role, file in action.file_paths():
                self._sources.require(file, document, _role_pointer(role))
            if action.skill is not None:
                self._skill(action.skill, document)
        return self._actions[path]

    def _skill(self, path: str, document: Document) -> None:
        if path in self._skills or not self._sources.require(path, document, "/skill"):
            return
        folder = path.rpartition("/")[0]
        left_out: dict[str, str] = {}
        files = {path: None}

        def skip(inside: str) -> bool:
            kind = junk(inside.rpartition("/")[2])
            if kind is None or inside == path:
                return False
            left_out[inside] = kind.what
            return True

        if folder:  # a Skill in the Provider root carries itself only
            for item in self._sources.tree.files(folder, skip):
                if isinstance(item, BundlerError):
                    self._sources.note(item, document, "/skill")
                else:
                    files[item] = None
        self._skills[path] = SkillFolder(files=tuple(files), left_out=left_out)

    # --- Resources --------------------------------------------------------------------------------------

    def _resource(self, path: str, named_in: Document, pointer: str) -> Resource | None:
        if path in self._resources:
            return self._resources[path]
        self._resources[path] = None
        with self._sources.collecting(named_in, pointer):
            document, resource = read_resource(self._sources, path)
            first = self._resource_ids.setdefault(resource.id, path)
            if first != path:
                self._sources.note(
                    document.fault("resource-id-duplicate", "/id", f"the id `{resource.id}` is that of {first} too")
                )
            self._resources[path] = resource
        return self._resources[path]

    def _materializer(self, resource: Resource, path: str) -> None:
        descriptor = self._sources.document(resource.path)
        action = self._action(path, descriptor, "/materializer")
        if action is not None and self._sources.judge:
            check_materializer(self._sources, resource, action, descriptor)


def _usable_paths(value: Json) -> list[tuple[int, str]]:
    """(index, path in normal form) for each path of a list that a schema may have refused in part."""
    usable = []
    for index, path in enumerate(value if isinstance(value, list) else ()):
        if isinstance(path, str) and path:
            with suppress(BundlerError):  # told already as a fault of the schema
                usable.append((index, normalize(path)))
    return usable


def _role_pointer(role: str) -> str:
    """`resources.required[0]` → `/resources/required/0`."""
    return "/" + role.replace(".", "/").replace("[", "/").replace("]", "")
