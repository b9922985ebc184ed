"""The normalized provider.yaml, text by text and line by line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundler.protocol.documents import parse_yaml
from bundler.protocol.emit import provider_yaml, text


def read(written: str) -> Any:
    """The value of what was written."""
    return parse_yaml(written.encode(), "provider.yaml").value


def check(value: str, written: str) -> None:
    """The text is written so, and reads back."""
    assert text(value) == written
    assert provider_yaml({"a": value, "b": [value]}) == f"a: {written}\nb:\n  - {text(value, '  ')}\n"
    assert read(provider_yaml({"a": value, "b": [value, [value]]})) == {"a": value, "b": [value, [value]]}


@pytest.mark.parametrize(
    "value",
    [
        "text",
        "two words",
        "no",
        "N",
        "y",
        "yes",
        "on",
        "Off",
        "<<",
        "=",
        "12:30:45",
        "2026-11-30",
        "1_000",
        "0b1",
        "-0x1F",
        "0O14",
        "0.1.0",
        "1.2.3-rc.1",
        "---",
        "--- a",
        "...",
        "a'b",
        'it\'s "quoted"',
        "C:\\path",
        "\\",
        "\\n",
        "🚀",
        "ä",
        "\xa0x",
        "a\tb",
        "a:b",
        ":a",
        "::a",
        "a#b",
        "-a",
        "--",
        "?a",
        "??",
        "-1a",
        "a,b",
        "a[0]{x}",
        "a & b * c ! d | e > f % g @ h ` i",
        "a - b ? c",
        "https://example.com/?q=1#x",
        "=0.3.0",
        "^0.3.0",
        "~1.2",
        "nulls",
        "trueish",
        ".",
        "+",
        "+.",
        "/a",
        "$a",
        "(a)",
        "<a>",
        ";",
        "\\u0000",
    ],
)
def test_most_texts_are_plain(value: str) -> None:
    check(value, value)


@pytest.mark.parametrize(
    "value",
    ["null", "Null", "NULL", "~", "true", "True", "TRUE", "false", "False", "FALSE", "0", "1", "012", "-1", "+1", "1.0",
     "1.", ".5", "-.5", "1e3", "1E-3", "0x1F", "0o14", ".inf", "-.INF", "+.Inf", ".nan", ".NaN", "9" * 400],
)  # fmt: skip
def test_what_the_core_schema_reads_as_something_else_is_quoted(value: str) -> None:
    check(value, f'"{value}"')


def test_the_empty_text_is_quoted() -> None:
    check("", '""')


@pytest.mark.parametrize("first", list(" ,[]{}#&*!|>'%@`"))
def test_a_text_that_starts_with_a_blank_or_an_indicator_is_quoted(first: str) -> None:
    check(first + "a", f'"{first}a"')


def test_a_text_that_starts_with_a_tab_is_quoted() -> None:
    check("\ta", '"\\ta"')


@pytest.mark.parametrize("value", ["-", "?", "- a", "? a", "-  ", "? - a"])
def test_a_lone_dash_or_question_mark_or_one_before_a_blank_is_quoted(value: str) -> None:
    check(value, f'"{value}"')


@pytest.mark.parametrize("value", ["a: b", ": a", "a:  b", "a #b", "a # b", "x: y #z"])
def test_a_colon_before_a_blank_or_a_number_sign_after_one_is_quoted(value: str) -> None:
    check(value, f'"{value}"')


def test_a_colon_before_a_tab_is_quoted() -> None:
    check("a:\tb", '"a:\\tb"')


@pytest.mark.parametrize("value", ["a ", "a  ", "a:", ":", "a b:", "::"])
def test_a_text_that_ends_in_a_blank_or_a_colon_is_quoted(value: str) -> None:
    check(value, f'"{value}"')


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("a\x00b", '"a\\u0000b"'),
        ("a\x07b", '"a\\u0007b"'),
        ("a\x1b[0m", '"a\\u001b[0m"'),
        ("a\rb", '"a\\rb"'),
        ("a\bb\fc", '"a\\bb\\fc"'),
        ("a\x0bb", '"a\\u000bb"'),
        ("a\x7fb", '"a\\u007fb"'),
        ("a\x80b\x85c\x9fd", '"a\\u0080b\\u0085c\\u009fd"'),
        ("\ufeffa", '"\\ufeffa"'),
        ("ä\x01🚀", '"ä\\u0001🚀"'),
        ("\t\x01\\\"'", '"\\t\\u0001\\\\\\"\'"'),
    ],
)
def test_control_characters_are_escaped_in_double_quotes(value: str, written: str) -> None:
    check(value, written)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ('"a', "'\"a'"),
        ('"a"', "'\"a\"'"),
        ('"', "'\"'"),
        ('say "x": y', "'say \"x\": y'"),
        ('a" #b\\n', "'a\" #b\\n'"),
        ('ä "🚀" ', "'ä \"🚀\" '"),
    ],
)
def test_a_double_quote_without_a_single_one_gives_single_quotes(value: str, written: str) -> None:
    check(value, written)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("'a\"", '"\'a\\""'),
        ("\"a'", '"\\"a\'"'),
        ('"\x07', '"\\"\\u0007"'),
        ("'", '"\'"'),
        ("'a'", "\"'a'\""),
        ("a\\b: c", '"a\\\\b: c"'),
        ("# ä 🚀", '"# ä 🚀"'),
    ],
)
def test_everything_else_has_double_quotes_with_the_escapes_of_json(value: str, written: str) -> None:
    check(value, written)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("a\nb\n", "|\n  a\n  b"),
        ("a\n", "|\n  a"),
        ("a\nb", "|-\n  a\n  b"),
        ("a\nb\n\n", "|+\n  a\n  b\n"),
        ("a\n\n\n", "|+\n  a\n\n"),
        ("a\n\nb", "|-\n  a\n\n  b"),
        ("a\n  b\n c\n", "|\n  a\n    b\n   c"),
        ("\na", "|-\n\n  a"),
        ("\n\na\n", "|\n\n\n  a"),
        (" a\nb", "|2-\n   a\n  b"),
        ("  a\n", "|2\n    a"),
        (" a\n\n", "|2+\n   a\n"),
        ("\n a\n", "|2\n\n   a"),
        ("a: b\n# c\n- 'd' \"e\"\n", "|\n  a: b\n  # c\n  - 'd' \"e\""),
        ("---\n...\n", "|\n  ---\n  ..."),
        ("a \nb", "|-\n  a \n  b"),
        ("a\tb\nc", "|-\n  a\tb\n  c"),
        ("\\n\nä\n🚀", "|-\n  \\n\n  ä\n  🚀"),
        ("true\n", "|\n  true"),
    ],
)
def test_texts_of_several_lines_are_literal_blocks(value: str, written: str) -> None:
    assert text(value) == written
    assert provider_yaml({"a": value}) == f"a: {written}\n"
    assert read(provider_yaml({"a": value, "b": 1, "c": [value, {"d": value}]})) == {
        "a": value,
        "b": 1,
        "c": [value, {"d": value}],
    }


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("\n", '"\\n"'),
        ("\n\n", '"\\n\\n"'),
        (" \n", '" \\n"'),
        ("\n ", '"\\n "'),
        (" \n \t\n", '" \\n \\t\\n"'),
        ("\xa0\n", '"\xa0\\n"'),
        ("\ta\nb", '"\\ta\\nb"'),
        ("\n\ta", '"\\n\\ta"'),
        ("a\n ", '"a\\n "'),
        ("a\n  \n", '"a\\n  \\n"'),
        ("a\n\t", '"a\\n\\t"'),
        ("a\nb\x07", '"a\\nb\\u0007"'),
        ("a\r\nb\r\n", '"a\\r\\nb\\r\\n"'),
        ("a\n\x7f", '"a\\n\\u007f"'),
        ("a\n\ufeffb", '"a\\n\\ufeffb"'),
        ("a\n\x85b", '"a\\n\\u0085b"'),
    ],
)
def test_what_a_literal_block_cannot_hold_has_double_quotes(value: str, written: str) -> None:
    check(value, written)


def test_a_block_in_a_list_and_deeper_is_indented_below_what_holds_it() -> None:
    value = {"a": ["x\ny\n", {"b": "x\n", "c": " z\nz"}, [["deep\ner"]]], "d": {"e": "x\n\n", "f": "x\n\n"}}
    written = """\
a:
  - |
    x
    y
  - b: |
      x
    c: |2-
       z
      z
  - - - |-
        deep
        er
d:
  e: |+
    x

  f: |+
    x

"""
    assert provider_yaml(value) == written
    assert read(written) == value


def test_block_style_two_spaces_key_order_kept_and_a_final_newline() -> None:
    value = {
        "schema": "agent-graph.provider.v1",
        "version": "0.1.0",
        "id": "acme/demo",
        "name": "Demo: x",
        "graphs": ["graphs/main.yaml", "./graphs//b.yaml"],
        "catalogs": {"codes": "codes.yaml"},
        "compatibility": {"node": ">=20", "agentGraph": "^0.3.0"},
    }
    written = """\
schema: agent-graph.provider.v1
version: 0.1.0
id: acme/demo
name: "Demo: x"
graphs:
  - graphs/main.yaml
  - ./graphs//b.yaml
catalogs:
  codes: codes.yaml
compatibility:
  node: ">=20"
  agentGraph: ^0.3.0
"""
    assert provider_yaml(value) == written
    assert list(read(written)) == list(value)


def test_scalars_that_are_no_texts_and_empty_collections() -> None:
    value = {"a": None, "b": True, "c": False, "d": 1, "e": 1.5, "f": 1e21, "g": [], "h": {}, "i": [[], {}, None, [1]]}
    written = """\
a: null
b: true
c: false
d: 1
e: 1.5
f: 1e+21
g: []
h: {}
i:
  - []
  - {}
  - null
  - - 1
"""
    assert provider_yaml(value) == written
    assert read(written) == value


def test_a_mapping_in_a_list_begins_beside_the_dash() -> None:
    value = {"a": [{"b": {"c": 1}, "d": [{"e": 2, "f": 3}]}, {"g": 4}]}
    written = """\
a:
  - b:
      c: 1
    d:
      - e: 2
        f: 3
  - g: 4
"""
    assert provider_yaml(value) == written
    assert read(written) == value


def test_keys_are_texts_like_others() -> None:
    value = {"1": 0, "true": 1, "": 2, "a: b": 3, "a-": 4, "~": 5, "k k": 6, "- x": {"#": 7}, "<<": 8}
    written = """\
"1": 0
"true": 1
"": 2
"a: b": 3
a-: 4
"~": 5
k k: 6
"- x":
  "#": 7
<<: 8
"""
    assert provider_yaml(value) == written
    assert read(written) == value


def test_a_long_text_is_not_folded() -> None:
    long = "word " * 1000 + "end"
    check(long, long)
    check(f"# {long}", f'"# {long}"')
    assert provider_yaml({"a": f"{long}\n{long}"}) == f"a: |-\n  {long}\n  {long}\n"


ODD = st.text(
    st.sampled_from(
        "ab \n\t\r-?:#'\"\\[]{},&*!|>%@`~=.01xeE+_/<\0\a\x1b\x7f\x85\xa0\u2028\u2029\u3000\ufeff\ufffe\ue000é🚀"
    )
    | st.characters(exclude_categories=["Cs"]),
    max_size=12,
)
KEYS = ODD.filter(lambda key: "\n" not in key)


@given(
    st.dictionaries(
        KEYS,
        st.recursive(
            ODD | st.none() | st.booleans() | st.integers(-100, 100),
            lambda below: st.lists(below, max_size=4) | st.dictionaries(KEYS, below, max_size=4),
            max_leaves=12,
        ),
        min_size=1,
        max_size=4,
    )
)
@settings(deadline=None, max_examples=200)
def test_what_is_written_reads_back(value: dict[str, Any]) -> None:
    written = provider_yaml(value)
    assert read(written) == value
    assert provider_yaml(read(written)) == written
    assert written.endswith("\n")


@given(ODD)
@settings(deadline=None, max_examples=600)
def test_any_text_reads_back_at_any_depth(value: str) -> None:
    nested = {"a": value, "b": [value, [value, {"c": value}]], "d": {"e": {"f": value}}, "g": value}
    assert read(provider_yaml(nested)) == nested


def test_white_space_of_other_kinds_is_plain_on_one_line_and_quoted_over_several() -> None:
    assert text("\xa0") == "\xa0"
    assert text("\u3000") == "\u3000"
    assert text("\xa0\n\xa0") == '"\xa0\\n\xa0"'


def test_a_tab_is_a_control_character_for_single_quotes() -> None:
    assert text('a": b\tc') == '"a\\": b\\tc"'
