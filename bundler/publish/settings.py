"""What a project says about its checks: `[tool.agent-bundler.checks]` and `[[tool.agent-bundler.accepted-secrets]]`.

[tool.agent-bundler.checks.graph-tests]
required = true                             # a Provider without graph tests is no release

[tool.agent-bundler.checks.lint]
command = "make lint"                       # for /bin/sh
timeout = 60                                # seconds; 600 where nothing is said
cwd = "tools"                               # in the source

[[tool.agent-bundler.accepted-secrets]]
path = "docs/example.md"
kind = "betterleaks.github-pat"             # as the finding names it
reason = "the example of the service's own documentation"
sha256 = "…"                                # of the text itself: no other one is accepted
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import BundlerError, Suggestions
from ..paths import normalize
from ..tree import Tree
from ..wheel.settings import FILE, TABLE, read_document
from .expectations import BUILT_IN, GRAPH_TESTS

#: Seconds that a command has where nothing else is said, and at most.
DEFAULT_TIMEOUT, MAX_TIMEOUT = 600.0, 86_400.0

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectCheck:
    """A command of the project's own: a text for /bin/sh, seconds, and a folder relative to the source's root."""

    name: str
    command: str
    timeout: float = DEFAULT_TIMEOUT
    cwd: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedSecret:
    """What looks like a secret and may be released; `sha256` (hexadecimal) where only that one text may be."""

    path: str
    kind: str
    reason: str
    sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSettings:
    """What was said; nothing where there is no file, or no such table in it."""

    checks: tuple[ProjectCheck, ...] = ()
    accepted: tuple[AcceptedSecret, ...] = ()
    graph_tests_required: bool = False


def read_check_settings(tree: Tree) -> CheckSettings:
    """The settings in the pyproject.toml of a tree.

    Raises `release-settings-invalid` with every fault, `parse-failed`, and what reading raises.
    """
    try:
        document = read_document(tree)
    except BundlerError as error:
        if error.code != "file-missing" or FILE in tree.names(""):
            raise
        return CheckSettings()
    tool = document.get("tool")
    table = tool.get("agent-bundler") if isinstance(tool, dict) else None
    if not isinstance(table, dict):
        return CheckSettings()
    reader = _Reader()
    settings = CheckSettings(
        checks=tuple(reader.checks(table.get("checks", {}))),
        accepted=tuple(reader.accepted(table.get("accepted-secrets", []))),
        graph_tests_required=reader.required,
    )
    if reader.faults:
        raise BundlerError.of(reader.faults)
    return settings


class _Refused(ValueError):  # noqa: N818 - it becomes an error
    """What is wrong with a value."""


class _Reader:
    """Collects every fault of the tables."""

    def __init__(self) -> None:
        self.faults: list[BundlerError] = []
        self.required = False

    def checks(self, table: Any) -> list[ProjectCheck]:
        found = []
        if not isinstance(table, dict):
            self._refuse("checks", "is no table")
            return []
        for name, value in table.items():
            try:
                if name == GRAPH_TESTS:
                    self.required = _graph_tests(value)
                else:
                    found.append(_check(name, value))
            except _Refused as error:
                self._refuse(f"checks.{name}", str(error))
        return found

    def accepted(self, values: Any) -> list[AcceptedSecret]:
        found: list[AcceptedSecret] = []
        if not isinstance(values, list):
            self._refuse("accepted-secrets", "is no list of tables")
            return []
        for number, value in enumerate(values, 1):
            try:
                found.append(_accepted(value))
            except _Refused as error:
                self._refuse(f"accepted-secrets, number {number},", str(error))
        return found

    def _refuse(self, where: str, what: str) -> None:
        message = f"{FILE}: [{TABLE}] {where} {what}"
        self.faults.append(BundlerError("release-settings-invalid", message, path=FILE))


def _graph_tests(value: Any) -> bool:
    required = _members(value, ("required",)).get("required", False)
    if not isinstance(required, bool):
        raise _Refused(f"has the `required` {required!r}; true or false is expected")
    return required


def _check(name: str, value: Any) -> ProjectCheck:
    if not _NAME.match(name) or len(name) > 64:
        raise _Refused("is no name; words of a-z and 0-9 with `-` between them are expected")
    if name in BUILT_IN:
        raise _Refused("is the name of a check that is always made; choose another one")
    members = _members(value, ("command", "timeout", "cwd"))
    timeout = members.get("timeout", DEFAULT_TIMEOUT)
    if not isinstance(timeout, int | float) or isinstance(timeout, bool) or not 0 < timeout <= MAX_TIMEOUT:
        raise _Refused(f"has the `timeout` {timeout!r}; seconds are expected, {MAX_TIMEOUT:,.0f} at most")
    return ProjectCheck(
        name=name,
        command=_text(members, "command"),
        timeout=float(timeout),
        cwd=_path(members, "cwd") if "cwd" in members else "",
    )


def _accepted(value: Any) -> AcceptedSecret:
    members = _members(value, ("path", "kind", "reason", "sha256"))
    sha256 = _text(members, "sha256") if "sha256" in members else None
    if sha256 is not None and not _SHA256.match(sha256):
        raise _Refused("has a `sha256` that is not 64 hexadecimal digits in lower case")
    return AcceptedSecret(
        path=_path(members, "path"), kind=_text(members, "kind"), reason=_text(members, "reason"), sha256=sha256
    )


def _members(value: Any, names: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _Refused("is no table")
    for key in value:
        if key not in names:
            raise _Refused(f"has `{key}`{Suggestions().near(key, names)}; expected: {', '.join(names)}")
    return value


def _text(members: Mapping[str, Any], key: str) -> str:
    value = members.get(key)
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise _Refused(f"has the `{key}` {value!r}; a text is expected" if key in members else f"lacks its `{key}`")
    return value


def _path(members: Mapping[str, Any], key: str) -> str:
    try:
        return normalize(_text(members, key))
    except BundlerError as error:
        raise _Refused(f"has a `{key}` that does not lie in the source: {error.message}") from None
