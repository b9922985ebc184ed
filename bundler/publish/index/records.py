"""What an index says of a file: names of files, and their members in a project's JSON page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

from ...errors import BundlerError
from .layout import FILES
from .storage import Stored

#: The longest name of a file, accompanying ones included, in characters, all of which are ASCII.
MAX_NAME = 240
METADATA = "metadata"

_DISTRIBUTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*\.(?:whl|tar\.gz)\Z")
_ACCOMPANYING = re.compile(r"([A-Za-z0-9][A-Za-z0-9._+!-]*?\.(?:whl|tar\.gz))\.([a-z0-9][a-z0-9._-]*)\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


class FileName(NamedTuple):
    """What a file's name says: the file that it is or belongs to, and for one that accompanies it its suffix."""

    distribution: str
    suffix: str | None


def read_name(name: str) -> FileName:
    """Raises `index-file-refused` for a name that no wheel, no sdist and nothing that accompanies one has."""
    found = _ACCOMPANYING.match(name)
    if len(name) <= MAX_NAME:
        if _DISTRIBUTION.match(name):
            return FileName(name, None)
        if found and found.group(2) != METADATA:
            return FileName(found.group(1), found.group(2))
    what = "a wheel's, an sdist's, or one of these with a suffix for what accompanies it, is expected"
    raise refused(name, f"has a name that no index can list; {what}")


def identify(name: str) -> tuple[str, str]:
    """Project and version, in normal form, of a wheel's or sdist's name. Raises `index-file-refused`."""
    from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename

    try:
        project, version = parse_wheel_filename(name)[:2] if name.endswith(".whl") else parse_sdist_filename(name)
    except (InvalidWheelFilename, InvalidSdistFilename) as error:
        raise refused(name, f"has no proper name: {error}") from None
    return project, str(version)


def refused(name: str, what: str) -> BundlerError:
    """`index-file-refused`."""
    return BundlerError("index-file-refused", f"`{name}` {what}", path=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """A wheel or sdist of an index.

    `metadata` is the content of its METADATA, `yanked` the reason (PEP 592); `accompanying` are files beside it, by
    the suffix of their names.
    """

    project: str
    version: str
    name: str
    content: Stored
    requires_python: str | None = None
    metadata: Stored | None = None
    yanked: str | None = None
    accompanying: tuple[tuple[str, Stored], ...] = ()

    @property
    def path(self) -> str:
        """Its place in the index."""
        return f"{FILES}/{self.project}/{self.name}"

    def stored(self) -> Iterator[tuple[str, Stored]]:
        """Place and content of everything that belongs to it, in the order in which it is put in place."""
        yield self.path, self.content
        if self.metadata is not None:
            yield f"{self.path}.{METADATA}", self.metadata
        for suffix, content in self.accompanying:
            yield f"{self.path}.{suffix}", content

    def to_json(self) -> dict[str, Any]:
        """Its member of `files` in the project's page; what PEP 691 does not know begins with `_`, as PEP 700 has it."""
        optional = {
            "requires-python": self.requires_python,
            "core-metadata": None if self.metadata is None else {"sha256": self.metadata.sha256},
            "_metadata-size": None if self.metadata is None else self.metadata.size,
            "yanked": self.yanked,
            "_accompanying": [
                {"suffix": suffix, "hashes": {"sha256": content.sha256}, "size": content.size}
                for suffix, content in self.accompanying
            ]
            or None,
        }
        return {
            "filename": self.name,
            "url": self.url,
            "hashes": {"sha256": self.content.sha256},
            "size": self.content.size,
            **{key: value for key, value in optional.items() if value is not None},
        }

    @property
    def url(self) -> str:
        """Relative to the project's page."""
        return f"../../{FILES}/{self.project}/{quote(self.name)}"

    @classmethod
    def of_json(cls, value: dict[str, Any]) -> IndexFile:
        """The file that a member describes; `to_json` of it is that member, or the member is not ours.

        Raises KeyError, TypeError, ValueError and `index-file-refused` for what none of ours can be.
        """
        name = value["filename"]
        if read_name(name).suffix is not None:
            raise ValueError(name)
        project, version = identify(name)
        metadata = value.get("core-metadata")
        return cls(
            project=project,
            version=version,
            name=name,
            content=_stored(value["hashes"], value["size"]),
            requires_python=_text(value.get("requires-python")),
            metadata=None if metadata is None else _stored(metadata, value["_metadata-size"]),
            yanked=_text(value.get("yanked")),
            accompanying=tuple(_accompanying(name, each) for each in value.get("_accompanying", ())),
        )


def _accompanying(name: str, value: dict[str, Any]) -> tuple[str, Stored]:
    suffix = value["suffix"]
    if read_name(f"{name}.{suffix}") != (name, suffix):
        raise ValueError(suffix)
    return suffix, _stored(value["hashes"], value["size"])


def _stored(hashes: dict[str, str], size: int) -> Stored:
    if not _SHA256.match(hashes["sha256"]) or type(size) is not int or size < 0:
        raise ValueError(hashes)
    return Stored(hashes["sha256"], size)


def _text(value: object) -> str | None:
    if value is None or (isinstance(value, str) and value):
        return value
    raise TypeError(value)
