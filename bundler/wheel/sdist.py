"""Provider source → sdist: what the wheel is built from, with the graph tests, so that both can be reviewed and rebuilt.

It holds the files that the closure needs as their author wrote them, the manifest under its name, `tests/`, pyproject.toml
and what that names. Built from it, the wheel is the same, byte by byte.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

from ..bundle.open import Opened
from ..bundle.swap import write_failed
from ..errors import BundlerError
from ..paths import code_unit_key, junk
from ..tree import CHUNK, Reader
from .build import Content, epoch, metadata_folder, working_folder
from .settings import BACKEND, FILE

TESTS = "tests"


def make_sdist(content: Content, output: str | os.PathLike[str]) -> str:
    """Write the sdist of a surveyed source into the folder `output`; its path.

    Raises `wheel-settings-invalid` where the pyproject.toml names another backend or manifest than the wheel was made
    with, `output-write-failed`, and what reading raises. After an error nothing was added.
    """
    folder = os.path.abspath(os.fspath(output))
    path = os.path.join(folder, content.identity.sdist_name)
    with working_folder(folder) as work:
        info = Path(metadata_folder(content, str(work)))
        staged = work / "sdist"
        with staged.open("wb") as file:
            _write(file, content, (info / "METADATA").read_bytes())
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
        try:
            os.replace(staged, path)
        except OSError as error:
            raise write_failed(path, error) from None
    return path


def sdist_files(content: Content) -> list[str]:
    """The paths of the source that are in it, sorted."""
    opened = content.opened
    files = {*opened.closure.paths, *content.settings.files, *_tests(opened)}
    return sorted(files, key=code_unit_key)


def _tests(opened: Opened) -> Iterator[str]:
    """The graph tests: everything in `tests/` that is no junk."""
    if TESTS not in opened.tree.names(""):
        return
    faults = []
    for path in opened.tree.files(TESTS, lambda path: junk(path.rpartition("/")[2]) is not None):
        if isinstance(path, BundlerError):
            faults.append(path)
        else:
            yield path
    if faults:
        raise BundlerError.of(faults)


def _write(file: io.BufferedWriter, content: Content, metadata: bytes) -> None:
    """A tar archive of one format and one owner, times of one moment, compressed without a name or a time."""
    root = content.identity.stem
    generated = {"PKG-INFO": metadata}
    if FILE not in content.settings.files:
        generated[FILE] = _pyproject(content).encode()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=epoch(), compresslevel=9) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in sorted({*sdist_files(content), *generated}, key=code_unit_key):
            if path in generated:
                archive.addfile(_entry(f"{root}/{path}", len(generated[path]), False), io.BytesIO(generated[path]))
                continue
            with content.opened.tree.open(path) as reader:
                archive.addfile(_entry(f"{root}/{path}", reader.size, reader.executable), _Stream(reader))


def _entry(name: str, size: int, executable: bool) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = size, epoch(), 0o755 if executable else 0o644
    return entry


class _Stream(io.RawIOBase):
    """A file of a tree as tarfile reads one. Raises OSError where it ends before its size."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def read(self, size: int = -1) -> bytes:
        parts: list[bytes] = []
        wanted = size if size >= 0 else self._reader.size
        while wanted > 0 and (chunk := self._reader.read(min(wanted, CHUNK))):
            parts.append(chunk)
            wanted -= len(chunk)
        return b"".join(parts)


def _pyproject(content: Content) -> str:
    """For a source without one: the backend, and the manifest where it has another name."""
    manifest = content.opened.provider.manifest_path
    named = f'\n[tool.agent-bundler]\nmanifest = "{manifest}"\n' if manifest != "provider.yaml" else ""
    return f'[build-system]\nrequires = ["agent-graph-bundler"]\nbuild-backend = "{BACKEND}"\n{named}'
