"""What pip and uv installed, as they left it and with every kind of harm done to it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from bundler.bundle.digests import digest_of_file
from bundler.errors import BundlerError
from bundler.runtime.open import open_provider
from bundler.tree import DirectoryTree
from bundler.wheel import installed_check
from bundler.wheel.installed import InstalledProvider, choose, duplicates, list_installed, shadow_notes
from bundler.wheel.installed_check import check_neighbours, verified_install

from ..cli.run import Result, agent_bundler, in_process
from ..installs import (
    BUNDLE,
    INFO,
    MODULE,
    PIP,
    add_row,
    as_another_user,
    drop_row,
    faults,
    install,
    record_row,
    replace_consistently,
    wheel,
)

ID = "acme/demo"
REFERENCE = f"provider:{ID}"
CACHE = f"{BUNDLE}/scripts/__pycache__"
TAG = sys.implementation.cache_tag
PYC = f"{CACHE}/check.{TAG}.pyc"
SBOM = f"{INFO}/sboms/bundle.cdx.json"

Change = Callable[[Path], object]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder into which pip installed the Provider."""
    return install(tmp_path / "site")


def only(site: Path) -> InstalledProvider:
    (found,) = list_installed([str(site)])
    return found


def problem(site: Path) -> str | None:
    found = only(site)
    return None if found.problem is None else found.problem.code


def replaced(site: Path, path: str, old: str, new: str) -> None:
    text = (site / path).read_text()
    assert old in text
    (site / path).write_text(text.replace(old, new, 1))


def answer(*arguments: str) -> dict[str, object]:
    result = agent_bundler(*arguments, "--format", "json")
    assert (result.status, result.err) == (0, "")
    value: dict[str, object] = json.loads(result.out)
    return value


# --- as installers leave it -------------------------------------------------------------------------------


@pytest.mark.parametrize(("installer", "compiled"), [("pip", 2), ("uv", 0)])
def test_what_was_installed_is_listed_and_verifies(tmp_path: Path, installer: str, compiled: int) -> None:
    site = install(tmp_path / "site", "demo", "other", installer=installer)
    found = list_installed([str(site)])
    assert [(each.id, each.distribution, each.version, each.problem) for each in found] == [
        (ID, "agent-graph-provider-acme-demo", "0.1.0", None),
        ("acme/other", "agent-graph-provider-acme-other", "0.1.0", None),
    ]
    assert [each.digest for each in found] == [wheel("demo").digest, wheel("other").digest]
    assert [each.root for each in found] == [str(site / BUNDLE), str(site / BUNDLE).replace("demo", "other")]
    for each, name in zip(found, ("demo", "other"), strict=True):
        with verified_install(each) as install_:
            assert (install_.bundle.digest, install_.identity) == (wheel(name).digest, wheel(name).identity)
            assert len(install_.bytecode) == compiled
            assert (install_.requires, install_.recalled) == ((), False)
    assert check_neighbours(found, path=[str(site)]) == []


def test_commands_on_an_install(site: Path) -> None:
    value = answer("list", "--path", str(site))
    assert value == {
        "providers": [
            {
                "id": ID,
                "state": "installed",
                "distribution": "agent-graph-provider-acme-demo",
                "version": "0.1.0",
                "location": str(site),
                "root": str(site / BUNDLE),
                "digest": wheel().digest,
                "claimed": [],
            }
        ]
    }
    human = agent_bundler("list", "--path", str(site)).out
    assert human.splitlines() == [
        f"{ID}: agent-graph-provider-acme-demo 0.1.0 in {site}",
        f"  not verified; it says that it is {wheel().digest}",
    ]
    value = answer("verify", "--installed", ID, "--path", str(site))
    assert (value["state"], value["trusted"]) == ("consistent", False)
    assert value["bundles"] == [
        {
            "path": str(site / BUNDLE),
            "kind": "installed",
            "provider": {"id": ID, "version": "0.1.0"},
            "files": 6,
            "digest": wheel().digest,
            "trust": {
                "state": "consistent",
                "reason": "it is not signed, and no policy was given",
                "signers": [],
                "claimed": [],
            },
            "distribution": "agent-graph-provider-acme-demo",
            "version": "0.1.0",
            "declared": [],
            "requires": [],
            "bytecode": [f"scripts/__pycache__/{name}.{TAG}.pyc" for name in ("check", "lib")],
        }
    ]
    human = agent_bundler("verify", "--installed", "--path", str(site)).out
    assert "consistent, not trusted (it is not signed, and no policy was given)" in human
    assert "2 files of bytecode beside scripts, for which nothing vouches" in human


def test_commands_where_nothing_is_installed(tmp_path: Path) -> None:
    empty = str(tmp_path)
    for command in (("list",), ("verify", "--installed")):
        assert agent_bundler(*command, "--path", empty) == Result(0, f"no Provider is installed in {empty}\n", "")
    assert answer("list", "--path", empty) == {"providers": []}
    assert answer("verify", "--installed", "--path", empty)["bundles"] == []
    result = agent_bundler("verify", "--installed", "acme/demi", "--path", empty)
    assert (result.status, "no Provider `acme/demi` is installed; installed: none" in result.err) == (1, True)


def test_a_misspelt_id_is_told_with_what_is_installed(site: Path) -> None:
    result = agent_bundler("verify", "--installed", "acme/demi", "--path", str(site))
    assert (result.status, result.out) == (1, "")
    assert "error[provider-not-installed]" in result.err
    assert "acme/demo" in result.err


@pytest.mark.parametrize(
    "arguments", [("verify", "--path", "."), ("-m", "x", "verify", "--installed"), ("list", "surplus")]
)
def test_usage(arguments: tuple[str, ...]) -> None:
    assert agent_bundler(*arguments).status == 2


def test_nothing_of_it_is_imported_or_run(site: Path) -> None:
    """A start.py that would leave a mark lies wherever an import could take it from."""
    mark = site / "mark"
    for place in (site / "agent_graph_providers", site / MODULE):
        (place / "__init__.py").write_text(f"open({str(mark)!r}, 'w')\n")
    code = (
        "import sys; from bundler.cli.main import run\n"
        "run(['list', '--path', sys.argv[1]]); run(['verify', '--installed', '--path', sys.argv[1]])\n"
        "sys.exit(any(name.startswith('agent_graph_providers') for name in sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(site)], env={**os.environ, "PYTHONPATH": f"{os.getcwd()}:{site}"}, check=False
    )
    assert (done.returncode, mark.exists()) == (0, False)


# --- bytecode ---------------------------------------------------------------------------------------------


def bytecode(site: Path) -> tuple[str, ...]:
    with open_provider(REFERENCE, path=[str(site)]) as opened:
        return opened.bytecode


def test_bytecode_of_scripts_is_passed_over_and_told(site: Path) -> None:
    (site / PYC).write_bytes(b"other bytecode")
    (site / CACHE / "check.pypy310-v2.pyc").write_bytes(b"of another Python")
    assert bytecode(site) == tuple(
        f"scripts/__pycache__/{name}.pyc" for name in (f"check.{TAG}", "check.pypy310-v2", f"lib.{TAG}")
    )


def test_optimized_bytecode(site: Path) -> None:
    for flag in ("-O", "-OO"):
        subprocess.run([sys.executable, flag, "-m", "compileall", "-q", str(site / BUNDLE)], check=True)
    assert len(bytecode(site)) == 6
    assert f"scripts/__pycache__/lib.{TAG}.opt-2.pyc" in bytecode(site)


def test_bytecode_that_is_gone(site: Path) -> None:
    for file in (site / CACHE).iterdir():
        file.unlink()
    assert bytecode(site) == ()  # what removes bytecode leaves its folder
    (site / CACHE).rmdir()
    assert bytecode(site) == ()


def planted(path: str) -> Change:
    def change(site: Path) -> None:
        (site / path).parent.mkdir(exist_ok=True)
        (site / path).write_bytes((site / PYC).read_bytes())

    return change


def linked(path: str, target: str) -> Change:
    """A link in the place of a file or folder, to its content in another place."""

    def change(site: Path) -> None:
        place = site / path
        away = site / target
        if place.exists():
            away.parent.mkdir(parents=True, exist_ok=True)
            place.rename(away)
        place.symlink_to(os.path.relpath(away, place.parent))

    return change


BYTECODE: dict[str, Change] = {
    "of no script": planted(f"{CACHE}/evil.{TAG}.pyc"),
    "without a tag": planted(f"{CACHE}/check.pyc"),
    "with an empty tag": planted(f"{CACHE}/check..pyc"),
    "of an optimization without a tag": planted(f"{CACHE}/check.opt-1.pyc"),
    "of a script in another folder": planted(f"{BUNDLE}/graphs/__pycache__/check.{TAG}.pyc"),
    "beside the script": planted(f"{BUNDLE}/scripts/check.pyc"),
    "beside the script, with a tag": planted(f"{BUNDLE}/scripts/check.{TAG}.pyc"),
    "that is half written": planted(f"{PYC}.12345"),
    "one folder deeper": planted(f"{CACHE}/__pycache__/check.{TAG}.pyc"),
    "that is a folder": lambda site: [(site / PYC).unlink(), (site / PYC).mkdir()],
    "with a folder beside": lambda site: (site / CACHE / "folder").mkdir(),
    "with a script beside": lambda site: (site / CACHE / "evil.py").write_text("evil"),
    "of a script that is gone": lambda site: (site / BUNDLE / "scripts/check.py").unlink(),
    "that is a link inside": linked(PYC, f"{CACHE}/lib.{TAG}.pyc.moved"),
    "that is a link outside": linked(PYC, "../elsewhere.pyc"),
    "in a folder that is a link": linked(CACHE, "../elsewhere"),
    "that is a FIFO": lambda site: [(site / PYC).unlink(), os.mkfifo(site / PYC)],
    "in an empty folder without scripts": lambda site: (site / BUNDLE / "graphs/__pycache__").mkdir(),
}


@pytest.mark.parametrize("name", BYTECODE)
def test_bytecode_that_is_refused(site: Path, name: str) -> None:
    BYTECODE[name](site)
    found = faults(REFERENCE, site)
    assert found[0] == ("file-missing" if "gone" in name else "bundle-files-mismatch")
    assert agent_bundler("verify", "--installed", "--path", str(site)).status == 1


# --- the bundle -------------------------------------------------------------------------------------------


def flipped(path: str) -> Change:
    def change(site: Path) -> None:
        data = bytearray((site / path).read_bytes())
        data[len(data) // 2] ^= 1
        (site / path).write_bytes(data)

    return change


def instead(path: str, make: Callable[[Path], object]) -> Change:
    def change(site: Path) -> None:
        (site / path).unlink()
        make(site / path)

    return change


def listens(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        before = os.getcwd()
        os.chdir(place.parent)  # such a name has room for a hundred characters
        made.bind(place.name)
        os.chdir(before)


def nothing(site: Path) -> None:
    """The install as it is."""


DATA = f"{BUNDLE}/data.txt"
FILES: dict[str, tuple[Change, str]] = {
    "byte": (flipped(DATA), "bundle-file-digest-mismatch"),
    "byte of a script": (flipped(f"{BUNDLE}/scripts/lib.py"), "bundle-file-digest-mismatch"),
    "byte of provider.yaml": (flipped(f"{BUNDLE}/provider.yaml"), "bundle-file-digest-mismatch"),
    "removed": (lambda site: (site / DATA).unlink(), "file-missing"),
    "renamed": (lambda site: (site / DATA).rename(site / f"{BUNDLE}/Data.txt"), "file-missing"),
    "added": (lambda site: (site / BUNDLE / "more.txt").write_text(""), "bundle-files-mismatch"),
    "added and recorded": (
        lambda site: [(site / BUNDLE / "more.txt").write_text(""), record_row(site, f"{BUNDLE}/more.txt")],
        "bundle-files-mismatch",
    ),
    "folder added": (lambda site: (site / BUNDLE / "more").mkdir(), "bundle-files-mismatch"),
    "FIFO": (instead(DATA, os.mkfifo), "file-missing"),
    "socket": (instead(DATA, listens), "file-missing"),
    "device": (instead(DATA, lambda place: place.symlink_to("/dev/zero")), "path-symlink-outside-provider"),
    "folder": (instead(DATA, Path.mkdir), "file-missing"),
    "link inside the bundle": (linked(DATA, f"{BUNDLE}/actions/data.txt"), "bundle-files-mismatch"),
    "link inside the location": (linked(DATA, "moved.txt"), "path-symlink-outside-provider"),
    "link outside": (linked(DATA, "../moved.txt"), "path-symlink-outside-provider"),
    "link to nothing": (instead(DATA, lambda place: place.symlink_to("none")), "file-missing"),
    "link to itself": (instead(DATA, lambda place: place.symlink_to("data.txt")), "file-missing"),
    "the bundle is a link": (linked(BUNDLE, "moved"), "installed-broken"),
    "its folder is a link": (linked(MODULE, "moved"), "installed-broken"),
    "the namespace is a link": (linked("agent_graph_providers", "moved"), "installed-broken"),
    "the bundle is a link outside": (linked(BUNDLE, "../moved"), "installed-broken"),
    "replaced with its manifest": (
        lambda site: replace_consistently(site, "data.txt", b"other"),
        "wheel-record-mismatch",
    ),
    "code beside the bundle": (
        lambda site: (site / MODULE / "__init__.py").write_text(""),
        "wheel-content-foreign",
    ),
    "recorded code beside the bundle": (
        lambda site: [(site / MODULE / "__init__.py").write_text(""), record_row(site, f"{MODULE}/__init__.py")],
        "wheel-content-foreign",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_changed_bundle_is_refused(site: Path, name: str) -> None:
    change, code = FILES[name]
    assert faults(REFERENCE, site) == []
    change(site)
    assert faults(REFERENCE, site)[0] == code


def test_what_is_changed_consistently_is_consistent_and_no_more(site: Path) -> None:
    replace_consistently(site, "data.txt", b"other")
    assert set(faults(REFERENCE, site)) == {"wheel-record-mismatch", "wheel-identity-mismatch"}
    for path in ("data.txt", "manifest.json"):
        record_row(site, f"{BUNDLE}/{path}")
    assert faults(REFERENCE, site) == ["wheel-identity-mismatch"]  # the SBOM is of another bundle
    now = json.loads((site / BUNDLE / "manifest.json").read_bytes())["digest"]
    text = (site / SBOM).read_text().replace(wheel().digest.partition(":")[2], now.partition(":")[2])
    (site / SBOM).write_text(text)
    record_row(site, SBOM)
    assert faults(REFERENCE, site) == []
    value = answer("verify", "--installed", "--path", str(site))
    assert (value["state"], value["trusted"]) == ("consistent", False)
    assert now != wheel().digest


def test_swapped_bundles(tmp_path: Path) -> None:
    site = install(tmp_path / "site", "demo", "other")
    ours, theirs = site / BUNDLE, site / BUNDLE.replace("demo", "other")
    ours.rename(tmp_path / "kept")
    theirs.rename(ours)
    (tmp_path / "kept").rename(theirs)
    for reference in (REFERENCE, "provider:acme/other"):
        found = faults(reference, site)
        assert found[0] == "wheel-record-mismatch"
        assert "wheel-identity-mismatch" in found


# --- the .dist-info folder --------------------------------------------------------------------------------


def wrote(path: str, text: str | bytes) -> Change:
    return lambda site: (site / path).write_bytes(text.encode() if isinstance(text, str) else text)


def edited(path: str, old: str, new: str, *, recorded: bool = False) -> Change:
    def change(site: Path) -> None:
        replaced(site, path, old, new)
        if recorded:
            record_row(site, path)

    return change


def two(*changes: Change) -> Change:
    return lambda site: [change(site) for change in changes]


METADATA, WHEEL, POINTS, RECORD = (f"{INFO}/{name}" for name in ("METADATA", "WHEEL", "entry_points.txt", "RECORD"))
INFOS: dict[str, tuple[Change, str]] = {
    "METADATA": (edited(METADATA, "\nSummary: ", "\nSummary: x"), "wheel-record-mismatch"),
    "METADATA's version": (edited(METADATA, "\nVersion: 0.1.0", "\nVersion: 0.1.1", recorded=True), "wheel-identity"),
    "METADATA's name": (edited(METADATA, "acme-demo", "acme-other", recorded=True), "wheel-identity"),
    "METADATA is binary": (wrote(METADATA, b"\xff\xfe\x00"), "installed-broken"),
    "METADATA is empty": (wrote(METADATA, b""), "installed-broken"),
    "METADATA is huge": (lambda site: os.truncate(site / METADATA, 1 << 33), "installed-broken"),
    "METADATA is a FIFO": (instead(METADATA, os.mkfifo), "installed-broken"),
    "METADATA is a link outside": (linked(METADATA, "../moved"), "installed-broken"),
    "WHEEL": (edited(WHEEL, "hatchling", "x"), "wheel-record-mismatch"),
    "WHEEL's purelib": (edited(WHEEL, "true", "false", recorded=True), "wheel-metadata-invalid"),
    "WHEEL is gone": (lambda site: (site / WHEEL).unlink(), "wheel-metadata-invalid"),
    "another id": (edited(POINTS, ID, "acme/evil"), "wheel-record-mismatch"),
    "another id, recorded": (edited(POINTS, ID, "acme/evil", recorded=True), "wheel-identity-mismatch"),
    "another module": (edited(POINTS, "p_acme_demo", "p_acme_evil", recorded=True), "installed-broken"),
    "a module elsewhere": (edited(POINTS, "agent_graph_providers.p_acme_demo", "os.path"), "installed-broken"),
    "a command": (edited(POINTS, "[", "[console_scripts]\nx = os:abort\n\n[", recorded=True), "installed-broken"),
    "a second Provider": (edited(POINTS, "\n", "\nacme/more = agent_graph_providers.p_more\n"), "installed-broken"),
    "the SBOM": (edited(SBOM, "0.1.0", "0.1.1"), "wheel-record-mismatch"),
    "the SBOM, recorded": (
        edited(SBOM, '"version": "0.1.0"', '"version": "0.1.1"', recorded=True),
        "wheel-identity-mismatch",
    ),
    "the SBOM is gone": (lambda site: (site / SBOM).unlink(), "wheel-record-mismatch"),
    "the SBOM and its row are gone": (
        lambda site: [(site / SBOM).unlink(), drop_row(site, SBOM)],
        "wheel-identity-mismatch",
    ),
    "INSTALLER": (wrote(f"{INFO}/INSTALLER", "other"), "wheel-record-mismatch"),
    "RECORD is gone": (lambda site: (site / RECORD).unlink(), "wheel-record-mismatch"),
    "RECORD is binary": (wrote(RECORD, b"\xff\x00"), "wheel-record-mismatch"),
    "RECORD is empty": (wrote(RECORD, b""), "wheel-record-mismatch"),
    "RECORD is a FIFO": (instead(RECORD, os.mkfifo), "file-missing"),
    "RECORD has no row of its own": (lambda site: drop_row(site, RECORD), "wheel-record-mismatch"),
    "a row is gone": (lambda site: drop_row(site, DATA), "wheel-record-mismatch"),
    "the manifest's row is gone": (lambda site: drop_row(site, f"{BUNDLE}/manifest.json"), "wheel-record-mismatch"),
    "a row without hash": (
        two(lambda site: drop_row(site, DATA), lambda site: add_row(site, f"{DATA},,")),
        "wheel-rec",
    ),
    "a row with a short hash": (lambda site: [drop_row(site, DATA), add_row(site, f"{DATA},sha256=x,1")], "wheel-rec"),
    "a row with md5": (lambda site: [drop_row(site, DATA), add_row(site, f"{DATA},md5=abc,1")], "wheel-record"),
    "a row twice": (lambda site: add_row(site, f"{DATA},,"), "wheel-record-mismatch"),
    "a row of two fields": (lambda site: add_row(site, "x,"), "wheel-record-mismatch"),
    "a row of a command": (lambda site: add_row(site, "../../bin/x,,"), "wheel-content-foreign"),
    "a row of a module": (lambda site: add_row(site, "other.py,,"), "wheel-content-foreign"),
    "a row of /etc": (lambda site: add_row(site, "/etc/hostname,,"), "wheel-content-foreign"),
    "a row of another Provider": (
        lambda site: add_row(site, f"{BUNDLE}/x.txt,,".replace("demo", "other")),
        "wheel-content-foreign",
    ),
    "a row of a bundle's file that is not there": (
        lambda site: add_row(site, f"{BUNDLE}/x.txt,,"),
        "wheel-content-foreign",
    ),
    "a row that leaves the folder": (
        lambda site: [
            (site.parent / "outside").write_text("x"),
            record_row(site, "../outside", as_path=f"{INFO}/../../outside"),
        ],
        "wheel-content-foreign",
    ),
    "a row that leaves its folder": (
        lambda site: [(site / "evil.py").write_text("x"), record_row(site, "evil.py", as_path=f"{INFO}/../evil.py")],
        "wheel-content-foreign",
    ),
    "a row in another spelling": (
        lambda site: record_row(site, METADATA, as_path=f"{INFO}/./METADATA"),
        "wheel-record-mismatch",
    ),
    "a row with a null character": (lambda site: add_row(site, f"{INFO}/a\0b,,"), "wheel-record-mismatch"),
    "a row of nothing": (lambda site: add_row(site, f"{INFO}/none,,"), "wheel-record-mismatch"),
    "a file without row": (wrote(f"{INFO}/more", "x"), "wheel-record-mismatch"),
    "a file whose row has no hash": (
        two(wrote(f"{INFO}/sboms/INSTALLER", "x"), lambda site: add_row(site, f"{INFO}/sboms/INSTALLER,,")),
        "wheel-record-mismatch",
    ),
    "a FIFO": (lambda site: os.mkfifo(site / INFO / "fifo"), "file-missing"),
    "a link outside": (lambda site: (site / INFO / "link").symlink_to("/etc/hostname"), "path-symlink-outside"),
    "a link to the whole": (lambda site: (site / INFO / "link").symlink_to(".."), "file-missing"),
}


@pytest.mark.parametrize("name", INFOS)
def test_a_changed_dist_info_folder_is_refused(site: Path, name: str) -> None:
    change, code = INFOS[name]
    change(site)
    provider_id = "acme/evil" if name.startswith("another id") else ID
    assert faults(f"provider:{provider_id}", site)[0].startswith(code)
    result = agent_bundler("verify", "--installed", "--path", str(site), "--format", "json")
    assert (result.status, result.out) == (1, "")
    assert any(each["code"].startswith(code) for each in json.loads(result.err)["error"]["diagnostics"])


def test_what_an_installer_may_leave_out_of_record(site: Path) -> None:
    drop_row(site, f"{INFO}/INSTALLER")
    add_row(site, f"{INFO}/INSTALLER,,")
    assert faults(REFERENCE, site) == []


def test_a_row_does_not_tell_what_lies_elsewhere(site: Path) -> None:
    """The digest of a file that the Provider has nothing to do with is in no message."""
    (site.parent / "secret").write_text("secret")
    with DirectoryTree(site.parent) as tree:
        digest = digest_of_file(tree, "secret")
    add_row(site, f"{INFO}/../../secret,sha256={'A' * 43},6")
    result = agent_bundler("verify", "--installed", "--path", str(site))
    assert (result.status, digest in result.err) == (1, False)


def test_what_changes_while_it_is_verified_is_refused(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = installed_check.verify_bundle

    def slow(tree: DirectoryTree) -> object:
        bundle = real(tree)
        (site / INFO / "REQUESTED").unlink()
        drop_row(site, f"{INFO}/REQUESTED")
        return bundle

    monkeypatch.setattr(installed_check, "verify_bundle", slow)
    with pytest.raises(BundlerError, match="changed while it was verified") as raised, verified_install(only(site)):
        pass
    assert raised.value.code == "wheel-record-mismatch"


def test_what_is_unreadable_is_told() -> None:
    with tempfile.TemporaryDirectory() as name:  # not pytest's folder: those above it are closed to other users
        folder = Path(name)
        folder.chmod(0o755)
        for path, code in (
            (DATA, "file-read-failed"),
            (f"{BUNDLE}/scripts", "file-read-failed"),
            (f"{BUNDLE}/manifest.json", "installed-broken"),
            (METADATA, "installed-broken"),
            (POINTS, "installed-broken"),
            (RECORD, "file-read-failed"),
            (INFO, "installed-broken"),
            ("agent_graph_providers", "installed-broken"),
        ):
            site = install(folder / path.replace("/", "-"))
            assert faults(REFERENCE, site) == []  # and all is imported that is imported where used
            (site / path).chmod(0)
            # Without its names nothing tells that the distribution is a Provider's, but its own name and folder.
            assert as_another_user(lambda site=site: faults(REFERENCE, site)[0]) == code, path  # type: ignore[misc]
            (site / path).chmod(0o755)


# --- installs that are broken -----------------------------------------------------------------------------


def without(*paths: str) -> Change:
    def change(site: Path) -> None:
        for path in paths:
            shutil.rmtree(site / path) if (site / path).is_dir() else (site / path).unlink()

    return change


def as_egg_info(site: Path) -> None:
    (site / INFO).rename(site / "acme_demo.egg-info")


def editable(site: Path) -> None:
    without("agent_graph_providers")(site)
    value = {"url": f"file://{site}", "dir_info": {"editable": True}}
    (site / INFO / "direct_url.json").write_text(json.dumps(value))


MANIFEST = f"{BUNDLE}/manifest.json"
BROKEN: dict[str, tuple[Change, str, str]] = {
    "no manifest.json": (without(MANIFEST), "installed-broken", "manifest.json is missing"),
    "no bundle": (without(BUNDLE), "installed-broken", "manifest.json is missing"),
    "no Provider": (without("agent_graph_providers"), "installed-broken", "manifest.json is missing"),
    "no METADATA": (without(METADATA), "installed-broken", "METADATA"),
    "no entry points": (without(POINTS), "installed-broken", "entry_points.txt` does not exist"),
    "empty entry points": (wrote(POINTS, ""), "installed-broken", "names no Provider"),
    "huge entry points": (lambda site: os.truncate(site / POINTS, 70_000), "installed-broken", "larger than"),
    "a FIFO of entry points": (instead(POINTS, os.mkfifo), "installed-broken", "is a FIFO"),
    "entry points outside": (linked(POINTS, "../moved"), "installed-broken", "outside"),
    "a .dist-info outside": (linked(INFO, "../moved"), "installed-broken", "outside"),
    "a .dist-info that loops": (two(without(INFO), linked(INFO, INFO)), "installed-broken", "loops"),
    "manifest.json is no JSON": (wrote(MANIFEST, "{"), "installed-broken", "is damaged"),
    "manifest.json is binary": (wrote(MANIFEST, b"\xff\x00"), "installed-broken", "is damaged"),
    "manifest.json is deep": (wrote(MANIFEST, "[" * 100_000), "installed-broken", "is damaged"),
    "manifest.json is a number": (wrote(MANIFEST, "9" * 5_000), "installed-broken", "is damaged"),
    "manifest.json is a list": (wrote(MANIFEST, "[]"), "installed-broken", "is damaged"),
    "manifest.json has no digest": (wrote(MANIFEST, "{}"), "installed-broken", "is damaged"),
    "the digest is a number": (wrote(MANIFEST, '{"digest": 1}'), "installed-broken", "is damaged"),
    "the digest says more": (
        wrote(MANIFEST, json.dumps({"digest": f"sha256:{'a' * 64}\nacme/demo: trusted"})),
        "installed-broken",
        "has no digest",
    ),
    "manifest.json is huge": (lambda site: os.truncate(site / MANIFEST, 1 << 33), "installed-broken", "larger than"),
    "manifest.json is a FIFO": (instead(MANIFEST, os.mkfifo), "installed-broken", "manifest.json is missing"),
    "an .egg-info": (as_egg_info, "installed-broken", "without a wheel"),
    "editable": (editable, "installed-editable", "editable install"),
    "a strange direct_url.json": (
        two(editable, wrote(f"{INFO}/direct_url.json", "[1]")),
        "installed-broken",
        "missing",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_install_is_told_and_never_passed_by(site: Path, tmp_path: Path, name: str) -> None:
    change, code, message = BROKEN[name]
    change(site)
    found = only(site)
    assert found.problem is not None
    assert (found.id, found.problem.code) == (ID, code)
    assert message in found.problem.message
    assert found.problem.hint
    assert str(site) in found.problem.message
    whole = install(tmp_path / "whole")
    path = [str(site), str(whole)]
    everything = list_installed(path)
    assert [each.problem is None for each in everything] == [False, True]
    # An .egg-info folder's name may be another distribution's: then two claim the id.
    with pytest.raises(BundlerError) as raised, open_provider(REFERENCE, path=path):
        pass
    assert raised.value.code == ("installed-provider-duplicate" if "egg" in name else code)
    human = agent_bundler("list", "--path", str(site))
    assert (human.status, human.out.count("\n"), f"  {code}: " in human.out) == (0, 2, True)
    value = answer("list", "--path", str(site))
    assert [each["state"] for each in value["providers"]] == ["broken"]  # type: ignore[attr-defined]
    assert agent_bundler("verify", "--installed", "--path", str(site)).status == 1


def test_a_bundle_without_dist_info_is_not_installed_and_is_told(site: Path) -> None:
    without(INFO)(site)
    assert list_installed([str(site)]) == []
    assert faults(REFERENCE, site) == ["provider-not-installed"]
    assert [each.code for each in check_neighbours([], path=[str(site)])] == ["installed-stray"]


def test_a_distribution_of_such_a_name_that_is_no_provider(tmp_path: Path) -> None:
    info = tmp_path / "agent_graph_provider_tools-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: agent-graph-provider-tools\nVersion: 1.0\n")
    assert list_installed([str(tmp_path)]) == []


def test_what_pip_left_when_it_was_killed_while_it_removed(site: Path) -> None:
    shutil.copytree(site / INFO, site / f"~{INFO[1:]}")
    assert only(site).problem is None
    assert faults(REFERENCE, site) == []


def test_an_upgrade_that_left_the_old_dist_info(tmp_path: Path) -> None:
    """As `pip install --target --upgrade` does."""
    site = install(tmp_path / "site", "demo", "newer", upgrade=True)
    found = list_installed([str(site)])
    assert [each.version for each in found] == ["0.1.0", "0.2.0"]
    for each in found:
        assert each.problem is not None
        assert each.problem.code == "installed-broken"
        assert "agent_graph_provider_acme_demo-0.2.0.dist-info lie there" in each.problem.message
    assert faults(REFERENCE, site) == ["installed-broken"]
    (shared,) = check_neighbours(found, path=[str(site)])
    assert (shared.code, "(and 8 more)" in shared.message) == ("installed-path-shared", True)
    without(INFO)(site)
    assert faults(REFERENCE, site) == []


def test_a_second_provider_that_pip_did_not_copy(site: Path) -> None:
    """`pip install --target` leaves out a folder that is there, with a warning only."""
    subprocess.run(
        [*PIP, "--no-index", "--no-deps", "--target", str(site), wheel("other").path],
        check=True,
        capture_output=True,
    )
    assert faults(REFERENCE, site) == []
    assert faults("provider:acme/other", site) == ["installed-broken"]
    assert "give pip all of them at once" in agent_bundler("list", "--path", str(site)).out


# --- archives on the path ---------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".whl", ".zip"])
def test_a_wheel_on_the_path(tmp_path: Path, ending: str) -> None:
    file = tmp_path / Path(wheel().path).with_suffix(ending).name
    shutil.copy(wheel().path, file)
    found = only(file)
    assert (found.id, found.version, found.digest, found.module) == (ID, "0.1.0", None, None)
    assert faults(REFERENCE, file) == ["installed-zipped"]
    result = agent_bundler("verify", "--installed", "--path", str(file))
    assert (result.status, "error[installed-zipped]" in result.err) == (1, True)
    assert answer("list", "--path", str(file))["providers"][0]["root"] is None  # type: ignore[index]


def test_archives_that_are_none(tmp_path: Path) -> None:
    data = Path(wheel().path).read_bytes()
    with zipfile.ZipFile(wheel().path) as archive:
        points = archive.getinfo(POINTS)
        start = points.header_offset + 30 + len(POINTS)
    broken = bytearray(data)
    broken[start : start + points.compress_size] = b"\xff" * points.compress_size
    encrypted = bytearray(data)
    at = data.rindex(POINTS.encode()) - 46
    encrypted[at + 8] |= 1
    contents = {"empty": b"", "text": b"text", "cut": data[:-100], "broken": bytes(broken), "locked": bytes(encrypted)}
    for name, content in contents.items():
        (tmp_path / f"{name}.whl").write_bytes(content)
    os.mkfifo(tmp_path / "fifo.whl")
    (tmp_path / "folder.whl").mkdir()
    (tmp_path / "device.whl").symlink_to("/dev/zero")
    assert list_installed(map(str, sorted(tmp_path.iterdir()))) == []


# --- the path ---------------------------------------------------------------------------------------------


def test_the_first_on_the_path_is_used_and_the_other_told(tmp_path: Path) -> None:
    first, second = install(tmp_path / "first", "newer"), install(tmp_path / "second")
    path = [str(first), str(second)]
    found = list_installed(path)
    assert [(each.version, each.shadowed_by) for each in found] == [("0.2.0", None), ("0.1.0", str(first))]
    assert [note.code for note in shadow_notes(found, choose(found, ID))] == ["installed-shadowed"]
    with open_provider(REFERENCE, path=path) as opened:
        assert (opened.provider.version, opened.digest) == ("0.2.0", wheel("newer").digest)
        (warning,) = opened.warnings
        assert (warning.code, warning.severity) == ("installed-shadowed", "warning")
        assert f"0.1.0 in {second} comes after it on the path" in warning.message
    with open_provider(REFERENCE, path=reversed(path)) as opened:
        assert opened.provider.version == "0.1.0"
    options = ("--path", str(first), "--path", str(second))
    lines = agent_bundler("list", *options).out.splitlines()
    assert lines[3] == f"  not used: the one in {first} comes first"
    states = [(each["state"], each.get("shadowedBy")) for each in answer("list", *options)["providers"]]  # type: ignore[attr-defined]
    assert states == [("installed", None), ("shadowed", str(first))]
    result = agent_bundler("verify", "--installed", *options, "--format", "json")
    assert (result.status, len(json.loads(result.out)["bundles"])) == (0, 1)
    assert json.loads(result.err)["code"] == "installed-shadowed"


def test_entries_of_the_path_that_hold_nothing(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "file.whl").write_text("")
    (tmp_path / "link").symlink_to(site)
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "fifo")
    names = ("none", "file", "file.whl", "fifo", "loop", "site", "link", "file/inside", "site/", "x" * 5000)
    strange = [str(tmp_path / name) for name in names]
    found = list_installed(["a\0b", *strange])
    assert [(each.location, each.shadowed_by) for each in found] == [(str(site), None)]
    monkeypatch.chdir(site)
    assert [each.location for each in list_installed(["", ".", str(site)])] == [str(site)]
    assert list_installed([]) == []


def test_the_current_folder_is_gone(site: Path, tmp_path: Path) -> None:
    code = (
        "import os, sys; from bundler.wheel.installed import list_installed\n"
        "os.mkdir(sys.argv[2]); os.chdir(sys.argv[2]); os.rmdir(sys.argv[2])\n"
        "print([each.id for each in list_installed(['', 'relative', sys.argv[1]])])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(site), str(tmp_path / "gone")], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("['acme/demo']\n", "")


def test_the_path_of_this_python(site: Path) -> None:
    result = in_process("list", "--format", "json", PYTHONPATH=f"{os.getcwd()}:{site}")
    assert [each["location"] for each in json.loads(result.out)["providers"]] == [str(site)]
    result = in_process("verify", "--installed", PYTHONPATH=f"{os.getcwd()}:{site}")
    assert (result.status, wheel().digest in result.out) == (0, True)
    result = in_process("verify", REFERENCE, PYTHONPATH=f"{os.getcwd()}:{site}")
    assert (result.status, wheel().digest in result.out) == (0, True)


def test_two_hundred_other_distributions(site: Path) -> None:
    """Whatever lies there, the Provider is found, nothing else is, and nothing waits."""
    group = "[agent_graph.providers]\n"
    for number in range(200):
        info = site / f"other_{number}-1.0.{'egg' if number % 7 == 0 else 'dist'}-info"
        info.mkdir()
        points, metadata = info / "entry_points.txt", info / "METADATA"
        metadata.write_text(f"Metadata-Version: 2.1\nName: other-{number}\nVersion: 1.0\n")
        match number % 10:
            case 0:
                points.write_bytes(os.urandom(1000))
            case 1:
                os.mkfifo(points)
            case 2:
                points.symlink_to("entry_points.txt")
            case 3:
                points.mkdir()
            case 4:
                points.write_text("[console_scripts]\nx = y:z\n" * 2000)
            case 5:
                points.write_text(f"# {group.strip()}\n[agent_graph.providers.more]\nx = y\n")
            case 6:
                points.write_text("[agent_graph.providers]\n[other]\na = b\n")
            case 7:
                metadata.unlink()
                os.mkfifo(metadata)
            case 8:
                os.truncate(metadata, 1 << 33)
            case 9:
                metadata.unlink()
                metadata.symlink_to("METADATA")
    (site / "file.dist-info").write_text("")
    (site / "loop.dist-info").symlink_to("loop.dist-info")
    (site / "above.dist-info").symlink_to("..")
    os.mkfifo(site / "fifo.dist-info")
    os.mkdir(os.fsencode(site) + b"/\xff\n-1.dist-info")
    assert only(site).problem is None
    assert faults(REFERENCE, site) == []
    assert check_neighbours([only(site)], path=[str(site)]) == []


def test_strange_distributions_that_claim_to_be_providers(site: Path) -> None:
    """What an author wrote is told on its own line, and breaks nothing."""
    group = "[agent_graph.providers]\n"
    names = {
        b"evil\nacme: fine\x1b[31m-1.dist-info": f"{group}acme/one = agent_graph_providers.p_x\n",
        b"\xff-\xff.dist-info": f"{group}acme/two = agent_graph_providers.p_x\n",
        b"three.dist-info": f"{group}\x1b[31m = agent_graph_providers.p_x\n",
        b"four-1.dist-info": f"{group}acme/four\n",
        b"five-1.dist-info": f"{group}acme/five = agent_graph_providers.p_x:object [extra]\n",
        b"six-1.dist-info": f"{group}= \n[\n]\n",
        b"-.dist-info": f"{group}{'a' * 60_000} = b\n",
    }
    for name, text in names.items():
        folder = os.fsencode(site) + b"/" + name
        os.mkdir(folder)
        Path(os.fsdecode(folder), "entry_points.txt").write_text(text)
    found = list_installed([str(site)])
    assert sum(each.problem is not None for each in found) == len(found) - 1 >= len(names)
    assert all(text.isprintable() for each in found for text in (each.id, each.distribution, each.version))
    assert faults(REFERENCE, site) == []
    for command in (("list",), ("verify", "--installed")):
        result = agent_bundler(*command, "--path", str(site))
        assert "\x1b" not in result.out
        assert not any(line.startswith("acme: fine") for line in (result.out + result.err).splitlines())
        assert agent_bundler(*command, "--path", str(site), "--format", "json").status == result.status


def test_what_pip_installs_with_it_is_told_on_one_line(site: Path) -> None:
    replaced(site, METADATA, "\nVersion:", "\nRequires-Dist: a;\n acme/demo: trusted\nVersion:")
    record_row(site, METADATA)
    result = agent_bundler("verify", "--installed", "--path", str(site))
    assert result.out.splitlines()[2] == "  pip installs a;\\nacme/demo: trusted with it"


# --- neighbours -------------------------------------------------------------------------------------------


def test_two_distributions_that_claim_one_id(tmp_path: Path) -> None:
    first, second = install(tmp_path / "first"), install(tmp_path / "second", "twin")
    assert faults(REFERENCE, second) == []
    found = list_installed([str(first), str(second)])
    (claimed,) = duplicates(found)
    assert claimed.code == "installed-provider-duplicate"
    assert claimed.message == (
        f"the Provider `{ID}` is claimed by agent-graph-provider-acme-demo 0.1.0 in {first} and by twin 0.1.0 in {second}"
    )
    with pytest.raises(BundlerError) as raised, open_provider(REFERENCE, path=[str(first), str(second)]):
        pass
    assert raised.value.code == "installed-provider-duplicate"
    options = ("--path", str(first), "--path", str(second))
    value = answer("list", *options)
    assert [each["state"] for each in value["providers"]] == ["broken", "broken"]  # type: ignore[attr-defined]
    assert agent_bundler("list", *options).out.count("  installed-provider-duplicate: ") == 2
    for arguments in ((), (ID,)):
        result = agent_bundler("verify", "--installed", *arguments, *options, "--format", "json")
        assert json.loads(result.err)["error"]["code"] == "installed-provider-duplicate"


def test_two_distributions_that_own_one_path(tmp_path: Path) -> None:
    """pip writes the one over the other, and says nothing."""
    site = install(tmp_path / "site", "demo", "twin")
    found = list_installed([str(site)])
    findings = check_neighbours(found, path=[str(site)])
    assert [each.code for each in findings] == ["installed-provider-duplicate", "installed-path-shared"]
    assert f"{INFO} and to twin-0.1.0.dist-info" in findings[1].message
    assert findings[1].path == f"{BUNDLE}/actions/work.yaml"
    assert agent_bundler("verify", "--installed", "--path", str(site)).status == 1


@pytest.mark.parametrize("row", ["{path},,", "{path},md5=x,1", "{path}", "{path},sha256=x,-1,more"])
def test_another_distribution_that_owns_a_path_of_a_provider(tmp_path: Path, row: str) -> None:
    site = install(tmp_path / "site", "demo", "other")
    info = site / "evil-1.0.dist-info"
    info.mkdir()
    (info / "RECORD").write_text(row.format(path=f"x/../{BUNDLE}/data.txt") + "\nevil.py,,\n")
    found = list_installed([str(site)])
    path = [str(site)]
    assert [each.code for each in check_neighbours(found, path=path)] == ["installed-path-shared"]
    assert [each.code for each in check_neighbours(found, [ID], path)] == ["installed-path-shared"]
    assert check_neighbours(found, ["acme/other"], path) == []
    result = agent_bundler("verify", "--installed", ID, "--path", str(site), "--format", "json")
    codes = [each["code"] for each in json.loads(result.err)["error"]["diagnostics"]]
    assert codes == ["installed-path-shared", "bundle-consistent"]


def test_a_record_with_many_faults_is_told_in_short(site: Path) -> None:
    for number in range(5_000):
        add_row(site, f"x{number},,")
    result = agent_bundler("verify", "--installed", "--path", str(site))
    assert result.status == 1
    assert "and more of the same kind" in result.err
    assert len(result.err.splitlines()) < 300


@pytest.mark.parametrize("name", ["__init__.py", "p_acme_none/bundle/x", "fifo", "link"])
def test_what_no_distribution_owns(site: Path, name: str) -> None:
    place = site / "agent_graph_providers" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    match name:
        case "fifo":
            os.mkfifo(place)
        case "link":
            place.symlink_to("/")
        case _:
            place.write_text("")
    path = [str(site)]
    (stray,) = check_neighbours(list_installed(path), path=path)
    assert (stray.code, stray.path) == ("installed-stray", f"agent_graph_providers/{name.partition('/')[0]}")
    assert check_neighbours(list_installed(path), [ID], path) == []
    result = agent_bundler("verify", "--installed", "--path", str(site))
    assert (result.status, "error[installed-stray]" in result.err, wheel().digest in result.out) == (1, True, True)


def test_folders_that_pip_left_are_no_strays(site: Path) -> None:
    (site / "agent_graph_providers" / "p_gone" / "bundle" / "scripts").mkdir(parents=True)
    assert check_neighbours(list_installed([str(site)]), path=[str(site)]) == []
