"""`agent-bundler verify`."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from .options import GlobalOptions
from .options import command as make_command
from .output import echo, plural, print_json, warn

if TYPE_CHECKING:
    from ..errors import BundlerError, Diagnostic


@make_command("verify", epilog="Example: agent-bundler verify dist/provider")
@click.argument("bundles", nargs=-1, metavar="[BUNDLE]...")
def command(options: GlobalOptions, bundles: tuple[str, ...]) -> None:
    """Verify bundles: each listed file and its digest, nothing else there, every rule of the protocol.

    BUNDLE is a folder or its manifest.json; without one, --manifest is meant, or else dist/provider.

    A bundle that passes is consistent: it is what its manifest says. Who made it, only a signature can tell.
    """
    from ..errors import BundlerError

    if options.skill or (bundles and options.manifest):
        raise click.UsageError("name bundles as arguments or one with --manifest; a Skill names none")
    named = bundles or (options.manifest or os.path.join("dist", "provider"),)
    results: list[dict[str, Any]] = []
    errors: list[BundlerError] = []
    warnings: list[Diagnostic] = []
    for path in named:
        try:
            result, found = _verify(path)
            results.append(result)
            warnings.extend(found if len(named) == 1 else [_told_for(path, warning) for warning in found])
        except BundlerError as error:
            errors.append(error if len(named) == 1 else _in_bundle(error, path))
    warn(options, warnings)
    if options.json and not errors:
        print_json({"state": "consistent", "trusted": False, "bundles": results})
    elif not options.json:
        for result in results:
            echo(
                f"{result['path']}: {result['provider']['id']} {result['provider']['version']}, {plural(result['files'], 'file')} and manifest.json: "
                f"consistent, not trusted (no signature was checked)\n{result['digest']}"
            )
    if errors:
        if options.json:  # which of several passed stands beside what failed
            warn(options, [_passed(result) for result in results])
        raise BundlerError.of(errors)


def _verify(path: str) -> tuple[dict[str, Any], tuple[Any, ...]]:
    from ..bundle.manifest import MANIFEST_NAME
    from ..bundle.open import open_bundle, recover_missing

    folder = (
        os.path.dirname(os.path.abspath(path))
        if os.path.basename(path) == MANIFEST_NAME and not os.path.isdir(path)
        else path
    )
    recover_missing(os.path.abspath(folder))
    with open_bundle(folder) as bundle:
        manifest = bundle.manifest
    return {
        "path": folder,
        "provider": {"id": manifest.provider_id, "version": manifest.provider_version},
        "files": len(manifest.files),
        "digest": manifest.digest,
    }, bundle.warnings


def _in_bundle(error: BundlerError, path: str) -> BundlerError:
    """The error with the bundle's name: there are several."""
    from ..errors import BundlerError

    diagnostics = [_told_for(path, diagnostic) for diagnostic in error.diagnostics]
    return BundlerError(error.code, f"{path}: {error.message}", hint=error.hint, diagnostics=diagnostics)


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


def _told_for(path: str, diagnostic: Diagnostic) -> Diagnostic:
    return replace(diagnostic, message=f"{path}: {diagnostic.message}")
