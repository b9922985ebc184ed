"""Trees: confinement, links, kinds of entries; the same by descriptors and by names."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from bundler.errors import BundlerError
from bundler.tree import CHUNK, DirectoryTree, Entry, MemoryTree, Tree, directory, folders_of, strangers

LIMIT = 1 << 20


@pytest.fixture(params=["descriptors", "names"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of opening: the second is that of systems without descriptors of folders."""
    if request.param == "names":
        monkeypatch.setattr(directory, "has_descriptors", False)
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path, way: str) -> Path:
    base = tmp_path.resolve() / "root"
    (base / "a" / "b").mkdir(parents=True)
    (base / "a" / "b" / "file").write_bytes(b"content")
    (base.parent / "secret").write_bytes(b"secret")
    return base


def read(root: Path, path: str) -> bytes:
    with DirectoryTree(root) as tree:
        return tree.read(path, LIMIT)


def error_of(root: Path, path: str) -> BundlerError:
    with pytest.raises(BundlerError) as raised:
        read(root, path)
    return raised.value


@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        ("a/b/link", "file", "a/b/link"),
        ("a/up", "../a/b/file", "a/up"),
        ("folder", "a", "folder/b/file"),
        ("folder", "a/./b/", "folder/file"),
        ("again", "../root/a/b/file", "again"),
        ("a/self", ".", "a/self/self/b/file"),
    ],
)
def test_links_inside_the_root_are_followed(root: Path, link: str, target: str, path: str) -> None:
    (root / link).symlink_to(target)
    assert read(root, path) == b"content"


def test_an_absolute_link_may_point_inside_the_root(root: Path) -> None:
    (root / "absolute").symlink_to(root / "a")
    assert read(root, "absolute/b/file") == b"content"


def test_a_step_back_over_a_link_is_taken_as_the_system_takes_it(root: Path) -> None:
    (root / "deep").symlink_to("a/b")
    (root / "over").symlink_to("deep/../b/file")  # deep/.. is a, not the root
    assert read(root, "over") == b"content"


@pytest.mark.parametrize("target", ["../secret", "/etc/passwd", "a/../../secret", "../root2/x"])
def test_links_that_leave_the_root_are_refused(root: Path, target: str) -> None:
    (root / "link").symlink_to(target)
    error = error_of(root, "link")
    assert error.code == "path-symlink-outside-provider"
    assert "`link`" in error.message


def test_a_folder_link_that_leaves_the_root_is_refused(root: Path) -> None:
    (root / "etc").symlink_to("/etc")
    assert error_of(root, "etc/passwd").code == "path-symlink-outside-provider"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.mkdir(), "is a folder"),
        (os.mkfifo, "is a FIFO"),
        (lambda path: path.symlink_to("nothing"), "does not exist"),
        (lambda path: path.symlink_to("it"), "loops"),
        (lambda path: path.symlink_to("a/b"), "is a folder"),
        (lambda path: None, "does not exist"),
    ],
)
def test_what_is_no_regular_file_is_missing_and_named(root: Path, make: object, said: str) -> None:
    assert callable(make)
    make(root / "it")
    error = error_of(root, "it")
    assert error.code == "file-missing"
    assert said in error.message or ("loops" in said and "link" in error.message)


def test_a_socket_is_no_file(root: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(root)  # the path of a socket is short
        try:
            server.bind("it")
        finally:
            os.chdir(here)
        assert "socket" in error_of(root, "it").message


def test_a_file_in_a_folders_place(root: Path) -> None:
    error = error_of(root, "a/b/file/below")
    assert (error.code, "is a file" in error.message) == ("file-missing", True)


def test_a_name_that_no_file_system_takes(root: Path) -> None:
    assert error_of(root, "x" * 300).code == "file-missing"


def test_the_root_itself_is_no_file(root: Path) -> None:
    assert "is a folder" in error_of(root, "").message


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_a_root_that_is_no_folder(tmp_path: Path, way: str, kind: str) -> None:
    place = tmp_path / "it"
    if kind == "file":
        place.write_text("x")
    with pytest.raises(BundlerError) as raised:
        DirectoryTree(place)
    assert raised.value.code == "file-missing"


def test_a_swapped_link_changes_nothing(tmp_path: Path) -> None:
    """A folder that was opened stays the one that was opened."""
    root = tmp_path.resolve() / "root"
    (root / "folder").mkdir(parents=True)
    (root / "folder" / "one").write_bytes(b"1")
    (root / "folder" / "two").write_bytes(b"2")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "two").write_bytes(b"other")
    with DirectoryTree(root) as tree:
        assert tree.read("folder/one", LIMIT) == b"1"
        (root / "folder").rename(root / "moved")
        (root / "folder").symlink_to(outside)
        assert tree.read("folder/two", LIMIT) == b"2"
    with DirectoryTree(root) as tree, pytest.raises(BundlerError) as raised:
        tree.read("folder/two", LIMIT)
    assert raised.value.code == "path-symlink-outside-provider"


def names(tree: Tree, folder: str = "") -> list[str]:
    return [item if isinstance(item, str) else f"!{item.diagnostics[0].path}" for item in tree.files(folder)]


def test_files_follow_links_and_name_what_they_cannot_carry(root: Path) -> None:
    (root / "z").mkdir()
    (root / "linked").symlink_to("a")
    (root / "z" / "up").symlink_to("..")
    (root / "z" / "out").symlink_to("../../secret")
    (root / "z" / "gone").symlink_to("nowhere")
    os.mkfifo(root / "z" / "pipe")
    with DirectoryTree(root) as tree:
        assert names(tree, "z") == ["!z/gone", "!z/out", "!z/pipe", "z/up/a/b/file", "z/up/linked/b/file", "!z/up/z"]
        assert names(tree) == ["a/b/file", "linked/b/file", "!z/gone", "!z/out", "!z/pipe", "!z/up"]


def test_files_of_what_is_no_folder(root: Path) -> None:
    with DirectoryTree(root) as tree:
        assert names(tree, "a/b/file") == ["!a/b/file"]
        assert names(tree, "none") == ["!none"]


def test_files_pass_over_what_is_to_be_skipped(root: Path) -> None:
    os.mkfifo(root / "a" / "pipe")
    with DirectoryTree(root) as tree:
        assert list(tree.files("", lambda path: path in ("a/pipe", "a/b"))) == []


@pytest.mark.parametrize("target", ["nowhere/../a/b/file", "a/b/file/../file", "a/b/file/", "a/b/file/.", "a/b/none"])
def test_links_that_the_system_finds_dangling_are_missing(root: Path, target: str) -> None:
    (root / "z").mkdir()
    (root / "z" / "link").symlink_to("../" + target)
    assert error_of(root, "z/link").code == "file-missing"
    with DirectoryTree(root) as tree:
        assert names(tree, "z") == ["!z/link"]


def test_a_link_bomb_ends_soon(root: Path) -> None:
    (root / "d0").mkdir()
    for level in range(1, 9):
        (root / f"d{level}").mkdir()
        for copy in range(10):
            (root / f"d{level}" / str(copy)).symlink_to(f"../d{level - 1}")
    with DirectoryTree(root) as tree:
        last = list(tree.files("d8"))[-1]
    assert isinstance(last, BundlerError)
    assert last.code == "tree-limit-exceeded"


def test_folders_that_are_not_asked_for_are_not_looked_into(root: Path) -> None:
    (root / "closed").mkdir(0)
    with DirectoryTree(root) as tree:
        found = [entry.path for entry in tree.entries(lambda folder: folder == "a")]
        assert found == ["a", "closed", "a/b"]


def test_a_tree_knows_whether_its_root_was_replaced(root: Path) -> None:
    with DirectoryTree(root) as tree:
        assert not tree.replaced
        root.rename(root.parent / "moved")
        replaced = tree.replaced
        root.mkdir()
        assert (replaced, tree.replaced) in ((True, True), (False, False))  # by names every call looks again


def test_links_that_multiply_folders_end(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "MAX_EXPANDED", 2000)
    for level in range(30):
        folder = root / f"level{level}"
        folder.mkdir()
        for name in ("left", "right"):
            (folder / name).symlink_to(f"../level{level + 1}")
    (root / "level30").mkdir()
    with DirectoryTree(root) as tree:
        last = list(tree.files("level0"))[-1]
    assert isinstance(last, BundlerError)
    assert last.code == "tree-limit-exceeded"


def test_folders_too_deep_end(root: Path) -> None:
    here = os.getcwd()
    try:
        os.chdir(root)
        for _ in range(260):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(here)
    with DirectoryTree(root) as tree:
        assert any(isinstance(item, BundlerError) and item.code == "tree-limit-exceeded" for item in tree.files("d"))
        with pytest.raises(BundlerError) as raised:
            list(tree.entries())
        assert raised.value.code == "tree-limit-exceeded"


def test_entries_follow_nothing(root: Path) -> None:
    (root / "link").symlink_to("a")
    os.mkfifo(root / "pipe")
    (root / "empty").mkdir()
    with DirectoryTree(root) as tree:
        found = list(tree.entries())
    assert found == [
        Entry("a", "folder"),
        Entry("empty", "folder"),
        Entry("link", "link"),
        Entry("pipe", "FIFO"),
        Entry("a/b", "folder"),
        Entry("a/b/file", "file"),
    ]


def test_readers_give_every_byte_once(root: Path) -> None:
    for size in (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7):
        data = bytes(range(251)) * (size // 251 + 1)
        (root / "data").write_bytes(data[:size])
        with DirectoryTree(root) as tree, tree.open("data") as reader:
            chunks = list(reader.chunks())
        assert b"".join(chunks) == data[:size]
        assert max(map(len, chunks), default=0) <= CHUNK


def test_a_file_that_grows_or_shrinks_while_it_is_read(root: Path) -> None:
    file = root / "data"
    file.write_bytes(b"12345")
    with DirectoryTree(root) as tree:
        with tree.open("data") as reader:
            file.write_bytes(b"1234567890")
            assert b"".join(reader.chunks()) == b"1234567890"
        with tree.open("data") as reader:
            file.write_bytes(b"12")
            assert b"".join(reader.chunks()) == b"12"


def test_a_file_larger_than_the_limit_is_not_parsed(root: Path) -> None:
    with DirectoryTree(root) as tree:
        assert tree.read("a/b/file", 7) == b"content"
        with pytest.raises(BundlerError) as raised:
            tree.read("a/b/file", 6)
    assert raised.value.code == "parse-failed"


def test_executable_bits(root: Path) -> None:
    (root / "a" / "b" / "file").chmod(0o654)
    (root / "plain").write_bytes(b"")
    (root / "plain").chmod(0o644)
    with DirectoryTree(root) as tree, tree.open("a/b/file") as yes, tree.open("plain") as no:
        assert (yes.executable, no.executable) == (True, False)


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    fds = Path("/dev/fd")
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_text("x")
    before = len(list(fds.iterdir()))
    for _ in range(3):
        with DirectoryTree(tmp_path) as tree:
            tree.read("a/b/c", LIMIT)
            with pytest.raises(BundlerError):
                tree.read("a/b", LIMIT)
    DirectoryTree(tmp_path)  # given up without being closed
    assert len(list(fds.iterdir())) == before


@pytest.fixture
def memory() -> MemoryTree:
    return MemoryTree({"a/b": b"1", "a/c/d": b"2", "e": b"3"}, executable=["e"])


def test_memory_trees_answer_alike(memory: MemoryTree) -> None:
    assert memory.read("a/b", LIMIT) == b"1"
    assert list(memory.files("")) == ["e", "a/b", "a/c/d"]
    assert list(memory.files("a")) == ["a/b", "a/c/d"]
    assert list(memory.files("", lambda path: path == "a")) == ["e"]
    assert [entry.path for entry in memory.entries()] == ["a", "e", "a/b", "a/c", "a/c/d"]
    assert memory.open("e").executable
    for path in ("a", "x"):
        with pytest.raises(BundlerError) as raised:
            memory.open(path)
        assert raised.value.code == "file-missing"
    assert names(memory, "none") == ["!none"]
    assert memory.describe("") == "."


def test_strangers_stand_for_what_they_hold() -> None:
    entries = [
        Entry("a", "folder"),
        Entry("b", "folder"),
        Entry("c", "file"),
        Entry("a/x", "file"),
        Entry("b/y", "folder"),
        Entry("b/y/z", "file"),
    ]
    assert list(strangers(entries, lambda entry: entry.path in ("a", "c"))) == [
        Entry("b", "folder"),
        Entry("a/x", "file"),
    ]
    assert folders_of(["a/b/c", "a/d", "e"]) == {"a", "a/b"}
