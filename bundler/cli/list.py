"""`agent-bundler list`."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from .options import GlobalOptions
from .options import command as make_command
from .output import echo, print_json, visible

if TYPE_CHECKING:
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
    one distribution the first on the path is used.
    """
    from ..wheel.installed import list_installed

    found = _claimed_once(list_installed(path or None))
    if options.json:
        print_json({"providers": [_as_json(each) for each in found]})
        return
    if not found:
        echo("no Provider is installed" + (f" in {', '.join(path)}" if path else ""))
    for each in found:
        echo(visible(f"{each.id}: {each.distribution} {each.version} in {each.location}"))
        if each.problem is not None:
            echo(visible(f"  {each.problem.code}: {each.problem.message}"))
        elif each.shadowed_by is not None:
            echo(f"  not used: the one in {each.shadowed_by} comes first")
        else:
            echo(f"  not verified; it says that it is {each.digest}")


def _claimed_once(found: list[InstalledProvider]) -> list[InstalledProvider]:
    """The same, where an id that several distributions claim is a problem of each: none of them is opened."""
    from ..wheel.installed import duplicates

    claims: dict[str, list[InstalledProvider]] = {}
    for each in found:
        claims.setdefault(each.id, []).append(each)
    told = {provider_id: duplicates(owners) for provider_id, owners in claims.items()}
    return [replace(each, problem=told[each.id][0]) if told[each.id] else each for each in found]


def _as_json(each: InstalledProvider) -> dict[str, Any]:
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
    }
