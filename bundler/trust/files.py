"""Small files that a host or a signer names: policies, keys, attestations. Read whole and written whole, or not at all."""

from __future__ import annotations

import os
import stat

from ..bundle.swap import write_failed
from ..errors import BundlerError


def read_small(path: str, limit: int) -> tuple[bytes, os.stat_result]:
    """Content and status of a regular file of at most `limit` bytes, links followed.

    Raises `file-missing`, `file-read-failed`, and `parse-failed` for a larger one.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise BundlerError("file-missing", f"{path} does not exist", path=path) from None
    except (OSError, ValueError) as error:
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
        raise BundlerError("file-read-failed", f"{path} can't be read: {reason}", path=path) from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise BundlerError("file-missing", f"{path} is no regular file", path=path)
    with open(descriptor, "rb") as file:
        try:
            data = file.read(limit + 1)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise BundlerError("file-read-failed", f"{path} can't be read: {reason}", path=path) from None
    if len(data) > limit:
        raise BundlerError("parse-failed", f"{path} is larger than {limit:,} bytes, the most that is read", path=path)
    return data, status


def read_text(path: str, limit: int) -> tuple[str, os.stat_result]:
    """The same as UTF-8 text; `parse-failed` where it is none."""
    data, status = read_small(path, limit)
    try:
        return data.decode(), status
    except UnicodeDecodeError:
        raise BundlerError("parse-failed", f"{path} is no UTF-8 text", path=path) from None


def write_new(path: str, data: bytes, mode: int = 0o644) -> bool:
    """Write a file that is not there yet, whole or not at all; False where something is.

    Raises `output-write-failed`.
    """
    folder, name = os.path.split(os.path.abspath(path))
    staged = os.path.join(folder, f".{name}.{os.urandom(8).hex()}.new")
    try:
        descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            os.link(staged, path)
        finally:
            os.unlink(staged)
    except FileExistsError:
        return False
    except OSError as error:
        raise write_failed(path, error) from None
    return True
