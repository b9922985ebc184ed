"""Manifest → normalized provider.yaml (protocol: "The bundle").

YAML 1.2 block style, two-space indents, list items indented under their key, key order kept, no line
folding, no document markers, a final newline: the bytes that other implementations write.
"""

from __future__ import annotations

import re

from .canonical import Json, scalar
from .documents.yaml import resolve_plain

_INDENT = "  "
# What a plain text may not begin with: a blank or an indicator.
_NOT_FIRST = frozenset(" \t,[]{}#&*!|>'\"%@`")
_INDICATOR = re.compile(r"[-?](?: |\t|\Z)")
_INSIDE = re.compile(r":[ \t]|[ \t]#")
# Control characters other than tab and newline; DEL, C1 and the byte order mark among them.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff\ufffe\uffff]")


def provider_yaml(manifest: Json) -> str:
    """The normalized text of a mapping."""
    return "\n".join(_lines(manifest, "")) + "\n"


def _lines(value: Json, indent: str) -> list[str]:
    """The lines of a mapping or list that is not empty."""
    result: list[str] = []
    if isinstance(value, dict):
        for key, item in value.items():
            result.extend(_item(f"{indent}{text(key, indent)}:", item, indent))
    else:
        for item in value:
            result.extend(_item(f"{indent}-", item, indent))
    return result


def _item(lead: str, value: Json, indent: str) -> list[str]:
    if isinstance(value, dict | list | tuple):
        if not value:
            return [f"{lead} {'{}' if isinstance(value, dict) else '[]'}"]
        below = _lines(value, indent + _INDENT)
        if lead.endswith("-"):  # a mapping or list in a list begins beside the dash
            return [f"{lead} {below[0].lstrip(' ')}", *below[1:]]
        return [lead, *below]
    if isinstance(value, str):
        return [f"{lead} {text(value, indent)}"]
    return [f"{lead} {scalar(value)}"]


def text(value: str, indent: str = "") -> str:
    """A text as a YAML scalar; `indent` is that of the mapping or list which holds it."""
    if _CONTROL.search(value):
        return _double_quoted(value)
    if "\n" in value:
        # A literal block cannot hold a line of blanks at its end, nor begin with a tab.
        last = value.rstrip("\n").rpartition("\n")[2]
        if value.isspace() or value.lstrip("\n").startswith("\t") or not last.strip(" \t"):
            return _double_quoted(value)
        return _block(value, indent + _INDENT)
    if _is_plain(value):
        return value
    if '"' in value and "'" not in value and "\t" not in value:
        return f"'{value}'"
    return _double_quoted(value)


def _is_plain(value: str) -> bool:
    return not (
        value == ""
        or value[0] in _NOT_FIRST
        or value[-1] in " \t:"
        or _INDICATOR.match(value)
        or _INSIDE.search(value)
        or not isinstance(resolve_plain(value), str)
    )


def _block(value: str, indent: str) -> str:
    body = value.rstrip("\n")
    newlines = len(value) - len(body)
    chomping = {0: "-", 1: ""}.get(newlines, "+")
    # A first line that begins with a blank would be taken for deeper indentation.
    digit = str(len(_INDENT)) if value.lstrip("\n").startswith(" ") else ""
    lines = [indent + line if line else "" for line in body.split("\n")]
    return "\n".join([f"|{digit}{chomping}", *lines, *[""] * (newlines - 1)])


def _double_quoted(value: str) -> str:
    # JSON's own escapes cover what is below U+0020.
    return _CONTROL.sub(lambda match: f"\\u{ord(match.group()):04x}", scalar(value))
