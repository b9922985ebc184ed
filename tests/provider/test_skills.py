"""Skill bindings and registries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bundler.bundle.open import open_path
from bundler.errors import BundlerError
from bundler.provider.skills import read_binding

from ..builders import minimal, write_out


def skill(tmp_path: Path, *lines: str) -> Path:
    root = write_out(minimal(), tmp_path / "provider")
    file = root / "skills" / "s" / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text("\n".join(["---", "name: s", *lines, "---", ""]))
    return file


def bound(locator: str = "path:../../provider.yaml", graph: str = "main", entry: str = "default") -> list[str]:
    return [
        "metadata:",
        f"  agent-graph: {json.dumps(locator)}",
        f"  agent-graph.graph: {graph}",
        f"  agent-graph.entry: {entry}",
    ]


def code(file: Path, registry: Path | None = None) -> str:
    try:
        binding = read_binding(file, registry)
        with open_path(binding.manifest_path) as opened:
            binding.check(opened.provider)
    except BundlerError as error:
        return error.code
    return "ok"


def test_a_binding_by_path(tmp_path: Path) -> None:
    file = skill(tmp_path, *bound())
    binding = read_binding(file)
    assert (binding.graph, binding.entry, binding.manifest_path) == (
        "main",
        "default",
        str(tmp_path / "provider" / "provider.yaml"),
    )
    assert code(file) == "ok"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], "skill-binding-missing"),
        (["metadata: text"], "skill-binding-missing"),
        (bound()[:3], "skill-binding-missing"),
        (bound(entry="7"), "skill-binding-missing"),
        (bound("file:x"), "skill-locator-invalid"),
        (bound("path:"), "skill-locator-invalid"),
        (bound("path:a\0b"), "skill-locator-invalid"),
        (bound("provider.yaml"), "skill-locator-invalid"),
        (bound("path:/etc/provider.yaml"), "skill-locator-absolute"),
        (bound("path:C:/provider.yaml"), "skill-locator-absolute"),
        (bound("path:../nothing.yaml"), "file-missing"),
        (bound("provider:acme/demo"), "provider-unresolved"),
        (bound(graph="other"), "skill-graph-missing"),
        (bound(entry="other"), "skill-entry-missing"),
    ],
)
def test_bindings_that_are_refused(tmp_path: Path, lines: list[str], expected: str) -> None:
    assert code(skill(tmp_path, *lines)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"providers": {"acme/demo": "provider/provider.yaml"}}', "ok"),
        ('{"acme/demo": "provider/provider.yaml"}', "ok"),
        ('{"providers": {"acme/other": "provider/provider.yaml"}}', "provider-unresolved"),
        ('{"providers": []}', "registry-invalid"),
        ('{"providers": {"acme/demo": 1}}', "registry-invalid"),
        ("[]", "registry-invalid"),
        ('{"acme/demo": ""}', "registry-invalid"),
        ('{"acme/demo": "a\\u0000b"}', "registry-invalid"),
        ("{", "registry-invalid"),
        (None, "registry-invalid"),
    ],
)
def test_registries(tmp_path: Path, text: str | None, expected: str) -> None:
    registry = tmp_path / "registry.json"
    if text is not None:
        registry.write_text(text)
    assert code(skill(tmp_path, *bound("provider:acme/demo")), registry) == expected


def test_a_registry_that_names_another_provider(tmp_path: Path) -> None:
    registry = tmp_path / "registry.json"
    registry.write_text('{"acme/wrong": "provider/provider.yaml"}')
    assert code(skill(tmp_path, *bound("provider:acme/wrong")), registry) == "provider-id-mismatch"
