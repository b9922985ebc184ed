"""The list of what is revoked: it only grows, nothing keeps a release from it, and each change is signed and whole."""

from __future__ import annotations

import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from bundler.publish.channels import promote
from bundler.publish.index import FolderIndex
from bundler.publish.revoke import PLACE, Listed, read_list, renew, revoke
from bundler.trust.documents import Revocations, Revoked

from ..signed import public, signer, wheel
from ..trust.documents import LIST, policy_for, sealed
from .index.releases import at_step, code_of, ended, in_child, make_index

ID = "acme/demo"


@pytest.fixture
def index(tmp_path: Path) -> FolderIndex:
    return make_index(tmp_path / "index", Path(wheel("demo").path))


def take(index: FolderIndex, version: str = "0.1.0", **more: object) -> Listed:
    settings = {"reason": "it leaks", "signer": signer("revocation"), **more}
    return revoke(index, f"{ID}@{version}", **settings)  # type: ignore[arg-type]


def present(index: FolderIndex) -> Revocations:
    found = read_list(index.root)
    assert found is not None
    return found[0]


def put(index: FolderIndex, document: Revocations, key: str = "revocation") -> None:
    index.put_document(PLACE, sealed(document, key).to_bytes(), who="somebody")


def test_it_only_grows(index: FolderIndex) -> None:
    assert read_list(index.root) is None
    assert renew(index, signer=signer("revocation")).revoked == ()
    assert take(index).entry.digest == wheel("demo").digest
    done = take(index, "0.9.0", policy=policy_for())
    assert (done.entry.digest, done.changed, done.revocations.sequence) == (None, True, 3)
    head = index.head()
    again = take(index, reason="another reason")
    assert (again.changed, again.entry.reason) == (False, "it leaks")
    assert index.head() == head
    renewed = renew(index, signer=signer("revocation"), days=7)
    assert (renewed.sequence, renewed.revoked) == (4, done.revocations.revoked)
    assert 6 * 86_400 < renewed.expires - time.time() <= 7 * 86_400
    assert present(index) == renewed
    assert index.verify() == []


def test_nothing_keeps_a_release_from_it(index: FolderIndex) -> None:
    promote(index, f"{ID}@0.1.0", channel="stable", signer=signer("channel"))
    (file,) = index.project("agent-graph-provider-acme-demo")
    Path(index.root, file.path).write_bytes(b"damaged")
    done = take(index)
    assert (done.changed, done.entry.digest) == (True, None)


def test_what_is_no_revocation(index: FolderIndex) -> None:
    head = index.head()
    for reason in ("", "  ", "two\nlines", "\x1b[2J", "x" * 501):
        assert code_of(lambda reason=reason: take(index, reason=reason)) == "option-invalid"
    for version in ("", "1 0", "sha256:" + "1" * 64, "1@2"):
        assert code_of(lambda version=version: take(index, version)) == "option-invalid"
    for days in (0, -1, 10_000):
        assert code_of(lambda days=days: take(index, days=days)) == "option-invalid"
    assert index.head() == head


def test_nothing_is_signed_that_the_policy_would_not_count(index: FolderIndex) -> None:
    assert code_of(lambda: take(index, signer=signer("release"), policy=policy_for())) == "signature-untrusted"
    foreign = Revoked(provider_id="foreign/x", version="1", digest=None, reason="x")
    for document, key in ((LIST, "stranger"), (replace(LIST, revoked=(foreign,)), "revocation")):
        put(index, document, key)
        assert code_of(lambda: take(index, "0.2.0", policy=policy_for())) == "signature-untrusted"
        assert code_of(lambda: renew(index, signer=signer("revocation"), policy=policy_for())) == "signature-untrusted"
        assert present(index) == document
    # One that has expired, or whose key is refused by now, is replaced.
    put(index, replace(LIST, expires=1))
    rules = policy_for()
    another = replace(rules, keys=(replace(rules.keys[0], purposes=("revocation",)),))
    refusing = replace(another, refused_keys=frozenset({public("revocation").key_id}))
    assert code_of(lambda: take(index, "0.2.0", policy=refusing)) == "signature-revoked"
    assert present(index).sequence == 3
    done = take(index, "0.2.0", policy=refusing, signer=signer("release"))
    assert [each.version for each in done.revocations.revoked] == ["0.1.0", "0.2.0"]


def test_a_list_that_is_none_is_not_replaced(index: FolderIndex) -> None:
    index.put_document(PLACE, b"{}", who="somebody")
    assert code_of(lambda: take(index)) == "signature-invalid"
    assert index.document(PLACE) == b"{}"


def test_several_at_once(index: FolderIndex) -> None:
    versions = [f"1.{number}.0" for number in range(5)]
    children = [in_child(lambda version=version: take(index, version)) for version in versions]
    assert [ended(*child) for child in children] == ["done"] * len(versions)
    assert sorted(each.version for each in present(index).revoked) == versions
    assert present(index).sequence == len(versions)
    assert index.verify() == []


def test_killed_at_every_step(index: FolderIndex, tmp_path: Path) -> None:
    take(index, "0.9.0")
    for step in range(1, 200):
        copy = FolderIndex(shutil.copytree(index.root, tmp_path / str(step)), patience=5.0)
        answer = ended(*in_child(at_step(step, signal.SIGKILL, lambda copy=copy: take(copy))))
        assert [each.version for each in present(copy).revoked] in (["0.9.0"], ["0.9.0", "0.1.0"])
        take(copy)
        assert [each.version for each in present(copy).revoked] == ["0.9.0", "0.1.0"]
        assert present(copy).sequence == 2
        shutil.rmtree(copy.root)
        if answer:
            assert answer == "done"
            break
    assert step > 10
