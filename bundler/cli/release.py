"""`agent-bundler release`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from .options import GlobalOptions
from .options import command as make_command
from .output import echo, print_json, visible, warn
from .secrets import key_options, release_signer
from .targets import TargetOptions, check_progress, publish_to, published_json, show_published, target_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..publish.evidence import Evidence
    from ..publish.pitfalls import Pitfall
    from ..publish.record import Release


@make_command("release", epilog="Example: agent-bundler release my-provider --key release.key --index /srv/index")
@click.argument("source", required=False, metavar="[SOURCE]")
@click.option("--output", default="dist", metavar="DIR", help="The folder of releases.  [default: dist]")
@click.option("--dry-run", is_flag=True, help="Make every check; sign, write and publish nothing.")
@key_options(required=False)
@target_options
def command(
    options: GlobalOptions,
    source: str | None,
    *,
    output: str,
    dry_run: bool,
    key: str | None,
    public_key: str | None,
    **targets: Any,
) -> None:
    """Release the Provider in SOURCE (default: the current folder): every check, signature, provenance, and publishing.

    The release is a folder in DIR: wheel, sdist, manifest.json, evidence.json, SBOM, provenance and release.json. The
    same version with the same content is the same release, however often it is made; with other content it is refused.
    What failed at the last try is told first.
    """
    from ..publish.checks import run_checks
    from ..publish.pitfalls import read_pitfalls
    from ..publish.release import release, work_folder

    place = source or options.manifest or "."
    places = TargetOptions(**targets)
    made_targets = places.make()
    used = None if key is None else release_signer(options, key, public_key)
    work = work_folder(place, output)
    pitfalls = read_pitfalls(work)
    _show_pitfalls(options, pitfalls)
    if dry_run:
        with run_checks(place, work, progress=check_progress(options)) as checked:
            warn(options, checked.warnings)
            _show_checked(options, checked.evidence, pitfalls)
        return
    made = release(
        place,
        output,
        signer=used,
        policy=options.host(authoring=True).policy,
        index=places.folder_index(),
        progress=check_progress(options),
    )
    warn(options, made.warnings)
    if not options.json:
        show_release(made)
    published = publish_to(options, made, made_targets)
    if options.json:
        known = [asdict(each) for each in pitfalls]
        print_json({**release_json(made), "targets": published_json(published), "pitfalls": known})
    else:
        show_published(published)


def show_release(made: Release) -> None:
    """For people."""
    state = "released" if made.is_new else "it was released before:"
    name = f"{made.provider_id} {made.provider_version} as {made.distribution} {made.version}"
    echo(visible(f"{state} {name}: {made.folder}"))
    echo(f"  signed by {made.signer}" if made.signer else "  not signed")
    echo(made.id)


def release_json(made: Release) -> dict[str, Any]:
    """For JSON: release.json, and where it lies."""
    return {"state": "released" if made.is_new else "unchanged", "path": made.folder, **made.to_json()}


def _show_pitfalls(options: GlobalOptions, pitfalls: Sequence[Pitfall]) -> None:
    if options.quiet or options.json:
        return
    for each in pitfalls:
        echo(visible(f"known pitfall, {each.check}: {each.found}"), err=True)
        echo(visible(f"  expected: {each.expected}; likely cause: {each.cause}"), err=True)


def _show_checked(options: GlobalOptions, evidence: Evidence, pitfalls: Sequence[Pitfall]) -> None:
    if options.json:
        print_json(
            {"state": "checked", "evidence": evidence.to_json(), "pitfalls": [asdict(each) for each in pitfalls]}
        )
        return
    for check in evidence.checks:
        echo(f"{check.state} {check.name}")
    echo("nothing was signed, released or published")
