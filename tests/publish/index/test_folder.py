"""What an index takes, what it refuses, and what its pages say then."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from bundler.errors import BundlerError
from bundler.publish.index import FolderIndex, folder_of
from bundler.publish.index.layout import MAX_DOCUMENT

from ...builders import snapshot
from ...installs import as_another_user
from .releases import anchors, beside, code_of, make_index, sha256_of, visible, wheel


@pytest.fixture
def index(tmp_path: Path) -> FolderIndex:
    """An index with a wheel of `demo` 1.0, an sdist and what accompanies the wheel."""
    made = wheel(tmp_path, "demo", "1.0", requires=">=3.8,<5")
    sdist = tmp_path / "demo-1.0.tar.gz"
    sdist.write_text("sdist")
    return make_index(tmp_path / "index", made, sdist, beside(made, "provenance"))


def page(index: FolderIndex, project: str = "demo") -> dict[str, object]:
    value: dict[str, object] = json.loads((Path(index.root) / "simple" / project / "index.json").read_bytes())
    return value


def test_the_json_pages(index: FolderIndex, tmp_path: Path) -> None:
    name = "demo-1.0-py3-none-any.whl"
    metadata = b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\nRequires-Python: >=3.8,<5\n"
    assert page(index) == {
        "meta": {"api-version": "1.1"},
        "name": "demo",
        "versions": ["1.0"],
        "files": [
            {
                "filename": name,
                "url": f"../../files/demo/{name}",
                "hashes": {"sha256": sha256_of(tmp_path / name)},
                "size": (tmp_path / name).stat().st_size,
                "requires-python": ">=3.8,<5",
                "core-metadata": {"sha256": sha256(metadata).hexdigest()},
                "_metadata-size": len(metadata),
                "_accompanying": [
                    {"suffix": "provenance", "hashes": {"sha256": sha256(b"{}").hexdigest()}, "size": 2},
                ],
            },
            {
                "filename": "demo-1.0.tar.gz",
                "url": "../../files/demo/demo-1.0.tar.gz",
                "hashes": {"sha256": sha256(b"sdist").hexdigest()},
                "size": 5,
            },
        ],
    }
    root = json.loads((Path(index.root) / "simple" / "index.json").read_bytes())
    assert root == {"meta": {"api-version": "1.1"}, "projects": [{"name": "demo"}]}


def test_the_html_pages_say_the_same(index: FolderIndex) -> None:
    index.yank("Demo", "1", reason='no "good" <&>', who="me")
    found = anchors((Path(index.root) / "simple/demo/index.html").read_bytes())
    for file, (href, attributes) in zip(page(index)["files"], found, strict=True):  # type: ignore[call-overload]
        assert href == f"{file['url']}#sha256={file['hashes']['sha256']}"
        assert attributes.get("data-requires-python") == file.get("requires-python")
        assert attributes["data-yanked"] == file["yanked"] == 'no "good" <&>'
        core = file.get("core-metadata")
        expected = None if core is None else f"sha256={core['sha256']}"
        assert attributes.get("data-core-metadata") == attributes.get("data-dist-info-metadata") == expected
    text = (Path(index.root) / "simple/demo/index.html").read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert '<meta name="pypi:repository-version" content="1.1">' in text
    assert "<&>" not in text


def test_pages_depend_on_content_only(index: FolderIndex, tmp_path: Path) -> None:
    """Another order, other times, names and writers, and what was taken back in between."""
    files = sorted(tmp_path.glob("demo-1.0*"))
    later = [wheel(tmp_path, "demo", version) for version in ("1.10", "1.9", "1.9rc1")]
    index.add(later, who="me")
    other = make_index(tmp_path / "other", later[2], *files)
    other.yank("demo", "1.0", reason="r", who="you")
    other.add([later[0]], who="you")
    other.unyank("demo", "1.0", who="you")
    other.add([later[1]], who="you")
    assert visible(index) == visible(other)
    assert page(index)["versions"] == ["1.0", "1.9rc1", "1.9", "1.10"]
    assert index.head() != other.head()


def test_names_are_normalized_and_versions_compared_as_such(tmp_path: Path) -> None:
    index = make_index(tmp_path / "index", wheel(tmp_path, "My_Demo.x", "1.0+local.1"))
    assert index.projects() == ["my-demo-x"]
    (file,) = index.project("My.Demo_X")
    assert (file.version, file.name) == ("1.0+local.1", "My_Demo.x-1.0+local.1-py3-none-any.whl")
    assert "%2Blocal" in file.url
    assert visible(index)
    assert index.yank("my_demo.x", "1.0.0+LOCAL.1", reason="r", who="me").changed
    assert index.verify() == []


def test_what_is_there_is_passed_over(index: FolderIndex, tmp_path: Path) -> None:
    before = snapshot(Path(index.root))
    files = sorted(tmp_path.glob("demo-1.0*"))
    index.put_document("a.json", b"x", who="me")
    result = index.add(files, who="me", documents={"a.json": b"x"})
    assert result.changed == ()
    assert sorted(result.passed) == sorted([*(each.name for each in files), "a.json"])
    assert result.head == index.head()
    assert result.head.number == 2
    assert index.unyank("demo", "1.0", who="me").changed == ()
    for path, (_, content) in before.items():
        if path.startswith(("simple", "files")):
            assert snapshot(Path(index.root))[path][1] == content


def test_a_conflict_changes_nothing_at_all(index: FolderIndex, tmp_path: Path) -> None:
    before = visible(index)
    new = wheel(tmp_path, "demo", "2.0")
    other = wheel(tmp_path / "o", "demo", "1.0", requires=">=3.8,<5", text="other")
    sdist = tmp_path / "o" / "demo-1.0.tar.gz"
    sdist.write_text("other")
    envelope = tmp_path / "o" / "demo-1.0-py3-none-any.whl.provenance"
    envelope.write_text("other")
    twice = wheel(tmp_path / "o", "demo", "2.0", text="other")
    for each in (other, sdist, envelope, twice):
        with pytest.raises(BundlerError, match="is in the index with other content") as caught:
            index.add([new, each], who="me", documents={"a.json": b"x"})
        assert caught.value.code == "release-conflict"
    assert visible(index) == before
    assert index.head().number == 1
    assert index.verify() == []


def test_the_head_is_compared(index: FolderIndex, tmp_path: Path) -> None:
    head = index.head()
    result = index.add([wheel(tmp_path, "demo", "2.0")], who="me", expect_head=head.digest)
    assert result.head == index.head()
    before = visible(index)
    for work in (
        lambda: index.add([wheel(tmp_path, "demo", "3.0")], who="me", expect_head=head.digest),
        lambda: index.yank("demo", "1.0", reason="r", who="me", expect_head=head.digest),
        lambda: index.unyank("demo", "1.0", who="me", expect_head=head.digest),
        lambda: index.put_document("a.json", b"", who="me", expect_head=head.digest),
    ):
        assert code_of(work) == "index-conflict"
    assert visible(index) == before
    assert index.head() == result.head


def test_a_version_is_yanked_as_a_whole(index: FolderIndex, tmp_path: Path) -> None:
    assert len(index.yank("demo", "1.0", reason="broken", who="me").changed) == 2
    other = wheel(tmp_path / "o", "demo", "1.0").rename(tmp_path / "demo-1.0-py2-none-any.whl")
    newer = wheel(tmp_path, "demo", "1.0.1")
    index.add([other, newer, beside(tmp_path / "demo-1.0.tar.gz", "provenance")], who="me")
    assert [(each.version, each.yanked) for each in index.project("demo")] == [("1.0", "broken")] * 3 + [
        ("1.0.1", None)
    ]
    index.unyank("demo", "1.0", who="me")
    assert {each.yanked for each in index.project("demo")} == {None}
    assert index.verify() == []
    assert code_of(lambda: index.yank("demo", "9", reason="r", who="me")) == "index-version-missing"
    assert code_of(lambda: index.yank("other", "1.0", reason="r", who="me")) == "index-version-missing"
    assert code_of(lambda: index.yank("demo", "no version", reason="r", who="me")) == "index-version-missing"


def test_documents(index: FolderIndex) -> None:
    name = "channels/acme-release.json"
    assert index.document(name) is None
    for data in (b"one", bytes(range(256)), b""):
        index.put_document(name, data, who="me")
        assert index.document(name) == data
        assert (Path(index.root) / "documents" / name).read_bytes() == data
    assert index.head().number == 4
    assert index.verify() == []
    for bad in (
        "",
        "a",
        "../a.json",
        "/a.json",
        "a.b/c.json",
        "a/./b.json",
        "A.json",
        "a.json/b",
        ".a.json",
        "a..json",
        "a.json\n",
    ):
        assert code_of(lambda bad=bad: index.put_document(bad, b"", who="me")) == "index-document-invalid"
        assert code_of(lambda bad=bad: index.document(bad)) == "index-document-invalid"
    large = b"x" * (MAX_DOCUMENT + 1)
    assert code_of(lambda: index.put_document(name, large, who="me")) == "index-limit-exceeded"
    index.put_document(name, large[1:], who="me")
    assert index.verify() == []


def test_the_journal_tells_who_did_what(index: FolderIndex) -> None:
    index.yank("demo", "1.0", reason="r", who="Jo Doe <jo@example.org>")
    first, second = ((Path(index.root) / f"journal/0000000{number}.json").read_bytes() for number in (1, 2))
    entry = json.loads(second)
    assert (entry["who"], entry["action"], entry["number"]) == ("Jo Doe <jo@example.org>", "yank", 2)
    assert entry["previous"] == f"sha256:{sha256(first).hexdigest()}"
    assert index.head().digest == f"sha256:{sha256(second).hexdigest()}"
    change = json.dumps(entry["change"], sort_keys=True, separators=(",", ":")) + "\n"
    assert entry["digest"] == f"sha256:{sha256(change.encode()).hexdigest()}"
    assert entry["when"].endswith("Z")


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("demo.zip", "has a name"),
        ("demo-2.0-py3-none-any.whl.metadata", "has a name"),
        ("demo-2.0-py3-none-any.whl.", "has a name"),
        ("dé-2.0.tar.gz", "has a name"),
        ("-2.0.tar.gz", "has a name"),
        (f"{'d' * 240}-2.0.tar.gz", "has a name"),
        ("demo-2.0.whl", "has no proper name"),
        ("demo-x.tar.gz", "has no proper name"),
        ("demo-2.0.tar.gz.provenance", "belongs to demo-2.0.tar.gz"),
        ("other-1.0-py3-none-any.whl", "is by its METADATA of demo 1.0; other 1.0 is expected"),
        ("demo-1.1-py3-none-any.whl", "is by its METADATA of demo 1.0; demo 1.1 is expected"),
    ],
)
def test_names_that_are_refused(index: FolderIndex, tmp_path: Path, name: str, what: str) -> None:
    before = visible(index)
    shutil.copy(tmp_path / "demo-1.0-py3-none-any.whl", tmp_path / name)
    with pytest.raises(BundlerError, match=what) as caught:
        index.add([tmp_path / name], who="me")
    assert caught.value.code == "index-file-refused"
    assert visible(index) == before
    assert index.verify() == []


def test_wheels_that_are_refused(index: FolderIndex, tmp_path: Path) -> None:
    before = visible(index)
    bad = tmp_path / "bad-1.0-py3-none-any.whl"
    for data, code in ((b"", "archive-invalid"), (b"PK" + bytes(100), "archive-invalid")):
        bad.write_bytes(data)
        with pytest.raises(BundlerError) as caught:
            index.add([bad], who="me")
        assert caught.value.code == code
        assert "staging" not in caught.value.message
        assert bad.name in caught.value.message
    wheel(tmp_path, "bad", "1.0", requires="3.x or so")
    assert code_of(lambda: index.add([bad], who="me")) == "wheel-metadata-invalid"
    wheel(tmp_path, "bad", "1.0")
    assert code_of(lambda: index.add([bad], who="me", digests={bad.name: "0" * 64})) == "index-file-refused"
    assert visible(index) == before
    assert index.add([bad], who="me", digests={bad.name: sha256_of(bad)}).changed == (bad.name,)


def test_sources_that_are_no_files(index: FolderIndex, tmp_path: Path) -> None:
    place = tmp_path / "demo-2.0.tar.gz"
    assert code_of(lambda: index.add([place], who="me")) == "file-missing"
    os.mkfifo(place)
    assert code_of(lambda: index.add([place], who="me")) == "file-missing"
    place.unlink()
    place.mkdir()
    assert code_of(lambda: index.add([place], who="me")) == "file-missing"
    place.rmdir()
    place.symlink_to(tmp_path / "demo-1.0.tar.gz")  # the user's own affair
    assert index.add([place], who="me").changed == (place.name,)


def test_texts_that_are_refused(index: FolderIndex) -> None:
    for who in ("", " ", "a\nb", "x" * 501, "\ud800"):
        assert code_of(lambda who=who: index.put_document("a.json", b"", who=who)) == "option-invalid"
    for reason in ("", "\x1b[0m", "x" * 501):
        assert code_of(lambda reason=reason: index.yank("demo", "1.0", reason=reason, who="me")) == "option-invalid"


@pytest.mark.parametrize("path", ["simple/demo/index.json", "simple/demo/index.html", "head", "documents/a.json"])
@pytest.mark.parametrize("kind", ["FIFO", "link", "folder", "garbage"])
def test_something_else_in_the_place_of_a_page(index: FolderIndex, tmp_path: Path, path: str, kind: str) -> None:
    """Nothing is lost: it is refused, or replaced where nobody reads it, and `rebuild` mends all but folders."""
    place = Path(index.root) / path
    index.put_document("a.json", b"x", who="me")
    expected = visible(index)
    place.unlink()
    make: dict[str, Callable[[], object]] = {
        "FIFO": lambda: os.mkfifo(place),
        "link": lambda: place.symlink_to(tmp_path / "demo-1.0.tar.gz"),
        "folder": place.mkdir,
        "garbage": lambda: place.write_bytes(b"\xff{" * 1000),
    }
    make[kind]()
    head = code_of(index.head) or index.head().number
    code = code_of(lambda: index.add([wheel(tmp_path, "demo", "2.0")], who="me", documents={"a.json": b"y"}))
    is_replaced = kind != "folder" and (path.endswith("html") or (path.startswith("documents") and kind == "garbage"))
    assert code == ("" if is_replaced else "index-invalid")
    if is_replaced:
        assert index.verify() == []
        return
    assert (code_of(index.head) or index.head().number) == head
    assert any(each.severity == "error" for each in index.verify())
    if kind == "folder":
        place.rmdir()
    assert path in index.rebuild()
    assert visible(index) == expected
    assert index.verify() == []


@pytest.mark.parametrize(
    ("path", "mode", "code"),
    [
        (".", 0o555, "output-write-failed"),
        ("files/demo", 0o555, "output-write-failed"),
        ("journal", 0o555, "output-write-failed"),
        ("simple/demo", 0o555, "output-write-failed"),
        ("staging", 0o555, "output-write-failed"),
        ("lock", 0o444, "output-write-failed"),
        ("simple/demo/index.json", 0, "file-read-failed"),
        ("head", 0, "file-read-failed"),
        ("lease", 0, "file-read-failed"),
    ],
)
def test_what_may_not_be_read_or_written(index: FolderIndex, tmp_path: Path, path: str, mode: int, code: str) -> None:
    new = wheel(tmp_path, "demo", "2.0")
    before = visible(index)
    modes = {each: each.stat().st_mode for each in [Path(index.root), *Path(index.root).rglob("*")]}
    for each in modes:
        each.chmod(0o777 if each.is_dir() else 0o666)
    (Path(index.root) / path).chmod(mode)
    try:
        assert as_another_user(lambda: code_of(lambda: index.add([new], who="me"))) == code
    finally:
        for each, was in modes.items():
            each.chmod(was)
    assert visible(index) == before
    assert index.verify() == []


def test_init(tmp_path: Path) -> None:
    index = FolderIndex.init(f"file://{tmp_path}/a%20b")
    assert index.root == str(tmp_path / "a b")
    assert (index.projects(), index.project("demo"), index.head().number, index.verify()) == ([], [], 0, [])
    assert code_of(lambda: FolderIndex.init(index.root)) == "index-exists"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("x")
    before = snapshot(tmp_path / "mine")
    assert code_of(lambda: FolderIndex.init(tmp_path / "mine")) == "index-exists"
    assert snapshot(tmp_path / "mine") == before
    assert code_of(lambda: FolderIndex.init(tmp_path / "mine" / "file")) == "output-write-failed"
    assert code_of(lambda: FolderIndex(tmp_path / "mine")) == "index-missing"
    index.put_document("a.json", b"", who="me")
    (Path(index.root) / "head").unlink()
    assert code_of(lambda: FolderIndex.init(index.root)) == "index-exists"


@pytest.mark.parametrize("reference", ["", "https://example.org/x", "file://host/x", "file:///x?y", "a\0b"])
def test_what_names_no_folder(reference: str) -> None:
    assert code_of(lambda: folder_of(reference)) == "index-missing"


def test_a_copy_by_a_storage_without_empty_folders(tmp_path: Path) -> None:
    index = make_index(tmp_path / "index", wheel(tmp_path))
    copy = tmp_path / "copy"
    for path, (_, content) in snapshot(Path(index.root)).items():
        if (Path(index.root) / path).is_file() and path not in ("lock", "lease"):
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            (copy / path).write_bytes(content)  # type: ignore[arg-type]
    assert FolderIndex(copy).verify() == []
    assert FolderIndex(copy).add([wheel(tmp_path, "demo", "2.0")], who="me").head.token == 2
    assert FolderIndex(copy).verify() == []


def test_what_a_change_reads_does_not_grow_with_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = make_index(tmp_path / "index", *(wheel(tmp_path, name) for name in ("demo", "other", "third")))
    for number in range(5):
        index.put_document("a.json", b"%d" % number, who="me")
    there = {str(each.relative_to(index.root)) for each in Path(index.root).rglob("*") if each.is_file()}
    opened: list[str] = []
    plain = os.open

    def noted(path: str, *rest: object, **options: object) -> int:
        opened.append(os.path.relpath(path, index.root))
        return plain(path, *rest, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", noted)
        index.add([wheel(tmp_path, "demo", "2.0")], who="me")
    assert there & set(opened) == {"head", "lease", "lock", "simple/demo/index.json"}
