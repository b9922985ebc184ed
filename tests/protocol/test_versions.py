"""Semantic versions and npm-style ranges."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundler.protocol import PROTOCOL_VERSION
from bundler.protocol.versions import Range, Version

# Range → versions that it admits, and versions that it does not.
RANGES: dict[str, tuple[str, str]] = {
    # Caret: what does not change the left-most number that is not zero.
    "^0.3.0": ("0.3.0 0.3.1 0.3.99", "0.2.9 0.4.0 1.0.0 0.3.0-rc.1 0.3.1-rc.1 0.4.0-0"),
    "^0.3": ("0.3.0 0.3.9", "0.2.9 0.4.0 0.3.0-rc.1"),
    "^0": ("0.0.0 0.3.1 0.99.0", "1.0.0 1.0.0-0"),
    "^0.0": ("0.0.0 0.0.9", "0.1.0"),
    "^0.0.3": ("0.0.3", "0.0.2 0.0.4 0.1.0"),
    "^0.0.0": ("0.0.0", "0.0.1"),
    "^1.2.3": ("1.2.3 1.2.4 1.9.9", "1.2.2 2.0.0 0.9.9 2.0.0-0 1.3.0-a"),
    "^1": ("1.0.0 1.9.9", "0.9.9 2.0.0"),
    "^1.2": ("1.2.0 1.9.9", "1.1.9 2.0.0"),
    "^1.2.x": ("1.2.0 1.9.9", "1.1.9 2.0.0"),
    "^1.x": ("1.0.0 1.9.9", "0.9.9 2.0.0"),
    "^0.x": ("0.0.0 0.9.9", "1.0.0"),
    "^x": ("0.0.0 9.9.9", "1.0.0-a"),
    "^1.2.3-beta.2": ("1.2.3-beta.2 1.2.3-beta.10 1.2.3-rc 1.2.3 1.9.0", "1.2.3-beta.1 1.2.3-alpha 1.2.4-beta.3 2.0.0"),
    # Tilde: what does not change the minor number, if one is named.
    "~1.2": ("1.2.0 1.2.9", "1.1.9 1.3.0 2.2.0 1.3.0-0"),
    "~1.2.3": ("1.2.3 1.2.9", "1.2.2 1.3.0"),
    "~1": ("1.0.0 1.9.9", "0.9.9 2.0.0"),
    "~0": ("0.0.0 0.9.9", "1.0.0"),
    "~0.0.1": ("0.0.1 0.0.9", "0.0.0 0.1.0"),
    "~>1.2": ("1.2.0 1.2.9", "1.1.9 1.3.0"),
    "~ 1.2": ("1.2.0 1.2.9", "1.1.9 1.3.0"),
    "~1.2.3-beta": ("1.2.3-beta 1.2.3-beta.1 1.2.3 1.2.4", "1.2.3-alpha 1.2.4-beta 1.3.0"),
    # Wildcards.
    "1.x": ("1.0.0 1.9.9", "0.9.9 2.0.0 1.0.0-a"),
    "1.X": ("1.0.0 1.9.9", "0.9.9 2.0.0"),
    "1.*": ("1.0.0 1.9.9", "0.9.9 2.0.0"),
    "1.2.x": ("1.2.0 1.2.9", "1.1.9 1.3.0"),
    "1.x.x": ("1.0.0 1.9.9", "0.9.9 2.0.0"),
    "1": ("1.0.0 1.9.9", "0.9.9 2.0.0"),
    "1.2": ("1.2.0 1.2.9", "1.1.9 1.3.0"),
    "*": ("0.0.0 1.2.3 99.0.0", "1.2.3-a 0.0.0-0"),
    "x": ("0.0.0 1.2.3", "1.2.3-a"),
    "": ("0.0.0 1.2.3", "1.2.3-a"),
    "  ": ("0.0.0 1.2.3", "1.2.3-a"),
    # One version.
    "1.2.3": ("1.2.3 v1.2.3 1.2.3+build", "1.2.2 1.2.4 1.2.3-a"),
    "=1.2.3": ("1.2.3", "1.2.4"),
    "= 1.2.3": ("1.2.3", "1.2.4"),
    "v1.2.3": ("1.2.3", "1.2.4"),
    "1.2.3+build": ("1.2.3 1.2.3+other", "1.2.4"),
    "1.2.3-a": ("1.2.3-a", "1.2.3 1.2.3-a.1 1.2.3-b"),
    # Comparators; an incomplete version stands for all that complete it.
    ">=1.2.3": ("1.2.3 1.2.4 2.0.0", "1.2.2 2.0.0-a 1.2.3-a"),
    ">1.2.3": ("1.2.4 2.0.0", "1.2.3 1.2.4-a"),
    "<1.2.3": ("1.2.2 0.0.0", "1.2.3 1.2.3-a"),
    "<=1.2.3": ("1.2.3 1.2.2", "1.2.4 1.2.3-a"),
    ">=1.2": ("1.2.0 2.0.0", "1.1.9"),
    ">1.2": ("1.3.0 2.0.0", "1.2.0 1.2.9"),
    ">1": ("2.0.0", "1.0.0 1.9.9"),
    "<1.2": ("1.1.9", "1.2.0 1.2.0-a"),
    "<=1.2": ("1.2.0 1.2.9", "1.3.0 1.3.0-0"),
    "<=1": ("1.9.9", "2.0.0"),
    "<1": ("0.9.9", "1.0.0 1.0.0-a"),
    ">= 20": ("20.0.0 22.1.0", "19.9.9"),
    ">=x": ("0.0.0", "1.0.0-a"),
    "<x": ("", "0.0.0 1.0.0"),
    ">*": ("", "0.0.0 1.0.0"),
    # Several comparators: all of them.
    ">=1.2 <2": ("1.2.0 1.9.9", "1.1.9 2.0.0 2.0.0-0"),
    ">=1.2.0   <1.5": ("1.2.0 1.4.9", "1.5.0"),
    ">1 <1": ("", "0.9.9 1.0.0 2.0.0"),
    "1.2.3 2.0.0": ("", "1.2.3 2.0.0"),
    "^1 <1.5": ("1.0.0 1.4.9", "1.5.0"),
    # Hyphen: both ends, an incomplete upper end with all that complete it.
    "1.2.3 - 2.3.4": ("1.2.3 2.0.0 2.3.4", "1.2.2 2.3.5"),
    "1.2 - 2.3.4": ("1.2.0 2.3.4", "1.1.9 2.3.5"),
    "1.2.3 - 2.3": ("1.2.3 2.3.9", "1.2.2 2.4.0 2.4.0-0"),
    "1.2.3 - 2": ("1.2.3 2.9.9", "3.0.0"),
    "1 - 2": ("1.0.0 2.9.9", "0.9.9 3.0.0"),
    "1.2.3-a - 1.2.3": ("1.2.3-a 1.2.3-b 1.2.3", "1.2.2 1.2.4 1.2.3-Z"),
    # Alternatives: one of them.
    "^1 || ^3": ("1.5.0 3.0.0", "2.0.0 4.0.0"),
    "^0.3.0||>=20": ("0.3.1 20.0.0", "0.4.0 19.0.0"),
    "<1 || 2.x || >=4": ("0.9.0 2.5.0 4.0.0", "1.0.0 3.0.0"),
    "1 - 2 || ^4": ("1.0.0 2.9.9 4.1.0", "3.0.0 5.0.0"),
    "1 ||": ("1.0.0 5.0.0", "1.0.0-a"),
    # A pre-release is admitted only where a comparator of the same release names one.
    ">=1.2.3-a <1.2.4": ("1.2.3-a 1.2.3-b 1.2.3", "1.2.4 1.2.4-a"),
    ">1.2.3-a.3": ("1.2.3-a.7 1.2.3-b 3.4.5", "1.2.3-a.3 3.4.5-a.9"),
    ">=1.0.0-0": ("1.0.0-0 1.0.0-a 1.0.0 2.0.0", "0.9.9 2.0.0-0"),
}


@pytest.mark.parametrize(
    ("text", "version", "admitted"),
    [
        (text, version, admitted)
        for text, versions in RANGES.items()
        for admitted, listed in ((True, versions[0]), (False, versions[1]))
        for version in listed.split()
    ],
)
def test_what_a_range_admits(text: str, version: str, admitted: bool) -> None:
    assert Range(text).admits(version) == admitted
    assert Range(f"  {text}  ").admits(version) == admitted
    assert Range(f"{text} || 77.77.77").admits(version) == admitted


@pytest.mark.parametrize(
    "text",
    [
        "abc",
        "latest",
        "^",
        ">",
        ">=",
        "~",
        "1.2.3.4",
        "1..2",
        "01.2.3",
        "1.02.3",
        "1.2.03",
        ">>1",
        "^^1",
        "==>1",
        "=>1",
        "<>1",
        "!=1",
        "!1",
        "1.2.3-",
        "1.2.3-01",
        "1.2.3-a..b",
        "1.2.3-ä",
        "-1",
        "1.-2.3",
        ">=1.2.3,<2",
        "1 || abc",
        "abc || 1",
        "x.1.2",
        "1.x.2",
        "|",
        "1.2.3 -",
        "- 1.2.3",
        "1 - 2 - 3",
        "١.0.0",
        "http://example.com/a.tgz",
        "workspace:*",
        "1,2",
        "1.2.3 and 2",
    ],
)
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the type is the contract
        Range(text)


def test_the_protocols_own_version() -> None:
    assert PROTOCOL_VERSION == "0.3.1"
    assert Range("^0.3.0").admits(PROTOCOL_VERSION)
    assert not Range("^0.2.0").admits(PROTOCOL_VERSION)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("1.2.3", Version(1, 2, 3)),
        ("0.0.0", Version(0, 0, 0)),
        ("10.20.30", Version(10, 20, 30)),
        ("1.2.3-alpha", Version(1, 2, 3, ("alpha",))),
        ("1.2.3-alpha.1.x-y", Version(1, 2, 3, ("alpha", "1", "x-y"))),
        ("1.2.3-0", Version(1, 2, 3, ("0",))),
        ("1.2.3--", Version(1, 2, 3, ("-",))),
        ("1.2.3-0a", Version(1, 2, 3, ("0a",))),
        ("1.2.3+build.5", Version(1, 2, 3)),
        ("1.2.3-a+b-c", Version(1, 2, 3, ("a",))),
    ],
)
def test_a_version_is_read_and_its_build_metadata_dropped(text: str, version: Version) -> None:
    assert Version.parse(text) == version


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1.2",
        "1.2.x",
        "1.2.3.4",
        "01.2.3",
        "1.2.3-",
        "1.2.3-01",
        "1.2.3-a..b",
        "a",
        "1.2.3 4",
        "١.2.3",
        "1.2.-3",
    ],
)
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no semantic version"):
        Version.parse(text)


ORDERED = [
    "0.0.0-0",
    "0.0.0",
    "0.0.1",
    "0.2.0",
    "0.10.0",
    "1.0.0-0",
    "1.0.0-2",
    "1.0.0-10",
    "1.0.0-10.0",
    "1.0.0--",
    "1.0.0-A",
    "1.0.0-Z",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.1.0",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1-a",
    "1.0.1",
    "2.0.0",
    "10.0.0",
]


def test_versions_are_ordered_by_precedence() -> None:
    for seed in range(10):
        shuffled = list(ORDERED)
        random.Random(seed).shuffle(shuffled)
        assert sorted(shuffled, key=lambda text: Version.parse(text).key()) == ORDERED


@pytest.mark.parametrize(("lower", "higher"), list(itertools.pairwise(ORDERED)))
def test_each_version_is_below_the_next(lower: str, higher: str) -> None:
    assert Version.parse(lower).key() < Version.parse(higher).key()


RELEASE = st.tuples(*[st.integers(0, 3)] * 3)


@given(RELEASE, RELEASE)
@settings(deadline=None)
def test_comparators_agree_with_the_order_of_releases(bound: tuple[int, ...], release: tuple[int, ...]) -> None:
    written, version = ".".join(map(str, bound)), ".".join(map(str, release))
    assert Range(f">={written}").admits(version) == (release >= bound)
    assert Range(f"<{written}").admits(version) == (release < bound)
    assert Range(f">{written}").admits(version) == (release > bound)
    assert Range(f"<={written}").admits(version) == (release <= bound)
    assert Range(written).admits(version) == (release == bound)
    assert Range(f"<{written} || >{written}").admits(version) == (release != bound)
    assert Range(f"~{written}").admits(version) == (release >= bound and release[:2] == bound[:2])
    kept = next((index + 1 for index, part in enumerate(bound) if part), 3)
    assert Range(f"^{written}").admits(version) == (release >= bound and release[:kept] == bound[:kept])


@given(st.text("0123x*^~<>=|-. va+", max_size=12))
@settings(deadline=None, max_examples=300)
def test_any_text_is_a_range_or_refused_as_none(text: str) -> None:
    try:
        admitted = Range(text).admits("1.2.3")
    except ValueError:
        return
    assert admitted in (True, False)
