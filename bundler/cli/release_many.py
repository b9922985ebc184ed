"""`agent-bundler release-many`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from .options import GlobalOptions
from .options import command as make_command
from .output import echo, print_json, visible, warn
from .release import release_json
from .secrets import key_options, release_signer
from .targets import TargetOptions, published_json, target_options

if TYPE_CHECKING:
    from ..publish.many import Outcome


@make_command(
    "release-many", epilog="Example: agent-bundler release-many providers/* --key release.key --index /srv/index"
)
@click.argument("sources", nargs=-1, required=True, metavar="DIR…")
@click.option("--output", default="dist", metavar="DIR", help="The folder of releases.  [default: dist]")
@click.option(
    "--jobs", type=click.IntRange(min=1), metavar="NUMBER", help="Checked at once.  [default: one for each processor]"
)
@key_options(required=False)
@target_options
def command(
    options: GlobalOptions,
    sources: tuple[str, ...],
    *,
    output: str,
    jobs: int | None,
    key: str | None,
    public_key: str | None,
    **targets: Any,
) -> None:
    """Release the Providers in all these folders, as `release` does; whatever becomes of one, the others go on.

    Other processes check and build, this one signs and publishes. The exit status is 1 where one failed.
    """
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from ..publish.many import release_many

    places = TargetOptions(**targets)
    made_targets = places.make()
    used = None if key is None else release_signer(options, key, public_key)
    with ProcessPoolExecutor(min(jobs or os.cpu_count() or 1, len(sources)), get_context("spawn")) as pool:
        outcomes = release_many(
            sources,
            output,
            executor=pool,
            signer=used,
            policy=options.host(authoring=True).policy,
            index=places.folder_index(),
            targets=made_targets,
            progress=lambda outcome: _tell(options, outcome),
        )
    for outcome in outcomes:
        warn(options, outcome.release.warnings if outcome.release else ())
        warn(options, (warning for each in outcome.published for warning in each.warnings))
    failed = sum(outcome.error is not None for outcome in outcomes)
    if options.json:
        print_json({"failed": failed, "releases": [_as_json(outcome) for outcome in outcomes]})
    else:
        _show(outcomes)
    if failed:
        raise click.exceptions.Exit(1)


def _tell(options: GlobalOptions, outcome: Outcome) -> None:
    if sys.stderr.isatty() and not options.quiet and not options.json:
        echo(visible(f"{_state(outcome)} {outcome.source}"), err=True)


def _state(outcome: Outcome) -> str:
    if outcome.error is not None:
        return "failed"
    return "released" if outcome.release is not None and outcome.release.is_new else "unchanged"


def _show(outcomes: list[Outcome]) -> None:
    rows = [("state", "Provider", "version", "published", "source")]
    for outcome in outcomes:
        made = outcome.release
        names = (made.provider_id, made.provider_version) if made else ("-", "-")
        rows.append((_state(outcome), *names, str(len(outcome.published)), outcome.source))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        echo(visible("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()))
    for outcome in outcomes:
        if outcome.error is not None:
            echo(visible(f"{outcome.source}: error[{outcome.error.code}] {outcome.error.message}"), err=True)
            if outcome.error.hint:
                echo(visible(f"  remedy: {outcome.error.hint}"), err=True)


def _as_json(outcome: Outcome) -> dict[str, Any]:
    return {
        **(release_json(outcome.release) if outcome.release else {}),
        "state": _state(outcome),
        "source": outcome.source,
        "targets": published_json(outcome.published),
        "error": outcome.error.to_json()["error"] if outcome.error else None,
    }
