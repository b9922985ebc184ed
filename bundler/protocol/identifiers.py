"""Ids of the protocol: of Providers, Graphs, nodes, Actions, Resources."""

from __future__ import annotations

import re

#: The longest id, in characters.
MAX_ID = 160
_ID = re.compile(r"[a-z0-9](?:[a-z0-9._/-]*[a-z0-9])?\Z")


def is_id(text: str) -> bool:
    """Whether the text is an id (protocol: `id`)."""
    return len(text) <= MAX_ID and _ID.match(text) is not None
