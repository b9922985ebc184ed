"""Semantic versions and npm-style version ranges (protocol: Provider `version`, `compatibility`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBER = r"(?:0|[1-9][0-9]*)"
_IDENTIFIER = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_PRE = rf"{_IDENTIFIER}(?:\.{_IDENTIFIER})*"
_VERSION = re.compile(rf"[v=\s]*({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_PRE}))?(?:\+[0-9A-Za-z.-]+)?\Z")
_PARTIAL = (
    rf"[v=\s]*(?P<major>{_NUMBER}|[xX*])(?:\.(?P<minor>{_NUMBER}|[xX*])(?:\.(?P<patch>{_NUMBER}|[xX*])"
    rf"(?:-(?P<pre>{_PRE}))?(?:\+[0-9A-Za-z.-]+)?)?)?"
)
_COMPARATOR = re.compile(rf"(?P<operator>\^|~>?|>=|<=|>|<|=)?\s*{_PARTIAL}\Z")
_HYPHEN = re.compile(r"(?P<low>\S+)\s+-\s+(?P<high>\S+)\Z")
_OPERATOR_GAP = re.compile(r"(\^|~>?|>=|<=|>|<|=)\s+")


@dataclass(frozen=True, slots=True)
class Version:
    """A semantic version; build metadata is dropped."""

    major: int
    minor: int
    patch: int
    pre: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Version:
        """Raises ValueError for what is no semantic version."""
        found = _VERSION.match(text.strip())
        if found is None:
            raise ValueError(f"{text!r} is no semantic version")
        major, minor, patch, pre = found.groups()
        return cls(int(major), int(minor), int(patch), tuple(pre.split(".")) if pre else ())

    @property
    def release(self) -> tuple[int, int, int]:
        return self.major, self.minor, self.patch

    def key(self) -> tuple[object, ...]:
        """Sort key: precedence by semantic versioning 2.0.0, section 11."""
        if not self.pre:
            return (*self.release, 1)
        return (*self.release, 0, *((0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.pre))


@dataclass(frozen=True, slots=True)
class _Bound:
    operator: str  # one of < <= > >= =
    version: Version

    def admits(self, version: Version) -> bool:
        left, right = version.key(), self.version.key()
        match self.operator:
            case "<":
                return left < right
            case "<=":
                return left <= right
            case ">":
                return left > right
            case ">=":
                return left >= right
            case _:
                return left == right


class Range:
    """An npm-style range: `^1.2 || ~3.4 || >=5 <6 || 1.x || 1.2 - 2.3`. Raises ValueError if it is none."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._alternatives = [_alternative(part.strip()) for part in text.split("||")]

    def admits(self, version: str) -> bool:
        """Whether the version satisfies the range; a pre-release only where a bound of its release has one."""
        wanted = Version.parse(version)
        for bounds in self._alternatives:
            if all(bound.admits(wanted) for bound in bounds) and (
                not wanted.pre or any(bound.version.pre and bound.version.release == wanted.release for bound in bounds)
            ):
                return True
        return False


def _alternative(text: str) -> list[_Bound]:
    hyphen = _HYPHEN.match(text)
    if hyphen is not None:
        low, high = hyphen["low"], hyphen["high"]
        return [*_bounds(low, f">={low}"), *_bounds(high, f"<={high}")]
    comparators = _OPERATOR_GAP.sub(r"\1", text).split()
    return [bound for comparator in comparators for bound in _bounds(comparator, comparator)]


def _bounds(written: str, comparator: str) -> list[_Bound]:
    found = _COMPARATOR.match(comparator)
    if found is None:
        raise ValueError(f"{written!r} is no version and no comparator")
    operator = {"~>": "~", None: "="}.get(found["operator"], found["operator"])
    parts = [
        None if part in (None, "x", "X", "*") else int(part)
        for part in (found["major"], found["minor"], found["patch"])
    ]
    major, minor, patch = parts
    if (major is None and minor is not None) or (minor is None and patch is not None):
        # npm reads `^1.x.2` and `1.x.2 - 3` as if the wildcard ended the version, and refuses it elsewhere.
        if operator not in ("^", "~") and written == comparator:
            raise ValueError(f"{written!r} has a number after a wildcard")
        minor, patch = (None if major is None else minor), None
    pre = tuple(found["pre"].split(".")) if found["pre"] and patch is not None else ()
    if major is None:
        return [_Bound("<", Version(0, 0, 0, ("0",)))] if operator in ("<", ">") else [_Bound(">=", Version(0, 0, 0))]
    low = Version(major, minor or 0, patch or 0, pre)
    if minor is None:
        above = Version(major + 1, 0, 0, ("0",))
    elif patch is None:
        above = Version(major, minor + 1, 0, ("0",))
    else:
        above = low
    if operator == "^":
        if major > 0 or minor is None:
            above = Version(major + 1, 0, 0, ("0",))
        elif minor > 0 or patch is None:
            above = Version(0, minor + 1, 0, ("0",))
        else:
            above = Version(0, 0, patch + 1, ("0",))
        return [_Bound(">=", low), _Bound("<", above)]
    if operator == "~":
        above = Version(major + 1, 0, 0, ("0",)) if minor is None else Version(major, minor + 1, 0, ("0",))
        return [_Bound(">=", low), _Bound("<", above)]
    if patch is not None:
        return [_Bound(str(operator), low)]
    # An incomplete version stands for all that complete it.
    match operator:
        case ">":
            return [_Bound(">=", Version(*above.release))]
        case ">=":
            return [_Bound(">=", low)]
        case "<":
            return [_Bound("<", Version(*low.release, ("0",)))]
        case "<=":
            return [_Bound("<", above)]
        case _:
            return [_Bound(">=", low), _Bound("<", above)]
