"""Channels: from a key to what pip installs; moved by compare-and-swap, whoever is killed, races or signs wrongly."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bundler.errors import BundlerError
from bundler.publish.channels import Promoted, list_channels, place_of, promote, resolve
from bundler.publish.index import FolderIndex
from bundler.publish.revoke import PLACE, renew, revoke
from bundler.runtime.open import open_provider
from bundler.trust.documents import Channel
from bundler.trust.sequences import Sequences

from .. import installs
from ..signed import public, signer, wheel
from ..trust.documents import CHANNEL, policy_for, sealed, write_policy
from .index.releases import at_step, code_of, ended, in_child, make_index
from .index.releases import wheel as small_wheel
from .index.test_installers import CLEAN, PIP
from .web import answering, serving

ID = "acme/demo"
DOCUMENT = place_of(ID, "stable")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index with two versions, and a channel that points to the older one."""
    root = tmp_path_factory.mktemp("template") / "index"
    index = make_index(root, Path(wheel("demo").path), Path(wheel("newer").path))
    move(index, "0.1.0")
    return root


@pytest.fixture
def index(template: Path, tmp_path: Path) -> FolderIndex:
    return FolderIndex(shutil.copytree(template, tmp_path / "index"))


def move(index: FolderIndex, version: str, expect: str | None = None, **more: object) -> Promoted:
    settings = {"channel": "stable", "signer": signer("channel"), "expect": expect, **more}
    return promote(index, f"{ID}@{version}", **settings)  # type: ignore[arg-type]


def current(index: FolderIndex) -> tuple[int, str]:
    (found,) = list_channels(index)
    return found.sequence, found.version


def put(index: FolderIndex, document: Channel, key: str = "channel") -> None:
    index.put_document(DOCUMENT, sealed(document, key).to_bytes(), who="somebody")


def genuine(index: FolderIndex) -> Channel:
    (found,) = list_channels(index)
    return found


def test_from_a_key_to_the_refusal(index: FolderIndex, tmp_path: Path) -> None:
    """Promoted, resolved under a policy, installed with the line that it gives, trusted; revoked, and refused."""
    policy = write_policy(tmp_path / "trust.toml", 'revocations = "list"\nrevocations-state = "state"')
    site, listed, records = tmp_path / "site", tmp_path / "list", tmp_path / "records"

    def take_list() -> None:
        shutil.copy(Path(index.root) / "documents" / PLACE, listed)

    def verdict() -> str:
        try:
            with open_provider(f"provider:{ID}", path=[str(site)], policy=policy, records=records) as opened:
                assert opened.trust is not None
                return opened.trust.state
        except BundlerError as error:
            return error.code

    renew(index, signer=signer("revocation"))
    take_list()
    found = resolve(f"{ID}@stable", index.root, policy=policy_for())
    assert found.trust.trusted
    (tmp_path / "list.txt").write_text(f"{found.channel.requirement}\n")
    url = f"{Path(index.root).as_uri()}/simple"
    subprocess.run(
        [*PIP, "--require-hashes", "--index-url", url, "--target", site, "-r", tmp_path / "list.txt"],
        check=True,
        env=CLEAN,
        cwd=tmp_path,
    )
    assert verdict() == verdict() == "trusted"
    entry = revoke(index, f"{ID}@0.1.0", reason="it leaks", signer=signer("revocation")).entry
    assert entry.digest == found.channel.digest
    assert verdict() == "trusted"  # nothing is fetched
    take_list()
    assert verdict() == "signature-revoked"
    assert code_of(lambda: resolve(f"{ID}@stable", index.root)) == "signature-revoked"
    assert code_of(lambda: move(index, "0.1.0", "0.1.0")) == "signature-revoked"
    assert move(index, "0.2.0", "0.1.0").changed
    assert resolve(f"{ID}@stable", index.root).channel.version == "0.2.0"
    assert index.verify() == []


def test_what_a_channel_says(index: FolderIndex) -> None:
    made = wheel("demo")
    found = resolve(f"{ID}@stable", index.root)
    assert found.channel.requirement == f"agent-graph-provider-acme-demo==0.1.0 --hash=sha256:{made.sha256}"
    assert (found.channel.digest, found.channel.sequence) == (made.digest, 1)
    assert 89 * 86_400 < found.channel.expires - time.time() <= 90 * 86_400
    assert (found.trust.state, found.trust.claimed) == ("consistent", (public("channel").key_id,))


def test_it_is_moved_from_where_it_is_expected_only(index: FolderIndex) -> None:
    head = index.head()
    older, newer = wheel("demo").digest, wheel("newer").digest
    for expect in (None, "0.2.0", newer, "0.1", ""):
        with pytest.raises(BundlerError, match=r"points to 0\.1\.0") as raised:
            move(index, "0.2.0", expect)
        assert raised.value.code == "channel-moved"
    with pytest.raises(BundlerError, match="does not exist"):
        move(index, "0.2.0", "0.1.0", channel="next")
    # Where it points there already, as after a promoter that was ended before it could tell, nothing is to be done.
    assert not move(index, "0.1.0").changed
    assert index.head() == head
    assert move(index, "0.2.0", older).changed
    assert current(index) == (2, "0.2.0")
    assert move(index, newer, "0.2.0").changed  # signed anew, named by its bundle
    assert move(index, "0.1.0", newer).changed
    assert current(index) == (4, "0.1.0")
    assert index.verify() == []


def test_what_cannot_be_promoted(index: FolderIndex) -> None:
    head = index.head()
    for code, work in {
        "release-missing": lambda: move(index, "0.3.0", "0.1.0"),
        "option-invalid": lambda: move(index, "0.2.0", "0.1.0", days=0),
        "signature-untrusted": lambda: move(index, "0.2.0", "0.1.0", signer=signer("release"), policy=policy_for()),
        "signature-revoked": lambda: move(
            index, "0.2.0", "0.1.0", policy=policy_for(refused_releases=frozenset({f"{ID}@0.2.0"}))
        ),
    }.items():
        assert code_of(work) == code
    for channel in ("Stable", "", "a/b", "../x", "x" * 33, "a.b"):
        assert code_of(lambda channel=channel: move(index, "0.2.0", channel=channel)) == "option-invalid"
    for reference in ("acme/demo", "@1", "acme/demo@", "../x@1"):
        assert code_of(lambda r=reference: promote(index, r, channel="x", signer=signer("channel"))) == "option-invalid"
    (file,) = (each for each in index.project("agent-graph-provider-acme-demo") if each.version == "0.2.0")
    shutil.copy(wheel("other").path, Path(index.root, file.path))
    assert code_of(lambda: move(index, "0.2.0", "0.1.0")) == "wheel-identity-mismatch"
    shutil.copy(installs.wheel("newer").path, Path(index.root, file.path))  # a good one, but not the one that is listed
    assert code_of(lambda: move(index, "0.2.0", "0.1.0")) == "index-file-mismatch"
    assert index.head() == head


def test_a_declared_distribution(index: FolderIndex) -> None:
    made = installs.wheel("twin")
    index.add([made.path], who="me")
    assert code_of(lambda: move(index, "0.1.0", channel="twin", distribution="nobody")) == "release-missing"
    done = move(index, "0.1.0", channel="twin", distribution="twin")
    assert done.channel.requirement == f"twin==0.1.0 --hash=sha256:{made.sha256}"


def test_whom_a_policy_believes(index: FolderIndex, tmp_path: Path) -> None:
    state = Sequences(tmp_path / "state")
    asked = f"{ID}@stable"

    def answer(**more: object) -> str:
        settings = {"policy": policy_for(), "sequences": state, **more}
        return code_of(lambda: resolve(asked, index.root, **settings))  # type: ignore[arg-type]

    first = genuine(index)
    assert answer() == ""
    assert answer(policy=policy_for(refused_releases=frozenset({first.digest}))) == "signature-revoked"
    put(index, replace(first, sequence=9), "release")
    assert answer() == "signature-untrusted"
    put(index, replace(first, sequence=9), "stranger")
    assert answer() == "signature-untrusted"
    assert answer(policy=None) == ""
    put(index, replace(first, sequence=2))  # the 9 of nobody was not noted
    assert answer() == ""
    put(index, first)
    assert answer() == answer(policy=None) == "index-rolled-back"
    put(index, replace(first, sequence=2, version="0.2.0"))
    assert answer() == "index-rolled-back"
    put(index, replace(first, sequence=3, expires=int(time.time()) - 1))
    assert answer() == answer(policy=None) == "index-expired"
    put(index, replace(CHANNEL, channel="next"))
    assert answer() == "signature-invalid"
    index.put_document(DOCUMENT, b"{}", who="somebody")
    assert answer() == "signature-invalid"


def test_promoters_at_once(index: FolderIndex, tmp_path: Path) -> None:
    """One of those that expect the same moves it; who publishes meanwhile makes nobody fail."""
    works: list[Callable[[], object]] = [
        *(lambda version=version: move(index, version, "0.1.0") for version in ("0.2.0", wheel("newer").digest)),
        lambda: move(index, "0.1.0", "0.1.0", days=7),
        lambda: move(index, "0.1.0", channel="next"),
        lambda: index.add([small_wheel(tmp_path / "w", "busy")], who="another"),
    ]
    children = [in_child(work) for work in works]
    answers = [ended(*child) for child in children]
    # Who points it to where the other one did is done; who signs the old one anew comes first or not at all.
    assert answers in ([*["done"] * 2, each, *["done"] * 2] for each in ("done", "channel-moved"))
    found = {each.channel: each for each in list_channels(index)}
    assert (found["stable"].version, found["stable"].sequence) == ("0.2.0", 3 if answers[2] == "done" else 2)
    assert found["next"].sequence == 1
    assert index.verify() == []


def test_a_promoter_that_is_killed_at_every_step(template: Path, tmp_path: Path) -> None:
    signer("channel"), wheel("newer")
    for step in range(1, 200):
        index = FolderIndex(shutil.copytree(template, tmp_path / str(step)), patience=5.0)
        answer = ended(*in_child(at_step(step, signal.SIGKILL, lambda index=index: move(index, "0.2.0", "0.1.0"))))
        assert current(index) in ((1, "0.1.0"), (2, "0.2.0"))
        assert resolve(f"{ID}@stable", index.root).channel.version == current(index)[1]
        move(index, "0.2.0", "0.1.0")
        assert current(index) == (2, "0.2.0")
        assert [each for each in index.verify() if each.severity == "error"] == []
        shutil.rmtree(index.root)
        if answer:
            assert answer == "done"
            break
    assert step > 10


def test_from_a_web_server(index: FolderIndex) -> None:
    revoke(index, f"{ID}@0.2.0", reason="it leaks", signer=signer("revocation"))
    with serving(index.root) as url:
        assert resolve(f"{ID}@stable", f"{url}/", policy=policy_for()) == resolve(
            f"{ID}@stable", Path(index.root).as_uri(), policy=policy_for()
        )
        with pytest.raises(BundlerError, match="there is no http://127") as raised:
            resolve(f"{ID}@next", url)
        assert raised.value.code == "channel-missing"
        put(index, replace(genuine(index), sequence=2, version="0.2.0"))
        assert code_of(lambda: resolve(f"{ID}@stable", url)) == "signature-revoked"
    with pytest.raises(BundlerError, match="can't be fetched") as raised:
        resolve(f"{ID}@stable", url.replace("//", "//me:word@"))
    assert raised.value.code == "index-unreachable"
    assert "word" not in str(raised.value.to_json())
    for place in (os.fspath(Path(index.root) / "files"), "ftp://127.0.0.1/x", ""):
        assert code_of(lambda place=place: resolve(f"{ID}@stable", place)) == "index-missing"


@pytest.mark.parametrize(
    ("head", "zeros"),
    [
        (r"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", 0),
        (r"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", 0),
        (r"HTTP/1.1 302 Elsewhere\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n", 0),
        (r"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", 100),
        (r"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz", 0),
        (r"HTTP/1.1 200 OK\r\n\r\n", 8_000_000),
        ("nonsense", 0),
        ("", 0),
    ],
)
def test_a_server_that_gives_something_else(head: str, zeros: int) -> None:
    with answering(head, zeros) as url:
        assert code_of(lambda: resolve(f"{ID}@stable", url)) == "index-unreachable"


@pytest.mark.parametrize("encoding", ["", r"Content-Encoding: gzip\r\n"])
def test_a_server_that_gives_what_is_no_document(encoding: str) -> None:
    with answering(rf"HTTP/1.1 200 OK\r\n{encoding}Content-Length: 9\r\n\r\n", 9) as url:
        assert code_of(lambda: resolve(f"{ID}@stable", url)) == "signature-invalid"
