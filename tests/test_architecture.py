"""Which part may use which, what a start imports, and which words stand where."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import bundler

PACKAGE = Path(bundler.__file__).parent
#: Each may import what stands before it, and itself.
ORDER = (
    *("errors", "data", "paths", "tree", "protocol", "provider", "bundle", "wheel", "trust", "runtime"),
    *("publish", "authoring", "cli", "backend"),
)
#: Where a third-party package may be imported.
HOMES = {
    "click": {"cli"},
    "yaml": {"protocol"},
    "jsonschema_rs": {"protocol"},
    "blake3": {"protocol"},
    "build": {"wheel"},
    "hatchling": {"wheel"},
    "packaging": {"wheel", "publish"},
    "tomli_w": {"wheel"},
    "tomllib": {"wheel", "trust"},
    "requests": {"publish"},
}
MAX_LINES = 450


def modules() -> Iterator[tuple[tuple[str, ...], ast.Module]]:
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        yield parts, ast.parse(file.read_text())


def imported(parts: tuple[str, ...], tree: ast.Module) -> Iterator[str]:
    """Absolute names of what a module imports, anywhere in it."""
    package = ("bundler", *parts[:-1])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0:
                yield str(node.module)
                continue
            base = ".".join(package[: len(package) - node.level + 1])
            if node.module:
                yield f"{base}.{node.module}"
            else:
                yield from (f"{base}.{alias.name}" for alias in node.names)


def test_imports_go_one_way() -> None:
    wrong = []
    for parts, tree in modules():
        if parts in (("__init__",), ("__main__",)):
            continue
        here = parts[0]
        allowed = ORDER[: ORDER.index(here) + 1]
        for name in imported(parts, tree):
            steps = name.split(".")
            if steps[0] == "bundler" and len(steps) > 1 and steps[1] not in allowed and steps[1] != "__version__":
                wrong.append(f"{'/'.join(parts)} imports {name}")
    assert wrong == []


def test_libraries_are_used_in_one_place() -> None:
    wrong = [
        f"{'/'.join(parts)} imports {name}"
        for parts, tree in modules()
        for name in imported(parts, tree)
        if name.split(".")[0] in HOMES and parts[0] not in HOMES[name.split(".")[0]]
    ]
    assert wrong == []


def test_the_protocol_opens_nothing() -> None:
    """Bytes and values in, values out; its own schemas aside."""
    wrong = [
        f"{'/'.join(parts)} imports {name}"
        for parts, tree in modules()
        for name in imported(parts, tree)
        if parts[0] == "protocol" and name.startswith(("bundler.tree", "os", "shutil", "io"))
    ]
    assert wrong == []


def test_modules_are_small() -> None:
    lines = {str(file.relative_to(PACKAGE)): len(file.read_text().splitlines()) for file in PACKAGE.rglob("*.py")}
    assert {name: count for name, count in lines.items() if count > MAX_LINES} == {}


def loaded_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_asking_for_the_version_imports_no_parser() -> None:
    modules = loaded_after(
        "import contextlib, io\nfrom bundler.cli.main import run\nwith contextlib.redirect_stdout(io.StringIO()): run(['--version'])"
    )
    assert not modules & {"yaml", "jsonschema_rs", "blake3", "bundler.provider", "bundler.bundle", "importlib.metadata"}


def test_importing_the_package_imports_nothing_else() -> None:
    assert not {
        name for name in loaded_after("import bundler") if name.startswith("bundler.") or name in ("yaml", "click")
    }


def test_the_public_names_are_there() -> None:
    for name in bundler.__all__:
        assert getattr(bundler, name) is not None
    assert set(bundler.__all__) <= set(dir(bundler))
    declared = ast.parse((PACKAGE / "__init__.py").read_text())
    names = {
        alias.asname
        for node in ast.walk(declared)
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
    }
    assert names == set(bundler.__all__) - {"__version__"}
    with pytest.raises(AttributeError, match="nothing"):
        bundler.nothing  # noqa: B018
