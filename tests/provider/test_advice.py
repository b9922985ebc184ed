"""Warnings of what is no fault and will still trouble a host."""

from __future__ import annotations

import pytest

from bundler.provider.advice import unusable_schemas, unusable_skills
from bundler.provider.load import load_provider

from ..builders import ACTION, memory, minimal, with_skill


@pytest.mark.parametrize(
    ("text", "expected"),
    [("---\nname: s\n---\n", 0), ("# s\n", 1), ("---\nid: s\n---\n", 1), ("---\nname: [\n---\n", 1)],
)
def test_front_matter_that_a_route_could_not_use(text: str, expected: int) -> None:
    tree = memory({**with_skill(), "skills/s/SKILL.md": text})
    warnings = list(unusable_skills(tree, load_provider(tree)))
    assert [warning.code for warning in warnings] == ["skill-frontmatter-unusable"] * expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("{}", []),
        ("{", ["s.json"]),
        ('{"type": "objct"}', ["s.json"]),
        ('{"$ref": "other.json"}', ["s.json"]),
        ("5", ["s.json"]),
    ],
)
def test_schemas_that_no_validator_could_use_once_each(schema: str, expected: list[str]) -> None:
    files = minimal(actions__work_yaml=ACTION + "inputSchema: s.json\noutputSchema: s.json\n")
    tree = memory({**files, "s.json": schema})
    warnings = list(unusable_schemas(tree, load_provider(tree)))
    assert [(warning.code, warning.path) for warning in warnings] == [("schema-unusable", path) for path in expected]
