"""The audit of secrets: everything that a wheel and an sdist hold, read by a scanner that never uses the network.

Files are scanned as bytes, whatever they hold, so that what is no text is not passed over; large ones part by part.
What is compressed is not looked into, and named. No finding tells the secret itself.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from typing import TYPE_CHECKING

from ..errors import BundlerError, Diagnostic
from ..paths import printable
from ..tree.archive import Archive
from ..tree.zipped import ZipTree
from ..wheel.identity import WheelIdentity
from ..wheel.metadata import LICENSE_FOLDER
from ..wheel.sdist import METADATA
from .evidence import AcceptedFinding
from .settings import AcceptedSecret

if TYPE_CHECKING:
    from kingfisher_sdk import Scanner

SCANNER = "kingfisher-secret-scanner"
#: Bytes that are scanned at a time, and how many of them again with the next: more than a secret has.
WINDOW, OVERLAP = 32 << 20, 64 << 10
# What files begin with whose content is compressed.
_COMPRESSED = (
    *(b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c"),
    *(b"Rar!", b"%PDF-"),
)
# Files and findings named one by one; the rest is counted.
_NAMED = 100

_Read = Callable[[int], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What was accepted, and what a user should know."""

    accepted: tuple[AcceptedFinding, ...]
    warnings: tuple[Diagnostic, ...]


def audit_secrets(
    sdist: str,
    wheel: str,
    identity: WheelIdentity,
    accepted: Sequence[AcceptedSecret],
    say: Callable[[str], object] = lambda line: None,
) -> Audit:
    """Scan what both files hold; `say` is told in words what was scanned and what was not, whatever is found.

    Raises `secret-found`, one diagnostic for each finding that is not accepted, and what reading the files raises.
    """
    scan = _Scan()
    for files in (_sdist_files(sdist), _wheel_files(wheel, identity)):
        for path, read in files:
            scan.file(path, read)
    for told in scan.lines():
        say(told)
    found: list[AcceptedFinding] = []
    faults: list[BundlerError] = []
    used: set[AcceptedSecret] = set()
    for path, line, kind, digest in sorted(scan.findings):
        reasons = [each for each in accepted if _matches(each, path, kind, digest)]
        used.update(reasons)
        if reasons:
            say(f"accepted: {printable(path)}:{line} {kind}: {reasons[0].reason}")
            found.append(AcceptedFinding(path=printable(path), line=line, kind=kind, reason=reasons[0].reason))
        else:
            faults.append(_found(path, line, kind))
    if faults:
        if len(faults) > _NAMED:
            faults[_NAMED:] = [BundlerError("secret-found", f"{len(faults) - _NAMED:,} more findings")]
        raise BundlerError.of(faults)
    return Audit(accepted=tuple(found), warnings=(*scan.warnings(), *_unused(accepted, used)))


@cache
def _scanner() -> Scanner:
    """The scanner, whose rules take a while to load."""
    from kingfisher_sdk import DetectionPolicy, Scanner

    # No comment in a file accepts a finding: what is accepted stands in the settings, and so in the evidence.
    return Scanner(policy=DetectionPolicy(inline_ignores=False, markup_context=False))


class _Scan:
    """What was found, as path, line, kind and the secret's digest; and what was looked at, by the way it was."""

    def __init__(self) -> None:
        self._scanner = _scanner()
        self.findings: set[tuple[str, int, str, str]] = set()
        self._scanned: set[tuple[str, bytes]] = set()
        self._size = 0
        self._as_bytes: dict[str, None] = {}
        self._in_parts: dict[str, None] = {}
        self._compressed: dict[str, None] = {}

    def file(self, path: str, read: _Read) -> None:
        """Scan a file; the same content under the same path once."""
        lines = 0
        hasher = sha256()
        for number, window in enumerate(_windows(read)):
            hasher.update(window)
            if number == 0:
                if len(window) < WINDOW and (path, hasher.digest()) in self._scanned:
                    return
                if window.startswith(_COMPRESSED):
                    self._compressed[path] = None
                elif not _is_text(window):
                    self._as_bytes[path] = None
            elif number == 1:
                self._in_parts[path] = None
            self._scan(path, lines, window)
            # The scanner takes what begins as UTF-16 does for that, and nothing else: ASCII is looked for anyway.
            plain = window.translate(None, b"\0\xfe\xff")
            if plain != window:
                self._scan(path, lines, plain)
            lines += window.count(b"\n", 0, len(window) - OVERLAP)
            self._size += len(window) if number == 0 else len(window) - OVERLAP
        self._scanned.add((path, hasher.digest()))

    def _scan(self, path: str, lines: int, data: bytes) -> None:
        for finding in self._scanner.scan(data):
            if finding.visible:
                digest = sha256(finding.secret.encode("utf-8", "surrogatepass")).hexdigest()
                self.findings.add((path, lines + finding.location["line"], finding.rule_id, digest))

    def lines(self) -> Iterator[str]:
        """What was scanned and what was not, for people."""
        yield (
            f"scanned {len(self._scanned):,} files with {self._size:,} bytes for {len(self._scanner.rules):,} kinds of "
            f"secrets ({SCANNER} {version(SCANNER)}), all of what wheel and sdist hold"
        )
        for what, paths in (
            ("no text, scanned as bytes", self._as_bytes),
            ("large, scanned in parts", self._in_parts),
            ("compressed, not looked into", self._compressed),
        ):
            if paths:
                yield f"{what}: {_named(list(paths))}"

    def warnings(self) -> Iterator[Diagnostic]:
        if self._compressed:
            yield Diagnostic(
                code="secrets-not-scanned",
                severity="warning",
                message=f"compressed, so that no secret would be found in it: {_named(list(self._compressed))}",
            )


def _windows(read: _Read) -> Iterator[bytes]:
    """The content in parts, each beginning with the end of the one before; one that is empty for an empty file."""
    held = b""
    while True:
        parts, size = [held], len(held)
        while size < WINDOW and (chunk := read(WINDOW - size)):
            parts.append(chunk)
            size += len(chunk)
        window = b"".join(parts)
        yield window
        if size < WINDOW:
            return
        held = window[-OVERLAP:]


def _sdist_files(sdist: str) -> Iterator[tuple[str, _Read]]:
    """The files by the paths that they have in the source."""
    with tarfile.open(sdist) as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None:
                yield member.name.partition("/")[2], file.read


def _wheel_files(wheel: str, identity: WheelIdentity) -> Iterator[tuple[str, _Read]]:
    """The files, by the paths of the sdist where that holds the same ones."""
    archive = Archive(wheel)
    try:
        tree = ZipTree(archive)
        for member in archive.members:
            path = member.removeprefix(f"{identity.bundle_folder}/").removeprefix(f"{identity.dist_info}/")
            path = METADATA if path == "METADATA" else path.removeprefix(f"{LICENSE_FOLDER}/")
            with tree.open(member) as reader:
                yield path, reader.read
    finally:
        archive.close()


def _is_text(window: bytes) -> bool:
    try:
        return "\0" not in window.decode()
    except UnicodeDecodeError as error:
        # A character may be cut where the window ends.
        return len(window) == WINDOW and error.start > WINDOW - 4


def _matches(accepted: AcceptedSecret, path: str, kind: str, digest: str) -> bool:
    return (accepted.path, accepted.kind) == (path, kind) and accepted.sha256 in (None, digest)


def _found(path: str, line: int, kind: str) -> BundlerError:
    shown = printable(path)
    return BundlerError(
        "secret-found",
        f"{shown}:{line} holds what looks like a secret ({kind})",
        path=shown,
        line=line,
        detail={"kind": kind},
    )


def _unused(accepted: Sequence[AcceptedSecret], used: set[AcceptedSecret]) -> Iterator[Diagnostic]:
    for each in accepted:
        if each not in used:
            yield Diagnostic(
                code="secret-acceptance-unused",
                severity="warning",
                message=f"{each.path} holds no {each.kind} that could be accepted"
                + ("" if each.sha256 is None else " with that digest"),
                path=each.path,
            )


def _named(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED:,} more" if len(paths) > _NAMED else ""
    return printable(", ".join(paths[:_NAMED])) + more
