"""The protocol's "Evaluation", written down a second time: slow, plain, from its text alone, sharing nothing with ours.

Every round looks at every node and every edge again, and Subgraphs recurse. Values are the parsed documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def lookup(facts: Any, path: str) -> tuple[bool, Any]:
    value = facts
    for part in path.split("."):
        if isinstance(value, dict):
            if part not in value:
                return False, None
            value = value[part]
        elif isinstance(value, list):
            if not (part == "0" or (part.isdigit() and part[0] != "0")) or int(part) >= len(value):
                return False, None
            value = value[int(part)]
        else:
            return False, None
    return True, value


def check(wanted: Mapping[str, Any], facts: Any) -> bool:
    present, value = lookup(facts, wanted["path"])
    if "exists" in wanted:
        return present == wanted["exists"]
    equals = wanted["equals"]
    if isinstance(value, bool) or isinstance(equals, bool):
        return present and value is equals
    if isinstance(value, int | float) and isinstance(equals, int | float):
        return present and repr(float(value)) == repr(float(equals))
    return present and type(value) is type(equals) and value == equals


def frame(graphs: Mapping[str, Any], graph: str, entry: str, prefix: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """Status, outcome, candidates as (call path, graph, node, immediate), and diagnostics as (code, file) in their order."""
    found = graphs[graph]
    nodes = {node["id"]: node for node in found["nodes"]}
    facts, records, authorities = state["facts"], state["outcomes"], state["authorities"]

    def legal(node: Mapping[str, Any]) -> bool:
        return all(check(each, facts) for each in node.get("requiresFacts", ()))

    reached = [found["entrypoints"][entry]]
    outcome: dict[str, str] = {}
    inner: dict[str, dict[str, Any]] = {}
    final: set[str] = set()

    def matches(edge: Mapping[str, Any]) -> bool:
        return edge["from"] in reached and outcome.get(edge["from"]) in edge.get("outcomes", ["completed"])

    while True:
        before = (list(reached), dict(outcome), set(final))
        # 1.
        for name in reached:
            if name in outcome:
                continue
            node, key = nodes[name], f"{prefix}{graph}/{name}"
            record = records.get(key)
            if not legal(node):
                outcome[name] = "blocked"
            elif node["kind"] == "subgraph":
                below = inner[name] = frame(graphs, node["graph"], node["entry"], f"{key}>", state)
                outcome[name] = {"complete": below["outcome"], "error": "failed", "waiting-user": "waiting-user"}.get(
                    below["status"], "pending"
                )
            elif node["kind"] == "terminal":
                outcome[name] = record or node["terminalOutcome"]
            elif "satisfiedBy" in node and all(check(each, facts) for each in node["satisfiedBy"]):
                outcome[name] = "completed"
            elif "satisfiedBy" in node and record == "completed":
                outcome[name] = "unverified"
            else:
                outcome[name] = record or "pending"

        # 2.
        for edge in found["edges"]:
            if edge.get("kind") == "repeat" and matches(edge):
                if edge["to"] not in reached:
                    reached.append(edge["to"])
                if legal(nodes[edge["to"]]):
                    outcome[edge["to"]] = "pending"
                    final.add(edge["to"])
                else:
                    outcome[edge["to"]] = "blocked"
        # 3.
        new = []
        for name, node in nodes.items():
            edges = [edge for edge in found["edges"] if edge["to"] == name and edge.get("kind") != "repeat"]
            if name in reached or not edges:
                continue
            judge = any if node.get("join") == "any" else all
            if judge(matches(edge) for edge in edges):
                new.append(name)
        reached += new
        if before == (reached, outcome, final):
            break
    file = f"{graph}.yaml"
    codes = [("required-fact-missing", file) for name in reached if not legal(nodes[name])]
    for name in reached:
        if name in inner and inner[name]["status"] != "complete":
            codes += inner[name]["codes"]
    ended = {outcome[name] for name in reached if nodes[name]["kind"] == "terminal"}
    if len(ended) > 1:
        return {
            "status": "error",
            "outcome": None,
            "candidates": [],
            "codes": [*codes, ("terminal-outcome-ambiguous", file)],
        }
    if ended:
        return {"status": "complete", "outcome": ended.pop(), "candidates": [], "codes": codes}
    candidates: list[tuple[tuple[str, ...], str, str, bool]] = []
    for name in reached:
        node = nodes[name]
        if name in inner:
            if inner[name]["status"] != "complete":
                step = f"{graph}/{name}"
                candidates += [((step, *path), *rest) for path, *rest in inner[name]["candidates"]]
        elif node["kind"] in ("action", "gate") and outcome[name] in ("pending", "waiting-user"):
            gate = node.get("gate", {})
            immediate = node["kind"] == "action" or (
                gate.get("delegatable", False) and gate.get("authority") in authorities
            )
            candidates.append(((), graph, name, immediate))
    status = "blocked"
    if candidates:
        status = "actionable" if any(each[3] for each in candidates) else "waiting-user"
    elif not codes:
        codes.append(("no-route", file))
    return {"status": status, "outcome": None, "candidates": candidates, "codes": codes}
