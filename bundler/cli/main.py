"""The entry point: which commands there are, and what becomes of errors.

Exit status: 0 fine; 1 every error of the input, with its code, and a reader that closed our output; 2 a usage
error of the command line; 3 the environment failed (disk, permission, a missing library); 130 interrupted.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from contextlib import suppress
from importlib import import_module
from itertools import pairwise

import click

from .. import __version__
from .options import GlobalOptions, add_global_options

# Command → (module of this package, its help): modules are imported when their command runs.
_COMMANDS = {
    "init": ("init", "Write a small complete Provider to start from."),
    "validate": ("validate", "Check a Provider against every rule of the protocol."),
    "build": ("build", "Write the Provider's bundle: needed files, provider.yaml, manifest.json."),
    "wheel": ("wheel", "Write the Provider's wheel, for pip and uv."),
    "key": ("key", "Make signing keys, and show public ones."),
    "sign": ("sign", "Sign a wheel or a bundle."),
    "verify": ("verify", "Verify bundles, wheels and installed Providers."),
    "list": ("list", "List the Providers that are installed."),
    "release": ("release", "Check, sign and publish a Provider."),
    "release-many": ("release_many", "Release many Providers."),
    "publish": ("publish", "Publish a finished release."),
    "yank": ("yank", "Advise installers against a release."),
    "unyank": ("unyank", "Take that advice back."),
    "index": ("index", "Make, verify and mend a folder index."),
    "promote": ("promote", "Point a channel to a release in a folder index."),
    "channels": ("channels", "List the channels of a folder index."),
    "resolve": ("resolve", "Print the requirement, with its hash, that a channel means."),
    "revoke": ("revoke", "Revoke a release for ever, in a list that hosts are given."),
    "evaluate": ("evaluate", "Tell which steps of a Graph are legal now."),
    "route": ("route", "Show one Route: plan, Gate, Resources."),
    "run": ("run", "Keep a Run: a host's memory of Outcomes and Facts."),
    "test": ("test", "Run graph tests."),
    "resource": ("resource", "Locate Resources, or make those that an Action makes."),
    "code": ("code", "List and locate the codes of the Code Catalog."),
    "inspect": ("inspect", "Show what a Provider, its files or a Skill's binding are."),
    "explain": ("explain", "Tell why a file is in the bundle, or why not."),
    "graph": ("graph", "Draw Graphs as Mermaid text."),
    "digest": ("digest", "List digests of the files, and one fingerprint of all."),
    "schema": ("schema", "List, locate or copy the protocol's JSON Schemas."),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is asked for it."""

    def __init__(self, *args: object, commands_by_name: dict[str, tuple[str, str]], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self._by_name = commands_by_name

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._by_name)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._by_name:
            return None
        module = import_module(f".{self._by_name[cmd_name][0]}", __package__)
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # The list of commands imports none of them.
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self._by_name.items()])


@click.command(
    cls=LazyGroup,
    commands_by_name=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: agent-bundler -m my-provider validate",
)
@click.version_option(__version__, prog_name="agent-bundler", message="%(prog)s %(version)s")
@click.pass_context
def root(ctx: click.Context) -> None:
    """Build, package, verify and evaluate Agent Graph Providers.

    A Provider is named with -m: a folder, a manifest file, a bundle, a wheel file, or provider:ID for an installed one.
    """
    ctx.ensure_object(GlobalOptions)


add_global_options(root)


def main() -> None:
    """Run the command; ends the process."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line and give its exit status. Nothing of it is a traceback unless AGENT_BUNDLER_DEBUG is set."""
    # Values of documents hold no cycles: the collector would walk them again and again for nothing.
    gc.set_threshold(200_000, 20, 20)

    options = GlobalOptions()
    if "--format=json" in arguments or ["--format", "json"] in map(list, pairwise(arguments)):
        options.format = "json"  # for faults of the line itself, which end it before its options are read
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # names that the terminal's encoding has not are escaped, not fatal
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _run(arguments, options)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # here, where a full disk can still be told
        return status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains at its end
        return 1
    except OSError as error:
        return _give_up(options, error)


def _run(arguments: list[str], options: GlobalOptions) -> int:
    from .output import print_error, print_usage_error, print_warnings

    if sys.stdout is None or sys.stderr is None:  # closed by whoever started us
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "standard output or standard error")
    try:
        # What a command gives up with by `Exit` comes back as a value.
        status = root.main(arguments, prog_name="agent-bundler", standalone_mode=False, obj=options)
    except click.UsageError as error:
        print_usage_error(options, error)
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("aborted", err=True)
        return 130
    except OSError:
        raise
    except Exception as error:
        from ..errors import BundlerError

        if not isinstance(error, BundlerError):
            if os.environ.get("AGENT_BUNDLER_DEBUG"):
                raise
            error = BundlerError("internal-error", f"{type(error).__name__}: {error}")
        print_error(options, error)
        return 3 if error.is_environment else 1
    print_warnings(options)
    return status if isinstance(status, int) else 0


def _give_up(options: GlobalOptions, error: OSError) -> int:
    """Tell that the system refused something, if it lets us."""
    from ..errors import BundlerError
    from .output import print_error

    if os.environ.get("AGENT_BUNDLER_DEBUG"):
        raise error
    named = f" ({error.filename})" if error.filename else ""
    with suppress(OSError, AttributeError):  # stderr may be what failed, or be closed
        message = f"the system answers: {os.strerror(error.errno or 0)}{named}"
        print_error(options, BundlerError("environment-failed", message))
    return 3
