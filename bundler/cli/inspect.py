"""`agent-bundler inspect provider | files | skill`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from .options import GlobalOptions, add_global_options, reference_of, subcommand
from .output import echo, plural, print_json, size_text, visible, warn

if TYPE_CHECKING:
    from ..protocol.model import Action, Check, Graph
    from ..runtime.provider import OpenedProvider


@click.group("inspect", epilog="Example: agent-bundler inspect files -m my-provider")
def command() -> None:
    """Show what a Provider, its files or a Skill's binding are."""


add_global_options(command)


@subcommand(
    command,
    "provider",
    short_help="Graphs, Actions, Resources, codes.",
    epilog="Example: agent-bundler inspect provider -m dist/provider",
)
def provider(options: GlobalOptions) -> None:
    """Graphs with their Gates and edges, Actions with command and effect, Resources and codes of the Provider.

    In JSON this is the protocol's agent-graph.inspect.v1, which has no commands: they stand in the Actions' files.
    """
    from ..provider.inspection import inspect_provider

    with options.open(authoring=True) as opened:
        warn(options, opened.warnings)
        result = inspect_provider(opened.provider, opened.manifest_path)
        if options.json:
            print_json(result)
            return
        _show_provider(opened, result)


@subcommand(
    command,
    "files",
    short_help="Carried files, and what is not carried.",
    epilog="Example: agent-bundler inspect files -m my-provider --format json",
)
def files(options: GlobalOptions) -> None:
    """Every carried file with digest, size, executable bit and reason; what lies there and is not carried, and why."""
    from ..bundle.digests import digest_files
    from ..bundle.layout import MANIFEST_NAME
    from ..provider.closure import not_carried

    with options.open(authoring=True) as opened:
        warn(options, opened.warnings)
        closure = opened.closure
        carried: list[dict[str, Any]] = [
            {
                "path": digested.path,
                "digest": f"sha256:{digested.hex}",
                "size": digested.size,
                "executable": digested.executable,
                "reasons": closure.why(digested.path) or ["generated: what the bundle holds"],
            }
            for digested in digest_files(opened.tree, opened.files, "sha256")
        ]
        known = {MANIFEST_NAME} if opened.bundle is not None else set()
        others = [
            {"path": entry.path + ("/" if entry.kind == "folder" else ""), "reason": why}
            for entry, why in not_carried(opened.tree, closure)
            if entry.path not in known
        ]
    if options.json:
        print_json({"files": carried, "notCarried": others})
        return
    for file in carried:
        echo(f"{'x' if file['executable'] else '-'} {size_text(file['size']):>10}  {file['digest']}  {file['path']}")
        echo(
            f"{'':14}{file['reasons'][0]}"
            + (f" (and {plural(len(file['reasons']) - 1, 'further reason')})" if len(file["reasons"]) > 1 else "")
        )
    for other in others:
        echo(f"not carried: {other['path']} ({other['reason']})")
    echo(
        f"{plural(len(carried), 'file')}, {size_text(sum(file['size'] for file in carried))}; {plural(len(others), 'entry')} not carried"
    )


@subcommand(
    command,
    "skill",
    short_help="What a SKILL.md is bound to.",
    epilog="Example: agent-bundler inspect skill skills/release/SKILL.md",
)
@click.argument("file", metavar="SKILL.md")
def skill(options: GlobalOptions, file: str) -> None:
    """What a SKILL.md is bound to: the Provider, its Graph and its Entry."""
    from ..provider.inspection import inspect_provider

    binding = options.binding(file)
    with options.open(reference_of(binding), authoring=True) as opened:
        warn(options, opened.warnings)
        binding.check(opened.provider)
        result = {
            "binding": binding.to_json(opened.provider),
            "provider": inspect_provider(opened.provider, opened.manifest_path),
        }
    if options.json:
        print_json(result)
        return
    for label, value in (
        ("Skill", binding.skill_path),
        ("locator", binding.locator),
        ("Provider", f"{opened.provider.id} {opened.provider.version}"),
        ("manifest", binding.manifest_path),
        ("Graph", binding.graph),
        ("Entry", binding.entry),
    ):
        echo(f"{label:9} {value}")


def _show_provider(opened: OpenedProvider, result: dict[str, Any]) -> None:
    provider = opened.provider
    what = {"bundle": "a bundle", "wheel": "a wheel", "installed": "installed"}.get(opened.kind, "a source")
    state = what if opened.bundle is None else f"{what}, consistent, not trusted: {opened.bundle.digest}"
    echo(f"{provider.id} {provider.version}: {state}\n{opened.manifest_path}")
    for graph in result["graphs"]:
        _show_graph(provider.graphs[graph["id"]])
    if provider.actions:
        echo("\nActions")
    for entry in result["actions"]:
        _show_action(provider.actions[entry["path"]])
    if provider.resources:
        echo("\nResources")
    for entry in result["resources"]:
        resource = provider.resources[entry["path"]]
        echo(f"  {resource.kind:12} {resource.id} ({resource.path}), {resource.media_type}")
        if resource.materializer is not None:
            given = f", input {visible(json.dumps(resource.input, ensure_ascii=False))}" if resource.input else ""
            echo(f"{'':15}made by {resource.materializer}{given}")
        elif resource.content != resource.path:
            echo(f"{'':15}content {resource.content}")
    if result["codes"]:
        echo("\nCodes")
    for code in result["codes"]:
        echo(f"  {code['kind']:12} {code['code']}: {visible(code['summary'])}")


def _show_graph(graph: Graph) -> None:
    entries = ", ".join(f"{name} → {node}" for name, node in graph.entrypoints.items())
    echo(f"\nGraph {graph.id} ({graph.path}); entrypoints: {entries}")
    for node in graph.nodes:
        what = node.terminal_outcome or (f"Graph {node.graph}, entry {node.entry}" if node.graph else node.action or "")
        echo("  " + "  ".join(filter(None, (f"{node.kind:8}", node.id, what, node.reason_code))))
        if node.gate is not None:
            who = f"authority {node.gate.authority}" if node.gate.authority else "the user"
            delegatable = ", delegatable to a session" if node.gate.delegatable else ""
            echo(f"{'':12}asks {who}{delegatable}: {visible(node.gate.prompt)}")
        for role, path in node.actions():
            if role != "action":
                echo(f"{'':12}{role}: {path}")
        if node.delegated is not None and node.delegated.inspection is not None:
            echo(f"{'':12}delegated.inspection: {node.delegated.inspection}")
        for role, path in node.resource_paths():
            echo(f"{'':12}{role}: {path}")
        for role, checks in (("requiresFacts", node.requires_facts), ("satisfiedBy", node.satisfied_by)):
            if checks:
                echo(f"{'':12}{role}: {'; '.join(map(_check_text, checks))}")
    for edge in graph.edges:
        echo(f"  edge      {edge.source} → {edge.target}  {edge.kind}: {', '.join(edge.outcomes)}")


def _show_action(action: Action) -> None:
    echo(f"  {action.effect:9} {action.runner:8} {action.id} (cwd {action.cwd}): {visible(action.invocation)}")
    named = [
        ("inputSchema", action.input_schema),
        ("outputSchema", action.output_schema),
        ("files", ", ".join(action.files)),
    ]
    for role, path in named:
        if path:
            echo(f"{'':21}{role}: {path}")


def _check_text(check: Check) -> str:
    if check.exists is not None:
        return f"{check.path} {'exists' if check.exists else 'does not exist'}"
    return f"{check.path} equals {visible(json.dumps(check.equals, ensure_ascii=False))}"
