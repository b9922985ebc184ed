"""What a host makes: the digest of what it is asked, and which answers are valid for a location."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

import bundler
from bundler.errors import BundlerError
from bundler.protocol.canonical import Json, digest
from bundler.protocol.schemas import schema_path
from bundler.runtime.host_actions import HostActionResult, host_action_input_digest, validate_host_action_result
from bundler.runtime.locations import HostActionLocation, read_receipts
from bundler.runtime.open import open_provider
from bundler.runtime.provider import OpenedProvider
from bundler.runtime.receipts import ReadReceipt, make_receipts, receipt_of

from ..builders import build_from
from ..views import REVISION, with_command, write_view

RESULT = jsonschema_rs.Draft202012Validator(json.loads(schema_path("host-action-result").read_bytes()))
#: `{"handler":"acme.index","input":{"schema":"acme.request/v1","value":{"depth":2,"query":"code"}}}`, hashed by sha256sum.
ASKED = "sha256:fe58fd23dab587b96563ad5105b75deb21af135e52eef3ff4db3214ec460bf56"

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[OpenedProvider]:
    build_from(write_view(tmp_path, with_command("true")), tmp_path / "bundle")
    with open_provider(tmp_path / "bundle") as opened:
        yield opened


def location_in(opened: OpenedProvider) -> HostActionLocation:
    location = opened.locate("made", revision=REVISION)
    assert isinstance(location, HostActionLocation)
    return location


def answer(location: HostActionLocation, **output: Json) -> dict[str, Any]:
    """A valid result, inline where no other output is given."""
    return {
        "schema": "agent-graph.host-action-result.v1",
        "handler": "acme.index",
        "input_digest": host_action_input_digest(location),
        "output": {"schema": "acme.answer/v1", **(output or {"inline": {"hits": 3}})},
        "receipt": {"adapter": "acme.adapter", "adapter_version": "1.2.0"},
    }


def faults(opened: OpenedProvider, result: Json, location: HostActionLocation | None = None) -> list[tuple[str, str]]:
    """(pointer, message) of each fault; all have the one code."""
    with pytest.raises(BundlerError) as raised:
        validate_host_action_result(location or location_in(opened), result, opened)
    assert {raised.value.code, *(each.code for each in raised.value.diagnostics)} == {"host-action-result-invalid"}
    assert all(each.hint for each in raised.value.diagnostics)
    return [(str(each.pointer), each.message) for each in raised.value.diagnostics]


def test_the_digest_of_what_is_asked(opened: OpenedProvider) -> None:
    location = location_in(opened)
    assert host_action_input_digest(location) == ASKED
    assert host_action_input_digest(replace(location, input={"depth": 2.0, "query": "code"})) == ASKED
    others = [
        replace(location, handler="acme.other"),
        replace(location, input_schema="acme.request/v2"),
        replace(location, input={"query": "code"}),
    ]
    assert len({ASKED, *map(host_action_input_digest, others)}) == 4
    # What it is asked for does not depend on the Route, nor on what is expected of it.
    same = [replace(location, revision="sha256:" + "6" * 64), replace(location, output_schema="acme.answer/v2")]
    assert {ASKED, *map(host_action_input_digest, same)} == {ASKED}


def test_an_inline_output(opened: OpenedProvider) -> None:
    location = location_in(opened)
    given = answer(location)
    result = validate_host_action_result(location, given, opened)
    assert result == HostActionResult(
        id="made",
        revision=REVISION,
        handler="acme.index",
        input_digest=ASKED,
        output_schema="acme.answer/v1",
        output_digest=digest({"hits": 3}),
        inline={"hits": 3},
        resource_ref=None,
        adapter="acme.adapter",
        adapter_version="1.2.0",
    )
    assert result.to_json() == given
    assert RESULT.is_valid(result.to_json())
    assert receipt_of(result) == ReadReceipt(id="made", digest=digest({"hits": 3}), revision=REVISION)


def test_an_output_that_is_kept_elsewhere(opened: OpenedProvider) -> None:
    location = location_in(opened)
    made = "sha256:" + "a" * 64
    given = answer(location, resource={"ref": "store://42", "digest": made})
    result = validate_host_action_result(location, given, opened)
    assert (result.output_digest, result.resource_ref, result.inline) == (made, "store://42", None)
    assert result.to_json() == given
    assert receipt_of(result) == ReadReceipt(id="made", digest=made, revision=REVISION)


def test_its_receipt_makes_the_location_current_for_that_revision(opened: OpenedProvider) -> None:
    location = location_in(opened)
    result = validate_host_action_result(location, answer(location), opened)
    receipts = read_receipts(make_receipts("acme/demo", [receipt_of(result)]), "acme/demo")
    assert receipts.marked(location).read_state == "current"
    assert receipts.marked(replace(location, revision="sha256:" + "6" * 64)).read_state == "read-required"


CHANGES: dict[str, tuple[Change, list[tuple[str, str]]]] = {
    "another handler": (
        lambda result: result.update(handler="acme.other"),
        [("/handler", '`/handler` is "acme.other"; the location of `made` asks for acme.index')],
    ),
    "of another input": (
        lambda result: result.update(input_digest="sha256:" + "0" * 64),
        [("/input_digest", f"asks for {ASKED}")],
    ),
    "another schema": (
        lambda result: result["output"].update(schema="acme.answer/v2"),
        [("/output/schema", "asks for acme.answer/v1")],
    ),
    "output that breaks the schema": (
        lambda result: result["output"].update(inline={"hits": "3"}),
        [("/output/inline/hits", 'breaks schemas/answer.json: `/output/inline/hits` is "3"; expected: integer (type)')],
    ),
    "null for an object": (
        lambda result: result["output"].update(inline=None),
        [("/output/inline", "expected: object")],
    ),
    "both outputs": (
        lambda result: result["output"].update(resource={"ref": "r", "digest": "d"}),
        [("/output", "`/output` has both `inline` and `resource`; expected exactly one of them")],
    ),
    "neither output": (
        lambda result: result["output"].pop("inline"),
        [("/output", "`/output` has neither `inline` nor `resource`; expected exactly one of them")],
    ),
    "output of another kind": (lambda result: result.update(output=3), [("/output", "is 3; expected: object")]),
    "no receipt": (lambda result: result.pop("receipt"), [("", "the document lacks the field `receipt`")]),
    "empty texts": (
        lambda result: result.update(handler="", receipt={"adapter": "", "adapter_version": "1"}),
        [("/handler", "is empty"), ("/receipt/adapter", "is empty")],
    ),
    "an unknown field": (lambda result: result.update(more=1), [("/more", "is a field that is not allowed here")]),
    "another protocol": (
        lambda result: result.update(schema="agent-graph.host-action-result.v2"),
        [("/schema", "expected: agent-graph.host-action-result.v1")],
    ),
    "several at once": (
        lambda result: result.update(
            handler="acme.other", input_digest="x", more=1, output={"schema": "acme.answer/v1", "inline": {"hits": 1.5}}
        ),
        [
            ("/more", "not allowed"),
            ("/handler", "asks for"),
            ("/input_digest", "asks for"),
            ("/output/inline/hits", "is 1.5"),
        ],
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_result_that_is_not_valid(opened: OpenedProvider, name: str) -> None:
    change, expected = CHANGES[name]
    result = answer(location_in(opened))
    change(result)
    found = faults(opened, result)
    assert [pointer for pointer, _ in found] == [pointer for pointer, _ in expected]
    for (_, message), (_, part) in zip(found, expected, strict=True):
        assert part in message


@pytest.mark.parametrize("value", [None, [], "text", 1, {}])
def test_what_is_no_result_at_all(opened: OpenedProvider, value: Json) -> None:
    assert faults(opened, value)


def test_what_json_cannot_say(opened: OpenedProvider) -> None:
    location = location_in(opened)
    for value in (float("nan"), object(), {1: 2}, "\ud800"):
        with pytest.raises(BundlerError) as raised:
            validate_host_action_result(location, answer(location, inline=value), opened)
        assert raised.value.code == "json-invalid"


def test_the_result_is_not_changed(opened: OpenedProvider) -> None:
    given = answer(location_in(opened))
    before = copy.deepcopy(given)
    validate_host_action_result(location_in(opened), given, opened)
    assert given == before


def test_a_location_of_another_provider(opened: OpenedProvider) -> None:
    location = location_in(opened)
    with pytest.raises(BundlerError) as raised:
        validate_host_action_result(replace(location, id="elsewhere"), answer(location), opened)
    assert raised.value.code == "resource-missing"
    for other in ("view", "guide"):
        assert faults(opened, answer(location), replace(location, id=other)) == [
            ("", f"`{other}` is not made by a host in the Provider `acme/demo`")
        ]


def test_a_location_of_another_version(opened: OpenedProvider) -> None:
    location = replace(location_in(opened), output_schema="acme.answer/v2")
    result = answer(location)
    result["output"]["schema"] = "acme.answer/v2"
    ((pointer, message),) = faults(opened, result, location)
    assert pointer == "/output/schema"
    assert "asks for acme.answer/v2, the Provider has acme.answer/v1" in message


def test_the_public_names() -> None:
    assert bundler.validate_host_action_result is validate_host_action_result
    assert bundler.host_action_input_digest is host_action_input_digest
