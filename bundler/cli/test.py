"""`agent-bundler test`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from .options import GlobalOptions
from .options import command as make_command
from .output import echo, plural, print_json, visible, warn

if TYPE_CHECKING:
    from ..runtime.coverage import Covered
    from ..runtime.graph_tests import GraphTestResult

_KINDS = {"nodes": "nodes", "edges": "edges", "outcomes": "Outcomes", "gates": "Gates", "reasonCodes": "reason codes"}


@make_command("test", epilog="Example: agent-bundler -m my-provider test --coverage")
@click.argument("path", required=False)
@click.option("--junit", "junit_file", metavar="FILE", help="Write the results as JUnit XML too.")
@click.option("--coverage", is_flag=True, help="Show what no test reaches.")
def command(options: GlobalOptions, path: str | None, junit_file: str | None, coverage: bool) -> None:
    """Run graph tests: the file PATH, or all below the folder PATH.

    Without PATH the folder `tests` is meant: the source's own, otherwise the one in the current folder. Nothing is
    executed. The Provider may be a source, a bundle, a wheel or an installed one; exit status 1 if a test fails.
    """
    from ..runtime.graph_tests import junit, read_tests, run_tests

    with options.open(authoring=True) as opened:
        warn(options, opened.warnings)
        folder = opened.root if opened.kind == "source" else os.curdir
        results = run_tests(opened, read_tests(path or os.path.join(folder, "tests")))
        measured = _measure(opened.provider, results) if coverage else {}
    if junit_file is not None:
        _write(junit_file, junit(results, opened.provider.id))
    failed = [result for result in results if not result.passed]
    if options.json:
        print_json(
            {
                "state": "failed" if failed else "passed",
                "total": len(results),
                "failed": len(failed),
                "results": [result.to_json() for result in results],
                **({"coverage": {kind: each.to_json() for kind, each in measured.items()}} if coverage else {}),
            }
        )
    else:
        for result in results:
            _show(result)
        for kind, each in measured.items():
            _show_coverage(_KINDS[kind], each)
        echo(f"{plural(len(results), 'test')}, {len(failed)} failed")
    if failed:
        raise click.exceptions.Exit(1)


def _measure(provider: Any, results: list[GraphTestResult]) -> dict[str, Covered]:
    from ..runtime.coverage import measure

    return measure(provider, [result.evaluation for result in results if result.evaluation is not None])


def _show(result: GraphTestResult) -> None:
    echo(f"{'passed' if result.passed else 'FAILED'}  {visible(result.test.name)} ({result.test.path})")
    for failure in result.failures:
        echo(f"{'':8}{visible(failure)}")


def _show_coverage(kind: str, covered: Covered) -> None:
    echo(f"{kind}: {covered.total - len(covered.missed)} of {covered.total} reached")
    for missed in covered.missed:
        echo(f"{'':8}not reached: {visible(missed)}")


def _write(file: str, data: bytes) -> None:
    from ..errors import BundlerError

    try:
        with open(file, "wb") as stream:
            stream.write(data)
    except OSError as error:
        message = f"{file} can't be written: {os.strerror(error.errno or 0)}"
        raise BundlerError("output-write-failed", message, path=file) from None
