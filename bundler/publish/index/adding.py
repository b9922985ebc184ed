"""Files → what an index would say of them, and what of it is new."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256

from ...errors import BundlerError
from .change import Moves, Writer
from .layout import FILES
from .records import METADATA, IndexFile, identify, read_name, refused
from .storage import Stored, copy, write
from .wheels import read_wheel


class Addition:
    """Files that are added; each is read once, and what was hashed is what is staged.

    `changed` are the records that are new or another, by place; `moves` what is staged for them, and where it belongs;
    `passed` the names of files that were there already.
    """

    def __init__(self, writer: Writer, digests: Mapping[str, str]) -> None:
        self._writer, self._digests = writer, digests
        self._projects: dict[str, dict[str, IndexFile]] = {}
        self.changed: dict[str, IndexFile] = {}
        self.moves: Moves = []
        self.passed: list[str] = []

    def add(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        """Wheels and sdists, then what accompanies them.

        Raises `release-conflict` for a name that is there with other content, `index-file-refused`, what reading a
        wheel raises, `file-missing` and `file-read-failed`, and OSError of the index.
        """
        named = [(read_name(os.path.basename(os.fspath(path))), os.fspath(path)) for path in paths]
        for (name, suffix), path in sorted(named, key=lambda each: each[0].suffix is not None):
            project = identify(name)[0]
            if project not in self._projects:
                self._projects[project] = dict(self._writer.files(project) or {})
            files = self._projects[project]
            staged = self._stage(path, files, f"{FILES}/{project}/{os.path.basename(path)}")
            if staged is None:
                continue
            if suffix is None:
                file = self._distribution(*staged, name, files.values())
            elif name in files:
                accompanying = sorted({**dict(files[name].accompanying), suffix: staged[1]}.items())
                file = replace(files[name], accompanying=tuple(accompanying))
            else:
                raise refused(f"{name}.{suffix}", f"belongs to {name}, which is neither added nor in the index")
            files[name] = self.changed[file.path] = file

    def _stage(self, path: str, files: Mapping[str, IndexFile], place: str) -> tuple[str, Stored] | None:
        """Where the file is staged, and its content; None for one that is there already."""
        name = os.path.basename(path)
        staged = self._writer.place()
        content = copy(path, staged, self._writer.held.renew)
        expected = self._digests.get(name, content.sha256)
        if content.sha256 != expected:
            raise refused(name, f"has changed: its SHA-256 is {content.sha256}; {expected} is expected")
        there = {known: stored for file in files.values() for known, stored in file.stored()}.get(place)
        if there is None:
            self.moves.append((staged, place))
            return staged, content
        if there != content:
            raise BundlerError(
                "release-conflict",
                f"{name} is in the index with other content: {there.size:,} bytes, sha256:{there.sha256}; "
                f"{path} has {content.size:,} bytes, sha256:{content.sha256}",
                path=path,
            )
        self.passed.append(name)
        os.unlink(staged)
        return None

    def _distribution(self, staged: str, content: Stored, name: str, beside: Iterable[IndexFile]) -> IndexFile:
        project, version = identify(name)
        file = IndexFile(
            project=project,
            version=version,
            name=name,
            content=content,
            # A version is yanked as a whole: a file that comes later is no way around that.
            yanked=next((each.yanked for each in beside if each.version == version and each.yanked), None),
        )
        if not name.endswith(".whl"):
            return file
        metadata, requires_python = read_wheel(staged, name)
        self.moves.append((write(self._writer.place(), metadata), f"{file.path}.{METADATA}"))
        stored = Stored(sha256(metadata).hexdigest(), len(metadata))
        return replace(file, requires_python=requires_python, metadata=stored)
