"""A parsed document, its bounds, and how a fault of one is told."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from ...errors import BundlerError
from ..canonical import Json, scalar

#: The largest file that is parsed, in bytes.
MAX_BYTES = 16 * 1024 * 1024
#: Values in one document, each alias counted with all that it stands for.
MAX_VALUES = 100_000
#: Levels of mappings and lists in each other.
MAX_LEVELS = 200

#: What the place of a key is noted under, behind the pointer of its value.
KEY = "\0"

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

    def place(self, pointer: str, *, key: bool = False) -> Place | None:
        """Line and column of the value at a JSON pointer (with `key`, of its key); of its nearest ancestor where it has none."""
        places = self._places()
        if key and pointer + KEY in places:
            return places[pointer + KEY]
        while pointer not in places:
            if not pointer:
                return None
            pointer = pointer.rpartition("/")[0]
        return places[pointer]

    def fault(self, code: str, pointer: str, message: str, *, hint: str | None = None) -> BundlerError:
        """An error at the place of a value; its message begins with that place."""
        line, column = self.place(pointer) or (None, None)
        where = self.path if line is None else f"{self.path}:{line}:{column}"
        return BundlerError(
            code, f"{where} {message}", path=self.path, line=line, column=column, pointer=pointer, hint=hint
        )


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


def failed(
    path: str, what: str, line: int | None = None, column: int | None = None, hint: str | None = None
) -> BundlerError:
    where = f"{path}:{line}:{column}" if line is not None else path
    return BundlerError("parse-failed", f"{where} {what}", path=path, line=line, column=column, hint=hint)


def decode(data: bytes, path: str, line: int = 0) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = re.split(rb"\r\n|\r|\n", data[: error.start])
        line += len(before)
        column = len(before[-1].decode()) + 1
        raise failed(
            path, f"is not UTF-8: byte 0x{data[error.start]:02x}", line, column, "save the file as UTF-8"
        ) from None


def double(text: str) -> int | float:
    """The number that a double holds for decimal digits; an int where it is integral and exact."""
    value = float(text)
    if value.is_integer() and abs(value) < 2**53 and not (value == 0 and text.startswith("-")):
        return int(value)
    return value


def lone_surrogate(path: str, line: int | None = None, column: int | None = None) -> BundlerError:
    return failed(path, "holds a lone surrogate (\\ud800 to \\udfff), which is no character", line, column)


def too_many(path: str, line: int | None = None, column: int | None = None) -> BundlerError:
    return failed(
        path, f"holds more than {MAX_VALUES:,} values, aliases counted with what they stand for", line, column
    )


def too_deep(path: str, line: int | None = None, column: int | None = None) -> BundlerError:
    return failed(path, f"nests more than {MAX_LEVELS} levels", line, column)
