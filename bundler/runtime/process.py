"""One process and all that it starts, held to limits; when it has ended, nothing of it is left running.

It runs in a session and so in a process group of its own, without a terminal; the group is killed in the end, however it
ends. On Linux what has left the group is found too, as long as its parents still run.

What is *not* found: a process that has left the group (`setsid`) and whose parent has ended, as daemons do. And who is
killed by SIGKILL can't kill anything: then the group runs on.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import IO, Any, Literal

from ..errors import BundlerError

#: Seconds: how long a process that still holds the output is read after the one that was started has ended …
_AFTERWARDS = 0.2
#: … and how long a group has to end after SIGTERM.
_GRACE = 0.5
# Seconds between two looks at whether a process has ended, at most; they begin short.
_PAUSE = 0.02
_CHUNK = 64 * 1024
_MAX_LIMIT = 2**53 - 1

Exceeded = Literal["timeout", "output", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a materializer may take: milliseconds, and bytes of its standard output and standard error.

    Raises `materializer-option-invalid` for what is no positive integer.
    """

    timeout_ms: int = 30_000
    max_output_bytes: int = 10 * 1024 * 1024
    max_error_bytes: int = 1024 * 1024

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= _MAX_LIMIT:
                name = each.name.replace("_", "-")
                raise BundlerError(
                    "materializer-option-invalid", f"{name} is {value!r}; a positive integer is expected"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a process ended: the limit it met, or its exit status (of a signal the negative number; None if unknown)."""

    exceeded: Exceeded | None
    status: int | None
    output: bytes
    errors: bytes


def run_limited(
    arguments: Sequence[bytes], *, cwd: str, environment: Mapping[str, str | bytes], limits: Limits
) -> Ended:
    """Run a program with exactly this environment and no input; whatever becomes of it, its process group is killed.

    Raises OSError or ValueError where the system can't start it, and passes on what interrupts the caller.
    """
    output: list[bytes] = []
    errors: list[bytes] = []
    process = _start(arguments, cwd, environment, subprocess.PIPE)
    streams = (
        _Stream("output", process.stdout, limits.max_output_bytes, output.append),
        _Stream("error", process.stderr, limits.max_error_bytes, errors.append),
    )
    exceeded, status = _follow(process, streams, limits.timeout_ms / 1000)
    return Ended(exceeded=exceeded, status=status, output=b"".join(output), errors=b"".join(errors))


def run_followed(
    arguments: Sequence[str | bytes],
    *,
    cwd: str,
    environment: Mapping[str, str],
    timeout: float,
    receive: Callable[[bytes], object],
    umask: int = -1,
) -> Ended:
    """The same for `timeout` seconds, where what it writes to both streams is handed to `receive` as it comes, in one."""
    process = _start(arguments, cwd, environment, subprocess.STDOUT, umask)
    exceeded, status = _follow(process, (_Stream("output", process.stdout, _MAX_LIMIT, receive),), timeout)
    return Ended(exceeded=exceeded, status=status, output=b"", errors=b"")


def _start(
    arguments: Sequence[str | bytes],
    cwd: str,
    environment: Mapping[str, str | bytes] | Mapping[str, str],
    errors: int,
    umask: int = -1,
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - what the Provider or the project declares, no shell of ours
        list(arguments),
        cwd=cwd,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        start_new_session=True,
        umask=umask,
    )


def _follow(
    process: subprocess.Popen[bytes], streams: Sequence[_Stream], seconds: float
) -> tuple[Exceeded | None, int | None]:
    run = _Run(process, streams, seconds)
    try:
        exceeded = run.follow()
    finally:
        run.end()
    return exceeded, run.status


class _Stream:
    """What a process writes to one of its streams, and who receives it."""

    __slots__ = ("limit", "name", "pipe", "receive", "size")

    def __init__(self, name: Exceeded, pipe: IO[bytes] | None, limit: int, receive: Callable[[bytes], object]) -> None:
        if pipe is None:
            raise AssertionError("the process was started with pipes")
        self.name, self.pipe, self.limit, self.receive = name, pipe, limit, receive
        self.size = 0


class _Run:
    """A process that was started: followed to its end or a limit, then ended with its group."""

    def __init__(self, process: subprocess.Popen[bytes], streams: Sequence[_Stream], seconds: float) -> None:
        self._process = process
        self._deadline = time.monotonic() + seconds
        self._ended = False
        self.status: int | None = None
        self._streams = streams
        self._open = selectors.DefaultSelector()
        for stream in streams:
            self._open.register(stream.pipe, selectors.EVENT_READ, stream)

    def follow(self) -> Exceeded | None:
        """Read until the process has ended and nobody writes any more; the limit that was met before that, if one was."""
        until: float | None = None
        pause = _PAUSE / 16
        while True:
            now = time.monotonic()
            if until is None and self._has_ended():
                until = now + _AFTERWARDS
            if until is not None and not self._open.get_map():
                return None
            if until is None and now >= self._deadline:
                return "timeout"
            # Time is over only once nothing is there to be read: what the process wrote is read however late we are.
            is_over = until is not None and now >= until
            found = list(self._read(0 if is_over else pause))
            if is_over and not found:
                return None
            for stream, data in found:
                stream.receive(data)
                stream.size += len(data)
                if stream.size > stream.limit:
                    return stream.name
            pause = min(pause * 2, _PAUSE)

    def end(self) -> None:
        """Kill what is left of the group and wait for the process itself."""
        strays: list[int] = []
        try:
            if not self._ended:
                strays = _outside_the_group(self._process.pid)
                self._signal(signal.SIGTERM, strays)
                until = time.monotonic() + _GRACE
                while time.monotonic() < until and not (self._has_ended() and not self._open.get_map()):
                    for _ in self._read(_PAUSE):
                        pass  # whoever writes its last words must not wait for a reader
        finally:
            # Before the process is waited for: until then nobody else can get the number of its group.
            self._signal(signal.SIGKILL, strays)
            for descriptor in strays:
                os.close(descriptor)
            self._process.wait()
            self._open.close()
            for stream in self._streams:
                stream.pipe.close()

    def _read(self, seconds: float) -> Iterator[tuple[_Stream, bytes]]:
        """What was written meanwhile; a stream that nobody can write to any more is closed."""
        for key, _ in self._open.select(seconds):
            data = os.read(key.fd, _CHUNK)
            if data:
                yield key.data, data
            else:
                self._open.unregister(key.fileobj)

    def _has_ended(self) -> bool:
        """Whether the process has ended; it is not waited for yet, where the system can tell without."""
        if self._ended:
            return True
        if not hasattr(os, "waitid"):  # macOS before Python 3.13
            self.status = self._process.poll()
            self._ended = self.status is not None
            return self._ended
        try:
            found: Any = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # the host has others wait for its children, or nobody: how it ended is not known
            self._ended = True
            return True
        if found is not None:
            self._ended = True
            self.status = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
        return self._ended

    def _signal(self, number: signal.Signals, strays: Iterable[int]) -> None:
        with suppress(ProcessLookupError, PermissionError):  # nobody is left, or what is left is not ours
            os.killpg(self._process.pid, number)
        for descriptor in strays:
            with suppress(OSError):
                signal.pidfd_send_signal(descriptor, number)


def _outside_the_group(leader: int) -> list[int]:
    """Descriptors (pidfd) of descendants that have left the leader's group; none where the system has no such thing."""
    if not hasattr(os, "pidfd_open"):
        return []
    found: list[int] = []
    pending = [leader]
    seen = {leader}
    while pending:
        parent = pending.pop()
        for child in _children(parent):
            if child in seen:
                continue
            seen.add(child)
            pending.append(child)
            with suppress(OSError):
                if os.getpgid(child) == leader:
                    continue
                descriptor = os.pidfd_open(child)
                # The number may have become another's before there was a descriptor: then it has another parent.
                if child in _children(parent):
                    found.append(descriptor)
                else:
                    os.close(descriptor)
    return found


def _children(parent: int) -> list[int]:
    """The processes that a process has started and that still run."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{parent}/task"):
            with open(f"/proc/{parent}/task/{thread}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    return found
