"""The options that every command takes, before its name or after it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from ..errors import Diagnostic
    from ..provider.skills import Binding
    from ..runtime.provider import OpenedProvider
    from ..trust.host import Host

#: The variable that names the trust policy where --policy does not.
POLICY_VARIABLE = "AGENT_BUNDLER_POLICY"
_DEFAULT_MANIFEST = "provider.yaml"


@dataclass
class GlobalOptions:
    """What was given, wherever it stood; the later one wins."""

    manifest: str | None = None
    skill: str | None = None
    registry: str | None = None
    policy: str | None = None
    format: str = "human"
    quiet: bool = False
    warnings: list[Diagnostic] = field(default_factory=list)

    @property
    def json(self) -> bool:
        return self.format == "json"

    def host(self, *, authoring: bool = False, attestations: tuple[str, ...] = (), demand_policy: bool = False) -> Host:
        """The host that this command is: it has the policy of --policy or AGENT_BUNDLER_POLICY, and no records."""
        import os

        from ..trust.host import make_host

        policy = self.policy
        if policy is None:  # an empty one, here or there, is one that can't be read, not none
            policy = os.environ.get(POLICY_VARIABLE)
        return make_host(policy=policy, attestations=attestations, demand_policy=demand_policy, authoring=authoring)

    @contextmanager
    def open(self, reference: str | None = None, *, authoring: bool = False) -> Iterator[OpenedProvider]:
        """The Provider that was named: by its place, as an installed one, or by a Skill that is bound to it.

        One that was built and that nobody vouches for is told as such. With `authoring` a source is not held to the
        policy, under which nothing that is not built can be used.
        """
        from ..runtime.open import open_on

        with open_on(self.host(authoring=authoring), reference or self._reference()) as opened:
            if opened.trust is not None and not opened.trust.trusted:
                self.warnings.append(_untrusted(opened))
            yield opened

    def _reference(self) -> str:
        if self.skill is None:
            return self.manifest or _DEFAULT_MANIFEST
        from ..errors import BundlerError

        binding = self.binding(self.skill)
        if self.manifest is not None and not _same(self.manifest, binding):
            raise BundlerError(
                "option-invalid",
                f"--manifest names {self.manifest}, the Skill {self.skill} is bound to {binding.manifest_path}",
                hint="give one of --manifest and --skill",
            )
        return reference_of(binding)

    def binding(self, skill: str) -> Binding:
        """What a SKILL.md is bound to; a Provider's id means the registry's, or else the installed one."""
        from ..provider.skills import read_binding
        from ..runtime.open import find_manifest

        return read_binding(skill, self.registry, find_manifest)


def reference_of(binding: Binding) -> str:
    """The Provider that a Skill is bound to."""
    from ..runtime.open import SCHEME

    return f"{SCHEME}{binding.provider_id}" if binding.is_found else binding.manifest_path


def _untrusted(opened: OpenedProvider) -> Diagnostic:
    from ..errors import Diagnostic

    message = f"{opened.provider.id} {opened.provider.version} is {opened.trust}"
    return Diagnostic(code="provider-untrusted", severity="info", message=message, path=opened.root)


def _same(manifest: str, binding: Binding) -> bool:
    import os

    if manifest == f"provider:{binding.provider_id}":
        return binding.is_found
    return os.path.realpath(manifest) == os.path.realpath(binding.manifest_path)


_PARAMETERS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (
        ("-m", "--manifest"),
        {
            "metavar": "PATH",
            "help": "Provider: a folder, a manifest file, a bundle, a wheel file, or provider:ID for an installed one.  [default: provider.yaml]",
        },
    ),
    (("--skill",), {"metavar": "SKILL.md", "help": "Provider: the one that this Skill is bound to."}),
    (("--registry",), {"metavar": "FILE", "help": "Where `provider:` locators are looked up."}),
    (
        ("--policy",),
        {
            "metavar": "FILE",
            "help": "Trust policy: whose signatures what was built needs.  [default: $AGENT_BUNDLER_POLICY, or none]",
        },
    ),
    (("--format",), {"metavar": "human|json", "help": "Output: text, or JSON on one line.  [default: human]"}),
    (("-q", "--quiet"), {"is_flag": True, "default": None, "help": "No progress, no warnings."}),
)

_Command = TypeVar("_Command", bound=click.Command)


def add_global_options(command: _Command) -> _Command:
    """Give a command the global options. They are noted in the context's object, not passed to the function."""
    for names, settings in _PARAMETERS:
        command.params.append(click.Option(names, expose_value=False, callback=_note, is_eager=True, **settings))
    return command


def _note(ctx: click.Context, parameter: click.Parameter, value: str | bool | None) -> None:
    if value is None:
        return
    options = ctx.ensure_object(GlobalOptions)
    if parameter.name == "format" and value not in ("human", "json"):
        from ..errors import BundlerError

        raise BundlerError("format-invalid", f"--format is {value!r}; human or json is expected")
    setattr(options, str(parameter.name), value)


def command(name: str, **settings: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """`click.command` with the global options; the function gets them as its first argument."""
    cls: type[click.Command] = settings.pop("cls", click.Command)

    def decorate(function: Callable[..., Any]) -> click.Command:
        takes_options: Callable[..., Any] = click.pass_obj(function)
        return add_global_options(cls(name, callback=takes_options, **_described(function, settings)))

    return decorate


def subcommand(group: click.Group, name: str, **settings: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """A command of a group, with the global options."""

    def decorate(function: Callable[..., Any]) -> click.Command:
        made = command(name, **settings)(function)
        group.add_command(made)
        return made

    return decorate


def _described(function: Callable[..., Any], settings: dict[str, Any]) -> dict[str, Any]:
    """What `click.command` reads off a function: its help, and the parameters that decorators put there."""
    parameters = getattr(function, "__click_params__", [])
    return {"help": inspect.cleandoc(function.__doc__ or ""), "params": list(reversed(parameters)), **settings}
