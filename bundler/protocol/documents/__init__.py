"""Bytes → value: YAML 1.2 core, JSON, front matter (protocol: "Parsing").

Nothing that a document names is ever opened. Numbers are IEEE doubles: an integral one that a double
holds exactly is an `int`, so `1.0` is 1, and further digits are rounded as ECMAScript rounds them.
Every refusal is `parse-failed` (for front matter `frontmatter-…`) with file, line and column.
"""

from __future__ import annotations

import re

from ...errors import BundlerError
from .json import parse_json
from .value import MAX_BYTES, MAX_LEVELS, MAX_VALUES, Document, Place, describe, failed, pointer_step

__all__ = [
    "MAX_BYTES",
    "MAX_LEVELS",
    "MAX_VALUES",
    "Document",
    "Place",
    "describe",
    "front_matter",
    "parse",
    "parse_json",
    "parse_yaml",
    "pointer_step",
]


def parse(data: bytes, path: str) -> Document:
    """A file's value: `.json` (without case) is JSON, every other name YAML. Raises `parse-failed`."""
    if len(data) > MAX_BYTES:
        raise failed(path, f"is larger than {MAX_BYTES:,} bytes, the most that is parsed")
    return parse_json(data, path) if path.lower().endswith(".json") else parse_yaml(data, path)


def parse_yaml(data: bytes, path: str, *, line: int = 0) -> Document:
    """A YAML document, whose first line is the one after `line`. Raises `parse-failed`."""
    from .yaml import parse_yaml as parse_it  # here: a start that has parsed everything before needs no parser

    return parse_it(data, path, line=line)


def front_matter(data: bytes, path: str) -> Document:
    """The front matter of a Markdown file as a mapping; only its own bytes must be UTF-8.

    Raises `frontmatter-missing` without a fence in the first line, `frontmatter-invalid` where it is not
    closed, not YAML, or no mapping.
    """
    opening = re.match(rb"---\r?\n", data)
    if opening is None:
        raise BundlerError(
            "frontmatter-missing",
            f"`{path}` does not begin with a line that is exactly `---`",
            path=path,
            line=1,
            column=1,
        )
    closing = re.compile(rb"^---\r?\n", re.MULTILINE).search(data, opening.end(), opening.end() + MAX_BYTES)
    if closing is None:
        raise BundlerError(
            "frontmatter-invalid",
            f"`{path}`: the front matter is not closed: no further line is exactly `---` with a line end",
            path=path,
            line=1,
            column=1,
        )
    content = data[opening.end() : closing.start()]
    try:
        document = parse_yaml(content, path, line=1)
    except BundlerError as error:
        where = error.diagnostics[0]
        raise BundlerError(
            "frontmatter-invalid",
            f"the front matter is not YAML: {error.message}",
            path=path,
            line=where.line,
            column=where.column,
        ) from None
    if not isinstance(document.value, dict):
        raise BundlerError(
            "frontmatter-invalid",
            f"`{path}`: the front matter is {describe(document.value)}; a mapping is expected",
            path=path,
            line=2,
            column=1,
        )
    return document
