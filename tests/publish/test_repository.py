"""Which index is meant, and with which credentials."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends.null import Keyring as NullKeyring

from bundler.errors import BundlerError
from bundler.publish.repository import Repository, find_repository

CONFIG = """[distutils]
index-servers = pypi company bare plain

[company]
repository = https://packages.example/upload/
username = me
password = from-the-file
ca_cert = /etc/ca.pem

[bare]
username = me

[plain]
repository = http://packages.example/
"""


@pytest.fixture(autouse=True)
def _nothing_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("TWINE_", "ACTIONS_ID", "GITLAB", "GITHUB"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


class Kept(KeyringBackend):
    """A keyring that holds one password."""

    priority = 1.0

    def get_password(self, service: str, username: str) -> str | None:
        return "from-the-keyring" if (service, username) == ("https://packages.example/", "me") else None

    def set_password(self, service: str, username: str, password: str) -> None:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def _no_keyring() -> Iterator[None]:
    before = keyring.get_keyring()
    keyring.set_keyring(NullKeyring())
    yield
    keyring.set_keyring(before)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / ".pypirc").write_text(CONFIG)
    return tmp_path / ".pypirc"


def fault(name: str, **options: object) -> BundlerError:
    with pytest.raises(BundlerError) as caught:
        find_repository(name, **options)  # type: ignore[arg-type]
    return caught.value


def test_a_name_in_the_file(config: Path, tmp_path: Path) -> None:
    expected = Repository(
        url="https://packages.example/upload/",
        simple_url="https://packages.example/simple/",
        username="me",
        password="from-the-file",
        ca_cert="/etc/ca.pem",
    )
    assert find_repository("company", simple_url="https://packages.example/simple") == expected
    elsewhere = tmp_path / "elsewhere"
    config.rename(elsewhere)
    assert find_repository("company", config_file=elsewhere, simple_url="https://packages.example/simple/") == expected
    assert "from-the-file" not in repr(expected)


def test_the_environment_comes_first(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINE_USERNAME", "other")
    monkeypatch.setenv("TWINE_PASSWORD", "from-the-environment")
    monkeypatch.setenv("TWINE_CERT", "/mine.pem")
    found = find_repository("company", simple_url="https://packages.example/simple/")
    assert (found.credentials, found.ca_cert) == (("other", "from-the-environment"), "/mine.pem")


def test_the_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    keyring.set_keyring(Kept())
    monkeypatch.setenv("TWINE_USERNAME", "me")
    assert find_repository("https://packages.example/").password == "from-the-keyring"


@pytest.mark.parametrize(
    ("url", "simple_url"),
    [
        ("https://packages.example", "https://packages.example/simple/"),
        ("https://packages.example:8443/", "https://packages.example:8443/simple/"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/simple/"),
        ("http://localhost/", "http://localhost/simple/"),
        ("http://[::1]:8080/", "http://[::1]:8080/simple/"),
    ],
)
def test_the_pages_of_an_index_at_the_root(url: str, simple_url: str) -> None:
    found = find_repository(url)
    assert (found.url, found.simple_url, found.credentials) == (url, simple_url, None)


@pytest.mark.parametrize(("name", "host"), [("pypi", "pypi.org"), ("testpypi", "test.pypi.org")])
def test_the_public_indexes(monkeypatch: pytest.MonkeyPatch, name: str, host: str) -> None:
    monkeypatch.setenv("TWINE_PASSWORD", "pypi-token")
    found = find_repository(name)
    assert (found.simple_url, found.credentials) == (f"https://{host}/simple/", ("__token__", "pypi-token"))


def test_a_token_without_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINE_USERNAME", "")
    monkeypatch.setenv("TWINE_PASSWORD", "token")
    assert find_repository("https://packages.example/").credentials == ("", "token")


def test_a_user_without_a_password(config: Path) -> None:
    config.write_text(CONFIG.replace("password = from-the-file\n", ""))
    error = fault("company", simple_url="https://packages.example/simple/")
    assert error.code == "publish-unauthorized"
    assert "no password or token of me for https://packages.example/upload/" in error.message


def test_a_password_that_can_not_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINE_USERNAME", "me")
    monkeypatch.setenv("TWINE_PASSWORD", "pa€sword")
    error = fault("https://packages.example/")
    assert error.code == "publish-unauthorized"
    assert "€" not in error.message


def test_plain_http_to_another_machine(config: Path) -> None:
    assert fault("plain").code == "repository-insecure"
    assert fault("http://packages.example/").code == "repository-insecure"
    assert fault("https://packages.example/", simple_url="http://packages.example/").code == "repository-insecure"
    assert find_repository("plain", allow_http=True).simple_url == "http://packages.example/simple/"


@pytest.mark.parametrize(
    "name", ["https://me:s3cret@packages.example/", "https://me:s3cret@[/", "me:s3cret@packages.example"]
)
def test_credentials_in_an_address(config: Path, name: str) -> None:
    config.write_text(f"[distutils]\nindex-servers = bad\n[bad]\nrepository = {name}\n")
    for error in (fault(name), fault("bad"), fault("https://packages.example/", simple_url=name)):
        assert error.code == "repository-invalid"
        assert "s3cret" not in repr(error.diagnostics)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "Missing 'nowhere' section"),
        ("bare", "gives no `repository` for bare"),
        ("ftp://packages.example/", "begins with https://"),
        ("https://", "begins with https://"),
        ("https://packages.example:x/", "is no URL"),
        ("https://packages.example/upload/", "does not follow"),
        ("https://packages.example/?a=b", "does not follow"),
    ],
)
def test_what_names_no_index(config: Path, name: str, message: str) -> None:
    error = fault(name)
    assert error.code == "repository-invalid"
    assert message in error.message
    assert "\n" not in error.message


def test_files_that_are_no_pypirc(config: Path, tmp_path: Path) -> None:
    for content in (b"\xff\xfe\x00", b"password = s3cret\n", b"[company]\nx\n"):
        config.write_bytes(content)
        error = fault("company")
        assert error.code == "repository-invalid"
        assert "s3cret" not in repr(error.diagnostics)
    assert fault("company", config_file=tmp_path / "missing").code == "repository-invalid"
    config.unlink()
    os.mkfifo(config)
    assert fault("company").message.endswith("is no file; a .pypirc is expected")


def test_no_traceback_of_twine_is_printed(config: Path, capfd: pytest.CaptureFixture[str]) -> None:
    class Broken(Kept):
        def get_password(self, service: str, username: str) -> str | None:
            raise OSError("the keyring is locked")

    keyring.set_keyring(Broken())
    assert find_repository("https://packages.example/").credentials is None
    assert capfd.readouterr() == ("", "")
