"""`agent-bundler sign`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from .options import GlobalOptions
from .options import command as make_command
from .output import echo, print_json, visible, warn
from .secrets import key_options, signer

if TYPE_CHECKING:
    from ..trust.policy import TrustPolicy
    from ..trust.signing import Signer


@make_command("sign", epilog="Example: agent-bundler sign dist/NAME.whl --key release.key")
@click.argument("thing", metavar="WHEEL|BUNDLE|provider:ID")
@key_options(required=True)
@click.option(
    "--source",
    metavar="DIR",
    help="Also sign where the wheel comes from, as WHEEL.provenance.dsse.json, after building it from DIR again.",
)
@click.option("--sdist", metavar="FILE", help="With --source: the sdist comes from there, too.")
@click.option("--detached", metavar="FILE", help="Write the signature into this file, and leave the wheel as it is.")
def command(
    options: GlobalOptions,
    thing: str,
    *,
    key: str,
    public_key: str | None,
    detached: str | None,
    source: str | None,
    sdist: str | None,
) -> None:
    """Sign a release: say with a key which bytes it is, after everything about it has been verified.

    The signature of a wheel goes into the wheel, beside the bundle; that of a bundle lies beside its folder, as
    FOLDER.dsse.json. A wheel that is signed is not signed anew: further signatures are detached ones. The same key and
    content give the same signature. With --policy nothing is signed that the policy would not count.
    """
    from ..trust.sign import sign_provenance, sign_wheel

    is_wheel = thing.endswith(".whl") and not os.path.isdir(thing)
    if (source is not None and not is_wheel) or (sdist is not None and source is None):
        raise click.UsageError("--source tells where a wheel comes from, --sdist what else comes from there")
    used = signer(key, public_key)
    warn(options, used.warnings)
    policy = options.host().policy
    if detached is None and is_wheel:
        place, written = thing, sign_wheel(thing, used, policy)
    else:
        place, written = _sign_beside(thing, used, policy, detached)
    provenance = None if source is None else sign_provenance(thing, source, used, sdist)
    if options.json:
        state = "signed" if written else "unchanged"
        print_json({"state": state, "path": place, "keyId": used.public.key_id, "provenance": provenance})
        return
    echo(visible(f"{place}: {'signed' if written else 'it was signed so before'} by {used.public.key_id}"))
    if provenance is not None:
        echo(visible(f"{provenance}: where it comes from, signed by the same key"))


def _sign_beside(thing: str, used: Signer, policy: TrustPolicy | None, detached: str | None) -> tuple[str, bool]:
    """Sign a bundle, or anything with a detached signature: where that lies, and whether it was written."""
    from ..bundle.open import open_bundle
    from ..runtime.open import open_on
    from ..trust.host import Host, envelope_beside
    from ..trust.sign import sign_detached
    from ..wheel.contents import contents_of

    if os.path.isdir(thing):
        with open_bundle(thing) as bundle:
            place = detached or envelope_beside(thing)
            return place, sign_detached(contents_of(bundle), used, place, policy)
    if detached is None:
        raise click.UsageError("the signature of what is installed goes into a file of its own: --detached FILE")
    with open_on(Host(), thing, built=True) as opened:
        if opened.contents is None:
            raise AssertionError("what was opened is built")
        return detached, sign_detached(opened.contents, used, detached, policy)
