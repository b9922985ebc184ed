"""A Provider with Resources that are made: by a command or script of its own, and by the host."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from .builders import PROVIDER, write_out

REVISION = f"sha256:{'5' * 64}"

GRAPH = """schema: agent-graph.graph.v1
id: main
entrypoints: { default: work }
nodes:
  - id: work
    kind: action
    reasonCode: route.main.work
    action: actions/work.yaml
    resources: { required: [resources/view.yaml, resources/made.yaml, guide.md] }
  - { id: done, kind: terminal, terminalOutcome: completed }
edges: [{ from: work, to: done }]
"""
RESOURCES: Mapping[str, str] = {
    "guide.md": "---\nid: guide\nkind: procedure\n---\n# Guide\n",
    "resources/view.yaml": """schema: agent-graph.resource.graph-action.v1
id: view
kind: context-view
mediaType: text/plain
materializer: actions/view.yaml
""",
    "resources/made.yaml": """schema: agent-graph.resource.host-action.v1
id: made
kind: context-view
mediaType: application/json
materializer: actions/made.yaml
input: { query: code, depth: 2 }
""",
    "actions/made.yaml": """schema: agent-graph.action.v1
id: made
runner: host
effect: read
handler: acme.index
inputSchema: schemas/request.json
outputSchema: schemas/answer.json
""",
    "schemas/request.json": '{"$id": "acme.request/v1", "type": "object", "required": ["query"]}',
    "schemas/answer.json": """{
  "$id": "acme.answer/v1",
  "type": "object",
  "required": ["hits"],
  "properties": { "hits": { "type": "integer" } }
}
""",
}


def with_view(action: str, **files: str | bytes) -> dict[str, str | bytes]:
    """The Provider; `action` are the lines of the materializer beyond schema, id and effect, `__` in names is `/`."""
    more = {
        name.replace("__", "/").replace("_py", ".py").replace("_json", ".json"): text for name, text in files.items()
    }
    return {
        "provider.yaml": PROVIDER,
        "graphs/main.yaml": GRAPH,
        "actions/work.yaml": "schema: agent-graph.action.v1\nid: work\nrunner: command\neffect: write\ncommand: make\n",
        "actions/view.yaml": f"schema: agent-graph.action.v1\nid: view\neffect: read\n{action}",
        **RESOURCES,
        **more,
    }


def with_command(command: str, more: str = "", **files: str | bytes) -> dict[str, str | bytes]:
    """The Provider whose view a command makes, which is written as it is."""
    block = "\n".join(f"  {line}" for line in command.splitlines())
    return with_view(f"runner: command\ncommand: |\n{block}\n{more}", **files)


def with_script(script: str, more: str = "", **files: str | bytes) -> dict[str, str | bytes]:
    """The Provider whose view a Python script makes."""
    return with_view(
        f"runner: script\nruntime: python\nentry: scripts/view.py\n{more}", **{"scripts__view_py": script, **files}
    )


def write_view(tmp_path: Path, files: Mapping[str, str | bytes]) -> Path:
    """The Provider's folder, and beside it a folder `work` to work in."""
    (tmp_path / "work").mkdir(exist_ok=True)
    return write_out(files, tmp_path / "provider")


def is_running(pid: int) -> bool:
    """Whether a process runs: one that is dead and was not waited for does not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.strip().startswith("Z")


def pids(folder: Path, count: int) -> list[int]:
    """The processes that have written their numbers to the folder's file `pids`, once there are so many."""
    file = folder / "pids"
    lines: list[str] = []
    until = time.monotonic() + 30
    while len(lines) < count and time.monotonic() < until:
        lines = (
            [line for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
            if file.exists()
            else []
        )
        time.sleep(0.01)
    assert len(lines) == count
    return [int(line) for line in lines]


def all_gone(numbers: list[int]) -> bool:
    """Whether none of the processes runs any more; a killed one is given a moment."""
    until = time.monotonic() + 20
    while any(map(is_running, numbers)):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True
