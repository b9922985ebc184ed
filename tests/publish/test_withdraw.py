"""Yanks: what keeps one from being made, and what doesn't."""

from __future__ import annotations

from pathlib import Path

import pytest

from bundler.errors import BundlerError
from bundler.publish.index import FolderIndex
from bundler.publish.withdraw import unyank, yank
from bundler.trust.documents import PAYLOAD_TYPE, Channel
from bundler.trust.envelope import Envelope, Signature

from .index.releases import code_of, make_index, wheel

PROJECT = "agent-graph-provider-acme-demo"


def releases(folder: Path, *versions: str) -> list[Path]:
    return [wheel(folder, PROJECT.replace("-", "_"), version) for version in versions]


def needing(folder: Path, requirement: str) -> Path:
    """A wheel of another project, which needs what the requirement says."""
    return wheel(folder, "other", requires=f">=3.8\nRequires-Dist: {requirement}")


def channel(version: str, distribution: str = PROJECT) -> bytes:
    """A document as an index has it; whose signature it is is nothing to a yank."""
    document = Channel(
        sequence=1,
        expires=2_000_000_000,
        provider_id="acme/demo",
        channel="stable",
        version=version,
        digest="sha256:" + "0" * 64,
        distribution=distribution,
        python_version=version,
        hashes=("0" * 64,),
    )
    signature = Signature(key_id="somebody", value=b"x")
    return Envelope(name="x", payload=document.payload(), signatures=(signature,), payload_type=PAYLOAD_TYPE).to_bytes()


def yanked(index: FolderIndex) -> dict[str, str | None]:
    return {file.version: file.yanked for file in index.project(PROJECT)}


def refusal(index: FolderIndex) -> str:
    before = index.head()
    with pytest.raises(BundlerError) as caught:
        yank(index, "acme/demo@1.0.0", reason="r", who="w")
    assert caught.value.code == "release-in-use"
    assert index.head() == before
    return caught.value.message


def test_there_and_back(tmp_path: Path) -> None:
    index = make_index(tmp_path / "index", *releases(tmp_path, "1.0.0", "1.1.0rc1"))
    assert yank(index, "acme/demo@1.1.0-rc.1", reason="a wrong Gate", who="w").changed
    assert yanked(index) == {"1.0.0": None, "1.1.0rc1": "a wrong Gate"}
    assert not yank(index, "acme/demo@1.1.0-rc.1", reason="a wrong Gate", who="w").changed
    assert unyank(index, "acme/demo@1.1.0-rc.1", who="w").changed
    assert yanked(index) == {"1.0.0": None, "1.1.0rc1": None}


@pytest.mark.parametrize("requirement", [PROJECT, f"{PROJECT}==1.0", f"{PROJECT.upper()}<2; python_version>'3'"])
def test_another_project_needs_it_and_has_no_other(tmp_path: Path, requirement: str) -> None:
    index = make_index(tmp_path / "index", *releases(tmp_path, "1.0.0"), needing(tmp_path, requirement))
    assert "other 1.0 needs " in refusal(index)
    assert yank(index, "acme/demo@1.0.0", reason="r", who="w", force=True).changed


@pytest.mark.parametrize(
    "requirement", [f"{PROJECT}>=1", f"{PROJECT}!=1.0", f"{PROJECT}>1", "agent-graph-provider-acme"]
)
def test_another_project_that_finds_another_version_is_no_reason(tmp_path: Path, requirement: str) -> None:
    index = make_index(tmp_path / "index", *releases(tmp_path, "1.0.0", "1.1.0"), needing(tmp_path, requirement))
    assert yank(index, "acme/demo@1.0.0", reason="r", who="w").changed


def test_other_versions_that_are_yanked_are_none(tmp_path: Path) -> None:
    index = make_index(tmp_path / "index", *releases(tmp_path, "1.0.0", "1.1.0"), needing(tmp_path, PROJECT))
    yank(index, "acme/demo@1.1.0", reason="r", who="w")
    assert "other 1.0 needs " in refusal(index)
    index.yank("other", "1.0", reason="r", who="w")
    assert yank(index, "acme/demo@1.0.0", reason="r", who="w").changed


def test_a_channel_leads_to_it(tmp_path: Path) -> None:
    index = make_index(tmp_path / "index", *releases(tmp_path, "1.0.0", "1.1.0"))
    for name, data in (
        ("channels/next.json", channel("1.1.0")),
        ("channels/other.json", channel("1.0.0", "other")),
        ("revocations.json", b"{}"),
    ):
        index.put_document(name, data, who="w")
    assert yank(index, "acme/demo@1.0.0", reason="r", who="w").changed
    unyank(index, "acme/demo@1.0.0", who="w")
    index.put_document("channels/acme/stable.json", channel("1.0.0"), who="w")
    message = refusal(index)
    assert "channels/acme/stable.json" in message
    assert "next" not in message
    assert yank(index, "acme/demo@1.0.0", reason="r", who="w", force=True).changed


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"payload": "!"}', b'{"payload": "e30="}', channel("1")[:-3]])
def test_a_channel_that_cannot_be_read_may_lead_to_it(tmp_path: Path, data: bytes) -> None:
    index = make_index(tmp_path / "index", *releases(tmp_path, "1.0.0"))
    index.put_document("channels/stable.json", data, who="w")
    assert "channels/stable.json can't be read" in refusal(index)


def test_what_is_not_there(tmp_path: Path) -> None:
    index = make_index(tmp_path / "index", *releases(tmp_path, "1.0.0"))
    for reference in ("acme/demo", "acme/demo@", "@1.0.0", "acme demo@1.0.0"):
        assert code_of(lambda reference=reference: yank(index, reference, reason="r", who="w")) == "option-invalid"
    for reference in ("acme/demo@2.0.0", "acme/other@1.0.0", "acme/demo@1.0.0-x"):
        work = lambda reference=reference: yank(index, reference, reason="r", who="w")  # noqa: E731
        assert code_of(work) == "index-version-missing"
    head = "sha256:0"
    assert code_of(lambda: yank(index, "acme/demo@1.0.0", reason="r", who="w", expect_head=head)) == "index-conflict"
    assert yank(index, "acme/x@1.0.0", reason="r", who="w", distribution=PROJECT).changed
