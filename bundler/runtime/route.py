"""One Route: what to do next, with everything that a host needs for it (protocol: "Route"). Nothing is executed.

The revision is checked first, then the Route id, and only then is any plan made.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ..errors import BundlerError
from ..protocol.canonical import Json
from ..protocol.model import Action, Node
from .evaluate import Candidate, Evaluation
from .locations import FileLocation, Location, Locator, Receipts

#: The command of each runtime of a script.
RUNTIMES = {"node": "node", "bun": "bun", "python": "python3", "shell": "sh"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """One command line for a POSIX shell, or one handler of the host, and where it runs."""

    command: str | None
    handler: str | None
    effect: str
    cwd: str
    working_directory: str

    def to_json(self) -> dict[str, Json]:
        what = {"command": self.command} if self.command is not None else {"handler": self.handler}
        return {**what, "effect": self.effect, "cwd": self.cwd, "workingDirectory": self.working_directory}


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteAction:
    """An Action with the locations of what belongs to it."""

    id: str
    runner: str
    effect: str
    skill: FileLocation | None
    input_schema: FileLocation | None
    output_schema: FileLocation | None

    def to_json(self) -> dict[str, Json]:
        located = {"skill": self.skill, "inputSchema": self.input_schema, "outputSchema": self.output_schema}
        return {
            "id": self.id,
            "runner": self.runner,
            "effect": self.effect,
            **{name: location.to_json() for name, location in located.items() if location is not None},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GateAction:
    """An Action that inspects or resolves a Gate, and its plan."""

    action: RouteAction
    command_plan: tuple[PlanStep, ...]

    def to_json(self) -> dict[str, Json]:
        return {"action": self.action.to_json(), "commandPlan": [step.to_json() for step in self.command_plan]}


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteGate:
    """A Gate as authored; `resolution` is `user` or `session-authority`, the Actions follow the delegated rules."""

    id: str
    prompt: str
    authority: str | None
    delegatable: bool | None
    resolution: str
    inspection: GateAction | None
    resolve: GateAction | None

    def to_json(self) -> dict[str, Json]:
        optional: dict[str, Json] = {"authority": self.authority, "delegatable": self.delegatable}
        actions = {"inspectionAction": self.inspection, "resolutionAction": self.resolve}
        return {
            "id": self.id,
            "prompt": self.prompt,
            **{name: value for name, value in optional.items() if value is not None},
            "resolution": self.resolution,
            **{name: each.to_json() for name, each in actions.items() if each is not None},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """`agent-graph.route.v1`; `required` and `recommended` are locations with their `readState`."""

    provider: str
    revision: str
    candidate: Candidate
    action: RouteAction | None
    command_plan: tuple[PlanStep, ...]
    required: tuple[Location, ...]
    recommended: tuple[Location, ...]
    gate: RouteGate | None

    def to_json(self) -> dict[str, Any]:
        """The protocol object."""
        summary = self.candidate.to_json()
        summary.pop("label")
        return {
            "schema": "agent-graph.route.v1",
            "provider": self.provider,
            "revision": self.revision,
            **summary,
            "callPath": list(self.candidate.call_path),
            **({} if self.action is None else {"action": self.action.to_json()}),
            "commandPlan": [step.to_json() for step in self.command_plan],
            "resources": {
                "required": [location.to_json() for location in self.required],
                "recommended": [location.to_json() for location in self.recommended],
            },
            **({} if self.gate is None else {"gate": self.gate.to_json()}),
            "diagnostics": [],
            "afterAction": {"evaluate": True, "recordNode": self.candidate.state_key},
        }


def choose_candidate(evaluation: Evaluation, route_id: str | None = None, revision: str | None = None) -> Candidate:
    """The candidate with the Route id, or the primary one.

    Raises `route-revision-stale` where the revision given is not the current one, `route-stale` for an id that is not on
    offer, `route-unavailable` where nothing is.
    """
    if revision is not None and revision != evaluation.revision:
        raise BundlerError(
            "route-revision-stale", f"the revision is {evaluation.revision} now, the one given is {revision}"
        )
    if route_id is None:
        if evaluation.primary is None:
            told = "".join(f"; {each.message}" for each in evaluation.diagnostics[:3])
            raise BundlerError(
                "route-unavailable",
                f"no Route is on offer in the Graph `{evaluation.graph}`: its status is {evaluation.status}{told}",
            )
        return evaluation.primary
    for candidate in evaluation.candidates:
        if candidate.route_id == route_id:
            return candidate
    on_offer = ", ".join(f"{each.route_id} ({each.node.id})" for each in evaluation.candidates[:4]) or "none"
    raise BundlerError("route-stale", f"the Route {route_id} is not on offer; these are: {on_offer}")


def make_route(
    locator: Locator,
    evaluation: Evaluation,
    candidate: Candidate,
    receipts: Receipts | None = None,
    workspace: str | os.PathLike[str] | None = None,
) -> Route:
    """The Route of a candidate of this evaluation; `workspace` is the current folder where none is given."""
    return _Maker(locator, evaluation.revision, receipts or Receipts(), workspace).make(evaluation, candidate)


class _Maker:
    def __init__(
        self, locator: Locator, revision: str, receipts: Receipts, workspace: str | os.PathLike[str] | None
    ) -> None:
        self._locator = locator
        self._revision = revision
        self._receipts = receipts
        self._workspace = os.path.abspath(os.fspath(workspace) if workspace is not None else os.curdir)

    def make(self, evaluation: Evaluation, candidate: Candidate) -> Route:
        node = candidate.node
        own = self._locator.provider.actions[node.action] if node.action is not None else None
        action = self._action(own) if own is not None else None
        lists = node.resources
        gate = None
        if node.gate is not None:
            is_delegated = candidate.availability == "immediate"
            gate = self._gate(node, is_delegated)
            if is_delegated and node.delegated is not None and node.delegated.resources is not None:
                lists = node.delegated.resources
        skill = [action.skill] if action is not None and action.skill is not None else []
        return Route(
            provider=evaluation.provider,
            revision=evaluation.revision,
            candidate=candidate,
            action=action,
            command_plan=self._plan(own) if own is not None else (),
            required=tuple(map(self._receipts.marked, [*skill, *map(self._resource, lists.required)])),
            recommended=tuple(self._receipts.marked(self._resource(path)) for path in lists.recommended),
            gate=gate,
        )

    def _resource(self, path: str) -> Location:
        return self._locator.resource(path, self._revision)

    def _action(self, action: Action) -> RouteAction:
        return RouteAction(
            id=action.id,
            runner=action.runner,
            effect=action.effect,
            skill=None if action.skill is None else self._locator.skill(action.skill),
            input_schema=self._locator.schema(action, "input"),
            output_schema=self._locator.schema(action, "output"),
        )

    def _plan(self, action: Action) -> tuple[PlanStep, ...]:
        if action.runner == "agent":
            return ()
        command = action.command
        if action.entry is not None:
            words = [_quoted(self._locator.path_of(action.entry)), *map(_quoted, action.args)]
            command = " ".join([RUNTIMES[str(action.runtime)], *words])
        folder = self._locator.root if action.cwd == "provider" else self._workspace
        return (
            PlanStep(
                command=command,
                handler=action.handler,
                effect=action.effect,
                cwd=action.cwd,
                working_directory=folder,
            ),
        )

    def _gate(self, node: Node, is_delegated: bool) -> RouteGate:
        gate = node.gate
        if gate is None:
            raise AssertionError(f"{node.id} is no Gate")
        inspection, resolution = node.inspection_action, node.resolution_action
        rules = node.delegated if is_delegated else None
        if rules is not None:
            inspection = None if rules.inspection == "skip" else inspection
            resolution = rules.resolution_action or resolution
        return RouteGate(
            id=gate.id,
            prompt=gate.prompt,
            authority=gate.authority,
            delegatable=gate.delegatable,
            resolution="session-authority" if is_delegated else "user",
            inspection=self._gate_action(inspection),
            resolve=self._gate_action(resolution),
        )

    def _gate_action(self, path: str | None) -> GateAction | None:
        if path is None:
            return None
        action = self._locator.provider.actions[path]
        return GateAction(action=self._action(action), command_plan=self._plan(action))


def _quoted(text: str) -> str:
    """One word for a POSIX shell, always in single quotes."""
    return "'" + text.replace("'", "'\"'\"'") + "'"
