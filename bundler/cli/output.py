"""What commands print: results to stdout, warnings, errors and progress to stderr."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ..errors import BundlerError, Diagnostic
    from .options import GlobalOptions


# Control characters of terminals, a line's own end aside.
_STEERING = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def print_json(value: Any, *, err: bool = False) -> None:
    """One line of UTF-8, whatever the terminal's encoding."""
    click.echo(json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace"), err=err)


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Text for people. What a Provider's author wrote cannot steer the terminal: control characters are spelled out."""
    click.echo(_STEERING.sub(lambda match: f"\\x{ord(match.group()):02x}", text), err=err, nl=nl)


def visible(text: str) -> str:
    """A text that stands on one line: its line ends are spelled out."""
    return text.replace("\r", "\\r").replace("\n", "\\n")


def warn(options: GlobalOptions, warnings: Iterable[Diagnostic]) -> None:
    """Note warnings: they are told when the command ends, in JSON with its error where there is one."""
    options.warnings.extend(warnings)


def print_warnings(options: GlobalOptions) -> None:
    """The warnings noted, on stderr: lines for people, a Diagnostic a line in JSON."""
    if options.quiet:
        return
    for warning in options.warnings:
        if options.json:
            print_json(warning.to_json(), err=True)
        else:
            _print_diagnostic(warning, "note" if warning.severity == "info" else "warning", "yellow", warning.hint)


def print_error(options: GlobalOptions, error: BundlerError) -> None:
    """The error envelope, which brings the warnings along, or one block a fault with its remedy."""
    if options.json:
        envelope = error.to_json()
        if not options.quiet:
            envelope["error"]["diagnostics"].extend(warning.to_json() for warning in options.warnings)
        print_json(envelope, err=True)
        return
    print_warnings(options)
    told: set[str | None] = set()
    # An error whose diagnostics are the faults of one schema shows its own code once, then the faults.
    for diagnostic in error.diagnostics:
        hint = diagnostic.hint or (error.hint if diagnostic is error.diagnostics[-1] else None)
        _print_diagnostic(diagnostic, "error", "red", None if hint in told else hint)
        told.add(hint)
    if len(error.diagnostics) > 1:
        click.echo(f"{len(error.diagnostics)} faults; the first decides the code: {error.code}", err=True)
    elif error.diagnostics and error.diagnostics[0].code != error.code:
        click.echo(f"code: {error.code}", err=True)


def print_usage_error(options: GlobalOptions, error: click.UsageError) -> None:
    """A fault of the command line itself."""
    if options.json:
        from ..errors import BundlerError

        print_json(BundlerError("usage-invalid", error.format_message()).to_json(), err=True)
        return
    error.show()


def _print_diagnostic(diagnostic: Diagnostic, severity: str, colour: str, hint: str | None) -> None:
    where = ""
    if diagnostic.path and diagnostic.path not in diagnostic.message:
        where = (
            f"{diagnostic.path}:{diagnostic.line}:{diagnostic.column} " if diagnostic.line else f"{diagnostic.path} "
        )
    # Said here and not left to the context of a command: errors are told after it has ended.
    unwanted = False if os.environ.get("NO_COLOR") else None
    label = click.style(f"{severity}[{diagnostic.code}]", fg=colour, bold=True)
    click.echo(f"{label} ", err=True, nl=False, color=unwanted)
    echo(visible(f"{where}{diagnostic.message}"), err=True)
    if hint:
        click.echo(f"  {click.style('remedy:', bold=True)} ", err=True, nl=False, color=unwanted)
        echo(visible(hint), err=True)


class Progress:
    """Files and bytes on one line of a terminal; nothing elsewhere, or where it would be gone at once."""

    def __init__(self, options: GlobalOptions, verb: str) -> None:
        self._shown = sys.stderr.isatty() and not options.quiet and not options.json
        self._verb = verb
        self._next = time.monotonic() + 0.3
        self._drawn = False

    def __call__(self, files: int, size: int, total: int) -> None:
        if not self._shown or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + 0.1
        self._drawn = True
        click.echo(f"\r{self._verb} {files:,} of {total:,} files, {size_text(size)}\x1b[K", nl=False, err=True)

    def done(self) -> None:
        if self._drawn:
            self._drawn = False
            click.echo("\r\x1b[K", nl=False, err=True)


def size_text(size: int) -> str:
    """Bytes for people."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError("the last unit returns")


def plural(count: int, word: str) -> str:
    """`1 file`, `2 files`, `0 files`."""
    ending = word[:-1] + "ies" if word.endswith("y") else word + "s"
    return f"{count:,} {word if count == 1 else ending}"
