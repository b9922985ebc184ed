"""What commands of the runtime share: the Graph that is meant, and the state that it is evaluated from."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from .options import GlobalOptions
from .output import warn

if TYPE_CHECKING:
    from ..runtime.evaluate import Evaluation
    from ..runtime.provider import OpenedProvider

#: The largest JSON that `@FILE` brings, in bytes.
MAX_JSON = 64 * 1024 * 1024
_DEFAULT_ENTRY = "default"


class Variadic(click.Command):
    """A command of whose options some take several values after one name: `--authority a b`."""

    def __init__(self, *args: Any, variadic: tuple[str, ...] = ("--authority",), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._variadic = variadic

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rewritten: list[str] = []
        current: str | None = None
        for argument in args:
            if argument in self._variadic:
                current = argument
                continue
            if current is not None and not argument.startswith("-"):
                rewritten += [current, argument]
                continue
            current = None
            rewritten.append(argument)
        return super().parse_args(ctx, rewritten)


def state_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--entry`, `--state`, `--facts`, `--outcomes` and `--authority`."""
    for option in reversed(
        (
            click.option("--entry", metavar="ID", help="The entrypoint.  [default: default]"),
            click.option("--state", metavar="RUN", help="A Run file: its Facts, Outcomes and authorities count."),
            click.option("--facts", metavar="JSON|@FILE", help="Facts, laid over those of the Run key by key."),
            click.option("--outcomes", metavar="JSON|@FILE", help="Outcomes by state key, likewise."),
            click.option("--authority", "authorities", multiple=True, metavar="ID...", help="Session authorities."),
        )
    ):
        function = option(function)
    return function


@contextmanager
def evaluated(
    options: GlobalOptions, graph: str | None, entry: str | None, given: dict[str, Any]
) -> Iterator[tuple[OpenedProvider, Evaluation, str | None]]:
    """The opened Provider, the Evaluation that is meant, and the Run's workspace, if a Run was given.

    Raises `graph-selection-missing`, `skill-graph-conflict`, `skill-entry-conflict`, `run-provider-mismatch`, and what
    opening, reading and evaluating raise.
    """
    facts, outcomes = json_object(given["facts"], "--facts"), json_object(given["outcomes"], "--outcomes")
    authorities = list(given["authorities"])
    run = None
    if given["state"] is not None:
        from ..runtime.runs import read_run

        run = read_run(given["state"])
    if run is not None and graph is None and options.skill is None:
        graph, entry = run.graph, entry or run.entry
    graph, entry = select(options, graph, entry)
    with options.open() as opened:
        warn(options, opened.warnings)
        if options.skill is not None:
            options.binding(options.skill).check(opened.provider)
        if run is not None:
            run.check_provider(opened.provider.id)
            facts = {**run.facts, **facts}
            outcomes = {**{key: record.outcome for key, record in run.outcomes.items()}, **outcomes}
            authorities = [*run.authorities, *authorities]
        evaluation = opened.evaluate(graph, entry, facts=facts, outcomes=outcomes, authorities=authorities)
        yield opened, evaluation, None if run is None else run.workspace


def select(options: GlobalOptions, graph: str | None, entry: str | None) -> tuple[str, str]:
    """The Graph and Entry that are meant: those of a Skill's binding, or those named.

    Raises `graph-selection-missing`, `skill-graph-conflict` and `skill-entry-conflict`.
    """
    from ..errors import BundlerError

    if options.skill is not None:
        binding = options.binding(options.skill)
        if graph not in (None, binding.graph):
            message = f"the Graph given is `{graph}`, the Skill {options.skill} is bound to `{binding.graph}`"
            raise BundlerError("skill-graph-conflict", message, path=options.skill)
        if entry not in (None, binding.entry):
            message = f"the Entry given is `{entry}`, the Skill {options.skill} is bound to `{binding.entry}`"
            raise BundlerError("skill-entry-conflict", message, path=options.skill)
        return binding.graph, binding.entry
    if graph is None:
        raise BundlerError("graph-selection-missing", "no Graph was named, and no Skill or Run that would name one")
    return graph, entry or _DEFAULT_ENTRY


def json_value(text: str, option: str) -> Any:
    """The JSON in a text, or in the file that `@FILE` names. Raises `json-invalid`, and what reading the file raises."""
    from ..errors import BundlerError
    from ..protocol.documents import parse_json
    from ..tree import DirectoryTree

    data, named = text.encode("utf-8", "surrogateescape"), option
    if text.startswith("@"):
        folder, name = os.path.split(os.path.realpath(text[1:]))
        with DirectoryTree(folder) as tree:
            data, named = tree.read(name, MAX_JSON), text[1:]
    try:
        return parse_json(data, named).value
    except BundlerError as error:
        raise BundlerError("json-invalid", error.message, path=named, line=error.diagnostics[0].line) from None


def json_object(text: str | None, option: str) -> dict[str, Any]:
    """The JSON object in a text or file; empty without one. Raises `json-object-required` for other JSON."""
    from ..errors import BundlerError
    from ..protocol.documents import describe

    if text is None:
        return {}
    value = json_value(text, option)
    if not isinstance(value, dict):
        raise BundlerError("json-object-required", f"{option} is {describe(value)}; a JSON object is expected")
    return value


def shown(value: Any) -> str:
    """A JSON value on one line, for people."""
    return json.dumps(value, ensure_ascii=False)
