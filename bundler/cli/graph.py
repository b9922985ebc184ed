"""`agent-bundler graph`."""

from __future__ import annotations

import click

from .options import GlobalOptions
from .options import command as make_command
from .output import echo, print_json, warn


@make_command("graph", epilog="Example: agent-bundler graph release -m my-provider > release.mmd")
@click.argument("graph", required=False)
def command(options: GlobalOptions, graph: str | None) -> None:
    """Draw the Graph of that id, or all of them, as Mermaid text: nodes by kind, edges by kind and outcomes."""
    from ..errors import BundlerError
    from ..provider.mermaid import draw

    with options.open() as opened:
        warn(options, opened.warnings)
        provider = opened.provider
        if graph is not None and graph not in provider.graphs:
            raise BundlerError(
                "graph-missing", f"`{provider.id}` has no Graph `{graph}`; it has: {', '.join(provider.graphs)}"
            )
        drawn = {name: draw(provider, each) for name, each in provider.graphs.items() if graph in (None, name)}
    if options.json:
        print_json({"graphs": [{"id": name, "mermaid": text} for name, text in drawn.items()]})
        return
    echo("\n".join(drawn.values()), nl=False)
