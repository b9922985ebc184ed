"""`agent-bundler inspect provider | files | skill`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .options import GlobalOptions, add_global_options, subcommand
from .output import echo, plural, print_json, size_text, visible, warn

if TYPE_CHECKING:
    from ..bundle.open import Opened


@click.group("inspect", epilog="Example: agent-bundler inspect files -m my-provider")
def command() -> None:
    """Show what a Provider, its files or a Skill's binding are."""


add_global_options(command)


@subcommand(command, "provider", epilog="Example: agent-bundler inspect provider -m dist/provider")
def provider(options: GlobalOptions) -> None:
    """Graphs, nodes, Actions with command and effect, Resources and codes of the Provider."""
    from ..provider.inspection import inspect_provider

    with options.open() as opened:
        warn(options, opened.warnings)
        result = inspect_provider(opened.provider, opened.manifest_path)
        if options.json:
            print_json(result)
            return
        _show_provider(opened, result)


@subcommand(command, "files", epilog="Example: agent-bundler inspect files -m my-provider --format json")
def files(options: GlobalOptions) -> None:
    """Every carried file with digest, size, executable bit and reason; what lies there and is not carried, and why."""
    from ..bundle.manifest import MANIFEST_NAME
    from ..protocol.digests import digest_files
    from ..provider.closure import not_carried

    with options.open() as opened:
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


@subcommand(command, "skill", epilog="Example: agent-bundler inspect skill skills/release/SKILL.md")
@click.argument("file", metavar="SKILL.md")
def skill(options: GlobalOptions, file: str) -> None:
    """What a SKILL.md is bound to: the Provider, its Graph and its Entry."""
    from ..bundle.open import open_path
    from ..provider.inspection import inspect_provider
    from ..provider.skills import read_binding

    binding = read_binding(file, options.registry)
    with open_path(binding.manifest_path) as opened:
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


def _show_provider(opened: Opened, result: dict[str, Any]) -> None:
    loaded = opened.provider
    state = "a source" if opened.bundle is None else f"a bundle, consistent, not trusted: {opened.bundle.digest}"
    echo(f"{loaded.id} {loaded.version}: {state}\n{opened.manifest_path}")
    for graph in result["graphs"]:
        entries = ", ".join(f"{name} → {node}" for name, node in graph["entrypoints"].items())
        echo(f"\nGraph {graph['id']} ({graph['path']}); entrypoints: {entries}")
        for node in loaded.graphs[graph["id"]].nodes:
            names = [path for _, path in node.actions()] + (
                [f"Graph {node.graph}, entry {node.entry}"] if node.graph else []
            )
            extra = node.terminal_outcome or ", ".join(names)
            echo(
                f"  {node.kind:9} {node.id}"
                + (f"  {extra}" if extra else "")
                + (f"  [{node.reason_code}]" if node.reason_code else "")
            )
    if loaded.actions:
        echo("\nActions")
    for entry in result["actions"]:
        action = loaded.actions[entry["path"]]
        what = (
            action.command
            or action.handler
            or action.skill
            or " ".join(filter(None, (action.runtime, action.entry, *action.args)))
        )
        echo(f"  {action.effect:9} {action.runner:8} {action.id}: {visible(what)}")
    if loaded.resources:
        echo("\nResources")
    for entry in result["resources"]:
        echo(
            f"  {entry['kind']:12} {entry['id']} ({entry['path']})"
            + ("  made by its materializer" if entry["dynamic"] else "")
        )
    if result["codes"]:
        echo("\nCodes")
    for code in result["codes"]:
        echo(f"  {code['kind']:12} {code['code']}: {visible(code['summary'])}")
