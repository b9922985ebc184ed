"""Options that name where a release goes, and what is printed of that."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .options import GlobalOptions
from .output import echo, visible, warn

if TYPE_CHECKING:
    from ..publish.index import FolderIndex
    from ..publish.record import Release
    from ..publish.targets import Published, Target

_Function = TypeVar("_Function", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--index", "index", metavar="FOLDER", help="Publish to this folder index."),
    click.option(
        "--expect-head", metavar="DIGEST", help="With --index: only if the head of its journal has this digest."
    ),
    click.option("--who", metavar="NAME", help="With --index: who stands in its journal.  [default: the user]"),
    click.option(
        "--repository",
        metavar="NAME|URL",
        help="Publish to this PyPI-compatible server: a name in .pypirc, or the URL that takes uploads.",
    ),
    click.option(
        "--simple-url",
        metavar="URL",
        help="With --repository: its simple pages, where they do not follow from that address.",
    ),
    click.option("--config-file", metavar="FILE", help="With --repository: the .pypirc.  [default: ~/.pypirc]"),
    click.option("--allow-http", is_flag=True, help="With --repository: allow http to another machine."),
    click.option(
        "--evidence-dir",
        metavar="FOLDER",
        help="With --repository: what a server does not take (provenance, evidence, SBOM) is written into this folder.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOptions:
    """What was given of the options above."""

    index: str | None
    expect_head: str | None
    who: str | None
    repository: str | None
    simple_url: str | None
    config_file: str | None
    allow_http: bool
    evidence_dir: str | None

    def folder_index(self) -> FolderIndex | None:
        """The index that was named."""
        from ..publish.index import FolderIndex

        return None if self.index is None else FolderIndex(self.index)

    def make(self) -> list[Target]:
        """The targets, after every one of them was found. Raises what finding them raises."""
        from ..publish.repository import find_repository
        from ..publish.targets import FolderTarget, ServerTarget, current_user

        self._check()
        made: list[Target] = []
        index = self.folder_index()
        if index is not None:
            made.append(FolderTarget(index=index, who=self.who or current_user(), expect_head=self.expect_head))
        if self.repository is not None:
            repository = find_repository(
                self.repository,
                config_file=self.config_file,
                simple_url=self.simple_url,
                allow_http=self.allow_http,
            )
            made.append(ServerTarget(repository=repository, evidence_dir=self.evidence_dir))
        return made

    def _check(self) -> None:
        for owner, names in (
            ("index", ("expect_head", "who")),
            ("repository", ("simple_url", "config_file", "allow_http", "evidence_dir")),
        ):
            given = [name for name in names if getattr(self, name)]
            if given and getattr(self, owner) is None:
                raise click.UsageError(f"--{given[0].replace('_', '-')} goes with --{owner}")


def target_options(function: _Function) -> _Function:
    """The options, of which `TargetOptions` makes one value."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def publish_to(options: GlobalOptions, release: Release, targets: Sequence[Target]) -> list[Published]:
    """Publish to each target, whatever becomes of the others; what became of each is told before errors are raised."""
    from ..errors import BundlerError
    from ..publish.targets import publish_all

    done, failed = publish_all(release, targets, file_progress(options))
    for each in done:
        warn(options, each.warnings)
    if failed:
        if not options.json:
            show_published(done)
        raise BundlerError.of(failed)
    return done


def show_published(published: Sequence[Published]) -> None:
    """For people."""
    for each in published:
        parts = [f"{len(each.added)} added, {len(each.passed)} there already"]
        parts += [f"{len(each.unconfirmed)} taken and not shown yet"] if each.unconfirmed else []
        parts += [f"its head is {each.head}"] if each.head else []
        echo(visible(f"published to {each.place}: {', '.join(parts)}"))
        if each.kept:
            echo(visible(f"  what it does not take is in {each.kept}"))


def published_json(published: Sequence[Published]) -> list[dict[str, Any]]:
    """For JSON."""
    return [{key: value for key, value in asdict(each).items() if key != "warnings"} for each in published]


def file_progress(options: GlobalOptions) -> Callable[[str, int, int, str], None]:
    """Tells what happens to each file, on a terminal."""
    shown = _is_shown(options)

    def tell(name: str, number: int, count: int, step: str) -> None:
        if shown:
            echo(visible(f"[{number}/{count}] {name}: {step}"), err=True)

    return tell


def check_progress(options: GlobalOptions) -> Callable[[str, str], None]:
    """Tells how each check ends, on a terminal."""
    shown = _is_shown(options)

    def tell(check: str, state: str) -> None:
        if shown and state != "running":
            echo(visible(f"{check}: {state}"), err=True)

    return tell


def _is_shown(options: GlobalOptions) -> bool:
    return sys.stderr.isatty() and not options.quiet and not options.json
