"""Paths as text: the one spelling, names that some system cannot hold, junk."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundler.errors import BundlerError
from bundler.paths import (
    JUNK,
    code_unit_key,
    collisions,
    fold,
    junk,
    normalize,
    printable,
    unportable,
    windows_character,
    windows_length,
)


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("a", "a"),
        ("a/b/c.yaml", "a/b/c.yaml"),
        ("./a", "a"),
        ("././a/./b", "a/b"),
        ("a//b///c", "a/b/c"),
        ("a/", "a"),
        ("a/b/.", "a/b"),
        (".", ""),
        ("./", ""),
        ("", ""),
        (".hidden/x", ".hidden/x"),
        ("...", "..."),
        ("..a/b..", "..a/b.."),
        ("a b/ä🚀", "a b/ä🚀"),
        ("aa:b", "aa:b"),
        ("1:b", "1:b"),
        ("ä:b", "ä:b"),
        ("a/C:/b", "a/C:/b"),
        ("~/a", "~/a"),
        ("a\u2028b", "a\u2028b"),
    ],
)
def test_a_path_has_one_spelling(path: str, normal: str) -> None:
    assert normalize(path) == normal
    assert normalize(normal) == normal


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/", "absolute-path-forbidden"),
        ("/a", "absolute-path-forbidden"),
        ("//host/share", "absolute-path-forbidden"),
        ("C:", "absolute-path-forbidden"),
        ("C:/a", "absolute-path-forbidden"),
        ("c:a", "absolute-path-forbidden"),
        ("C:\\a", "absolute-path-forbidden"),
        ("/../a", "absolute-path-forbidden"),
        ("..", "path-outside-provider"),
        ("../a", "path-outside-provider"),
        ("a/..", "path-outside-provider"),
        ("a/../b", "path-outside-provider"),
        ("./../a", "path-outside-provider"),
        ("a//../b", "path-outside-provider"),
        ("a\\b", "path-not-portable"),
        ("\\\\host\\share", "path-not-portable"),
        ("..\\a", "path-not-portable"),
        ("a\nb", "path-not-portable"),
        ("a\n", "path-not-portable"),
        ("a\x00b", "path-not-portable"),
        ("a\x7fb", "path-not-portable"),
        ("a\x85b", "path-not-portable"),
        ("a\tb", "path-not-portable"),
    ],
)
def test_a_path_that_is_none_of_a_provider_is_refused(path: str, code: str) -> None:
    with pytest.raises(BundlerError) as caught:
        normalize(path)
    assert caught.value.code == code
    assert repr(path) in caught.value.message


@given(st.lists(st.sampled_from(["a", "b.c", ".", "", "..", "..."]), min_size=1, max_size=6))
@settings(deadline=None)
def test_a_normal_path_has_neither_dots_nor_empty_segments(segments: list[str]) -> None:
    path = "/".join(segments)
    if path.startswith("/") or ".." in segments:
        with pytest.raises(BundlerError):
            normalize(path)
    else:
        assert normalize(path).split("/") == ([part for part in segments if part not in ("", ".")] or [""])


# Junk


@pytest.mark.parametrize(
    ("name", "what"),
    [
        (".DS_Store", "macOS folder settings"),
        ("._SKILL.md", "macOS resource fork"),
        ("Thumbs.db", "Windows thumbnails"),
        ("__pycache__", "Python bytecode"),
        ("module.cpython-313.pyc", "Python bytecode"),
        (".git", "git's own files"),
        (".SKILL.md.swp", "editor's swap file"),
        (".SKILL.md.swo", "editor's swap file"),
        (".SKILL.md.swa", "editor's swap file"),
        ("SKILL.md.swp", "editor's swap file"),
        ("SKILL.md.swo", "editor's swap file"),
        ("SKILL.md.kate-swp", "editor's swap file"),
        (".#SKILL.md", "editor's lock file"),
        ("#SKILL.md#", "editor's autosave file"),
        ("SKILL.md~", "editor's backup file"),
    ],
)
def test_what_is_junk_and_what_it_is(name: str, what: str) -> None:
    kind = junk(name)
    assert kind is not None
    assert kind.what == what


@pytest.mark.parametrize(
    "name",
    [
        "SKILL.md",
        ".hidden",
        ".gitignore",
        ".gitattributes",
        ".github",
        ".env",
        "thumbs.db",
        ".ds_store",
        "a.py",
        "a.PYC",
        "pyc",
        "pycache",
        "a.swp.md",
        "a.swa",
        ".a.swq",
        "#a",
        "a#",
        "~a",
        "_.a",
        "node_modules",
        "a.bak",
        "",
    ],
)
def test_what_is_no_junk(name: str) -> None:
    assert junk(name) is None


def test_every_pattern_of_the_table_says_what_it_is() -> None:
    patterns = [kind.pattern for kind in JUNK]
    assert len(set(patterns)) == len(patterns)
    assert all(kind.pattern and kind.what for kind in JUNK)


# Names that some system cannot hold


RESERVED = ["con", "prn", "aux", "nul", "conin$", "conout$", *(f"{port}{digit}" for port in ("com", "lpt") for digit in "0123456789¹²³")]  # fmt: skip


@pytest.mark.parametrize("name", RESERVED)
def test_names_that_windows_reserves_are_not_portable(name: str) -> None:
    for path in (
        name,
        name.upper(),
        name.title(),
        f"{name}.txt",
        f"{name}.tar.gz",
        f"{name} .txt",
        f"a/{name}/b",
        f"a/{name}",
    ):
        reason = unportable(path)
        assert reason is not None
        assert "reserves" in reason


@pytest.mark.parametrize(
    "path", ["con1", "xcon", "com", "com10", "lpt", "com¼", "a.con", ".con", "co n", "nul_", "conin", "a/b/cone.md"]
)
def test_names_that_only_resemble_reserved_ones_are_portable(path: str) -> None:
    assert unportable(path) is None


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("a\\b", "a backslash"),
        ("a\x00b", "a control character"),
        ("a\nb", "a control character"),
        ("a\x7f", "a control character"),
        ("a\x9f", "a control character"),
        ("a.", "`a.` ends in a dot or a blank"),
        ("a ", "`a ` ends in a dot or a blank"),
        ("a/b./c", "`b.` ends in a dot or a blank"),
        ("a /b", "`a ` ends in a dot or a blank"),
        ("a...", "`a...` ends in a dot or a blank"),
        ("a\udcff", "not valid UTF-8"),
    ],
)
def test_what_else_is_not_portable(path: str, reason: str) -> None:
    assert reason in (unportable(path) or "")


@pytest.mark.parametrize(
    "path", ["a", "a.b", ".a", " a", "a b", "a/b/c", "ä🚀", "-", "a:b", "a*b?", "a\u2028b", "~", "a..b"]
)
def test_what_is_portable(path: str) -> None:
    assert unportable(path) is None


@pytest.mark.parametrize(
    ("path", "character"),
    [("a", None), ("a/b.c", None), ("a\\b", None), *((f"a/b{one}c?", one) for one in '<>:"|?*')],
)
def test_the_first_character_that_windows_cannot_hold_in_a_name(path: str, character: str | None) -> None:
    assert windows_character(path) == character


# Collisions


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a", "A"),
        ("README.md", "readme.md"),
        ("é", "e\u0301"),
        ("é", "E\u0301"),
        ("É", "é"),
        ("straße", "STRASSE"),
        ("σ", "ς"),
        ("ﬁ", "FI"),
        ("\u212b", "å"),
        ("한", "\u1112\u1161\u11ab"),
        ("a/b/c", "A/B/C"),
    ],
)
def test_paths_that_fold_to_one(first: str, second: str) -> None:
    assert fold(first) == fold(second)
    assert (first, second) in list(collisions([first, second]))
    assert (second, first) in list(collisions([second, first]))


@pytest.mark.parametrize(
    ("first", "second"), [("a", "b"), ("a", "ä"), ("a b", "ab"), ("1", "¹"), ("o", "0"), ("a/b", "a-b")]
)
def test_paths_that_do_not_fold_to_one(first: str, second: str) -> None:
    assert fold(first) != fold(second)
    assert not list(collisions([first, second]))


@pytest.mark.parametrize(
    ("paths", "pairs"),
    [
        ([], []),
        (["a", "a", "a/b"], []),
        (["a/x", "a/y", "b/x"], []),
        (["a/x", "A/y"], [("a", "A")]),
        (["a/x", "A/y", "A/z", "a/w"], [("a", "A")]),
        (["a/x", "A/X"], [("a/x", "A/X"), ("a", "A")]),
        (["docs", "Docs/x"], [("docs", "Docs")]),
        (["x/é/a", "x/e\u0301/b"], [("x/é", "x/e\u0301")]),
        (["a", "A", "b", "B"], [("a", "A"), ("b", "B")]),
        (["ab", "Ab", "aB"], [("ab", "Ab"), ("ab", "aB")]),
    ],
)
def test_files_and_the_folders_on_the_way_to_them_collide(paths: list[str], pairs: list[tuple[str, str]]) -> None:
    assert list(collisions(paths)) == pairs


@given(st.lists(st.text("aAbBéÉ\u0301/", min_size=1, max_size=4).map(lambda path: path.strip("/") or "a"), max_size=8))
@settings(deadline=None)
def test_paths_collide_where_two_differ_and_fold_to_one(paths: list[str]) -> None:
    parts = {"/".join(path.split("/")[: count + 1]) for path in paths for count in range(path.count("/") + 1)} - {""}
    clash = len({fold(part) for part in parts}) < len(parts)
    assert bool(list(collisions(paths))) == clash


# Lengths and orders


def test_the_length_under_windows_counts_utf16_code_units() -> None:
    # C:\Users\runneradmin\AppData\Local\Programs\Python\Python313\Lib\site-packages\agent_graph_providers
    prefix = 9 + 12 + 8 + 6 + 9 + 7 + 10 + 4 + 14 + 21
    assert windows_length("", "") == prefix + len("/p_/bundle/")
    assert windows_length("acme", "a/b.md") == prefix + len("/p_acme/bundle/a/b.md")
    assert windows_length("acme", "ä") == windows_length("acme", "a")
    assert windows_length("acme", "🚀") == windows_length("acme", "ab")


def test_the_order_of_utf16_code_units() -> None:
    ordered = [
        "",
        "-",
        "A",
        "Z",
        "_",
        "a",
        "a-",
        "a/",
        "aa",
        "\x7f",
        "é",
        "\u2028",
        "\U00010000",
        "🚀",
        "\ue000",
        "\uffff",
    ]
    shuffled = list(ordered)
    random.Random(1).shuffle(shuffled)
    assert sorted(shuffled, key=code_unit_key) == ordered


def test_a_name_that_is_no_utf8_is_spelled_out_for_messages() -> None:
    assert printable("a/\udcff\udc80.md") == "a/\\udcff\\udc80.md"
    assert printable("ä🚀/x") == "ä🚀/x"
