"""`agent-bundler wheel`."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import click

from .options import GlobalOptions
from .options import command as make_command
from .output import Progress, echo, plural, print_json, size_text, warn
from .secrets import key_options, signer

if TYPE_CHECKING:
    from ..trust.policy import TrustPolicy
    from ..trust.signing import Signer
    from ..wheel.contents import Contents


@make_command("wheel", epilog="Example: agent-bundler -m my-provider wheel dist")
@click.argument("output", required=False, default="dist", metavar="[OUTPUT-DIR]")
@click.option(
    "--settings",
    "settings_file",
    metavar="FILE",
    help="The pyproject.toml whose [tool.agent-bundler] counts.  [default: the one beside the source]",
)
@key_options(required=False)
def command(
    options: GlobalOptions, output: str, *, settings_file: str | None, key: str | None, public_key: str | None
) -> None:
    """Write the Provider's wheel into OUTPUT-DIR (default: dist).

    The wheel holds the bundle and nothing that is ever imported. It is read back and verified before it gets its name;
    with --key it is signed before that, too. The same source gives the same bytes with the same versions of hatchling
    and zlib; the bundle's digest is the same in any case.
    """
    from ..bundle.names import junk_notes
    from ..tree import DirectoryTree
    from ..wheel.build import make_wheel
    from ..wheel.settings import Settings, read_settings

    used = None if key is None else signer(key, public_key)
    seal = None
    if used is not None:
        warn(options, used.warnings)
        policy = options.host(authoring=True).policy
        seal = partial(_seal, used, policy)
    settings = None
    if settings_file is not None:
        folder, name = os.path.split(os.path.abspath(settings_file))
        with DirectoryTree(folder) as tree:
            settings = read_settings(tree, name, must_exist=True)
    with options.open(authoring=True) as opened:
        if settings is None and opened.identity is not None:  # a wheel's or an install's own names
            settings = Settings(distribution=opened.identity.distribution, version=opened.identity.version)
        warn(options, junk_notes(opened.closure))
        progress = Progress(options, "reading")
        try:
            built = make_wheel(opened, output, settings, progress, seal=seal)
        finally:
            progress.done()
        warn(options, built.warnings)
    identity = built.identity
    if options.json:
        print_json(
            {
                "state": "built",
                "path": built.path,
                "sha256": built.sha256,
                "size": built.size,
                "distribution": identity.distribution,
                "version": identity.version,
                "declared": list(identity.declared),
                "provider": {"id": identity.provider_id, "version": identity.provider_version},
                "digest": built.digest,
                "keyId": None if used is None else used.public.key_id,
            }
        )
        return
    echo(
        f"built {built.path}: {identity.provider_id} {identity.provider_version} as {identity.distribution} "
        f"{identity.version}, {plural(len(built.manifest.files), 'file')}, {size_text(built.size)}"
    )
    if used is not None:
        echo(f"  signed by {used.public.key_id}")
    for name in identity.declared:
        echo(f"  the {name} is declared by its author, not derived from the Provider")
    echo(f"sha256:{built.sha256} is the file's own digest; the bundle's is\n{built.digest}")


def _seal(used: Signer, policy: TrustPolicy | None, contents: Contents) -> bytes:
    from ..trust.sign import attest

    return attest(contents, used, policy).to_bytes()
