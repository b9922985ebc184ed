"""`agent-bundler digest`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .options import GlobalOptions
from .options import command as make_command
from .output import echo, print_json, warn

if TYPE_CHECKING:
    from ..runtime.provider import OpenedProvider


@make_command(
    "digest",
    epilog="Example: agent-bundler digest -m dist/provider > list && (cd dist/provider && sha256sum --check) < list",
)
@click.option(
    "--algorithm",
    type=click.Choice(("sha256", "blake3")),
    default="sha256",
    show_default=True,
    help="Digest algorithm.",
)
@click.option("--fingerprint", "only_fingerprint", is_flag=True, help="Print the fingerprint only.")
@click.option("--listed", is_flag=True, help="What manifest.json lists, for `sha256sum --check`; no file is looked at.")
def command(options: GlobalOptions, algorithm: str, only_fingerprint: bool, listed: bool) -> None:
    """List the digest of every carried file (of a bundle also its manifest.json).

    In the Provider's folder `sha256sum --check` or `b3sum --check` reads the list. The fingerprint, on stderr, is
    the digest of the list itself.
    """
    from ..bundle.digests import digest_files, fingerprint, list_text

    if listed and (algorithm != "sha256" or only_fingerprint):
        raise click.UsageError("--listed prints what manifest.json says, which is SHA-256")
    with options.open(authoring=True) as opened:
        warn(options, opened.warnings)
        if listed:
            _print_listed(options, opened)
            return
        files = list(digest_files(opened.tree, opened.files, algorithm))
    whole = f"{algorithm}:{fingerprint(files, algorithm)}"
    if options.json:
        print_json(
            {
                "algorithm": algorithm,
                "fingerprint": whole,
                "files": [
                    {"path": file.path, "digest": f"{algorithm}:{file.hex}", "size": file.size} for file in files
                ],
            }
        )
    elif only_fingerprint:
        echo(whole)
    else:
        click.echo(list_text(files).encode("utf-8", "surrogateescape"), nl=False)
        if not options.quiet:
            echo(f"fingerprint of these {len(files):,} files: {whole}", err=True)


def _print_listed(options: GlobalOptions, opened: OpenedProvider) -> None:
    from ..bundle.digests import list_line
    from ..errors import BundlerError

    if opened.bundle is None:
        raise BundlerError("option-invalid", f"{opened.root} is a source, which has no manifest.json", path=opened.root)
    digests = opened.bundle.manifest.files
    if options.json:
        print_json({"files": [{"path": path, "digest": digest} for path, digest in digests.items()]})
        return
    lines = [list_line(path, digest.removeprefix("sha256:")) + "\n" for path, digest in digests.items()]
    click.echo("".join(lines).encode("utf-8", "surrogateescape"), nl=False)
