"""`agent-bundler unyank`."""

from __future__ import annotations

from .options import GlobalOptions
from .options import command as make_command
from .yank import show_changed, yank_options


@make_command("unyank", epilog="Example: agent-bundler unyank acme/release@1.0.0 --index /srv/index")
@yank_options
def command(
    options: GlobalOptions,
    release: str,
    *,
    index: str,
    distribution: str | None,
    expect_head: str | None,
    who: str | None,
) -> None:
    """Take the advice against a release back."""
    from ..publish.index import FolderIndex
    from ..publish.targets import current_user
    from ..publish.withdraw import unyank

    changed = unyank(
        FolderIndex(index), release, who=who or current_user(), distribution=distribution, expect_head=expect_head
    )
    show_changed(options, release, "unyanked", changed)
