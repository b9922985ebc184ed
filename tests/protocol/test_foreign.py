"""Schemas that a Provider brings: self-contained, of a known draft, bounded in cost; and that nothing is opened."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bundler.errors import BundlerError
from bundler.protocol.documents import parse, parse_json, parse_yaml
from bundler.protocol.foreign import compile_schema

ROOT = Path(__file__).parents[2]
DRAFT = "https://json-schema.org/draft/2020-12/schema"


class Compiled:
    """A compiled schema, asked for a verdict."""

    def __init__(self, schema: Any) -> None:
        self._schema = compile_schema(parse(json.dumps(schema).encode(), "s.json"))
        self.faults = self._schema.faults

    def is_valid(self, value: Any) -> bool:
        found = not self._schema.faults(value)
        assert found == self._schema.validator.is_valid(value)
        return found


def compiled(schema: Any) -> Compiled:
    """The compiled schema."""
    return Compiled(schema)


def schema_error(schema: Any) -> BundlerError:
    """The error with which a schema is refused."""
    with pytest.raises(BundlerError) as caught:
        compiled(schema)
    return caught.value


EXTERNAL = [
    "http://example.com/x.json",
    "https://example.com/x.json#/a",
    "HTTP://example.com/x",
    "file:///etc/hostname",
    "file:x.json",
    "other.json",
    "./other.json#/a",
    "../other.json",
    "/etc/hostname",
    "//example.com/x",
    "urn:acme:x",
    "data:application/json,{}",
    "ftp://example.com/x",
    "?x",
    "acme.other/v1",
    DRAFT,
    "http://json-schema.org/draft-07/schema#",
]


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$recursiveRef"])
@pytest.mark.parametrize("reference", EXTERNAL)
def test_a_reference_that_leaves_the_document_is_refused(keyword: str, reference: str) -> None:
    places: list[tuple[str, Any]] = [
        ("", {keyword: reference}),
        ("/properties/a", {"properties": {"a": {keyword: reference}}}),
        ("/properties/const", {"properties": {"const": {keyword: reference}}}),
        ("/$defs/enum/items", {"$defs": {"enum": {"items": {keyword: reference}}}}),
        ("/allOf/1/not", {"allOf": [{}, {"not": {keyword: reference}}]}),
    ]
    for pointer, schema in places:
        error = schema_error(schema)
        assert error.code == "schema-reference-external"
        assert [(fault.pointer, fault.path) for fault in error.diagnostics] == [(f"{pointer}/{keyword}", "s.json")]
        assert reference in error.message


def test_each_reference_that_leaves_the_document_is_told_with_its_place() -> None:
    text = b'{"$defs": {\n "a": {"$ref": "http://x/"},\n "b": {"$ref": "#/$defs/a"},\n "c": {"$ref": "y.json"}}}'
    with pytest.raises(BundlerError) as caught:
        compile_schema(parse_json(text, "s.json"))
    assert [(fault.pointer, fault.line, fault.column) for fault in caught.value.diagnostics] == [
        ("/$defs/a/$ref", 2, 16),
        ("/$defs/c/$ref", 4, 16),
    ]


def test_an_unknown_dialect_of_an_embedded_schema_is_a_reference_that_leaves_the_document() -> None:
    schema = {"$ref": "q", "$defs": {"a": {"$id": "q", "$schema": "http://example.com/dialect"}}}
    assert schema_error(schema).code == "schema-reference-external"


@pytest.mark.parametrize("identity", ["http://example.com/x", "file:///etc/hostname", "x.json"])
def test_an_id_that_is_no_schemas_makes_no_reference_local(identity: str) -> None:
    for schema in (
        {"unknown": {"$id": identity}, "$ref": identity},
        {"const": {"$id": identity}, "$ref": identity},
        {"properties": {"$id": {"const": identity}}, "$ref": identity},
    ):
        assert schema_error(schema).code == "schema-reference-external"


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}},
        {"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": {"type": "string"}}},
        {"$ref": "#foo", "$defs": {"a": {"$anchor": "foo", "type": "string"}}},
        {"$dynamicRef": "#foo", "$defs": {"a": {"$dynamicAnchor": "foo", "type": "string"}}},
        {"$ref": "b", "$defs": {"a": {"$id": "b", "type": "string"}}},
        {"$id": "acme.request/v1", "$ref": "b", "$defs": {"a": {"$id": "b", "type": "string"}}},
        {"$id": "acme.request/v1", "$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}},
        {"$ref": "https://example.com/b", "$defs": {"a": {"$id": "https://example.com/b", "type": "string"}}},
        {"$ref": "b#foo", "$defs": {"a": {"$id": "b", "$defs": {"q": {"$anchor": "foo", "type": "string"}}}}},
        {"$ref": "b", "$defs": {"a": {"$id": "b", "$ref": "#/$defs/c", "$defs": {"c": {"type": "string"}}}}},
        {"type": "string", "$comment": "see http://example.com", "description": "file:///etc/hostname"},
        {"type": "string", "default": {"$ref": "http://x/"}, "examples": [{"$ref": "x"}]},
        {"enum": ["text", {"$ref": "http://x/"}]},
        {"not": {"const": 1}, "properties": {"$ref": {"type": "string"}, "$schema": {}, "$id": {}}},
    ],
)
def test_references_within_the_document_are_followed(schema: Any) -> None:
    validator = compiled(schema)
    assert validator.is_valid("text")
    assert not validator.is_valid(1)


def test_a_property_that_is_named_like_a_reference_is_a_property() -> None:
    validator = compiled({"properties": {"$ref": {"type": "string"}}})
    assert validator.is_valid({"$ref": "http://x/"})
    assert not validator.is_valid({"$ref": 1})


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ([], ""),
        (None, ""),
        (5, ""),
        ({"type": "strin"}, "/type"),
        ({"properties": {"a/b": {"type": 5}}}, "/properties/a~1b/type"),
        ({"pattern": "("}, "/pattern"),
        ({"minimum": "x"}, "/minimum"),
        ({"required": ["a", "a"]}, "/required"),
        ({"properties": []}, "/properties"),
        ({"multipleOf": 0}, "/multipleOf"),
        ({"$ref": 5}, "/$ref"),
        ({"$ref": "#/$defs/nothing"}, ""),
        ({"$ref": "#nothing"}, ""),
        ({"$schema": "http://example.com/dialect"}, "/$schema"),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "/$schema"),
        ({"$schema": 5}, "/$schema"),
    ],
)
def test_what_is_no_valid_schema_is_refused(schema: Any, pointer: str) -> None:
    error = schema_error(schema)
    (fault,) = error.diagnostics
    assert (error.code, fault.pointer, fault.path) == ("schema-invalid", pointer, "s.json")
    assert fault.line == 1


def test_a_schema_of_another_file_form_has_its_places() -> None:
    with pytest.raises(BundlerError) as caught:
        compile_schema(parse_yaml(b"type: object\nproperties:\n  a:\n    type: strin\n", "s.yaml"))
    (fault,) = caught.value.diagnostics
    assert (fault.line, fault.column) == (4, 11)


def test_true_and_false_are_schemas() -> None:
    assert compiled(True).is_valid(1)
    assert not compiled(False).is_valid(1)


#: Draft → a schema that means what only this draft says, a value that is valid, one that is not.
DRAFTS: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "http://json-schema.org/draft-04/schema#": ({"minimum": 3, "exclusiveMinimum": True}, 4, 3),
    "http://json-schema.org/draft-04/schema": ({"id": "x", "maximum": 3, "exclusiveMaximum": True}, 2, 3),
    "http://json-schema.org/draft-06/schema#": ({"exclusiveMinimum": 3}, 4, 3),
    "http://json-schema.org/draft-07/schema#": (
        {"items": [{"type": "string"}], "additionalItems": False},
        ["a"],
        ["a", 1],
    ),
    "http://json-schema.org/draft-07/schema": (
        {"definitions": {"a": {"$id": "#b", "type": "string"}}, "allOf": [{"$ref": "#b"}]},
        "x",
        1,
    ),
    "https://json-schema.org/draft/2019-09/schema": (
        {"$recursiveAnchor": True, "properties": {"a": {"$recursiveRef": "#"}}, "unevaluatedProperties": False},
        {"a": {"a": {}}},
        {"a": {"b": 1}},
    ),
    DRAFT: ({"prefixItems": [{"type": "string"}], "items": False}, ["a"], ["a", 1]),
    DRAFT + "#": ({"prefixItems": [{"type": "string"}], "items": False}, ["a"], [1]),
}


@pytest.mark.parametrize("draft", list(DRAFTS))
def test_the_draft_that_schema_names_is_the_one_that_counts(draft: str) -> None:
    schema, good, bad = DRAFTS[draft]
    validator = compiled({"$schema": draft, **schema})
    assert validator.is_valid(good)
    assert not validator.is_valid(bad)
    assert schema_error({"$schema": draft, "$ref": "http://example.com/"}).code == "schema-reference-external"
    assert schema_error({"$schema": draft, "type": "strin"}).code == "schema-invalid"


def test_without_schema_the_draft_is_2020_12() -> None:
    validator = compiled({"prefixItems": [{"type": "string"}], "items": False})
    assert validator.is_valid(["a"])
    assert not validator.is_valid(["a", 1])


def test_a_pattern_means_what_ecmascript_says() -> None:
    assert not compiled({"pattern": "^[a-z]+$"}).is_valid("abc\n")
    assert not compiled({"pattern": r"^\d$"}).is_valid("٣")
    assert not compiled({"pattern": r"^\w$"}).is_valid("ä")
    assert compiled({"pattern": r"^\p{L}$"}).is_valid("ä")
    assert compiled({"pattern": r"^(?<year>\d{4})$"}).is_valid("2026")
    assert compiled({"pattern": "b"}).is_valid("abc")


def test_booleans_are_no_numbers_and_lengths_are_in_characters() -> None:
    assert not compiled({"const": 1}).is_valid(True)
    assert not compiled({"type": "integer"}).is_valid(True)
    assert compiled({"uniqueItems": True}).is_valid([1, True])
    assert not compiled({"uniqueItems": True}).is_valid([1, 1.0])
    assert compiled({"type": "integer"}).is_valid(2.0)
    assert compiled({"maxLength": 1}).is_valid("🚀")
    assert not compiled({"maxLength": 1}).is_valid("ab")


@pytest.mark.parametrize(
    "hostile", ["^(a+)+$", "^(a|aa)+$", "^(a|a?)+$", "^(?=(a+)+b)a", r"^(a*)*\1b", "(.*)(.*)(.*)(.*)(.*)[0-9]{3}$"]
)
def test_a_hostile_pattern_ends_quickly(hostile: str) -> None:
    validator = compiled({"pattern": hostile})
    assert not validator.is_valid("a" * 3000 + "!")
    assert [keyword for keyword, _, _ in validator.faults("a" * 3000 + "!")] == ["pattern"]


def test_a_recursive_schema_ends() -> None:
    assert compiled({"$ref": "#"}).is_valid(1)
    assert compiled({"allOf": [{"$ref": "#"}]}).is_valid(1)
    loop = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    assert compiled(loop).is_valid(1)
    tree = compiled({"type": "array", "items": {"$ref": "#"}})
    deep: Any = []
    for _ in range(199):
        deep = [deep]
    assert tree.is_valid(deep)
    (fault,) = tree.faults([[], [[5]]])
    assert fault[:2] == ("type", "/1/0/0")


def test_the_faults_of_a_value_have_keyword_and_pointer() -> None:
    validator = compiled(
        {
            "type": "object",
            "required": ["a"],
            "properties": {"b/c": {"type": "string"}, "d": {"items": {"minimum": 1}}, "e": {"not": {}}},
            "additionalProperties": False,
        }
    )
    found = validator.faults({"b/c": 1, "d": [1, 0], "e": 1, "x~y": 1})
    assert sorted((keyword, pointer) for keyword, pointer, _ in found) == [
        ("additionalProperties", "/x~0y"),
        ("minimum", "/d/1"),
        ("not", "/e"),
        ("required", ""),
        ("type", "/b~1c"),
    ]
    assert compiled({"required": ["a"]}).faults({"a": 1}) == []


NOTHING_OPENED = """
import json, sys
from bundler.errors import BundlerError
from bundler.protocol.documents import parse_json
from bundler.protocol.foreign import compile_schema

for warm in ("{}", '{"$ref": "http://x/"}', '{"u": {"$id": "x"}, "$ref": "x"}', '{"type": 5}'):
    try:
        compile_schema(parse_json(warm.encode(), "s.json"))
    except BundlerError:
        pass
watched = ("open", "socket.", "urllib.", "http.", "ftplib.", "subprocess.", "os.system", "os.exec", "os.listdir", "os.scandir")
events = []
sys.addaudithook(lambda event, arguments: event.startswith(watched) and events.append((event, repr(arguments))))
codes = []
for schema in json.loads(sys.argv[1]):
    try:
        compile_schema(parse_json(json.dumps(schema).encode(), "s.json")).faults({})
        codes.append("valid")
    except BundlerError as error:
        codes.append(error.code)
opened = list(events)
open("/dev/null").close()
print(json.dumps([codes, opened, len(events) > len(opened)]))
"""


def test_nothing_is_opened_because_a_schema_says_so(tmp_path: Path) -> None:
    # Whoever opened this file would wait for its other end until the time is over.
    trap = tmp_path / "trap.json"
    os.mkfifo(trap)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        http = f"http://127.0.0.1:{server.getsockname()[1]}/x.json"
        targets = [
            http,
            http + "#/a",
            trap.as_uri(),
            trap.as_uri() + "#/a",
            str(trap),
            "trap.json",
            f"file://localhost{trap}",
        ]
        schemas: list[Any] = []
        for target in targets:
            plain = target.partition("#")[0]
            schemas += [
                {"$ref": target},
                {"$dynamicRef": target},
                {"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveRef": target},
                {"$schema": "http://json-schema.org/draft-04/schema#", "id": plain, "$ref": target},
                {"unknown": {"$id": plain}, "$ref": target},
                {"const": {"$id": plain}, "$ref": target},
                {"$ref": "q", "$defs": {"a": {"$id": "q", "$schema": plain}}},
                {"$schema": plain},
                {"$vocabulary": {plain: True}},
                {"$id": plain, "properties": {"a": {"$ref": "x.json"}}},
                {"contentSchema": {"$ref": target}},
            ]
        result = subprocess.run(
            [sys.executable, "-c", NOTHING_OPENED, json.dumps(schemas)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        codes, opened, hook_works = json.loads(result.stdout)
        assert hook_works
        assert opened == []
        assert set(codes) == {"schema-reference-external", "schema-invalid", "valid"}
        assert codes.count("valid") == len(targets)  # `$vocabulary` alone refers to nothing
        with pytest.raises(BlockingIOError):
            server.accept()


def combined(keyword: str, depth: int, leaf: Any) -> dict[str, Any]:
    """Definitions that each apply the next one twice."""
    definitions = {f"d{i}": {keyword: [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(depth)}
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{depth}": leaf}}


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_a_schema_that_multiplies_is_not_applied(keyword: str) -> None:
    for value in ({}, "x"):
        with pytest.raises(BundlerError) as caught:
            compiled(combined(keyword, 40, {"type": "string"})).faults(value)
        assert caught.value.code == "schema-limit-exceeded"
    assert compiled(combined("allOf", 6, {"type": "string"})).is_valid("x")


def test_a_schema_that_multiplies_with_the_depth_of_the_value() -> None:
    deep: Any = {}
    for _ in range(60):
        deep = {"a": deep}
    for twice in (
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {
            "allOf": [
                {"$ref": "#/properties/a/allOf/1"},
                {"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}},
            ]
        },
    ):
        schema = {"type": "object", "properties": {"a": twice}}
        with pytest.raises(BundlerError) as caught:
            compiled(schema).faults(deep)
        assert caught.value.code == "schema-limit-exceeded"
    assert compiled({"properties": {"a": {"$ref": "#"}}}).is_valid(deep)


@pytest.mark.parametrize(
    "reference",
    ["#/$defs/d1", "#name1", "https://example.com/d1", "https://example.com/root#/$defs/d1", "#%2F%24defs%2Fd1"],
)
def test_a_reference_of_any_form_counts(reference: str) -> None:
    definitions: dict[str, Any] = {"d60": {"type": "string"}}
    for i in range(60):
        target = reference.replace("1", str(i + 1))
        definitions[f"d{i}"] = {"$id": f"https://example.com/d{i}", "anyOf": [{"$ref": target}, {"$ref": target}]}
        if "#name" in reference:
            definitions[f"d{i}"] = {"$anchor": f"name{i}", "anyOf": [{"$ref": target}, {"$ref": target}]}
            definitions["d60"]["$anchor"] = "name60"
        elif reference.startswith("#"):
            definitions[f"d{i}"].pop("$id")
        else:
            definitions["d60"]["$id"] = "https://example.com/d60"
    root = {"$id": "https://example.com/root", "$ref": "#/x", "x": {"anyOf": [definitions["d0"]]}, "$defs": definitions}
    schema = {"allOf": [root]} if "root" in reference else {key: value for key, value in root.items() if key != "$id"}
    try:
        compiled(schema).faults({})
    except BundlerError as error:
        assert error.code in ("schema-limit-exceeded", "schema-invalid")  # noqa: PT017 - both end at once
    else:
        raise AssertionError("it was applied")


def test_large_values_are_judged() -> None:
    schema = {"items": {"required": ["a"], "properties": {"a": {"type": "integer"}}, "unevaluatedProperties": False}}
    assert compiled(schema).is_valid([{"a": index} for index in range(10_000)])
    assert len(compiled(schema).faults([{"a": "x"} for _ in range(10_000)])) == 50


def test_numbers_that_json_has_not_make_no_schema() -> None:
    for text in (b"const: .inf", b"enum: [.nan]", b"maximum: -.inf"):
        with pytest.raises(BundlerError) as caught:
            compile_schema(parse_yaml(text, "s.yaml"))
        assert caught.value.code == "schema-invalid"


def test_a_text_is_no_schema() -> None:
    for value in ("true", '{"type": "string"}', ""):
        assert schema_error(value).code == "schema-invalid"


def test_patterns_that_try_in_many_ways_are_bounded() -> None:
    schema = {"items": {"pattern": "^(?:(?=a)a+)+$"}}
    with pytest.raises(BundlerError) as caught:
        compiled(schema).faults(["a" * 40 + "!"] * 50_000)
    assert caught.value.code == "schema-limit-exceeded"
    assert compiled(schema).faults(["a" * 40 + "!"] * 30)[0][:2] == ("pattern", "/0")
    assert compiled({"pattern": "^(?!x)[a-z]+$"}).is_valid("abc")


def test_many_anchors_and_many_items_are_not_multiplied() -> None:
    definitions = {f"d{i}": {"$anchor": f"a{i}"} for i in range(4000)}
    assert compiled({"$defs": definitions, "items": {"$ref": "#a7"}}).is_valid(list(range(5000)))
