"""Verifying: every changed byte is caught, every difference is told, and why where it can be told."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundler.bundle import verify
from bundler.bundle.manifest import digest_of
from bundler.bundle.plan import make_plan
from bundler.bundle.verify import VerifiedBundle, verify_bundle
from bundler.bundle.write import Destination, write_bundle
from bundler.errors import BundlerError
from bundler.protocol.documents import MAX_BYTES
from bundler.provider.load import load_provider
from bundler.tree import DirectoryTree, MemoryTree

from ..builders import GRAPH, build_from, load, memory, minimal, with_skill, write_out

TEMPLATE = Path(__file__).parents[2] / "templates" / "provider"


class Memory(Destination):
    """A bundle in memory."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def write(self, path: str, chunks: object, executable: bool) -> None:
        self.files[path] = b"".join(chunks)  # type: ignore[arg-type]


def bundle_of(tree: MemoryTree | DirectoryTree) -> dict[str, bytes]:
    destination = Memory()
    write_bundle(make_plan(tree, load_provider(tree)), destination)
    return destination.files


@pytest.fixture(scope="module")
def sample() -> dict[str, bytes]:
    with DirectoryTree(TEMPLATE) as tree:
        return bundle_of(tree)


def codes(files: dict[str, bytes]) -> list[str]:
    try:
        verify_bundle(MemoryTree(files))
    except BundlerError as error:
        return [diagnostic.code for diagnostic in error.diagnostics]
    return []


def resigned(files: dict[str, bytes], change: Callable[[dict[str, object]], object]) -> dict[str, bytes]:
    manifest = json.loads(files["manifest.json"])
    change(manifest)
    manifest["digest"] = digest_of(manifest)
    return {**files, "manifest.json": json.dumps(manifest).encode()}


def test_what_we_built_verifies(sample: dict[str, bytes]) -> None:
    bundle = verify_bundle(MemoryTree(sample))
    assert bundle.manifest.to_bytes() == sample["manifest.json"]
    assert bundle.provider.id == "example/release"
    assert set(bundle.manifest.files) == set(sample) - {"manifest.json"}


def test_only_verification_makes_a_verified_bundle(sample: dict[str, bytes]) -> None:
    with pytest.raises(TypeError):
        VerifiedBundle()
    bundle = verify_bundle(MemoryTree(sample))
    with pytest.raises(AttributeError):
        bundle.manifest = None  # type: ignore[assignment]


def test_one_flipped_byte_anywhere_in_any_file_is_caught(sample: dict[str, bytes]) -> None:
    """Every byte of every listed file, one after the other; of the manifest every byte too."""
    value = json.loads(sample["manifest.json"])
    for path, data in sample.items():
        for at in range(0, len(data), 1 if path == "manifest.json" else 3):
            changed = bytes([*data[:at], data[at] ^ (1 << at % 8), *data[at + 1 :]])
            found = codes({**sample, path: changed})
            if path == "manifest.json" and not found:
                assert json.loads(changed) == value
            else:
                assert found, (path, at)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_other_content_of_any_file_is_caught(sample: dict[str, bytes], data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(set(sample) - {"manifest.json"})))
    content = data.draw(st.binary(max_size=200).filter(lambda content: content != sample[path]))
    assert codes({**sample, path: content})[0] == "bundle-file-digest-mismatch"


def test_all_differences_are_told(sample: dict[str, bytes]) -> None:
    files = dict(sample)
    files["codes.yaml"] += b"x"
    del files["actions/show.yaml"]
    files["scripts/.DS_Store"] = files["extra"] = b"x"
    with pytest.raises(BundlerError) as raised:
        verify_bundle(MemoryTree(files))
    assert [(d.code, d.path) for d in raised.value.diagnostics] == [
        ("file-missing", "actions/show.yaml"),
        ("bundle-file-digest-mismatch", "codes.yaml"),
        ("bundle-files-mismatch", "extra"),
        ("bundle-files-mismatch", "scripts/.DS_Store"),
    ]
    assert "macOS folder settings" in raised.value.diagnostics[3].message


def test_a_thousand_differences_are_bounded(sample: dict[str, bytes]) -> None:
    found = codes({**sample, **{f"x{i}": b"" for i in range(1000)}})
    assert len(found) == 201


def test_many_missing_and_many_extra_files_are_compared_in_linear_time(sample: dict[str, bytes]) -> None:
    files = {**with_skill(**{f"f{i}": "" for i in range(3000)})}
    bundle = bundle_of(memory(files))
    moved = {path.replace("/f", "/g"): data for path, data in bundle.items()}
    assert codes(moved)[:1] == ["file-missing"]


CAFE = unicodedata.normalize("NFC", "café\n").encode()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda data: data.replace(b"\n", b"\r\n"), "only its line ends differ"),
        (lambda data: b"\xef\xbb\xbf" + data, "a byte order mark was added"),
        (
            lambda data: b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"),
            "its line ends differ and a byte order mark was added",
        ),
        (lambda data: data.rstrip(b"\n"), "only the line end at its end differs"),
        (lambda data: data + b"\n\n", "only the line end at its end differs"),
        (lambda data: unicodedata.normalize("NFD", data.decode()).encode(), "only its Unicode form differs"),
    ],
)
def test_why_a_digest_differs(change: Callable[[bytes], bytes], why: str) -> None:
    files = bundle_of(memory(with_skill(text="line\nline\n" + CAFE.decode())))
    files["skills/s/text"] = change(files["skills/s/text"])
    with pytest.raises(BundlerError) as raised:
        verify_bundle(MemoryTree(files))
    assert f"({why})" in raised.value.message


def test_line_ends_that_were_made_unix(sample: dict[str, bytes]) -> None:
    files = bundle_of(memory(with_skill(text="a\r\nb\r\n", mark=b"\xef\xbb\xbfx")))
    files["skills/s/text"] = b"a\nb\n"
    files["skills/s/mark"] = b"x"
    with pytest.raises(BundlerError) as raised:
        verify_bundle(MemoryTree(files))
    assert [
        "its byte order mark is gone" in d.message or "line ends" in d.message for d in raised.value.diagnostics
    ] == [True, True]


@pytest.mark.parametrize(("other", "how"), [(unicodedata.normalize("NFD", "é"), "Unicode form"), ("É", "case")])
def test_a_file_under_another_spelling_of_its_name(other: str, how: str) -> None:
    name = f"skills/s/{unicodedata.normalize('NFC', 'é')}"
    files = bundle_of(memory(with_skill(**{unicodedata.normalize("NFC", "é"): "x"})))
    files[f"skills/s/{other}"] = files.pop(name)
    with pytest.raises(BundlerError) as raised:
        verify_bundle(MemoryTree(files))
    assert raised.value.code == "file-missing"
    assert f"differs only in {how}" in raised.value.message


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("scripts/__pycache__/check.cpython-311.pyc", "Python bytecode"),
        ("._x", "macOS resource fork"),
        (".x.swp", "editor's swap file"),
    ],
)
def test_what_kind_of_extra_file(sample: dict[str, bytes], name: str, what: str) -> None:
    with pytest.raises(BundlerError) as raised:
        verify_bundle(MemoryTree({**sample, name: b"x"}))
    assert (raised.value.code, what in raised.value.message) == ("bundle-files-mismatch", True)


def test_junk_that_the_manifest_lists_counts_whoever_built_it(tmp_path: Path) -> None:
    """Another implementation carries what ours leaves out of a source."""
    files = bundle_of(memory(with_skill()))
    files["skills/s/.DS_Store"] = b"junk"

    def add(manifest: dict[str, object]) -> None:
        import hashlib

        assert isinstance(manifest["files"], list)
        manifest["files"].append(
            {"path": "skills/s/.DS_Store", "digest": "sha256:" + hashlib.sha256(b"junk").hexdigest()}
        )

    assert codes(resigned(files, add)) == []


def test_paths_are_compared_in_normal_form(sample: dict[str, bytes]) -> None:
    def dots(manifest: dict[str, object]) -> None:
        assert isinstance(manifest["files"], list)
        assert isinstance(manifest["graphs"], list)
        manifest["providerManifest"] = "./provider.yaml"
        for entry in [*manifest["files"], *manifest["graphs"]]:
            entry["path"] = "./" + entry["path"].replace("/", "//")

    assert codes(resigned(sample, dots)) == []

    def twice(manifest: dict[str, object]) -> None:
        assert isinstance(manifest["files"], list)
        manifest["files"].append({**manifest["files"][0], "path": "./" + manifest["files"][0]["path"]})

    assert codes(resigned(sample, twice)) == ["bundle-file-duplicate"]


def test_a_provider_manifest_in_any_form_and_of_any_name(sample: dict[str, bytes]) -> None:
    import hashlib

    text = b"# comment\r\n" + sample["provider.yaml"].replace(b"\n", b"\r\n")
    files = {**sample, "p.yaml": text}
    del files["provider.yaml"]

    def other(manifest: dict[str, object]) -> None:
        assert isinstance(manifest["files"], list)
        manifest["providerManifest"] = "p.yaml"
        for entry in manifest["files"]:
            if entry["path"] == "provider.yaml":
                entry.update(path="p.yaml", digest="sha256:" + hashlib.sha256(text).hexdigest())

    assert codes(resigned(files, other)) == []


def test_content_that_changes_after_verification_is_refused(tmp_path: Path) -> None:
    build_from(write_out(with_skill(data="x" * 10), tmp_path / "root"), tmp_path / "out")
    with DirectoryTree(tmp_path / "out") as tree:
        bundle = verify_bundle(tree)
        assert bundle.tree.read("skills/s/data", 100) == b"x" * 10
        (tmp_path / "out/skills/s/data").write_text("y" * 10)
        with pytest.raises(BundlerError) as raised:
            bundle.tree.read("skills/s/data", 100)
        assert raised.value.code == "bundle-file-digest-mismatch"
        with bundle.tree.open("skills/s/data") as reader, pytest.raises(BundlerError):
            list(iter(lambda: reader.read(3), b""))


def test_what_does_not_fit_in_memory_is_read_and_hashed_again(
    sample: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "MAX_KEPT_BYTES", 300)
    assert codes(sample) == []


def test_a_resource_larger_than_what_is_parsed() -> None:
    files = minimal(
        graphs__main_yaml=GRAPH.replace("actions/work.yaml }", "actions/work.yaml, resources: { required: [big.md] } }")
    )
    files["big.md"] = b"---\nid: big\nkind: procedure\n---\n" + b"#" * MAX_BYTES
    assert "big.md" in load(files).resources
    bundle = bundle_of(memory(files))
    assert codes(bundle) == []
    bundle["big.md"] += b"#"
    assert codes(bundle) == ["bundle-file-digest-mismatch"]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff", b'{"a": 1, "a": 2}', b"\x00" * 100])
def test_a_manifest_that_is_none(sample: dict[str, bytes], data: bytes) -> None:
    assert codes({**sample, "manifest.json": data})[0] in ("parse-failed", "schema.type")


def test_a_folder_without_a_manifest_is_no_bundle(tmp_path: Path) -> None:
    with DirectoryTree(tmp_path) as tree, pytest.raises(BundlerError) as raised:
        verify_bundle(tree)
    assert raised.value.code == "file-missing"
    assert str(tmp_path) in raised.value.message


@pytest.fixture
def on_disk(tmp_path: Path) -> Path:
    build_from(write_out(with_skill(data="x"), tmp_path / "root"), tmp_path / "out")
    return tmp_path / "out"


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda out: os.mkfifo(out / "pipe"), "bundle-files-mismatch"),
        (lambda out: (out / "skills/s/data").unlink() or os.mkfifo(out / "skills/s/data"), "file-missing"),
        (lambda out: (out / "skills/s/data").unlink() or (out / "skills/s/data").mkdir(), "file-missing"),
        (
            lambda out: (out / "skills/s/data").unlink() or (out / "skills/s/data").symlink_to("/etc/hostname"),
            "path-symlink-outside-provider",
        ),
        (
            lambda out: (out / "skills").rename(out / "real") and (out / "skills").symlink_to("real"),
            "bundle-files-mismatch",
        ),
        (
            lambda out: (out / "manifest.json").rename(out.parent / "m") and (out / "manifest.json").symlink_to("../m"),
            "path-symlink-outside-provider",
        ),
        (lambda out: (out / "loop").symlink_to("."), "bundle-files-mismatch"),
    ],
)
def test_what_lies_there_instead(on_disk: Path, spoil: Callable[[Path], object], expected: str) -> None:
    spoil(on_disk)
    with DirectoryTree(on_disk) as tree, pytest.raises(BundlerError) as raised:
        verify_bundle(tree)
    assert raised.value.code == expected


def test_what_a_build_may_write_a_verification_may_read() -> None:
    """Bounds that have to fit: a file may stand in a folder of its own."""
    from bundler.bundle.layout import MAX_FILES, MAX_MANIFEST_VALUES
    from bundler.tree.opening import MAX_ENTRIES

    assert MAX_ENTRIES >= 2 * MAX_FILES
    # Each file and each catalog entry is an object with its members; a file is in one catalog at most but for schemas.
    assert MAX_MANIFEST_VALUES >= MAX_FILES * (3 + 4)
