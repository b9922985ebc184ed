"""Canonical JSON: the order of keys, numbers and texts as ECMAScript writes them, collation, digests."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundler.protocol.canonical import ALGORITHMS, canonical, collation_key, digest, key_order, number, scalar, sha256

# Numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (0.0, "0"),
        (1, "1"),
        (1.0, "1"),
        (-1.0, "-1"),
        (-1.5, "-1.5"),
        (0.1, "0.1"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1 / 3, "0.3333333333333333"),
        (100, "100"),
        (1e2, "100"),
        (123.456, "123.456"),
        (0.00001, "0.00001"),
        (0.000001, "0.000001"),
        (0.0000015, "0.0000015"),
        (1e-7, "1e-7"),
        (1.5e-7, "1.5e-7"),
        (-1e-7, "-1e-7"),
        (0.00000123, "0.00000123"),
        (1.23e-7, "1.23e-7"),
        (1e16, "10000000000000000"),
        (1e20, "100000000000000000000"),
        (123456789012345680000.0, "123456789012345680000"),
        (999999999999999900000.0, "999999999999999900000"),
        (1e21, "1e+21"),
        (-1e21, "-1e+21"),
        (1.5e21, "1.5e+21"),
        (1.2345678901234568e29, "1.2345678901234568e+29"),
        (1e22, "1e+22"),
        (1e23, "1e+23"),
        (1e100, "1e+100"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (5e-324, "5e-324"),
        (2.2250738585072014e-308, "2.2250738585072014e-308"),
        (4.35, "4.35"),
        (0.5, "0.5"),
        (12345678901234567890, "12345678901234567000"),
        (9007199254740991, "9007199254740991"),
        (9007199254740992, "9007199254740992"),
        (-9007199254740992, "-9007199254740992"),
        (9007199254740993, "9007199254740992"),
        (2**63, "9223372036854776000"),
        (10**21, "1e+21"),
        (333333333.33333329, "333333333.3333333"),
        (2**-1074, "5e-324"),
        (295147905179352830000.0, "295147905179352830000"),
    ],
)
def test_numbers_are_written_as_ecmascript_writes_them(value: float, text: str) -> None:
    assert number(value) == text
    assert canonical(value) == text
    assert canonical({"a": [value]}) == f'{{"a":[{text}]}}'


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_json_number_is_refused(value: float) -> None:
    for call in (number, scalar, canonical, digest):
        with pytest.raises(ValueError):  # noqa: PT011 - the type is the contract
            call(value)
    with pytest.raises(ValueError):  # noqa: PT011
        canonical({"a": [{"b": value}]})


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(deadline=None, max_examples=500)
def test_a_number_reads_back_as_itself(value: float) -> None:
    assert float(number(value)) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(deadline=None, max_examples=500)
def test_a_number_has_an_exponent_only_where_ecmascript_gives_it_one(value: float) -> None:
    text = number(value)
    assert ("e" in text) == (value != 0 and not 1e-6 <= abs(value) < 1e21)
    assert text.count("-0") == 0 or text.startswith("-0.")
    assert not text.endswith(".0")


@given(st.integers(-(2**53), 2**53))
@settings(deadline=None)
def test_an_integer_is_written_alike_as_int_and_as_float(value: int) -> None:
    assert number(value) == number(float(value)) == str(value)


# Texts


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", '""'),
        ("a", '"a"'),
        ('"', '"\\""'),
        ("\\", '"\\\\"'),
        ("/", '"/"'),
        ("\b\f\n\r\t", '"\\b\\f\\n\\r\\t"'),
        ("\x00\x01\x0b\x1f", '"\\u0000\\u0001\\u000b\\u001f"'),
        ("\x7f\x80\x85", '"\x7f\x80\x85"'),
        ("\u2028\u2029\ufeff", '"\u2028\u2029\ufeff"'),
        ("ä🚀", '"ä🚀"'),
        ("<>&'", '"<>&\'"'),
    ],
)
def test_texts_are_written_as_json_stringify_writes_them(value: str, text: str) -> None:
    assert canonical(value) == scalar(value) == text
    assert canonical({value: value}) == f"{{{text}:{text}}}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        ([], "[]"),
        ({}, "{}"),
        ((), "[]"),
        ([[], {}, [{}]], "[[],{},[{}]]"),
        ((1, True), "[1,true]"),
        (
            {"b": 1, "a": {"d": [1, {"z": None, "y": ""}], "c": False}},
            '{"a":{"c":false,"d":[1,{"y":"","z":null}]},"b":1}',
        ),
    ],
)
def test_values_are_written_without_white_space(value: object, text: str) -> None:
    assert canonical(value) == text


# The order of keys


def keys(*names: str) -> list[str]:
    """The keys as canonical JSON orders them."""
    return list(json.loads(canonical(dict.fromkeys(names, 0))))


@pytest.mark.parametrize(
    "ordered",
    [
        ["0", "1", "2", "9", "10", "11", "100"],
        ["5", "40", "-1", "01", "1.5", "a"],
        ["4294967294", "4294967295"],
        ["0", "4294967294", "-", "4294967295", "a"],
        ["7", "4294967294", "00", "42949672940"],
        ["9", "10", "", "1e1"],
        ["1", "+1", "１"],
        ["a_b", "a-b", "a.b", "a/b", "a1", "aa"],
        ["", "a", "ab", "b"],
        ["id", "ID", "idx"],
    ],
)
def test_array_indices_come_first_by_number_then_the_others_by_collation(ordered: list[str]) -> None:
    for names in itertools.islice(itertools.permutations(ordered), 200):
        assert keys(*names) == ordered
        assert sorted(names, key=key_order) == ordered


def test_keys_are_ordered_at_every_level() -> None:
    value = {"b": [{"10": 0, "9": 0, "B": {"z": 0, "_": 0}, "a": 0}], "a": 0}
    assert canonical(value) == '{"a":0,"b":[{"9":0,"10":0,"a":0,"B":{"_":0,"z":0}}]}'


def test_objects_of_the_same_keys_in_other_orders_are_written_alike() -> None:
    assert canonical([{"a": 1, "b": 2}, {"b": 3, "a": 4}, {"a": 5, "b": 6}]) == (
        '[{"a":1,"b":2},{"a":4,"b":3},{"a":5,"b":6}]'
    )


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), st.integers(0, 9)), st.randoms())
@settings(deadline=None)
def test_the_order_in_which_keys_were_set_changes_nothing(value: dict[str, int], random_: random.Random) -> None:
    names = list(value)
    random_.shuffle(names)
    assert canonical({name: value[name] for name in names}) == canonical(value)
    assert json.loads(canonical(value)) == value


@pytest.mark.parametrize(
    ("make", "opening", "closing"),
    [(lambda below: [below], "[", "]"), (lambda below: {"a": below}, '{"a":', "}")],
)
def test_ten_thousand_levels_need_no_recursion(make: Any, opening: str, closing: str) -> None:
    value: Any = 1
    for _ in range(10_000):
        value = make(value)
    assert canonical(value) == opening * 10_000 + "1" + closing * 10_000


# Collation

PRIMARY = [
    "\t", "\n", "\v", "\f", "\r", " ", "_", "-", ",", ";", ":", "!", "?", ".", "'", '"', "(", ")", "[", "]", "{", "}",
    "@", "*", "/", "\\", "&", "#", "%", "`", "^", "+", "<", "=", ">", "|", "~", "$", "0", "1", "2", "3", "4", "5", "6",
    "7", "8", "9", "aA", "bB", "cC", "dD", "eE", "fF", "gG", "hH", "iI", "jJ", "kK", "lL", "mM", "nN", "oO", "pP", "qQ",
    "rR", "sS", "tT", "uU", "vV", "wW", "xX", "yY", "zZ",
]  # fmt: skip
IGNORED = [chr(code) for code in (*range(9), *range(14, 32), 127)]


def collated(*texts: str) -> list[str]:
    """The texts as collation orders them."""
    return sorted(texts, key=collation_key)


def test_the_table_of_this_test_holds_every_ascii_character_once() -> None:
    assert sorted("".join([*PRIMARY, *IGNORED])) == [chr(code) for code in range(128)]


@pytest.mark.parametrize(("lower", "higher"), list(itertools.pairwise(PRIMARY)))
def test_the_primary_order_of_ascii(lower: str, higher: str) -> None:
    for low, high in itertools.product(lower, higher):
        assert collated(high, low) == [low, high]
        # What comes before decides before what comes after, a prefix before what it begins.
        assert collated(f"x{high}", f"x{low}zz") == [f"x{low}zz", f"x{high}"]
        assert collated(f"{low}{high}", low) == [low, f"{low}{high}"]


def test_the_primary_order_of_ascii_at_once() -> None:
    ordered = list("".join(PRIMARY))
    for seed in range(5):
        shuffled = list(ordered)
        random.Random(seed).shuffle(shuffled)
        assert collated(*shuffled) == ordered


@pytest.mark.parametrize(
    "ordered",
    [
        ["a", "A"],
        ["ab", "aB", "Ab", "AB"],
        ["a", "A", "ab", "AB", "b", "B"],
        ["aZ", "Ab"][::-1],
        ["Aa", "ab"],
        ["aB1", "Ab1", "aB2"],
        ["résumé", "Résumé"],
        ["a-b", "A-b", "a-c"],
    ],
)
def test_case_decides_only_where_all_else_is_equal_and_at_the_first_difference(ordered: list[str]) -> None:
    assert collated(*ordered) == collated(*reversed(ordered)) == ordered


@pytest.mark.parametrize("control", IGNORED)
def test_other_control_characters_are_ignored(control: str) -> None:
    assert collated("b", f"{control}a", "a") == [*sorted(["a", f"{control}a"]), "b"]
    assert collated(f"a{control}c", "ab", "ad") == ["ab", f"a{control}c", "ad"]
    # A difference in case comes before it.
    assert collated("Ab", f"a{control}b") == [f"a{control}b", "Ab"]
    assert collated(f"A{control}b", f"a{control}B") == [f"a{control}B", f"A{control}b"]
    assert collated(f"{control}Abb", "aBB") == ["aBB", f"{control}Abb"]


@pytest.mark.parametrize(
    "ordered",
    [
        ["$", "9", "z", "Z", "\x80", "\xa0", "ä", "ö", "\u2028", "\uffff", "\U00010000", "🚀"],
        ["zz", "é", "éa", "éb", "ê"],
        ["az", "aä", "b"],
        ["É", "é"],
        ["Z", "É", "é"],
    ],
)
def test_characters_that_are_not_ascii_come_after_all_by_code_point(ordered: list[str]) -> None:
    assert collated(*reversed(ordered)) == ordered


def test_texts_that_compare_equal_are_ordered_by_utf16_code_units() -> None:
    assert collated("a\x02", "a\x01", "a", "\x01a", "\x7fa") == ["\x01a", "a", "a\x01", "a\x02", "\x7fa"]
    assert collated("\x01\x02", "\x02\x01", "", "\x01") == ["", "\x01", "\x01\x02", "\x02\x01"]


ODD = st.text(st.sampled_from("aAbB_-./09 \x00\x01\x7féÉ\uffff\U00010000z$"), max_size=5)


@given(st.lists(ODD, max_size=12), st.randoms())
@settings(deadline=None)
def test_collation_is_a_total_order_that_no_permutation_changes(texts: list[str], random_: random.Random) -> None:
    ordered = collated(*texts)
    random_.shuffle(texts)
    assert collated(*texts) == ordered
    for first, second in itertools.pairwise(ordered):
        assert (collation_key(first) == collation_key(second)) == (first == second)


@given(ODD, ODD)
@settings(deadline=None)
def test_case_and_control_characters_never_outweigh_another_character(first: str, second: str) -> None:
    def plain(text: str) -> str:
        return "".join(character for character in text if character not in IGNORED).translate({65: "a", 66: "b"})

    if plain(first) != plain(second):
        assert (collated(first, second) == [first, second]) == (
            collated(plain(first), plain(second))[0] == plain(first)
        )


# Digests


def test_the_digest_of_bytes() -> None:
    assert sha256(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert sha256(b"abc") == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_the_digest_of_a_value_is_that_of_its_canonical_json_in_utf8() -> None:
    written = '{"2":[1,"ä"],"10":null,"a_b":1e+21,"a-b":true}'.encode()
    value = {"a-b": True, "a_b": 1e21, "10": None, "2": [1.0, "ä"]}
    assert digest(value) == "sha256:" + hashlib.sha256(written).hexdigest()


def test_the_digest_of_an_empty_object() -> None:
    assert digest({}) == "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_the_algorithms() -> None:
    known = {
        "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "blake3": "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
    }
    assert ALGORITHMS.keys() == known.keys()
    for name, expected in known.items():
        hasher = ALGORITHMS[name]()
        hasher.update(b"a")
        hasher.update(b"bc")
        assert hasher.hexdigest() == expected
