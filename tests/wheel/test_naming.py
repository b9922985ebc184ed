"""Ids and versions → names of Python packaging: read back, in normal form, none for two."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version as PythonVersion

from bundler.errors import CODES, BundlerError
from bundler.protocol.identifiers import MAX_ID, is_id
from bundler.protocol.versions import Version
from bundler.wheel.identity import deviations, identify
from bundler.wheel.naming import (
    MAX_SLUG,
    MAX_VERSION,
    PREFIX,
    claimed_by,
    distribution_name,
    id_of,
    module_name,
    python_version,
    slug,
)
from bundler.wheel.settings import MAX_DISTRIBUTION, Settings

SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")
INSIDE = "abcdefghijklmnopqrstuvwxyz0123456789._/-"

# Ids of any length, and those that are hard: long, and mostly of separators and the letters that stand for them.
ids = st.one_of(
    st.from_regex(r"[a-z0-9](?:[a-z0-9._/-]{0,158}[a-z0-9])?", fullmatch=True),
    st.from_regex(r"[xhsdu0](?:[xhsdu/._-]{0,158}[xhsdu0])?", fullmatch=True),
    st.text(INSIDE, min_size=MAX_ID - 2, max_size=MAX_ID - 2).map(lambda inside: f"z{inside}z"),
)


@given(ids)
@settings(max_examples=150, deadline=None)
@example("z" + "_/" * 79 + "z")
@example("z" + "-a.b_c/" * 22 + "z-a.z")
@example("z_" * 79 + "zz")
@example("x" * MAX_ID)
def test_names_of_every_id(provider_id: str) -> None:
    assert is_id(provider_id)
    written = slug(provider_id)
    assert id_of(written) == provider_id
    assert SLUG.match(written)
    distribution = distribution_name(provider_id)
    assert canonicalize_name(distribution, validate=True) == distribution
    assert len(distribution) <= MAX_DISTRIBUTION
    assert claimed_by(distribution) == provider_id
    assert module_name(provider_id).isidentifier()
    assert canonicalize_name(module_name(provider_id).removeprefix("p_")) == written
    longest = "1.0.0-beta." + "1" * (MAX_VERSION - 11)
    identity = identify(provider_id, longest, Settings())
    assert len(identity.wheel_name) < 255
    assert len(identity.sdist_name) < 255
    assert parse_wheel_filename(identity.wheel_name)[0] == distribution


def test_no_two_short_ids_share_a_name() -> None:
    """Every id of up to five characters of those that the escape is made from."""
    found = [
        text
        for length in range(1, 6)
        for text in map("".join, itertools.product("xhs0-/._", repeat=length))
        if is_id(text)
    ]
    assert len(found) > 9000
    slugs = {slug(each) for each in found}
    assert len(slugs) == len(found)
    assert len({canonicalize_name(distribution_name(each)) for each in found}) == len(found)
    # On file systems that fold case, too: there is no case in them.
    assert len({module_name(each).lower() for each in found}) == len(found)
    assert all(id_of(slug(each)) == each for each in found)


@pytest.mark.parametrize(
    ("provider_id", "written"),
    [
        ("acme/release", "acme-release"),
        ("acme/my-tool", "acme-my-x-tool"),
        ("a.b", "a-xd-b"),
        ("a_b", "a-xu-b"),
        ("a--b", "a-xhh-b"),
        ("a//b", "a-xss-b"),
        ("a-/b", "a-xhs-b"),
        ("a/x/b", "a-xx-b"),
        ("a/xd/b", "a-xxd-b"),
        ("a/xxd/b", "a-xxxd-b"),
        ("a/xy/b", "a-xy-b"),
        ("x", "xx"),
        ("x/a", "xx-a"),
        ("x-a", "xx-x-a"),
        ("0/1", "0-1"),
        ("release/x0123456789ab", "release-x0123456789ab"),
    ],
)
def test_examples(provider_id: str, written: str) -> None:
    assert slug(provider_id) == written
    assert distribution_name(provider_id) == f"agent-graph-provider-{written}"
    assert module_name(provider_id) == "p_" + written.replace("-", "_")


def test_an_id_whose_escape_is_too_long_is_a_number() -> None:
    provider_id = "a-" * 79 + "z"
    assert slug("a-" * 41 + "a") == "a-x-" * 41 + "a"
    assert len("a-x-" * 41 + "a") == MAX_SLUG
    assert re.match(r"x-[0-9a-z]+\Z", slug("a-" * 42 + "a"))
    assert re.match(r"x-[0-9a-z]+\Z", slug(provider_id))
    assert id_of(slug(provider_id)) == provider_id


@given(
    st.one_of(
        st.from_regex(r"[a-z0-9]{1,4}(?:-[a-z0-9]{1,4}){0,4}", fullmatch=True),
        st.from_regex(r"[xhsdu]{1,3}(?:-[xhsdu]{1,3}){0,5}", fullmatch=True),
        st.from_regex(r"x-[0-9a-z]{1,180}", fullmatch=True),
        st.text("xhsdu-0aA_./ ", max_size=8),
        st.text(max_size=8),
    )
)
@settings(max_examples=300, deadline=None)
@example("")
@example("-a")
@example("a-")
@example("A")
@example("a b")
@example("x")
@example("x-x-a")
@example("x-1")
@example("x-1_0")
@example("x-١")
@example("x-+1")
@example("x-" + "z" * 168)
@example("x-" + "z" * 5000)
def test_what_no_id_gives_is_refused(text: str) -> None:
    try:
        found = id_of(text)
    except ValueError:
        return
    assert is_id(found)
    assert slug(found) == text


@pytest.mark.parametrize(
    "text", ["", "-", "-a", "a-", "A", "a b", "a_b", "x", "x-x-a", "x-1", "x-a-", "a-x", "a-x-x-b", "é", "x-0", "a\n"]
)
def test_refused(text: str) -> None:
    with pytest.raises(ValueError, match="stands for no Provider id"):
        id_of(text)
    assert claimed_by(PREFIX + text) is None


def test_an_id_that_would_be_longer_than_ids_are_is_refused() -> None:
    with pytest.raises(ValueError, match="stands for no Provider id"):
        id_of("a" * (MAX_ID + 1))
    assert id_of("a" * MAX_ID) == "a" * MAX_ID


def test_claimed_by() -> None:
    assert claimed_by("agent-graph-provider-acme-my-x-tool") == "acme/my-tool"
    assert claimed_by("agent-graph-provider") is None
    assert claimed_by("agent-graph-provider-") is None
    assert claimed_by("acme-release") is None
    assert claimed_by("other-agent-graph-provider-acme") is None


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.0.0", "0.0.0"),
        ("1.2.3", "1.2.3"),
        ("10.20.30", "10.20.30"),
        ("1.0.0-alpha", "1.0.0a0"),
        ("1.0.0-alpha.1", "1.0.0a1"),
        ("1.0.0-beta", "1.0.0b0"),
        ("1.0.0-beta.11", "1.0.0b11"),
        ("1.0.0-rc", "1.0.0rc0"),
        ("1.0.0-rc.2", "1.0.0rc2"),
    ],
)
def test_versions_that_map(version: str, expected: str) -> None:
    assert python_version(version) == expected
    assert str(PythonVersion(expected)) == expected
    assert deviations("acme/demo", version, distribution_name("acme/demo"), expected) == ()


@pytest.mark.parametrize(
    "version",
    [
        *(f"1.0.0-{pre}" for pre in ("alpha.0", "alpha1", "a.1", "b.1", "beta.0", "rc.0", "rc1")),
        *(f"1.0.0-{pre}" for pre in ("pre.1", "preview.1", "c.1", "RC.2", "Alpha.1", "dev", "dev.3")),
        *(f"1.0.0-{pre}" for pre in ("5", "0", "post.1", "r.4", "rev.4", "20261201", "01", "a..b", "alpha.", "rc-1")),
        *(f"1.0.0-{pre}" for pre in ("alpha.1.2", "alpha.beta", "0.3.7", "x.7.z.92", "SNAPSHOT", "next.1", "-", "...")),
        "1.0.0+build.5",
        "1.0.0-rc.1+5",
        "1.0.0-alpha.01",
        "1.0.0-rc.١",
        "1.0.0\n",
        "1.0",
        "v1.0.0",
    ],
)
def test_versions_that_do_not_map(version: str) -> None:
    with pytest.raises(BundlerError) as caught:
        python_version(version)
    assert caught.value.code == "wheel-version-unmappable"
    assert version in caught.value.message
    assert caught.value.hint == CODES["wheel-version-unmappable"]
    assert "[tool.agent-bundler]" in str(caught.value.hint)
    assert identify("acme/demo", version, Settings(version="1.0.0rc7")).version == "1.0.0rc7"
    assert deviations("acme/demo", version, distribution_name("acme/demo"), "1.0.0rc7") == ("version",)


def test_a_version_that_does_not_fit_into_a_file_name() -> None:
    assert python_version("1.0." + "1" * (MAX_VERSION - 4)) == "1.0." + "1" * (MAX_VERSION - 4)
    with pytest.raises(BundlerError, match=f"is longer than {MAX_VERSION} characters") as caught:
        python_version("1.0." + "1" * (MAX_VERSION - 3))
    assert caught.value.code == "wheel-version-unmappable"


def test_mapped_versions_keep_their_order_and_do_not_meet() -> None:
    releases = ["0.0.0", "0.0.1", "0.1.0", "0.10.0", "0.9.9", "1.0.0", "1.0.10", "1.0.9", "9.0.0", "10.0.0"]
    labels = ["", *(f"-{label}{n}" for label in ("alpha", "beta", "rc") for n in ("", ".1", ".2", ".9", ".10", ".11"))]
    versions = [release + label for release in releases for label in labels]
    known = [(Version.parse(each).key(), PythonVersion(python_version(each))) for each in versions]
    for (ours, theirs), (our_other, their_other) in itertools.product(known, repeat=2):
        assert (ours < our_other) == (theirs < their_other)
        assert (ours == our_other) == (theirs == their_other)
    assert len({python_version(each) for each in versions}) == len(versions)


@given(st.from_regex(r"(0|[1-9][0-9]{0,3})(\.(0|[1-9][0-9]{0,3})){2}(-[0-9A-Za-z.-]{1,12})?", fullmatch=True))
@settings(max_examples=150, deadline=None)
def test_any_version_is_mapped_to_a_normal_form_or_refused(version: str) -> None:
    try:
        mapped = python_version(version)
    except BundlerError as error:
        assert error.code == "wheel-version-unmappable"  # noqa: PT017 - either may happen
        return
    assert str(PythonVersion(mapped)) == mapped
    assert Version.parse(version).release == PythonVersion(mapped).release
    assert bool(Version.parse(version).pre) == PythonVersion(mapped).is_prerelease
