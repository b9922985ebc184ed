"""An index in which one thing is changed: what is found, and whether `rebuild` and `gc` mend it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from bundler.publish.index import FolderIndex
from bundler.publish.index.change import writing
from bundler.publish.index.journal import Change

from .releases import beside, code_of, ended, in_child, make_index, visible, wheel

WHEEL = "files/demo/demo-1.0-py3-none-any.whl"
ENTRY = "journal/00000002.json"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    made = wheel(folder)
    index = make_index(folder / "index", made, beside(made, "provenance"))
    index.add([wheel(folder, "other")], who="me")
    index.put_document("channels/stable.json", b"one", who="me")
    return folder / "index"


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "index"))


def found(root: Path) -> list[tuple[str, str, str | None]]:
    return [(each.code, each.severity, each.path) for each in FolderIndex(root).verify()]


def edit(path: str, change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda root: (root / path).write_bytes(change((root / path).read_bytes()))


def linked(path: str) -> Callable[[Path], object]:
    def work(root: Path) -> None:
        (root / path).unlink()
        (root / path).symlink_to(root / "head")

    return work


def remove(path: str) -> Callable[[Path], object]:
    return lambda root: (root / path).unlink()


def add(path: str, text: str = "x") -> Callable[[Path], object]:
    def work(root: Path) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)

    return work


PAGES = ["simple/index.html", "simple/index.json", "simple/demo/index.html", "simple/other/index.json"]


@pytest.mark.parametrize("path", [*PAGES, "documents/channels/stable.json"])
@pytest.mark.parametrize("change", ["edited", "removed", "spaced"])
def test_pages_and_documents(root: Path, template: Path, path: str, change: str) -> None:
    work = {
        "edited": edit(path, lambda data: data.replace(b"e", b"E")),
        "removed": remove(path),
        "spaced": edit(path, lambda data: data + b"\n"),
    }
    work[change](root)
    assert found(root) == [("index-page-mismatch", "error", path)]
    assert FolderIndex(root).rebuild() == [path]
    assert visible(FolderIndex(root)) == visible(FolderIndex(template))
    assert found(root) == []


def test_a_page_that_agrees_with_itself_only(root: Path) -> None:
    """JSON and HTML say the same, and the journal says otherwise."""
    for kind in ("html", "json"):
        edit(
            f"simple/demo/index.{kind}", lambda data: data.replace(b"&gt;=3.8", b"&gt;=3.9").replace(b">=3.8", b">=3.9")
        )(root)
    assert {code for code, _, _ in found(root)} == {"index-page-mismatch"}


@pytest.mark.parametrize(
    ("path", "severity"),
    [
        ("simple/evil/index.html", "error"),
        ("simple/demo/other.html", "error"),
        ("documents/x", "error"),
        ("files/demo/demo-9.0.tar.gz", "warning"),
        ("files/demo/demo-9.0.tar.gz.provenance", "warning"),
        ("files/evil/evil-1.0-py3-none-any.whl.metadata", "warning"),
        ("files/README", "warning"),
        ("files/demo/README", "warning"),
    ],
)
def test_strays(root: Path, path: str, severity: str) -> None:
    add(path)(root)
    assert found(root) == [("index-stray", severity, path)]
    index = FolderIndex(root)
    if severity == "error":
        assert index.gc() == []
        assert index.rebuild() == [path]
        assert found(root) == []
        assert (root / path).parent.exists() == path.startswith(("simple/demo", "documents"))
    else:
        assert index.rebuild() == []
        assert index.gc() == ([] if path.endswith("README") else [path])
        assert (root / path).exists() == path.endswith("README")


def test_gc_leaves_what_no_writer_put_there(root: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    (root / "files/demo/demo-9.0.tar.gz").symlink_to(tmp_path / "mine")
    os.mkfifo(root / "files/demo/demo-9.1.tar.gz")
    add("files/demo/deep/demo-9.2.tar.gz")(root)
    assert FolderIndex(root).gc() == []
    assert len(found(root)) == 3
    # Nor anything that the journal named once, whatever pages say.
    before = visible(FolderIndex(root))
    remove("simple/other/index.html")(root)
    assert FolderIndex(root).gc() == []
    assert FolderIndex(root).rebuild() == ["simple/other/index.html"]
    assert visible(FolderIndex(root)) == before


@pytest.mark.parametrize("path", [WHEEL, f"{WHEEL}.metadata", f"{WHEEL}.provenance"])
def test_files(root: Path, path: str) -> None:
    data = (root / path).read_bytes()
    for work in (
        edit(path, lambda data: bytes([data[0] ^ 1]) + data[1:]),
        edit(path, lambda data: b""),
        remove(path),
        linked(path),
    ):
        work(root)
        code = "index-invalid" if (root / path).is_symlink() else "index-file-mismatch"
        assert found(root) == [(code, "error", path)]
        page = (root / "simple/index.html").read_bytes()
        (root / "simple/index.html").write_text("changed")
        assert code_of(FolderIndex(root).rebuild) == code
        assert (root / "simple/index.html").read_text() == "changed"
        (root / "simple/index.html").write_bytes(page)
        (root / path).unlink(missing_ok=True)
        (root / path).write_bytes(data)
    (root / "simple/index.html").unlink()
    FolderIndex(root).rebuild()
    assert found(root) == []


def test_every_fault_is_told(root: Path) -> None:
    for path in (WHEEL, f"{WHEEL}.provenance", "files/other/other-1.0-py3-none-any.whl.metadata", *PAGES):
        remove(path)(root)
    assert {path for _, _, path in found(root)} >= {WHEEL, *PAGES}


def sealed(entry: dict[str, object]) -> bytes:
    """The entry as who forges it would write it."""
    text = json.dumps(entry["change"], sort_keys=True, separators=(",", ":")) + "\n"
    entry["digest"] = f"sha256:{sha256(text.encode()).hexdigest()}"
    return json.dumps(entry, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def changed(**members: object) -> Callable[[bytes], bytes]:
    return lambda data: sealed({**json.loads(data), **members})


@pytest.mark.parametrize(
    ("work", "path"),
    [
        (edit(ENTRY, lambda data: data[:-1]), ENTRY),
        (edit(ENTRY, lambda data: data[:100]), ENTRY),
        (edit(ENTRY, lambda data: data.replace(b'"who":"me"', b'"who":"he"')), "journal/00000003.json"),
        (edit(ENTRY, lambda data: data.replace(b'"size":', b'"size":1')), ENTRY),
        (edit(ENTRY, changed(number=3)), ENTRY),
        (edit(ENTRY, changed(number="2")), ENTRY),
        (edit(ENTRY, changed(previous="sha256:0")), ENTRY),
        (edit(ENTRY, changed(token=0)), ENTRY),
        (edit(ENTRY, changed(token=True)), ENTRY),
        (edit(ENTRY, changed(change={"files": [], "documents": {"../x.json": ""}})), ENTRY),
        (edit(ENTRY, changed(change={"files": [{"filename": "../x.whl"}], "documents": {}})), ENTRY),
        (edit(ENTRY, lambda data: b"[" * 100_000), ENTRY),
        (edit(ENTRY, lambda data: b"1" * 10_000), ENTRY),
        (remove(ENTRY), "journal/00000003.json"),
        (remove("journal/00000003.json"), "head"),
        (add("journal/00000009.json"), "journal/00000009.json"),
        (add("journal/notes.txt"), "journal/notes.txt"),
        (edit("head", lambda data: data.replace(b'"number":3', b'"number":2')), "head"),
        (edit("head", lambda data: data.replace(b'"number":3', b'"number":-1')), "head"),
        (edit("head", lambda data: data.replace(b'"number":3', b'"number":true')), "head"),
        (edit("head", lambda data: data.replace(b"sha256:", b"sha256:0")), "head"),
        (edit("head", lambda data: data[:-1]), "head"),
        (remove("head"), "head"),
        (lambda root: os.mkfifo(root / "journal/00000004.json"), "journal/00000004.json"),
    ],
)
def test_the_journal(root: Path, work: Callable[[Path], object], path: str) -> None:
    work(root)
    assert found(root) == [("index-invalid", "error", path)]
    before = visible_bytes(root)
    index = FolderIndex(root, patience=0.1)
    if path == "head" and code_of(index.head):  # it says nothing, and the journal says all
        assert index.rebuild() == ["head"]
        assert found(root) == []
    else:
        assert code_of(index.rebuild) == "index-invalid"
        assert code_of(index.gc) == "index-invalid"
    assert visible_bytes(root) == before


def visible_bytes(root: Path) -> dict[Path, bytes]:
    return {each: each.read_bytes() for folder in ("simple", "files") for each in root.glob(f"{folder}/**/*.*")}


def test_a_change_that_was_begun(root: Path, tmp_path: Path) -> None:
    """Its entry is there, and some of its pages: a warning, and the next writer completes it."""
    index = FolderIndex(root)
    head = (root / "head").read_bytes()
    html = (root / "simple/demo/index.html").read_bytes()
    index.add([wheel(tmp_path, "demo", "2.0"), wheel(tmp_path, "fourth")], who="me")
    complete = visible(index)
    (root / "head").write_bytes(head)
    (root / "simple/demo/index.html").write_bytes(html)
    shutil.rmtree(root / "simple/fourth")
    assert found(root)[0] == ("index-unfinished", "warning", "journal/00000004.json")
    assert index.gc() == []
    assert found(root) == []
    assert visible(index) == complete


def test_an_index_is_verified_while_it_is_changed(root: Path, tmp_path: Path) -> None:
    def publish() -> None:
        for number in range(20):
            FolderIndex(root).add(
                [wheel(tmp_path / "w", f"p{number}"), wheel(tmp_path / "w", "demo", f"2.{number}")], who="me"
            )

    child = in_child(publish)
    try:
        while len(FolderIndex(root).projects()) < 15:
            assert found(root) == []
    finally:
        assert ended(*child) == "done"
    assert found(root) == []


def test_where_the_lock_can_not_be_made(root: Path) -> None:
    (root / "lock").unlink()
    assert found(root) == []
    assert not (root / "lock").exists()


def test_a_wheel_of_which_pages_and_journal_say_something_else(root: Path) -> None:
    """They agree with each other: the wheel is read again."""
    (file,) = FolderIndex(root).project("demo")
    with writing(str(root), "me", 1.0) as writer:
        writer.commit("add", "me", Change(files=(replace(file, requires_python=">=4"),)), [])
    assert found(root) == [("index-file-mismatch", "error", WHEEL)]
