"""What a build refuses before it writes."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from bundler.bundle.names import name_warnings
from bundler.bundle.open import open_path
from bundler.bundle.plan import make_plan
from bundler.bundle.write import build
from bundler.errors import BundlerError
from bundler.provider.closure import find_closure
from bundler.provider.load import load_provider
from bundler.tree import DirectoryTree

from ..builders import PROVIDER, Files, build_from, load, memory, minimal, snapshot, with_files, with_skill, write_out

NFC, NFD = (unicodedata.normalize(form, "café.txt") for form in ("NFC", "NFD"))


def refusal(files: Files, manifest: str = "provider.yaml") -> list[tuple[str, str | None]]:
    tree = memory(files)
    with pytest.raises(BundlerError) as raised:
        make_plan(tree, load_provider(tree, manifest))
    return [(diagnostic.code, diagnostic.path) for diagnostic in raised.value.diagnostics]


@pytest.mark.parametrize(
    "name",
    [
        "con",
        "Nul.txt",
        "aux.tar.gz",
        "com1",
        "LPT9.md",
        "com¹",
        "d/PRN",
        "CONIN$",
        "prn .txt",
        "dot.",
        "blank ",
        "d./x",
        "d /x",
    ],
)
def test_names_that_windows_cannot_hold(name: str) -> None:
    assert refusal(with_skill(**{name: "x"})) == [("path-not-portable", f"skills/s/{name}")]


@pytest.mark.parametrize("name", ["back\\slash", "new\nline", "tab\t", "\x7f", "\x85"])
def test_backslashes_and_control_characters_in_a_skill_folder(name: str) -> None:
    assert [code for code, _ in refusal(with_skill(**{name: "x"}))] == ["path-not-portable"]


@pytest.mark.parametrize(
    "name", ["console", "comb", "com10", "nul_", ".aux", "a.con", "ü", "🚀", "a b", "..."[:2] + "x"]
)
def test_names_that_every_system_holds(name: str) -> None:
    tree = memory(with_skill(**{name: "x"}))
    assert f"skills/s/{name}" in make_plan(tree, load_provider(tree)).files


def test_names_that_are_no_utf_8(tmp_path: Path) -> None:
    root = write_out(with_skill(), tmp_path / "root")
    Path(str(root / "skills/s") + "/\udcff").write_text("x")
    with DirectoryTree(root) as tree, pytest.raises(BundlerError) as raised:
        make_plan(tree, load_provider(tree))
    assert (raised.value.code, raised.value.diagnostics[0].path) == ("path-not-portable", "skills/s/\\udcff")
    raised.value.to_json()


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ("a.txt", "A.TXT", "skills/s/a.txt"),
        (NFC, NFD, f"skills/s/{NFC}"),
        ("straße", "STRASSE", "skills/s/straße"),
        ("D/x", "d/y", "skills/s/d"),
    ],
)
def test_names_that_one_folder_cannot_hold_everywhere(one: str, other: str, told: str) -> None:
    assert refusal(with_skill(**{one: "1", other: "2"})) == [("path-collision", told)]


def test_a_name_that_collides_with_the_generated_manifest() -> None:
    assert [code for code, _ in refusal(with_files(minimal(), {"MANIFEST.JSON": "x"}))] == ["path-collision"]


def test_names_of_generated_files() -> None:
    assert refusal(with_files(minimal(), {"manifest.json": "x"})) == [("build-generated-name-clash", "manifest.json")]
    files = with_files(minimal(), {"provider.yaml": "x"})
    files["release.yaml"] = PROVIDER
    assert refusal(files, "release.yaml") == [("build-generated-name-clash", "provider.yaml")]


def test_the_manifest_may_be_listed_as_a_file_and_stays_the_generated_one(tmp_path: Path) -> None:
    files = with_files(minimal(), {"provider.yaml": PROVIDER + "# comment\n"})
    root = write_out(files, tmp_path / "root")
    with DirectoryTree(root) as tree:
        build(make_plan(tree, load_provider(tree)), tmp_path / "out")
    assert "#" not in (tmp_path / "out" / "provider.yaml").read_text()


def test_another_manifest_name_is_not_carried_unless_it_is_listed() -> None:
    files = {**minimal(), "release.yaml": PROVIDER, "manifest.json": PROVIDER}
    tree = memory(files)
    assert make_plan(tree, load_provider(tree, "release.yaml")).files == (
        "actions/work.yaml",
        "graphs/main.yaml",
        "provider.yaml",
    )


def test_long_paths_and_characters_of_windows_are_warnings() -> None:
    tree = memory(with_skill(**{"x" * 150: "1", "what?": "2"}))
    plan = make_plan(tree, load_provider(tree))
    assert [(w.code, w.severity) for w in plan.warnings] == [("path-not-portable", "warning"), ("path-long", "warning")]
    assert [w.path for w in plan.warnings] == ["skills/s/what?", "skills/s/" + "x" * 150]


def test_what_a_build_would_refuse_is_a_warning_before() -> None:
    provider = load(with_skill(nul="x"))
    assert [(w.code, w.severity, w.path) for w in name_warnings(provider, find_closure(provider))] == [
        ("path-not-portable", "warning", "skills/s/nul")
    ]


def outputs(tmp_path: Path, output: Path) -> str:
    with DirectoryTree(tmp_path / "parent" / "root") as tree:
        try:
            build(make_plan(tree, load_provider(tree)), output)
        except BundlerError as error:
            return error.code
    return "built"


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("parent/root", "build-output-overlaps-source"),
        ("parent/root/", "build-output-overlaps-source"),
        ("parent", "build-output-overlaps-source"),
        (".", "build-output-overlaps-source"),
        ("parent/root/graphs", "build-output-overlaps-source"),
        ("parent/root/graphs/main.yaml", "build-output-overlaps-source"),
        ("parent/root/graphs/main.yaml/out", "build-output-overlaps-source"),
        ("parent/root/skills", "build-output-overlaps-source"),
        ("parent/root/skills/s", "build-output-overlaps-source"),
        ("parent/root/skills/s/dist", "build-output-overlaps-source"),
        ("parent/root/skills/s/dist/deeper", "build-output-overlaps-source"),
        ("parent/root/by-link/dist", "build-output-overlaps-source"),
        ("link/graphs", "build-output-overlaps-source"),
        ("parent/root/dist/provider", "built"),
        ("parent/root/skills/other", "built"),
        ("parent/root2", "built"),
        ("parent/roo", "built"),
        ("elsewhere/deep/er", "built"),
    ],
)
def test_outputs_that_touch_the_source(tmp_path: Path, output: str, expected: str) -> None:
    base = tmp_path.resolve()
    root = write_out(with_skill(), base / "parent" / "root")
    (root / "by-link").symlink_to("skills/s")
    (base / "link").symlink_to("parent/root")
    before = sorted(base.rglob("*"))
    assert outputs(base, Path(f"{base}/{output}")) == expected
    if expected != "built":
        assert sorted(base.rglob("*")) == before


def test_outputs_that_links_lead_to(tmp_path: Path) -> None:
    base = tmp_path.resolve()
    root = write_out({**with_skill(), "shared/f": "1"}, base / "parent" / "root")
    (root / "skills/s/lib").symlink_to("../../shared")
    (root / "real.yaml").write_bytes((root / "actions/work.yaml").read_bytes())
    (root / "actions/work.yaml").unlink()
    (root / "actions/work.yaml").symlink_to("../real.yaml")
    for output in ("shared", "shared/out", "shared/deep/out", "real.yaml"):
        assert outputs(base, root / output) == "build-output-overlaps-source", output
    assert outputs(base, root / "sharedx") == "built"


def test_a_bundle_is_not_built_into_itself(tmp_path: Path) -> None:
    build_from(write_out(with_skill(), tmp_path / "root"), tmp_path / "out")
    for output in ("out", "out/sub", "out/skills/s/x", "."):
        with open_path(tmp_path / "out") as opened, pytest.raises(BundlerError) as raised:
            build(make_plan(opened.tree, opened.provider), tmp_path / output)
        assert raised.value.code in ("build-output-overlaps-source", "build-output-not-a-bundle")
    with open_path(tmp_path / "out") as opened:
        build(make_plan(opened.tree, opened.provider), tmp_path / "other")
    assert snapshot(tmp_path / "out") == snapshot(tmp_path / "other")
