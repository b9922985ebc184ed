"""Files → lists of digests that `sha256sum --check` and `b3sum --check` read, and one fingerprint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..protocol.canonical import ALGORITHMS
from ..tree import Tree


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestedFile:
    """A file of a tree: its digest in hexadecimal, its size in bytes."""

    path: str
    hex: str
    size: int
    executable: bool

    @property
    def line(self) -> str:
        """Its line in a list, without the line end."""
        return list_line(self.path, self.hex)


def list_line(path: str, digest: str) -> str:
    """A line of a list; a name with a backslash or line end is escaped as GNU's tools do."""
    if "\\" in path or "\n" in path or "\r" in path:
        name = path.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        return f"\\{digest}  {name}"
    return f"{digest}  {path}"


def digest_file(tree: Tree, path: str, algorithm: str) -> DigestedFile:
    """The digest of a file of any size, read once. Raises what reading raises."""
    hasher = ALGORITHMS[algorithm]()
    size = 0
    with tree.open(path) as reader:
        for chunk in reader.chunks():
            hasher.update(chunk)
            size += len(chunk)
        return DigestedFile(path=path, hex=hasher.hexdigest(), size=size, executable=reader.executable)


def digest_files(tree: Tree, paths: Iterable[str], algorithm: str) -> Iterator[DigestedFile]:
    """The digest of each path, in order. Raises what reading raises."""
    return (digest_file(tree, path, algorithm) for path in paths)


def list_text(files: Iterable[DigestedFile]) -> str:
    """The whole list, a line a file."""
    return "".join(f"{file.line}\n" for file in files)


def fingerprint(files: Iterable[DigestedFile], algorithm: str) -> str:
    """One digest for all: that of the list's own bytes, so `sha256sum` on a saved list gives the same."""
    hasher = ALGORITHMS[algorithm]()
    hasher.update(list_text(files).encode("utf-8", "surrogateescape"))
    return hasher.hexdigest()


def digest_of_file(tree: Tree, path: str) -> str:
    """The protocol's digest of a file of any size. Raises what reading raises."""
    return f"sha256:{digest_file(tree, path, 'sha256').hex}"
