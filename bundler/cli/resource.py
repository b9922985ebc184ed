"""`agent-bundler resource locate` and `resource materialize`."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING

import click

from .options import GlobalOptions, add_global_options, subcommand
from .output import echo, print_json, visible, warn
from .state import json_object, shown

if TYPE_CHECKING:
    from ..runtime.locations import Location


@click.group("resource", epilog="Example: agent-bundler resource locate release.checklist -m my-provider")
def command() -> None:
    """Find the Provider's Resources, and make those that its Actions make."""


add_global_options(command)


@subcommand(command, "locate", short_help="Where a Resource is.", epilog="Example: agent-bundler resource locate guide")
@click.argument("name", metavar="ID-OR-PATH")
@click.option("--revision", metavar="DIGEST", help="Of the Route that names it; what a host makes needs one.")
def locate(options: GlobalOptions, name: str, revision: str | None) -> None:
    """Show where a Resource is: a file's path and digest, or what makes it."""
    with options.open() as opened:
        warn(options, opened.warnings)
        location = opened.locate(name, revision=revision)
    _show(options, location)


@subcommand(
    command,
    "materialize",
    short_help="Run the Action that makes a Resource.",
    epilog="Example: agent-bundler resource materialize view --cache ~/.cache/views --revision sha256:…",
)
@click.argument("name", metavar="ID-OR-PATH")
@click.option("--cache", metavar="DIR", required=True, help="A folder of your own for what is made; made if missing.")
@click.option("--revision", metavar="DIGEST", default="", help="Of the Route that names the Resource.")
@click.option("--workspace", metavar="DIR", help="What the Action looks at.  [default: the current folder]")
@click.option("--input", metavar="JSON|@FILE", help="A JSON object for the Action.  [default: {}]")
@click.option("--timeout-ms", metavar="N", help="How long it may take.  [default: 30000]")
@click.option("--max-output-bytes", metavar="N", help="How much it may write to stdout.  [default: 10485760]")
@click.option("--max-error-bytes", metavar="N", help="How much it may write to stderr.  [default: 1048576]")
def materialize(options: GlobalOptions, name: str, **given: str | None) -> None:
    """Run the Action that makes a Resource and show where its output lies.

    This runs the Provider's code with your rights: a command or script that it declares, after its files were verified.
    At a limit it is ended with all that it started, and nothing is kept.
    """
    from ..runtime.process import Limits

    named = {limit.name: given[limit.name] for limit in fields(Limits)}
    limits = Limits(**{limit: _positive(text, limit) for limit, text in named.items() if text is not None})
    with options.open() as opened:
        warn(options, opened.warnings)
        made = opened.materialize(
            name,
            cache=given["cache"] or "",
            revision=given["revision"] or "",
            workspace=given["workspace"],
            input=json_object(given["input"], "--input"),
            limits=limits,
        )
    _show(options, made.location)


def _positive(text: str, option: str) -> int:
    """The positive integer that a text says. Raises `materializer-option-invalid`."""
    from ..errors import BundlerError

    if not re.fullmatch(r"[0-9]{1,16}", text) or not int(text):
        name = option.replace("_", "-")
        raise BundlerError("materializer-option-invalid", f"--{name} is {text!r}; a positive integer is expected")
    return int(text)


def _show(options: GlobalOptions, location: Location) -> None:
    value = location.to_json()
    if options.json:
        print_json(value)
        return
    echo(f"{location.id}: {location.kind}, {location.media_type}")
    echo(visible(str(value.get("filePath") or shown(value.get("materialize")))))
    if "digest" in value:
        echo(str(value["digest"]))
