"""`Trust`: what a host may believe of an opened Provider. `judge` makes it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedBy:
    """Who signed: the name that the policy gives the key, and its id."""

    name: str
    key_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """What a host may believe. *Trusted*: `signers` vouch for it, as the policy asks. *Consistent*: nobody does.

    `reason` tells why it is not trusted, `claimed` the key ids that the signatures with it name, which prove nothing. It
    holds from `since` until `until`, in seconds since 1970.
    """

    state: Literal["trusted", "consistent"]
    reason: str = ""
    signers: tuple[SignedBy, ...] = ()
    claimed: tuple[str, ...] = ()
    since: float = -math.inf
    until: float = math.inf

    @property
    def trusted(self) -> bool:
        return self.state == "trusted"

    def __str__(self) -> str:
        if self.trusted:
            return "trusted: signed by " + ", ".join(f"{each.name} ({each.key_id})" for each in self.signers)
        return f"consistent, not trusted ({self.reason})"
