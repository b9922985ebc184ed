"""The source root's absolute path in content: every spelling is found, what only resembles it is not."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundler.bundle.leaks import FileScan, LeakScanner
from bundler.errors import BundlerError
from bundler.tree import CHUNK

from ..builders import PROVIDER, build_from, minimal, with_files, with_skill, write_out

ROOTS = ["/home/ann/code/provider", "/builds/größe 1/Привет", "/a", "/x/発行", "/srv/🚀 go/p"]


def found(root: str, data: bytes) -> int | None:
    return LeakScanner([root]).find(data)


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize(
    "spell",
    [
        lambda root: root,
        lambda root: "file://" + root,
        lambda root: "file://" + quote(root),
        lambda root: "file://" + quote(root).lower(),
        lambda root: quote(root, safe="~"),
        json.dumps,
        lambda root: json.dumps(root, ensure_ascii=False),
        lambda root: json.dumps(root).replace("/", "\\/"),
        lambda root: (
            json.dumps(root).upper().replace("\\U", "\\u")
            if root.isascii() is False and root.lower() == root.upper()
            else root
        ),
        lambda root: root.replace("/", "\\"),
        lambda root: json.dumps(root.replace("/", "\\")),
        lambda root: quote(root.replace("/", "\\"), safe=""),
    ],
)
def test_every_spelling_is_found(root: str, spell: object) -> None:
    assert callable(spell)
    text = spell(root)
    for after in ("", "/x", '"', " ", ")", ".", ". ", "\n", "\\x", "%2Fx", ":1", "“", "”", "。"):
        data = b"built in " + text.encode() + after.encode()
        assert found(root, data) is not None, (text, after)


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16"])
@pytest.mark.parametrize("after", ["", "/x", "\\x", '"', ". "])
def test_utf_16_is_found(root: str, encoding: str, after: str) -> None:
    for separator in ("/", "\\"):
        text = "built in " + root.replace("/", separator) + after
        assert found(root, text.encode(encoding)) is not None
        assert found(root, b"\n" + text.encode(encoding)) is not None  # at an odd offset


@pytest.mark.parametrize(
    "after", ["2", "s/x", "_old", "-old", ".old", "é", "%41", "\\u0041", "Z", "+x", "@2", "~", "\u0301"]
)
def test_a_longer_name_is_another_folder(after: str) -> None:
    root = "/home/ann/code/provider"
    assert found(root, f"see {root}{after} there".encode()) is None
    if after.isascii() and "%" not in after and "\\" not in after:
        assert found(root, f"see {root}{after} there".encode("utf-16-le")) is None


@pytest.mark.parametrize(
    "text",
    ["/home/ann/code", "home/ann/code/provider", "/home/ann/code//provider", "/home/bob/code/provider", "provider"],
)
def test_other_paths_are_none(text: str) -> None:
    assert found("/home/ann/code/provider", text.encode()) is None


ROOT = "/srv/agents/provider"


@pytest.mark.parametrize(
    "text",
    [
        "src" + ROOT,
        "https://example.com" + ROOT,
        "docs/x" + ROOT + "/readme",
        "a.b-c_d" + ROOT,
        "\u00e9" + ROOT,
        "s3://bucket" + ROOT,
        "x" * 500 + ROOT,
    ],
)
def test_a_path_that_begins_before_is_another_one(text: str) -> None:
    # Beside a character that is not ASCII the two byte orders of UTF-16 can't be told apart: there it is refused.
    for encoding in ("utf-8", "utf-16-le", "utf-16-be") if text.isascii() else ("utf-8",):
        assert found(ROOT, text.encode(encoding)) is None
    assert found(ROOT, (text + "\n" + ROOT).encode()) == len((text + "\n").encode())


@pytest.mark.parametrize(
    "before",
    [
        "",
        "\n",
        " ",
        '"',
        "=",
        ":",
        "(",
        "file://",
        "file://localhost",
        "FILE://host.name",
        "-I",
        "-L",
        "--root",
        "x -I",
        "\\n",
        "\\t",
        "%20",
        "//",
        "C:",
    ],
)
def test_a_path_that_begins_there(before: str) -> None:
    for encoding in ("utf-8", "utf-16-le", "utf-16-be"):
        assert found(ROOT, (before + ROOT + "/x").encode(encoding)) is not None


@pytest.mark.parametrize("name", ['a"b', "a\nb", "tab\there", "q'q", "per%cent", "a\\b"])
def test_names_that_json_and_urls_escape(name: str) -> None:
    root = f"/home/ann/{name}"
    for text in (root, json.dumps(root), quote(root), json.dumps(json.dumps(root)), json.dumps("see\n" + root)):
        for encoding in ("utf-8", "utf-16-le", "utf-16-be"):
            assert found(root, f"in {text}/x".encode(encoding)) is not None, text


def test_escaped_from_end_to_end() -> None:
    for spell in ("%{:02x}", "%{:02X}", "\\u{:04x}", "\\u{:04X}", "\\\\u{:04x}"):
        text = "".join(spell.format(ord(character)) for character in ROOT)
        assert found(ROOT, f"in {text} x".encode()) is not None, text


def test_the_root_of_the_file_system_is_no_leak() -> None:
    assert found("/", b"/usr/bin/env / /x") is None


@settings(deadline=None, max_examples=150)
@given(
    st.integers(0, 4000),
    st.lists(st.integers(1, 700), min_size=1, max_size=12),
    st.sampled_from(ROOTS),
    st.sampled_from(["utf-8", "utf-16-le"]),
)
def test_chunks_cut_anywhere(before: int, cuts: list[int], root: str, encoding: str) -> None:
    data = b"a " * before + root.encode(encoding) + "/x".encode(encoding) + b"yz" * 500
    whole = found(root, data)
    scan = FileScan(LeakScanner([root]))
    at = 0
    for cut in cuts:
        scan.feed(data[at : at + cut])
        at += cut
    scan.feed(data[at:], final=True)
    assert scan.found == whole is not None


@pytest.mark.parametrize("split", [0, 1, 5, 17])
def test_a_leak_across_the_chunks_of_a_file(tmp_path: Path, split: int) -> None:
    root = tmp_path.resolve() / "root"
    leak = f"{root}/x".encode()
    write_out(with_skill(big=b" " * (CHUNK - split) + leak + b"." * CHUNK), root)
    with pytest.raises(BundlerError) as raised:
        build_from(root, tmp_path / "out")
    assert raised.value.code == "build-absolute-path-leak"
    assert raised.value.diagnostics[0].detail["offset"] == CHUNK - split


def test_every_file_that_leaks_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "root"
    files = with_files(
        minimal(provider_yaml=PROVIDER + f"description: built in {root}\n"),
        {"a": f"{root}\n", "b": "fine", "c": f"file://{root}/x"},
    )
    write_out(files, root)
    with pytest.raises(BundlerError) as raised:
        build_from(root, tmp_path / "out")
    assert [d.path for d in raised.value.diagnostics] == ["a", "c", "provider.yaml"]
    assert not (tmp_path / "out").exists()


def test_the_root_as_given_and_as_resolved(tmp_path: Path) -> None:
    base = tmp_path.resolve()
    (base / "link").symlink_to("real")
    for text in (f"{base}/link/x", f"{base}/real/x"):
        write_out(with_files(minimal(), {"a": text}), base / "real")
        with pytest.raises(BundlerError) as raised:
            build_from(base / "link", base / "out")
        assert raised.value.code == "build-absolute-path-leak"


def test_content_that_is_made_to_be_slow_is_not(tmp_path: Path) -> None:
    """Each is a few hundred kB; in linear time all of them take about a second, in more they never end."""
    for root, data in (
        ("/srv/agents/provider", b"\\" * 500_000 + b"/agents/provider"),
        ("/srv/work", b"work\\" * 40_000),
        ("/srv/work", (b"\\" * 300 + b"work") * 1000),
        ("/app", b"/app2 " * 50_000),
        ("/\u767a\u884c", "\u767a\u884c".encode() * 50_000),
    ):
        assert found(root, data) is None


def test_a_root_whose_names_are_ordinary_words() -> None:
    text = b"the release of a package of code by the group at home " * 20_000
    for root in ("/home/code/release", "/release", "/code/release"):
        assert found(root, text) is None
        assert found(root, text + root.encode() + b"/x") == len(text)
