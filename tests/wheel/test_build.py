"""Building wheels: the same bytes everywhere, every file as the bundle has it, and nothing left behind."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

import pytest

from bundler.bundle.open import Opened, open_path
from bundler.errors import BundlerError
from bundler.runtime.open import open_provider
from bundler.wheel.build import (
    DEFAULT_EPOCH,
    MAX_EPOCH,
    MIN_EPOCH,
    BuiltWheel,
    Content,
    epoch,
    make_wheel,
    metadata_folder,
    survey,
    write_wheel,
)
from bundler.wheel.check import open_wheel
from bundler.wheel.settings import Settings

from ..builders import PROVIDER, Files, build_from, encode, minimal, with_files, with_skill, write_out

NAME = "agent_graph_provider_acme_demo-0.1.0-py3-none-any.whl"
BUNDLE = "agent_graph_providers/p_acme_demo/bundle/"
MODES = {"m/654": 0o654, "m/4755": 0o4755, "m/711": 0o711, "m/444": 0o444, "m/600": 0o600, "m/644": 0o644}
EXECUTABLE = {"m/654", "m/4755", "m/711"}
# A path of 300 characters, and what archives, installers and builders are tempted to treat in a way of their own.
ODD: dict[str, str | bytes] = {
    "a b/c d.txt": "blanks",
    "é/日本語/ñ.txt": "not ASCII",
    "long/" + "/".join(["x" * 58] * 5): "long",
    ".hidden/.dot": "dots",
    ".DS_Store": "carried because it is named",
    "__pycache__/x.pyc": b"\x00\xff",
    ".git/config": "git",
    ".gitignore": "*\n",
    ".venv/pyvenv.cfg": "",
    "RECORD": "a record",
    "METADATA": "Name: x\n",
    "x.dist-info/WHEEL": "Tag: x\n",
    "x-1.data/purelib/y.py": "y = 1\n",
    "__init__.py": "raise SystemExit\n",
    "pyproject.toml": "[tool.agent-bundler]\n",
    "[a]{b}*?'%~$&;#!": "signs",
    "~/home": "tilde",
    "{root:uri}": "braces",
    "empty": b"",
    "big.bin": bytes(range(256)) * 5000,
}


def make(root: Path, output: Path, settings: Settings | None = None) -> BuiltWheel:
    """The wheel of a source or bundle."""
    with open_path(root) as opened:
        return make_wheel(opened, output, settings)


def source(root: Path, files: Files | None = None) -> Path:
    """A source with odd names and odd modes."""
    listed = {**ODD, **dict.fromkeys(MODES, "#!/bin/sh\n")}
    write_out(files or with_files(minimal(), listed), root)
    for path, mode in MODES.items():
        (root / path).chmod(mode)
    return root


def contents(wheel: Path | str) -> dict[str, tuple[int, bytes]]:
    """Mode and content of every file of a wheel's bundle."""
    with ZipFile(wheel) as file:
        return {
            item.filename.removeprefix(BUNDLE): (item.external_attr >> 16, file.read(item))
            for item in file.infolist()
            if item.filename.startswith(BUNDLE)
        }


def command(root: Path, output: Path, umask: int = 0o022, **environment: str) -> bytes:
    """The bytes of the wheel that the command writes."""
    code = f"import os; os.umask({umask}); from bundler.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "-q", "-m", str(root), "wheel", str(output)],
        capture_output=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    assert os.listdir(output) == [NAME]
    assert stat.S_IMODE((output / NAME).stat().st_mode) == 0o644
    return (output / NAME).read_bytes()


@pytest.fixture(autouse=True)
def no_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)


# --- the same bytes ----------------------------------------------------------------------------------------


def test_the_same_bytes_from_copies_of_one_source(tmp_path: Path) -> None:
    files = with_files(minimal(), {**ODD, **dict.fromkeys(MODES, "#!/bin/sh\n")})
    files |= {"LICENSE": "text", "L/Ä.txt": "ä"}
    files["pyproject.toml"] = (
        '[tool.agent-bundler]\nlicense-files = ["LICENSE", "L/Ä.txt"]\nkeywords = ["b", "a", "c"]\n'
        'dependencies = ["x[b,c,a]>=1,<2,!=1.5"]\nrequires-python = ">=3.9,<4,!=3.10.0"\n'
    )
    expected = command(source(tmp_path / "first", files), tmp_path / "out")
    environments: list[tuple[int, dict[str, str]]] = [
        (0o077, {"TZ": "Asia/Kolkata", "PYTHONHASHSEED": "1", "LC_ALL": "C"}),
        (0o000, {"TZ": "America/New_York", "PYTHONHASHSEED": "2", "HATCH_BUILD_NO_HOOKS": "true"}),
        (
            0o022,
            {
                "LC_ALL": "C",
                "PYTHONUTF8": "0",
                "PYTHONCOERCECLOCALE": "0",
                "PIP_BUILD_TRACKER": str(tmp_path),
                "HATCH_BUILD_CLEAN": "true",
                "HATCH_BUILD_LOCATION": str(tmp_path / "elsewhere"),
                "HATCH_BUILD_HOOKS_ENABLE": "true",
                "HATCH_METADATA_CLASSIFIERS_NO_VERIFY": "true",
                "TMPDIR": str(tmp_path / "temporary"),
            },
        ),
    ]
    (tmp_path / "temporary").mkdir()
    for number, (umask, environment) in enumerate(environments):
        above = tmp_path / f"{'y' * number} above"
        root = source(above / "copy", dict(reversed(files.items())))
        for ignoring in (above, root / "m", root):
            if not (ignoring / ".gitignore").exists():
                (ignoring / ".gitignore").write_text("*\n")
        for file in root.rglob("*"):
            os.utime(file, (number * 1e8, number * 1e8))
        output = above / "out" / "dist"
        assert command(root, output, umask, **environment) == expected
    assert os.listdir(tmp_path / "temporary") == []
    assert not (tmp_path / "elsewhere").exists()
    assert hashlib.sha256(expected).hexdigest() == make(tmp_path / "first", tmp_path / "again").sha256


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", DEFAULT_EPOCH),
        ("0", MIN_EPOCH),
        ("315532800", MIN_EPOCH),
        ("1700000000", 1_700_000_000),
        ("99999999999", MAX_EPOCH),
        ("999999999999999", MAX_EPOCH),
    ],
)
def test_epoch(text: str, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", text)
    assert epoch() == expected


@pytest.mark.parametrize(
    ("text", "date"),
    [
        (None, (2020, 2, 2, 0, 0, 0)),
        ("0", (1980, 1, 1, 0, 0, 0)),
        ("1700000001", (2023, 11, 14, 22, 13, 20)),
        ("99999999999", (2107, 12, 31, 23, 59, 58)),
    ],
)
def test_the_time_of_its_files(
    text: str | None, date: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if text is not None:
        monkeypatch.setenv("SOURCE_DATE_EPOCH", text)
    built = make(write_out(minimal(), tmp_path / "p"), tmp_path / "dist")
    with ZipFile(built.path) as file:
        assert {item.date_time for item in file.infolist()} == {date}


@pytest.mark.parametrize("text", ["now", "1.5", "-1", " 1", "1e9", "٣", "0x10", "1_000", "9" * 16])
def test_a_time_that_is_none(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", text)
    with pytest.raises(BundlerError) as caught:
        make(write_out(minimal(), tmp_path / "p"), tmp_path / "new" / "dist")
    assert caught.value.code == "option-invalid"
    assert caught.value.hint == "set it to a whole number, or unset it"
    assert os.listdir(tmp_path) == ["p"]


# --- every file --------------------------------------------------------------------------------------------


def test_every_file_is_in_it_with_the_executable_bit_of_the_bundle(tmp_path: Path) -> None:
    root = source(tmp_path / "p")
    manifest = build_from(root, tmp_path / "bundle")
    built = make(root, tmp_path / "dist")
    found = contents(built.path)
    assert set(found) == {*manifest.files, "manifest.json"}
    for path, (mode, data) in found.items():
        assert mode == stat.S_IFREG | (0o755 if path in EXECUTABLE else 0o644), path
        assert data == (tmp_path / "bundle" / path).read_bytes()
        assert bool((tmp_path / "bundle" / path).stat().st_mode & 0o111) == (path in EXECUTABLE)
    assert {path: found[path][1] for path in ODD} == {path: encode(data) for path, data in ODD.items()}
    with open_wheel(built.path) as wheel:
        assert wheel.bundle.executable == EXECUTABLE
        assert wheel.bundle.digest == built.digest == manifest.digest
    assert built.size == Path(built.path).stat().st_size
    assert built.sha256 == hashlib.sha256(Path(built.path).read_bytes()).hexdigest()


def test_from_source_bundle_and_wheel_it_is_the_same_bundle(tmp_path: Path) -> None:
    root = source(tmp_path / "p")
    manifest = build_from(root, tmp_path / "bundle")
    first = make(root, tmp_path / "1")
    second = make(tmp_path / "bundle", tmp_path / "2")
    with open_provider(first.path) as opened:
        third = make_wheel(opened, tmp_path / "3")
    with open_provider(first.path) as opened:
        again = make_wheel(opened, tmp_path / "1")  # in its own place
    assert {each.digest for each in (first, second, third, again)} == {manifest.digest}
    assert contents(first.path) == contents(second.path) == contents(third.path)
    # Without settings of its own, all of the wheel is the same.
    assert first.sha256 == second.sha256 == third.sha256 == again.sha256


def test_links_inside_the_root_are_followed(tmp_path: Path) -> None:
    listed = {"real/run.sh": "#!/bin/sh\n", "real/x": "x"}
    root = write_out(with_files(minimal(), {**listed, "alias/run.sh": "", "one": ""}), tmp_path / "p")
    shutil.rmtree(root / "alias")
    (root / "alias").symlink_to("real", target_is_directory=True)
    (root / "one").unlink()
    (root / "one").symlink_to("alias/x")
    (root / "real/run.sh").chmod(0o755)
    found = contents(make(root, tmp_path / "dist").path)
    assert found["alias/run.sh"] == found["real/run.sh"] == (stat.S_IFREG | 0o755, b"#!/bin/sh\n")
    assert found["one"] == found["real/x"] == (stat.S_IFREG | 0o644, b"x")
    # The source itself may be reached by a link.
    (tmp_path / "link").symlink_to("p", target_is_directory=True)
    assert contents(make(tmp_path / "link", tmp_path / "other").path) == found


def test_a_link_that_leads_out_is_refused(tmp_path: Path) -> None:
    root = write_out(with_files(minimal(), {"x": ""}), tmp_path / "p")
    (root / "x").unlink()
    (root / "x").symlink_to("/etc/hostname")
    with pytest.raises(BundlerError) as caught:
        make(root, tmp_path / "dist")
    assert caught.value.code == "path-symlink-outside-provider"
    assert os.listdir(tmp_path) == ["p"]


def test_junk_in_a_skill_folder_is_left_out(tmp_path: Path) -> None:
    files = with_skill(**{".DS_Store": "x", "__pycache__/a.pyc": "x", "kept.txt": "y"})
    built = make(write_out(files, tmp_path / "p"), tmp_path / "dist")
    assert {path for path in built.manifest.files if path.startswith("skills/")} == {
        "skills/s/SKILL.md",
        "skills/s/kept.txt",
    }
    assert set(contents(built.path)) == {*built.manifest.files, "manifest.json"}


def test_settings_given_are_used_in_the_place_of_the_file(tmp_path: Path) -> None:
    files = minimal() | {"pyproject.toml": "[tool.agent-bundler]\nversion = '7'\n", "LICENSE": "x"}
    root = write_out(files, tmp_path / "p")
    assert make(root, tmp_path / "1").identity.version == "7"
    given = make(root, tmp_path / "2", Settings())
    assert Path(given.path).name == NAME
    assert given.digest == make(root, tmp_path / "1").digest


def test_metadata_that_is_asked_for_first_is_that_of_the_wheel(tmp_path: Path) -> None:
    root = write_out(minimal() | {"LICENSE": "x"}, tmp_path / "p")
    with open_path(root) as opened:
        content = survey(opened)
        folder = Path(metadata_folder(content, str(tmp_path / "info")))
        built = write_wheel(content, tmp_path / "dist")
    assert os.listdir(tmp_path / "info") == [folder.name] == ["agent_graph_provider_acme_demo-0.1.0.dist-info"]
    with ZipFile(built.path) as file:
        assert (folder / "METADATA").read_bytes() == file.read(f"{folder.name}/METADATA")


# --- what changes meanwhile --------------------------------------------------------------------------------


def change_content(root: Path) -> None:
    (root / "x").write_text("other")


def change_in_length_only(root: Path) -> None:
    (root / "x").write_text("")


def remove(root: Path) -> None:
    (root / "x").unlink()


def make_a_folder(root: Path) -> None:
    (root / "x").unlink()
    (root / "x").mkdir()


def make_a_fifo(root: Path) -> None:
    (root / "x").unlink()
    os.mkfifo(root / "x")


def make_a_link(root: Path) -> None:
    (root / "x").unlink()
    (root / "x").symlink_to("/etc/passwd")


def remove_its_folder(root: Path) -> None:
    shutil.rmtree(root)


CHANGES = [change_content, change_in_length_only, remove, make_a_folder, make_a_fifo, make_a_link, remove_its_folder]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("mode", [0o644, 0o2755], ids=["plain", "copied"])
def test_a_source_that_changes(change: object, mode: int, tmp_path: Path) -> None:
    root = write_out(with_files(minimal(), {"x": "before"}), tmp_path / "p")
    (root / "x").chmod(mode)
    with open_path(root) as opened:
        content = survey(opened)
        assert callable(change)
        change(root)
        refuses(content, tmp_path / "new" / "dist")


def test_a_bundle_that_changes(tmp_path: Path) -> None:
    root = write_out(with_files(minimal(), {"x": "before", "y": "before"}), tmp_path / "p")
    (root / "y").chmod(0o711)
    for name in ("x", "y"):
        build_from(root, tmp_path / "bundle")
        with open_path(tmp_path / "bundle") as opened:
            content = survey(opened)
            (tmp_path / "bundle" / name).write_text("after!")
            refuses(content, tmp_path / "new" / "dist")
    build_from(root, tmp_path / "bundle2")
    with open_path(tmp_path / "bundle2") as opened:
        (root / "x").write_text("another")
        build_from(root, tmp_path / "other")
        shutil.copy(tmp_path / "other/manifest.json", tmp_path / "bundle2/manifest.json")
        with pytest.raises(BundlerError) as caught:
            survey(opened)
    assert caught.value.code == "wheel-source-changed"


def refuses(content: Content, output: Path) -> None:
    """The wheel is not written, and nothing of it stays."""
    with pytest.raises(BundlerError) as caught:
        write_wheel(content, output)
    assert caught.value.code == "wheel-source-changed"
    assert caught.value.hint == "run the command again while nothing changes the Provider"
    assert not output.parent.exists()


def test_a_mode_that_changes_is_that_of_the_survey(tmp_path: Path) -> None:
    root = write_out(with_files(minimal(), {"x": "x", "y": "y"}), tmp_path / "p")
    (root / "y").chmod(0o755)
    with open_path(root) as opened:
        content = survey(opened)
        (root / "x").chmod(0o755)
        (root / "y").chmod(0o644)
        found = contents(write_wheel(content, tmp_path / "dist").path)
    assert [stat.S_IMODE(found[name][0]) for name in ("x", "y")] == [0o644, 0o755]


# --- the output folder -------------------------------------------------------------------------------------


def write_error(root: Path, output: Path) -> BundlerError:
    """The error of a wheel that can't be written."""
    with pytest.raises(BundlerError) as caught:
        make(root, output)
    return caught.value


def test_an_existing_wheel_is_replaced_and_others_stay(tmp_path: Path) -> None:
    root = write_out(minimal(), tmp_path / "p")
    output = write_out({NAME: "old", "other.whl": "x", ".keep": ""}, tmp_path / "dist")
    built = make(root, output)
    assert sorted(os.listdir(output)) == [".keep", NAME, "other.whl"]
    assert Path(built.path).read_bytes()[:2] == b"PK"
    assert make(root, output).sha256 == built.sha256


def test_an_output_that_is_a_file(tmp_path: Path) -> None:
    root = write_out(minimal(), tmp_path / "p")
    (tmp_path / "file").write_text("x")
    for output in (tmp_path / "file", tmp_path / "file" / "dist"):
        error = write_error(root, output)
        assert error.code == "output-write-failed"
        assert error.is_environment
        assert str(output) in error.message
    assert sorted(os.listdir(tmp_path)) == ["file", "p"]
    assert (tmp_path / "file").read_text() == "x"


def test_a_folder_in_the_wheels_place(tmp_path: Path) -> None:
    root = write_out(minimal(), tmp_path / "p")
    (tmp_path / "dist" / NAME / "x").mkdir(parents=True)
    assert write_error(root, tmp_path / "dist").code == "output-write-failed"
    assert os.listdir(tmp_path / "dist") == [NAME]
    assert os.listdir(tmp_path / "dist" / NAME) == ["x"]


def test_after_an_error_the_old_wheel_is_untouched(tmp_path: Path) -> None:
    root = write_out(with_files(minimal(), {"x": "x"}), tmp_path / "p")
    output = write_out({NAME: "old"}, tmp_path / "dist")
    with open_path(root) as opened:
        content = survey(opened)
        (root / "x").write_text("y")
        with pytest.raises(BundlerError):
            write_wheel(content, output)
    assert os.listdir(output) == [NAME]
    assert (output / NAME).read_text() == "old"


def test_what_hatchling_refuses_is_told_and_nothing_stays(tmp_path: Path) -> None:
    root = write_out(minimal(), tmp_path / "p")
    with open_path(root) as opened, pytest.raises(BundlerError) as caught:
        make_wheel(opened, tmp_path / "new" / "dist", Settings(dependencies=("not a requirement",)))
    assert caught.value.code == "wheel-build-failed"
    assert caught.value.message.startswith("hatchling does not build the wheel: ")
    assert "project.dependencies" in caught.value.message
    assert os.listdir(tmp_path) == ["p"]


def test_a_wheel_never_lies_in_what_is_carried(tmp_path: Path) -> None:
    """It would be carried by the next build, or replace what is."""

    def overlaps(opened: Opened, output: Path) -> None:
        with pytest.raises(BundlerError) as caught:
            make_wheel(opened, output)
        assert caught.value.code == "build-output-overlaps-source"

    root = write_out(with_skill(**{"a/b.txt": "x"}), tmp_path / "p")
    with open_path(root) as opened:
        overlaps(opened, root / "skills/s")
        overlaps(opened, root / "skills/s/new/dist")
        overlaps(opened, root / "skills/s/a")
        assert not (root / "skills/s/new").exists()
        assert os.listdir(root / "skills/s/a") == ["b.txt"]
        first = make_wheel(opened, root)
        second = make_wheel(opened, root / "skills")
    assert first.sha256 == second.sha256 == make(root, root / "dist").sha256
    build_from(root, tmp_path / "bundle")
    with open_path(tmp_path / "bundle") as opened:
        overlaps(opened, tmp_path / "bundle" / "dist")
        overlaps(opened, tmp_path / "bundle")
        assert make_wheel(opened, tmp_path / "dist").digest == first.digest
    with open_path(tmp_path / "bundle") as opened:
        assert opened.bundle is not None  # still one, and verified
    named = write_out(with_files(minimal(), {f"x/{NAME}": "data"}), tmp_path / "named")
    with open_path(named) as opened:
        overlaps(opened, named / "x")
    assert (named / "x" / NAME).read_text() == "data"


# --- names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("provider_id", "version", "toml", "name"),
    [
        ("acme/my-tool", "1.0.0-rc.2", "", "agent_graph_provider_acme_my_x_tool-1.0.0rc2"),
        ("0.a", "1.0.0-alpha", "", "agent_graph_provider_0_xd_a-1.0.0a0"),
        ("z_" * 79 + "zz", "1.0.0", "", None),
        (
            "acme/demo",
            "1.0.0-next.1",
            "version = '1!2.0.dev3+loc.1'\n",
            "agent_graph_provider_acme_demo-1!2.0.dev3+loc.1",
        ),
        ("acme/demo", "1.0.0", "distribution = 'A.b'\n", "a_b-1.0.0"),
    ],
)
def test_names_that_a_wheel_can_have(
    provider_id: str, version: str, toml: str, name: str | None, tmp_path: Path
) -> None:
    manifest = PROVIDER.replace("acme/demo", provider_id).replace("0.1.0", version)
    files: Mapping[str, str | bytes] = minimal(provider_yaml=manifest) | {
        "pyproject.toml": f"[tool.agent-bundler]\n{toml}"
    }
    built = make(write_out(files, tmp_path / "p"), tmp_path / "dist")
    assert name is None or Path(built.path).name == f"{name}-py3-none-any.whl"
    with open_wheel(built.path) as wheel:
        assert wheel.identity == built.identity
        assert wheel.bundle.provider.id == provider_id


def test_a_version_without_counterpart_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    root = write_out(minimal(provider_yaml=PROVIDER.replace("0.1.0", "0.1.0-next.1")), tmp_path / "p")
    assert write_error(root, tmp_path / "dist").code == "wheel-version-unmappable"
    assert os.listdir(tmp_path) == ["p"]
