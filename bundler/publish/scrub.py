"""What a check says, without the secrets that its environment holds; digest and end of it.

A secret is the value of a variable whose name says so, or a password in an address. It is looked for as it stands, and
as an address spells it. What a program makes of a secret otherwise is not recognized.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from urllib.parse import quote

from .evidence import Output

#: Bytes of the end of an output that are kept.
TAIL = 8192

_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASS|PWD|CREDENTIAL|KEY|AUTH|COOKIE", re.I)
_PASSWORD = re.compile(r"://[^/@\s:]*:([^/@\s]+)@")
#: Shorter values would hide parts of ordinary words.
_SHORTEST = 4
# PWD and OLDPWD are the current folder.
_HARMLESS = ("PWD", "OLDPWD")
_MARK = b"***"


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables whose names do not say that they hold a secret."""
    return {name: value for name, value in environment.items() if not _is_secret(name)}


class Scrubber:
    """Takes secrets of an environment out of texts; `places` are paths that are named otherwise: path → name."""

    def __init__(self, environment: Mapping[str, str], places: Mapping[str, str]) -> None:
        named = {os.fsencode(path): name.encode() for path, name in places.items()}
        self._marks: dict[bytes, bytes] = {**named, **dict.fromkeys(_secrets(environment), _MARK)}
        # The longest first: one may begin with another.
        found = sorted(self._marks, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, found)))
        self.longest = len(found[0]) if found else 0

    def text(self, text: str) -> str:
        """The text without secrets."""
        data = text.encode("utf-8", "surrogateescape")
        return self.part(data, len(data))[0].decode("utf-8", "backslashreplace")

    def part(self, data: bytes, sure: int) -> tuple[bytes, bytes]:
        """What becomes of data whose first `sure` bytes are followed by all that matters to them, and the rest."""
        parts = []
        at = 0
        for match in self._pattern.finditer(data) if self.longest else ():
            if match.start() >= sure:
                break
            parts += [data[at : match.start()], self._marks[match.group()]]
            at = match.end()
        end = max(at, sure)
        return b"".join([*parts, data[at:end]]), data[end:]


class Recorder:
    """Receives an output as it comes; keeps its digest, its size and its end, all without secrets."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber
        self._held = b""
        self._hasher = sha256()
        self._size = 0
        self._tail = b""

    def receive(self, data: bytes) -> None:
        """The next bytes. Those that a secret may begin in wait for more."""
        data = self._held + data
        said, self._held = self._scrubber.part(data, max(0, len(data) - self._scrubber.longest + 1))
        self._keep(said)

    def say(self, *lines: str) -> None:
        """Lines of ours."""
        for line in lines:
            self.receive(f"{line}\n".encode("utf-8", "backslashreplace"))

    def finish(self) -> Output:
        """What was received."""
        said, self._held = self._scrubber.part(self._held, len(self._held))
        self._keep(said)
        tail = self._tail.decode(errors="replace")
        return Output(digest=f"sha256:{self._hasher.hexdigest()}", size=self._size, tail=tail)

    def _keep(self, said: bytes) -> None:
        self._hasher.update(said)
        self._size += len(said)
        self._tail = (self._tail + said)[-TAIL:]


def _is_secret(name: str) -> bool:
    return name not in _HARMLESS and _SECRET_NAME.search(name) is not None


def _secrets(environment: Mapping[str, str]) -> Iterator[bytes]:
    for name, value in environment.items():
        found = _PASSWORD.findall(value)
        if _is_secret(name):
            # A key has lines, and a program may show any of them.
            found += [value, *(line.strip() for line in value.splitlines())]
        for each in found:
            if len(each) >= _SHORTEST:
                yield os.fsencode(each)
                yield quote(os.fsencode(each), safe="").encode()
