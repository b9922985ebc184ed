"""Errors and diagnostics: their shape, and that the table of codes is the whole truth."""

from __future__ import annotations

import ast
import copy
import json
import pickle
import re
from pathlib import Path

import jsonschema_rs
import pytest

import bundler
from bundler.errors import CODES, ENVIRONMENT_CODES, BundlerError, Diagnostic
from bundler.protocol.schemas import schema_path

SOURCES = sorted(Path(bundler.__file__).parent.rglob("*.py"))
ENVELOPE = jsonschema_rs.Draft202012Validator(json.loads(schema_path("error").read_bytes()))

SIMPLE = BundlerError("file-missing", "`a.md` does not exist")
FULL = BundlerError(
    "parse-failed",
    "a.yaml:3:7 is not YAML",
    path="a.yaml",
    line=3,
    column=7,
    pointer="/a/0",
    hint="mend it",
    detail={"seen": ["x"], "count": 2},
)
SEVERAL = BundlerError.of([FULL, SIMPLE, FULL])
NO_FAULT = BundlerError("internal-error", "something", diagnostics=[])
ODD = BundlerError("a code that nobody knows", "", path="\n", detail={"": None})


def codes_used() -> dict[str, list[str]]:
    """Code → places of the calls that make an error or diagnostic with it."""
    used: dict[str, list[str]] = {}
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            function = node.func
            name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
            if name not in ("BundlerError", "fault", "_fault", "Diagnostic", "_finding"):
                continue
            given = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "code")]
            for argument in given:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    used.setdefault(argument.value, []).append(f"{source.name}:{node.lineno}")
    return used


def test_every_code_that_is_raised_is_listed() -> None:
    used = codes_used()
    assert len(used) > 50
    assert {code: places for code, places in used.items() if code not in CODES and code not in ENVIRONMENT_CODES} == {}


def test_every_code_that_is_listed_is_raised_somewhere() -> None:
    assert (CODES.keys() | ENVIRONMENT_CODES.keys()) - codes_used().keys() == set()


def test_no_code_is_both_of_the_input_and_of_the_environment() -> None:
    assert CODES.keys() & ENVIRONMENT_CODES.keys() == set()


@pytest.mark.parametrize("code", sorted(CODES.keys() | ENVIRONMENT_CODES.keys()))
def test_a_code_is_lower_case_words_and_its_remedy_a_phrase(code: str) -> None:
    assert re.fullmatch(r"[a-z]+[0-9]*(?:-[a-z0-9]+)*", code)
    error = BundlerError(code, "what happened")
    assert error.is_environment == (code in ENVIRONMENT_CODES)
    if CODES.get(code, "") is not None:
        assert error.hint
        assert not error.hint.endswith(".")


def test_an_error_has_one_diagnostic_with_all_that_is_known() -> None:
    assert FULL.diagnostics == (
        Diagnostic(
            code="parse-failed",
            message="a.yaml:3:7 is not YAML",
            severity="error",
            path="a.yaml",
            line=3,
            column=7,
            pointer="/a/0",
            hint="mend it",
            detail={"seen": ["x"], "count": 2},
        ),
    )
    assert str(FULL) == FULL.message


def test_a_hint_of_its_own_replaces_that_of_the_code() -> None:
    assert SIMPLE.hint == SIMPLE.diagnostics[0].hint == CODES["file-missing"]
    assert FULL.hint == "mend it"
    assert BundlerError("libyaml-missing", "x").hint == ENVIRONMENT_CODES["libyaml-missing"]
    assert ODD.hint is None


def test_the_envelope_is_that_of_the_protocol() -> None:
    assert FULL.to_json() == {
        "schema": "agent-graph.error.v1",
        "state": "error",
        "error": {
            "code": "parse-failed",
            "message": "a.yaml:3:7 is not YAML",
            "diagnostics": [
                {
                    "code": "parse-failed",
                    "severity": "error",
                    "message": "a.yaml:3:7 is not YAML",
                    "path": "a.yaml",
                    "detail": {
                        "seen": ["x"],
                        "count": 2,
                        "line": 3,
                        "column": 7,
                        "pointer": "/a/0",
                        "hint": "mend it",
                    },
                }
            ],
        },
    }


def test_a_diagnostic_holds_nothing_that_is_not_known() -> None:
    assert Diagnostic(code="x", message="m", severity="warning").to_json() == {
        "code": "x",
        "severity": "warning",
        "message": "m",
    }
    assert Diagnostic(code="x", message="m", pointer="").to_json()["detail"] == {"pointer": ""}


@pytest.mark.parametrize("error", [SIMPLE, FULL, SEVERAL, NO_FAULT, ODD, BundlerError.of([SEVERAL, ODD])])
def test_an_envelope_satisfies_its_schema(error: BundlerError) -> None:
    written = json.loads(json.dumps(error.to_json()))
    assert list(ENVELOPE.iter_errors(written)) == []
    assert not ENVELOPE.is_valid({**written, "more": 1})
    assert not ENVELOPE.is_valid({**written, "schema": "agent-graph.error.v2"})


def test_several_faults_are_one_error_and_the_first_gives_code_message_and_hint() -> None:
    assert (SEVERAL.code, SEVERAL.message, SEVERAL.hint) == (FULL.code, FULL.message, FULL.hint)
    assert SEVERAL.diagnostics == (*FULL.diagnostics, *SIMPLE.diagnostics, *FULL.diagnostics)
    nested = BundlerError.of(iter([SIMPLE, SEVERAL]))
    assert nested.code == "file-missing"
    assert nested.diagnostics == (*SIMPLE.diagnostics, *SEVERAL.diagnostics)


def test_one_fault_stays_itself() -> None:
    assert BundlerError.of([FULL]) is FULL


@pytest.mark.parametrize("error", [SIMPLE, FULL, SEVERAL, NO_FAULT, ODD])
def test_an_error_survives_pickling_and_copying(error: BundlerError) -> None:
    for again in (
        *(pickle.loads(pickle.dumps(error, protocol)) for protocol in range(6)),
        copy.copy(error),
        copy.deepcopy(error),
    ):
        assert type(again) is BundlerError
        assert (again.code, again.message, again.hint) == (error.code, error.message, error.hint)
        assert again.diagnostics == error.diagnostics
        assert str(again) == str(error)
        assert again.to_json() == error.to_json()


def test_a_diagnostic_does_not_change() -> None:
    with pytest.raises(AttributeError):
        FULL.diagnostics[0].code = "other"  # type: ignore[misc]
