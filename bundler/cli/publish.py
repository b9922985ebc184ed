"""`agent-bundler publish`."""

from __future__ import annotations

from typing import Any

import click

from .options import GlobalOptions
from .options import command as make_command
from .output import print_json
from .release import release_json, show_release
from .targets import TargetOptions, publish_to, published_json, show_published, target_options


@make_command("publish", epilog="Example: agent-bundler publish dist/NAME-1.0.0 --index /srv/index")
@click.argument("release", metavar="RELEASE-FOLDER")
@target_options
def command(options: GlobalOptions, release: str, **targets: Any) -> None:
    """Publish a finished release, or go on where publishing was ended.

    Nothing is built or signed: what is published are the files of the folder, if they are what was released. A target is
    given what it does not have yet. How far each one is stands in targets.json.
    """
    from ..publish.record import read_release

    made_targets = TargetOptions(**targets).make()
    if not made_targets:
        raise click.UsageError("name where to publish: --index FOLDER, --repository NAME|URL")
    found = read_release(release)
    published = publish_to(options, found, made_targets)
    if options.json:
        print_json({**release_json(found), "state": "published", "targets": published_json(published)})
    else:
        show_release(found)
        show_published(published)
