"""`agent-bundler validate`."""

from __future__ import annotations

from .options import GlobalOptions
from .options import command as make_command
from .output import echo, plural, print_json, warn


@make_command("validate", epilog="Example: agent-bundler validate -m my-provider")
def command(options: GlobalOptions) -> None:
    """Check a Provider against every rule of the protocol, and report all faults.

    A source is checked as it lies; a bundle is verified. Names that would make `build` refuse are warnings here.
    """
    from ..bundle.names import name_warnings
    from ..bundle.open import check_readable
    from ..provider.advice import unusable_schemas, unusable_skills
    from ..provider.inspection import inspect_provider

    with options.open(authoring=True) as opened:
        check_readable(opened)
        warn(
            options,
            [
                *opened.warnings,
                *unusable_skills(opened.tree, opened.provider),
                *unusable_schemas(opened.tree, opened.provider),
                *name_warnings(opened.provider, opened.closure),
            ],
        )
        result = inspect_provider(opened.provider, opened.manifest_path)
    if options.json:
        print_json({"state": "valid", **result})
        return
    counts = result["counts"]
    echo(
        f"{result['provider']['id']} {result['provider']['version']}: valid ("
        + ", ".join(plural(counts[name], word) for name, word in _COUNTED)
        + ")"
    )


_COUNTED = (
    ("graphs", "Graph"),
    ("nodes", "node"),
    ("edges", "edge"),
    ("actions", "Action"),
    ("resources", "Resource"),
    ("codes", "code"),
)
