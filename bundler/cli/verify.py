"""`agent-bundler verify`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from .list import path_option
from .options import GlobalOptions
from .options import command as make_command
from .output import echo, plural, print_json, visible, warn

if TYPE_CHECKING:
    from ..errors import BundlerError, Diagnostic
    from ..runtime.provider import OpenedProvider

#: What is verified when it is opened, by the name that it has in messages.
_Task = tuple[str, "Callable[[], AbstractContextManager[OpenedProvider]]"]


@make_command("verify", epilog="Example: agent-bundler verify dist/provider")
@click.argument("things", nargs=-1, metavar="[BUNDLE|WHEEL|provider:ID]...")
@click.option(
    "--installed", is_flag=True, help="The arguments are ids of installed Providers; without any, all of them."
)
@path_option
def command(options: GlobalOptions, things: tuple[str, ...], installed: bool, path: tuple[str, ...]) -> None:
    """Verify bundles, wheels and installed Providers: each file and its digest, nothing else there, every rule.

    A bundle is named by its folder or its manifest.json, a wheel by its file, which is neither unpacked nor installed;
    without any, --manifest is meant, or else dist/provider. With --installed it is also looked for paths that two
    distributions own, ids that two claim, and what belongs to none.

    What passes is consistent: it is what its manifest says. Who made it, only a signature can tell.
    """
    from ..errors import BundlerError

    if options.skill or (options.manifest and (things or installed)):
        raise click.UsageError("name what to verify as arguments or one with --manifest; a Skill names none")
    if path and not installed:
        raise click.UsageError("--path tells where --installed looks")
    errors: list[BundlerError] = []
    if installed:
        tasks, errors = _installed(things, path)
    else:
        from ..runtime.open import open_provider

        named = things or (options.manifest or os.path.join("dist", "provider"),)
        tasks = [(each, partial(open_provider, each, built=True)) for each in named]
    results: list[dict[str, Any]] = []
    warnings: list[Diagnostic] = []
    several = installed or len(tasks) > 1
    for name, open_it in tasks:
        try:
            with open_it() as opened:
                results.append(_result(opened))
                warnings.extend(_told_for(name, each) if several else each for each in opened.warnings)
        except BundlerError as error:
            errors.append(_in(error, name) if several else error)
    warn(options, warnings)
    if options.json and not errors:
        print_json({"state": "consistent" if results else "nothing", "trusted": False, "bundles": results})
    elif not options.json:
        _show(results)
        if not results and not errors:
            echo("no Provider is installed" + (f" in {', '.join(path)}" if path else ""))
    if errors:
        if options.json:  # which of several passed stands beside what failed
            warn(options, [_passed(result) for result in results])
        raise BundlerError.of(errors)


def _installed(ids: Sequence[str], path: Sequence[str]) -> tuple[list[_Task], list[BundlerError]]:
    """The installs that are used, and what is wrong with all of them together."""
    from ..errors import BundlerError
    from ..runtime.open import open_installed
    from ..wheel.installed import list_installed, not_installed
    from ..wheel.installed_check import check_neighbours

    found = list_installed(path or None)
    errors = [not_installed(found, each) for each in ids if all(other.id != each for other in found)]
    for finding in check_neighbours(found, ids, path or None):
        errors.append(BundlerError(finding.code, finding.message, hint=finding.hint, diagnostics=(finding,)))
    used = [each for each in found if each.shadowed_by is None and (not ids or each.id in ids)]
    return [(f"{each.id} in {each.location}", partial(open_installed, found, each)) for each in used], errors


def _result(opened: OpenedProvider) -> dict[str, Any]:
    result: dict[str, Any] = {
        "path": opened.root,
        "kind": opened.kind,
        "provider": {"id": opened.provider.id, "version": opened.provider.version},
        "files": len(opened.files) - 1,  # manifest.json is not counted
        "digest": opened.digest,
    }
    if opened.identity is not None:
        result |= {
            "distribution": opened.identity.distribution,
            "version": opened.identity.version,
            "declared": list(opened.identity.declared),
            "requires": list(opened.requires),
            "bytecode": list(opened.bytecode),
        }
    return result


def _show(results: list[dict[str, Any]]) -> None:
    for result in results:
        called = f" as {result['distribution']} {result['version']}" if "distribution" in result else ""
        what = f"{result['provider']['id']} {result['provider']['version']}{called}"
        echo(
            visible(f"{result['path']}: {what}, {plural(result['files'], 'file')} and manifest.json: ")
            + f"consistent, not trusted (no signature was checked)\n{result['digest']}"
        )
        for name in result.get("declared", ()):
            echo(f"  the {name} is declared by its author, not derived from the Provider")
        for requirement in result.get("requires", ()):
            echo(visible(f"  pip installs {requirement} with it"))
        if result.get("bytecode"):
            echo(f"  {plural(len(result['bytecode']), 'file')} of bytecode beside scripts, for which nothing vouches")


def _in(error: BundlerError, name: str) -> BundlerError:
    """The error with the name of what it is about: there are several."""
    from ..errors import BundlerError

    diagnostics = [_told_for(name, diagnostic) for diagnostic in error.diagnostics]
    return BundlerError(error.code, f"{name}: {error.message}", hint=error.hint, diagnostics=diagnostics)


def _passed(result: dict[str, Any]) -> Diagnostic:
    from ..errors import Diagnostic

    message = f"{result['path']}: consistent, not trusted"
    return Diagnostic(
        code="bundle-consistent",
        severity="info",
        message=message,
        path=result["path"],
        detail={"digest": result["digest"]},
    )


def _told_for(name: str, diagnostic: Diagnostic) -> Diagnostic:
    return replace(diagnostic, message=f"{name}: {diagnostic.message}")
