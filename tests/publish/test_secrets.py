"""The audit of secrets over real wheels and sdists: found wherever it is released, told without being shown."""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bundler.bundle.open import open_path
from bundler.errors import BundlerError
from bundler.publish import secrets_audit
from bundler.publish.secrets_audit import Audit, audit_secrets
from bundler.publish.settings import AcceptedSecret
from bundler.wheel.build import survey, write_wheel
from bundler.wheel.sdist import make_sdist

from ..builders import Files, minimal, with_files, write_out

# Put together here, so that no scanner takes this file for a leak.
TOKEN = "ghp_" + "aBcD3fGh1jKlMn0pQrStUvWxYz12344mLq9r"
OTHER = "ghp_" + "zYxW3fGh1jKlMn0pQrStUvWxYz12344mLq8k"
KIND = "betterleaks.github-pat"
KEY = (
    "-----BEGIN "
    "PRIVATE KEY-----\n" + "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg\n" * 3 + "-----END PRIVATE KEY-----\n"
)


@contextmanager
def audited(tmp_path: Path, files: Files) -> Iterator[Callable[..., tuple[Audit, str]]]:
    """What the audit of this Provider's wheel and sdist answers and says."""
    source = write_out(files, tmp_path / "source")
    with open_path(source) as opened:
        content = survey(opened)
        wheel, sdist = write_wheel(content, tmp_path / "dist"), make_sdist(content, tmp_path / "dist")

    def audit(*accepted: AcceptedSecret) -> tuple[Audit, str]:
        said: list[str] = []
        try:
            return audit_secrets(sdist, wheel.path, wheel.identity, accepted, said.append), "\n".join(said)
        finally:
            assert TOKEN not in "".join(said)

    yield audit


def found(tmp_path: Path, files: Files, *accepted: AcceptedSecret) -> list[tuple[str | None, int | None, str]]:
    """Path, line and kind of each finding."""
    with audited(tmp_path, files) as audit, pytest.raises(BundlerError) as caught:
        audit(*accepted)
    assert caught.value.code == "secret-found"
    assert TOKEN not in repr(caught.value.to_json()) + str(caught.value)
    return [(each.path, each.line, each.detail.get("kind", "")) for each in caught.value.diagnostics]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (f"a\n\ntoken: {TOKEN}\n", 3),
        (f"a\r\ntoken: {TOKEN}\r\n", 2),
        (f"token: {TOKEN}  # kingfisher:ignore, gitleaks:allow, pragma: allowlist secret\n", 1),
        (f"\ntoken: {TOKEN}\n".encode("utf-16"), 2),
        (f"\ntoken: {TOKEN}\n".encode("utf-16-be"), 2),
        (b"\xff\xfe\0\1\n" + f"token: {TOKEN}\0".encode(), 2),
        ("x: " + base64.b64encode(f"token: {TOKEN}\n".encode()).decode(), 1),
    ],
    ids=["text", "windows", "with a comment", "UTF-16", "UTF-16 unmarked", "binary", "base64"],
)
def test_a_carried_file(content: str | bytes, line: int, tmp_path: Path) -> None:
    assert found(tmp_path, with_files(minimal(), {"data/x.bin": content})) == [("data/x.bin", line, KIND)]


def test_what_only_the_sdist_or_the_metadata_hold(tmp_path: Path) -> None:
    files = {
        **minimal(),
        "tests/note.txt": f"token: {TOKEN}\n",
        "LICENSE": KEY,
        "README.md": f"token: {TOKEN}\n",
        "notes.txt": f"not released: {TOKEN}\n",
        "pyproject.toml": '[build-system]\nbuild-backend = "bundler.backend"\n[tool.agent-bundler]\nreadme = "README.md"\n',
    }
    assert {(path, kind) for path, _, kind in found(tmp_path, files)} == {
        ("LICENSE", "betterleaks.private-key"),
        ("PKG-INFO", KIND),
        ("README.md", KIND),
        ("tests/note.txt", KIND),
    }


def test_a_provider_without_secrets_is_told_in_numbers(tmp_path: Path) -> None:
    with audited(
        tmp_path, with_files(minimal(), {"a.bin": b"\0\xff", "b.txt.gz": gzip.compress(b"x", mtime=0)})
    ) as audit:
        result, said = audit()
    assert result.accepted == ()
    first, second, third = said.splitlines()
    assert first.startswith("scanned ")
    assert second == "no text, scanned as bytes: a.bin"
    assert third == "compressed, not looked into: b.txt.gz"
    (warning,) = result.warnings
    assert (warning.code, warning.severity) == ("secrets-not-scanned", "warning")
    assert "b.txt.gz" in warning.message


def accept(path: str, kind: str = KIND, secret: str | None = None) -> AcceptedSecret:
    digest = None if secret is None else hashlib.sha256(secret.encode()).hexdigest()
    return AcceptedSecret(path=path, kind=kind, reason="an example", sha256=digest)


def test_what_is_accepted(tmp_path: Path) -> None:
    files = with_files(minimal(), {"a.txt": f"\n{TOKEN}\n{OTHER}\n", "b.txt": TOKEN})
    assert found(tmp_path, files, accept("a.txt")) == [("b.txt", 1, KIND)]
    assert found(tmp_path, files, accept("b.txt"), accept("a.txt", secret=OTHER)) == [("a.txt", 2, KIND)]
    assert len(found(tmp_path, files, accept("a.txt", "betterleaks.private-key"), accept("."))) == 3
    with audited(tmp_path, files) as audit:
        result, said = audit(accept("b.txt"), accept("a.txt"), accept("a.txt", "other"), accept("b.txt", secret="x"))
    assert [(each.path, each.line, each.kind, each.reason) for each in result.accepted] == [
        ("a.txt", 2, KIND, "an example"),
        ("a.txt", 3, KIND, "an example"),
        ("b.txt", 1, KIND, "an example"),
    ]
    assert f"accepted: a.txt:2 {KIND}: an example" in said
    assert [each.code for each in result.warnings] == ["secret-acceptance-unused"] * 2
    assert result.warnings[0].message == "a.txt holds no other that could be accepted"


def test_a_large_file_is_scanned_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With windows of 4,000 bytes; a token lies within one, over the end of one, and in the last."""
    monkeypatch.setattr(secrets_audit, "WINDOW", 4000)
    monkeypatch.setattr(secrets_audit, "OVERLAP", 100)
    lines = ["x" * 49] * 300
    for number in (10, 80, 299):
        lines[number] = TOKEN
    content = "\n".join(lines)
    assert content.index(TOKEN, 3000) < 4000 < content.index(TOKEN, 3000) + len(TOKEN)
    assert found(tmp_path, with_files(minimal(), {"a.txt": content})) == [
        ("a.txt", 11, KIND),
        ("a.txt", 81, KIND),
        ("a.txt", 300, KIND),
    ]
    with audited(tmp_path, with_files(minimal(), {"a.txt": content})) as audit:
        assert "large, scanned in parts: a.txt" in audit(accept("a.txt"))[1]


def test_very_many_findings_are_counted(tmp_path: Path) -> None:
    content = "\n".join(f"{TOKEN[:-4]}{number:04}" for number in range(1000, 1150))
    findings = found(tmp_path, with_files(minimal(), {"a.txt": content}))
    assert len(findings) == 101
    assert findings[-1] == (None, None, "")
