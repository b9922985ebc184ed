"""Plan → bundle: copy, digest and leak scan in one pass over each file, in one short function.

`write_bundle` knows nothing of disks: a `Destination` takes what it writes. `build` puts both together.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from hashlib import sha256

from ..errors import BundlerError
from ..paths import from_system
from .layout import MANIFEST_NAME, PROVIDER_NAME
from .leaks import FileScan, LeakScanner
from .manifest import BundleManifest, describe
from .plan import Plan, check_output
from .swap import check_replaceable, replacing, write_failed

#: Called after each file with the files and bytes written so far, and the number of files.
Progress = Callable[[int, int, int], object]


class Destination(ABC):
    """Takes the files of a bundle."""

    @abstractmethod
    def write(self, path: str, chunks: Iterable[bytes], executable: bool) -> None:
        """One file, its bytes as they come. Called once a path, in the order of the manifest."""


class Nowhere(Destination):
    """Keeps no content: what a build would refuse is refused, and the manifest is the one it would write.

    `sizes` in bytes by path, `executable` the paths with an executable bit.
    """

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.executable: set[str] = set()

    def write(self, path: str, chunks: Iterable[bytes], executable: bool) -> None:
        self.sizes[path] = sum(map(len, chunks))
        if executable:
            self.executable.add(path)


class Folder(Destination):
    """A new folder on disk; modes are 0644 and 0755 whatever the umask. Raises `output-write-failed`."""

    def __init__(self, root: str) -> None:
        self._root = os.fsencode(root)
        self._folders = {""}

    def write(self, path: str, chunks: Iterable[bytes], executable: bool) -> None:
        self._make_folder(path.rpartition("/")[0])
        mode = 0o755 if executable else 0o644
        try:
            descriptor = os.open(self._full(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        except OSError as error:
            raise write_failed(path, error) from None
        try:
            for chunk in chunks:
                view = memoryview(chunk)
                try:
                    while view:
                        view = view[os.write(descriptor, view) :]
                except OSError as error:
                    raise write_failed(path, error) from None
            os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)

    def _full(self, path: str) -> bytes:
        # Names are UTF-8 whatever the locale; the root is as the system gave it.
        return self._root + b"/" + path.encode("utf-8", "surrogateescape")

    def _make_folder(self, folder: str) -> None:
        if folder in self._folders:
            return
        self._make_folder(folder.rpartition("/")[0])
        full = self._full(folder)
        try:
            os.mkdir(full)
            os.chmod(full, 0o755)  # noqa: S103 - a bundle is for all to read
        except OSError as error:
            raise write_failed(folder, error) from None
        self._folders.add(folder)


def write_bundle(
    plan: Plan, destination: Destination, progress: Progress = lambda files, size, total: None
) -> BundleManifest:
    """Write the files of the plan, then its manifest; the manifest.

    Raises `build-absolute-path-leak` with every file that holds the root's path, and what reading raises.
    """
    scanner = LeakScanner(map(from_system, plan.tree.roots))
    digests: dict[str, str] = {}
    leaks: list[BundlerError] = []
    size = 0
    for done, path in enumerate(plan.files, 1):
        passed = _Pass(scanner)
        whole = _in_memory(plan, path)
        if whole is not None:
            data, executable = whole
            destination.write(path, passed.whole(data), executable)
        else:
            with plan.tree.open(path) as reader:
                destination.write(path, passed.through(reader.chunks()), reader.executable)
        digests[path] = "sha256:" + passed.digest
        size += passed.size
        if passed.leak is not None:
            leaks.append(_leak(plan, path, passed.leak, whole[0] if whole is not None else None))
        progress(done, size, len(plan.files))
    if leaks:
        raise BundlerError.of(leaks)
    manifest = describe(plan.provider, PROVIDER_NAME, digests)
    destination.write(MANIFEST_NAME, (manifest.to_bytes(),), False)
    return manifest


def build(
    plan: Plan, output: str | os.PathLike[str], progress: Progress = lambda files, size, total: None
) -> BundleManifest:
    """Write the bundle to the folder `output`, whole or not at all; what was there is replaced at the end.

    Raises `build-output-overlaps-source`, `build-output-not-a-bundle`, `build-absolute-path-leak`,
    `output-write-failed`, and what reading the source raises. After an error the old bundle is untouched.
    """
    target = os.path.abspath(os.fspath(output))
    check_target(plan, target)
    with replacing(target) as staged:
        return write_bundle(plan, Folder(staged), progress)


def check_target(plan: Plan, target: str) -> None:
    """Everything that makes `build` refuse an output before it writes."""
    check_output(plan, target)
    check_replaceable(target)


def _in_memory(plan: Plan, path: str) -> tuple[bytes, bool] | None:
    """What is generated, was parsed, or is small, and whether it is executable; None for a large file."""
    generated = plan.generated.get(path)
    if generated is not None:
        return generated, False
    parsed = plan.provider.documents.get(path)
    if parsed is not None:
        return parsed, path in plan.provider.executable
    return plan.tree.small(path)


class _Pass:
    """One file's way through: digest, leak scan and size of the chunks that come by."""

    __slots__ = ("_scanner", "digest", "leak", "size")

    def __init__(self, scanner: LeakScanner) -> None:
        self._scanner = scanner
        self.digest = ""
        self.leak: int | None = None
        self.size = 0

    def whole(self, data: bytes) -> tuple[bytes, ...]:
        """Content that is in memory."""
        self.digest = sha256(data).hexdigest()
        self.leak = self._scanner.find(data)
        self.size = len(data)
        return (data,)

    def through(self, chunks: Iterable[bytes]) -> Iterable[bytes]:
        """Content that is read while it is written."""
        hasher = sha256()
        scan = FileScan(self._scanner)
        for chunk in chunks:
            hasher.update(chunk)
            self.size += len(chunk)
            scan.feed(chunk)
            yield chunk
        scan.feed(b"", final=True)
        self.digest = hasher.hexdigest()
        self.leak = scan.found


def _leak(plan: Plan, path: str, offset: int, data: bytes | None) -> BundlerError:
    roots = " or ".join(dict.fromkeys(plan.tree.roots))
    line = column = None
    place = f"{path} at byte {offset}"
    if data is not None:  # of a large file only the offset is known
        line = data.count(b"\n", 0, offset) + 1
        column = len(data[data.rfind(b"\n", 0, offset) + 1 : offset].decode(errors="replace")) + 1
        place = f"{path}:{line}:{column}"
    message = f"{place} holds the absolute path of the source, {roots}"
    return BundlerError(
        "build-absolute-path-leak", message, path=path, line=line, column=column, detail={"offset": offset}
    )
