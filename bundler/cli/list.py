"""`agent-bundler list`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from .options import GlobalOptions
from .options import command as make_command
from .output import echo, print_json, visible
from .verdicts import trust_as_json, verdict_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..trust.host import Host
    from ..wheel.installed import InstalledProvider


def _check_paths(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """A place that was named has to be there: a misspelt one would hold nothing, and so pass."""
    from ..errors import BundlerError
    from ..wheel.installed import ARCHIVES

    for place in value:
        hint = "name a folder that exists and can be read, such as a site-packages"
        if not place or not (os.path.isdir(place) or (os.path.isfile(place) and place.endswith(ARCHIVES))):
            what = f"{place or 'an empty text'} is no folder; a folder is expected"
            raise BundlerError("file-missing", f"--path: {what}", path=place, hint=hint)
        try:
            if os.path.isdir(place):
                os.listdir(place)
        except OSError as error:
            message = f"--path: {place} can't be read: {os.strerror(error.errno or 0)}"
            raise BundlerError("file-read-failed", message, path=place, hint=hint) from None
    return value


path_option = click.option(
    "--path",
    "path",
    multiple=True,
    callback=_check_paths,
    metavar="DIR",
    help="Look in this folder, such as a site-packages or what `pip install --target` wrote; may be repeated."
    "  [default: where this Python finds what is installed]",
)


@make_command("list", epilog="Example: agent-bundler list --path venv/lib/python3.12/site-packages")
@path_option
def command(options: GlobalOptions, path: tuple[str, ...]) -> None:
    """List the Providers that are installed, and those whose install is broken.

    Their metadata is read and nothing is imported or verified: `verify --installed` does that. Of several installs of
    one distribution the first on the path is used. With --policy each is verified, and it is told which ones the policy
    trusts, and who signed them.
    """
    from ..wheel.installed import claimed_once, list_installed

    found = claimed_once(list_installed(path or None))
    host = options.host()
    told = [_as_json(each, _verdict(host, found, each)) for each in found]
    if options.json:
        print_json({"providers": told})
        return
    if not found:
        echo("no Provider is installed" + (f" in {', '.join(path)}" if path else ""))
    for each, value in zip(found, told, strict=True):
        echo(visible(f"{each.id}: {each.distribution} {each.version} in {each.location}"))
        for line in _lines(value):
            echo(visible(f"  {line}"))


def _verdict(host: Host, found: list[InstalledProvider], each: InstalledProvider) -> dict[str, Any]:
    """What a policy says of an installed Provider; without one only who claims to have signed it."""
    from ..errors import BundlerError

    if each.problem is not None or each.shadowed_by is not None:
        return {}
    from ..runtime.open import open_installed

    try:
        if host.policy is None:
            return {"claimed": list(_claimed(each))}
        with open_installed(host, found, each) as opened:
            return {"trust": trust_as_json(opened.trust)}
    except BundlerError as error:
        return {"state": "refused", "problem": error.diagnostics[0].to_json()}


def _claimed(each: InstalledProvider) -> tuple[str, ...]:
    """The key ids that the signatures with it name; nothing of it is verified."""
    from ..errors import BundlerError
    from ..trust.envelope import read_envelope
    from ..trust.files import read_small
    from ..wheel.naming import MAX_ENVELOPE

    try:
        envelope = read_envelope(read_small(each.envelope, MAX_ENVELOPE)[0], each.envelope)
    except BundlerError as error:
        if error.code != "file-missing":
            raise
        return ()
    return tuple(signature.key_id for signature in envelope.signatures)


def _as_json(each: InstalledProvider, verdict: dict[str, Any]) -> dict[str, Any]:
    state = "broken" if each.problem is not None else "shadowed" if each.shadowed_by is not None else "installed"
    optional = {
        "digest": each.digest,
        "problem": None if each.problem is None else each.problem.to_json(),
        "shadowedBy": each.shadowed_by,
    }
    return {
        "id": each.id,
        "state": state,
        "distribution": each.distribution,
        "version": each.version,
        "location": each.location,
        "root": each.root if each.module is not None else None,
        **{key: value for key, value in optional.items() if value is not None},
        **verdict,
    }


def _lines(value: dict[str, Any]) -> Iterator[str]:
    """What is told of one beside its names."""
    if "problem" in value:
        yield f"{value['problem']['code']}: {value['problem']['message']}"
    elif "shadowedBy" in value:
        yield f"not used: the one in {value['shadowedBy']} comes first"
    elif "trust" in value:
        yield verdict_text(value["trust"])
        for signer in value["trust"]["signers"]:
            yield f"signed by {signer['name']} ({signer['keyId']})"
    else:
        yield f"not verified; it says that it is {value['digest']}"
        for key_id in value["claimed"]:
            yield f"not verified: it says that it is signed by {key_id}"
