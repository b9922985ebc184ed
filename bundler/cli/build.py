"""`agent-bundler build`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from .options import GlobalOptions
from .options import command as make_command
from .output import Progress, echo, plural, print_json, size_text, warn

if TYPE_CHECKING:
    from ..bundle.manifest import BundleManifest
    from ..bundle.plan import Plan


@make_command("build", epilog="Example: agent-bundler -m my-provider build dist/provider")
@click.argument("output", required=False, default=os.path.join("dist", "provider"))
@click.option("--dry-run", is_flag=True, help="Check everything and show what would be written; write nothing.")
@click.option("--check", is_flag=True, help="Compare with what is there and fail if it differs; write nothing.")
def command(options: GlobalOptions, output: str, dry_run: bool, check: bool) -> None:
    """Write the Provider's bundle to the folder OUTPUT (default: dist/provider).

    The bundle holds the files that the Provider needs and no others, a normalized provider.yaml, and manifest.json
    with a digest of each. It appears whole or not at all; an older bundle is replaced in one step.
    """
    from ..bundle.names import junk_notes
    from ..bundle.plan import make_plan
    from ..bundle.write import build

    if dry_run and check:
        raise click.UsageError("--dry-run and --check exclude each other")
    with options.open(authoring=True) as opened:
        plan = make_plan(opened.tree, opened.provider, opened.closure)
        warn(options, [*opened.warnings, *plan.warnings, *(() if dry_run else junk_notes(plan.closure))])
        progress = Progress(options, "checking" if dry_run or check else "building")
        try:
            if dry_run:
                _show_plan(options, plan, output, progress)
            elif check:
                _compare(options, plan, output, progress)
            else:
                manifest = build(plan, output, progress)
                progress.done()
                _show_result(options, manifest, output, "built")
        finally:
            progress.done()


def _show_result(options: GlobalOptions, manifest: BundleManifest, output: str, verb: str) -> None:
    if options.json:
        print_json(manifest.to_json())
        return
    echo(
        f"{verb} {output}: {manifest.provider_id} {manifest.provider_version}, {plural(len(manifest.files), 'file')} and manifest.json\n{manifest.digest}"
    )


def _compare(options: GlobalOptions, plan: Plan, output: str, progress: Progress) -> None:
    from ..bundle.compare import check_output_current
    from ..bundle.open import recover_missing
    from ..bundle.write import Nowhere, write_bundle
    from ..tree import DirectoryTree

    nowhere = Nowhere()
    manifest = write_bundle(plan, nowhere, progress)
    recover_missing(os.path.abspath(output))
    with DirectoryTree(output) as tree:
        check_output_current(tree, manifest, nowhere.executable)
    progress.done()
    _show_result(options, manifest, output, "up to date:")


def _show_plan(options: GlobalOptions, plan: Plan, output: str, progress: Progress) -> None:
    from ..bundle.write import Nowhere, check_target, write_bundle

    target = os.path.abspath(output)
    check_target(plan, target)
    nowhere = Nowhere()
    manifest = write_bundle(plan, nowhere, progress)
    progress.done()
    replaces = os.path.isdir(target) and bool(os.listdir(target))
    files: list[dict[str, Any]] = [
        {
            "path": path,
            "size": nowhere.sizes[path],
            "executable": path in nowhere.executable,
            "reason": "generated" if path in plan.generated else plan.closure.why(path)[0],
        }
        for path in plan.files
    ]
    left_out = [{"path": path, "reason": what} for path, what in sorted(plan.closure.left_out.items())]
    if options.json:
        print_json(
            {
                "state": "planned",
                "output": target,
                "replaces": replaces,
                "files": files,
                "leftOut": left_out,
                "manifest": manifest.to_json(),
            }
        )
        return
    for file in files:
        echo(f"{'x' if file['executable'] else '-'} {size_text(file['size']):>10}  {file['path']}  ({file['reason']})")
    for each in left_out:
        echo(f"left out: {each['path']} ({each['reason']})")
    echo(
        f"would {'replace' if replaces else 'write'} {output}: {manifest.provider_id} {manifest.provider_version}, "
        f"{plural(len(files), 'file')} and manifest.json, {size_text(sum(nowhere.sizes.values()))}\n{manifest.digest}"
    )
