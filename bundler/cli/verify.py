"""`agent-bundler verify`."""

from __future__ import annotations

import os
from typing import Any

import click

from .options import GlobalOptions
from .options import command as make_command
from .output import echo, plural, print_json, warn


@make_command("verify", epilog="Example: agent-bundler verify dist/provider")
@click.argument("bundles", nargs=-1, metavar="[BUNDLE]...")
def command(options: GlobalOptions, bundles: tuple[str, ...]) -> None:
    """Verify bundles: each listed file and its digest, nothing else there, every rule of the protocol.

    A bundle that passes is consistent: it is what its manifest says. Who made it, only a signature can tell.
    """
    from ..errors import BundlerError, Diagnostic

    named = bundles or (options.manifest or os.path.join("dist", "provider"),)
    results: list[dict[str, Any]] = []
    errors: list[BundlerError] = []
    warnings: list[Diagnostic] = []
    for path in named:
        try:
            result, found = _verify(path)
            results.append(result)
            warnings.extend(found)
        except BundlerError as error:
            errors.append(error if len(named) == 1 else _in_bundle(error, path))
    warn(options, warnings)
    if options.json and not errors:
        print_json({"state": "consistent", "trusted": False, "bundles": results})
    elif not options.json:
        for result in results:
            echo(
                f"{result['path']}: {result['provider']['id']} {result['provider']['version']}, {plural(result['files'], 'file')}: "
                f"consistent, not trusted (no signature was checked)\n{result['digest']}"
            )
    if errors:
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


def _in_bundle(error: Any, path: str) -> Any:
    from dataclasses import replace

    from ..errors import BundlerError

    diagnostics = [replace(diagnostic, message=f"{path}: {diagnostic.message}") for diagnostic in error.diagnostics]
    return BundlerError(error.code, f"{path}: {error.message}", hint=error.hint, diagnostics=diagnostics)
