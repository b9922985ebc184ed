"""Random Graphs and States from bytes, so that hypothesis can make the one that fails smaller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from bundler.protocol.model import Action, Graph, Provider
from bundler.runtime.evaluate import Evaluation, evaluate
from bundler.runtime.state import OUTCOMES, make_state

#: So many bytes make one question; where they end, the first of the choices is taken.
SIZE = 800
EMPTY: dict[str, Any] = {"facts": {}, "outcomes": {}, "authorities": []}

_CHECKS: tuple[dict[str, Any], ...] = (
    {"path": "a", "exists": True},
    {"path": "a", "equals": True},
    {"path": "a", "equals": 1},
    {"path": "b.c", "exists": False},
    {"path": "b.c", "equals": None},
    {"path": "l.0", "equals": "x"},
    {"path": "l.1", "exists": True},
    {"path": "l.01", "exists": False},
)
_FACTS: tuple[dict[str, Any], ...] = (
    {},
    {"a": True},
    {"a": 1.0, "l": ["x", None]},
    {"a": 1, "b": {"c": None}},
    {"a": None, "b": {"c": 0}, "l": ["x"]},
    {"b": {}, "l": {"0": "x", "01": 1}},
)
_GATES: tuple[dict[str, Any], ...] = (
    {"id": "g", "prompt": "?"},
    {"id": "g", "prompt": "?", "authority": "p"},
    {"id": "g", "prompt": "?", "authority": "p", "delegatable": False},
    {"id": "g", "prompt": "?", "authority": "p", "delegatable": True},
    {"id": "g", "prompt": "?", "authority": "q", "delegatable": True},
)
# The Outcome that edges take without a word is the commonest.
_RECORDED = (*["completed"] * 16, *OUTCOMES)
_Choice = TypeVar("_Choice")


class _Choices:
    """Choices that bytes make."""

    def __init__(self, data: bytes) -> None:
        self._bytes = iter(data)

    def below(self, bound: int) -> int:
        return next(self._bytes, 0) % bound

    def of(self, options: Sequence[_Choice]) -> _Choice:
        return options[self.below(len(options))]

    def one_in(self, count: int) -> bool:
        return self.below(count) == count - 1

    def some(self, options: Sequence[_Choice], most: int) -> list[_Choice]:
        """One to `most` of them, each once."""
        found: list[_Choice] = []
        for _ in range(1 + self.below(most)):
            option = self.of(options)
            if option not in found:
                found.append(option)
        return found

    def shuffled(self, items: list[_Choice]) -> list[_Choice]:
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in items]


def question(data: bytes) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Graphs, of which the first is meant and each enters later ones only, and a State."""
    choices = _Choices(data)
    total = 1 + choices.below(4)
    graphs = [_graph(choices, number, total) for number in range(total)]
    keys = _keys({graph["id"]: graph for graph in graphs}, "g0", "")
    recorded = [key for key in [*keys, "no/where", "g1/n0", "g0/n0>"] if choices.below(4)]
    state = {
        "facts": choices.of(_FACTS),
        "outcomes": {key: choices.of(_RECORDED) for key in choices.shuffled(recorded)},
        "authorities": choices.of(([], ["p"], ["q", "r"], ["q", "p"])),
    }
    return graphs, state


def _graph(choices: _Choices, number: int, total: int) -> dict[str, Any]:
    count = 2 + choices.below(7 if number == 0 else 4)
    nodes = [_node(choices, f"n{index}", number, total, is_last=index == count - 1) for index in range(count)]
    edges = [_edge(choices, nodes[: index + 1], nodes[index]) for index in range(1, count)]
    edges += [_edge(choices, nodes, choices.of(nodes)) for _ in range(choices.below(2 * count))]
    entries = ("default",) if number == 0 else ("default", "other")
    return {
        "id": f"g{number}",
        "entrypoints": {entry: f"n{choices.of((0, 0, 0, 1))}" for entry in entries},
        "nodes": choices.shuffled(nodes),  # which edges may lead where is no matter of the file's order
        "edges": [edge for edge in edges if edge is not None],
    }


def _node(choices: _Choices, name: str, number: int, total: int, *, is_last: bool) -> dict[str, Any]:
    kinds = ["action", "gate", "action", "action"]
    if number + 1 < total:
        kinds += ["subgraph", "subgraph", "subgraph"]
    if name != "n0":
        kinds += ["terminal"] * (8 if is_last else 1)
    kind = choices.of(kinds)
    node: dict[str, Any] = {"id": name, "kind": kind}
    if choices.below(2):
        node["join"] = "any"
    if choices.one_in(8):
        node["requiresFacts"] = choices.some(_CHECKS, 2)
    if choices.one_in(3):
        node["priority"] = choices.below(3) - 1
    if kind in ("action", "gate"):
        node["reasonCode"] = "route.x"
        if choices.one_in(6):
            node["satisfiedBy"] = choices.some(_CHECKS, 2)
    if kind == "action":
        node["action"] = "a.yaml"
    elif kind == "gate":
        node["gate"] = choices.of(_GATES)
    elif kind == "terminal":
        node["terminalOutcome"] = choices.of(_RECORDED)
    else:
        node["graph"] = f"g{number + 1 + choices.below(total - number - 1)}"
        node["entry"] = choices.of(("default", "other"))
    return node


def _edge(choices: _Choices, nodes: list[dict[str, Any]], end: dict[str, Any]) -> dict[str, Any] | None:
    """An edge; None for one that no Provider may have. Those that do not repeat lead to later nodes."""
    source, target = choices.below(len(nodes)), nodes.index(end)
    kind = choices.of(("flow", "flow", "consumes", "requires", "flow", "gatedBy", "repeat"))
    outcomes = list(OUTCOMES) if choices.one_in(3) else choices.some(("completed", *OUTCOMES), 6)
    if kind != "repeat" and source > target:
        source, target = target, source
    if kind != "repeat" and source == target:
        kind = "repeat"
    if nodes[source]["kind"] == "terminal" or (kind == "gatedBy" and nodes[source]["kind"] != "gate"):
        return None
    if kind == "repeat" and nodes[target]["kind"] not in ("action", "gate"):
        return None
    edge: dict[str, Any] = {"from": nodes[source]["id"], "to": nodes[target]["id"]}
    if kind != "flow":
        edge["kind"] = kind
    if not choices.one_in(4):
        edge["outcomes"] = outcomes
    return edge


def _keys(graphs: dict[str, dict[str, Any]], graph: str, prefix: str) -> list[str]:
    """State keys, those inside of Subgraphs too, the outer ones first."""
    found = [f"{prefix}{graph}/{node['id']}" for node in graphs[graph]["nodes"]]
    for node in graphs[graph]["nodes"]:
        if node["kind"] == "subgraph" and len(found) < 60:
            found += _keys(graphs, node["graph"], f"{prefix}{graph}/{node['id']}>")
    return found


def provider(graphs: list[dict[str, Any]]) -> Provider:
    """A Provider of these Graphs, as far as an evaluation looks at one."""
    action = Action.from_value("a.yaml", {"id": "a", "runner": "command", "effect": "read", "command": "x"})
    return Provider(
        **dict.fromkeys(("name", "description", "catalog")),
        id="acme/demo",
        version="1.0.0",
        manifest_path="provider.yaml",
        manifest={},
        graphs={graph["id"]: Graph.from_value(f"{graph['id']}.yaml", graph) for graph in graphs},
        actions={"a.yaml": action},
        resources={},
        skills={},
        documents={},
        executable=frozenset(),
    )


def ours(graphs: list[dict[str, Any]], state: dict[str, Any], entry: str = "default") -> Evaluation:
    """Our answer to a question."""
    asked = make_state(state["facts"], state["outcomes"], state["authorities"])
    return evaluate(provider(graphs), "sha256:0", graphs[0]["id"], entry, asked)
