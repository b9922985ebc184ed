"""`agent-bundler promote`."""

from __future__ import annotations

import click

from .options import GlobalOptions
from .options import command as make_command
from .output import echo, print_json, visible, warn
from .secrets import key_options, signer


@make_command("promote", epilog="Example: agent-bundler promote acme/release@1.1.0 --channel stable --expect 1.0.0 …")
@click.argument("release", metavar="ID@VERSION")
@click.option("--channel", required=True, metavar="NAME", help="The channel, such as stable or next.")
@click.option("--index", required=True, metavar="DIR", help="The folder index.")
@click.option(
    "--expect", metavar="OLD", help="The version, or bundle digest, to which it points now.  [default: to nothing]"
)
@click.option(
    "--expires", type=int, metavar="DAYS", help="How long hosts may believe it, from now.  [default: 90 days]"
)
@click.option(
    "--distribution", metavar="NAME", help="The distribution, if it is not the one that follows from the Provider's id."
)
@key_options(required=True)
def command(
    options: GlobalOptions,
    release: str,
    *,
    channel: str,
    index: str,
    expect: str | None,
    expires: int | None,
    distribution: str | None,
    key: str,
    public_key: str | None,
) -> None:
    """Point a channel of a Provider to a release in a folder index: ID@VERSION, or ID@sha256:… with its bundle's digest.

    It is moved only if it points to what is expected; on any failure it stays as it was. To move it to where it points
    already signs it anew, before it expires. With --policy nothing is signed that the policy would not count.
    """
    from ..publish.channels import promote
    from ..publish.index import FolderIndex
    from ..publish.signed import DAYS
    from .channels import channel_as_json

    policy = options.host().policy
    opened = FolderIndex(index)
    used = signer(key, public_key)
    warn(options, used.warnings)
    done = promote(
        opened,
        release,
        channel=channel,
        signer=used,
        expect=expect,
        days=DAYS if expires is None else expires,
        policy=policy,
        distribution=distribution,
    )
    if options.json:
        print_json({"state": "promoted" if done.changed else "unchanged", **channel_as_json(done.channel)})
        return
    found = done.channel
    verb = "points to" if done.changed else "pointed before to"
    echo(visible(f"{found.provider_id}@{found.channel} {verb} {found.version}\n{found.digest}").replace("\\n", "\n"))
