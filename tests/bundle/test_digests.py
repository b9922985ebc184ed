"""Lists of digests that `sha256sum --check` reads, and the fingerprint of a list."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest
from blake3 import blake3

from bundler.bundle.digests import DigestedFile, digest_files, fingerprint, list_text
from bundler.errors import BundlerError
from bundler.tree import DirectoryTree, MemoryTree

NAMES = [
    "plain.md",
    "with blank.md",
    " leading",
    "trailing ",
    "*star",
    "#hash",
    "back\\slash",
    "\\",
    "\\\\",
    "ends in\\",
    "\\n",
    "line\nend",
    "\nboth\\\n",
    "ä🚀.md",
    "folder/plain.md",
    "fol\\der/x\ny",
    "quote'\"",
]


def digested(files: dict[str, bytes], algorithm: str = "sha256") -> list[DigestedFile]:
    """The digests of files in memory, in the order given."""
    return list(digest_files(MemoryTree(files), files, algorithm))


def write(root: Path) -> None:
    """A file for each name, its content the name."""
    for name in NAMES:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(name.encode())


def sha256sum(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """The real command, in a folder."""
    return subprocess.run(
        ["sha256sum", *arguments], cwd=folder, capture_output=True, check=False, env={**os.environ, "LC_ALL": "C.UTF-8"}
    )


def test_sha256sum_accepts_a_list(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root)
    with DirectoryTree(root) as tree:
        files = list(digest_files(tree, NAMES, "sha256"))
    (tmp_path / "list").write_bytes(list_text(files).encode())
    result = sha256sum(root, "--check", "--strict", str(tmp_path / "list"))
    assert result.returncode == 0, result.stderr
    assert result.stdout.count(b": OK\n") == len(NAMES)
    (root / "\\").write_bytes(b"other")
    assert sha256sum(root, "--check", "--strict", str(tmp_path / "list")).returncode == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_line_is_the_one_that_sha256sum_writes(tmp_path: Path, name: str) -> None:
    write(tmp_path)
    (file,) = digested({name: name.encode()})
    assert list_text([file]).encode() == sha256sum(tmp_path, "--", name).stdout


def test_sha256sum_accepts_a_list_with_names_that_are_no_utf8(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    name = os.fsdecode(b"caf\xe9")
    (root / name).write_bytes(b"x")
    with DirectoryTree(root) as tree:
        files = list(digest_files(tree, [name], "sha256"))
    listed = list_text(files).encode("utf-8", "surrogateescape")
    (tmp_path / "list").write_bytes(listed)
    assert sha256sum(root, "--check", "--strict", str(tmp_path / "list")).returncode == 0
    assert fingerprint(files, "sha256") == hashlib.sha256(listed).hexdigest()


def test_a_file_has_its_digest_and_size() -> None:
    content = b"x" * 3_000_000
    empty, large = digested({"empty": b"", "large": content})
    assert (empty.path, empty.hex, empty.size) == ("empty", hashlib.sha256(b"").hexdigest(), 0)
    assert (large.path, large.hex, large.size) == ("large", hashlib.sha256(content).hexdigest(), 3_000_000)


def test_blake3_digests_are_those_of_blake3() -> None:
    files = {"a": b"", "b\\": b"abc", "c": b"x" * 3_000_000}
    result = digested(files, "blake3")
    assert [file.hex for file in result] == [blake3(content).hexdigest() for content in files.values()]
    assert list_text(result) == (
        f"{blake3(b'').hexdigest()}  a\n\\{blake3(b'abc').hexdigest()}  b\\\\\n{blake3(files['c']).hexdigest()}  c\n"
    )
    assert fingerprint(result, "blake3") == blake3(list_text(result).encode()).hexdigest()


def test_the_fingerprint_is_the_digest_of_the_list(tmp_path: Path) -> None:
    files = digested({name: name.encode() for name in NAMES})
    (tmp_path / "list").write_bytes(list_text(files).encode())
    written = sha256sum(tmp_path, "list").stdout.decode()
    assert written == f"{fingerprint(files, 'sha256')}  list\n"


def test_the_fingerprint_of_nothing_is_that_of_an_empty_list() -> None:
    assert list_text([]) == ""
    assert fingerprint([], "sha256") == hashlib.sha256(b"").hexdigest()
    assert fingerprint([], "blake3") == blake3(b"").hexdigest()


def test_the_fingerprint_tells_names_contents_and_order_apart() -> None:
    lists = [
        digested({"a": b"x", "b": b"y"}),
        digested({"a": b"y", "b": b"x"}),
        digested({"b": b"y", "a": b"x"}),
        digested({"a": b"x", "c": b"y"}),
        digested({"a": b"x"}),
    ]
    assert len({fingerprint(files, "sha256") for files in lists}) == len(lists)


def test_files_are_digested_in_the_order_asked_for() -> None:
    tree = MemoryTree({"a": b"1", "b": b"2", "c": b"3"})
    assert [file.path for file in digest_files(tree, ["c", "a", "b"], "sha256")] == ["c", "a", "b"]


def test_the_executable_bit_is_told_and_changes_no_digest() -> None:
    plain, executable = digest_files(MemoryTree({"a": b"x", "b": b"x"}, executable=["b"]), ["a", "b"], "sha256")
    assert (plain.executable, executable.executable) == (False, True)
    assert plain.hex == executable.hex


def test_a_file_that_is_missing_is_an_error() -> None:
    with pytest.raises(BundlerError) as caught:
        list(digest_files(MemoryTree({"a": b""}), ["a", "b"], "sha256"))
    assert caught.value.code == "file-missing"


def test_a_carriage_return_in_a_name_is_escaped() -> None:
    assert DigestedFile(path="a\rb", hex="00", size=0, executable=False).line == "\\00  a\\rb"
