"""`agent-bundler yank`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .options import GlobalOptions
from .options import command as make_command
from .output import echo, print_json, visible

if TYPE_CHECKING:
    from ..publish.index import Changed

_Function = TypeVar("_Function", bound=Callable[..., Any])

_OPTIONS = (
    click.argument("release", metavar="ID@VERSION"),
    click.option("--index", required=True, metavar="FOLDER", help="The folder index."),
    click.option("--distribution", metavar="NAME", help="Its distribution, where that does not follow from the id."),
    click.option("--expect-head", metavar="DIGEST", help="Only if the head of the journal has this digest."),
    click.option("--who", metavar="NAME", help="Who stands in the journal.  [default: the user]"),
)


def yank_options(function: _Function) -> _Function:
    """What both commands take."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@make_command(
    "yank", epilog="Example: agent-bundler yank acme/release@1.0.0 --index /srv/index --reason 'a wrong Gate'"
)
@yank_options
@click.option("--reason", required=True, metavar="TEXT", help="Why; installers show it.")
@click.option("--force", is_flag=True, help="Even where a channel leads to it, or another Provider needs it.")
def command(
    options: GlobalOptions,
    release: str,
    *,
    index: str,
    distribution: str | None,
    expect_head: str | None,
    who: str | None,
    reason: str,
    force: bool,
) -> None:
    """Advise installers against a release: they take it only where exactly this version is asked for.

    It can be taken back (`unyank`). For what nobody may run any more there is another command: a host that has a release
    installed knows nothing of a yank.
    """
    from ..publish.index import FolderIndex
    from ..publish.targets import current_user
    from ..publish.withdraw import yank

    changed = yank(
        FolderIndex(index),
        release,
        reason=reason,
        who=who or current_user(),
        distribution=distribution,
        expect_head=expect_head,
        force=force,
    )
    show_changed(options, release, "yanked", changed)


def show_changed(options: GlobalOptions, release: str, state: str, changed: Changed) -> None:
    """What became of it."""
    if options.json:
        made = state if changed.changed else "unchanged"
        print_json({"state": made, "release": release, "files": list(changed.changed), "head": changed.head.digest})
    else:
        echo(visible(f"{state} {release}" if changed.changed else f"{release} is {state} already"))
        echo(changed.head.digest)
