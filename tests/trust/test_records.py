"""Verification records: what they spare, and that nothing that has changed is ever taken for what was verified."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from bundler.bundle.fingerprint import fingerprint_tree
from bundler.bundle.verified import VerifiedBundle
from bundler.bundle.verify import verify_bundle
from bundler.errors import BundlerError
from bundler.runtime.open import open_provider
from bundler.runtime.provider import OpenedProvider
from bundler.tree import DirectoryTree, Tree
from bundler.trust.records import Records
from bundler.trust.verdict import Trust
from bundler.wheel.installed import choose, list_installed
from bundler.wheel.installed_check import verified_install

from ..builders import PROVIDER, UNCOVERED, build_from, minimal, snapshot, with_files, write_out
from ..installs import BUNDLE, INFO, MODULE, add_row, as_another_user, drop_row, install, record_row

REFERENCE = "provider:acme/demo"
PYC = f"{BUNDLE}/scripts/__pycache__/check.{sys.implementation.cache_tag}.pyc"
WARNS = PROVIDER + "compatibility: { agentGraph: '^0.2.0' }\n"

Change = Callable[[Path], object]
#: The verdict where there is no policy.
NOBODY = Trust(state="consistent", reason="nobody signed it")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return install(tmp_path / "site")


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    files = with_files(minimal(provider_yaml=WARNS), {"data/large.bin": bytes(1_100_000), "data/empty": ""})
    build_from(write_out(files, tmp_path / "source"), tmp_path / "bundle")
    return tmp_path / "bundle"


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return tmp_path / "records"


def kept(records: Path) -> list[Path]:
    return sorted(records.iterdir()) if records.exists() else []


def is_recalled(site: Path, records: Path) -> bool:
    """Whether a record vouches for the install. Raises what keeps it from being used."""
    known = Records(records)
    installed = choose(list_installed([str(site)]), "acme/demo")

    def recall(tree: Tree, context: str) -> VerifiedBundle | None:
        found = known.recall(tree, installed.root, context)
        return None if found is None else found.bundle

    with verified_install(installed, recall) as found:
        return found.recalled


def is_bundle_recalled(bundle: Path, records: Path) -> bool:
    with DirectoryTree(bundle) as tree:
        return Records(records).recall(tree, str(bundle)) is not None


def remember(reference: str | Path, records: Path, site: Path | None = None) -> None:
    with open_provider(reference, records=records, path=None if site is None else [str(site)]) as opened:
        assert [warning.code for warning in opened.warnings if warning.code != "compatibility-unsupported"] == []


def sealed(file: Path, **changes: object) -> None:
    """The record with other values, under a seal of its own."""
    value = json.loads(file.read_bytes().partition(b"\n")[2]) | changes
    text = json.dumps(value).encode()
    file.write_bytes(sha256(text).hexdigest().encode() + b"\n" + text)


def code_of(make: Callable[[], object]) -> str:
    with pytest.raises(BundlerError) as raised:
        make()
    return raised.value.code


def values(opened: OpenedProvider) -> tuple[object, ...]:
    assert opened.bundle is not None
    return (
        opened.provider,
        opened.closure,
        opened.bundle.manifest,
        opened.warnings,
        opened.files,
        opened.identity,
        opened.requires,
        opened.bytecode,
        opened.root,
        {path: opened.tree.read(path, 1 << 30) for path in opened.files},
    )


# --- what a record spares ---------------------------------------------------------------------------------


def test_an_unchanged_bundle_is_neither_parsed_nor_judged_again(site: Path, bundle: Path, records: Path) -> None:
    code = (
        "import sys; from bundler.runtime.open import open_provider\n"
        "with open_provider(sys.argv[1], records=sys.argv[2], path=[sys.argv[3]]) as opened: print(opened.digest)\n"
        "print([name for name in ('jsonschema_rs', 'jsonschema', 'yaml') if name in sys.modules])\n"
    )
    for reference in (REFERENCE, str(bundle)):
        runs = []
        for _ in range(2):
            command = [sys.executable, "-c", code, reference, str(records), str(site)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            runs.append(done.stdout.splitlines())
        assert runs[0][0] == runs[1][0]
        assert "'jsonschema_rs'" in runs[0][1]
        assert runs[1][1] == "[]"


def test_what_is_recalled_has_the_values_of_what_was_verified(site: Path, bundle: Path, records: Path) -> None:
    for reference in (REFERENCE, str(bundle)):
        found = []
        for _ in range(2):
            with open_provider(reference, records=records, path=[str(site)]) as opened:
                found.append(values(opened))
        assert found[0] == found[1]
    assert is_recalled(site, records)
    assert is_bundle_recalled(bundle, records)
    with open_provider(bundle, records=records) as opened:
        assert [warning.code for warning in opened.warnings] == ["compatibility-unsupported"]


def test_a_record_is_for_its_user_alone(bundle: Path, records: Path) -> None:
    before = os.umask(0)
    try:
        remember(bundle, records)
    finally:
        os.umask(before)
    (file,) = kept(records)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(records.stat().st_mode) == 0o700


def test_a_record_of_a_bundle_is_none_of_an_install_there(tmp_path: Path, records: Path) -> None:
    site = install(tmp_path / "site", installer="uv")
    remember(site / BUNDLE, records)
    assert not is_recalled(site, records)
    remember(REFERENCE, records, site)
    assert is_recalled(site, records)
    assert not is_bundle_recalled(site / BUNDLE, records)


def test_sources_and_wheels_have_no_records(tmp_path: Path, bundle: Path, records: Path) -> None:
    remember(tmp_path / "source", records)
    assert kept(records) == []


# --- changes ----------------------------------------------------------------------------------------------


def touch(path: str, text: str = "") -> Change:
    return lambda site: (site / path).write_text(text)


def append(path: str) -> Change:
    return lambda site: (site / path).write_bytes((site / path).read_bytes() + b"\n")


def to_link(site: Path) -> None:
    (site / BUNDLE / "data.txt").rename(site / BUNDLE / "scripts/data.txt")
    (site / BUNDLE / "data.txt").symlink_to("scripts/data.txt")


DATA, LIB = f"{BUNDLE}/data.txt", f"{BUNDLE}/scripts/lib.py"
#: What the full verification says then; None where it accepts.
CHANGES: dict[str, tuple[Change, str | None]] = {
    "a byte": (append(DATA), "bundle-file-digest-mismatch"),
    "a byte of the same length": (touch(DATA, "Data\n"), "bundle-file-digest-mismatch"),
    "a script": (append(LIB), "bundle-file-digest-mismatch"),
    "manifest.json": (append(f"{BUNDLE}/manifest.json"), "wheel-record-mismatch"),
    "executable": (lambda site: (site / LIB).chmod(0o755), None),
    "a file more": (touch(f"{BUNDLE}/more"), "bundle-files-mismatch"),
    "a folder more": (lambda site: (site / BUNDLE / "more").mkdir(), "bundle-files-mismatch"),
    "a FIFO more": (lambda site: os.mkfifo(site / BUNDLE / "more"), "bundle-files-mismatch"),
    "a file less": (lambda site: (site / DATA).unlink(), "file-missing"),
    "another name": (lambda site: (site / DATA).rename(site / f"{BUNDLE}/date.txt"), "file-missing"),
    "two names exchanged": (
        lambda site: [
            (site / DATA).rename(site / "x"),
            (site / LIB).rename(site / DATA),
            (site / "x").rename(site / LIB),
        ],
        "bundle-file-digest-mismatch",
    ),
    "a link": (to_link, "bundle-files-mismatch"),
    "bytecode of no script": (touch(f"{BUNDLE}/scripts/__pycache__/x.cpython-311.pyc"), "bundle-files-mismatch"),
    "code beside the bundle": (touch(f"{MODULE}/__init__.py"), "wheel-content-foreign"),
    "METADATA": (append(f"{INFO}/METADATA"), "wheel-record-mismatch"),
    "WHEEL": (append(f"{INFO}/WHEEL"), "wheel-record-mismatch"),
    "entry points": (append(f"{INFO}/entry_points.txt"), "wheel-record-mismatch"),
    "the SBOM": (append(f"{INFO}/sboms/bundle.cdx.json"), "wheel-record-mismatch"),
    "RECORD": (lambda site: add_row(site, "../../bin/x,,"), "wheel-content-foreign"),
    "INSTALLER": (append(f"{INFO}/INSTALLER"), "wheel-record-mismatch"),
    "a file more in .dist-info": (touch(f"{INFO}/more"), "wheel-record-mismatch"),
    "a recorded file more in .dist-info": (
        lambda site: [(site / INFO / "more").write_text("x"), record_row(site, f"{INFO}/more")],
        None,
    ),
    "REQUESTED is gone": (
        lambda site: [(site / INFO / "REQUESTED").unlink(), drop_row(site, f"{INFO}/REQUESTED")],
        None,
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_after_any_change_the_install_is_verified_in_full(site: Path, records: Path, name: str) -> None:
    remember(REFERENCE, records, site)
    assert is_recalled(site, records)
    change, code = CHANGES[name]
    change(site)
    if code is not None:
        assert code_of(lambda: is_recalled(site, records)) == code
        assert code_of(lambda: remember(REFERENCE, records, site)) == code
        return
    assert not is_recalled(site, records)
    remember(REFERENCE, records, site)
    assert is_recalled(site, records)
    assert len(kept(records)) == 1


def test_bytecode_and_times_are_no_change(site: Path, records: Path) -> None:
    remember(REFERENCE, records, site)
    (site / PYC).write_bytes(b"other")
    os.utime(site / DATA, (1, 1))
    assert is_recalled(site, records)
    (site / PYC).unlink()
    with open_provider(REFERENCE, records=records, path=[str(site)]) as opened:
        assert len(opened.bytecode) == 1
    assert is_recalled(site, records)


def test_another_place_is_another_install(site: Path, records: Path, tmp_path: Path) -> None:
    remember(REFERENCE, records, site)
    moved = site.rename(tmp_path / "moved")
    assert not is_recalled(moved, records)
    site.symlink_to(moved)  # the name says where it was, and what counts is where it is
    assert not is_recalled(site, records)
    remember(REFERENCE, records, moved)
    assert is_recalled(site, records)


def test_what_was_recalled_and_changed_then_is_refused_when_it_is_read(bundle: Path, records: Path) -> None:
    remember(bundle, records)
    assert is_bundle_recalled(bundle, records)
    with open_provider(bundle, records=records) as opened:
        (bundle / "data/large.bin").write_bytes(bytes(1_100_001))
        assert code_of(lambda: opened.tree.read("data/large.bin", 1 << 30)) == "bundle-file-digest-mismatch"


@pytest.mark.parametrize("path", ["data/large.bin", "data/empty", "provider.yaml", "manifest.json", "graphs/main.yaml"])
def test_a_byte_of_any_file_of_a_bundle(bundle: Path, records: Path, path: str) -> None:
    remember(bundle, records)
    append(path)(bundle)
    assert not is_bundle_recalled(bundle, records)


def test_fingerprints_tell_apart_what_differs_in_one_thing() -> None:
    """Paths, kinds, modes and content are never taken for one another."""
    from bundler.tree import MemoryTree

    trees = [
        MemoryTree({}),
        MemoryTree({"a": b""}),
        MemoryTree({"a": b""}, executable=["a"]),
        MemoryTree({"a": b"b"}),
        MemoryTree({"ab": b""}),
        MemoryTree({"a": b"", "b": b""}),
        MemoryTree({"a/b": b""}),
        MemoryTree({"a": b"file 0 0 1\0b"}),
        MemoryTree({"a": bytes(1 << 20)}),
        MemoryTree({"a": bytes((1 << 20) + 1)}),
    ]
    found = [fingerprint_tree(tree, tree.entries(), {}, set(), room=0) for tree in trees]
    assert len({*found}) == len(trees)
    assert all(str(each).startswith("blake3:") for each in found)


# --- records that can't be used ---------------------------------------------------------------------------


def instead(make: Callable[[Path], object]) -> Change:
    return lambda file: [file.unlink(), make(file)]


def as_link(file: Path) -> None:
    file.rename(file.parent / "moved")
    file.symlink_to("moved")


def without_seal(file: Path, **changes: object) -> None:
    value = json.loads(file.read_bytes().partition(b"\n")[2]) | changes
    file.write_text(json.dumps(value))


UNUSABLE: dict[str, Change] = {
    "link": as_link,
    "FIFO": instead(os.mkfifo),
    "huge": lambda file: os.truncate(file, 1 << 33),
    "empty": lambda file: os.truncate(file, 0),
    "torn": lambda file: os.truncate(file, file.stat().st_size // 2),
    "longer": lambda file: file.write_bytes(file.read_bytes() + b" "),
    "binary": lambda file: file.write_bytes(os.urandom(1000)),
    "no JSON": lambda file: file.write_text("{" * 10_000),
    "a list": lambda file: file.write_text("[]"),
    "for others to write": lambda file: file.chmod(0o666),
    "for the group to write": lambda file: file.chmod(0o620),
    "without its seal": without_seal,
    "with other types": lambda file: without_seal(file, warnings=5, digest=[], fingerprint={}),
    "edited": lambda file: file.write_bytes(file.read_bytes().replace(b"acme/demo", b"acme/dem0")),
    "of a later tool": lambda file: sealed(file, tool="99.0"),
    "of a later protocol": lambda file: sealed(file, protocol="9.0.0"),
    "from the future": lambda file: sealed(file, schema="agent-bundler.verification-record.v3"),
    "of another place": lambda file: sealed(file, root="/elsewhere"),
    "of another install": lambda file: sealed(file, context="other"),
    "of another digest": lambda file: sealed(file, digest=f"sha256:{'0' * 64}"),
    "of another fingerprint": lambda file: sealed(file, fingerprint=f"blake3:{'0' * 64}"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_record_that_cannot_be_used_is_none_and_is_replaced(bundle: Path, records: Path, name: str) -> None:
    remember(bundle, records)
    (file,) = kept(records)
    UNUSABLE[name](file)
    assert not is_bundle_recalled(bundle, records)
    remember(bundle, records)
    assert is_bundle_recalled(bundle, records)
    assert (file.is_file(), file.is_symlink(), stat.S_IMODE(file.stat().st_mode)) == (True, False, 0o600)


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_record_that_cannot_be_used_lets_nothing_tampered_in(bundle: Path, records: Path, name: str) -> None:
    remember(bundle, records)
    (file,) = kept(records)
    UNUSABLE[name](file)
    append("graphs/main.yaml")(bundle)
    assert code_of(lambda: remember(bundle, records)) == "bundle-file-digest-mismatch"


def test_a_record_of_another_bundle_in_the_place_of_this_ones(tmp_path: Path, bundle: Path, records: Path) -> None:
    shutil.copytree(bundle, tmp_path / "tampered")
    remember(bundle, records)
    (file,) = kept(records)
    text = file.read_bytes()
    remember(tmp_path / "tampered", records)
    (other,) = (each for each in kept(records) if each != file)
    append("data/large.bin")(tmp_path / "tampered")
    other.write_bytes(text)
    assert code_of(lambda: remember(tmp_path / "tampered", records)) == "bundle-file-digest-mismatch"


def test_a_forged_record_vouches_for_no_content(bundle: Path, records: Path) -> None:
    """Who can write a record can do much; what is read is still held to the digests that manifest.json lists."""
    remember(bundle, records)
    (file,) = kept(records)
    append("data/large.bin")(bundle)
    append("graphs/main.yaml")(bundle)
    with DirectoryTree(bundle) as tree:
        sealed(file, fingerprint=fingerprint_tree(tree, tree.entries(), {}, set(), room=0))
    with open_provider(bundle, records=records) as opened:
        for path in ("data/large.bin", "graphs/main.yaml"):
            assert code_of(lambda path=path: opened.tree.read(path, 1 << 30)) == "bundle-file-digest-mismatch"  # type: ignore[misc]


# --- keeping ----------------------------------------------------------------------------------------------


SINCE: dict[str, tuple[Change, str | None]] = {
    "a byte": (append("data/large.bin"), "bundle-file-digest-mismatch"),
    "a byte of what was parsed": (append("graphs/main.yaml"), "bundle-file-digest-mismatch"),
    "a file more": (touch("more"), None),
    "a folder more": (lambda bundle: (bundle / "more").mkdir(), None),
    "a FIFO more": (lambda bundle: os.mkfifo(bundle / "more"), None),
    "a link more": (lambda bundle: (bundle / "more").symlink_to("data"), None),
    "a file less": (lambda bundle: (bundle / "data/empty").unlink(), None),
    "a link in its place": (
        lambda bundle: [(bundle / "data/empty").unlink(), (bundle / "data/empty").symlink_to("/dev/null")],
        None,
    ),
    "another manifest.json": (
        lambda bundle: (bundle / "manifest.json").write_text(
            (bundle / "manifest.json").read_text().replace("acme/demo", "acme/dem0")
        ),
        None,
    ),
    "no manifest.json": (lambda bundle: (bundle / "manifest.json").unlink(), None),
}


@pytest.mark.parametrize("name", SINCE)
def test_what_changed_since_it_was_verified_is_not_recorded(bundle: Path, records: Path, name: str) -> None:
    known = Records(records)
    change, code = SINCE[name]
    with DirectoryTree(bundle) as tree:
        verified = verify_bundle(tree)
        change(bundle)
        if code is not None:
            assert code_of(lambda: known.keep(verified, NOBODY, str(bundle))) == code
        else:
            known.keep(verified, NOBODY, str(bundle))
    assert (kept(records), known.notes) == ([], [])
    assert not is_bundle_recalled(bundle, records)


def test_what_an_install_became_while_it_was_verified_is_not_recorded(site: Path, records: Path) -> None:
    known = Records(records)
    installed = choose(list_installed([str(site)]), "acme/demo")
    with verified_install(installed) as found:
        (site / MODULE / "__init__.py").write_text("")
        known.keep(found.bundle, NOBODY, installed.root, found.context)
    assert code_of(lambda: is_recalled(site, records)) == "wheel-content-foreign"


def test_two_hosts_at_once(site: Path, bundle: Path, records: Path) -> None:
    failed: list[BaseException] = []

    def host() -> None:
        try:
            for reference in (REFERENCE, str(bundle)) * 3:
                with open_provider(reference, records=records, path=[str(site)]) as opened:
                    assert opened.digest
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=host) for _ in range(4)]
    code = (
        "import sys; from bundler.runtime.open import open_provider\n"
        "for _ in range(5):\n"
        "    with open_provider(sys.argv[1], records=sys.argv[2]) as opened: assert not opened.warnings[1:]\n"
    )
    hosts = [subprocess.Popen([sys.executable, "-c", code, str(bundle), str(records)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.wait() for each in hosts] == [0, 0, 0]
    assert failed == []
    assert [file.suffix for file in kept(records)] == [".json", ".json"]
    assert is_recalled(site, records)
    assert is_bundle_recalled(bundle, records)


def test_where_no_record_can_be_written_the_provider_opens_and_it_is_told(bundle: Path, records: Path) -> None:
    remember(bundle, records)
    (file,) = kept(records)
    file.unlink()
    file.mkdir()
    for _ in range(2):
        with open_provider(bundle, records=records) as opened:
            assert [warning.code for warning in opened.warnings] == ["compatibility-unsupported", "record-not-kept"]
            warning = opened.warnings[1]
            assert (warning.severity, warning.path) == ("warning", str(records))
            assert str(records) in warning.message
            assert warning.hint
    assert kept(records) == [file]


def limited(bundle: Path, records: Path, prelude: str) -> subprocess.CompletedProcess[str]:
    """Open in a process whose files can't get longer than 100 bytes."""
    code = (
        "import resource, signal, sys; from bundler.runtime.open import open_provider\n"
        f"{prelude}\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "with open_provider(sys.argv[1], records=sys.argv[2]) as opened: found = opened.warnings[-1]\n"
        "print(found.code, found.message)\n"
    )
    command = [sys.executable, "-c", code, str(bundle), str(records)]
    return subprocess.run(command, env=UNCOVERED, capture_output=True, text=True, check=False)


def test_a_full_disk(bundle: Path, records: Path) -> None:
    done = limited(bundle, records, "")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"record-not-kept no verification record was kept in {records}: File too large\n"
    assert kept(records) == []


def test_a_host_that_is_killed_while_it_writes(bundle: Path, records: Path) -> None:
    done = limited(bundle, records, "signal.signal(signal.SIGXFSZ, signal.SIG_DFL)")
    assert done.returncode < 0
    assert [file.suffix for file in kept(records)] == [".new"]
    assert not is_bundle_recalled(bundle, records)
    remember(bundle, records)
    assert is_bundle_recalled(bundle, records)


# --- the folder -------------------------------------------------------------------------------------------


def test_a_folder_that_others_can_write_to(tmp_path: Path) -> None:
    for mode in (0o777, 0o770, 0o702, 0o1777):
        folder = tmp_path / oct(mode)
        folder.mkdir()
        folder.chmod(mode)
        assert code_of(lambda folder=folder: Records(folder)) == "records-folder-unsafe"  # type: ignore[misc]
        link = tmp_path / f"link-{mode}"
        link.symlink_to(folder)
        assert code_of(lambda link=link: Records(link)) == "records-folder-unsafe"  # type: ignore[misc]


@pytest.mark.parametrize("there", [True, False])
def test_a_folder_below_one_that_others_can_write_to(tmp_path: Path, there: bool) -> None:
    parent = tmp_path / "parent"
    folder = parent / "mine" / "records"
    (folder if there else parent).mkdir(parents=True)
    parent.chmod(0o775)
    before = snapshot(tmp_path)
    with pytest.raises(BundlerError) as raised:
        Records(folder)
    assert raised.value.code == "records-folder-unsafe"
    assert f"lies in {parent}, in which others can put another folder" in raised.value.message
    assert snapshot(tmp_path) == before
    parent.chmod(0o1777)  # there nobody can rename what is another's
    assert Records(folder).folder == str(folder)


def test_a_folder_of_another_user(tmp_path: Path) -> None:
    Records(tmp_path)

    def work() -> str:
        return code_of(lambda: Records("/usr"))

    assert as_another_user(work) == "records-folder-unsafe"


def test_what_is_made_on_the_way_is_safe(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        known = Records(tmp_path / "cache" / "agent-bundler" / "records")
        assert Records(known.folder).folder == known.folder
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(mode) for path, (mode, _) in snapshot(tmp_path).items()}
    assert modes == dict.fromkeys(("cache", "cache/agent-bundler", "cache/agent-bundler/records"), 0o700)


def test_a_link_to_a_folder_that_is_safe(tmp_path: Path, bundle: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    remember(bundle, tmp_path / "link")
    assert len(kept(tmp_path / "real")) == 1
    assert is_bundle_recalled(bundle, tmp_path / "real")


@pytest.mark.parametrize("inside", ["", "records", "data/records", "deep/er/records"])
def test_records_in_a_provider(bundle: Path, tmp_path: Path, inside: str) -> None:
    for root in (bundle, tmp_path / "source"):
        before = snapshot(root)
        (tmp_path / f"link-{root.name}").symlink_to(root)
        for name in (root, tmp_path / f"link-{root.name}"):
            with pytest.raises(BundlerError) as raised, open_provider(bundle, records=name / inside):
                pass
            assert raised.value.code == "records-folder-unsafe"
            assert f"lies in the Provider {root}" in raised.value.message
        assert snapshot(root) == before
    remember(bundle, tmp_path / "records")


def test_records_in_the_install(site: Path) -> None:
    before = snapshot(site)
    for place in (BUNDLE, f"{BUNDLE}/scripts", f"{BUNDLE}/records"):
        assert code_of(lambda place=place: remember(REFERENCE, site / place, site)) == "records-folder-unsafe"  # type: ignore[misc]
    assert snapshot(site) == before


def test_records_in_a_provider_whose_manifest_has_another_name(bundle: Path, records: Path) -> None:
    known = Records(records)
    with DirectoryTree(bundle) as tree:
        verified = verify_bundle(tree)
        for root in (records, records.parent):
            assert code_of(lambda root=root: known.recall(tree, str(root))) == "records-folder-unsafe"  # type: ignore[misc]
            assert code_of(lambda root=root: known.keep(verified, NOBODY, str(root))) == "records-folder-unsafe"  # type: ignore[misc]
        assert known.recall(tree, f"{records}-of-another-name") is None


@pytest.mark.parametrize("name", ["file", "file/records", "loop", "loop/records"])
def test_a_folder_that_cannot_be_made(bundle: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(BundlerError) as raised, open_provider(bundle, records=tmp_path / name):
        pass
    assert (raised.value.code, raised.value.is_environment) == ("output-write-failed", True)
    assert f"{tmp_path / name} can't be made" in raised.value.message


def test_a_large_manifest_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest whose fingerprint was taken is the one that counts, however large it is."""
    from bundler.bundle import recall
    from bundler.tree import CHUNK

    names = {f"data/{number:05}{'x' * 120}": f"{number}" for number in range(6_000)}
    root = write_out(with_files(minimal(), names), tmp_path / "source")
    bundle = tmp_path / "bundle"
    build_from(root, bundle)
    assert (bundle / "manifest.json").stat().st_size > CHUNK
    with open_provider(bundle, records=tmp_path / "records"):
        pass
    first = recall.fingerprint_tree

    def swap(*arguments: object, **more: object) -> str | None:
        found: str | None = first(*arguments, **more)  # type: ignore[arg-type]
        (bundle / "manifest.json").write_bytes(b"{}")
        return found

    monkeypatch.setattr(recall, "fingerprint_tree", swap)
    with open_provider(bundle, records=tmp_path / "records") as opened:
        assert len(opened.provider.actions) == 1
