"""`agent-bundler code list | locate`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from .options import GlobalOptions, add_global_options, subcommand
from .output import echo, print_json, visible, warn

if TYPE_CHECKING:
    from ..protocol.model import Code


@click.group("code", epilog="Example: agent-bundler code locate route.release.inspect -m my-provider")
def command() -> None:
    """Show the codes of the Provider's Code Catalog."""


add_global_options(command)


@subcommand(command, "list", short_help="All codes.", epilog="Example: agent-bundler code list -m my-provider")
def list_(options: GlobalOptions) -> None:
    """List the codes with their kind and summary; none where the Provider has no Code Catalog."""
    with options.open() as opened:
        warn(options, opened.warnings)
        catalog = opened.provider.catalog
        codes = catalog.codes if catalog is not None else ()
        place = None if catalog is None else os.path.join(opened.root, *catalog.path.split("/"))
    if options.json:
        where = {} if place is None else {"catalog": place}
        print_json({"provider": opened.provider.id, **where, "codes": [_as_json(code) for code in codes]})
        return
    for code in codes:
        echo(f"{code.kind:12} {code.code}: {visible(code.summary)}")


@subcommand(
    command, "locate", short_help="One code.", epilog="Example: agent-bundler code locate route.release.inspect"
)
@click.argument("code")
def locate(options: GlobalOptions, code: str) -> None:
    """Show one code, and where its document lies."""
    with options.open() as opened:
        warn(options, opened.warnings)
        found, document = opened.locate_code(code)
    if options.json:
        value = {"schema": "agent-graph.code-location.v1", "provider": opened.provider.id, **_as_json(found)}
        if document is not None:
            value["document"] = document.to_json()
        print_json(value)
        return
    echo(f"{found.kind:12} {found.code}: {visible(found.summary)}")
    if document is not None:
        echo(f"{'':12} {document.id}, {visible(document.file_path)}")


def _as_json(code: Code) -> dict[str, Any]:
    optional = {"severity": code.severity, "document": code.document}
    return {
        "code": code.code,
        "kind": code.kind,
        "summary": code.summary,
        **{key: value for key, value in optional.items() if value is not None},
    }
