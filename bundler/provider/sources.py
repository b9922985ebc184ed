"""The files of a Provider while it is loaded: each parsed one is read once, and faults are collected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import BundlerError, Suggestions
from ..protocol import schemas
from ..protocol.documents import MAX_BYTES, Document, parse
from ..tree import Tree

# Faults of the file itself, which need the word who named it.
_FILE_CODES = frozenset(("file-missing", "file-read-failed", "path-symlink-outside-provider"))


class Sources:
    """A tree that is being loaded: what was read of it, and the faults found so far, in order.

    Without `judge` its content has passed every rule before, and is read only.
    """

    def __init__(self, tree: Tree, judge: bool = True) -> None:
        self.tree = tree
        self.judge = judge
        self.faults: list[BundlerError] = []
        self.suggestions = Suggestions()
        #: The bytes of what was parsed, and which of those files are executable.
        self.bytes: dict[str, bytes] = {}
        self.executable: set[str] = set()
        self._present: set[str] = set()

    def read(self, path: str) -> bytes:
        """The bytes of a file that is parsed; each is read once."""
        data = self.bytes.get(path)
        if data is None:
            small = self.tree.small(path)
            if small is not None:
                data, executable = small
            else:
                with self.tree.open(path) as reader:
                    data, executable = reader.read_all(MAX_BYTES), reader.executable
            self.bytes[path] = data
            if executable:
                self.executable.add(path)
        return data

    def head(self, path: str) -> bytes:
        """Enough of a Markdown file for its front matter: the file itself may be of any size."""
        if path not in self.bytes:
            with self.tree.open(path) as reader:
                if reader.size > MAX_BYTES:
                    head = b""
                    # To its end: a tree that checks digests says no only there.
                    while chunk := reader.read():
                        head += chunk[: MAX_BYTES - len(head)]
                    return head
        return self.read(path)

    def document(self, path: str, schema: str | None = None) -> Document:
        """The parsed file; with a schema's name, it satisfies that schema."""
        document = parse(self.read(path), path)
        if schema is not None:
            self.check(document, schema)
        return document

    def check(self, document: Document, schema: str) -> None:
        """Raises `schema-invalid`; nothing where the content was judged before."""
        if self.judge:
            schemas.check(document, schema)

    def require(self, path: str, named_in: Document, pointer: str) -> bool:
        """Whether a file that is only carried is a regular file inside the root; a fault if not."""
        if path in self._present or path in self.bytes:
            return True
        with self.collecting(named_in, pointer):
            self.tree.check(path)
            self._present.add(path)
            return True
        return False

    @contextmanager
    def collecting(self, named_in: Document | None = None, pointer: str = "") -> Iterator[None]:
        """Note a fault and go on; a fault of a file is told with the place that names the file."""
        try:
            yield
        except BundlerError as error:
            self.note(error, named_in, pointer)

    def note(self, error: BundlerError, named_in: Document | None = None, pointer: str = "") -> None:
        """Add a fault."""
        if named_in is not None and error.code in _FILE_CODES:
            error = _named_by(error, named_in, pointer, self._near(error))
        self.faults.append(error)

    def _near(self, error: BundlerError) -> str:
        """What was meant by the name of a file that does not exist, if something like it lies there."""
        path = error.diagnostics[0].path or ""
        if error.code != "file-missing" or "does not exist" not in error.message:
            return ""
        folder, _, name = path.rpartition("/")
        return self.suggestions.near(name, self.tree.names(folder))


def _named_by(error: BundlerError, document: Document, pointer: str, near: str) -> BundlerError:
    line, column = document.place(pointer) or (None, None)
    where = f"{document.path}:{line}:{column}" if line is not None else document.path
    first = error.diagnostics[0]
    return BundlerError(
        error.code,
        f"{error.message}{near} (named at {where})",
        path=first.path,
        hint=error.hint,
        detail={
            "namedBy": document.path,
            "namedAt": pointer,
            **({} if line is None else {"namedLine": line, "namedColumn": column}),
        },
    )
