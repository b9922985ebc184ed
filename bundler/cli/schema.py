"""`agent-bundler schema list | path | extract`."""

from __future__ import annotations

import click

from .options import GlobalOptions, add_global_options, subcommand
from .output import echo, print_json


@click.group("schema", epilog="Example: agent-bundler schema extract graph --output graph.schema.json")
def command() -> None:
    """List, locate or copy the protocol's JSON Schemas (draft 2020-12)."""


add_global_options(command)


@subcommand(command, "list", epilog="Example: agent-bundler schema list")
def list_(options: GlobalOptions) -> None:
    """The names of the schemas."""
    from ..protocol.schemas import NAMES

    if options.json:
        print_json({"schemas": list(NAMES)})
    else:
        echo("\n".join(NAMES))


@subcommand(command, "path", epilog="Example: agent-bundler schema path provider")
@click.argument("name")
def path(options: GlobalOptions, name: str) -> None:
    """Where the schema NAME lies on this machine."""
    from ..protocol.schemas import schema_path

    found = str(schema_path(name))
    if options.json:
        print_json({"name": name, "path": found})
    else:
        echo(found)


@subcommand(
    command, "extract", epilog="Example: agent-bundler schema extract action --output schemas/action.schema.json"
)
@click.argument("name")
@click.option("--output", required=True, metavar="PATH", help="The file to write; it must not exist.")
def extract(options: GlobalOptions, name: str, output: str) -> None:
    """Copy the schema NAME to a new file."""
    from ..data import copy_out
    from ..protocol.schemas import schema_path

    written = copy_out(schema_path(name), output)
    if options.json:
        print_json({"name": name, "output": written})
    else:
        echo(f"wrote {written}")
