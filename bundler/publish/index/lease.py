"""Who may write: a lease that ends by itself, and a fencing token by which a writer that lost it is known.

A lease is held for as long as a change takes to prepare, which may be long; a lock on the file `lock` for as long as it
takes to put the change in place, which is short. The lease is the file `lease`: who has it, until when, and a number
that is one more each time it is given. It is given and renewed, and a change is put in place, only by who holds the
lock, and only after a look at the lease. So, as long as the lock of the file system excludes (a local disk; NFS whose
server keeps locks), a writer that was stopped and lost its lease puts nothing in place, and a change is put in place as
if at once for other writers. Where it does not exclude (NFS without locks), the exclusive link of a journal entry still
decides between two writers that meet there, and the journal stays whole. What the other one may leave is told by
`verify`: pages put in place in the wrong order, which `rebuild` mends, and a file of one name with its content.

A lease of a process that has ended on this host is free; any other after its time, by the clock of whoever asks. A
clock that is wrong costs a writer its change, and the index nothing.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from ...bundle.swap import write_failed
from ...errors import BundlerError
from .layout import LEASE, LOCK, MAX_SMALL, STAGING, to_bytes
from .pages import read_json
from .storage import put, read, write

SCHEMA = "agent-bundler.index-lease.v1"
#: Seconds for which a lease is given, and after which it is renewed.
DURATION, RENEWAL = 60, 20
#: Seconds ahead of which no lease is believed: its writer's clock was wrong, and nobody waits for it for ever.
FURTHEST = 3600
_PAUSE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """`token` is the fencing token, `nonce` tells two writers of one token apart, `expires` is in seconds since 1970."""

    token: int
    nonce: str
    owner: str
    host: str
    pid: int
    expires: int

    def is_free(self) -> bool:
        """Whether it was given back, has ended, or is of a process of this host that has."""
        if not 0 < self.expires - time.time() <= FURTHEST:
            return True
        if self.host != _host():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass
        return False


@dataclass(slots=True, kw_only=True)
class HeldLease:
    """A lease that this process was given; another one may have it since."""

    root: str
    lease: Lease
    patience: float

    @contextmanager
    def fenced(self) -> Iterator[None]:
        """Hold the lock, and the lease. Raises `index-lease-lost` before anything else, and what `locked` raises."""
        with locked(self.root, self.patience):
            self.check()
            yield

    def check(self) -> None:
        """Raises `index-lease-lost`."""
        found = _read(self.root)
        if found is None or (found.token, found.nonce) != (self.lease.token, self.lease.nonce):
            raise lost(self.root, found)

    def renew(self) -> None:
        """Prolong it where a third of its time is over. Raises what `fenced` raises, and OSError."""
        if time.time() + DURATION - RENEWAL >= self.lease.expires:
            with self.fenced():
                self.lease = replace(self.lease, expires=int(time.time()) + DURATION)
                _write(self.root, self.lease)

    def give_back(self) -> None:
        """Let another writer have it at once; one that can't be given back ends with its time."""
        with suppress(BundlerError, OSError), self.fenced():
            try:
                _write(self.root, replace(self.lease, expires=0))
            except OSError:  # on a full disk the next token may be this one again, and its nonce is another
                os.unlink(os.path.join(self.root, LEASE))


@contextmanager
def locked(root: str, patience: float, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock for some steps; `shared` among readers, which go without where there is none.

    Raises `index-locked` where another one does not end in `patience` seconds, and `output-write-failed`.
    """
    if sys.platform == "win32":
        raise BundlerError("output-write-failed", "indexes are not used on Windows", hint="use Linux or macOS")
    import fcntl

    place = os.path.join(root, LOCK)
    flags = os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT
    try:
        descriptor = os.open(place, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if not shared:
            raise write_failed(place, error) from None
        yield
        return
    try:
        until = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    message = f"another process is putting a change in place in {root} and does not end"
                    raise BundlerError("index-locked", message, path=root) from None
            except OSError as error:
                if not shared:
                    raise write_failed(place, error) from None
                break
            time.sleep(_PAUSE)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def leased(root: str, who: str, least: int, patience: float) -> Iterator[HeldLease]:
    """Be the writer, with a token that is more than `least` and than any before.

    Raises `index-locked` where another one does not end in `patience` seconds, `index-invalid`, and OSError.
    """
    until = time.monotonic() + patience
    while (lease := _take(root, who, least, patience)) is None:
        if time.monotonic() >= until:
            found = _read(root)
            named = f"{_described(found)} has the lease" if found is not None else "another writer had the lease"
            raise BundlerError("index-locked", f"{named} of {root}", path=root)
        time.sleep(_PAUSE)
    held = HeldLease(root=root, lease=lease, patience=patience)
    try:
        yield held
    finally:
        held.give_back()


def lost(root: str, found: Lease | None = None) -> BundlerError:
    """`index-lease-lost`."""
    by = f": {_described(found)} was given it" if found is not None else ""
    return BundlerError("index-lease-lost", f"the lease of {root} was lost{by}; nothing was changed", path=root)


def _take(root: str, who: str, least: int, patience: float) -> Lease | None:
    with locked(root, patience):
        found = _read(root)
        if found is not None and not found.is_free():
            return None
        lease = Lease(
            token=max(least, found.token if found is not None else 0) + 1,
            nonce=os.urandom(8).hex(),
            owner=who,
            host=_host(),
            pid=os.getpid(),
            expires=int(time.time()) + DURATION,
        )
        _write(root, lease)
        return lease


def _read(root: str) -> Lease | None:
    """The lease that was given last; None where there is none, or something that holds nobody off."""
    data = read(root, LEASE, MAX_SMALL)

    def make(value: Any) -> Lease:
        lease = Lease(**{name: value[name] for name in Lease.__dataclass_fields__})
        numbers = (lease.token, lease.pid, lease.expires)
        if not all(type(number) is int for number in numbers) or not 0 < lease.pid < 2**31:
            raise ValueError
        return lease

    try:
        return None if data is None else read_json(data, LEASE, make)
    except BundlerError:
        return None


def _write(root: str, lease: Lease) -> None:
    staged = os.path.join(root, STAGING, f"{os.urandom(8).hex()}.lease")
    put(root, write(staged, to_bytes({"schema": SCHEMA, **asdict(lease)})), LEASE)


def _described(lease: Lease) -> str:
    return f"{lease.owner} (process {lease.pid} on {lease.host})"


def _host() -> str:
    return os.uname().nodename
