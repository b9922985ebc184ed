"""`agent-bundler init`."""

from __future__ import annotations

import click

from .options import GlobalOptions
from .options import command as make_command
from .output import echo, print_json


@make_command("init", epilog="Example: agent-bundler init my-provider --id acme/release")
@click.argument("folder", required=False, default=".", metavar="[DIR]")
@click.option("--id", "provider_id", required=True, metavar="ID", help="The Provider's id, such as acme/release.")
def command(options: GlobalOptions, folder: str, provider_id: str) -> None:
    """Write a small complete Provider to DIR (default: the current folder): a Graph with a Gate and a way to recover,
    Actions, a bound Skill, a Resource, a Code Catalog and graph tests. Nothing is replaced.
    """
    from ..authoring.scaffold import scaffold

    manifest = scaffold(folder, provider_id)
    if options.json:
        print_json({"state": "created", "manifest": str(manifest)})
    else:
        echo(f"created {manifest}\nnext: agent-bundler validate -m {folder}")
