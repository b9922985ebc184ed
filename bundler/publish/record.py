"""A finished release: a folder, release.json, which never changes, and beside it how far each target is.

release.json is read in the very form in which it is written. What it says of the folder's files is compared with them
before anything is published.
"""

from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, get_args

from ..bundle.digests import digest_file
from ..bundle.disk import alone, sync
from ..bundle.swap import flush, write_failed
from ..errors import BundlerError, Diagnostic
from ..paths import printable
from ..protocol.canonical import Json, canonical
from ..protocol.documents import parse_json
from ..tree import DirectoryTree
from ..trust.provenance import SUFFIX
from .evidence import BuiltFile

SCHEMA = "agent-bundler.release.v1"
NAME = "release.json"
TARGETS_SCHEMA = "agent-bundler.release-targets.v1"
TARGETS = "targets.json"
_MAX_BYTES = 1024 * 1024

#: How far the publishing to a target is; `publishing` too where it was ended in the middle, or is not confirmed.
State = Literal["prepared", "publishing", "succeeded", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release in `folder`.

    `bundle` is the bundle's digest, `signer` the id of the key that signed it (None for an unsigned one), `wheel` the
    name of the wheel; `files` are all of it but the two records. `is_new` tells whether it was made now, `warnings` what
    was met on the way: neither is part of it.
    """

    folder: str = field(compare=False)
    provider_id: str
    provider_version: str
    distribution: str
    version: str
    bundle: str
    signer: str | None
    wheel: str
    files: tuple[BuiltFile, ...]
    is_new: bool = field(default=False, compare=False)
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False)

    @property
    def id(self) -> str:
        """The digest of Provider, version, wheel, bundle and signer."""
        content = {
            "provider": {"id": self.provider_id, "version": self.provider_version},
            "wheel": self.digests[self.wheel],
            "bundle": self.bundle,
            "signer": self.signer,
        }
        return f"sha256:{sha256(canonical(content).encode()).hexdigest()}"

    @property
    def digests(self) -> dict[str, str]:
        """The SHA-256 of each file, in hexadecimal, by its name."""
        return {file.name: file.sha256 for file in self.files}

    @property
    def distributions(self) -> tuple[str, ...]:
        """Names of wheel and sdist: what every index takes."""
        return tuple(file.name for file in self.files if file.name.endswith((".whl", ".tar.gz")))

    @property
    def accompanying(self) -> tuple[str, ...]:
        """Names of what lies beside a wheel in an index that takes it: the provenance."""
        return tuple(file.name for file in self.files if file.name == self.wheel + SUFFIX)

    def path(self, name: str) -> str:
        """The place of a file."""
        return os.path.join(self.folder, name)

    def to_json(self) -> dict[str, Json]:
        """`agent-bundler.release.v1`."""
        return {
            "schema": SCHEMA,
            "id": self.id,
            "provider": {"id": self.provider_id, "version": self.provider_version},
            "distribution": {"name": self.distribution, "version": self.version},
            "bundle": self.bundle,
            "signer": self.signer,
            "wheel": self.wheel,
            "files": [file.to_json() for file in self.files],
        }

    def to_bytes(self) -> bytes:
        """The file: two-space indent, a final newline."""
        return _to_bytes(self.to_json())


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetState:
    """How far a target is: its kind and place, the names of what it is not known to have, and what failed."""

    kind: str
    place: str
    state: State
    missing: tuple[str, ...] = ()
    error: str | None = None

    def to_json(self) -> dict[str, Json]:
        return {
            "kind": self.kind,
            "place": self.place,
            "state": self.state,
            "missing": list(self.missing),
            "error": self.error,
        }


def describe_file(folder: str, name: str) -> BuiltFile:
    """Digest and size of a regular file in a folder. Raises what reading raises."""
    with DirectoryTree(folder) as tree:
        found = digest_file(tree, name, "sha256")
    return BuiltFile(name=name, sha256=found.hex, size=found.size)


def read_release(folder: str | os.PathLike[str]) -> Release:
    """The release in a folder. Raises `release-invalid`, and `file-missing` where there is no such folder."""
    place = os.path.abspath(os.fspath(folder))
    path = os.path.join(place, NAME)
    try:
        with DirectoryTree(place) as tree:
            data = tree.read(NAME, _MAX_BYTES)
        value = parse_json(data, path).value
    except BundlerError as error:
        if not os.path.isdir(place):
            raise
        raise _invalid(path, f"can't be used: {error.message}") from None
    try:
        release = _read(place, value)
        is_ours = release.to_bytes() == data
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _invalid(path, f"is no {SCHEMA}: {printable(str(error))}") from None
    if not is_ours:
        raise _invalid(path, "has another id, or another form, than its content gives")
    return release


def check_files(release: Release) -> None:
    """Raises `release-invalid` where a file is not the one that the release says, and what reading raises."""
    for file in release.files:
        try:
            found = describe_file(release.folder, file.name)
        except BundlerError as error:
            raise _invalid(release.path(file.name), f"can't be used: {error.message}") from None
        if found != file:
            what = f"has {found.size:,} bytes, sha256:{found.sha256}"
            raise _invalid(release.path(file.name), f"{what}; {file.size:,} bytes, sha256:{file.sha256} were released")


def put_folder(staged: Path, place: str) -> bool:
    """Put the finished folder in its place; False where something is there by now."""
    try:
        staged.chmod(0o755)
        flush(str(staged))
        os.rename(staged, place)
        sync(os.path.dirname(place))
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return False
        raise write_failed(place, error) from None
    return True


def read_states(folder: str) -> tuple[TargetState, ...]:
    """How far each target is, by the order in which they were first named; a file that is not ours says nothing."""
    try:
        with DirectoryTree(folder) as tree:
            value = parse_json(tree.read(TARGETS, _MAX_BYTES), TARGETS).value
        if value["schema"] != TARGETS_SCHEMA:
            return ()
        found = tuple(TargetState(**{**each, "missing": tuple(each["missing"])}) for each in value["targets"])
    except (BundlerError, KeyError, TypeError):
        return ()
    return found if all(each.state in get_args(State) for each in found) else ()


def note_state(release: Release, state: TargetState) -> None:
    """Write down how far a target is. Raises `output-write-failed`."""
    try:
        with alone(release.folder):
            before = {(each.kind, each.place): each for each in read_states(release.folder)}
            after = {**before, (state.kind, state.place): state}
            staged = release.path(f".{TARGETS}.new")
            with open(staged, "wb") as file:
                file.write(
                    _to_bytes({"schema": TARGETS_SCHEMA, "targets": [each.to_json() for each in after.values()]})
                )
                file.flush()
                os.fsync(file.fileno())
            os.replace(staged, release.path(TARGETS))
    except OSError as error:
        raise write_failed(release.path(TARGETS), error) from None


def _read(folder: str, value: Any) -> Release:
    files = tuple(BuiltFile(**each) for each in value["files"])
    names = [file.name for file in files]
    if len(set(names)) != len(names) or any(os.path.basename(name) != name or not name.strip(".") for name in names):
        raise ValueError("the names of its files")
    release = Release(
        folder=folder,
        provider_id=value["provider"]["id"],
        provider_version=value["provider"]["version"],
        distribution=value["distribution"]["name"],
        version=value["distribution"]["version"],
        bundle=value["bundle"],
        signer=value["signer"],
        wheel=value["wheel"],
        files=files,
    )
    texts = (release.provider_id, release.provider_version, release.distribution, release.version, release.bundle)
    if not all(isinstance(each, str) for each in texts) or not isinstance(release.signer, str | None):
        raise ValueError("a value is no text")
    return release


def _to_bytes(value: Json) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()


def _invalid(path: str, what: str) -> BundlerError:
    return BundlerError("release-invalid", f"{path} {what}", path=path)
