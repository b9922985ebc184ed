"""`agent-bundler route`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .options import GlobalOptions
from .options import command as make_command
from .output import echo, print_json, visible
from .state import Variadic, evaluated, json_object, shown, state_options

if TYPE_CHECKING:
    from ..runtime.route import GateAction, Route


@make_command("route", cls=Variadic, epilog="Example: agent-bundler route release -m my-provider")
@click.argument("arguments", nargs=-1, metavar="[GRAPH] [ROUTE-ID]")
@state_options
@click.option("--revision", metavar="DIGEST", help="Refuse if the revision is another one by now.")
@click.option("--resource-receipts", "receipts", metavar="JSON|@FILE", help="What the conversation has read.")
@click.option(
    "--workspace", metavar="DIR", help="Where commands run.  [default: that of the Run, or the current folder]"
)
@click.option("--why", metavar="NODE", help="Tell why a node (or state key) is not on offer, in place of a Route.")
def command(options: GlobalOptions, arguments: tuple[str, ...], why: str | None, **given: Any) -> None:
    """Show one Route with its command plan, Gate and Resources: the primary one, or the one with the ROUTE-ID.

    Nothing is executed. GRAPH may be left out where a Skill or a Run names it.
    """
    from ..runtime.locations import read_receipts

    graph, route_id = _split(arguments)
    entry, receipts = given.pop("entry"), given.pop("receipts")
    revision, workspace = given.pop("revision"), given.pop("workspace")
    with evaluated(options, graph, entry, given) as (opened, evaluation, run_workspace):
        if why is not None:
            from ..runtime.why import explain_node

            reasons = explain_node(opened.provider, evaluation, why)
            if options.json:
                print_json({"node": why, "revision": evaluation.revision, "reasons": reasons})
            else:
                echo("\n".join(visible(reason) for reason in reasons))
            return
        read = (
            read_receipts(json_object(receipts, "--resource-receipts"), opened.provider.id)
            if receipts is not None
            else None
        )
        route = opened.route(
            evaluation, route_id, revision=revision, receipts=read, workspace=workspace or run_workspace
        )
    if options.json:
        print_json(route.to_json())
    else:
        _show(route)


def _split(arguments: tuple[str, ...]) -> tuple[str | None, str | None]:
    from ..errors import BundlerError

    rest = list(arguments)
    route_id = rest.pop() if rest and rest[-1].startswith("route:") else None
    graph = rest.pop(0) if rest else None
    if rest:
        raise BundlerError(
            "route-arguments-invalid", f"{len(arguments)} arguments were given; a Graph and a Route id are expected"
        )
    return graph, route_id


def _show(route: Route) -> None:
    candidate = route.candidate
    echo(f"{candidate.route_id}: {visible(candidate.label)} ({candidate.state_key}), {candidate.status}")
    echo(f"  {candidate.reason_code}" + (f": {visible(candidate.hint)}" if candidate.hint else ""))
    if route.gate is not None:
        who = route.gate.authority or "the user"
        echo(f"  Gate {route.gate.id} asks {who}, resolved by {route.gate.resolution}: {visible(route.gate.prompt)}")
        _show_gate_action("inspection", route.gate.inspection)
        _show_gate_action("resolution", route.gate.resolve)
    for step in route.command_plan:
        what = step.command if step.command is not None else f"handler {step.handler}"
        echo(f"  {step.effect} in {step.working_directory}: {visible(what)}")
    for name, locations in (("required", route.required), ("recommended", route.recommended)):
        for location in locations:
            value = location.to_json()
            place = value.get("filePath") or shown(value.get("materialize"))
            echo(f"  {name}: {location.id} ({location.kind}, {location.read_state}) {visible(str(place))}")
    echo(f"  then record {candidate.state_key} and evaluate again\nrevision {route.revision}")


def _show_gate_action(name: str, action: GateAction | None) -> None:
    if action is None:
        return
    for step in action.command_plan:
        what = step.command if step.command is not None else f"handler {step.handler}"
        echo(f"    {name}, {step.effect} in {step.working_directory}: {visible(what)}")
    if action.action.skill is not None:
        echo(f"    {name}, Skill {action.action.skill.file_path}")
