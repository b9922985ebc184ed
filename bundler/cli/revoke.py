"""`agent-bundler revoke`."""

from __future__ import annotations

import click

from .options import GlobalOptions
from .options import command as make_command
from .output import echo, plural, print_json, visible, warn
from .secrets import key_options, signer


@make_command(
    "revoke", epilog='Example: agent-bundler revoke acme/release@1.0.0 --index DIR --reason "it leaks" --key FILE'
)
@click.argument("release", metavar="[ID@VERSION]", required=False)
@click.option("--index", required=True, metavar="DIR", help="The folder index.")
@click.option("--reason", metavar="TEXT", help="Why, in one line: hosts show it.")
@click.option(
    "--expires", type=int, metavar="DAYS", help="How long hosts may believe the list, from now.  [default: 90 days]"
)
@click.option(
    "--distribution", metavar="NAME", help="The distribution, if it is not the one that follows from the Provider's id."
)
@key_options(required=True)
def command(
    options: GlobalOptions,
    release: str | None,
    *,
    index: str,
    reason: str | None,
    expires: int | None,
    distribution: str | None,
    key: str,
    public_key: str | None,
) -> None:
    """Revoke a release for ever: hosts whose policy has the list refuse it, whatever they verified before.

    The list is the file documents/revocations.dsse.json of the index, which hosts are given and never fetch. Without a
    release it is signed anew as it is, and made where there is none: hosts refuse everything once it has expired. With
    --policy nothing is signed that the policy would not count.
    """
    from ..publish.index import FolderIndex
    from ..publish.revoke import renew, revoke
    from ..publish.signed import DAYS
    from ..trust.documents import show_time

    if (release is None) != (reason is None):
        raise click.UsageError("a release and the --reason why it is revoked are given together")
    policy = options.host().policy
    opened = FolderIndex(index)
    used = signer(key, public_key)
    warn(options, used.warnings)
    days = DAYS if expires is None else expires
    if release is None or reason is None:
        state, listed = "renewed", renew(opened, signer=used, days=days, policy=policy)
    else:
        done = revoke(opened, release, reason=reason, signer=used, days=days, policy=policy, distribution=distribution)
        state, listed = "revoked" if done.changed else "unchanged", done.revocations
        if done.entry.digest is None:
            from ..errors import CODES, Diagnostic

            message = f"{release} is revoked by its name alone: {opened.root} has no wheel of it that can be read"
            hint = CODES["release-unknown"]
            warn(options, [Diagnostic(code="release-unknown", severity="warning", message=message, hint=hint)])
    if options.json:
        revoked = [{"release": each.release, "digest": each.digest, "reason": each.reason} for each in listed.revoked]
        head = {"state": state, "sequence": listed.sequence, "expires": show_time(listed.expires)}
        print_json({**head, "revoked": revoked})
        return
    what = {"renewed": "the list is signed anew", "revoked": f"{release} is revoked"}
    echo(visible(what.get(state, f"{release} was revoked before")))
    count, until = plural(len(listed.revoked), "entry"), show_time(listed.expires)
    echo(f"the list has {count}, the sequence {listed.sequence}, and holds until {until}")
