"""Bytes → value: YAML 1.2 core, JSON, front matter (protocol: "Parsing").

Nothing that a document names is ever opened. Numbers are IEEE doubles: an integral one that a double
holds exactly is an `int`, so `1.0` is 1, and further digits are rounded as ECMAScript rounds them.
Every refusal is `parse-failed` (for front matter `frontmatter-…`) with file, line and column.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import BundlerError
from .canonical import Json, number, scalar

#: The largest file that is parsed, in bytes.
MAX_BYTES = 16 * 1024 * 1024
#: Values in one document, each alias counted with all that it stands for.
MAX_VALUES = 100_000
#: Levels of mappings and lists in each other.
MAX_LEVELS = 200

#: 1-based line and column.
Place = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed file: its `path` (for messages), its `value`, and where each value stands.

    `finite` is False where the document holds a number that JSON has not (infinite, or not a number):
    such a document parses and fails every schema.
    """

    path: str
    value: Json
    finite: bool
    _places: Callable[[], dict[str, Place]]

    def place(self, pointer: str) -> Place | None:
        """Line and column of the value at a JSON pointer, of its nearest ancestor where it has none."""
        places = self._places()
        while pointer not in places:
            if not pointer:
                return None
            pointer = pointer.rpartition("/")[0]
        return places[pointer]


def parse(data: bytes, path: str) -> Document:
    """A file's value: `.json` (without case) is JSON, every other name YAML. Raises `parse-failed`."""
    if len(data) > MAX_BYTES:
        raise _failed(path, f"is larger than {MAX_BYTES:,} bytes, the most that is parsed")
    return parse_json(data, path) if path.lower().endswith(".json") else parse_yaml(data, path)


def front_matter(data: bytes, path: str) -> Document:
    """The front matter of a Markdown file as a mapping; only its own bytes must be UTF-8.

    Raises `frontmatter-missing` without a fence in the first line, `frontmatter-invalid` where it is not
    closed, not YAML, or no mapping.
    """
    opening = re.match(rb"---\r?\n", data)
    if opening is None:
        raise BundlerError("frontmatter-missing", f"`{path}` does not begin with a line that is exactly `---`", path=path, line=1, column=1)
    closing = re.compile(rb"^---\r?\n", re.MULTILINE).search(data, opening.end(), opening.end() + MAX_BYTES)
    if closing is None:
        raise BundlerError(
            "frontmatter-invalid",
            f"`{path}`: the front matter is not closed: no further line is exactly `---` with a line end",
            path=path, line=1, column=1,
        )
    content = data[opening.end() : closing.start()]
    try:
        document = parse_yaml(content, path, line=1)
    except BundlerError as error:
        where = error.diagnostics[0]
        raise BundlerError("frontmatter-invalid", f"the front matter is not YAML: {error.message}",
                           path=path, line=where.line, column=where.column) from None
    if not isinstance(document.value, dict):
        raise BundlerError("frontmatter-invalid", f"`{path}`: the front matter is {describe(document.value)}; a mapping is expected",
                           path=path, line=2, column=1)
    return document


def describe(value: Json) -> str:
    """What a value is, for messages: a short one as it is written in JSON, otherwise its kind."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, float) and not math.isfinite(value):
        return "a number that JSON has not"
    text = scalar(value)
    return text if len(text) <= 60 else text[:57] + '…"'


def pointer_step(key: str | int) -> str:
    """One step of a JSON pointer (RFC 6901)."""
    return "/" + str(key).replace("~", "~0").replace("/", "~1")


def _failed(path: str, what: str, line: int | None = None, column: int | None = None, hint: str | None = None) -> BundlerError:
    where = f"{path}:{line}:{column}" if line is not None else path
    return BundlerError("parse-failed", f"{where} {what}", path=path, line=line, column=column, hint=hint)


def _decode(data: bytes, path: str, line: int = 0) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line += before.count(b"\n") + 1
        column = len(before[before.rfind(b"\n") + 1 :].decode()) + 1
        raise _failed(path, f"is not UTF-8: byte 0x{data[error.start]:02x}", line, column, "save the file as UTF-8") from None


def _double(text: str) -> int | float:
    """The number that a double holds for decimal digits; an int where it is integral and exact."""
    value = float(text)
    if value.is_integer() and abs(value) < 2**53 and not (value == 0 and text.startswith("-")):
        return int(value)
    return value


# --- JSON ---------------------------------------------------------------------------------------------


def parse_json(data: bytes, path: str) -> Document:
    """RFC 8259: UTF-8 without a byte order mark, no NaN, duplicate keys refused."""
    text = _decode(data, path)
    if text.startswith("\ufeff"):
        raise _failed(path, "begins with a byte order mark, which JSON does not allow", 1, 1, "save the file as UTF-8 without BOM")
    places: dict[str, Place] = {}

    def find_places() -> dict[str, Place]:
        if not places:
            _json_places(text, places)
        return places

    try:
        value = json.loads(text, object_pairs_hook=_object, parse_int=_double, parse_float=_double, parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise _failed(path, f"is not JSON: {error.msg}", error.lineno, error.colno) from None
    except RecursionError:
        raise _too_deep(path) from None
    except _DuplicateKey as error:
        line, column = _json_places(text, {}) or (1, 1)
        raise _failed(path, f"names the key {scalar(error.key)} twice in one object", line, column) from None
    except _NoNumber as error:
        raise _failed(path, f"contains {error.name}, which is no JSON number") from None
    finite = _check_json(value, path)
    return Document(path=path, value=value, finite=finite, _places=find_places)


class _DuplicateKey(Exception):
    def __init__(self, key: str) -> None:
        self.key = key


class _NoNumber(Exception):
    def __init__(self, name: str) -> None:
        self.name = name


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKey(key)
            seen.add(key)
    return result


def _constant(name: str) -> Json:
    raise _NoNumber(name)


def _check_json(value: Json, path: str) -> bool:
    """Hold the bounds and refuse lone surrogates; whether all numbers are finite."""
    finite = True
    count = 0
    level: list[Json] = [value]
    for depth in range(MAX_LEVELS + 2):
        below: list[Json] = []
        for item in level:
            count += 1
            if isinstance(item, dict):
                for key in item:
                    _no_surrogate(key, path)
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
            elif isinstance(item, str):
                _no_surrogate(item, path)
            elif isinstance(item, float) and not math.isfinite(item):
                finite = False
        if count > MAX_VALUES:
            raise _too_many(path)
        if not below:
            # The last level may hold empty objects and lists: they count as a level of their own.
            if depth == MAX_LEVELS and any(isinstance(item, dict | list) for item in level):
                raise _too_deep(path)
            return finite
        if depth >= MAX_LEVELS:
            raise _too_deep(path)
        level = below
    raise AssertionError("the loop ends at MAX_LEVELS")


def _no_surrogate(text: str, path: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _lone_surrogate(path) from None


_JSON_TOKEN = re.compile(r'[ \t\r]*(?:(\n)|("(?:[^"\\]|\\.)*")|([{}\[\],:])|([^\s{}\[\],:"]+))')


def _json_places(text: str, places: dict[str, Place]) -> Place | None:
    """Fill in where each value of a JSON text stands; the place of the first duplicate key ends it."""
    line, line_start = 1, 0
    # For each open container: its pointer, and the keys seen or the index of the next element.
    stack: list[tuple[str, set[str] | None]] = []
    index: list[int] = []
    pointer = ""
    key_next = False
    for token in _JSON_TOKEN.finditer(text):
        newline, quoted, mark, word = token.groups()
        if newline:
            line, line_start = line + 1, token.end()
            continue
        place = (line, token.start(token.lastindex or 0) - line_start + 1)
        if mark and mark in "]}":
            stack.pop()
            index.pop()
        elif mark == ",":
            container, keys = stack[-1]
            key_next = keys is not None
            index[-1] += 1
            pointer = f"{container}/{index[-1]}"
        elif mark == ":":
            continue
        elif quoted and key_next:
            container, keys = stack[-1]
            key = json.loads(quoted, strict=False)
            if keys is not None and key in keys:
                return place
            if keys is not None:
                keys.add(key)
            pointer = container + pointer_step(key)
            key_next = False
        else:
            places.setdefault(pointer, place)
            if mark in ("{", "["):
                stack.append((pointer, set() if mark == "{" else None))
                index.append(0)
                key_next = mark == "{"
                pointer = f"{pointer}/0"
    return None


# --- YAML ---------------------------------------------------------------------------------------------

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


def resolve_plain(text: str) -> str | int | float | bool | None:
    """The value of a plain scalar under the YAML 1.2 core schema."""
    if text and text[0] not in _MAY_BE_NO_TEXT:
        return text
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _FLOAT.match(text):
        return _double(text)
    if _OCTAL.match(text):
        return _double(str(float(int(text[2:], 8)))) if len(text) < 300 else math.inf
    if _HEX.match(text):
        return _double(str(float(int(text[2:], 16)))) if len(text) < 250 else math.inf
    if _INFINITE.match(text):
        return -math.inf if text[0] == "-" else math.inf
    if text in _NAN:
        return math.nan
    return text


def parse_yaml(data: bytes, path: str, *, line: int = 0) -> Document:
    """One YAML 1.2 document under the core schema; an empty file is null.

    `line` is the number of lines of the file that come before `data`.
    """
    text = _decode(data, path, line).removeprefix("\ufeff")
    value, finite = _Builder(text, path, line).build()
    places: dict[str, Place] = {}

    def find_places() -> dict[str, Place]:
        if not places:
            _Builder(text, path, line, places).build()
        return places

    return Document(path=path, value=value, finite=finite, _places=find_places)


def _events(text: str, path: str) -> Callable[[], Any]:
    try:
        from yaml.cyaml import CParser
    except ImportError:
        raise BundlerError("libyaml-missing", f"`{path}` can't be parsed: this PyYAML was built without libyaml") from None
    next_event: Callable[[], Any] = CParser(text).get_event
    return next_event


class _Frame:
    """A mapping or list that is being read."""

    __slots__ = ("anchor", "before", "container", "height", "key", "pointer")

    def __init__(self, container: Any, anchor: str | None, before: int, pointer: str) -> None:
        self.container = container  # a dict or a list
        self.anchor = anchor
        self.before = before  # values counted before it
        self.height = 1  # levels from here down
        self.key: str | None = None
        self.pointer = pointer


class _Builder:
    """Values from libyaml's events: limits, tags, keys and places are decided here."""

    def __init__(self, text: str, path: str, line: int, places: dict[str, Place] | None = None) -> None:
        self._path = path
        self._line = line + 1
        self._places = places
        self._swap: dict[int, str] = {}
        if any(character in text for character in _OLD_LINE_ENDS):
            text = self._hide_old_line_ends(text)
        # Without a final line end libyaml reads `a: |` as another value than with one.
        self._text = text if text.endswith(("\n", "\r")) else text + "\n"
        self._count = 0
        self._finite = True
        # Anchor → value, values counted in it, its height; None while it is still open.
        self._anchors: dict[str, tuple[Json, int, int] | None] = {}

    def build(self) -> tuple[Json, bool]:
        import yaml

        try:
            return self._build(_events(self._text, self._path)), self._finite
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise _failed(self._path, f"is not YAML: {_explain(error)}", *self._at(mark), _yaml_hint(error)) from None
        except yaml.reader.ReaderError as error:
            position = error.position if isinstance(error.position, int) else 0
            before = self._text[:position]
            line, column = before.count("\n"), position - before.rfind("\n")
            raise _failed(self._path, f"holds a character that YAML does not allow (U+{_code(error.character):04X})",
                          line + self._line, column, "remove it, or write it as an escape in double quotes") from None

    def _build(self, next_event: Callable[[], Any]) -> Json:
        # This loop sees every scalar of every document: what is rare is done in methods.
        from yaml import AliasEvent, DocumentStartEvent, MappingEndEvent, MappingStartEvent, ScalarEvent, SequenceEndEvent, SequenceStartEvent

        documents = 0
        root: Json = None
        stack: list[_Frame] = []
        frame: _Frame | None = None
        while (event := next_event()) is not None:
            kind = type(event)
            value: Json
            height = 0
            if kind is ScalarEvent:
                value = event.value
                if event.tag is not None or self._swap:
                    value = self._scalar(event)
                elif event.implicit[0] and (not value or value[0] in _MAY_BE_NO_TEXT):
                    value = self._plain(value)
                if value.__class__ is str and not value.isascii():
                    self._refuse_surrogates(value, event)
                if event.anchor is not None:
                    self._anchors[event.anchor] = (value, 1, 0)
            elif kind is AliasEvent:
                value, height = self._alias(event, stack)
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                frame = self._open(event, frame, len(stack), {} if kind is MappingStartEvent else [])
                stack.append(frame)
                continue
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                closed = stack.pop()
                value, height = closed.container, closed.height
                if closed.anchor is not None:
                    self._anchors[closed.anchor] = (value, self._count - closed.before, height)
                frame = stack[-1] if stack else None
            elif kind is DocumentStartEvent:
                documents += 1
                if documents > 1:
                    raise self._fail(event, "begins a second document; one document in a file is expected")
                continue
            else:
                continue
            if frame is None:
                root = value
                pointer = ""
            else:
                if height >= frame.height:
                    frame.height = height + 1
                container = frame.container
                if container.__class__ is list:
                    pointer = f"{frame.pointer}/{len(container)}"
                    container.append(value)
                elif frame.key is None:
                    key = value if value.__class__ is str else self._key(value, event)
                    if key in container:
                        raise self._fail(event, f"names the key {scalar(key)} twice in one mapping")
                    frame.key = key
                    continue
                else:
                    pointer = frame.pointer + pointer_step(frame.key) if self._places is not None else ""
                    container[frame.key] = value
                    frame.key = None
            if height == 0 or kind is AliasEvent:  # a container was counted, and its place noted, when it opened
                self._count += 1
                if self._count > MAX_VALUES:
                    raise _too_many(self._path, *self._at(event.start_mark))
                if self._places is not None:
                    self._note(pointer, event)
        return root

    def _open(self, event: Any, parent: _Frame | None, depth: int, container: Any) -> _Frame:
        if parent is not None and isinstance(parent.container, dict) and parent.key is None:
            raise self._fail(event, "has a mapping or list as a key; a text is expected")
        if depth >= MAX_LEVELS:
            raise _too_deep(self._path, *self._at(event.start_mark))
        expected = _YAML_TAG + ("map" if isinstance(container, dict) else "seq")
        if event.tag is not None and event.tag not in ("!", expected):
            raise self._fail(event, f"has the tag {event.tag}, which is none of the core schema's for this value")
        pointer = ""
        if self._places is not None:
            if parent is not None:
                pointer = parent.pointer + (pointer_step(parent.key) if parent.key is not None else f"/{len(parent.container)}")
            self._note(pointer, event)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        frame = _Frame(container, event.anchor, self._count, pointer)
        self._count += 1
        if self._count > MAX_VALUES:
            raise _too_many(self._path, *self._at(event.start_mark))
        return frame

    def _note(self, pointer: str, event: Any) -> None:
        if self._places is not None:
            self._places[pointer] = (event.start_mark.line + self._line, event.start_mark.column + 1)

    def _alias(self, event: Any, stack: list[_Frame]) -> tuple[Json, int]:
        try:
            anchored = self._anchors[event.anchor]
        except KeyError:
            raise self._fail(event, f"refers to *{event.anchor}, which no anchor before it defines") from None
        if anchored is None:
            raise self._fail(event, f"refers to *{event.anchor} inside of what it anchors: the value would contain itself")
        value, size, height = anchored
        if len(stack) + height > MAX_LEVELS:
            raise _too_deep(self._path, *self._at(event.start_mark))
        self._count += size - 1
        return value, height

    def _plain(self, text: str) -> str | int | float | bool | None:
        value = resolve_plain(text)
        if value.__class__ is float and not math.isfinite(value):  # type: ignore[arg-type]
            self._finite = False
        return value

    def _scalar(self, event: Any) -> str | int | float | bool | None:
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
            raise _lone_surrogate(self._path, *self._at(event.start_mark)) from None

    def _tagged(self, event: Any, text: str, tag: str, value: Json) -> int | float | bool | None:
        name = tag.removeprefix(_YAML_TAG)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if (name == "null" and value is None) or (name == "bool" and isinstance(value, bool)):
            return value
        if is_number and (name == "float" or (name == "int" and (_INT.match(text) or _OCTAL.match(text) or _HEX.match(text)))):
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
        lower = text.lower()
        free = (code for code in range(0xE000, 0xF900) if chr(code) not in text and f"{code:x}" not in lower)
        hide: dict[int, str] = {}
        for character in _OLD_LINE_ENDS:
            stand_in = next(free, None)
            if stand_in is None:
                raise _failed(self._path, "uses every private-use character beside U+0085, U+2028 or U+2029", hint="write those three as escapes in double quotes")
            hide[ord(character)] = chr(stand_in)
            self._swap[stand_in] = character
        return text.translate(hide)

    def _at(self, mark: Any) -> tuple[int, int] | tuple[None, None]:
        return (mark.line + self._line, mark.column + 1) if mark is not None else (None, None)

    def _fail(self, event: Any, what: str) -> BundlerError:
        return _failed(self._path, what, *self._at(event.start_mark))


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


def _lone_surrogate(path: str, line: int | None = None, column: int | None = None) -> BundlerError:
    return _failed(path, "holds a lone surrogate (\\ud800 to \\udfff), which is no character", line, column)


def _too_many(path: str, line: int | None = None, column: int | None = None) -> BundlerError:
    return _failed(path, f"holds more than {MAX_VALUES:,} values, aliases counted with what they stand for", line, column)


def _too_deep(path: str, line: int | None = None, column: int | None = None) -> BundlerError:
    return _failed(path, f"nests more than {MAX_LEVELS} levels", line, column)
