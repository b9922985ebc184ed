"""What a wheel says of its Provider: summary, readme, keywords, classifiers; and the project that hatchling builds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..protocol.canonical import collation_key
from ..protocol.model import Action, Graph, Provider
from .identity import WheelIdentity
from .naming import GROUP
from .sbom import NAME as SBOM_NAME
from .settings import OWN_FOLDER, Settings

#: The longest Summary that indexes take.
MAX_SUMMARY = 512
METADATA_VERSION = "2.4"
LICENSE_FOLDER = "licenses"

_CLASSIFIERS = (
    "Intended Audience :: Developers",
    "Operating System :: OS Independent",
    "Programming Language :: Python :: 3",
    "Topic :: Software Development :: Build Tools",
)
_KEYWORDS = ("agent-graph", "agent-graph-provider")
_WHAT_IT_IS = (
    "An Agent Graph Provider: data that tells an agent's host which step is legal next. Nothing in it is imported, "
    "and installing it runs nothing. Effects are what its author declares, not a sandbox."
)
# Control characters, ends of lines, and what shows the characters around it in another order.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+")
# Also what makes numbered lists, addresses that become links, and names of emoji.
_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#+!|~&@-]|:(?=\S)|(?<=[0-9])\.(?!\S)|(?<=www)\.)", re.IGNORECASE)


def summary(provider: Provider) -> str:
    """One line of the Provider's description, or what it is."""
    texts = (provider.description or "", provider.name or "", f"The Agent Graph Provider {provider.id}")
    first = next(filter(None, (_one_line(text.strip().split("\n\n")[0]) for text in texts)))
    return first if len(first) <= MAX_SUMMARY else first[: MAX_SUMMARY - 1].rstrip() + "…"


def project(
    provider: Provider, identity: WheelIdentity, settings: Settings, digest: str, files: Mapping[str, str]
) -> dict[str, Any]:
    """The pyproject.toml with which hatchling writes the wheel; `files` maps sources to paths in the wheel."""
    import glob

    text, media_type = settings.readme or (readme(provider, identity, digest), "text/markdown")
    return {
        "build-system": {"requires": ["hatchling"], "build-backend": "hatchling.build"},
        "project": {
            "name": identity.distribution,
            "version": identity.version,
            "description": summary(provider),
            "readme": {"text": text, "content-type": media_type},
            "requires-python": settings.requires_python,
            **({"license": settings.license} if settings.license else {}),
            "license-files": [glob.escape(name) for name in sorted(settings.licenses)],
            "authors": [dict(author) for author in settings.authors],
            "keywords": sorted({*_KEYWORDS, *settings.keywords}),
            "classifiers": list(_CLASSIFIERS),
            "dependencies": list(settings.dependencies),
            "urls": dict(settings.urls),
            "entry-points": {GROUP: {identity.provider_id: identity.module}},
        },
        "tool": {
            "hatch": {
                "build": {
                    "targets": {
                        "wheel": {
                            "core-metadata-version": METADATA_VERSION,
                            "bypass-selection": True,
                            "force-include": dict(files),
                            "sbom-files": [f"{OWN_FOLDER}/{SBOM_NAME}"],
                        }
                    }
                }
            }
        },
    }


def readme(provider: Provider, identity: WheelIdentity, digest: str) -> str:
    """The page of a wheel whose author gave none: what it is, Graphs, Actions with effects, how to verify (Markdown)."""
    name, description = _plain(provider.name or ""), _plain(provider.description or "")
    blocks = [
        f"# {_plain(provider.id)} {_plain(provider.version)}",
        *([f"**{name}**"] if name and provider.name != provider.id else []),
        *([description] if description else []),
        _WHAT_IT_IS,
        "## Graphs",
        "\n".join(_graph_line(graph) for graph in _sorted(provider.graphs.values())),
    ]
    if provider.actions:
        rows = [_action_row(action) for action in _sorted(provider.actions.values())]
        blocks += ["## Actions", "\n".join(["| Action | Effect | Runner | Runs |", "| --- | --- | --- | --- |", *rows])]
    blocks += [
        "## Verify",
        "\n".join(f"    {line}" for line in _commands(identity)),
        f"prints the digest of the bundle that this page was made for: {_code(digest)}",
    ]
    return "\n\n".join(blocks) + "\n"


def _commands(identity: WheelIdentity) -> tuple[str, ...]:
    return (
        f"pip install --only-binary :all: {identity.distribution}=={identity.version}",
        f"agent-bundler verify --installed {identity.provider_id}",
    )


def _sorted(items: Iterable[Any]) -> list[Any]:
    return sorted(items, key=lambda item: collation_key(item.id))


def _graph_line(graph: Graph) -> str:
    entries = ", ".join(_code(name) for name in graph.entrypoints)
    described = _plain(graph.description or "")
    return f"- {_code(graph.id)} (entrypoints: {entries})" + (f": {described}" if described else "")


def _action_row(action: Action) -> str:
    cells = [_code(action.id), action.effect, action.runner, _code(action.invocation)]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _one_line(text: str) -> str:
    return " ".join(_UNPRINTABLE.sub(" ", text).split())


def _plain(text: str) -> str:
    """A text that Markdown shows as it stands."""
    return _MARKUP.sub(r"\\\1", _one_line(text))


def _code(text: str) -> str:
    """A text as a code span: its fence is longer than any run of backticks in it."""
    line = _one_line(text) or " "
    longest = max(map(len, re.findall(r"`+", line)), default=0)
    fence = "`" * (longest + 1)
    blank = " " if longest else ""
    return f"{fence}{blank}{line}{blank}{fence}"
