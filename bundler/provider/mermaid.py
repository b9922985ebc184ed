"""Graph → Mermaid flowchart text, for people who review one."""

from __future__ import annotations

from ..protocol.model import Graph, Node, Provider

_SHAPES = {"action": ('["', '"]'), "gate": ('{{"', '"}}'), "subgraph": ('[["', '"]]'), "terminal": ('(["', '"])')}
_ARROWS = {"flow": "-->", "requires": "-->", "consumes": "-.->", "gatedBy": "==>", "repeat": "-.->"}
_EFFECTS = ("read", "write", "external")


def draw(provider: Provider, graph: Graph) -> str:
    """A `flowchart`: entrypoints lead in; a node's shape is its kind, its class the effect of its Action."""
    names = {node.id: f"n{index}" for index, node in enumerate(graph.nodes)}
    lines = ["---", f"title: {_title(f'{provider.id} {provider.version} - {graph.id}')}", "---", "flowchart TD"]
    for index, (entry, target) in enumerate(graph.entrypoints.items()):
        lines.append(f'  e{index}(("{_text(entry)}")) --> {names[target]}')
    for node in graph.nodes:
        opening, closing = _SHAPES[node.kind]
        lines.append(
            f"  {names[node.id]}{opening}{'<br/>'.join(map(_text, _label(provider, node)))}{closing}{_class(provider, node)}"
        )
    for edge in graph.edges:
        said = [] if edge.kind == "flow" else [edge.kind]
        if edge.outcomes != ("completed",):
            said.append(", ".join(edge.outcomes))
        label = f'|"{_text(": ".join(said))}"|' if said else ""
        lines.append(f"  {names[edge.source]} {_ARROWS[edge.kind]}{label} {names[edge.target]}")
    lines += [
        "  classDef read fill:#eef7ee,stroke:#3a7d44",
        "  classDef write fill:#fff6e0,stroke:#b7791f",
        "  classDef external fill:#fdeaea,stroke:#c53030",
        "  classDef gate fill:#eaf0fd,stroke:#2b6cb0",
    ]
    return "\n".join(lines) + "\n"


def _label(provider: Provider, node: Node) -> list[str]:
    label = [node.id]
    if node.action is not None:
        action = provider.actions[node.action]
        label.append(f"{action.runner}, {action.effect}")
    elif node.gate is not None:
        who = f"authority {node.gate.authority}" if node.gate.authority else "user"
        label.append(f"Gate: {who}{', delegatable' if node.gate.delegatable else ''}")
        label.extend(f"{role}: {provider.actions[path].effect}" for role, path in node.actions())
    elif node.graph is not None:
        label.append(f"Graph {node.graph}, entry {node.entry}")
    else:
        label.append(str(node.terminal_outcome))
    if node.join == "any":
        label.append("join: any")
    return label


def _class(provider: Provider, node: Node) -> str:
    if node.action is not None:
        return f":::{provider.actions[node.action].effect}"
    return ":::gate" if node.gate is not None else ""


def _text(text: str) -> str:
    """Text inside quotes: Mermaid reads `#…;` as an entity, so what could begin or end one becomes one."""
    return "".join(
        character if character.isalnum() or character in " .,_/:-" else f"#{ord(character)};" for character in text
    )


def _title(text: str) -> str:
    return '"' + text.replace('"', "'") + '"'
