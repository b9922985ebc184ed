"""`agent-bundler evaluate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .options import GlobalOptions
from .options import command as make_command
from .output import echo, print_json, visible
from .state import Variadic, evaluated, state_options

if TYPE_CHECKING:
    from ..runtime.evaluate import Evaluation


@make_command("evaluate", cls=Variadic, epilog="Example: agent-bundler evaluate release -m my-provider")
@click.argument("graph", required=False)
@state_options
def command(options: GlobalOptions, graph: str | None, entry: str | None, **given: Any) -> None:
    """Tell which steps of the Graph are legal now, from the Facts, Outcomes and authorities given.

    Nothing is changed and nothing is executed. With --skill the Skill's binding selects Provider, Graph and Entry.
    """
    with evaluated(options, graph, entry, given) as (_, evaluation, _workspace):
        if options.json:
            print_json(evaluation.to_json())
        else:
            show_evaluation(evaluation)


def show_evaluation(evaluation: Evaluation) -> None:
    """The Evaluation for people."""
    ended = f" with Outcome {evaluation.outcome}" if evaluation.outcome is not None else ""
    echo(f"{evaluation.provider} {evaluation.graph}, entry {evaluation.entry}: {evaluation.status}{ended}")
    for candidate in [*([evaluation.primary] if evaluation.primary else []), *evaluation.alternatives]:
        lead = "next" if candidate is evaluation.primary else "or"
        hint = f": {candidate.hint}" if candidate.hint else ""
        echo(f"{lead:>6}  {visible(candidate.label)} ({candidate.state_key}), {candidate.availability}")
        echo(f"{'':8}{candidate.reason_code}{visible(hint)}\n{'':8}{candidate.route_id}")
    for diagnostic in evaluation.diagnostics:
        echo(f"  {diagnostic.severity}[{diagnostic.code}] {visible(diagnostic.message)}")
    echo(f"revision {evaluation.revision}")
