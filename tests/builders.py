"""A minimal valid Provider in memory; a test changes one line of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from bundler.bundle.manifest import BundleManifest
from bundler.bundle.plan import make_plan
from bundler.bundle.write import build
from bundler.errors import BundlerError
from bundler.protocol.model import Provider
from bundler.provider.load import load_provider
from bundler.tree import DirectoryTree, MemoryTree

PROVIDER = "schema: agent-graph.provider.v1\nid: acme/demo\nversion: 0.1.0\ngraphs: [graphs/main.yaml]\n"
GRAPH = """schema: agent-graph.graph.v1
id: main
entrypoints: { default: work }
nodes:
  - { id: work, kind: action, reasonCode: route.main.work, action: actions/work.yaml }
  - { id: done, kind: terminal, terminalOutcome: completed }
edges: [{ from: work, to: done }]
"""
ACTION = "schema: agent-graph.action.v1\nid: work\nrunner: command\neffect: write\ncommand: make work\n"
SKILL_ACTION = "schema: agent-graph.action.v1\nid: work\nrunner: agent\neffect: write\nskill: skills/s/SKILL.md\n"
SKILL = "---\nname: s\ndescription: does s\n---\n\n# s\n"

#: The environment for a process that could not write what it was covered: as another user, or with a small file limit.
UNCOVERED = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}

Files = Mapping[str, str | bytes]


def minimal(**changes: str | bytes | None) -> dict[str, str | bytes]:
    """The minimal Provider. `files` of it are changed by path, `__` standing for `/` and `_yaml` for `.yaml`."""
    files: dict[str, str | bytes] = {"provider.yaml": PROVIDER, "graphs/main.yaml": GRAPH, "actions/work.yaml": ACTION}
    for name, text in changes.items():
        path = name.replace("__", "/").replace("_yaml", ".yaml")
        if text is None:
            files.pop(path)
        else:
            files[path] = text
    return files


def with_skill(**inside: str | bytes) -> dict[str, str | bytes]:
    """A Provider whose Action is a Skill with a folder of its own; `inside` are further files of that folder."""
    files = minimal(actions__work_yaml=SKILL_ACTION)
    files["skills/s/SKILL.md"] = SKILL
    files.update({f"skills/s/{name}": text for name, text in inside.items()})
    return files


def with_files(files: Files, listed: Files) -> dict[str, str | bytes]:
    """The Provider with `listed` added, and named as `files` of its Action."""
    names = ", ".join(f'"{name}"' for name in listed)
    return {**files, "actions/work.yaml": f"{ACTION}files: [{names}]\n", **listed}


def memory(files: Files) -> MemoryTree:
    """The files as a tree."""
    return MemoryTree({path: encode(text) for path, text in files.items()})


def encode(text: str | bytes) -> bytes:
    """Text as UTF-8, bytes as they are."""
    return text.encode() if isinstance(text, str) else text


def write_out(files: Files, root: Path) -> Path:
    """The files below the folder, which is made."""
    root.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encode(text))
    return root


def load(files: Files) -> Provider:
    """The loaded Provider."""
    return load_provider(memory(files))


def load_error(files: Files) -> BundlerError:
    """The error that loading raises; fails where it raises none."""
    try:
        load(files)
    except BundlerError as error:
        return error
    raise AssertionError("the Provider loads")


def build_from(root: Path, output: Path, manifest: str = "provider.yaml") -> BundleManifest:
    """Load the source folder and build its bundle."""
    with DirectoryTree(root) as tree:
        return build(make_plan(tree, load_provider(tree, manifest)), output)


def snapshot(root: Path) -> dict[str, tuple[int, bytes | str]]:
    """Every entry below a folder: path → (mode, content; a link's target)."""
    found: dict[str, tuple[int, bytes | str]] = {}
    for folder, folders, names in os.walk(root):
        for name in [*folders, *names]:
            path = Path(folder) / name
            mode = path.lstat().st_mode
            content: bytes | str = b""
            if path.is_symlink():
                content = os.readlink(path)
            elif path.is_file():
                content = path.read_bytes()
            found[str(path.relative_to(root))] = (mode, content)
    return found
