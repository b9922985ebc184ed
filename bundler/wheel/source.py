"""What a wheel was built from, as one digest, and what git says of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from ..bundle.fingerprint import fingerprint_tree
from ..bundle.open import Opened
from ..tree import Entry
from .build import source_changed
from .sdist import source_files
from .settings import Settings

_GIT_TIMEOUT = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """`fingerprint` is one digest of all that wheel and sdist are made from; `commit` is None outside of git.

    `dirty` tells whether anything in the source's folder is not as that commit has it.
    """

    fingerprint: str
    commit: str | None = None
    dirty: bool = False


def source_state(opened: Opened, settings: Settings) -> SourceState:
    """The state of an opened source. Raises `wheel-source-changed`, and what reading it raises."""
    digest = fingerprint_of(opened, settings)
    if digest is None:
        raise source_changed("a file of the source changed while it was read")
    return state_of(opened.root, digest)


def state_of(root: str, fingerprint: str, output: str | None = None) -> SourceState:
    """The same for a source in the folder `root` that had this fingerprint; what is built into `output` makes nothing dirty."""
    commit = _git(root, "rev-parse", "--verify", "HEAD")
    if commit is None:
        return SourceState(fingerprint=fingerprint)
    places = ["."]
    if output is not None and not (inside := os.path.relpath(output, root)).startswith(os.pardir):
        places.append(f":(exclude,literal){inside}")
    return SourceState(fingerprint=fingerprint, commit=commit.strip(), dirty=_is_dirty(root, places))


def fingerprint_of(opened: Opened, settings: Settings) -> str | None:
    """Paths, content and executable bits of all that wheel and sdist are made from, as one digest (`blake3:…`).

    None where a file changes while it is read. Raises what reading raises.
    """
    entries = [Entry(path, "file") for path in source_files(opened, settings)]
    return fingerprint_tree(opened.tree, entries, {}, set(), room=0)


def _is_dirty(folder: str, places: Sequence[str]) -> bool:
    """Whether anything in these places of the folder is not as HEAD has it; so, too, where only commands of the repository could tell."""
    # Filters of its own settings, and submodules with settings of their own, are commands that git would run.
    settings = _git(folder, "config", "--list", "--null", "--show-scope", "--name-only")
    entries = _git(folder, "ls-files", "--stage", "-z", "--", ".")
    if settings is None or entries is None:
        return True
    fields = settings.split("\0")
    for scope, name in zip(fields[::2], fields[1::2], strict=False):
        if scope not in ("system", "global", "command") and name.startswith("filter."):
            return True
    if any(entry.startswith("160000 ") for entry in entries.split("\0")):
        return True
    changes = _git(folder, "status", "--porcelain", "--untracked-files=normal", "--", *places)
    return changes is None or bool(changes.strip())


def _git(folder: str, *arguments: str) -> str | None:
    """What git answers; None where there is no git, or no repository that it trusts."""
    # Of a repository's own settings these would run commands.
    harmless = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    # What a partial clone lacks is not fetched, which takes the network, and commands that it names.
    environment |= {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
    try:
        done = subprocess.run(  # noqa: S603 - the git of the path, with no argument of the source's
            ["git", "--no-optional-locks", *harmless, *arguments],  # noqa: S607
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None
