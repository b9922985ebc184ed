"""`agent-bundler graph`."""

from __future__ import annotations

import click

from .options import GlobalOptions
from .options import command as make_command
from .output import echo, print_json, warn


@make_command("graph", epilog="Example: agent-bundler graph release -m my-provider > release.mmd")
@click.argument("graph", required=False)
def command(options: GlobalOptions, graph: str | None) -> None:
    """Draw the Graph of that id as Mermaid text: nodes by kind and effect, edges by kind and outcomes.

    Without an id all are drawn; of several, each as a fenced block of a Markdown page.
    """
    from ..errors import BundlerError
    from ..provider.mermaid import draw

    with options.open(authoring=True) as opened:
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
    if len(drawn) == 1:
        echo(*drawn.values(), nl=False)
    else:
        echo("\n".join(f"## {name}\n\n```mermaid\n{text}```\n" for name, text in drawn.items()), nl=False)
