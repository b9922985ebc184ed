"""What failed when a release was last tried: kept in its work folder, to be shown first at the next try."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass

from ..errors import BundlerError
from ..protocol.documents import parse_json
from ..tree import DirectoryTree

SCHEMA = "agent-bundler.pitfalls.v1"
#: The name of the file in a work folder.
NAME = "pitfalls.json"
_MAX_BYTES = 1 << 20
# Of what was found, in characters: it stands in the evidence whole.
_TOLD = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pitfall:
    """A check that failed: what was expected, what was found, and the likely cause or what helps."""

    check: str
    expected: str
    found: str
    cause: str


def read_pitfalls(work: str | os.PathLike[str]) -> tuple[Pitfall, ...]:
    """What failed at the last try, in the order of the checks; nothing where nothing did.

    A file that is not ours counts as none: it is there to be shown, and nothing depends on it.
    """
    try:
        with DirectoryTree(os.path.abspath(os.fspath(work))) as tree:
            value = parse_json(tree.read(NAME, _MAX_BYTES), NAME).value
        entries = value["pitfalls"] if value["schema"] == SCHEMA else []
        found = tuple(Pitfall(**entry) for entry in entries)
    except (BundlerError, TypeError, KeyError, OSError):
        return ()
    return found if all(isinstance(text, str) for each in found for text in asdict(each).values()) else ()


def updated(before: Iterable[Pitfall], reached: Collection[str], failed: Pitfall | None) -> tuple[Pitfall, ...]:
    """What is known after a run that came as far as these checks: what passed is forgotten, what failed is new."""
    if failed is None:
        return ()
    kept = (pitfall for pitfall in before if pitfall.check not in reached)
    return (Pitfall(**{**asdict(failed), "found": failed.found[:_TOLD]}), *kept)


def to_bytes(pitfalls: Iterable[Pitfall]) -> bytes:
    """The file."""
    value = {"schema": SCHEMA, "pitfalls": [asdict(pitfall) for pitfall in pitfalls]}
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()
