"""From a key to a host: one release, two places, two installers, with hashes; trusted where it arrives, until revoked."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bundler.errors import BundlerError
from bundler.publish.channels import promote, resolve
from bundler.publish.index import FolderIndex
from bundler.publish.record import Release
from bundler.publish.repository import Repository
from bundler.publish.revoke import revoke
from bundler.publish.targets import FolderTarget, ServerTarget, publish
from bundler.runtime.open import open_provider
from bundler.trust.documents import read_document_envelope, read_revocations

from .. import signed
from .prepared import released
from .servers import PASSWORD, USER, pypiserver
from .web import serving

PIP = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
UV = [sys.executable, "-m", "uv", "pip", "install", "--no-cache", "--quiet", "--python", sys.executable]
#: Without what this machine has configured: other indexes would be asked too.
CLEAN = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))},
    "PIP_CONFIG_FILE": os.devnull,
    "UV_NO_CONFIG": "1",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("everywhere")


@pytest.fixture(scope="module")
def release(place: Path) -> Release:
    return released(place / "releases")


@pytest.fixture(scope="module")
def index(place: Path, release: Release) -> FolderIndex:
    made = FolderIndex.init(place / "index")
    publish(release, FolderTarget(index=made, who="publisher"))
    promote(made, "acme/demo@0.1.0", channel="stable", signer=signed.signer("release"))
    return made


@pytest.fixture(scope="module")
def web(index: FolderIndex) -> Iterator[str]:
    with serving(index.root) as url:
        yield f"{url}/"


@pytest.fixture(scope="module")
def server(place: Path, release: Release) -> Iterator[str]:
    with pypiserver(place / "server") as url:
        repository = Repository(url=url, simple_url=f"{url}simple/", username=USER, password=PASSWORD)
        assert len(publish(release, ServerTarget(repository=repository)).added) == 2
        yield url


@pytest.fixture(params=["file", "web", "server"])
def address(request: pytest.FixtureRequest, index: FolderIndex) -> str:
    """An index, as installers are given it."""
    if request.param == "file":
        return f"{Path(index.root).as_uri()}/simple/"
    return f"{request.getfixturevalue(request.param)}simple/"


@pytest.mark.parametrize("tool", [PIP, UV], ids=["pip", "uv"])
def test_what_arrives_is_trusted(tmp_path: Path, index: FolderIndex, address: str, tool: list[str]) -> None:
    line = resolve("acme/demo@stable", index.root).channel.requirement
    (tmp_path / "requirements.txt").write_text(f"{line}\n")
    hashes = ["--require-hashes", "--only-binary", ":all:", "--requirement", str(tmp_path / "requirements.txt")]
    site = tmp_path / "site"
    done = subprocess.run(
        [*tool, "--index-url", address, "--target", str(site), *hashes], capture_output=True, env=CLEAN, check=False
    )
    assert done.returncode == 0, done.stderr
    with open_provider("provider:acme/demo", path=[str(site)], policy=signed.policy("release")) as opened:
        assert opened.trust is not None
        assert [each.name for each in opened.trust.signers] == ["release"]
    (tmp_path / "requirements.txt").write_text(f"{line[:-1]}{'0' if line[-1] != '0' else '1'}\n")
    refused = subprocess.run(
        [*tool, "--index-url", address, "--target", str(tmp_path / "other"), *hashes],
        capture_output=True,
        env=CLEAN,
        check=False,
    )
    assert refused.returncode != 0


def test_the_line_of_a_channel_is_the_same_from_everywhere(index: FolderIndex, web: str) -> None:
    lines = {
        resolve("acme/demo@stable", address).channel.requirement
        for address in (index.root, Path(index.root).as_uri(), web)
    }
    assert len(lines) == 1


def test_what_is_revoked_is_refused_from_then_on(tmp_path: Path, release: Release) -> None:
    index = FolderIndex.init(tmp_path / "index")
    publish(release, FolderTarget(index=index, who="publisher"))
    site, records = tmp_path / "site", tmp_path / "records"
    address = f"{Path(index.root).as_uri()}/simple/"
    command = [*PIP, "--index-url", address, "--target", str(site), release.distribution]
    subprocess.run(command, check=True, capture_output=True, env=CLEAN)
    key = replace(signed.trusted("release"), purposes=("release", "revocation"))
    rules = replace(signed.policy(), keys=(key,))
    for _ in range(2):
        with open_provider("provider:acme/demo", path=[str(site)], policy=rules, records=records) as opened:
            assert opened.trust is not None
            assert opened.trust.trusted
    revoke(index, "acme/demo@0.1.0", reason="it leaks", signer=signed.signer("release"))
    data = index.document("revocations.dsse.json")
    assert data is not None
    assert read_revocations(read_document_envelope(data, "list")).expires > time.time()
    rules = replace(rules, revocations=read_document_envelope(data, "list"))
    with (
        pytest.raises(BundlerError, match="it leaks") as raised,
        open_provider("provider:acme/demo", path=[str(site)], policy=rules, records=records),
    ):
        pass
    assert raised.value.code == "signature-revoked"
