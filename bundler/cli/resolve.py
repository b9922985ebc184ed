"""`agent-bundler resolve`."""

from __future__ import annotations

import click

from .options import GlobalOptions
from .options import command as make_command
from .output import echo, print_json, visible


@make_command("resolve", epilog="Example: agent-bundler resolve acme/release@stable --index https://example.org/index")
@click.argument("channel", metavar="ID@CHANNEL")
@click.option("--index", required=True, metavar="URL", help="The index: a folder, or a file, http or https URL of it.")
@click.option(
    "--state",
    metavar="DIR",
    help="A folder of yours in which the latest document that was seen is kept in mind.  [default: the policy's]",
)
def command(options: GlobalOptions, channel: str, *, index: str, state: str | None) -> None:
    """Print the requirement, with its hash, of the release to which a channel points: a line for pip and uv.

    With --policy a key has to have signed it that the policy trusts for channels. One that has expired is refused, and
    with --state one that is older than what was seen. Give pip the line in a file: `pip install --require-hashes -r FILE`.
    """
    from ..errors import Diagnostic
    from ..publish.channels import resolve
    from .channels import channel_as_json
    from .verdicts import trust_as_json

    sequences = None
    if state is not None:
        from ..trust.sequences import Sequences

        sequences = Sequences(state)
    found = resolve(channel, index, policy=options.host().policy, sequences=sequences)
    if not found.trust.trusted:
        options.warnings.append(
            Diagnostic(code="provider-untrusted", severity="info", message=f"{channel} is {found.trust}")
        )
    if options.json:
        print_json({**channel_as_json(found.channel), "trust": trust_as_json(found.trust)})
        return
    echo(visible(found.channel.requirement))
