"""`agent-bundler key generate | show`."""

from __future__ import annotations

import click

from .options import GlobalOptions, add_global_options, subcommand
from .output import echo, print_json, visible


@click.group("key", epilog="Example: agent-bundler key generate release.key")
def command() -> None:
    """Make signing keys, and show public ones."""


add_global_options(command)


@subcommand(
    command,
    "generate",
    short_help="Make a private and a public key.",
    epilog="Example: agent-bundler key generate release.key --no-passphrase",
)
@click.argument("file")
@click.option("--no-passphrase", is_flag=True, help="Do not encrypt it: for where a secret store keeps it.")
def generate(options: GlobalOptions, file: str, no_passphrase: bool) -> None:
    """Make an Ed25519 key: the private one in FILE, encrypted, the public one in FILE.pub. Neither is ever replaced.

    The passphrase is asked for, or that of AGENT_BUNDLER_PASSPHRASE.
    """
    from ..trust.signing import generate_key
    from .secrets import new_passphrase

    public = generate_key(file, None if no_passphrase else new_passphrase(file))
    if options.json:
        print_json({"state": "created", "private": file, "public": f"{file}.pub", "keyId": public.key_id})
        return
    echo(visible(f"created {file}, which is secret, and {file}.pub\n").rstrip("\\n"))
    echo(public.key_id)


@subcommand(command, "show", short_help="Show a public key.", epilog="Example: agent-bundler key show release.key.pub")
@click.argument("file")
def show(options: GlobalOptions, file: str) -> None:
    """The id and the PEM of the public key in FILE, or of the one that belongs to the private key there."""
    from ..trust.signing import show_key
    from .secrets import ask_passphrase

    public = show_key(file, ask_passphrase)
    if options.json:
        print_json({"keyId": public.key_id, "publicKey": public.pem})
        return
    echo(f"{public.key_id}\n{public.pem}", nl=False)
