"""How commands show what a host may believe of a Provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..trust.verdict import Trust


def trust_as_json(trust: Trust | None) -> dict[str, Any] | None:
    """The verdict, as every command shows it."""
    if trust is None:
        return None
    signers = [{"name": each.name, "keyId": each.key_id} for each in trust.signers]
    reason = {} if trust.trusted else {"reason": trust.reason}
    return {"state": trust.state, **reason, "signers": signers, "claimed": list(trust.claimed)}


def verdict_text(trust: dict[str, Any]) -> str:
    """The verdict in one line, without the signers."""
    return "trusted" if trust["state"] == "trusted" else f"consistent, not trusted ({trust['reason']})"
