"""Tree → Provider: every rule, in the order that decides the code (protocol: "Order of checks").

1. the manifest; 2. the Code Catalog and its documents; 3. each Graph in manifest order; 4. what each
node names; 5. recursion between Graphs; 6. reason codes; 7. materializers.

A broken part does not hide another: all faults are collected, and the first gives the code. Parts that a
broken one leaves unknown are not reported as missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import BundlerError, Diagnostic
from ..paths import junk, normalize
from ..protocol import schemas
from ..protocol.documents import MAX_BYTES, Document, describe, front_matter, parse, pointer_step
from ..protocol.model import Action, Catalog, Code, Graph, Node, Provider, Resource, SkillFolder
from ..protocol.resources import DEFAULT_MEDIA_TYPE, DESCRIPTOR_PREFIX, MARKDOWN, PROTOCOLS, STATIC_KINDS, conversion
from ..protocol.versions import PROTOCOL_VERSION, Range
from ..tree import Tree
from .rules import fault, graph_faults, reason_code_faults, recursion_fault

_ID = re.compile(r"[a-z0-9](?:[a-z0-9._/-]*[a-z0-9])?\Z")
_MAX_ID = 160
_SCHEMA_IDENTITY = re.compile(r"[a-z0-9][a-z0-9._/-]*/v[1-9][0-9]*\Z")
_DESCRIPTOR_ENDINGS = (".yaml", ".yml", ".json")
# Faults of the file itself, which need the word who named it.
_FILE_CODES = frozenset(("file-missing", "file-read-failed", "path-symlink-outside-provider"))


def load_provider(tree: Tree, manifest: str = "provider.yaml", *, warn: Callable[[Diagnostic], object] = lambda warning: None) -> Provider:
    """The Provider whose manifest lies at `manifest` in the tree (specification: "Provider and Skill binding").

    `warn` is called for what is no fault but worth a word (`compatibility-unsupported`). Raises
    `BundlerError` with every fault that could be found. Nothing is executed, nothing fetched.
    """
    return _Loader(tree, warn).load(normalize(manifest))


class _Loader:
    def __init__(self, tree: Tree, warn: Callable[[Diagnostic], object]) -> None:
        self._tree = tree
        self._warn = warn
        self._faults: list[BundlerError] = []
        self._bytes: dict[str, bytes] = {}
        self._present: set[str] = set()
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
        # 1. the manifest: nothing can be said without it
        manifest = self._document(manifest_path, "provider")
        self._compatibility(manifest)
        # 2. the Code Catalog
        catalog = self._catalog(manifest)
        # 3. each Graph
        for index, path in enumerate(manifest.value["graphs"]):
            with self._collecting():
                self._graph(normalize(path), manifest, index)
        # 4. what each node names
        for graph in self._graphs.values():
            document = self._graph_documents[graph.id]
            for index, node in enumerate(graph.nodes):
                self._node(node, document, f"/nodes/{index}")
        # 5. recursion
        recursion = recursion_fault(self._graphs, self._graph_documents)
        if recursion is not None:
            self._faults.append(recursion)
        # 6. reason codes
        if isinstance(catalog, Catalog):
            for graph in self._graphs.values():
                self._faults.extend(reason_code_faults(graph, self._graph_documents[graph.id], catalog))
        # 7. materializers
        for resource in list(self._resources.values()):
            if resource is not None and resource.dynamic:
                self._materializer(resource)
        if self._faults:
            raise BundlerError.of(self._faults)
        return Provider(
            id=manifest.value["id"],
            version=manifest.value["version"],
            name=manifest.value.get("name"),
            description=manifest.value.get("description"),
            manifest_path=manifest_path,
            manifest=manifest.value,
            graphs=self._graphs,
            actions={path: action for path, action in self._actions.items() if action is not None},
            resources={path: resource for path, resource in self._resources.items() if resource is not None},
            catalog=catalog,
            skills=self._skills,
            documents=self._bytes,
        )

    # --- reading ------------------------------------------------------------------------------------

    def _read(self, path: str) -> bytes:
        """The bytes of a file that is parsed; each is read once."""
        data = self._bytes.get(path)
        if data is None:
            data = self._bytes[path] = self._tree.read(path, MAX_BYTES)
        return data

    def _document(self, path: str, schema: str) -> Document:
        document = parse(self._read(path), path)
        schemas.check(document, schema)
        return document

    @contextmanager
    def _collecting(self, document: Document | None = None, pointer: str = "") -> Iterator[None]:
        """Note a fault and go on; a fault of a file is told with the place that names the file."""
        try:
            yield
        except BundlerError as error:
            if document is not None and error.code in _FILE_CODES:
                error = _named_by(error, document, pointer)
            self._faults.append(error)

    def _require(self, path: str, document: Document, pointer: str) -> bool:
        """Whether a file that is only carried is a regular file inside the root; a fault if not."""
        if path in self._present or path in self._bytes:
            return True
        with self._collecting(document, pointer):
            self._tree.open(path).close()
            self._present.add(path)
            return True
        return False

    # --- the manifest and the Code Catalog ------------------------------------------------------------

    def _compatibility(self, manifest: Document) -> None:
        for name, text in manifest.value.get("compatibility", {}).items():
            pointer = f"/compatibility/{name}"
            try:
                wanted = Range(text)
            except ValueError as error:
                self._faults.append(fault(manifest, "compatibility-range-invalid", pointer, f"is no version range: {error}"))
                continue
            if name == "agentGraph" and not wanted.admits(PROTOCOL_VERSION):
                error = fault(manifest, "compatibility-unsupported", pointer, f"the range {text} excludes protocol {PROTOCOL_VERSION}")
                where = error.diagnostics[0]
                self._warn(Diagnostic(code=error.code, message=error.message, severity="warning", path=where.path, line=where.line,
                                      column=where.column, pointer=pointer, hint=where.hint))

    def _catalog(self, manifest: Document) -> Catalog | None:
        named = manifest.value.get("catalogs", {}).get("codes")
        if named is None:
            return None
        path = normalize(named)
        with self._collecting(manifest, "/catalogs/codes"):
            document = self._document(path, "code-catalog")
            catalog = Catalog(path=path, codes=tuple(map(Code.from_value, document.value["codes"])))
            seen: set[str] = set()
            for index, code in enumerate(catalog.codes):
                if code.code in seen:
                    self._faults.append(fault(document, "code-catalog-code-duplicate", f"/codes/{index}/code", f"lists the code `{code.code}` a second time"))
                seen.add(code.code)
            for index, code in enumerate(catalog.codes):
                if code.document is None:
                    continue
                pointer = f"/codes/{index}/document"
                resource = self._resource(code.document, document, pointer)
                if resource is not None and resource.dynamic:
                    self._faults.append(fault(document, "code-document-dynamic", pointer, f"the document of `{code.code}` is {resource.path}, whose content a materializer makes; a static Resource is expected"))
            return catalog
        return None

    # --- Graphs and nodes -------------------------------------------------------------------------------

    def _graph(self, path: str, manifest: Document, index: int) -> None:
        graphs_unknown, self._graphs_unknown = self._graphs_unknown, True
        with self._collecting(manifest, f"/graphs/{index}"):
            document = self._document(path, "graph")
            self._graphs_unknown = graphs_unknown
            graph = Graph.from_value(path, document.value)
            self._faults.extend(graph_faults(graph, document))
            if graph.id in self._graphs:
                self._faults.append(fault(document, "graph-id-duplicate", "/id", f"the id `{graph.id}` is that of {self._graphs[graph.id].path} too"))
            else:
                self._graphs[graph.id] = graph
                self._graph_documents[graph.id] = document

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
        assert node.graph is not None  # by its schema
        graph = self._graphs.get(node.graph)
        if graph is None:
            if not self._graphs_unknown:  # a Graph that could not be read may be the one
                self._faults.append(fault(document, "subgraph-missing", f"{pointer}/graph", f"the node `{node.id}` enters the Graph `{node.graph}`, which the manifest does not list"))
        elif node.entry not in graph.entrypoints:
            self._faults.append(fault(document, "subgraph-entry-missing", f"{pointer}/entry", f"the node `{node.id}` enters `{graph.id}` at `{node.entry}`, which is none of its entrypoints ({', '.join(graph.entrypoints)})"))

    def _gate(self, node: Node, document: Document, pointer: str) -> None:
        if node.inspection_action is not None:
            action = self._action(node.inspection_action, document, f"{pointer}/inspectionAction")
            if action is not None and action.effect != "read":
                self._faults.append(fault(document, "gate-inspection-effect-invalid", f"{pointer}/inspectionAction", f"the inspection Action {action.path} has effect {action.effect}; read is expected"))
        delegated = node.delegated
        if delegated is not None:
            gate = node.gate
            if gate is None or not gate.delegatable or gate.authority is None:
                self._faults.append(fault(document, "gate-delegated-policy-invalid", f"{pointer}/delegated", f"the Gate `{node.id}` has `delegated` and no session authority may resolve it"))
            if delegated.inspection is not None and node.inspection_action is None:
                self._faults.append(fault(document, "gate-delegated-inspection-missing", f"{pointer}/delegated/inspection", f"the Gate `{node.id}` has no inspectionAction that could be {delegated.inspection}"))
            if delegated.resolution_action is not None:
                self._resolution(delegated.resolution_action, document, f"{pointer}/delegated/resolutionAction")
        if node.resolution_action is not None:
            self._resolution(node.resolution_action, document, f"{pointer}/resolutionAction")

    def _resolution(self, path: str, document: Document, pointer: str) -> None:
        action = self._action(path, document, pointer)
        if action is not None and action.effect == "read":
            self._faults.append(fault(document, "gate-resolution-effect-invalid", pointer, f"the resolution Action {action.path} has effect read; write or external is expected"))

    # --- Actions ----------------------------------------------------------------------------------------

    def _action(self, path: str, named_in: Document, pointer: str) -> Action | None:
        if path in self._actions:
            return self._actions[path]
        self._actions[path] = None
        with self._collecting(named_in, pointer):
            document = self._document(path, "action")
            action = self._actions[path] = Action.from_value(path, document.value)
            first = self._action_ids.setdefault(action.id, path)
            if first != path:
                self._faults.append(fault(document, "action-id-duplicate", "/id", f"the id `{action.id}` is that of {first} too"))
            for role, file in action.file_paths():
                self._require(file, document, _role_pointer(role))
            if action.skill is not None:
                self._skill(action.skill, document)
        return self._actions[path]

    def _skill(self, path: str, document: Document) -> None:
        if path in self._skills or not self._require(path, document, "/skill"):
            return
        folder = path.rpartition("/")[0]
        left_out: dict[str, str] = {}
        files = {path: None}

        def skip(inside: str) -> bool:
            what = junk(inside.rpartition("/")[2])
            if what is None or inside == path:
                return False
            left_out[inside] = what
            return True

        if folder:  # a Skill in the Provider root carries itself only
            for item in self._tree.files(folder, skip):
                if isinstance(item, BundlerError):
                    self._faults.append(_named_by(item, document, "/skill"))
                else:
                    files[item] = None
        self._skills[path] = SkillFolder(files=tuple(files), left_out=left_out)

    # --- Resources --------------------------------------------------------------------------------------

    def _resource(self, path: str, named_in: Document, pointer: str) -> Resource | None:
        if path in self._resources:
            return self._resources[path]
        self._resources[path] = None
        with self._collecting(named_in, pointer):
            descriptor = path.lower().endswith(_DESCRIPTOR_ENDINGS)
            document, resource = self._descriptor(path) if descriptor else self._markdown(path)
            first = self._resource_ids.setdefault(resource.id, path)
            if first != path:
                self._faults.append(fault(document, "resource-id-duplicate", "/id", f"the id `{resource.id}` is that of {first} too"))
            self._resources[path] = resource
        return self._resources[path]

    def _descriptor(self, path: str) -> tuple[Document, Resource]:
        document = parse(self._read(path), path)
        schema = document.value.get("schema") if isinstance(document.value, dict) else None
        if not isinstance(schema, str) or not schema.startswith(DESCRIPTOR_PREFIX):
            raise BundlerError("frontmatter-missing", f"`{path}` is no Resource: its `schema` is no descriptor protocol, and it has no front matter",
                               path=path, hint=f"give it a `schema`, one of: {', '.join(PROTOCOLS)}")
        protocol = PROTOCOLS.get(schema)
        if protocol is None:
            error = fault(document, "resource-protocol-unsupported", "/schema", f"the descriptor protocol {schema} is not supported")
            raise BundlerError(error.code, error.message, hint=conversion(schema), path=path, line=error.diagnostics[0].line,
                               column=error.diagnostics[0].column, pointer="/schema")
        schemas.check(document, "resource")
        value = document.value
        content = normalize(value["path"]) if "path" in value else None
        if content is not None:
            self._require(content, document, "/path")
        return document, Resource(
            id=value["id"], path=path, kind=value["kind"], media_type=value["mediaType"], description=value.get("description"),
            protocol=protocol, content=content,
            materializer=normalize(value["materializer"]) if "materializer" in value else None, input=value.get("input"),
        )

    def _markdown(self, path: str) -> tuple[Document, Resource]:
        document = front_matter(self._head(path), path)
        value: dict[str, Any] = document.value
        media_key = "media-type" if "media-type" in value else "mediaType"
        media_type = value.get(media_key, DEFAULT_MEDIA_TYPE)
        for key, item in (("id", value.get("id")), ("kind", value.get("kind")), (media_key, media_type)):
            if not isinstance(item, str) or not item:
                found = f"is {describe(item)}" if key in value else "is missing"
                raise fault(document, "resource-metadata-invalid", pointer_step(key), f"`{key}` {found}; a text is expected")
        if len(value["id"]) > _MAX_ID or not _ID.match(value["id"]):
            raise fault(document, "resource-metadata-invalid", "/id", f"`id` is {describe(value['id'])}; an id is expected: lower-case letters, digits and . _ / - between a letter or digit at both ends")
        if value["kind"] not in STATIC_KINDS:
            raise fault(document, "resource-kind-invalid", "/kind", f"`kind` is {describe(value['kind'])}; expected one of: {', '.join(STATIC_KINDS)}")
        return document, Resource(id=value["id"], path=path, kind=value["kind"], media_type=media_type, description=None,
                                  protocol=MARKDOWN, content=path, materializer=None, input=None)

    def _head(self, path: str) -> bytes:
        """Enough of a Markdown file for its front matter: the file itself may be of any size."""
        if path not in self._bytes:
            with self._tree.open(path) as reader:
                if reader.size > MAX_BYTES:
                    return reader.read(MAX_BYTES)
        return self._read(path)

    def _materializer(self, resource: Resource) -> None:
        assert resource.materializer is not None  # by its schema
        named_in = parse(self._read(resource.path), resource.path)
        action = self._action(resource.materializer, named_in, "/materializer")
        if action is None:
            return
        if action.effect != "read":
            self._faults.append(fault(named_in, "materializer-effect-invalid", "/materializer", f"the materializer {action.path} has effect {action.effect}; read is expected"))
        if action.runner not in resource.protocol.runners:
            expected = " or ".join(resource.protocol.runners)
            error = fault(named_in, "materializer-runner-invalid", "/materializer", f"the materializer {action.path} has runner {action.runner}; {expected} is expected")
            where = error.diagnostics[0]
            self._faults.append(BundlerError(error.code, error.message, hint=f"name an Action whose runner is {expected}",
                                             path=where.path, line=where.line, column=where.column, pointer=where.pointer))
        elif resource.protocol.contract:
            with self._collecting():
                self._contract(resource, action, named_in)

    def _contract(self, resource: Resource, action: Action, named_in: Document) -> None:
        """A host Action's schemas: present, identified, self-contained; and the input satisfies its schema."""
        named = (("inputSchema", action.input_schema), ("outputSchema", action.output_schema))
        missing = [role for role, path in named if path is None]
        if missing:
            raise fault(named_in, "materializer-schema-missing", "/materializer", f"the materializer {action.path} lacks {' and '.join(missing)}")
        documents = [parse(self._read(path), path) for _, path in named if path is not None]
        faults = [error for document in documents if (error := _identity_fault(document)) is not None]
        if faults:
            raise BundlerError.of(faults)
        validators = [schemas.compile_schema(document) for document in documents]
        broken = schemas.value_faults(validators[0], resource.input)
        if broken:
            raise BundlerError.of([
                fault(named_in, "resource-input-invalid", "/input" + pointer, f"the input breaks {action.input_schema}: `{'/input' + pointer}` {message} ({keyword})")
                for keyword, pointer, message in broken
            ])


def _identity_fault(document: Document) -> BundlerError | None:
    identity = document.value.get("$id") if isinstance(document.value, dict) else None
    if isinstance(identity, str) and _SCHEMA_IDENTITY.match(identity):
        return None
    return fault(document, "materializer-schema-identity-invalid", "/$id",
                 f"`$id` is {'missing' if identity is None else describe(identity)}; a versioned identity is expected, such as acme.request/v1")


def _named_by(error: BundlerError, document: Document, pointer: str) -> BundlerError:
    line, column = document.place(pointer) or (None, None)
    where = f"{document.path}:{line}:{column}" if line is not None else document.path
    first = error.diagnostics[0]
    return BundlerError(error.code, f"{error.message} (named at {where})", path=first.path, hint=error.hint,
                        detail={"namedBy": document.path, "namedAt": pointer, **({} if line is None else {"namedLine": line, "namedColumn": column})})


def _role_pointer(role: str) -> str:
    """`resources.required[0]` → `/resources/required/0`."""
    return "/" + role.replace(".", "/").replace("[", "/").replace("]", "")
