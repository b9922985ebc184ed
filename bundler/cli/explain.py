"""`agent-bundler explain`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from .options import GlobalOptions
from .options import command as make_command
from .output import echo, print_json, warn

if TYPE_CHECKING:
    from ..runtime.provider import OpenedProvider


@make_command("explain", epilog="Example: agent-bundler explain scripts/check.py -m my-provider")
@click.argument("path")
def command(options: GlobalOptions, path: str) -> None:
    """Tell why the file PATH is in the Provider's bundle, or why it is not.

    PATH is relative to the Provider root; one that exists from the current folder works too.
    """
    from ..bundle.layout import MANIFEST_NAME

    with options.open(authoring=True) as opened:
        warn(options, opened.warnings)
        name = _inside(opened, path)
        reasons = opened.closure.why(name)
        if opened.bundle is not None and name == MANIFEST_NAME:
            reasons = ["generated: it says what the bundle holds"]
        carried = bool(reasons)
        if not carried:
            reasons = [_why_not(opened, name)]
    if options.json:
        print_json({"path": name, "carried": carried, "reasons": reasons})
        return
    echo(f"{name} is {'carried' if carried else 'not carried'}:")
    for reason in reasons:
        echo(f"  {reason}")


def _inside(opened: OpenedProvider, path: str) -> str:
    from ..paths import normalize

    root = os.path.realpath(opened.root)
    absolute = os.path.abspath(path)
    # The last name may be a link, and it is the link that is asked for.
    real = os.path.join(os.path.realpath(os.path.dirname(absolute)), os.path.basename(absolute))
    if (os.path.isabs(path) or os.path.lexists(path)) and real.startswith(root + os.sep):
        return real[len(root) + 1 :].replace(os.sep, "/")
    return normalize(path.replace(os.sep, "/"))


def _why_not(opened: OpenedProvider, name: str) -> str:
    from ..errors import BundlerError
    from ..provider.closure import not_carried

    if not name:
        return "it is the Provider root"
    inside = [carried for carried in opened.closure.paths if carried.startswith(name + "/")]
    if inside:
        return f"it is a folder, of which {len(inside)} files are carried, {inside[0]} among them"
    for entry, why in not_carried(opened.tree, opened.closure):
        if name == entry.path or name.startswith(entry.path + "/"):
            return why
    raise BundlerError("path-unknown", f"`{name}` does not exist in {opened.root}", path=name)
