"""`agent-bundler verify`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from .list import path_option
from .options import GlobalOptions
from .options import command as make_command
from .output import echo, plural, print_json, visible, warn
from .verdicts import trust_as_json, verdict_text

if TYPE_CHECKING:
    from ..errors import BundlerError, Diagnostic
    from ..runtime.provider import OpenedProvider
    from ..trust.host import Host

#: What is verified when it is opened, by the name that it has in messages.
_Task = tuple[str, "Callable[[], AbstractContextManager[OpenedProvider]]"]


@make_command("verify", epilog="Example: agent-bundler verify dist/provider")
@click.argument("things", nargs=-1, metavar="[BUNDLE|WHEEL|provider:ID]...")
@click.option(
    "--installed", is_flag=True, help="The arguments are ids of installed Providers; without any, all of them."
)
@path_option
@click.option(
    "--attestation",
    "attestations",
    multiple=True,
    metavar="FILE",
    help="A signature that lies beside it, which has to be of it; may be repeated.",
)
@click.option("--demand-policy", is_flag=True, help="Refuse to verify without a trust policy.")
@click.option("--source", metavar="DIR", help="Also build it again from this source, and name every difference.")
@click.option("--provenance", metavar="FILE", help="Also show where a wheel says to come from, and who signed that.")
def command(
    options: GlobalOptions,
    *,
    things: tuple[str, ...],
    installed: bool,
    path: tuple[str, ...],
    attestations: tuple[str, ...],
    demand_policy: bool,
    source: str | None,
    provenance: str | None,
) -> None:
    """Verify bundles, wheels and installed Providers: each file and its digest, nothing else there, every rule.

    A bundle is named by its folder or its manifest.json, a wheel by its file, which is neither unpacked nor installed;
    without any, --manifest is meant, or else dist/provider. With --installed it is also looked for paths that two
    distributions own, ids that two claim, and what belongs to none.

    What passes is consistent: it is what its manifest says. Who made it, only a signature can tell: with --policy it
    passes if the policy trusts it, or asks for no signature where none is. An envelope that is not of what lies there is
    refused in any case.
    """
    from ..errors import BundlerError

    if options.skill or (options.manifest and (things or installed)):
        raise click.UsageError("name what to verify as arguments or one with --manifest; a Skill names none")
    if path and not installed:
        raise click.UsageError("--path tells where --installed looks")
    errors: list[BundlerError] = []
    host = options.host(attestations=attestations, demand_policy=demand_policy)
    if installed:
        tasks, errors = _installed(host, things, path)
    else:
        from ..runtime.open import open_on

        named = things or (options.manifest or os.path.join("dist", "provider"),)
        tasks = [(each, partial(open_on, host, each, built=True)) for each in named]
    if len(tasks) > 1 and (attestations or source is not None or provenance is not None):
        raise click.UsageError(
            "--attestation, --provenance and --source are of one Provider; name the one that is meant"
        )
    results: list[dict[str, Any]] = []
    warnings: list[Diagnostic] = []
    several = installed or len(tasks) > 1
    for name, open_it in tasks:
        try:
            with open_it() as opened:
                if source is not None:
                    warnings.extend(_compare(opened, source))
                result = _result(opened)
                if provenance is not None:
                    result["provenance"] = _provenance(host, opened, provenance)
                results.append(result)
                warnings.extend(_told_for(name, each) if several else each for each in opened.warnings)
        except BundlerError as error:
            errors.append(_in(error, name) if several else error)
    warn(options, warnings)
    if options.json and not errors:
        states = {result["trust"]["state"] for result in results}
        state = "nothing" if not results else "consistent" if "consistent" in states else "trusted"
        print_json({"state": state, "trusted": state == "trusted", "bundles": results})
    elif not options.json:
        _show(results)
        if not results and not errors:
            echo("no Provider is installed" + (f" in {', '.join(path)}" if path else ""))
    if errors:
        if options.json:  # which of several passed stands beside what failed
            warn(options, [_passed(result) for result in results])
        raise BundlerError.of(errors)


def _installed(host: Host, ids: Sequence[str], path: Sequence[str]) -> tuple[list[_Task], list[BundlerError]]:
    """The installs that are used, and what is wrong with all of them together."""
    from ..errors import BundlerError
    from ..runtime.open import open_installed
    from ..wheel.installed import list_installed, not_installed
    from ..wheel.installed_check import check_neighbours

    found = list_installed(path or None)
    errors = [not_installed(found, each) for each in ids if all(other.id != each for other in found)]
    for finding in check_neighbours(found, ids, path or None):
        errors.append(BundlerError(finding.code, finding.message, hint=finding.hint, diagnostics=(finding,)))
    used = [each for each in found if each.shadowed_by is None and (not ids or each.id in ids)]
    return [(f"{each.id} in {each.location}", partial(open_installed, host, found, each)) for each in used], errors


def _result(opened: OpenedProvider) -> dict[str, Any]:
    result: dict[str, Any] = {
        "path": opened.root,
        "kind": opened.kind,
        "provider": {"id": opened.provider.id, "version": opened.provider.version},
        "files": len(opened.files) - 1,  # manifest.json is not counted
        "digest": opened.digest,
        "trust": trust_as_json(opened.trust),
    }
    if opened.identity is not None:
        result |= {
            "distribution": opened.identity.distribution,
            "version": opened.identity.version,
            "declared": list(opened.identity.declared),
            "requires": list(opened.requires),
            "bytecode": list(opened.bytecode),
        }
    return result


def _compare(opened: OpenedProvider, source: str) -> list[Diagnostic]:
    """Notes of what differs and does not count. Raises `source-differs`."""
    from ..bundle.open import open_path
    from ..wheel.rebuild import compare_with_source, installed_info, wheel_info

    if opened.bundle is None or opened.contents is None:
        raise AssertionError("what is verified was built")
    read_info = None
    if opened.identity is not None:
        read_info = (wheel_info if opened.kind == "wheel" else installed_info)(opened.root, opened.identity)
    with open_path(source) as again:
        return compare_with_source(opened.bundle, opened.contents, read_info, again)


def _provenance(host: Host, opened: OpenedProvider, file: str) -> dict[str, Any]:
    """What the provenance of a wheel says, and who signed it. Raises `signature-…` codes."""
    from ..trust.envelope import read_envelope
    from ..trust.host import read_attestations
    from ..trust.judge import judge_provenance
    from ..trust.provenance import check_provenance
    from ..trust.sign import sha256_of

    if opened.kind != "wheel":
        raise click.UsageError("a provenance is of a wheel's file; name the wheel")
    envelope = read_envelope(read_attestations([file])[file], file)
    said = check_provenance(envelope, {os.path.basename(opened.root): sha256_of(opened.root)})
    signers = judge_provenance(envelope, opened.provider.id, host.policy)
    return {"signers": [{"name": each.name, "keyId": each.key_id} for each in signers], "predicate": said}


def _show(results: list[dict[str, Any]]) -> None:
    for result in results:
        called = f" as {result['distribution']} {result['version']}" if "distribution" in result else ""
        what = f"{result['provider']['id']} {result['provider']['version']}{called}"
        echo(
            visible(f"{result['path']}: {what}, {plural(result['files'], 'file')} and manifest.json: ")
            + verdict_text(result["trust"])
            + f"\n{result['digest']}"
        )
        for signer in result["trust"]["signers"]:
            echo(visible(f"  signed by {signer['name']} ({signer['keyId']})"))
        if "provenance" in result:
            _show_provenance(result["provenance"])
        for name in result.get("declared", ()):
            echo(f"  the {name} is declared by its author, not derived from the Provider")
        for requirement in result.get("requires", ()):
            echo(visible(f"  pip installs {requirement} with it"))
        if result.get("bytecode"):
            echo(f"  {plural(len(result['bytecode']), 'file')} of bytecode beside scripts, for which nothing vouches")


def _show_provenance(provenance: dict[str, Any]) -> None:
    names = ", ".join(each["name"] for each in provenance["signers"])
    echo(visible(f"  where it comes from, as {names or 'somebody whom no policy knows'} says:"))
    echo(json.dumps(provenance["predicate"], indent=2, ensure_ascii=False))


def _in(error: BundlerError, name: str) -> BundlerError:
    """The error with the name of what it is about: there are several."""
    from ..errors import BundlerError

    diagnostics = [_told_for(name, diagnostic) for diagnostic in error.diagnostics]
    return BundlerError(error.code, f"{name}: {error.message}", hint=error.hint, diagnostics=diagnostics)


def _passed(result: dict[str, Any]) -> Diagnostic:
    from ..errors import Diagnostic

    message = f"{result['path']}: {verdict_text(result['trust'])}"
    return Diagnostic(
        code="bundle-consistent",
        severity="info",
        message=message,
        path=result["path"],
        detail={"digest": result["digest"]},
    )


def _told_for(name: str, diagnostic: Diagnostic) -> Diagnostic:
    return replace(diagnostic, message=f"{name}: {diagnostic.message}")
