"""From a key to the disk: of a signed install under a policy, nothing changes unnoticed."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import shutil
import subprocess
import sys
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bundler.errors import BundlerError
from bundler.runtime.open import open_installed, open_provider
from bundler.runtime.provider import OpenedProvider
from bundler.trust.host import make_host
from bundler.trust.policy import TrustPolicy
from bundler.wheel.contents import INSTALLER_FILES
from bundler.wheel.installed import choose, list_installed

from ..installs import BUNDLE, INFO, MODULE, add_row, drop_row, record_row, replace_consistently
from ..signed import ENVELOPE, install, policy, seal, signer, wheel

REFERENCE = "provider:acme/demo"
RECORD, METADATA, ENTRY_POINTS = f"{INFO}/RECORD", f"{INFO}/METADATA", f"{INFO}/entry_points.txt"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return install(tmp_path / "site")


@contextmanager
def opened(site: Path, rules: TrustPolicy | None = None, **more: object) -> Iterator[OpenedProvider]:
    with open_provider(
        REFERENCE,
        path=[str(site)],
        policy=policy("release") if rules is None else rules,
        **more,  # type: ignore[arg-type]
    ) as found:
        yield found


def verdict(site: Path, rules: TrustPolicy | None = None, **more: object) -> str:
    """What the host may do, or the code for which it may not."""
    try:
        with opened(site, rules, **more) as found:
            assert found.trust is not None
            return found.trust.state
    except BundlerError as error:
        return error.code


def files(site: Path) -> list[str]:
    return sorted(str(path.relative_to(site)) for path in site.rglob("*") if path.is_file() and path.suffix != ".pyc")


def test_it_is_trusted_as_it_is(site: Path) -> None:
    with opened(site) as found:
        assert found.trust is not None
        assert [each.name for each in found.trust.signers] == ["release"]
        assert found.contents is not None
        assert found.contents.executable == {"scripts/check.py"}
        assert found.contents.distribution is not None
        assert sorted(found.contents.distribution.files) == [
            *("METADATA", "WHEEL", "entry_points.txt", "licenses/LICENSE", "sboms/bundle.cdx.json")
        ]
    assert verdict(site, policy("other")) == "signature-untrusted"


def rows(data: bytes) -> set[tuple[str, str]] | None:
    """The paths and hashes of a RECORD but for bytecode, by a reader of its own; None where it has none."""
    try:
        found = {(row[0], row[1]) for row in csv.reader(io.StringIO(data.decode(), newline=""))}
        return {row for row in found if not row[0].endswith(".pyc")}
    except (UnicodeDecodeError, csv.Error, IndexError):
        return None


@pytest.mark.parametrize("part", range(4))
def test_every_byte_of_every_file(site: Path, part: int) -> None:
    """Each is refused, or in a file that the installer writes; of RECORD's sizes, line ends and rows for bytecode say nothing."""
    rules = policy("release")
    tolerated: dict[str, int] = {}
    total = 0
    for path in files(site):
        data = (site / path).read_bytes()
        for at in range(part, len(data), 4):
            total += 1
            changed = bytearray(data)
            changed[at] ^= 1 << (at // 4 % 8)
            (site / path).write_bytes(changed)
            if verdict(site, rules) == "trusted":
                name = path.removeprefix(f"{INFO}/")
                assert name in INSTALLER_FILES, (path, at)
                if name == "RECORD":
                    assert rows(bytes(changed)) == rows(data), at
                tolerated[name] = tolerated.get(name, 0) + 1
        (site / path).write_bytes(data)
    assert verdict(site, rules) == "trusted"
    assert total > 1_000
    assert set(tolerated) <= {"RECORD"}  # INSTALLER and REQUESTED have hashes in RECORD


def edit(site: Path, path: str, old: str, new: str) -> None:
    text = (site / path).read_text()
    assert old in text
    (site / path).write_text(text.replace(old, new))
    record_row(site, path)


def strip(site: Path) -> None:
    (site / ENVELOPE).unlink()
    drop_row(site, ENVELOPE)


def other_envelope(site: Path) -> None:
    """That of another Provider, which the same key signed."""
    import zipfile

    with zipfile.ZipFile(wheel("other").path) as archive:
        (site / ENVELOPE).write_bytes(archive.read("agent_graph_providers/p_acme_other/bundle.dsse.json"))
    record_row(site, ENVELOPE)


def newer_version(site: Path) -> None:
    """The old release under a new version's name, consistent in all that is not signed."""
    info = INFO.replace("0.1.0", "0.2.0")
    shutil.move(site / INFO, site / info)
    for path in (f"{info}/METADATA", f"{info}/sboms/bundle.cdx.json"):
        (site / path).write_text((site / path).read_text().replace("0.1.0", "0.2.0"))
    manifest = json.loads((site / BUNDLE / "manifest.json").read_text())
    del manifest["digest"]
    text = (site / BUNDLE / "provider.yaml").read_text().replace("0.1.0", "0.2.0")
    (site / BUNDLE / "provider.yaml").write_text(text)
    rebuild(site, info)


def rebuild(site: Path, info: str = INFO) -> None:
    """Make manifest.json, SBOM and RECORD true of what lies there, as an attacker would."""
    from bundler.bundle.manifest import digest_of

    bundle = site / BUNDLE
    manifest = json.loads((bundle / "manifest.json").read_text())
    found = {
        file["path"]: f"sha256:{sha256((bundle / file['path']).read_bytes()).hexdigest()}" for file in manifest["files"]
    }
    for name in ("files", "graphs", "actions", "resources", "schemas"):
        for entry in manifest[name]:
            entry["digest"] = found[entry["path"]]
    version = next(line for line in (bundle / "provider.yaml").read_text().splitlines() if line.startswith("version: "))
    manifest["provider"]["version"] = version.removeprefix("version: ")
    manifest["digest"] = digest_of(manifest)
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    from bundler.bundle.open import open_bundle
    from bundler.tree import DirectoryTree
    from bundler.wheel.distinfo import read_metadata
    from bundler.wheel.identity import identity_of
    from bundler.wheel.sbom import sbom

    shutil.rmtree(bundle / "scripts/__pycache__")
    with open_bundle(str(bundle)) as verified, DirectoryTree(site) as tree:
        identity = identity_of(verified.provider, read_metadata(tree, info))
    (site / info / "sboms/bundle.cdx.json").write_bytes(sbom(identity, manifest["digest"], None, "x"))
    lines = []
    for path in files(site):
        data = (site / path).read_bytes()
        written = urlsafe_b64encode(sha256(data).digest()).decode().rstrip("=")
        lines.append(f"{path},,\n" if path == f"{info}/RECORD" else f"{path},sha256={written},{len(data)}\n")
    (site / info / "RECORD").write_text("".join(lines))


def foreign_row(site: Path) -> None:
    (site / "evil.py").write_text("import os\n")
    record_row(site, "evil.py")


def more_in_info(site: Path) -> None:
    (site / INFO / "licenses/MORE").write_text("more\n")
    record_row(site, f"{INFO}/licenses/MORE")


def dependency(site: Path) -> None:
    edit(site, METADATA, "Name:", "Requires-Dist: evil\nName:")


TAMPERED: dict[str, tuple[Callable[[Path], object], str]] = {
    "envelope stripped": (strip, "signature-missing"),
    "envelope gone, its row left": (lambda site: (site / ENVELOPE).unlink(), "wheel-record-mismatch"),
    "envelope without a row": (lambda site: drop_row(site, ENVELOPE), "wheel-record-mismatch"),
    "another Provider's envelope": (other_envelope, "signature-invalid"),
    "an old release under a new version's name": (newer_version, "signature-invalid"),
    "a renamed distribution": (
        lambda site: edit(site, METADATA, "Name: agent-graph-provider-acme-demo", "Name: demo"),
        "wheel-identity-mismatch",
    ),
    "an executable bit set": (lambda site: (site / BUNDLE / "data.txt").chmod(0o755), "signature-invalid"),
    "an executable manifest": (lambda site: (site / BUNDLE / "manifest.json").chmod(0o755), "signature-invalid"),
    "an executable bit cleared": (lambda site: (site / BUNDLE / "scripts/check.py").chmod(0o644), "signature-invalid"),
    "a dependency added": (dependency, "signature-invalid"),
    "another summary": (lambda site: edit(site, METADATA, "Summary: ", "Summary: x"), "signature-invalid"),
    "an entry point added": (
        lambda site: edit(site, ENTRY_POINTS, "[agent", "[console_scripts]\nx = x:x\n[agent"),
        "installed-broken",
    ),
    "another licence": (lambda site: edit(site, f"{INFO}/licenses/LICENSE", "a licence", "x"), "signature-invalid"),
    "another generator": (lambda site: edit(site, f"{INFO}/WHEEL", "Generator: ", "Generator: x"), "signature-invalid"),
    "a file more in .dist-info": (more_in_info, "signature-invalid"),
    "a foreign file that it owns": (foreign_row, "wheel-content-foreign"),
    "content, consistent in all": (
        lambda site: (replace_consistently(site, "data.txt", b"other\n"), rebuild(site)),
        "signature-invalid",
    ),
    "a file more, without a row": (
        lambda site: (site / BUNDLE / "more.txt").write_text("x"),
        "bundle-files-mismatch",
    ),
    "a module beside the bundle": (lambda site: (site / MODULE / "__init__.py").write_text(""), "wheel-content-foreign"),
    "the envelope as a folder": (
        lambda site: ((site / ENVELOPE).unlink(), (site / ENVELOPE).mkdir()),
        "file-missing",
    ),
    "the envelope as a FIFO": (
        lambda site: ((site / ENVELOPE).unlink(), os.mkfifo(site / ENVELOPE)),
        "file-missing",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TAMPERED)
def test_what_was_tampered_with_is_refused(site: Path, name: str) -> None:
    change, code = TAMPERED[name]
    change(site)
    assert verdict(site) == code
    optional = policy("release", required=False)
    # Where a signature may be missing, taking it off is no more than that.
    assert verdict(site, optional) == ("consistent" if code == "signature-missing" else code)


def test_a_signature_by_nobody_whom_the_host_knows(site: Path) -> None:
    with opened(site) as found:
        assert found.contents is not None
        (site / ENVELOPE).write_bytes(seal("thief", found.contents))
    record_row(site, ENVELOPE)
    assert verdict(site) == "signature-untrusted"
    assert verdict(site, policy("thief")) == "trusted"


def test_without_a_policy_it_is_consistent(site: Path) -> None:
    with open_provider(REFERENCE, path=[str(site)]) as found:
        assert found.trust is not None
        assert (found.trust.state, found.trust.claimed) == ("consistent", (signer("release").public.key_id,))
    edit(site, METADATA, "Summary: ", "Summary: x")
    with pytest.raises(BundlerError) as raised, open_provider(REFERENCE, path=[str(site)]):
        pass
    assert raised.value.code == "signature-invalid"
    assert "predicate.distribution.files.METADATA" in raised.value.message
    strip(site)
    with open_provider(REFERENCE, path=[str(site)]) as found:
        assert found.trust is not None
        assert not found.trust.claimed


def test_a_policy_can_be_demanded(site: Path) -> None:
    with (
        pytest.raises(BundlerError, match="demanded") as raised,
        open_provider(REFERENCE, path=[str(site)], demand_policy=True),
    ):
        pass
    assert raised.value.code == "signature-verifier-failed"
    assert verdict(site, demand_policy=True) == "trusted"


def test_bytecode_is_tolerated_and_nothing_like_it(site: Path) -> None:
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(site / BUNDLE)], check=True)
    assert verdict(site) == "trusted"
    cache = site / BUNDLE / "scripts/__pycache__"
    (cache / "gone.cpython-311.pyc").write_bytes(b"x")
    assert verdict(site) == "bundle-files-mismatch"


@pytest.mark.parametrize("kind", ["wheel", "bundle"])
def test_wheels_and_bundles_are_held_to_it_alike(site: Path, tmp_path: Path, kind: str) -> None:
    rules = policy("release")
    place = (
        Path(shutil.copy(wheel().path, tmp_path))
        if kind == "wheel"
        else Path(shutil.copytree(site / BUNDLE, tmp_path / "b"))
    )
    if kind == "bundle":
        shutil.rmtree(place / "scripts/__pycache__", ignore_errors=True)
        with pytest.raises(BundlerError) as raised, open_provider(place, policy=rules):
            pass
        assert raised.value.code == "signature-missing"
        shutil.copy(site / ENVELOPE, f"{place}.dsse.json")
    with open_provider(place, policy=rules) as found:
        assert found.trust is not None
        assert found.trust.trusted
    for refusing in (policy("other"), policy("release", "other", threshold=2)):
        with pytest.raises(BundlerError) as raised, open_provider(place, policy=refusing):
            pass
        assert raised.value.code in ("signature-untrusted", "signature-missing")
    if kind == "bundle":
        (place / "data.txt").chmod(0o755)
        with pytest.raises(BundlerError) as raised, open_provider(place, policy=rules):
            pass
        assert raised.value.code == "signature-invalid"


def test_detached_signatures(site: Path, tmp_path: Path) -> None:
    with opened(site) as found:
        assert found.contents is not None
        (tmp_path / "second.dsse.json").write_bytes(seal("second", found.contents))
    both = policy("release", "second", threshold=2)
    assert verdict(site, both) == "signature-missing"
    assert verdict(site, both, attestations=[tmp_path / "second.dsse.json"]) == "trusted"
    strip(site)
    assert verdict(site, policy("second"), attestations=[tmp_path / "second.dsse.json"]) == "trusted"
    with open_provider(wheel("other").path) as other:
        assert other.contents is not None
        (tmp_path / "other.dsse.json").write_bytes(seal("second", other.contents))
    assert verdict(site, both, attestations=[tmp_path / "other.dsse.json"]) == "signature-invalid"
    assert verdict(site, both, attestations=[tmp_path / "none.dsse.json"]) == "file-missing"


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("fuzz") / "site")


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), count=st.integers(1, 3))
def test_random_changes(fuzzed: Path, seed: int, count: int) -> None:
    """Refused, or equal in every byte that the chain covers."""
    rules = policy("release")
    site = fuzzed
    chosen = random.Random(seed)
    before = {path: ((site / path).read_bytes(), (site / path).stat().st_mode) for path in files(site)}
    try:
        for _ in range(count):
            mutate(site, chosen)
        if verdict(site, rules) == "trusted":
            now = {path: ((site / path).read_bytes(), (site / path).stat().st_mode & 0o100) for path in files(site)}
            covered = {path for path in before if path.removeprefix(f"{INFO}/") not in INSTALLER_FILES}
            assert {path for path in now if path.startswith((MODULE, INFO))} >= covered
            assert {path: now[path] for path in covered} == {
                path: (before[path][0], before[path][1] & 0o100 if path.startswith(f"{BUNDLE}/") else now[path][1])
                for path in covered
            }
            more = set(now) - set(before)
            assert not {path for path in more if path.startswith((MODULE, INFO))}
    finally:
        for path in files(site):
            if path not in before:
                (site / path).unlink()
        for path, (data, mode) in before.items():
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).write_bytes(data)
            (site / path).chmod(mode)


def mutate(site: Path, chosen: random.Random) -> None:
    """One change of one file, with or without a true row in RECORD."""
    path = chosen.choice(files(site))
    place = site / path
    data = bytearray(place.read_bytes())
    kind = chosen.choice(["flip", "cut", "insert", "swap", "mode", "remove", "copy", "row"])
    at = chosen.randrange(len(data) + 1)
    if kind == "flip" and data:
        data[at % len(data)] ^= 1 << chosen.randrange(8)
    elif kind == "cut":
        del data[at : at + chosen.randrange(1, 40)]
    elif kind == "insert":
        data[at:at] = chosen.choice([b" ", b"\n", b"{}", b"\x00", b"../", b'"a": 1,', b"\xff"])
    elif kind == "swap":
        data = bytearray((site / chosen.choice(files(site))).read_bytes())
    elif kind == "mode":
        place.chmod(chosen.choice([0o644, 0o755, 0o600, 0o700]))
        return
    elif kind == "remove":
        place.unlink()
        if chosen.random() < 0.5 and (site / RECORD).exists():
            drop_row(site, path)
        return
    elif kind == "copy":
        target = f"{path.rpartition('/')[0]}/{chosen.choice(['x.py', 'LICENSE', 'METADATA', 'bundle.dsse.json'])}"
        if not (site / target).exists():
            (site / target).write_bytes(data)
            record_row(site, target) if (site / RECORD).exists() else None
        return
    elif kind == "row" and (site / RECORD).exists():
        add_row(site, chosen.choice([f"{path},,", "x.py,sha256=x,1", f"{INFO}/INSTALLER,,", "../x,,"]))
        return
    place.write_bytes(data)
    if chosen.random() < 0.5 and path != RECORD and (site / RECORD).exists():
        record_row(site, path)


def test_another_provider_in_its_place_after_it_was_found(site: Path) -> None:
    """Everything is signed, of another Provider than the one that was asked for."""
    other = install(site.parent / "other", "other")
    info, module = INFO.replace("acme_demo", "acme_other"), MODULE.replace("acme_demo", "acme_other")
    shutil.move(site / BUNDLE, site.parent)
    for path in (f"{module}/bundle", module, info):
        place = site / (path.replace("acme_other", "acme_demo") if path.endswith("/bundle") else path)
        shutil.copytree(other / path, place)
    shutil.rmtree(site / INFO)
    shutil.copy(site / module / "bundle.dsse.json", site / ENVELOPE)
    record_row(site, ENVELOPE, info=info)
    drop_row(site, f"{module}/bundle.dsse.json", info=info)
    entry_points = site / info / "entry_points.txt"
    signed = entry_points.read_text()
    entry_points.write_text(signed.replace("acme/other", "acme/demo").replace("acme_other", "acme_demo"))
    found = list_installed([str(site)])
    entry_points.write_text(signed)
    host = make_host(policy=policy("release"))
    with pytest.raises(BundlerError) as raised, open_installed(host, found, choose(found, "acme/demo")) as provider:
        pytest.fail(f"{provider.provider.id} was opened")
    assert raised.value.code == "wheel-identity-mismatch"
