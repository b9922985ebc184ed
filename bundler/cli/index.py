"""`agent-bundler index init | verify | rebuild | list | gc`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .options import GlobalOptions, add_global_options, subcommand
from .output import Progress, echo, plural, print_json, size_text, visible, warn

if TYPE_CHECKING:
    from ..publish.index import IndexFile

_EXAMPLE = "Example: agent-bundler index "
_index = click.argument("index", metavar="INDEX")


@click.group("index", epilog=f"{_EXAMPLE}verify /srv/index")
def command() -> None:
    """Make, verify and mend a folder index, from which pip and uv install.

    INDEX is its folder, or a file:// URL of it. Installers are given the folder `simple` in it:
    `pip install --index-url file:///srv/index/simple …`.
    """


add_global_options(command)


@subcommand(command, "init", short_help="A new index.", epilog=f"{_EXAMPLE}init /srv/index")
@_index
def init(options: GlobalOptions, index: str) -> None:
    """Make a new index in a folder that is empty or does not exist."""
    from ..publish.index import FolderIndex

    made = FolderIndex.init(index)
    if options.json:
        print_json({"state": "made", "index": made.root, "head": made.head().digest})
    else:
        echo(visible(f"made {made.root}"))


@subcommand(command, "verify", short_help="Verify all of it.", epilog=f"{_EXAMPLE}verify /srv/index")
@_index
def verify(options: GlobalOptions, index: str) -> None:
    """Verify the journal, that each page is what the journal makes it, and each file.

    It changes nothing. What it says nothing of: who signed anything, and whether the journal was cut: compare the
    head that it prints with one that you have kept.
    """
    from ..errors import BundlerError
    from ..publish.index import FolderIndex

    opened = FolderIndex(index)
    progress = Progress(options, "verifying")
    try:
        findings = opened.verify(progress)
    finally:
        progress.done()
    warn(options, (each for each in findings if each.severity == "warning"))
    errors = [each for each in findings if each.severity == "error"]
    if errors:
        raise BundlerError(errors[0].code, errors[0].message, hint=errors[0].hint, diagnostics=errors)
    head, count = opened.head(), len(opened.projects())
    if options.json:
        print_json(
            {"state": "consistent", "index": opened.root, "number": head.number, "head": head.digest, "projects": count}
        )
    else:
        echo(visible(f"{opened.root}: consistent, {plural(count, 'project')}, {plural(head.number, 'change')}"))
        echo(head.digest)


@subcommand(command, "rebuild", short_help="Make the pages again.", epilog=f"{_EXAMPLE}rebuild /srv/index")
@_index
def rebuild(options: GlobalOptions, index: str) -> None:
    """Make pages, documents and head again what the journal says they are.

    Nothing changes where the journal is broken, or a file is not what a page would say of it.
    """
    from ..publish.index import FolderIndex

    progress = Progress(options, "verifying")
    try:
        changed = FolderIndex(index).rebuild(progress=progress)
    finally:
        progress.done()
    _show_paths(options, changed, "rebuilt", "everything is what the journal says")


@subcommand(command, "list", short_help="List what is in it.", epilog=f"{_EXAMPLE}list /srv/index")
@_index
def show(options: GlobalOptions, index: str) -> None:
    """List projects, versions and files, with their digests."""
    from ..publish.index import FolderIndex

    opened = FolderIndex(index)
    head = opened.head()
    found = {project: opened.project(project) for project in opened.projects()}
    if options.json:
        projects = [{"name": project, "files": [_as_json(each) for each in files]} for project, files in found.items()]
        print_json({"index": opened.root, "number": head.number, "head": head.digest, "projects": projects})
        return
    if not found:
        echo(visible(f"no project is in {opened.root}"))
    for project, files in found.items():
        echo(project)
        for file in files:
            yanked = f", yanked: {file.yanked}" if file.yanked is not None else ""
            echo(
                visible(
                    f"  {file.version}  {file.name}  {size_text(file.content.size)}  sha256:{file.content.sha256}{yanked}"
                )
            )


@subcommand(command, "gc", short_help="Remove leftovers.", epilog=f"{_EXAMPLE}gc /srv/index")
@_index
def gc(options: GlobalOptions, index: str) -> None:
    """Remove what ended writers left: files that no page and no journal entry names."""
    from ..publish.index import FolderIndex

    _show_paths(options, FolderIndex(index).gc(), "removed", "nothing was left behind")


def _show_paths(options: GlobalOptions, paths: list[str], verb: str, otherwise: str) -> None:
    if options.json:
        print_json({"state": verb if paths else "nothing", "paths": paths})
        return
    for path in paths:
        echo(visible(f"{verb} {path}"))
    if not paths:
        echo(otherwise)


def _as_json(file: IndexFile) -> dict[str, Any]:
    return {"version": file.version, "path": file.path, **file.to_json()}
