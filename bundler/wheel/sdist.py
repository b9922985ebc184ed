"""Provider source → sdist: what the wheel is built from, with the graph tests, so that both can be reviewed and rebuilt.

It holds the files that the closure needs as their author wrote them, the manifest under its name, `tests/`, pyproject.toml
and what that names. Built from it, the wheel is the same, byte by byte.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from ..bundle.layout import PROVIDER_NAME
from ..bundle.names import portability_faults
from ..bundle.open import Opened
from ..bundle.swap import write_failed
from ..errors import BundlerError
from ..paths import code_unit_key, junk
from ..tree import CHUNK, Reader
from .build import Content, check_place, epoch, metadata_folder, source_changed
from .settings import BACKEND, FILE, TABLE, Settings, check_backend, read_document, read_settings
from .working import working_folder

TESTS = "tests"
METADATA = "PKG-INFO"
#: The latest time that gzip can hold, in seconds since 1970.
MAX_GZIP_EPOCH = 2**32 - 1


def make_sdist(content: Content, output: str | os.PathLike[str]) -> str:
    """Write the sdist of a surveyed source into the folder `output`; its path.

    Raises `wheel-settings-invalid` where the pyproject.toml names another backend, or says otherwise than what the
    wheel is made with, `build-generated-name-clash`, `path-not-portable` and `path-collision` for names that it can't
    hold, `wheel-source-changed`, `build-output-overlaps-source`, `output-write-failed`, and what reading raises.
    After an error nothing was added.
    """
    folder = os.path.abspath(os.fspath(output))
    path = os.path.join(folder, content.identity.sdist_name)
    check_place(content, path)
    _check_settings(content)
    files = sdist_files(content)
    _check_names(files)
    with working_folder(folder) as work:
        info = Path(metadata_folder(content, str(work)))
        staged = work / "sdist"
        with staged.open("wb") as file:
            _write(file, content, files, (info / "METADATA").read_bytes())
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
    return source_files(content.opened, content.settings)


def source_files(opened: Opened, settings: Settings) -> list[str]:
    """The same of a source that was opened: everything that a wheel and an sdist are made from."""
    files = {*opened.closure.paths, *settings.files, *_tests(opened)}
    return sorted(files, key=code_unit_key)


def _tests(opened: Opened) -> Iterator[str]:
    """The graph tests: everything in `tests/` that is no junk."""
    kinds = {entry.path: entry.kind for entry in opened.tree.entries(lambda folder: False)}
    if kinds.get(TESTS, "file") == "file":
        return
    faults = []
    for path in opened.tree.files(TESTS, lambda path: junk(path.rpartition("/")[2]) is not None):
        if isinstance(path, BundlerError):
            faults.append(path)
        else:
            yield path
    if faults:
        raise BundlerError.of(faults)


def _check_settings(content: Content) -> None:
    """Whether a build of the sdist would read the settings that this one was given, and with our backend."""
    tree, provider = content.opened.tree, content.opened.provider
    if read_settings(tree) != content.settings:
        raise _otherwise("what it says, or a file that it names, is not what the wheel is made with")
    if FILE not in content.settings.files:
        return  # we write one
    check_backend(tree)
    system = read_document(tree).get("build-system")
    backend = system.get("build-backend") if isinstance(system, dict) else None
    if backend != BACKEND:
        raise _otherwise(f'[build-system] build-backend is {backend!r}; "{BACKEND}" is expected')
    if (content.settings.manifest or PROVIDER_NAME) != provider.manifest_path:
        named = content.settings.manifest or f"not set, which means {PROVIDER_NAME}"
        raise _otherwise(f"[{TABLE}] manifest is {named}; the wheel is made from {provider.manifest_path}")


def _otherwise(what: str) -> BundlerError:
    return BundlerError(
        "wheel-settings-invalid",
        f"{FILE}: {what}",
        path=FILE,
        hint=f"correct the {FILE} beside the Provider: what is built from the sdist reads it",
    )


def _check_names(files: list[str]) -> None:
    faults = [
        BundlerError(
            "build-generated-name-clash",
            f"`{path}` belongs into the sdist, in which {METADATA} is the file that holds its metadata",
            path=path,
        )
        for path in files
        if path.partition("/")[0] == METADATA
    ]
    faults.extend(portability_faults([*(path for path in files if path != METADATA), METADATA]))
    if faults:
        raise BundlerError.of(faults)


def _write(file: io.BufferedWriter, content: Content, files: list[str], metadata: bytes) -> None:
    """A tar archive of one format and one owner, times of one moment, compressed without a name or a time."""
    root = content.identity.stem
    generated = {METADATA: metadata}
    if FILE not in content.settings.files:
        generated[FILE] = _pyproject(content).encode()
    known = _known(content)
    moment = min(epoch(), MAX_GZIP_EPOCH)
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=moment, compresslevel=9) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in sorted({*files, *generated}, key=code_unit_key):
            if path in generated:
                archive.addfile(_entry(f"{root}/{path}", len(generated[path]), False), io.BytesIO(generated[path]))
                continue
            with content.opened.tree.open(path) as reader:
                stream = _Stream(reader)
                archive.addfile(_entry(f"{root}/{path}", reader.size, reader.executable), stream)
            if known.get(path, stream.digest) != stream.digest:
                raise source_changed(f"`{path}` has changed since it was read")


def _known(content: Content) -> Mapping[str, str]:
    """The digests of what was read before, by path."""
    provider = content.opened.provider
    return {
        **content.manifest.files,
        provider.manifest_path: _digest(provider.documents[provider.manifest_path]),
        **{path: _digest(data) for path, data in content.settings.licenses.items()},
    }


def _digest(data: bytes) -> str:
    return f"sha256:{sha256(data).hexdigest()}"


def _entry(name: str, size: int, executable: bool) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = size, epoch(), 0o755 if executable else 0o644
    return entry


class _Stream(io.RawIOBase):
    """A file of a tree as tarfile reads one, hashed on the way. Raises `wheel-source-changed` if it ends too early."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._hasher = sha256()

    @property
    def digest(self) -> str:
        return f"sha256:{self._hasher.hexdigest()}"

    def read(self, size: int = -1) -> bytes:
        parts: list[bytes] = []
        wanted = size if size >= 0 else self._reader.size
        while wanted > 0:
            chunk = self._reader.read(min(wanted, CHUNK))
            if not chunk:
                raise source_changed(f"`{self._reader.path}` became shorter while it was read")
            self._hasher.update(chunk)
            parts.append(chunk)
            wanted -= len(chunk)
        return b"".join(parts)


def _pyproject(content: Content) -> str:
    """For a source without one: the backend, and the manifest where it has another name."""
    import tomli_w

    manifest = content.opened.provider.manifest_path
    document: dict[str, object] = {"build-system": {"requires": ["agent-graph-bundler"], "build-backend": BACKEND}}
    if manifest != PROVIDER_NAME:
        document["tool"] = {"agent-bundler": {"manifest": manifest}}
    return tomli_w.dumps(document)
