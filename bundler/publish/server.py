"""Upload to a PyPI-compatible server: by twine, what the index does not have yet, and only if nothing conflicts.

An index is asked before and after: what a server answers to an upload is not what it shows to installers.
"""

from __future__ import annotations

import html
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from tempfile import TemporaryDirectory
from typing import BinaryIO, Literal

from ..errors import CODES, BundlerError, Diagnostic
from ..runtime.process import Limits, run_limited
from .pages import digest_of, list_files, reason, refusal
from .repository import Repository

State = Literal["uploaded", "already-there", "unconfirmed"]
#: What happens to a file: `uploaded` only once the index shows it.
Step = Literal["uploading", "retrying", "sent"] | State
#: Called with a file's name, its number from 1, how many there are, and what happens to it.
Progress = Callable[[str, int, int, Step], None]

#: Bytes of what twine says, and of what is kept of it.
_MAX_OUTPUT = 16 * 1024 * 1024
_MAX_KEPT = 64 * 1024
# Names of exceptions that a broken connection ends twine with.
_PASSING = ("ConnectionError", "ConnectTimeout", "ReadTimeout", "Timeout", "ProxyError", "ChunkedEncodingError")
_READ = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"))
_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long is waited, in seconds: for a page, for an upload, and before each further try, each time twice as long."""

    page: float = 60
    upload: float = 900
    first_pause: float = 1
    tries: int = 6
    sleep: Callable[[float], None] = time.sleep

    def pauses(self) -> Iterator[float]:
        """The pauses between the tries."""
        return (self.first_pause * 2**number for number in range(self.tries - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploaded:
    """A file that the index has with this sha256 (in hexadecimal), or, `unconfirmed`, that it took and does not show.

    `warning` tells of the latter; `output` is what twine said, without secrets.
    """

    name: str
    sha256: str
    state: State
    warning: Diagnostic | None = None
    output: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    path: str
    name: str
    project: str
    sha256: str
    size: int
    number: int


def upload(
    files: Sequence[str | os.PathLike[str]],
    repository: Repository,
    progress: Progress = lambda name, number, count, step: None,
    patience: Patience = Patience(),
    *,
    digests: Mapping[str, str] | None = None,
) -> list[Uploaded]:
    """Upload wheels and sdists that the index does not have yet, in the order given; one result for each.

    1. Each file is read once: what is hashed is what is uploaded. `digests` are the SHA-256, in hexadecimal, that files
       of these names are to have.
    2. The index is asked: a file that it has with the same sha256 is passed over; one with another is
       `release-conflict`, before anything is uploaded.
    3. The others are uploaded. What may pass is tried again, after the index was asked whether the file is there by now.
    4. The index is asked again until it shows them, or patience ends.

    Raises `publish-file-invalid`, `file-missing`, `file-read-failed` and `environment-failed` before anything is sent;
    `release-conflict`, `publish-unauthorized`, `publish-failed`, and `publish-unreachable` once patience has ended. What
    was uploaded before an error stays, and is passed over the next time.
    """
    with ExitStack() as held:
        try:
            work = held.enter_context(TemporaryDirectory(prefix="agent-bundler-"))
            # 1.
            taken = [_take(os.fspath(path), work, number) for number, path in enumerate(files, 1)]
        except OSError as error:  # a full disk, no folder for temporary files
            message = f"the files can't be copied for the upload: {os.strerror(error.errno or 0)}"
            raise BundlerError("environment-failed", message, path=error.filename) from None
        for file in taken:
            expected = (digests or {}).get(file.name, file.sha256)
            if file.sha256 != expected:
                message = f"{file.name} has changed: its SHA-256 is {file.sha256}; {expected} is expected"
                raise BundlerError("publish-file-invalid", message, path=file.name)
        return _Upload(taken, repository, progress, patience).run()


class _Upload:
    def __init__(self, files: Sequence[_File], repository: Repository, progress: Progress, patience: Patience) -> None:
        self._files, self._repository, self._progress, self._patience = files, repository, progress, patience

    def run(self) -> list[Uploaded]:
        # 2.
        there = self._patiently(lambda: self._there(self._files))
        # 3.
        came: dict[str, tuple[State, str]] = {}
        for file in self._files:
            came[file.name] = ("already-there", "") if file.name in there else self._send(file)
        # 4.
        doubts = self._confirm([file for file in self._files if came[file.name][0] == "uploaded"])
        return [self._result(file, *came[file.name], doubts.get(file)) for file in self._files]

    def _there(self, files: Sequence[_File]) -> set[str]:
        """Names of the files that the index has. Raises `release-conflict` with each that it has with other content."""
        pages = {
            project: list_files(self._repository, project, self._patience.page)
            for project in dict.fromkeys(file.project for file in files)
        }
        found, conflicts = set(), []
        for file in files:
            listed = pages[file.project].get(file.name)
            if listed is None:
                continue
            digest = digest_of(self._repository, file.name, listed, file.size, self._patience.page)
            found.add(file.name)
            if digest != file.sha256:
                has = f"sha256 {digest}" if digest else f"more than {file.size:,} bytes"
                message = f"{self._repository.simple_url} has {file.name} with {has}; {file.sha256} was to be published"
                conflicts.append(BundlerError("release-conflict", message, path=file.name))
        if conflicts:
            raise BundlerError.of(conflicts)
        return found

    def _patiently(self, ask: Callable[[], set[str]]) -> set[str]:
        for pause in self._patience.pauses():
            try:
                return ask()
            except BundlerError as error:
                if error.code != "publish-unreachable":
                    raise
            self._patience.sleep(pause)
        return ask()

    def _send(self, file: _File) -> tuple[State, str]:
        """What came of it, and what twine said."""
        output = ""
        pauses = self._patience.pauses()
        self._tell(file, "uploading")
        while True:
            failure, said = _call_twine(file, self._repository, self._patience.upload)
            output = (output + said)[-_MAX_KEPT:]
            if failure is None:
                self._tell(file, "sent")
                return "uploaded", output
            pause = next(pauses, None) if failure.code == "publish-unreachable" else None
            if pause is not None:
                self._patience.sleep(pause)
            # It may have arrived although the answer did not, or another publisher was faster.
            if self._is_there_by_now(file):
                return "already-there", output
            if pause is None:
                raise BundlerError(failure.code, failure.message, path=file.name, detail={"output": output})
            self._tell(file, "retrying")

    def _is_there_by_now(self, file: _File) -> bool:
        try:
            return bool(self._there([file]))
        except BundlerError as error:
            if error.code == "release-conflict":
                raise
            return False

    def _confirm(self, sent: Sequence[_File]) -> dict[_File, str]:
        """What the index does not show after all patience, and why."""
        left = {
            file: f"{self._repository.simple_url} does not show {file.name} yet, which was uploaded" for file in sent
        }
        for pause in (0, *self._patience.pauses()):
            if not left:
                break
            if pause:
                self._patience.sleep(pause)
            try:
                there = self._there(list(left))
            except BundlerError as error:
                if error.code == "release-conflict":
                    raise
                left = {file: f"{file.name} was uploaded and is not confirmed: {error.message}" for file in left}
            else:
                left = {file: why for file, why in left.items() if file.name not in there}
        return left

    def _result(self, file: _File, state: State, output: str, doubt: str | None) -> Uploaded:
        warning = None
        if doubt is not None:
            state = "unconfirmed"
            warning = Diagnostic(
                code="publish-unconfirmed",
                message=doubt,
                severity="warning",
                path=file.name,
                hint=CODES["publish-unconfirmed"],
            )
        self._tell(file, state)
        return Uploaded(name=file.name, sha256=file.sha256, state=state, warning=warning, output=output)

    def _tell(self, file: _File, step: Step) -> None:
        self._progress(file.name, file.number, len(self._files), step)


def _take(path: str, folder: str, number: int) -> _File:
    """A copy of the file in the folder, hashed as it is written."""
    name = os.path.basename(path)
    project = _project(name, path)
    copy = os.path.join(folder, name)
    if os.path.exists(copy):
        raise BundlerError("publish-file-invalid", f"two files are called {name}", path=path)
    state, size = sha256(), 0
    with open(copy, "xb") as target, _open(path) as source:
        while chunk := _read(source, path):
            target.write(chunk)
            state.update(chunk)
            size += len(chunk)
    return _File(path=copy, name=name, project=project, sha256=state.hexdigest(), size=size, number=number)


def _open(path: str) -> BinaryIO:
    try:
        descriptor = os.open(path, _READ)
    except FileNotFoundError:
        raise BundlerError(
            "file-missing", f"{path} does not exist", path=path, hint="name a file that exists"
        ) from None
    except OSError as error:
        raise _unreadable(path, error) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BundlerError("publish-file-invalid", f"{path} is no regular file", path=path)
    return open(descriptor, "rb")


def _read(source: BinaryIO, path: str) -> bytes:
    try:
        return source.read(_CHUNK)
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: OSError) -> BundlerError:
    return BundlerError("file-read-failed", f"{path} can't be read: {os.strerror(error.errno or 0)}", path=path)


def _project(name: str, path: str) -> str:
    from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename

    try:
        return parse_wheel_filename(name)[0] if name.endswith(".whl") else parse_sdist_filename(name)[0]
    except (InvalidWheelFilename, InvalidSdistFilename) as error:
        raise BundlerError(
            "publish-file-invalid", f"{path} has no name that an index takes: {error}", path=path
        ) from None


def _call_twine(file: _File, repository: Repository, timeout: float) -> tuple[BundlerError | None, str]:
    """What came of one upload, None if the server took it; and what twine said, without secrets."""
    certificates = [("--cert", repository.ca_cert), ("--client-cert", repository.client_cert)]
    command = [
        *(sys.executable, "-P", "-m", "twine", "--no-color", "upload"),
        *("--verbose", "--non-interactive", "--disable-progress-bar", "--repository-url", repository.url),
        *(each for option, value in certificates if value for each in (option, value)),
        file.path,
    ]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TWINE_")},
        "TWINE_USERNAME": repository.username or "",
        "TWINE_PASSWORD": repository.password or "",
        "COLUMNS": "500",  # or what the server says is broken at the terminal's width
        "TERM": "xterm",
        "PYTHONUTF8": "1",
    }
    ended = run_limited(
        [os.fsencode(each) for each in command],
        cwd=os.path.dirname(file.path),
        environment=environment,
        limits=Limits(timeout_ms=max(1, int(timeout * 1000)), max_output_bytes=_MAX_OUTPUT),
    )
    said = repository.scrub(_plain(ended.output + b"\n" + ended.errors))
    if ended.exceeded == "timeout":
        message = f"{repository.url} took more than {timeout:g} seconds for {file.name}"
        return BundlerError("publish-unreachable", message), said
    return None if ended.status == 0 else _failure(said, file, repository), said


def _failure(said: str, file: _File, repository: Repository) -> BundlerError:
    """The error that twine's output tells of."""
    what = f"{repository.url} does not take {file.name}"
    statuses = re.findall(r"^ERROR +HTTPError: ([0-9]{3}) ", said, re.M)
    if statuses:
        answer = said.rpartition("Response from ")[2].partition("\n")[2].partition("\nERROR ")[0]
        return refusal(int(statuses[-1]), f"{what}: {repository.scrub(_without_markup(answer))[:500]}")
    raised = re.findall(r"^(?:ERROR +|[a-z][\w.]*\.)?([A-Z]\w+): (.+)", said, re.M)
    name, text = raised[-1] if raised else ("", " ".join(said.split())[-500:] or "twine says nothing")
    if name in _PASSING:
        return BundlerError("publish-unreachable", f"{what}: {reason(repository, text)}")
    return BundlerError("publish-failed", f"{what}: {text[:500]}")


def _plain(output: bytes) -> str:
    """The text without colours and empty lines."""
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", output.decode(errors="replace"))
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip()) + "\n"


def _without_markup(text: str) -> str:
    """What an answer in HTML says, on one line."""
    text = re.sub(r"(?is)<(style|script|title)\b.*?</\1>|<[^>]*>", " ", text)
    return " ".join(re.sub(r"^INFO\b", "", html.unescape(text), flags=re.M).split())
