"""Source distributions: what is in one, the same bytes everywhere, and the same wheel from it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from bundler.bundle.open import open_path
from bundler.errors import BundlerError
from bundler.wheel.build import make_wheel, survey
from bundler.wheel.sdist import make_sdist, sdist_files
from bundler.wheel.settings import Settings

from ..builders import Files, build_from, minimal, with_files, with_skill, write_out

STEM = "agent_graph_provider_acme_demo-0.1.0"
NAME = f"{STEM}.tar.gz"
BACKEND = '[build-system]\nrequires = ["agent-graph-bundler"]\nbuild-backend = "bundler.backend"\n'
OWN = f'{BACKEND}[tool.agent-bundler]\nreadme = "docs/R.md"\nlicense-files = ["L/MIT.txt"]\n'
FULL: dict[str, str | bytes] = {
    **with_skill(**{"run.sh": "#!/bin/sh\n", ".DS_Store": "x", "deep/é ü.txt": "x"}),
    "pyproject.toml": OWN,
    "docs/R.md": "# read\n",
    "docs/not-named.md": "x",
    "L/MIT.txt": "text",
    "LICENSE": "not asked for",
    "README.md": "nothing names it",
    "tests/case.yaml": "a: 1\n",
    "tests/deep/data.bin": b"\x00\xff",
    "tests/.DS_Store": "x",
    "tests/__pycache__/x.pyc": "x",
    "tests/case.yaml~": "x",
    ".git/config": "x",
    ".env": "SECRET=1",
    "dist/old.whl": "x",
}
CARRIED = [
    "L/MIT.txt",
    "PKG-INFO",
    "actions/work.yaml",
    "docs/R.md",
    "graphs/main.yaml",
    "provider.yaml",
    "pyproject.toml",
    "skills/s/SKILL.md",
    "skills/s/deep/é ü.txt",
    "skills/s/run.sh",
    "tests/case.yaml",
    "tests/deep/data.bin",
]


@pytest.fixture(autouse=True)
def no_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)


def make(path: Path, output: Path) -> Path:
    """The sdist of a source, in an empty folder."""
    with open_path(path) as opened:
        made = Path(make_sdist(survey(opened), output))
    assert os.listdir(output) == [made.name]
    return made


def refused(path: Path, output: Path, settings: Settings | None = None) -> BundlerError:
    """The error of an sdist that is not made, and leaves nothing."""
    with open_path(path) as opened, pytest.raises(BundlerError) as caught:
        make_sdist(survey(opened, settings), output)
    assert not output.exists()
    return caught.value


def members(sdist: Path) -> dict[str, tuple[tarfile.TarInfo, bytes]]:
    """Its files by path below its one folder."""
    found = {}
    with tarfile.open(sdist, "r:gz") as archive:
        for item in archive:
            assert item.isreg()
            root, _, path = item.name.partition("/")
            assert root == sdist.name.removesuffix(".tar.gz")
            data = archive.extractfile(item)
            assert data is not None
            found[path] = item, data.read()
    return found


def unpack(sdist: Path, folder: Path) -> Path:
    """The folder that it unpacks to."""
    with tarfile.open(sdist, "r:gz") as archive:
        archive.extractall(folder, filter="data")
    (root,) = folder.iterdir()
    return root


def wheel_of(path: Path, output: Path) -> bytes:
    """The bytes of the wheel of a source."""
    with open_path(path) as opened:
        return Path(make_wheel(opened, output).path).read_bytes()


def by_backend(root: Path, what: str, output: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """What our backend does in a folder, in a process of its own as a frontend has it."""
    output.mkdir(parents=True, exist_ok=True)
    code = f"import sys; from bundler.backend import build_{what}; print(build_{what}(sys.argv[1]))"
    return subprocess.run(
        [sys.executable, "-c", code, str(output)],
        cwd=root,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_is_in_it(tmp_path: Path) -> None:
    root = write_out(FULL, tmp_path / "p")
    (root / "skills/s/run.sh").chmod(0o711)
    (root / "tests/deep/data.bin").chmod(0o4600)
    sdist = make(root, tmp_path / "dist")
    assert sdist.name == NAME
    assert sdist.stat().st_mode & 0o7777 == 0o644
    found = members(sdist)
    assert list(found) == CARRIED
    for path, (item, data) in found.items():
        assert item.mode == (0o755 if path == "skills/s/run.sh" else 0o644)
        assert (item.uid, item.gid, item.uname, item.gname, item.mtime) == (0, 0, "", "", 1_580_601_600)
        if path != "PKG-INFO":
            assert data == (root / path).read_bytes()
    text = found["PKG-INFO"][1].decode()
    assert text.startswith("Metadata-Version: 2.4\nName: agent-graph-provider-acme-demo\nVersion: 0.1.0\n")
    assert text.endswith("# read\n")


def test_a_source_without_a_pyproject_gets_one(tmp_path: Path) -> None:
    root = write_out(minimal() | {"LICENSE": "text", "tests/a.yaml": "x"}, tmp_path / "p")
    found = members(make(root, tmp_path / "dist"))
    names = ["LICENSE", "PKG-INFO", "actions/work.yaml", "graphs/main.yaml", "provider.yaml"]
    assert list(found) == [*names, "pyproject.toml", "tests/a.yaml"]
    assert 'build-backend = "bundler.backend"' in found["pyproject.toml"][1].decode()
    assert "tool" not in found["pyproject.toml"][1].decode()


@pytest.mark.parametrize("files", [FULL, minimal() | {"LICENSE": "x"}], ids=["full", "minimal"])
def test_built_from_it_wheel_and_sdist_are_the_same(files: Files, tmp_path: Path) -> None:
    root = write_out(files, tmp_path / "p")
    sdist = make(root, tmp_path / "dist")
    unpacked = unpack(sdist, tmp_path / "unpacked")
    expected = wheel_of(root, tmp_path / "wheel")
    done = by_backend(unpacked, "wheel", tmp_path / "from-sdist")
    assert done.returncode == 0, done.stderr
    name = done.stdout.strip()
    assert os.listdir(tmp_path / "from-sdist") == [name] == os.listdir(tmp_path / "wheel")
    assert (tmp_path / "from-sdist" / name).read_bytes() == expected
    done = by_backend(unpacked, "sdist", tmp_path / "again")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "again" / NAME).read_bytes() == sdist.read_bytes()


@pytest.mark.parametrize("name", ["acme.yaml", 'a "b" é #.yaml'])
def test_a_manifest_of_another_name(name: str, tmp_path: Path) -> None:
    """It keeps its name; without a pyproject.toml the one that is made says it."""
    files = minimal()
    files[name] = files.pop("provider.yaml")
    root = write_out(files, tmp_path / "p")
    sdist = make(root / name, tmp_path / "dist")
    assert name in members(sdist)
    assert "provider.yaml" not in members(sdist)
    done = by_backend(unpack(sdist, tmp_path / "unpacked"), "wheel", tmp_path / "from-sdist")
    assert done.returncode == 0, done.stderr
    expected = wheel_of(root / name, tmp_path / "wheel")
    assert (tmp_path / "from-sdist" / done.stdout.strip()).read_bytes() == expected
    # With one, that has to say it.
    (root / "pyproject.toml").write_text(BACKEND)
    error = refused(root / name, tmp_path / "dist2")
    assert error.code == "wheel-settings-invalid"
    assert "manifest is not set, which means provider.yaml; the wheel is made from " in error.message
    quoted = name.replace('"', '\\"')
    (root / "pyproject.toml").write_text(f'{BACKEND}[tool.agent-bundler]\nmanifest = "{quoted}"\n')
    assert (root / "pyproject.toml").read_bytes() == members(make(root / name, tmp_path / "dist3"))["pyproject.toml"][1]


@pytest.mark.parametrize(
    ("toml", "what"),
    [
        ("", 'build-backend is None; "bundler.backend" is expected'),
        ("build-system = 3\n", "build-backend is None"),
        ('[build-system]\nrequires = []\nbuild-backend = "hatchling.build"\n', "build-backend is 'hatchling.build'"),
        (f"{BACKEND}[project]\nname = 'x'\n", "has a [project] table"),
        (f"{BACKEND}[tool.agent-bundler]\nmanifest = 'other.yaml'\n", "manifest is other.yaml; the wheel is made from"),
    ],
)
def test_a_pyproject_that_would_build_something_else(toml: str, what: str, tmp_path: Path) -> None:
    root = write_out(minimal() | {"pyproject.toml": toml, "other.yaml": "x"}, tmp_path / "p")
    error = refused(root, tmp_path / "dist")
    assert error.code == "wheel-settings-invalid"
    assert what in error.message


def test_settings_that_the_source_does_not_say(tmp_path: Path) -> None:
    root = write_out(minimal(), tmp_path / "p")
    error = refused(root, tmp_path / "dist", Settings(version="7"))
    assert error.code == "wheel-settings-invalid"
    assert "is not what the wheel is made with" in error.message
    (root / "LICENSE").write_text("x")
    assert refused(root, tmp_path / "dist", Settings()).code == "wheel-settings-invalid"


def test_the_same_bytes_from_copies_of_one_source(tmp_path: Path) -> None:
    first = write_out(FULL, tmp_path / "first")
    (first / "skills/s/run.sh").chmod(0o755)
    expected = make(first, tmp_path / "dist").read_bytes()
    environments: list[Mapping[str, str]] = [
        {"TZ": "Asia/Kolkata", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONHASHSEED": "1"},
        {"TZ": "America/New_York", "PIP_BUILD_TRACKER": str(tmp_path), "HATCH_BUILD_CLEAN": "1", "PYTHONHASHSEED": "2"},
    ]
    for number, environment in enumerate(environments):
        root = write_out(dict(reversed(FULL.items())), tmp_path / f"copy {number}" / "é")
        (root / "skills/s/run.sh").chmod(0o711)
        (root / "tests/case.yaml").chmod(0o600)
        (root / ".gitignore").write_text("*\n")
        for file in root.rglob("*"):
            os.utime(file, (number * 1e8, number * 1e8))
        done = by_backend(root, "sdist", tmp_path / f"out{number}", **environment)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{NAME}\n"
        assert os.listdir(tmp_path / f"out{number}") == [NAME]
        assert (tmp_path / f"out{number}" / NAME).read_bytes() == expected


@pytest.mark.parametrize(
    ("text", "in_gzip", "in_tar"),
    [
        ("0", 315_532_800, 315_532_800),
        ("1700000000", 1_700_000_000, 1_700_000_000),
        ("99999999999", 2**32 - 1, 4_354_819_198),
    ],
)
def test_source_date_epoch(
    text: str, in_gzip: int, in_tar: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", text)
    sdist = make(write_out(minimal(), tmp_path / "p"), tmp_path / "dist")
    assert int.from_bytes(sdist.read_bytes()[4:8], "little") == in_gzip
    assert {item.mtime for item, _ in members(sdist).values()} == {in_tar}
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    assert refused(tmp_path / "p", tmp_path / "dist2").code == "option-invalid"


def test_links_of_the_source_are_files_in_it(tmp_path: Path) -> None:
    root = write_out(with_files(minimal(), {"real/x": "x", "one": ""}), tmp_path / "p")
    (root / "one").unlink()
    (root / "one").symlink_to("real/x")
    (root / "tests").symlink_to("real", target_is_directory=True)
    (root / "LICENSE").symlink_to("real/x")
    sdist = make(root, tmp_path / "dist")
    found = members(sdist)
    assert {path: found[path][1] for path in ("one", "real/x", "tests/x", "LICENSE")} == dict.fromkeys(
        ("one", "real/x", "tests/x", "LICENSE"), b"x"
    )
    unpacked = unpack(sdist, tmp_path / "unpacked")
    assert wheel_of(unpacked, tmp_path / "1") == wheel_of(root, tmp_path / "2")


def test_what_can_not_be_carried_of_the_tests_is_told(tmp_path: Path) -> None:
    root = write_out(minimal() | {"tests/a": "x"}, tmp_path / "p")
    (root / "tests/out").symlink_to("/etc/hostname")
    (root / "tests/gone").symlink_to("nothing")
    os.mkfifo(root / "tests/fifo")
    with open_path(root) as opened, pytest.raises(BundlerError) as caught:
        make_sdist(survey(opened), tmp_path / "dist")
    assert {each.path for each in caught.value.diagnostics} == {"tests/out", "tests/gone", "tests/fifo"}
    assert not (tmp_path / "dist").exists()


def test_a_file_called_tests_is_none(tmp_path: Path) -> None:
    root = write_out(minimal() | {"tests": "a file"}, tmp_path / "p")
    assert "tests" not in members(make(root, tmp_path / "dist"))
    root = write_out(with_files(minimal(), {"tests": "a file"}), tmp_path / "carried")
    assert members(make(root, tmp_path / "dist2"))["tests"][1] == b"a file"


@pytest.mark.parametrize("path", ["PKG-INFO", "PKG-INFO/x"])
def test_a_carried_file_in_the_place_of_the_metadata(path: str, tmp_path: Path) -> None:
    root = write_out(with_files(minimal(), {path: "mine"}), tmp_path / "p")
    error = refused(root, tmp_path / "dist")
    assert error.code == "build-generated-name-clash"
    assert f"`{path}` belongs into the sdist" in error.message
    assert error.hint == "rename the file: the build writes a file of that name itself"
    # The wheel has room for it.
    assert wheel_of(root, tmp_path / "wheel")


def test_a_pkg_info_that_nothing_names_is_left_out(tmp_path: Path) -> None:
    """It lies in every unpacked sdist."""
    root = write_out(minimal() | {"PKG-INFO": "old"}, tmp_path / "p")
    assert members(make(root, tmp_path / "dist"))["PKG-INFO"][1].startswith(b"Metadata-Version")


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["pkg-info"], "path-collision"),
        (["tests/a", "tests/A"], "path-collision"),
        (["tests/con.yaml"], "path-not-portable"),
        (["tests/a\nb"], "path-not-portable"),
        ([os.fsdecode(b"tests/\xff")], "path-not-portable"),
    ],
)
def test_names_that_some_system_can_not_unpack(names: list[str], code: str, tmp_path: Path) -> None:
    files = minimal() if names[0].startswith("tests/") else with_files(minimal(), dict.fromkeys(names, ""))
    root = write_out({**files, **dict.fromkeys(names, "x")}, tmp_path / "p")
    assert refused(root, tmp_path / "dist").code == code


def test_a_manifest_whose_name_some_system_can_not_hold(tmp_path: Path) -> None:
    root = write_out(minimal(), tmp_path / "p")
    os.rename(root / "provider.yaml", os.fsencode(root) + b"/\xff.yaml")
    assert refused(root / os.fsdecode(b"\xff.yaml"), tmp_path / "dist").code == "path-not-portable"


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("x", "after!"),
        ("x", "later and longer"),
        ("x", ""),
        ("provider.yaml", "# another\n"),
        ("actions/work.yaml", "# another\n"),
    ],
)
def test_a_source_that_changes(path: str, data: str, tmp_path: Path) -> None:
    root = write_out(with_files(minimal(), {"x": "before"}), tmp_path / "p")
    with open_path(root) as opened:
        content = survey(opened)
        (root / path).write_text(data)
        with pytest.raises(BundlerError) as caught:
            make_sdist(content, tmp_path / "new" / "dist")
    assert caught.value.code == "wheel-source-changed"
    assert f"`{path}` has changed" in caught.value.message
    assert os.listdir(tmp_path) == ["p"]


def test_a_license_or_readme_that_changes(tmp_path: Path) -> None:
    for path in ("L/MIT.txt", "docs/R.md", "pyproject.toml"):
        root = write_out(FULL, tmp_path / "p")
        with open_path(root) as opened:
            content = survey(opened)
            (root / path).write_text(f"{BACKEND}# other")
            with pytest.raises(BundlerError) as caught:
                make_sdist(content, tmp_path / "dist")
        assert caught.value.code == "wheel-settings-invalid"
        assert not (tmp_path / "dist").exists()


def test_a_large_file_that_gets_shorter_while_it_is_read(tmp_path: Path) -> None:
    """The first chunk is read, then the file is cut."""
    from bundler.wheel.sdist import _Stream

    root = write_out(with_files(minimal(), {"x": b"x" * 3_000_000}), tmp_path / "p")
    with open_path(root) as opened, opened.tree.open("x") as reader:
        stream = _Stream(reader)
        assert len(stream.read(1000)) == 1000
        os.truncate(root / "x", 2000)
        with pytest.raises(BundlerError) as caught:
            stream.read()
    assert caught.value.code == "wheel-source-changed"


def test_from_a_bundle_it_holds_the_bundles_files(tmp_path: Path) -> None:
    root = write_out(FULL, tmp_path / "p")
    manifest = build_from(root, tmp_path / "bundle")
    sdist = make(tmp_path / "bundle", tmp_path / "dist")
    assert set(members(sdist)) == {*manifest.files, "PKG-INFO", "pyproject.toml"}
    unpacked = unpack(sdist, tmp_path / "unpacked")
    assert wheel_of(unpacked, tmp_path / "1") == wheel_of(tmp_path / "bundle", tmp_path / "2")


def test_where_it_is_written(tmp_path: Path) -> None:
    root = write_out(FULL, tmp_path / "p")
    with open_path(root) as opened:
        content = survey(opened)
        assert sorted([*sdist_files(content), "PKG-INFO"]) == CARRIED
        with pytest.raises(BundlerError) as caught:
            make_sdist(content, root / "skills/s/dist")
        assert caught.value.code == "build-output-overlaps-source"
        (tmp_path / "file").write_text("x")
        with pytest.raises(BundlerError) as caught:
            make_sdist(content, tmp_path / "file")
        assert caught.value.code == "output-write-failed"
        (tmp_path / "dist" / NAME / "x").mkdir(parents=True)
        with pytest.raises(BundlerError) as caught:
            make_sdist(content, tmp_path / "dist")
        assert caught.value.code == "output-write-failed"
        assert os.listdir(tmp_path / "dist") == [NAME]
        shutil.rmtree(tmp_path / "dist" / NAME)
        (tmp_path / "dist" / NAME).write_text("old")
        (tmp_path / "dist" / "other").write_text("x")
        made = make_sdist(content, tmp_path / "dist")
    assert sorted(os.listdir(tmp_path / "dist")) == [NAME, "other"]
    assert list(members(Path(made))) == CARRIED


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        (f"{BACKEND}[project]\nname = 'x'\n", "error[wheel-settings-invalid] pyproject.toml has a [project] table"),
        (f"{BACKEND}[tool.agent-bundler]\nversion = 1\n", "error[wheel-settings-invalid] pyproject.toml: "),
        (f"{BACKEND}[tool.agent-bundler]\nmanifest = '.'\n", "error[wheel-settings-invalid] pyproject.toml: "),
        (f"{BACKEND}[", "error[parse-failed] pyproject.toml is not valid TOML"),
        (f"{BACKEND}[tool.agent-bundler]\nmanifest = 'none.yaml'\n", "error[file-missing] "),
    ],
)
def test_the_backend_tells_errors_without_a_traceback(toml: str, told: str, tmp_path: Path) -> None:
    root = write_out(minimal() | {"pyproject.toml": toml}, tmp_path / "p")
    done = by_backend(root, "sdist", tmp_path / "out")
    assert done.returncode == 1
    assert told in done.stderr
    assert "remedy: " in done.stderr
    assert "Traceback" not in done.stderr
    assert os.listdir(tmp_path / "out") == []
