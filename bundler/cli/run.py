"""`agent-bundler run start | status | record | facts | authority | checkpoint | resume | events`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from .evaluate import show_evaluation
from .options import GlobalOptions, add_global_options, subcommand
from .output import echo, plural, print_json, visible, warn
from .state import Variadic, json_object, json_value, select, shown

if TYPE_CHECKING:
    from ..runtime.provider import OpenedProvider
    from ..runtime.runs import Run

_EXAMPLE = "Example: agent-bundler run "


@click.group("run", epilog=f"{_EXAMPLE}status --state run.json -m my-provider")
def command() -> None:
    """Keep a Run in a file that you name: Facts, the latest Outcomes, session authorities, and what happened."""


add_global_options(command)
_state = click.option("--state", required=True, metavar="RUN", help="The Run file.")


@subcommand(command, "start", short_help="A new Run.", epilog=f"{_EXAMPLE}start release --state run.json", cls=Variadic)
@click.argument("graph", required=False)
@click.option("--state", required=True, metavar="RUN", help="The file to write; it must not exist.")
@click.option("--entry", metavar="ID", help="The entrypoint.  [default: default]")
@click.option("--workspace", metavar="DIR", help="The folder in which the commands of its Routes run.")
@click.option("--facts", metavar="JSON|@FILE", help="Facts to begin with.")
@click.option("--authority", "authorities", multiple=True, metavar="ID...", help="Session authorities.")
def start(options: GlobalOptions, graph: str | None, state: str, entry: str | None, **given: Any) -> None:
    """Start a Run of GRAPH; with --skill the Skill's binding names Graph and Entry."""
    from ..runtime.runs import start_run

    graph, entry = select(options, graph, entry)
    with _opened(options) as opened:
        run = start_run(
            state,
            opened.provider,
            graph,
            entry,
            workspace=given["workspace"],
            facts=json_object(given["facts"], "--facts"),
            authorities=given["authorities"],
        )
    _tell(options, run, f"started {run.id} in {state}")


@subcommand(command, "status", short_help="What is next in a Run.", epilog=f"{_EXAMPLE}status --state run.json")
@_state
def status(options: GlobalOptions, state: str) -> None:
    """Evaluate a Run: which steps of its Graph are legal now."""
    from ..runtime.runs import read_run

    run = read_run(state)
    outcomes = {key: record.outcome for key, record in run.outcomes.items()}
    with _opened(options) as opened:
        run.check_provider(opened.provider.id)
        evaluation = opened.evaluate(
            run.graph, run.entry, facts=run.facts, outcomes=outcomes, authorities=run.authorities
        )
    if options.json:
        about = {"id": run.id, "state": os.path.abspath(state), "updatedAt": run.updated_at}
        print_json({"run": about, "evaluation": evaluation.to_json()})
        return
    echo(f"{run.id}, changed {run.updated_at}, {plural(len(run.events), 'event')}")
    show_evaluation(evaluation)


@subcommand(
    command, "record", short_help="Record an Outcome.", epilog=f"{_EXAMPLE}record check completed --state r.json"
)
@click.argument("node")
@click.argument("outcome")
@_state
@click.option("--detail", metavar="JSON|TEXT", help="What is to be remembered of it.")
def record(options: GlobalOptions, node: str, outcome: str, state: str, detail: str | None) -> None:
    """Record the OUTCOME of NODE: a state key such as release/check, or the id of a node of the Run's Graph."""
    from ..runtime.runs import ABSENT, find_state_key, read_run, record_outcome

    said = ABSENT if detail is None else _detail(detail)
    run = read_run(state)
    with _opened(options) as opened:
        run.check_provider(opened.provider.id)
        key, warning = find_state_key(opened.provider, run.graph, node)
        run = record_outcome(state, key, outcome, detail=said, provider=opened.provider.id)
    warn(options, [] if warning is None else [warning])
    _tell(options, run, f"recorded {key}: {outcome}")


@subcommand(
    command, "facts", short_help="Set Facts.", epilog=f'{_EXAMPLE}facts --set \'{{"ci": "passed"}}\' --state r.json'
)
@_state
@click.option("--set", "facts", required=True, metavar="JSON|@FILE", help="Facts, laid over those of the Run.")
@click.option("--replace", "replace_all", is_flag=True, help="Put them in the place of all Facts.")
def facts_(options: GlobalOptions, state: str, facts: str, replace_all: bool) -> None:
    """Set Facts of a Run, key by key at the top level."""
    from ..runtime.runs import set_facts

    given = json_object(facts, "--set")
    with _opened(options) as opened:
        run = set_facts(state, given, replace_all=replace_all, provider=opened.provider.id)
    _tell(options, run, f"the Facts are {shown(dict(run.facts))}")


@subcommand(
    command,
    "authority",
    short_help="Set session authorities.",
    epilog=f"{_EXAMPLE}authority --set release.approve --state run.json",
    cls=Variadic,
    variadic=("--set",),
)
@_state
@click.option("--set", "authorities", multiple=True, metavar="ID...", help="The authorities; without any, none.")
def authority(options: GlobalOptions, state: str, authorities: tuple[str, ...]) -> None:
    """Put session authorities in the place of those of the Run; without --set it has none."""
    from ..runtime.runs import set_authorities

    with _opened(options) as opened:
        run = set_authorities(state, authorities, provider=opened.provider.id)
    _tell(options, run, f"the authorities are {', '.join(run.authorities) or 'none'}")


@subcommand(command, "checkpoint", short_help="Copy a Run.", epilog=f"{_EXAMPLE}checkpoint --state r.json --to c.json")
@_state
@click.option("--to", required=True, metavar="PATH", help="The file to write; it must not exist.")
def checkpoint(options: GlobalOptions, state: str, to: str) -> None:
    """Copy a Run without its authorities to a new file. No Provider is needed."""
    from ..runtime.runs import checkpoint_run

    run = checkpoint_run(state, to)
    if options.json:
        print_json({"run": run.to_json(), "checkpoint": os.path.abspath(to)})
    else:
        echo(f"copied {run.id} to {to}")


@subcommand(command, "resume", short_help="A Run from a checkpoint.", epilog=f"{_EXAMPLE}resume c.json --state r.json")
@click.argument("saved", metavar="CHECKPOINT")
@click.option("--state", required=True, metavar="RUN", help="The file to write; it must not exist.")
def resume(options: GlobalOptions, saved: str, state: str) -> None:
    """Go on from a checkpoint in a new Run file, without authorities. No Provider is needed."""
    from ..runtime.runs import resume_run

    run = resume_run(saved, state)
    _tell(options, run, f"resumed {run.id} in {state}")


@subcommand(command, "events", short_help="What happened.", epilog=f"{_EXAMPLE}events --state run.json")
@_state
def events(options: GlobalOptions, state: str) -> None:
    """List the events of a Run, the oldest first."""
    from ..runtime.runs import read_run

    run = read_run(state)
    if options.json:
        print_json({"events": [event.to_json() for event in run.events]})
        return
    for event in run.events:
        more = {name: value for name, value in event.to_json().items() if name in ("node", "outcome", "detail")}
        said = "  ".join(value if isinstance(value, str) else shown(value) for value in more.values())
        echo(visible(f"{event.sequence:>5}  {event.at}  {event.type}  {said}".rstrip()))


@contextmanager
def _opened(options: GlobalOptions) -> Iterator[OpenedProvider]:
    with options.open() as opened:
        warn(options, opened.warnings)
        if options.skill is not None:
            options.binding(options.skill).check(opened.provider)
        yield opened


def _tell(options: GlobalOptions, run: Run, text: str) -> None:
    if options.json:
        print_json(run.to_json())
    else:
        echo(visible(text))


def _detail(text: str) -> Any:
    """JSON as it is, anything else as a text."""
    from ..errors import BundlerError

    try:
        return json_value(text, "--detail")
    except BundlerError:
        if text.startswith("@"):
            raise
        return text
