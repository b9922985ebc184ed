"""Keys on the command line: what names one, and passphrases, which come from the environment or are asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from ..trust.signing import Signer
    from .options import GlobalOptions

_Function = TypeVar("_Function", bound=Callable[..., Any])


def key_options(*, required: bool) -> Callable[[_Function], _Function]:
    """`--key` and `--public-key`."""

    def decorate(function: _Function) -> _Function:
        named = click.option(
            "--public-key", metavar="FILE", help="The public key (PEM) that belongs to --key; needed for a URI."
        )(function)
        return click.option(
            "--key",
            required=required,
            metavar="FILE|env:NAME|URI",
            help="The private key: an Ed25519 key in PEM, from a file or a variable, or a signer's URI such as hsm: or awskms:.",
        )(named)

    return decorate


def signer(key: str, public_key: str | None) -> Signer:
    """The signer that was named."""
    from ..trust.signing import load_signer

    return load_signer(key, ask_passphrase, public_key)


def release_signer(options: GlobalOptions, key: str, public_key: str | None) -> Signer:
    """The same for a command that starts others: they do not get what opens the key."""
    from ..trust.signing import PASSPHRASE_VARIABLE

    found = signer(key, public_key)
    options.warnings.extend(found.warnings)
    for name in (PASSPHRASE_VARIABLE, key.removeprefix("env:") if key.startswith("env:") else ""):
        os.environ.pop(name, None)
    return found


def ask_passphrase(name: str) -> str | None:
    """The passphrase of the environment, or what is typed; None where nobody is there to type."""
    return _given() or _typed(f"Passphrase for {name}", twice=False)


def new_passphrase(file: str) -> str:
    """The same for a new key in the file, typed twice. Raises `option-invalid` where nobody is there to type."""
    from ..errors import BundlerError
    from ..trust.signing import PASSPHRASE_VARIABLE

    word = _given() or _typed("Passphrase", twice=True)
    if word is None:
        raise BundlerError(
            "option-invalid",
            f"there is no passphrase for {file}, and nobody to ask",
            hint=f"set {PASSPHRASE_VARIABLE}, or give --no-passphrase",
        )
    return word


def _given() -> str | None:
    from ..trust.signing import PASSPHRASE_VARIABLE

    return os.environ.get(PASSPHRASE_VARIABLE)


def _typed(prompt: str, *, twice: bool) -> str | None:
    if not sys.stdin.isatty():
        return None
    word: str = click.prompt(prompt, hide_input=True, confirmation_prompt=twice, err=True)
    return word
