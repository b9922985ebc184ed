"""A folder that appears whole or not at all.

A new folder is made beside its target, flushed to disk, and put in the target's place in one step where
the system can exchange two folders (Linux, macOS), elsewhere by two renames. Whoever is killed leaves the
old folder or the new one, and beside it names that the next command for this target clears; after a kill
between two renames the next command puts the old folder back.

A folder beside the target belongs to a living process as long as that holds a lock on it.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256

from ..errors import BundlerError
from ..paths import junk
from ..tree import DirectoryTree, folders_of
from .disk import sync
from .layout import MANIFEST_NAME, MAX_MANIFEST_BYTES
from .manifest import read

_NEW, _OLD = ".new", ".old"
_OURS = re.compile(r"[0-9a-f]{16}\.(?:new|old)")
# How often a change of the target is tried again when others change it at the same time.
_TRIES = 300


@contextmanager
def replacing(target: str) -> Iterator[str]:
    """A new empty folder that takes the target's place when the block ends without an error.

    Raises `build-output-not-a-bundle` if the target is (or has become) something that is not ours to
    replace, `output-write-failed` if the system refuses. After an error nothing has changed.
    """
    if sys.platform == "win32":
        raise BundlerError("output-write-failed", "bundles are not built on Windows", hint="build on Linux or macOS")
    target = os.path.realpath(target)
    made = missing_folders(os.path.dirname(target))
    try:
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            recover(target)
            staged, lock = _stage(target)
        except OSError as error:
            raise write_failed(target, error) from None
        try:
            yield staged
            try:
                os.chmod(staged, 0o755)  # noqa: S103 - a bundle is for all to read
                flush(staged)
                _place(staged, target)
            except OSError as error:
                raise write_failed(target, error) from None
        finally:
            _remove(staged)  # nothing is there any more, unless something failed
            os.close(lock)
    except BaseException:
        for folder in made:
            with suppress(OSError):  # somebody put something there
                os.rmdir(folder)
        raise


def recover(target: str) -> None:
    """Complete or undo what a killed build left beside the target. What a living build works on is left alone."""
    target = os.path.realpath(target)
    parent, key = os.path.dirname(target), _key(target)
    try:
        names = [name for name in os.listdir(parent) if name.startswith(key) and _OURS.fullmatch(name[len(key) :])]
    except OSError:
        return  # no folder, nothing left
    # The old folder first: where the target is missing, a build was killed between its two renames.
    for name in sorted(names, key=lambda name: not name.endswith(_OLD)):
        left = os.path.join(parent, name)
        lock = lock_folder(left)
        if lock is None:
            continue
        try:
            if name.endswith(_OLD) and not os.path.lexists(target):
                os.rename(left, target)
            else:
                _remove(left)
        finally:
            os.close(lock)


def check_replaceable(target: str) -> None:
    """Raises `build-output-not-a-bundle` unless the target is absent, an empty folder, or a bundle and nothing else."""
    reason = _not_replaceable(os.path.realpath(target))
    if reason is not None:
        raise _not_ours(target, reason)


def flush(folder: str) -> None:
    """Put everything in the folder on disk: one call for its file system where there is one, else file by file."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if not _sync_file_system(descriptor):
            for root, _, names in os.walk(folder):
                for name in names:
                    sync(os.path.join(root, name))
                sync(root)
    finally:
        os.close(descriptor)


def _not_replaceable(target: str) -> str | None:
    try:
        status = os.lstat(target)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return "a file is in the place of a folder above it"
    except OSError as error:
        raise write_failed(target, error) from None
    if not stat.S_ISDIR(status.st_mode):
        return "it is no folder"
    try:
        with DirectoryTree(target) as tree:
            entries = list(tree.entries())
            if not entries:
                return None
            if not any(entry.path == MANIFEST_NAME and entry.kind == "file" for entry in entries):
                return f"it holds files and no {MANIFEST_NAME}, so it is no bundle"
            manifest, _ = read(tree.read(MANIFEST_NAME, MAX_MANIFEST_BYTES))
    except BundlerError as error:
        if error.code == "file-read-failed":
            raise BundlerError(
                "output-write-failed", f"{target} can't be looked at: {error.message}", path=target
            ) from None
        return f"it is no bundle: {error.message}"
    listed = {MANIFEST_NAME, *manifest.files}
    folders = folders_of(listed)
    for entry in entries:
        if entry.path in listed or (entry.kind == "folder" and entry.path in folders):
            continue
        if any(kind is not None and kind.remade for kind in map(junk, entry.path.split("/"))):
            continue  # what a system left there and makes again
        return f"it is a bundle that also holds the {entry.kind} `{entry.path}`, which would be lost"
    return None


def _stage(target: str) -> tuple[str, int]:
    parent, key = os.path.dirname(target), _key(target)
    for _ in range(_TRIES):
        staged = os.path.join(parent, f"{key}{secrets.token_hex(8)}{_NEW}")
        os.mkdir(staged)
        with suppress(FileNotFoundError):  # another build took it for a leftover before it was locked
            os.chmod(staged, 0o700)
        lock = lock_folder(staged)
        if lock is not None:
            return staged, lock
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def _place(staged: str, target: str) -> None:
    for attempt in range(_TRIES):
        check_replaceable(target)
        try:
            os.rename(staged, target)  # onto nothing, or an empty folder
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
        else:
            sync(os.path.dirname(target))
            return
        # Until the old bundle is gone it is ours: no other build clears it, or changes the target, meanwhile.
        lock = lock_folder(target)
        if lock is not None:
            try:
                if _replace(staged, target):
                    return
            finally:
                os.close(lock)
        time.sleep(0.01 * min(attempt + 1, 10))
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))


def _replace(staged: str, target: str) -> bool:
    """Put the staged folder in the place of an old bundle that we hold, and remove that; False if the target changed."""
    exchanged = _exchange(staged, target)
    old = staged if exchanged else staged.removesuffix(_NEW) + _OLD
    if not exchanged:
        os.rename(target, old)
    # What came out is looked at again: something could have been put there since.
    reason = _not_replaceable(old)
    if reason is None and not exchanged:
        try:
            os.rename(staged, target)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):  # another build was there first
                _remove(old)
                return False
            os.rename(old, target)
            raise
    if reason is not None:
        if exchanged:
            _exchange(staged, target)
        else:
            os.rename(old, target)
        raise _not_ours(target, reason)
    sync(os.path.dirname(target))
    _remove(old)
    return True


def _not_ours(target: str, reason: str) -> BundlerError:
    return BundlerError("build-output-not-a-bundle", f"the output {target} is not replaced: {reason}", path=target)


def lock_folder(folder: str) -> int | None:
    """A descriptor that holds the folder's lock; None if another process has it or the folder is gone."""
    import fcntl

    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.lstat(folder)):
            return descriptor
    except OSError:
        pass  # held by another process, or cleared in between
    os.close(descriptor)
    return None


def _key(target: str) -> str:
    """What the names beside a target begin with: of one length, however long the target's own name is."""
    return f".agent-bundler-{sha256(os.fsencode(os.path.basename(target))).hexdigest()[:16]}-"


def _remove(folder: str) -> None:
    """Remove a folder of ours; another process may be at it too. What can't be removed the next build tries again."""
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):  # a bundle whose folders were made read-only
        pending = [folder]
        while pending:
            place = pending.pop()
            with suppress(OSError):
                os.chmod(place, 0o700)
                with os.scandir(place) as entries:
                    pending.extend(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
        shutil.rmtree(folder, ignore_errors=True)


def missing_folders(folder: str) -> list[str]:
    """The folder and those above it that are not there yet, the deepest first."""
    missing = []
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing


def write_failed(path: str, error: OSError) -> BundlerError:
    """`output-write-failed`: what could not be written, and why."""
    reason, hint = os.strerror(error.errno or 0), None
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        reason = "no space is left on the disk"
    elif error.errno == errno.EBUSY:
        reason, hint = "it is in use, as a mounted folder is", "choose a folder inside of the mounted one"
    return BundlerError("output-write-failed", f"`{path}` can't be written: {reason}", path=path, hint=hint)


# What Python's os module lacks, from the C library; each says False where the system has it not.

_EXCHANGE_LINUX, _EXCHANGE_MACOS = 2, 2
_AT_FDCWD = -100


def _exchange(first: str, second: str) -> bool:
    """Exchange two folders in one step; False where system or file system can't."""
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    left, right = os.fsencode(first), os.fsencode(second)
    if hasattr(library, "renameat2"):
        failed = library.renameat2(_AT_FDCWD, left, _AT_FDCWD, right, _EXCHANGE_LINUX)
    elif hasattr(library, "renamex_np"):
        failed = library.renamex_np(left, right, _EXCHANGE_MACOS)
    else:
        return False
    if not failed:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number))


def _sync_file_system(descriptor: int) -> bool:
    """Flush the whole file system that the descriptor is on; False where the system has no such call."""
    if sys.platform != "linux":
        return False
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "syncfs"):
        return False
    if library.syncfs(descriptor):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return True
