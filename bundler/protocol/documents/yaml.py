"""YAML 1.2 under the core schema, built from libyaml's events."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from yaml import MarkedYAMLError
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from yaml.reader import ReaderError

from ...errors import BundlerError
from ..canonical import Json, number, scalar
from .value import (
    KEY,
    MAX_LEVELS,
    MAX_VALUES,
    Document,
    Place,
    decode,
    double,
    failed,
    lone_surrogate,
    pointer_step,
    too_deep,
    too_many,
)

try:
    from yaml.cyaml import CParser as _Parser  # type: ignore[attr-defined]
except ImportError:  # told when a document is parsed: everything else works without
    _HAS_LIBYAML = False
else:
    _HAS_LIBYAML = True

_YAML_TAG = "tag:yaml.org,2002:"
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_OCTAL = re.compile(r"0o[0-7]+\Z")
_HEX = re.compile(r"0x[0-9a-fA-F]+\Z")
_INFINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z")
_NAN = frozenset((".nan", ".NaN", ".NAN"))
# What a plain scalar must begin with to be anything but a text under the core schema.
_MAY_BE_NO_TEXT = frozenset("-+.0123456789~nNtTfF")
# libyaml ends lines at these as YAML 1.1 did; in YAML 1.2 they are ordinary characters.
_OLD_LINE_ENDS = "\x85\u2028\u2029"
# What stands in for them: more characters than a document of the largest size could name.
_PRIVATE_USE = range(0x100000, 0x10FFFE)
_ESCAPED_PRIVATE = re.compile(r"\\U(0010[0-9a-fA-F]{4})")


def resolve_plain(text: str) -> str | int | float | bool | None:
    """The value of a plain scalar under the YAML 1.2 core schema."""
    if text and text[0] not in _MAY_BE_NO_TEXT:
        return text
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _FLOAT.match(text):
        return double(text)
    if _OCTAL.match(text):
        return _integer(text[2:], 8)
    if _HEX.match(text):
        return _integer(text[2:], 16)
    if _INFINITE.match(text):
        return -math.inf if text[0] == "-" else math.inf
    if text in _NAN:
        return math.nan
    return text


def _integer(digits: str, base: int) -> int | float:
    """The double that octal or hexadecimal digits stand for."""
    try:
        return double(str(float(int(digits, base))))
    except OverflowError:
        return math.inf


def parse_yaml(data: bytes, path: str, *, line: int = 0) -> Document:
    """One YAML 1.2 document under the core schema; an empty file is null.

    `line` is the number of lines of the file that come before `data`.
    """
    text = decode(data, path, line).removeprefix("\ufeff")
    value, finite = _Builder(text, path, line).build()
    places: dict[str, Place] = {}

    def find_places() -> dict[str, Place]:
        if not places:
            _Builder(text, path, line, places).build()
        return places

    return Document(path=path, value=value, finite=finite, _places=find_places)


def _events(text: str, path: str) -> Callable[[], Any]:
    if not _HAS_LIBYAML:
        raise BundlerError("libyaml-missing", f"`{path}` can't be parsed: this PyYAML was built without libyaml")
    next_event: Callable[[], Any] = _Parser(text).get_event
    return next_event


class _Frame(NamedTuple):
    """A mapping or list that waits while what it holds is read."""

    container: Any
    key: str | None
    anchor: str | None
    before: int  # values counted before it
    pointer: str


class _Builder:
    """Values from libyaml's events: limits, tags, keys and places are decided here."""

    def __init__(self, text: str, path: str, line: int, places: dict[str, Place] | None = None) -> None:
        self._path = path
        self._line = line + 1
        self._places = places
        self._swap: dict[int, str] = {}
        if not text.isascii() and any(character in text for character in _OLD_LINE_ENDS):
            text = self._hide_old_line_ends(text)
        # Without a final line end libyaml reads `a: |` as another value than with one.
        self._text = text if text.endswith(("\n", "\r")) else text + "\n"
        self._flow_question = "?" in text and ("[" in text or "{" in text)
        self._count = 0
        self._finite = True
        # Anchor → value, values counted in it; None while it is still open.
        self._anchors: dict[str, tuple[Json, int] | None] = {}

    def build(self) -> tuple[Json, bool]:
        try:
            return self._build(_events(self._text, self._path)), self._finite
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise failed(
                self._path, f"is not YAML: {_explain(error)}", *self._at(mark), hint=_yaml_hint(error)
            ) from None
        except ReaderError as error:
            before = self._text.encode()[: error.position].decode(errors="ignore")  # libyaml counts bytes
            line, column = before.count("\n"), len(before) - before.rfind("\n")
            what = f"holds a character that YAML does not allow (U+{_code(error.character):04X})"
            hint = "remove it, or write it as an escape in double quotes"
            raise failed(self._path, what, line + self._line, column, hint) from None
        except UnicodeDecodeError:
            raise failed(self._path, "is not YAML: a tag is percent-encoded and not UTF-8") from None

    def _build(self, next_event: Callable[[], Any]) -> Json:
        # This loop sees every scalar of every document: what is rare is done in methods.
        careful, places = bool(self._swap) or self._flow_question, self._places
        # Only an escape or a character beyond ASCII can make a surrogate; only `&` an anchor.
        odd, anchored = not self._text.isascii() or "\\" in self._text, "&" in self._text
        stack: list[_Frame] = []
        # What is being read: a dict with its key, a list, or at first and at last the list of the documents' roots.
        roots: list[Json] = []
        container: Any = roots
        key: str | None = None
        anchor: str | None = None
        before = 0
        pointer = ""
        documents = 0
        while (event := next_event()) is not None:
            kind = event.__class__
            value: Json
            if kind is ScalarEvent:
                value = event.value
                if event.tag is not None or careful:
                    value = self._scalar(event)
                elif event.implicit[0] and (not value or value[0] in _MAY_BE_NO_TEXT):
                    value = self._plain(value)
                if odd and value.__class__ is str and not value.isascii():
                    self._refuse_surrogates(value, event)
                if anchored and event.anchor is not None:
                    self._anchors[event.anchor] = (value, 1)
                size = 1
            elif kind is AliasEvent:
                value, size = self._alias(event, len(stack))
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                opened: Any = {} if kind is MappingStartEvent else []
                is_key = container.__class__ is dict and key is None
                self._check_opening(event, is_key, len(stack), "map" if kind is MappingStartEvent else "seq")
                stack.append(_Frame(container, key, anchor, before, pointer))
                if places is not None and len(stack) > 1:
                    pointer += pointer_step(len(container) if key is None else key)
                if places is not None:
                    self._note(pointer, event)
                container, key, anchor, before = opened, None, event.anchor, self._count
                self._count_more(1, event)
                continue
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                value = container
                if anchor is not None:
                    self._anchors[anchor] = (value, self._count - before)
                container, key, anchor, before, pointer = stack.pop()
                size = 0  # it was counted, and its place noted, when it opened
            elif kind is DocumentStartEvent:
                documents += 1
                if documents > 1:
                    raise self._fail(event, "begins a second document; one document in a file is expected")
                continue
            else:
                continue
            if container.__class__ is dict:
                if key is None:
                    key = value if value.__class__ is str else self._key(value, event)
                    if key in container:
                        raise self._fail(event, f"names the key {scalar(key)} twice in one mapping")
                    if places is not None:
                        self._note(pointer + pointer_step(key) + KEY, event)
                    continue
                if places is not None and size:
                    self._note(pointer + pointer_step(key), event)
                container[key] = value
                key = None
            else:
                if places is not None and size:
                    self._note(f"{pointer}/{len(container)}" if stack else pointer, event)
                container.append(value)
            if size:
                self._count += size
                if self._count > MAX_VALUES:
                    raise too_many(self._path, *self._at(event.start_mark))
        return roots[0] if roots else None

    def _check_opening(self, event: Any, is_key: bool, depth: int, tag: str) -> None:
        """Whether a mapping or list may begin here."""
        if is_key:
            raise self._fail(event, "has a mapping or list as a key; a text is expected")
        if depth >= MAX_LEVELS:
            raise too_deep(self._path, *self._at(event.start_mark))
        if event.tag is not None and event.tag not in ("!", _YAML_TAG + tag):
            raise self._fail(event, f"has the tag {event.tag}, which is none of the core schema's for this value")
        if event.anchor is not None:
            self._anchors[event.anchor] = None

    def _count_more(self, size: int, event: Any) -> None:
        self._count += size
        if self._count > MAX_VALUES:
            raise too_many(self._path, *self._at(event.start_mark))

    def _note(self, pointer: str, event: Any) -> None:
        if self._places is not None:
            self._places[pointer] = (event.start_mark.line + self._line, event.start_mark.column + 1)

    def _alias(self, event: Any, depth: int) -> tuple[Json, int]:
        """What is anchored, and how many values that is."""
        try:
            anchored = self._anchors[event.anchor]
        except KeyError:
            raise self._fail(event, f"refers to *{event.anchor}, which no anchor before it defines") from None
        if anchored is None:
            raise self._fail(
                event, f"refers to *{event.anchor} inside of what it anchors: the value would contain itself"
            )
        value, size = anchored
        # Counted before it is measured: the bound on values is what bounds the measuring.
        if self._count + size > MAX_VALUES:
            raise too_many(self._path, *self._at(event.start_mark))
        if depth + _levels(value) > MAX_LEVELS:
            raise too_deep(self._path, *self._at(event.start_mark))
        return anchored

    def _plain(self, text: str) -> str | int | float | bool | None:
        value = resolve_plain(text)
        if isinstance(value, float) and not math.isfinite(value):
            self._finite = False
        return value

    def _scalar(self, event: Any) -> Json:
        if self._flow_question and self._text[event.start_mark.index - 1 : event.start_mark.index] == "?":
            # YAML 1.2 reads `[?x]` as a text; libyaml takes the question mark for the sign of a key.
            raise self._fail(event, "has a text that begins with `?` inside of brackets: put it in quotes")
        text: str = event.value.translate(self._swap)
        tag = event.tag
        if tag in ("!", _YAML_TAG + "str") or (tag is None and not event.implicit[0]):
            return text
        value = self._plain(text)
        return value if tag is None else self._tagged(event, text, tag, value)

    def _refuse_surrogates(self, text: str, event: Any) -> None:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise lone_surrogate(self._path, *self._at(event.start_mark)) from None

    def _tagged(self, event: Any, text: str, tag: str, value: Json) -> Json:
        name = tag.removeprefix(_YAML_TAG)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if (name == "null" and value is None) or (name == "bool" and isinstance(value, bool)):
            return value
        if is_number and (
            name == "float" or (name == "int" and (_INT.match(text) or _OCTAL.match(text) or _HEX.match(text)))
        ):
            return value
        if name in ("null", "bool", "int", "float"):
            raise self._fail(event, f"has {scalar(text)} where its tag demands {name}")
        raise self._fail(event, f"has the tag {tag}, which is none of the core schema's for this value")

    def _key(self, value: Json, event: Any) -> str:
        """Keys that are no texts become their canonical text, null the empty one."""
        if isinstance(value, str):
            return value
        if value is None:
            return ""
        if isinstance(value, bool):
            return scalar(value)
        if isinstance(value, int | float):
            if not math.isfinite(value):
                raise self._fail(event, "has a key that is no JSON number")
            return number(value)
        raise self._fail(event, "has a mapping or list as a key; a text is expected")

    def _hide_old_line_ends(self, text: str) -> str:
        """Swap them for private-use characters that the text has not, spelled out or escaped."""
        taken = set(text) | {chr(int(code, 16)) for code in _ESCAPED_PRIVATE.findall(text)}
        free = (chr(code) for code in _PRIVATE_USE if chr(code) not in taken)
        hide = {ord(character): next(free) for character in _OLD_LINE_ENDS}
        self._swap = {ord(stand_in): chr(character) for character, stand_in in hide.items()}
        return text.translate(hide)

    def _at(self, mark: Any) -> tuple[int | None, int | None]:
        return (mark.line + self._line, mark.column + 1) if mark is not None else (None, None)

    def _fail(self, event: Any, what: str) -> BundlerError:
        return failed(self._path, what, *self._at(event.start_mark))


def _levels(value: Json) -> int:
    """How many mappings and lists are in each other."""
    levels = 0
    level = [value]
    while level := [item for item in level if isinstance(item, dict | list)]:
        levels += 1
        level = [below for item in level for below in (item.values() if isinstance(item, dict) else item)]
    return levels


def _explain(error: Any) -> str:
    return ", ".join(part for part in (error.context, error.problem) if part)


def _yaml_hint(error: Any) -> str | None:
    text = _explain(error)
    if "\\t" in text or "tab" in text:
        return "indent with spaces: YAML does not allow tabs as indentation"
    if "mapping values are not allowed" in text:
        return "put a text that contains `: ` in quotes, or correct the indentation"
    if "did not find expected ',' or" in text:
        return "close the list or mapping, or separate its elements with commas"
    return None


def _code(character: Any) -> int:
    if isinstance(character, int):
        return character
    return ord(character[:1]) if isinstance(character, str) and character else 0
