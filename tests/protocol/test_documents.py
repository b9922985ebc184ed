"""What bytes become: YAML 1.2 core, JSON, front matter, their bounds, and where each value stands."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundler.errors import BundlerError
from bundler.protocol.documents import (
    MAX_BYTES,
    MAX_LEVELS,
    MAX_VALUES,
    Document,
    describe,
    front_matter,
    parse,
    parse_json,
    parse_yaml,
    pointer_step,
)
from bundler.protocol.documents.yaml import resolve_plain

ROOT = Path(__file__).parents[2]


def yaml(text: str | bytes) -> Any:
    """The value of a YAML text."""
    return parse_yaml(text if isinstance(text, bytes) else text.encode(), "f.yaml").value


def from_json(text: str | bytes) -> Any:
    """The value of a JSON text."""
    return parse_json(text if isinstance(text, bytes) else text.encode(), "f.json").value


def typed(value: Any) -> Any:
    """The value with numbers told from booleans, and the sign of a zero shown: what `==` alone lets pass."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, int | float):
        return ("number", value, math.copysign(1, value) if value == 0 else None)
    return value


def refused(data: str | bytes, path: str = "f.yaml", code: str = "parse-failed") -> tuple[int | None, int | None]:
    """The line and column at which a file is refused."""
    with pytest.raises(BundlerError) as caught:
        parse(data if isinstance(data, bytes) else data.encode(), path)
    (diagnostic,) = caught.value.diagnostics
    assert (caught.value.code, diagnostic.code, diagnostic.path) == (code, code, path)
    return diagnostic.line, diagnostic.column


def attempt(data: bytes, path: str) -> Document | BundlerError:
    """The document, or the error with which it is refused."""
    try:
        return parse(data, path)
    except BundlerError as error:
        return error


def front(data: str | bytes) -> Document:
    """The front matter of a Markdown file."""
    return front_matter(data if isinstance(data, bytes) else data.encode(), "f.md")


def front_refused(data: str | bytes) -> tuple[str, str, int | None, int | None]:
    """Code, message, line and column with which front matter is refused."""
    with pytest.raises(BundlerError) as caught:
        front(data)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.path == "f.md"
    return caught.value.code, caught.value.message, diagnostic.line, diagnostic.column


# The core schema


TEXTS = [
    "yes",
    "Yes",
    "YES",
    "no",
    "No",
    "NO",
    "on",
    "On",
    "off",
    "Off",
    "OFF",
    "y",
    "Y",
    "n",
    "N",
    "nULL",
    "nuLL",
    "tRUE",
    "fALSE",
    "1_000",
    "0b101",
    "0O14",
    "0X1F",
    "-0x1F",
    "+0x1F",
    "-0o14",
    "0o8",
    "0o",
    "0x",
    "0xg",
    "12:30:45",
    "12:30",
    "2026-11-30",
    "2026-11-30T10:00:00Z",
    "=",
    "<<",
    ".",
    "+",
    "-",
    "+.",
    "e1",
    "1e",
    "1e+",
    ".e1",
    "1.e",
    "1.2.3",
    "1,000",
    ".iNf",
    "+.nan",
    "-.nan",
    ".Nan",
    "inf",
    "nan",
    "Infinity",
    "NaN",
    "٣",
    "１",
    "none",
    "None",
    "undefined",
    "~x",
    "--1",
    "++1",
    "0x1.8",
    "1f",
    "1L",
    "0.1.2",
    "½",
]


@pytest.mark.parametrize("text", TEXTS)
def test_everything_but_the_core_schemas_nulls_booleans_and_numbers_is_a_text(text: str) -> None:
    assert resolve_plain(text) == text
    if text not in ("-", "="):
        assert yaml(f"a: {text}\n") == {"a": text}


NOT_TEXTS = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
    "0": 0,
    "012": 12,
    "08": 8,
    "+12": 12,
    "-12": -12,
    "00": 0,
    "0o14": 12,
    "0o0": 0,
    "0x1F": 31,
    "0xfF": 255,
    "1e3": 1000,
    "1E3": 1000,
    "1e+3": 1000,
    "1.0e3": 1000,
    "12e-1": 1.2,
    "1.": 1,
    "1.0": 1,
    ".5": 0.5,
    "-.5": -0.5,
    "+.5": 0.5,
    "1.e2": 100,
    "0.1": 0.1,
    "-0": -0.0,
    "-0.0": -0.0,
    "+0": 0,
    "1e-400": 0,
    "9007199254740993": 9007199254740992,
    "123456789012345678901234567890": 1.2345678901234568e29,
    "0x20000000000001": 9007199254740992,
    "0o400000000000000001": 9007199254740992,
}


@pytest.mark.parametrize(("text", "value"), NOT_TEXTS.items())
def test_the_core_schemas_nulls_booleans_and_numbers(text: str, value: object) -> None:
    assert typed(resolve_plain(text)) == typed(value)
    document = parse_yaml(f"a: {text}\nb: [{text or '~'}]\n".encode(), "f.yaml")
    assert typed(document.value) == typed({"a": value, "b": [value]})
    assert document.finite


@pytest.mark.parametrize("text", list(NOT_TEXTS))
def test_in_quotes_and_in_blocks_everything_is_a_text(text: str) -> None:
    assert yaml(f"a: '{text}'\nb: \"{text}\"\n") == {"a": text, "b": text}
    if text:
        assert yaml(f"a: |-\n  {text}\nb: >-\n  {text}\n") == {"a": text, "b": text}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (".inf", math.inf),
        (".Inf", math.inf),
        (".INF", math.inf),
        ("+.inf", math.inf),
        ("-.inf", -math.inf),
        ("1e400", math.inf),
        ("-1e400", -math.inf),
        ("9" * 400, math.inf),
        ("-" + "9" * 5000, -math.inf),
        ("0x" + "f" * 257, math.inf),
        ("0o" + "7" * 400, math.inf),
    ],
)
def test_a_number_that_overflows_is_no_json_number(text: str, value: float) -> None:
    document = parse_yaml(f"a: {text}\n".encode(), "f.yaml")
    assert document.value == {"a": value}
    assert not document.finite


@pytest.mark.parametrize("text", [".nan", ".NaN", ".NAN"])
def test_nan_is_no_json_number(text: str) -> None:
    document = parse_yaml(f"- {text}\n".encode(), "f.yaml")
    assert math.isnan(document.value[0])
    assert not document.finite


def test_an_integral_number_is_an_int_and_a_boolean_is_none() -> None:
    assert [type(value) for value in yaml("[1.0, 1, 1e3, true, 1.5]")] == [int, int, int, bool, float]


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "---\n...\n", "\ufeff"])
def test_a_file_without_a_value_is_null(text: str) -> None:
    assert yaml(text) is None


def test_the_merge_key_is_an_ordinary_key() -> None:
    assert yaml("a: &x {k: 1}\nb: {<<: *x, l: 2}\nc:\n  <<: *x\n") == {
        "a": {"k": 1},
        "b": {"<<": {"k": 1}, "l": 2},
        "c": {"<<": {"k": 1}},
    }


def test_collections_scalars_and_comments_are_those_of_yaml() -> None:
    text = """
# comment
block:
  - a # comment
  - - nested
    - [flow, {k: v}, 'it''s', "tab\\t"]
folded: >
  one
  two

  three
literal: |
  one
   two
plain: one
  two
? explicit
: 'x # y'
empty:
"""
    assert yaml(text) == {
        "block": ["a", ["nested", ["flow", {"k": "v"}, "it's", "tab\t"]]],
        "folded": "one two\nthree\n",
        "literal": "one\n two\n",
        "plain": "one two",
        "explicit": "x # y",
        "empty": None,
    }


def test_a_version_directive_changes_nothing() -> None:
    assert yaml("%YAML 1.1\n---\na: yes\n") == {"a": "yes"}


# Line ends


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lf_crlf_and_cr_break_lines(end: str) -> None:
    text = "a: 1\nb: |\n  x\n  y\nc:\n  - z\n".replace("\n", end)
    document = parse_yaml(text.encode(), "f.yaml")
    assert document.value == {"a": 1, "b": "x\ny\n", "c": ["z"]}
    assert document.place("/c/0") == (6, 5)


OLD_ENDS = ["\x85", "\u2028", "\u2029"]


@pytest.mark.parametrize("old", OLD_ENDS)
def test_old_line_ends_are_ordinary_characters(old: str) -> None:
    assert yaml(f"a: x {old} y\n") == {"a": f"x {old} y"}
    assert yaml(f"a: 'x {old} y'\nb: \"x {old} y\"\n") == {"a": f"x {old} y", "b": f"x {old} y"}
    assert yaml(f"a: |\n  x{old}y\n  {old}\nb: >\n  x {old}\n  y\n") == {"a": f"x{old}y\n{old}\n", "b": f"x {old} y\n"}
    assert yaml(f"[x{old}, {old}, {{k{old}: v}}]") == [f"x{old}", old, {f"k{old}": "v"}]
    assert yaml(f"a: {old}1\nb: 1{old}\n") == {"a": f"{old}1", "b": f"1{old}"}
    assert yaml(f"a: 1 # {old}b: 2\n") == {"a": 1}


@pytest.mark.parametrize("old", OLD_ENDS)
def test_old_line_ends_in_keys(old: str) -> None:
    assert yaml(f"{old}: 1\nk{old}: 2\n'{old} q': 3\n") == {old: 1, f"k{old}": 2, f"{old} q": 3}
    assert refused(f"k{old}: 1\nk{old}: 2\n") == (2, 1)


@pytest.mark.parametrize("old", OLD_ENDS)
def test_old_line_ends_beside_private_use_characters(old: str) -> None:
    own = "\ue000\ue001\ue002\uf8ff"
    assert yaml(f"a: {own}{old}{own}\n{own}{old}: {old}\n") == {"a": f"{own}{old}{own}", f"{own}{old}": old}
    assert yaml(f'a: "\\ue000\\uE001\\U0000e002{old}"\n') == {"a": f"\ue000\ue001\ue002{old}"}
    assert yaml(f"a: {''.join(OLD_ENDS)}\ue003\n") == {"a": "\x85\u2028\u2029\ue003"}


def test_old_line_ends_as_escapes() -> None:
    assert yaml(r'"\N\L\P \x85\u2028\u2029"') == "\x85\u2028\u2029 \x85\u2028\u2029"


@pytest.mark.parametrize("old", OLD_ENDS)
def test_positions_after_old_line_ends_count_them_as_characters(old: str) -> None:
    document = parse_yaml(f"a: x{old}y\nb: [{old}, 1]\n".encode(), "f.yaml")
    assert document.place("/b") == (2, 4)
    assert document.place("/b/1") == (2, 8)
    assert refused(f"a: x{old}\nb: c: d\n") == (2, 5)
    assert refused(f"a: b{old}c: d\n") == (1, 7)


def test_a_text_with_every_private_use_character_is_never_misread() -> None:
    text = "".join(map(chr, range(0xE000, 0xF900))) + "\x85"
    result = attempt(f"a: {text}\n".encode(), "f.yaml")
    assert result.code == "parse-failed" if isinstance(result, BundlerError) else result.value == {"a": text}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: |", ""),
        ("a: |\n x", "x\n"),
        ("a: |-\n x", "x"),
        ("a: |+\n x", "x\n"),
        ("a: >\n x\n y", "x y\n"),
        ("a: x", "x"),
        ("a: 'x'", "x"),
        ("a: x # c", "x"),
    ],
)
def test_a_missing_final_newline_changes_no_value(text: str, value: str) -> None:
    assert yaml(text) == {"a": value}
    assert yaml(text + "\n") == {"a": value}


def test_a_leading_byte_order_mark_is_accepted_in_yaml() -> None:
    document = parse_yaml(b"\xef\xbb\xbfa: 1\r\nb: [\r\n  x]\r\n", "f.yaml")
    assert document.value == {"a": 1, "b": ["x"]}
    assert document.place("/a") == (1, 4)
    assert document.place("/b/0") == (3, 3)


# Aliases


def test_an_alias_stands_for_what_its_anchor_marks() -> None:
    assert yaml("a: &x [1, {k: v}]\nb: *x\nc: &y z\nd: [*y, *x]\n") == {
        "a": [1, {"k": "v"}],
        "b": [1, {"k": "v"}],
        "c": "z",
        "d": ["z", [1, {"k": "v"}]],
    }


def test_the_last_anchor_of_a_name_counts() -> None:
    assert yaml("[&x 1, *x, &x 2, *x, &y [*x], *x]") == [1, 1, 2, 2, [2], 2]
    assert yaml("a: &x {k: &x 1, l: *x}\nb: *x\n") == {"a": {"k": 1, "l": 1}, "b": {"k": 1, "l": 1}}


def test_an_anchor_of_null_and_of_a_key() -> None:
    assert yaml("a: &x\nb: *x\n") == {"a": None, "b": None}
    assert yaml("&k key: *k\nc: &s name\n*s : v\n") == {"key": "key", "c": "name", "name": "v"}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: *x\n", (1, 4)),
        ("a: 1\nb: [*x, &x 1]\n", (2, 5)),
        ("a: &x [*x]\n", (1, 8)),
        ("a: &x\n  b:\n    - *x\n", (3, 7)),
        ("a: &x {k: &y [*x]}\n", (1, 15)),
    ],
)
def test_an_alias_without_an_anchor_or_inside_of_it_is_refused(text: str, place: tuple[int, int]) -> None:
    assert refused(text) == place


def test_an_anchor_that_is_defined_again_inside_of_itself_is_no_recursion() -> None:
    assert yaml("&x [&x 1, *x]") == [1, 1]


def test_an_alias_bomb_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 40)]
    assert refused("\n".join(lines)) == (5, 45)


# Bounds


def test_the_bounds_are_those_of_the_protocol() -> None:
    assert (MAX_BYTES, MAX_VALUES, MAX_LEVELS) == (16 * 1024 * 1024, 100_000, 200)


@pytest.mark.parametrize("path", ["f.json", "f.yaml"])
def test_as_many_values_as_allowed_and_one_more(path: str) -> None:
    at_most = "[" + "0," * 99_998 + "0]"
    assert len(parse(at_most.encode(), path).value) == 99_999
    refused("[" + "0," * 99_999 + "0]", path)


@pytest.mark.parametrize("path", ["f.json", "f.yaml"])
def test_mappings_and_lists_are_values_and_keys_are_none(path: str) -> None:
    # The root, then 33,333 times a mapping, a list and a text.
    at_most = ",".join(['{"k": ["x"]}'] * 33_333)
    assert len(parse(f"[{at_most}]".encode(), path).value) == 33_333
    refused(f"[{at_most}, 1]", path)


def test_an_alias_counts_with_all_that_it_stands_for() -> None:
    # The root, the list and its items, as much again for the alias, one text.
    at_most = f"a: &x [{'0,' * 49_998}]\nb: *x\nc: 0\n"
    assert len(yaml(at_most)["b"]) == 49_998
    assert refused(at_most + "d: 0\n") == (4, 4)


def test_the_value_that_is_one_too_many_is_the_place() -> None:
    assert refused("- 0\n" * 100_000) == (100_000, 3)
    assert refused(f"a: &x [{'0,' * 49_998}]\nb: 0\nc: 0\nd: *x\n") == (4, 4)


@pytest.mark.parametrize("path", ["f.json", "f.yaml"])
@pytest.mark.parametrize("inside", ["", "1", '"x"'])
def test_as_many_levels_as_allowed_and_one_more(path: str, inside: str) -> None:
    value = parse(("[" * 200 + inside + "]" * 200).encode(), path).value
    for _ in range(199):
        (value,) = value
    assert len(value) == len(inside[:1])
    refused("[" * 201 + inside + "]" * 201, path)


@pytest.mark.parametrize("path", ["f.json", "f.yaml"])
def test_mappings_are_levels_too(path: str) -> None:
    assert parse(('{"k": ' * 200 + "1" + "}" * 200).encode(), path).value.keys() == {"k"}
    refused('{"k": ' * 201 + "1" + "}" * 201, path)
    refused('{"k": [' * 100 + "{}" + "]}" * 100, path)


def test_levels_that_an_alias_brings_count() -> None:
    tower = "a: &x " + "[" * 100 + "]" * 100 + "\n"
    assert yaml(tower + "b: " + "[" * 99 + "*x" + "]" * 99)["b"]
    assert refused(tower + "b: " + "[" * 100 + "*x" + "]" * 100) == (2, 104)


def test_levels_that_aliases_of_aliases_bring_count() -> None:
    lines = ["- &a0 []", *(f"- &a{level} [*a{level - 1}]" for level in range(1, 199))]
    assert len(yaml("\n".join(lines))) == 199
    assert refused("\n".join([*lines, "- [*a198]"])) == (200, 4)


@pytest.mark.parametrize("path", ["f.json", "f.yaml"])
def test_a_very_deep_document_is_refused_and_crashes_nothing(path: str) -> None:
    refused("[" * 100_000 + "]" * 100_000, path)
    refused("[" * 100_000, path)
    refused('{"a":' * 100_000, path)


@pytest.mark.parametrize("path", ["f.json", "f.yaml"])
def test_the_largest_file_that_is_parsed_and_one_byte_more(path: str) -> None:
    at_most = b"1" + b" " * (MAX_BYTES - 1)
    assert parse(at_most, path).value == 1
    refused(at_most + b" ", path)


# Tags


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("!!str 1", "1"),
        ("! 1", "1"),
        ("! true", "true"),
        ("!!str", ""),
        ("!!int 1", 1),
        ("!!int 0x1F", 31),
        ("!!int 0o14", 12),
        ("!!float 1", 1),
        ("!!float 1.5", 1.5),
        ("!!float 1e3", 1000),
        ("!!bool true", True),
        ("!!null ~", None),
        ("!!null", None),
        ("!!map {a: 1}", {"a": 1}),
        ("!!seq [1]", [1]),
        ("!<tag:yaml.org,2002:str> 1", "1"),
        ("!<tag:yaml.org,2002:int> 1", 1),
        ("%TAG !c! tag:yaml.org,2002:\n---\n!c!str 1", "1"),
    ],
)
def test_the_core_schemas_tags(text: str, value: object) -> None:
    assert typed(yaml(text)) == typed(value)


@pytest.mark.parametrize(
    "tagged",
    [
        "!!binary aGk=",
        "!!timestamp 2026-11-30",
        "!!set {a}",
        "!!omap [a: 1]",
        "!!pairs [a: 1]",
        "!!merge <<",
        "!!value =",
        "!!python/name:os.system",
        "!!python/object/apply:os.system [ls]",
        "!local x",
        "!local [x]",
        "!<tag:example.com,2000:x> y",
        "!!int x",
        "!!int 1.5",
        "!!float x",
        "!!bool yes",
        "!!bool 1",
        "!!null x",
        "!!map [1]",
        "!!seq {a: 1}",
        "!!str [1]",
        "!!str {a: 1}",
        "!!map x",
        "!!seq x",
    ],
)
def test_every_other_tag_is_refused(tagged: str) -> None:
    assert refused(f"a: 1\nb: {tagged}\n") == (2, 4)


# Keys


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("1", "1"),
        ("1.0", "1"),
        ("012", "12"),
        ("0x1F", "31"),
        ("1e3", "1000"),
        ("1e21", "1e+21"),
        ("0.10", "0.1"),
        ("true", "true"),
        ("FALSE", "false"),
        ("~", ""),
        ("null", ""),
        ("?", ""),
        ("yes", "yes"),
        ("2026-11-30", "2026-11-30"),
    ],
)
def test_a_key_that_is_no_text_becomes_its_canonical_text(key: str, text: str) -> None:
    assert yaml(f"{key}: v\n" if key != "?" else "?\n: v\n") == {text: "v"}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: 1\nb: 2\na: 3\n", (3, 1)),
        ("a: 1\n'a': 2\n", (2, 1)),
        ("{a: 1, b: 2, a: 3}\n", (1, 14)),
        ("x:\n  - a: 1\n    a: 2\n", (3, 5)),
        ("1: a\n1.0: b\n", (2, 1)),
        ("1: a\n'1': b\n", (2, 1)),
        ("31: a\n0x1F: b\n", (2, 1)),
        ("true: a\n'true': b\n", (2, 1)),
        ("~: a\n'': b\n", (2, 1)),
        ("null: a\n~: b\n", (2, 1)),
        ("&k a: 1\n*k : 2\n", (2, 1)),
        ("<<: {}\n<<: {}\n", (2, 1)),
        ('a: 1\n"\\x61": 2\n', (2, 1)),
    ],
)
def test_duplicate_keys_are_refused(text: str, place: tuple[int, int]) -> None:
    assert refused(text) == place


def test_the_same_key_in_two_mappings_is_no_duplicate() -> None:
    assert yaml("- {a: 1}\n- {a: {a: 2}}\n- {A: 1, a: 2}\n") == [{"a": 1}, {"a": {"a": 2}}, {"A": 1, "a": 2}]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("? [a]\n: b\n", (1, 3)),
        ("? {a: 1}\n: b\n", (1, 3)),
        ("x: 1\n[a]: b\n", (2, 1)),
        ("{{a: 1}: b}\n", (1, 2)),
        ("a: &x [1]\n*x : b\n", (2, 1)),
        (".inf: 1\n", (1, 1)),
        ("a: 1\n.nan: 1\n", (2, 1)),
    ],
)
def test_a_key_that_is_a_collection_or_no_json_number_is_refused(text: str, place: tuple[int, int]) -> None:
    assert refused(text) == place


# What is no YAML


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: 1\n---\nb: 2\n", (2, 1)),
        ("---\na: 1\n...\n---\nb: 2\n", (4, 1)),
        ("---\n---\n", (2, 1)),
        ("a:\n\tb: 1\n", (2, 1)),
        ("a:\n  \tb: 1\n", (2, 3)),
        ("a:\n  - b\n\t- c\n", (3, 1)),
        ("a: b: c\n", (1, 5)),
        ("a: [1,\n", (2, 1)),
        ("a: 'x\n", (2, 1)),
        ("a: @x\n", (1, 4)),
        ("a: `x`\n", (1, 4)),
        ("a: %x\n", (1, 4)),
        ("a:\n  - b\n - c\n", (3, 2)),
        ("- a\nb: 1\n", (2, 1)),
        ("a: 1\n  b: 2\n", (2, 4)),
    ],
)
def test_bad_syntax_is_refused_at_its_place(text: str, place: tuple[int, int]) -> None:
    assert refused(text) == place


def test_one_document_with_its_markers_is_fine() -> None:
    assert yaml("---\na: 1\n...\n") == {"a": 1}
    assert yaml("--- x\n") == "x"


def test_a_tab_that_is_no_indentation_is_fine() -> None:
    assert yaml("a:\t1\nb: x\ty\t# c\nc: '\tz'\n") == {"a": 1, "b": "x\ty", "c": "\tz"}


@pytest.mark.parametrize(
    "character", ["\x00", "\x01", "\x07", "\x08", "\x0b", "\x1b", "\x7f", "\x80", "\x9f", "\ufffe"]
)
def test_control_characters_are_refused_at_their_place(character: str) -> None:
    assert refused(f"a: 1\nb: x{character}\n") == (2, 5)
    assert refused(f'a: 1\nb: "{character}"\n') == (2, 5)


def test_control_characters_as_escapes_are_fine() -> None:
    assert yaml(r'"\0\a\b\e\x07\x7f\u0080\ufffe"') == "\0\a\b\x1b\x07\x7f\x80\ufffe"


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"\xff", (1, 1)),
        (b"a: 1\nb: \xff\n", (2, 4)),
        (b"a: \xc3\xa4\xf0\x9f\x9a\x80\xff\n", (1, 6)),
        (b"a: 1\r\nb: \xc3\r\n", (2, 4)),
        (b"a: \xc3\xa4\n\nb: caf\xe9\n", (3, 7)),
        (b"a: \xed\xa0\x80\n", (1, 4)),
        (b"a: \xc0\x80\n", (1, 4)),
        (b"\xff\xfea\x00", (1, 1)),
    ],
)
def test_bytes_that_are_not_utf8_are_refused_at_their_line_and_column(data: bytes, place: tuple[int, int]) -> None:
    assert refused(data) == place
    assert refused(data, "f.json") == place


def test_utf16_is_refused() -> None:
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        for path in ("f.json", "f.yaml"):
            refused('{"a": 1}'.encode(encoding), path)


@pytest.mark.parametrize("escape", [r"\ud800", r"\udfff", r"\udc00\ud800", r"a\ud83dz"])
def test_a_lone_surrogate_is_refused(escape: str) -> None:
    for path in ("f.json", "f.yaml"):
        refused(f'"{escape}"', path)
        refused(f'["x", {{"{escape}": 1}}]', path)


def test_without_libyaml_the_code_says_so() -> None:
    script = """
import sys
sys.modules["yaml.cyaml"] = None
from bundler.errors import BundlerError
from bundler.protocol.documents import parse_json, parse_yaml
print(parse_json(b"[1]", "f.json").value)
try:
    parse_yaml(b"a: 1", "f.yaml")
except BundlerError as error:
    print(error.code, error.is_environment)
"""
    result = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout == "[1]\nlibyaml-missing True\n"


# Which language


def test_the_extension_decides_without_case() -> None:
    for path in ("a.json", "a.JSON", "a.Json", "a.yaml.json"):
        assert refused("a: 1\n", path) == (1, 1)
    for path in ("a.yaml", "a.yml", "a.YAML", "a.json5", "a.json.txt", "json", "a"):
        assert parse(b"a: yes\n", path).value == {"a": "yes"}


# JSON


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (" \t\r\n[1, 2]\n", [1, 2]),
        ("[]", []),
        ("{}", {}),
        ('"\\u0061\\n\\/\\ud83d\\ude80"', "a\n/🚀"),
        ('"\x7f\u2028"', "\x7f\u2028"),
        ("[1.0, 1e3, 1E+2, 1.5e-3, -0, -0.0, 0]", [1, 1000, 100, 0.0015, -0.0, -0.0, 0]),
        ("9007199254740993", 9007199254740992),
        ("123456789012345678901234567890", 1.2345678901234568e29),
        ("[true, false, null]", [True, False, None]),
        ('{"": 0, "__proto__": 1, "a/b": 2}', {"": 0, "__proto__": 1, "a/b": 2}),
        ('[{"a": 1}, {"a": {"a": 2}}]', [{"a": 1}, {"a": {"a": 2}}]),
    ],
)
def test_json_is_read_as_rfc_8259_has_it(text: str, value: object) -> None:
    assert typed(from_json(text)) == typed(value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", (1, 1)),
        ("\ufeff{}", (1, 1)),
        ("[1,]", (1, 4)),
        ('{"a": 1,\n}', (2, 1)),
        ("[1\n 2]", (2, 2)),
        ('{\n "a" 1}', (2, 6)),
        ("{a: 1}", (1, 2)),
        ("['a']", (1, 2)),
        ("[01]", (1, 3)),
        ("[+1]", (1, 2)),
        ("[.5]", (1, 2)),
        ("[1.]", (1, 3)),
        ("[0x1F]", (1, 3)),
        ("[tru]", (1, 2)),
        ("[1] 2", (1, 5)),
        ("// c\n1", (1, 1)),
        ('"a\tb"', (1, 3)),
        ('"a\nb"', (1, 3)),
        ('["\\x"]', (1, 3)),
        ("\xa0[1]", (1, 1)),
        ("[1]\x0c", (1, 4)),
        ("\x00", (1, 1)),
    ],
)
def test_bad_json_is_refused_at_its_place(text: str, place: tuple[int, int]) -> None:
    assert refused(text, "f.json") == place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a": 1, "a": 2}', (1, 10)),
        ('{"a": 1,\n "\\u0061": 2}', (2, 2)),
        ('[\n {"x": 1,\n  "b": {"c": "}{\\"", "c": 2}}]', (3, 22)),
        ('{"a": [{}, [], {"b": []}],\n "": 1,\n "": 2}', (3, 2)),
    ],
)
def test_duplicate_keys_are_refused_in_json_at_the_second(text: str, place: tuple[int, int]) -> None:
    assert refused(text, "f.json") == place


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", '{"a": [1, NaN]}'])
def test_nan_and_infinity_are_no_json(text: str) -> None:
    refused(text, "f.json")


@pytest.mark.parametrize("text", ["1e400", "-1e400", "1e999999999", "9" * 5000])
def test_a_json_number_that_overflows_is_read_and_marked(text: str) -> None:
    document = parse_json(f"[{text}]".encode(), "f.json")
    assert math.isinf(document.value[0])
    assert not document.finite
    assert parse_json(b"[1e308]", "f.json").finite


# Properties


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)


def values(text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """JSON values with these texts."""
    return st.recursive(
        st.none() | st.booleans() | NUMBERS | text,
        lambda below: st.lists(below, max_size=5) | st.dictionaries(text, below, max_size=5),
        max_leaves=20,
    )


@given(values(TEXT), st.booleans(), st.sampled_from([None, 1, "\t"]))
@settings(deadline=None)
def test_json_reads_back_what_json_writes(value: Any, ascii_only: bool, indent: int | str | None) -> None:
    assert typed(from_json(json.dumps(value, ensure_ascii=ascii_only, indent=indent))) == typed(value)


# What YAML does not allow, unless escaped.
YAML_TEXT = TEXT.filter(
    lambda text: not any(("\x7f" <= c <= "\x9f" and c != "\x85") or c in "\ufffe\uffff" for c in text)
)


@given(values(YAML_TEXT), st.sampled_from([None, 1, 4]))
@settings(deadline=None)
def test_yaml_reads_json_as_json(value: Any, indent: int | None) -> None:
    assert typed(yaml(json.dumps(value, ensure_ascii=False, indent=indent))) == typed(value)


@given(st.text("ab01 .-+~:#'\"[]{}\n\t\r\x85\u2028&*!|>?_exo", max_size=15))
@settings(deadline=None, max_examples=300)
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    result = attempt(text.encode(), "f.yaml")
    if isinstance(result, BundlerError):
        assert result.code == "parse-failed"
        assert 1 <= (result.diagnostics[0].line or 0) <= len(text) + 2
    else:
        assert json.dumps(result.value)


@given(st.binary(max_size=40))
@settings(deadline=None, max_examples=300)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for path in ("f.yaml", "f.json"):
        result = attempt(data, path)
        assert result.code == "parse-failed" if isinstance(result, BundlerError) else json.dumps(result.value)


# Front matter


@pytest.mark.parametrize(
    "data",
    [
        "---\na: 1\n---\n",
        "---\r\na: 1\r\n---\r\n",
        "---\na: 1\n---\r\n# Body\n",
        "---\r\na: 1\n---\n",
        "---\na: 1\n---\nbody\n---\nb: [\n---\n",
        b"---\na: 1\n---\n\xff\xfe\x00 is no UTF-8",
        "---\n# comment\n\na: 1\n\n---\n",
    ],
)
def test_front_matter_lies_between_two_fences(data: str | bytes) -> None:
    document = front(data)
    assert document.value == {"a": 1}
    assert document.path == "f.md"


def test_a_fence_in_a_block_does_not_close() -> None:
    assert front("---\na: |\n  ---\nb: '---'\n---\n").value == {"a": "---\n", "b": "---"}


def test_a_long_body_is_no_obstacle() -> None:
    assert front(b"---\na: 1\n---\n" + b"x" * (MAX_BYTES + 1)).value == {"a": 1}


@pytest.mark.parametrize(
    "data",
    [
        "",
        "---",
        "# Title\n",
        " ---\na: 1\n---\n",
        "--- \na: 1\n---\n",
        "----\na: 1\n---\n",
        "\n---\na: 1\n---\n",
        "---\r",
    ],
)
def test_without_a_fence_as_the_first_bytes_it_is_missing(data: str) -> None:
    assert front_refused(data)[0] == "frontmatter-missing"


def test_a_byte_order_mark_before_the_fence_is_no_fence() -> None:
    assert front_refused(b"\xef\xbb\xbf---\na: 1\n---\n")[0] == "frontmatter-missing"


@pytest.mark.parametrize(
    "data",
    [
        "---\n",
        "---\na: 1\n",
        "---\na: 1\n---",
        "---\na: 1\n--- \n",
        "---\na: 1\n ---\n",
        "---\na: 1\n----\n",
        "---\na: 1\n...\n",
    ],
)
def test_front_matter_that_is_not_closed_is_invalid(data: str) -> None:
    code, message, line, _ = front_refused(data)
    assert code == "frontmatter-invalid"
    assert "not closed" in message
    assert line == 1


@pytest.mark.parametrize("text", ["", "# c\n", "- a\n", "text\n", "1\n", "~\n"])
def test_front_matter_that_is_no_mapping_is_invalid(text: str) -> None:
    code, message, line, _ = front_refused(f"---\n{text}---\n")
    assert code == "frontmatter-invalid"
    assert "a mapping is expected" in message
    assert line == 2


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b"a: 1\nb: c: d\n", (3, 5)),
        (b"a: 1\na: 2\n", (3, 1)),
        (b"a: 1\nb: \xff\n", (3, 4)),
        (b"a: \x07\n", (2, 4)),
        (b"\n\na: *x\n", (4, 4)),
        (b"a: !x y\n", (2, 4)),
    ],
)
def test_front_matter_that_is_no_yaml_is_invalid_at_the_line_of_the_file(text: bytes, place: tuple[int, int]) -> None:
    code, message, line, column = front_refused(b"---\n" + text + b"---\n")
    assert code == "frontmatter-invalid"
    assert "not YAML" in message
    assert f"f.md:{place[0]}:{place[1]}" in message
    assert (line, column) == place


def test_places_in_front_matter_are_those_of_the_file() -> None:
    document = front("---\r\nid: x\r\nk: {z: 1}\r\n---\r\nbody")
    assert document.place("/id") == (2, 5)
    assert document.place("/k/z") == (3, 8)


# Places


def test_places_of_yaml_values() -> None:
    text = 'a: 1\n"x/y~z":\n  - 1\n  - {k: &b v, q: *b, "": {}}\nl: [[1, 2], {z: 0}]\n'
    document = parse_yaml(text.encode(), "f.yaml")
    places = {
        "": (1, 1),
        "/a": (1, 4),
        "/x~1y~0z": (3, 3),
        "/x~1y~0z/0": (3, 5),
        "/x~1y~0z/1": (4, 5),
        "/x~1y~0z/1/k": (4, 9),
        "/x~1y~0z/1/q": (4, 18),
        "/x~1y~0z/1/": (4, 26),
        "/l": (5, 4),
        "/l/0": (5, 5),
        "/l/0/1": (5, 9),
        "/l/1": (5, 13),
        "/l/1/z": (5, 17),
    }
    assert {pointer: document.place(pointer) for pointer in places} == places


def test_places_of_json_values() -> None:
    text = (
        '{"a": 1,\n "x/y~z": [\n  1, {"k": "v:{,", "q": []}],\n"l": [[1, 2], {"z": 0}], "e": {}, "": 5, "\\u0062": 6}'
    )
    document = parse_json(text.encode(), "f.json")
    places = {
        "": (1, 1),
        "/a": (1, 7),
        "/x~1y~0z": (2, 11),
        "/x~1y~0z/0": (3, 3),
        "/x~1y~0z/1": (3, 6),
        "/x~1y~0z/1/k": (3, 12),
        "/x~1y~0z/1/q": (3, 25),
        "/l": (4, 6),
        "/l/0": (4, 7),
        "/l/0/1": (4, 11),
        "/l/1": (4, 15),
        "/l/1/z": (4, 21),
        "/e": (4, 31),
        "/": (4, 39),
        "/b": (4, 52),
    }
    assert {pointer: document.place(pointer) for pointer in places} == places


@pytest.mark.parametrize("path", ["f.json", "f.yaml"])
def test_a_pointer_to_nothing_has_the_place_of_its_nearest_ancestor(path: str) -> None:
    document = parse(b'{"a": {"b": 1},\n "c": [5]}', path)
    assert document.place("/a/x/y") == (1, 7)
    assert document.place("/c/7") == (2, 7)
    assert document.place("/x") == (1, 1)


def test_a_fault_tells_file_line_column_and_pointer() -> None:
    document = parse_yaml(b"a:\n  b: 1\n", "graphs/main.yaml")
    error = document.fault("graph-missing", "/a/b", "is wrong", hint="mend it")
    (diagnostic,) = error.diagnostics
    assert (error.code, error.message, error.hint) == ("graph-missing", "graphs/main.yaml:2:6 is wrong", "mend it")
    assert (diagnostic.path, diagnostic.line, diagnostic.column) == ("graphs/main.yaml", 2, 6)
    assert diagnostic.pointer == "/a/b"


@given(values(YAML_TEXT), st.integers(1, 3))
@settings(deadline=None)
def test_every_json_value_has_the_place_where_its_text_begins(value: Any, indent: int) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    lines = text.split("\n")
    for document in (parse_json(text.encode(), "f.json"), parse_yaml(text.encode(), "f.yaml")):
        pending = [("", value)]
        while pending:
            pointer, item = pending.pop()
            line, column = document.place(pointer) or (0, 0)
            expected = json.dumps(item, ensure_ascii=False, indent=indent).split("\n")[0]
            assert lines[line - 1][column - 1 :].startswith(expected)
            if isinstance(item, dict):
                pending.extend((pointer + pointer_step(key), below) for key, below in item.items())
            elif isinstance(item, list):
                pending.extend((f"{pointer}/{index}", below) for index, below in enumerate(item))


def test_pointer_steps_are_escaped_as_rfc_6901_has_it() -> None:
    assert [pointer_step(key) for key in ("a", "", "a/b", "m~n", "~1", 0)] == [
        "/a",
        "/",
        "/a~1b",
        "/m~0n",
        "/~01",
        "/0",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, "a mapping"),
        ([1], "a list"),
        ((), "a list"),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        ("x", '"x"'),
        (math.nan, "a number that JSON has not"),
        (math.inf, "a number that JSON has not"),
    ],
)
def test_a_value_is_described_as_json_or_by_its_kind(value: object, text: str) -> None:
    assert describe(value) == text


def test_a_long_text_is_described_in_part() -> None:
    assert describe("x" * 58) == f'"{"x" * 58}"'
    assert len(describe("x" * 59)) == 59
    assert describe("x" * 10_000).startswith('"xxx')


# Places and values that are easily got wrong


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ("# ääää\n\na: \x07\n".encode(), (3, 4)),
        ("x: ü\x01".encode(), (1, 5)),
        (b"a: 1\rb: \xff\r", (2, 4)),
        (b"a: 1\r\nb: \xff", (2, 4)),
    ],
)
def test_the_place_of_a_forbidden_character_counts_characters_and_every_line_end(
    data: bytes, place: tuple[int, int]
) -> None:
    with pytest.raises(BundlerError) as caught:
        parse_yaml(data, "f")
    assert (caught.value.diagnostics[0].line, caught.value.diagnostics[0].column) == place


@pytest.mark.parametrize(
    ("text", "value"), [("0x" + "0" * 300 + "1", 1), ("0o" + "0" * 400 + "7", 7), ("0x" + "f" * 300, math.inf)]
)
def test_leading_zeros_change_no_number(text: str, value: float) -> None:
    assert resolve_plain(text) == value


def test_a_duplicate_key_is_named_with_its_own_place() -> None:
    with pytest.raises(BundlerError) as caught:
        parse_json(b'{"a":1,"a":{"b":1,"b":2}}', "f")
    assert caught.value.message.startswith('f:1:8 names the key "a" twice')


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b'{"a": [1,\n NaN]}', (2, 2)),
        (b'["x",\n"\\ud800"]', (2, 1)),
        (b'{"\\udc00": 1}', (1, 2)),
        (b"[-Infinity]", (1, 2)),
    ],
)
def test_json_refusals_have_a_place(text: bytes, place: tuple[int, int]) -> None:
    with pytest.raises(BundlerError) as caught:
        parse_json(text, "f")
    assert (caught.value.diagnostics[0].line, caught.value.diagnostics[0].column) == place


@pytest.mark.parametrize("text", ["[?x]", "{?x: 1}", "[a, ?b]", "{a: ?b}", '[?"x"]'])
def test_a_question_mark_that_libyaml_misreads_is_refused(text: str) -> None:
    with pytest.raises(BundlerError) as caught:
        parse_yaml(text.encode(), "f")
    assert caught.value.code == "parse-failed"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("?x: 1", {"?x": 1}),
        ("a: ?b", {"a": "?b"}),
        ("? a\n: [1]", {"a": [1]}),
        ("{? a : 1}", {"a": 1}),
        ("['?x', \"?y\"]", ["?x", "?y"]),
        ("[a?b, c?]", ["a?b", "c?"]),
    ],
)
def test_other_question_marks_mean_what_they_say(text: str, value: object) -> None:
    assert parse_yaml(text.encode(), "f").value == value


@pytest.mark.parametrize("tag", ["!%ED%A0%80 x", "!%C0%80 x", "!<%ED%A0%80> x", "!!%ED%A0%80 x"])
def test_a_tag_that_is_no_utf_8(tag: str) -> None:
    with pytest.raises(BundlerError) as caught:
        parse_yaml(f"a: {tag}".encode(), "f")
    assert caught.value.code == "parse-failed"


def test_old_line_ends_beside_every_private_use_character() -> None:
    text = "".join(map(chr, range(0xE000, 0xF900)))
    assert parse_yaml(f"a: 'x\u2028{text}'".encode(), "f").value == {"a": "x\u2028" + text}
    escapes = "".join(f"\\U{code:08x}" for code in range(0x100000, 0x100400))
    assert parse_yaml(f'a: "\u2029{escapes}"'.encode(), "f").value == {
        "a": "\u2029" + "".join(map(chr, range(0x100000, 0x100400)))
    }
