"""Keys: made, read, and never shown."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bundler.errors import BundlerError
from bundler.trust.keys import parse_public_key
from bundler.trust.sign import attest, sign_detached, sign_wheel
from bundler.trust.signing import Signer, generate_key, load_signer, show_key
from bundler.wheel.check import open_wheel

from ..cli.run import in_process
from ..installs import wheel as unsigned_wheel
from ..signed import key_file, no_passphrase, policy, public, signer, wheel
from .test_judge import CONTENTS

WORD = "correct horse battery staple"


def code(make: object, *arguments: object) -> str:
    with pytest.raises(BundlerError) as raised:
        make(*arguments)  # type: ignore[operator]
    return raised.value.code


def test_a_key_is_private_and_its_id_is_what_openssl_says(tmp_path: Path) -> None:
    made = generate_key(tmp_path / "k", None)
    assert stat.S_IMODE((tmp_path / "k").stat().st_mode) == 0o600
    der = subprocess.run(
        ["openssl", "pkey", "-pubin", "-in", str(tmp_path / "k.pub"), "-outform", "DER"],
        check=True,
        capture_output=True,
    ).stdout
    hashed = subprocess.run(["sha256sum"], input=der, check=True, capture_output=True).stdout.decode()
    assert made.key_id == f"sha256:{hashed.split()[0]}"
    assert load_signer(str(tmp_path / "k"), no_passphrase).public == made
    assert show_key(str(tmp_path / "k.pub"), no_passphrase) == show_key(str(tmp_path / "k"), no_passphrase) == made


@pytest.mark.parametrize("taken", ["k", "k.pub"])
def test_a_key_is_never_replaced(tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).symlink_to("nowhere")
    assert code(generate_key, tmp_path / "k", None) == "key-exists"
    assert os.listdir(tmp_path) == [taken]


def test_a_key_where_nothing_can_be_written(tmp_path: Path) -> None:
    assert code(generate_key, tmp_path / "none/k", None) == "output-write-failed"
    assert os.listdir(tmp_path) == []


def test_an_encrypted_key(tmp_path: Path) -> None:
    made = generate_key(tmp_path / "k", WORD)
    assert b"ENCRYPTED" in (tmp_path / "k").read_bytes()
    asked: list[str] = []

    def answer(name: str) -> str:
        asked.append(name)
        return WORD

    assert load_signer(str(tmp_path / "k"), answer).public == made
    assert asked == [str(tmp_path / "k")]
    assert code(load_signer, str(tmp_path / "k"), no_passphrase) == "key-unusable"
    assert code(load_signer, str(tmp_path / "k"), lambda name: "wrong") == "key-unusable"
    # As openssl encrypts one.
    again = tmp_path / "openssl.key"
    subprocess.run(
        ["openssl", "pkey", "-in", str(key_file("one")), "-aes256", "-passout", f"pass:{WORD}", "-out", str(again)],
        check=True,
    )
    assert load_signer(str(again), answer).public == public("one")


def test_a_key_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELEASE_KEY", key_file("one").read_text())
    assert load_signer("env:RELEASE_KEY", no_passphrase).public == public("one")
    monkeypatch.setenv("RELEASE_KEY", "")
    assert code(load_signer, "env:RELEASE_KEY", no_passphrase) == "key-invalid"
    assert code(load_signer, "env:NOWHERE", no_passphrase) == "key-invalid"


def test_a_signer_of_the_library(tmp_path: Path) -> None:
    """`file2:` is the one of its URIs that needs no device; any other works alike."""
    uri = f"file2:{key_file('one')}"
    used = load_signer(uri, no_passphrase, f"{key_file('one')}.pub")
    assert used.attest(CONTENTS) == signer("one").attest(CONTENTS)
    assert code(load_signer, uri, no_passphrase) == "option-invalid"
    assert code(load_signer, uri, no_passphrase, f"{key_file('two')}.pub") == "key-unusable"
    assert code(load_signer, f"file2:{tmp_path}/none", no_passphrase, f"{key_file('one')}.pub") == "key-unusable"
    assert code(load_signer, "hsm:1", no_passphrase, f"{key_file('one')}.pub") == "key-unusable"
    assert code(load_signer, "nothing:1", no_passphrase, f"{key_file('one')}.pub") == "file-missing"


def test_what_is_no_key(tmp_path: Path) -> None:
    for name, data in {
        "empty": b"",
        "binary": b"\xff\x00",
        "text": b"hello\n",
        "torn": key_file("one").read_bytes()[:60],
        "huge": b"x" * 70_000,
    }.items():
        (tmp_path / name).write_bytes(data)
        assert code(load_signer, str(tmp_path / name), no_passphrase) in ("key-invalid", "parse-failed"), name
        assert code(show_key, str(tmp_path / name), no_passphrase) in ("key-invalid", "parse-failed"), name
    assert code(load_signer, f"{key_file('one')}.pub", no_passphrase) == "key-invalid"
    assert code(load_signer, str(tmp_path / "none"), no_passphrase) == "file-missing"
    assert code(load_signer, str(tmp_path), no_passphrase) == "file-missing"
    os.mkfifo(tmp_path / "fifo")
    assert code(load_signer, str(tmp_path / "fifo"), no_passphrase) == "file-missing"
    subprocess.run(
        ["openssl", "genpkey", "-algorithm", "RSA", "-out", str(tmp_path / "rsa")], check=True, capture_output=True
    )
    assert code(load_signer, str(tmp_path / "rsa"), no_passphrase) == "key-invalid"


def test_a_key_that_others_can_read_is_told(tmp_path: Path) -> None:
    generate_key(tmp_path / "k", None)
    assert load_signer(str(tmp_path / "k"), no_passphrase).warnings == ()
    (tmp_path / "k").chmod(0o640)
    (warning,) = load_signer(str(tmp_path / "k"), no_passphrase).warnings
    assert (warning.code, warning.severity) == ("key-exposed", "warning")


def test_a_wheel_is_signed_once(tmp_path: Path) -> None:
    path = tmp_path / Path(unsigned_wheel("demo").path).name
    path.write_bytes(Path(unsigned_wheel("demo").path).read_bytes())
    before = path.read_bytes()
    assert code(sign_wheel, path, signer("one"), policy("two")) == "signature-untrusted"
    assert path.read_bytes() == before
    assert sign_wheel(path, signer("one"), policy("one"))
    signed = path.read_bytes()
    assert not sign_wheel(path, signer("one"))
    assert code(sign_wheel, path, signer("two")) == "signature-exists"
    assert path.read_bytes() == signed
    assert os.listdir(tmp_path) == [path.name]
    again = tmp_path / "again" / path.name
    again.parent.mkdir()
    again.write_bytes(before)
    sign_wheel(again, signer("one"))
    assert again.read_bytes() == signed


def test_a_detached_signature_is_never_replaced(tmp_path: Path) -> None:
    place = tmp_path / "a.dsse.json"
    with open_wheel(wheel().path) as opened:
        assert sign_detached(opened.contents, signer("one"), place)
        assert not sign_detached(opened.contents, signer("one"), place)
        assert code(sign_detached, opened.contents, signer("two"), place) == "signature-exists"
    assert place.read_bytes() == attest(opened.contents, signer("one")).to_bytes()


class _Failing:
    """A signer of a device that fails with what it must not tell."""

    def sign(self, payload: bytes) -> object:
        raise RuntimeError(f"pin {WORD} was wrong")


def test_what_a_device_says_is_not_repeated() -> None:
    broken = Signer(public=public("one"), _signer=_Failing())  # type: ignore[arg-type]
    with pytest.raises(BundlerError) as raised:
        broken.attest(CONTENTS)
    assert raised.value.code == "key-unusable"
    assert WORD not in str(raised.value) + repr(raised.value) + repr(raised.value.__cause__)
    assert raised.value.__suppress_context__


def test_public_keys_have_one_spelling() -> None:
    key = public("one")
    folded = key.pem.replace("\n", "\r\n")
    assert parse_public_key(f"\n  {folded}  \n", "x") == key
    with pytest.raises(BundlerError):
        parse_public_key(key.pem.replace("=", "", 1) if "=" in key.pem else key.pem[:-40], "x")


def test_no_secret_is_ever_shown(tmp_path: Path) -> None:
    """Keys, passphrases and private bytes: in no output, no file, and no list of processes."""
    os.symlink(wheel().path, tmp_path / "signed.whl")
    made = in_process("key", "generate", "k", cwd=tmp_path, AGENT_BUNDLER_PASSPHRASE=WORD)
    plain = in_process("key", "generate", "p", "--no-passphrase", cwd=tmp_path)
    assert (made.status, plain.status) == (0, 0)
    secret = "".join((tmp_path / "p").read_text().splitlines()[1:-1])
    encrypted = "".join((tmp_path / "k").read_text().splitlines()[1:-1])
    name = Path(unsigned_wheel("demo").path).name
    texts = [made.out + made.err + plain.out + plain.err]
    lines: list[tuple[list[str], dict[str, str]]] = [
        (["sign", name, "--key", "k"], {"AGENT_BUNDLER_PASSPHRASE": WORD}),
        (["sign", name, "--key", "k"], {"AGENT_BUNDLER_PASSPHRASE": f"{WORD}x"}),
        (["sign", name, "--key", "k"], {"AGENT_BUNDLER_PASSPHRASE": f"{WORD}x", "AGENT_BUNDLER_DEBUG": "1"}),
        (["sign", name, "--key", "env:K", "--detached", "d"], {"K": (tmp_path / "p").read_text()}),
        (["sign", name, "--key", "env:K", "--detached", "e"], {"K": (tmp_path / "p").read_text()[:-30]}),
        (["sign", name, "--key", "p", "--detached", "d"], {}),
        (["sign", "none.whl", "--key", "p", "--format", "json"], {}),
        (["key", "show", "p"], {}),
        (["key", "show", "k", "--format", "json"], {"AGENT_BUNDLER_PASSPHRASE": WORD}),
    ]
    (tmp_path / name).write_bytes(Path(unsigned_wheel("demo").path).read_bytes())
    for arguments, environment in lines:
        result = in_process(*arguments, cwd=tmp_path, **environment)
        assert "Traceback" not in result.err
        texts.append(result.out + result.err)
    for file in tmp_path.rglob("*"):
        if file.is_file() and file.name not in ("k", "p"):
            texts.append(file.read_bytes().decode("latin-1"))
    for text in texts:
        for hidden in (WORD, secret, encrypted, secret[20:50]):
            assert hidden not in text


def test_a_passphrase_is_in_no_list_of_processes(tmp_path: Path) -> None:
    generate_key(tmp_path / "k", WORD)
    name = Path(unsigned_wheel("demo").path).name
    (tmp_path / name).write_bytes(Path(unsigned_wheel("demo").path).read_bytes())
    process = subprocess.Popen(
        [sys.executable, "-m", "bundler", "sign", name, "--key", "k"],
        cwd=tmp_path,
        env={**os.environ, "AGENT_BUNDLER_PASSPHRASE": WORD, "PYTHONPATH": os.getcwd()},
        stdout=subprocess.DEVNULL,
    )
    seen = 0
    while process.poll() is None:
        for command in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                text = command.read_bytes()
            except OSError:
                continue
            seen += b"\0sign\0" in text
            assert WORD.encode() not in text.replace(b"\0", b" ")
        time.sleep(0.01)
    assert process.wait() == 0
    assert seen


@pytest.mark.parametrize("word", ["x" * 1024, "\udcff"])
def test_a_passphrase_that_no_key_can_have(tmp_path: Path, word: str) -> None:
    assert code(generate_key, tmp_path / "k", word) == "option-invalid"
    assert os.listdir(tmp_path) == []


def test_half_a_key_is_none(tmp_path: Path) -> None:
    """The disk is full for the private key, which is larger when encrypted."""
    work = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200)); sys.dont_write_bytecode = True\n"
    )
    work += "from bundler.errors import BundlerError\nfrom bundler.trust.signing import generate_key\n"
    work += "try:\n    generate_key('k', 'word')\nexcept BundlerError as error:\n    print(error.code)\n"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", work], check=False, cwd=tmp_path, capture_output=True, text=True, env=environment
    )
    assert done.stdout == "output-write-failed\n", done.stderr
    assert os.listdir(tmp_path) == []


def test_a_key_in_the_place_of_its_name_is_not_repeated() -> None:
    text = key_file("one").read_text()
    for given in (text, f"env:{text}"):
        with pytest.raises(BundlerError) as raised:
            load_signer(given, no_passphrase)
        assert raised.value.code == "key-invalid"
        assert text.splitlines()[1] not in str(raised.value)
    with pytest.raises(BundlerError) as raised:
        show_key(text, no_passphrase)
    assert text.splitlines()[1] not in str(raised.value)


def test_what_is_no_key_is_seen_at_once() -> None:
    began = time.monotonic()
    assert code(parse_public_key, "-----BEGIN PUBLIC KEY-----" + " " * 64_000, "k") == "key-invalid"
    assert time.monotonic() - began < 5
