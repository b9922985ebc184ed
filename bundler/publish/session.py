"""One run of checks: each is made, timed and written down, whatever becomes of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeVar

from ..errors import BundlerError
from ..runtime.process import Ended, run_followed
from .evidence import Check
from .expectations import expectation
from .pitfalls import Pitfall
from .scrub import Recorder, Scrubber

#: Called when a check begins, and when it has ended or will not be made.
Progress = Callable[[str, Literal["running", "passed", "failed", "not-run"]], object]

#: Seconds that a tool of ours has.
TOOL_TIMEOUT = 600.0
# Of a failed command's output: its last lines, and of each its last characters.
_TOLD_LINES, _TOLD_CHARACTERS = 8, 300

# What says nothing about the check, and leaves no evidence.
_NO_FAILURES = ("release-source-changed", "build-output-overlaps-source")

_T = TypeVar("_T")


class CheckFailed(Exception):  # noqa: N818 - it becomes an error
    """A check failed: what it was, and the fault."""

    def __init__(self, check: str, error: BundlerError) -> None:
        super().__init__(check)
        self.check, self.error = check, error


class Session:
    """Makes checks and keeps what each of them left. After one that failed no other is made."""

    def __init__(self, names: Sequence[str], scrubber: Scrubber, progress: Progress) -> None:
        self._names, self._scrubber, self._progress = names, scrubber, progress
        self._made: list[Check] = []

    @property
    def reached(self) -> list[str]:
        """The checks that were made."""
        return [check.name for check in self._made]

    def end(self) -> tuple[Check, ...]:
        """Every check in order, those that were not reached too, which is told."""
        left = self._names[len(self._made) :]
        for name in left:
            self._progress(name, "not-run")
        return (*self._made, *(Check(name=name, kind=expectation(name).kind, state="not-run") for name in left))

    def do(self, name: str, work: Callable[[Recorder], _T]) -> _T:
        """A check that this package makes itself. Raises CheckFailed.

        What the environment refuses passes through, and what makes all evidence void.
        """
        return self._make(name, None, lambda log: (work(log), None))

    def run(
        self,
        name: str,
        command: Sequence[str] | str,
        *,
        cwd: str,
        environment: Mapping[str, str],
        timeout: float = TOOL_TIMEOUT,
        umask: int = -1,
        inside: str | None = None,
        then: Callable[[], object] = lambda: None,
    ) -> None:
        """A check that a command makes: arguments, or the project's own text for /bin/sh.

        `inside` is the folder that `cwd`, links followed, has to lie in; `then` looks at the result. Raises CheckFailed.
        """
        arguments = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)

        def work(log: Recorder) -> tuple[None, int | None]:
            if inside is not None and not _lies_in(cwd, inside):
                what = f"has no folder to run in: {cwd} is no folder in the source"
                raise _Ended(None, what, "correct `cwd` in [tool.agent-bundler.checks]")
            try:
                ended = run_followed(
                    arguments, cwd=cwd, environment=environment, timeout=timeout, receive=log.receive, umask=umask
                )
            except (OSError, ValueError) as error:
                why = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
                raise _Ended(None, f"can't be started: {why}") from None
            _check_end(ended, timeout)
            then()
            return None, ended.status

        shown = self._scrubber.text(command) if isinstance(command, str) else tuple(map(self._scrubber.text, command))
        self._make(name, shown, work)

    def _make(
        self,
        name: str,
        command: tuple[str, ...] | str | None,
        work: Callable[[Recorder], tuple[_T, int | None]],
    ) -> _T:
        if name != self._names[len(self._made)]:
            raise AssertionError(f"{name} is not the next check")
        self._progress(name, "running")
        log = Recorder(self._scrubber)
        begun = time.monotonic()
        exit_code: int | None = None
        failed: BundlerError | _Ended | None = None
        try:
            result, exit_code = work(log)
        except _Ended as ended:
            exit_code, failed = ended.status, ended
        except BundlerError as error:
            if error.is_environment or error.code in _NO_FAILURES:
                raise
            exit_code, failed = (None if command is None else 0), error
            log.say(*(f"error[{each.code}] {each.message}" for each in error.diagnostics))
        output = log.finish()
        self._made.append(
            Check(
                name=name,
                kind=expectation(name).kind,
                state="passed" if failed is None else "failed",
                command=command,
                exit_code=exit_code,
                seconds=round(time.monotonic() - begun, 3),
                output=output,
            )
        )
        self._progress(name, "passed" if failed is None else "failed")
        if failed is None:
            return result
        if isinstance(failed, _Ended):
            failed = _command_failed(name, failed, output.tail)
        raise CheckFailed(name, failed)

    def pitfall(self, failed: CheckFailed) -> Pitfall:
        """What the next try is told first."""
        about, error = expectation(failed.check), failed.error
        found = self._scrubber.text(error.message)
        return Pitfall(check=failed.check, expected=about.expected, found=found, cause=error.hint or about.cause)


class _Ended(Exception):  # noqa: N818 - it becomes an error
    """A command did not end as it should: its exit status, how it ended, and what helps where that is known."""

    def __init__(self, status: int | None, how: str, hint: str | None = None) -> None:
        super().__init__(how)
        self.status, self.how, self.hint = status, how, hint


def _check_end(ended: Ended, timeout: float) -> None:
    """Raises _Ended unless a command ended well."""
    if ended.exceeded is not None:
        how = f"did not end within {timeout:g} seconds, and was ended with all that it had started"
        raise _Ended(None, how, "give it more time (`timeout` in [tool.agent-bundler.checks]), or let it do less")
    if ended.status is None:
        raise _Ended(None, "ended, and the host let nobody know how")
    if ended.status < 0:
        raise _Ended(ended.status, f"was ended by signal {-ended.status}")
    if ended.status:
        raise _Ended(ended.status, f"ended with exit status {ended.status}")


def _lies_in(folder: str, root: str) -> bool:
    folder, root = os.path.realpath(folder), os.path.realpath(root)
    return os.path.isdir(folder) and os.path.commonpath([folder, root]) == root


def _command_failed(name: str, ended: _Ended, tail: str) -> BundlerError:
    lines = [line.rstrip()[-_TOLD_CHARACTERS:] for line in tail.splitlines() if line.strip()][-_TOLD_LINES:]
    errors = [line for line in lines if "error" in line.lower()] or lines
    said = f"; it says: {errors[-1].strip()}" if errors else ""
    about = expectation(name)
    return BundlerError(
        "release-check-failed",
        f"the command of {name} {ended.how}{said}",
        hint=ended.hint or about.remedy(tail) or about.cause,
        detail={"check": name, "exitStatus": ended.status, "output": lines},
    )
