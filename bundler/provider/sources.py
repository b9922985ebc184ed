"""The files of a Provider while it is loaded: each parsed one is read once, and faults are collected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from ..errors import BundlerError, Suggestions
from ..protocol import schemas
from ..protocol.canonical import Json
from ..protocol.documents import MAX_BYTES, Document, front_matter, parse
from ..protocol.model import Provider
from ..protocol.resources import MARKDOWN
from ..tree import Tree

# Faults of the file itself, which need the word who named it.
_FILE_CODES = frozenset(("file-missing", "file-read-failed", "path-symlink-outside-provider"))


class Parsed(NamedTuple):
    """Values of files by path, as they were parsed when their content was judged."""

    documents: Mapping[str, Json]
    front_matter: Mapping[str, Json]


def parsed_values(tree: Tree, provider: Provider) -> Parsed:
    """What loading the Provider from the tree again would parse. Raises what reading raises."""
    sources = Sources(tree)
    sources.bytes.update(provider.documents)
    matter = {path for path, resource in provider.resources.items() if resource.protocol is MARKDOWN}
    catalog = [provider.catalog.path] if provider.catalog is not None else []
    graphs = [graph.path for graph in provider.graphs.values()]
    documents = {provider.manifest_path, *catalog, *graphs, *provider.actions, *(set(provider.resources) - matter)}
    return Parsed(
        {path: sources.document(path).value for path in sorted(documents)},
        {path: sources.front_matter(path).value for path in sorted(matter)},
    )


def _known(path: str, value: Json) -> Document:
    return Document(path=path, value=value, finite=True, _places=dict)


class Sources:
    """A tree that is being loaded: what was read of it, and the faults found so far, in order.

    With `parsed`, its content has passed every rule before: these are its values, and nothing is judged.
    """

    def __init__(self, tree: Tree, parsed: Parsed | None = None) -> None:
        self.tree = tree
        self.judge = parsed is None
        self._parsed = parsed
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
        data = self.read(path)
        if self._parsed is not None:
            return _known(path, self._parsed.documents[path])
        document = parse(data, path)
        if schema is not None:
            self.check(document, schema)
        return document

    def front_matter(self, path: str) -> Document:
        """The front matter of a Markdown file of any size."""
        head = self.head(path)
        return front_matter(head, path) if self._parsed is None else _known(path, self._parsed.front_matter[path])

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
