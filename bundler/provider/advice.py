"""What is no fault of a Provider and will still trouble a host: warnings of `validate`."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import CODES, BundlerError, Diagnostic
from ..protocol.documents import MAX_BYTES, front_matter, parse
from ..protocol.foreign import compile_schema
from ..protocol.model import Provider
from ..tree import Tree


def unusable_skills(tree: Tree, provider: Provider) -> Iterator[Diagnostic]:
    """A warning for each Skill of an Action whose front matter a Route could not use (it needs `name`)."""
    for path in provider.skills:
        try:
            name = front_matter(tree.read(path, MAX_BYTES), path).value.get("name")
            problem = None if isinstance(name, str) and name else f"`{path}` has no `name` text in its front matter"
        except BundlerError as error:
            problem = error.message
        if problem is not None:
            yield Diagnostic(
                code="skill-frontmatter-unusable",
                severity="warning",
                message=problem,
                path=path,
                hint=CODES["skill-frontmatter-unusable"],
            )


def unusable_schemas(tree: Tree, provider: Provider) -> Iterator[Diagnostic]:
    """A warning for each input or output schema of an Action that no validator could use."""
    for path in dict.fromkeys(path for action in provider.actions.values() for path in action.schemas):
        try:
            compile_schema(parse(tree.read(path, MAX_BYTES), path))
        except BundlerError as error:
            yield Diagnostic(
                code="schema-unusable",
                severity="warning",
                message=error.message,
                path=path,
                hint=CODES["schema-unusable"],
            )
