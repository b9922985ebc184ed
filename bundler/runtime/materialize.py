"""A Resource that an Action of the Provider makes: made now, for one Route (specification: "Resources").

1. The options; 2. what makes the Resource; 3. the cache folder; 4. every file that the Action names, hashed again where
the process will find it; 5. the input, against the Action's schema; 6. the process, with an environment of its own and
within limits; 7. its output, against the Action's schema; 8. the output as a file of the cache, named by its content.
Nothing is kept, and no receipt is given, of what fails.

What is *not* held: between the hashing and the start of the process, whoever can write to the Provider can still change
it; and what the process itself does, it does with the user's rights.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..bundle.digests import digest_of_file
from ..errors import BundlerError
from ..paths import printable
from ..protocol.canonical import Json, canonical, sha256
from ..protocol.documents import MAX_BYTES, parse, parse_json
from ..protocol.model import Action, Resource
from ..tree import DirectoryTree
from .cache import keep, open_cache
from .locations import GraphActionLocation
from .process import Ended, Limits, run_limited
from .receipts import ReadReceipt, receipt_of
from .route import RUNTIMES
from .state import check_json

if TYPE_CHECKING:
    from ..protocol.foreign import ForeignSchema
    from .provider import OpenedProvider

#: What a materializer inherits of the caller's environment, as far as it is set.
INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")
#: Values in an output that has to satisfy a schema, at most.
MAX_OUTPUT_VALUES = 1_000_000

_REVISION = re.compile(r"sha256:[a-f0-9]{64}\Z")
# Of a failed materializer's standard error: its last lines, and of each its last characters.
_TOLD_LINES = 5
_TOLD_CHARACTERS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Materialized:
    """What was made: where its content lies, and the receipt for whoever has read it."""

    location: GraphActionLocation
    receipt: ReadReceipt


def materialize(
    opened: OpenedProvider,
    resource: Resource,
    *,
    cache: str | os.PathLike[str],
    revision: str,
    workspace: str | os.PathLike[str] | None,
    given: Mapping[str, Json],
    added: Mapping[str, str],
    limits: Limits,
) -> Materialized:
    """Run the Resource's materializer and keep what it writes; `OpenedProvider.materialize` tells the rest."""
    # 1. the options
    if not isinstance(revision, str) or not _REVISION.match(revision):
        found = f"the revision is {revision!r}" if revision else "no revision was given"
        raise BundlerError("revision-invalid", f"{found}; `sha256:` and 64 hexadecimal digits are expected")
    folder = _workspace(workspace)
    if not isinstance(given, Mapping):
        raise BundlerError("json-object-required", "the input is no JSON object")
    check_json(given, "the input")
    # 2. what makes the Resource
    action = _materializer(opened, resource)
    # 3. the cache folder
    place = open_cache(cache, opened.root)
    # No such folder is there, and none is made: whatever ran before can't have put bytecode into it.
    bytecode = os.path.join(place, f".bytecode-{os.urandom(16).hex()}")
    environment = _environment(opened, added, bytecode) | {
        "AGENT_GRAPH_WORKSPACE": folder,
        "AGENT_GRAPH_REVISION": revision,
        "AGENT_GRAPH_INPUT": canonical(given).encode(),
    }
    # 4. what will run
    schemas = _verified_schemas(opened, action)
    # 5. the input
    if action.input_schema is not None:
        broken = schemas[action.input_schema].faults(dict(given))
        if broken:
            raise BundlerError.of([_input_fault(action.input_schema, *fault) for fault in broken])
    # 6. the process
    cwd = opened.root if action.cwd == "provider" else folder
    try:
        ended = run_limited(_arguments(opened, action), cwd=cwd, environment=environment, limits=limits)
    except (OSError, ValueError) as error:
        raise _not_started(action, error) from None
    finally:
        shutil.rmtree(bytecode, ignore_errors=True)  # made by a process that minds no PYTHONDONTWRITEBYTECODE
    _check_end(action, ended, limits)
    # 7. its output
    if action.output_schema is not None:
        _check_output(action, schemas[action.output_schema], ended.output)
    # 8. the file
    digest = sha256(ended.output)
    path = keep(place, digest, resource.media_type, ended.output)
    location = opened.locator.located(resource, revision)
    if not isinstance(location, GraphActionLocation):
        raise AssertionError(f"{resource.id} is made by an Action")
    location = replace(location, digest=digest, file_path=path)
    return Materialized(location=location, receipt=receipt_of(location))


# --- before it runs ---------------------------------------------------------------------------------------


def _workspace(workspace: str | os.PathLike[str] | None) -> str:
    given = os.curdir if workspace is None else os.fspath(workspace)
    folder = os.path.abspath(given)
    problem = None
    if not given:  # a variable of a script that was not set, not the current folder
        problem = "the name of the workspace is empty"
    elif not os.path.isdir(folder):
        problem = f"the workspace {folder} {'is no folder' if os.path.lexists(folder) else 'does not exist'}"
    if problem is not None:
        hint = "name the folder that the materializer looks at (--workspace DIR)"
        raise BundlerError("materializer-option-invalid", problem, hint=hint)
    return folder


def _materializer(opened: OpenedProvider, resource: Resource) -> Action:
    if resource.materializer is None:
        raise BundlerError(
            "resource-static", f"`{resource.id}` is a file: there is nothing to materialize", path=resource.path
        )
    action = opened.provider.actions[resource.materializer]
    if action.handler is not None:
        raise BundlerError(
            "resource-host-action",
            f"`{resource.id}` is made by the host's handler `{action.handler}`, not by an Action that could be run",
            path=resource.path,
        )
    return action


def _environment(opened: OpenedProvider, added: Mapping[str, str], bytecode: str) -> dict[str, str | bytes]:
    """What is inherited, what the host adds by name, and over both what the protocol and Python's bytecode demand."""
    environment: dict[str, str | bytes] = {name: os.environ[name] for name in INHERITED if name in os.environ}
    for name, value in added.items():
        if name.startswith("AGENT_GRAPH_") or name in ("PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE"):
            raise BundlerError("materializer-option-invalid", f"the variable {name} is not the host's to set")
        if not name or "=" in name or "\0" in name + value:
            raise BundlerError("materializer-option-invalid", f"{name!r} and its value are no environment variable")
        environment[name] = value
    return {**environment, **opened.environment(bytecode), "PYTHONDONTWRITEBYTECODE": "1"}


def _verified_schemas(opened: OpenedProvider, action: Action) -> dict[str, ForeignSchema]:
    """The Action's schemas by path, once every file that it names is what was verified, or loaded from a source.

    The files are looked at by the Provider's path, as the process will: another folder may have taken the place of the
    one that was opened. Raises `bundle-file-digest-mismatch`, `materializer-source-changed`, and what reading and
    compiling raise.
    """
    from ..protocol.foreign import compile_schema

    schemas: dict[str, ForeignSchema] = {}
    with DirectoryTree(opened.root) as tree:
        for _, path in action.file_paths():
            is_schema = path in action.schemas
            data = tree.read(path, MAX_BYTES) if is_schema else b""
            actual = sha256(data) if is_schema else digest_of_file(tree, path)
            if actual != _known_digest(opened, path):
                raise _changed(opened, path)
            if is_schema and path not in schemas:
                schemas[path] = compile_schema(parse(data, path))
    return schemas


def _known_digest(opened: OpenedProvider, path: str) -> str:
    """The digest of a file as it was verified; of a source, as it was parsed or first asked for."""
    if opened.bundle is None and path in opened.provider.documents:
        return sha256(opened.provider.documents[path])
    return opened.digest_of(path)


def _changed(opened: OpenedProvider, path: str) -> BundlerError:
    if opened.bundle is not None:
        message = f"`{path}` has changed since it was verified: nothing was run"
        return BundlerError("bundle-file-digest-mismatch", message, path=path)
    message = f"`{path}` has changed since the Provider was opened: nothing was run"
    return BundlerError("materializer-source-changed", message, path=path)


def _input_fault(schema: str, keyword: str, pointer: str, message: str) -> BundlerError:
    place = f"`{pointer}`" if pointer else "it"
    return BundlerError(
        "resource-input-invalid",
        f"the input breaks {schema}: {place} {message} ({keyword})",
        pointer=pointer,
        hint="give an input that satisfies the schema (--input JSON)",
    )


def _arguments(opened: OpenedProvider, action: Action) -> list[bytes]:
    if action.entry is None:
        return [b"sh", b"-c", (action.command or "").encode()]
    entry = os.fsencode(opened.locator.path_of(action.entry))
    return [RUNTIMES[str(action.runtime)].encode(), entry, *(each.encode() for each in action.args)]


# --- when it has run --------------------------------------------------------------------------------------


def _not_started(action: Action, error: OSError | ValueError) -> BundlerError:
    runtime = "sh" if action.entry is None else RUNTIMES[str(action.runtime)]
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        message = "the input and the environment are larger than what the system gives to a process"
        hint = "give a smaller input, such as the name of a file in the workspace"
        return BundlerError("materializer-option-invalid", message, hint=hint)
    if isinstance(error, FileNotFoundError):
        message, hint = f"`{runtime}` is not on the PATH", f"install {runtime}, or mend the PATH"
    else:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        message, hint = f"`{runtime}` can't be started: {reason}", "mend what the system names"
    return BundlerError(
        "materializer-failed", f"the materializer {action.path}: {message}", path=action.path, hint=hint
    )


def _check_end(action: Action, ended: Ended, limits: Limits) -> None:
    """Raises `materializer-timeout`, `-output-limit`, `-error-limit` and `-failed`, with the last of its standard error."""
    last = _last_lines(ended.errors)
    told = f"; its standard error ends in: {' | '.join(last)}" if last else ""
    detail: dict[str, Json] = {"stderr": last} if last else {}
    who = f"the materializer {action.path}"
    if ended.exceeded == "timeout":
        message = f"{who} had not ended after {limits.timeout_ms:,} ms{told}"
        raise BundlerError("materializer-timeout", message, path=action.path, detail=detail)
    if ended.exceeded == "output":
        message = f"{who} wrote more than {limits.max_output_bytes:,} bytes to its standard output{told}"
        raise BundlerError("materializer-output-limit", message, path=action.path, detail=detail)
    if ended.exceeded == "error":
        message = f"{who} wrote more than {limits.max_error_bytes:,} bytes to its standard error{told}"
        raise BundlerError("materializer-error-limit", message, path=action.path, detail=detail)
    if ended.status == 0:
        return
    if ended.status is None:
        how = "ended, and the host let nobody know how: it takes the exit statuses of its children itself"
    elif ended.status < 0:
        name = _signal_name(-ended.status)
        how, detail = f"was ended by the signal {name}", {"signal": name, **detail}
    else:
        how, detail = f"ended with exit status {ended.status}", {"exitStatus": ended.status, **detail}
    raise BundlerError("materializer-failed", f"{who} {how}{told}", path=action.path, detail=detail)


def _signal_name(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return str(number)


def _last_lines(errors: bytes) -> list[str]:
    """The last lines that say something, with control characters spelled out."""
    end = errors[-_TOLD_LINES * _TOLD_CHARACTERS * 4 :].decode(errors="backslashreplace")
    lines = [line.rstrip("\r") for line in end.split("\n") if line.strip()]
    return [printable(line[-_TOLD_CHARACTERS:]) for line in lines[-_TOLD_LINES:]]


def _check_output(action: Action, schema: ForeignSchema, output: bytes) -> None:
    """Raises `materializer-failed` where the output is no JSON that satisfies the schema, `schema-limit-exceeded`."""
    name = f"the output of {action.path}"
    try:
        document = parse_json(output, name, max_values=MAX_OUTPUT_VALUES)
    except BundlerError as error:
        raise BundlerError("materializer-failed", error.message, path=action.path, hint=_OUTPUT_HINT) from None
    if not document.finite:
        message = f"{name} holds a number that is beyond what JSON's numbers hold"
        raise BundlerError("materializer-failed", message, path=action.path, hint=_OUTPUT_HINT)
    broken = schema.faults(document.value)
    if broken:
        raise BundlerError.of(
            [
                BundlerError(
                    "materializer-failed",
                    f"{name} breaks {schema.path}: {f'`{pointer}`' if pointer else 'it'} {message} ({keyword})",
                    path=action.path,
                    pointer=pointer,
                    hint=_OUTPUT_HINT,
                )
                for keyword, pointer, message in broken
            ]
        )


_OUTPUT_HINT = (
    "let the materializer write JSON that satisfies its outputSchema, and nothing else, to its standard output"
)
