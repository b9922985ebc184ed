"""`agent-bundler channels`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .options import GlobalOptions
from .options import command as make_command
from .output import echo, print_json, visible

if TYPE_CHECKING:
    from ..trust.documents import Channel


@make_command("channels", epilog="Example: agent-bundler channels --index /srv/index")
@click.option("--index", required=True, metavar="DIR", help="The folder index.")
def command(options: GlobalOptions, index: str) -> None:
    """List the channels of a folder index. Who signed them is not looked at: `resolve` does that."""
    from ..publish.channels import list_channels
    from ..publish.index import FolderIndex
    from ..trust.documents import show_time

    opened = FolderIndex(index)
    found = list_channels(opened)
    if options.json:
        print_json({"index": opened.root, "channels": [channel_as_json(each) for each in found]})
        return
    if not found:
        echo(visible(f"no channel is in {opened.root}"))
    for each in found:
        echo(
            visible(
                f"{each.provider_id}@{each.channel}  {each.version}  {each.digest}  until {show_time(each.expires)}"
            )
        )


def channel_as_json(channel: Channel) -> dict[str, Any]:
    """A channel, as every command shows it."""
    from ..trust.documents import show_time

    return {
        "provider": channel.provider_id,
        "channel": channel.channel,
        "version": channel.version,
        "digest": channel.digest,
        "sequence": channel.sequence,
        "expires": show_time(channel.expires),
        "requirement": channel.requirement,
    }
