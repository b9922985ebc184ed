"""Provider → the files that it needs, and why each (protocol: "Closure: what a bundle carries").

Nothing is scanned: a file is carried because something that is carried names it. What is known of a file
is who names it directly; a chain of reasons is read off from that, so the closure is linear however many
nodes share an Action.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ..paths import code_unit_key
from ..protocol.model import Action, Graph, Node, Provider, Resource
from ..tree import Entry, Tree, folders_of, strangers

#: What an item is carried as. One file can be several: an Action, and a plain file that another one lists.
Role = Literal["manifest", "catalog", "graph", "action", "resource", "skill", "file"]
_ROLES: tuple[Role, ...] = ("manifest", "catalog", "graph", "action", "resource", "skill", "file")


class Item(NamedTuple):
    """A file in one of its roles."""

    role: Role
    path: str


class Reason(NamedTuple):
    """Who names an item, and where in it."""

    by: Item | None
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Closure:
    """`reasons`: item → who names it, in the order met. `targets`: item → the items that it names.

    `left_out`: junk in Skill folders, path → what it is.
    """

    reasons: Mapping[Item, Sequence[Reason]]
    targets: Mapping[Item, Sequence[Item]]
    left_out: Mapping[str, str]

    @property
    def paths(self) -> list[str]:
        """Every carried path once, by UTF-16 code units (as `files` in the bundle manifest)."""
        return sorted({item.path for item in self.reasons}, key=code_unit_key)

    def chain(self, item: Item) -> str:
        """Why the item is carried: `graphs/release.yaml › node inspect › actions/inspect.yaml › files[0]`."""
        steps: list[str] = []
        while True:
            reason = self.reasons[item][0]
            steps.append(reason.at)
            if reason.by is None:
                break
            item = reason.by
            # A chain begins at a Graph: that the manifest lists it goes without saying.
            steps.append(item.path)
            if item.role in ("graph", "manifest"):
                break
        return " › ".join(reversed(steps))

    def why(self, path: str) -> list[str]:
        """Every reason for which the path is carried, one a direct mention; empty if it is not."""
        found: list[str] = []
        for role in _ROLES:
            for reason in self.reasons.get(Item(role, path), ()):
                if reason.by is None or reason.by.role in ("graph", "manifest"):
                    lead = [reason.by.path] if reason.by else []
                else:
                    lead = [self.chain(reason.by), reason.by.path]
                found.append(" › ".join([*lead, reason.at]))
        return found

    def below(self, item: Item) -> list[str]:
        """The paths of the item and of everything that it needs, each once, by UTF-16 code units."""
        seen = {item}
        pending = [item]
        while pending:
            for target in self.targets.get(pending.pop(), ()):
                if target not in seen:
                    seen.add(target)
                    pending.append(target)
        return sorted({each.path for each in seen}, key=code_unit_key)


def find_closure(provider: Provider) -> Closure:
    """The closure of a loaded Provider. Pure."""
    return _Finder(provider).find()


def not_carried(tree: Tree, closure: Closure) -> Iterator[tuple[Entry, str]]:
    """What lies in the source folder and is not carried, and why: junk, or nothing names it.

    A folder of which nothing is carried is told as one. Raises `file-read-failed`.
    """
    carried = {item.path for item in closure.reasons}
    folders = folders_of(carried)
    # What leads to nothing that is carried is not looked into: it may be large, or closed to us.
    entries = tree.entries(folders.__contains__)
    for entry in strangers(entries, lambda entry: entry.path in carried or entry.path in folders):
        what = closure.left_out.get(entry.path)
        yield entry, f"left out: {what}" if what else "nothing that is carried names it"


class _Finder:
    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._reasons: dict[Item, list[Reason]] = {}
        self._targets: dict[Item, list[Item]] = {}

    def find(self) -> Closure:
        provider = self._provider
        manifest = Item("manifest", provider.manifest_path)
        self._reasons[manifest] = [Reason(None, "the manifest")]
        if provider.catalog is not None:
            catalog = Item("catalog", provider.catalog.path)
            self._add(catalog, manifest, "catalogs.codes")
            for code in provider.catalog.codes:
                if code.document is not None:
                    self._resource(code.document, catalog, f"code {code.code}")
        for index, graph in enumerate(provider.graphs.values()):
            self._add(Item("graph", graph.path), manifest, f"graphs[{index}]")
        for graph in provider.graphs.values():
            self._graph(graph)
        left_out = {path: what for skill in provider.skills.values() for path, what in skill.left_out.items()}
        carried = {item.path for item in self._reasons}
        return Closure(
            reasons=self._reasons,
            targets=self._targets,
            left_out={path: what for path, what in left_out.items() if path not in carried},
        )

    def _add(self, item: Item, by: Item, at: str) -> bool:
        """Note who names the item; whether it is met for the first time."""
        self._targets.setdefault(by, []).append(item)
        reasons = self._reasons.get(item)
        if reasons is None:
            self._reasons[item] = [Reason(by, at)]
            return True
        reasons.append(Reason(by, at))
        return False

    def _graph(self, graph: Graph) -> None:
        item = Item("graph", graph.path)
        for node in graph.nodes:
            self._node(node, item)

    def _node(self, node: Node, graph: Item) -> None:
        at = f"node {node.id}"
        if node.graph is not None:
            self._add(Item("graph", self._provider.graphs[node.graph].path), graph, at)
        for role, path in node.actions():
            self._action(path, graph, at if role == "action" else f"{at} › {role}")
        for role, path in node.resource_paths():
            self._resource(path, graph, f"{at} › {role}")

    def _action(self, path: str, by: Item, at: str) -> None:
        item = Item("action", path)
        if not self._add(item, by, at):
            return
        action: Action = self._provider.actions[path]
        for role, file in action.file_paths():
            self._add(Item("file", file), item, role)
        if action.skill is not None:
            self._skill(action.skill, item)

    def _skill(self, path: str, by: Item) -> None:
        item = Item("skill", path)
        if not self._add(item, by, "skill"):
            return
        # Most of what a Provider carries lies here: one reason serves all files of the folder.
        reason = Reason(item, "its folder")
        files = [Item("file", file) for file in self._provider.skills[path].files if file != path]
        self._targets.setdefault(item, []).extend(files)
        for file in files:
            self._reasons.setdefault(file, []).append(reason)

    def _resource(self, path: str, by: Item, at: str) -> None:
        item = Item("resource", path)
        if not self._add(item, by, at):
            return
        resource: Resource = self._provider.resources[path]
        if resource.content is not None and resource.content != path:
            self._add(Item("file", resource.content), item, "path")
        if resource.materializer is not None:
            self._action(resource.materializer, item, "materializer")
