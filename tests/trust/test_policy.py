"""Trust policies: what a file may say, and that one that can't be read trusts nobody."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundler.errors import BundlerError
from bundler.runtime.open import open_provider
from bundler.trust.policy import MAX_BYTES, Rule, TrustPolicy, matches, read_policy

from ..installs import as_another_user
from ..signed import key_file, policy, public, trusted, wheel, write_policy

KEY = '[[keys]]\nname = "release"\npublic-key = "{pub}"\nproviders = ["acme/*"]\n'


def written(path: Path, text: str, *, schema: bool = True) -> Path:
    head = 'schema = "agent-bundler.trust.v1"\n' if schema else ""
    path.write_text(head + text.replace("{pub}", f"{key_file('release')}.pub"))
    return path


def refused(path: Path) -> str:
    with pytest.raises(BundlerError) as raised:
        read_policy(path)
    assert raised.value.code == "signature-verifier-failed"
    with pytest.raises(BundlerError) as opening, open_provider(wheel().path, policy=path):
        pass
    assert opening.value.code == "signature-verifier-failed"
    return raised.value.message


def test_a_whole_one(tmp_path: Path) -> None:
    pem = public("second").pem
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/a.pub").write_text(public("release").pem)
    (tmp_path / "attestations").mkdir()
    (tmp_path / "attestations/x.dsse.json").write_text("{}")
    (tmp_path / "attestations/notes.txt").write_text("x")
    path = written(
        tmp_path / "trust.toml",
        f'''signatures = "optional"
threshold = 2
attestations = "attestations"
[[keys]]
name = "release"
public-key = "keys/a.pub"
providers = ["acme/*", "b"]
not-before = 2026-01-01T00:00:00Z
not-after = 2027-01-01T00:00:00+01:00
[[keys]]
name = "second"
public-key = """
{pem}"""
providers = ["**"]
scheme = "ed25519"
[[providers]]
ids = ["acme/open-*"]
[refused]
keys = ["{public("third").key_id}"]
releases = ["acme/demo@1.0.0-rc.1", "sha256:{"0" * 64}"]
''',
    )
    found = read_policy(path)
    assert [each.name for each in found.keys] == ["release", "second"]
    assert (found.keys[0].not_before, found.keys[0].not_after) == (1_767_225_600, 1_798_758_000)
    assert found.keys[0].providers == ("acme/*", "b")
    assert (found.default, found.rules) == (Rule(required=False, threshold=2), (Rule(ids=("acme/open-*",)),))
    assert found.refused_releases == {"acme/demo@1.0.0-rc.1", "sha256:" + "0" * 64}
    assert list(found.attestations.values()) == [b"{}"]
    assert found.rule_for("acme/open-x").required
    assert not found.rule_for("acme/x").required


def test_objects_and_a_file_are_the_same(tmp_path: Path) -> None:
    path = write_policy(tmp_path / "trust.toml", "release", "second", more="threshold = 2")
    assert read_policy(path) == policy("release", "second", threshold=2)
    assert read_policy(path).digest == policy("release", "second", threshold=2).digest


def test_every_part_is_in_the_digest() -> None:
    base = policy("release")
    others = [
        policy("second"),
        policy("release", required=False),
        policy("release", threshold=2),
        replace(base, keys=(trusted("release", until=5),)),
        replace(base, keys=(trusted("release", since=5),)),
        replace(base, keys=(trusted("release", providers="**"),)),
        replace(base, rules=(Rule(ids=("a",)),)),
        replace(base, refused_keys=frozenset({"sha256:x"})),
        replace(base, refused_releases=frozenset({"a@1.0.0"})),
        replace(base, attestations={"x": b"1"}),
        replace(base, attestations={"x": b"2"}),
    ]
    assert len({each.digest for each in [base, *others]}) == len(others) + 1
    assert policy("release").digest == base.digest


BROKEN = {
    "nothing": ("", "schema"),
    "no TOML": ("a = [", "TOML"),
    "a key that is not known": (f"signature = 1\n{KEY}", "did you mean `signatures`"),
    "another word": (f'signatures = "maybe"\n{KEY}', "required"),
    "a threshold of nobody": (f"threshold = 0\n{KEY}", "threshold"),
    "a threshold that is true": (f"threshold = true\n{KEY}", "threshold"),
    "a threshold of a text": (f'threshold = "1"\n{KEY}', "threshold"),
    "a key without a name": (KEY.replace('name = "release"\n', ""), "`name` is missing"),
    "a key without its key": (KEY.replace('public-key = "{pub}"\n', ""), "`public-key` is missing"),
    "a key for nobody": (KEY.replace('["acme/*"]', "[]"), "providers"),
    "a key for what is no id": (KEY.replace("acme/*", "Acme/*"), "Acme"),
    "a key that is not there": (KEY.replace("{pub}", "none.pub"), "does not exist"),
    "a folder as a key": (KEY.replace("{pub}", "."), "regular file"),
    "a private key": (KEY.replace("{pub}.pub", "{pub}").replace("{pub}", "{key}"), "private key stands there"),
    "a key twice": (KEY + KEY, "twice"),
    "a name twice": (KEY + KEY.replace("{pub}", "{second}"), "twice"),
    "a time without its offset": (f"{KEY}not-after = 2027-01-01T00:00:00\n", "offset"),
    "a time before the year 1": (f"{KEY}not-after = 0001-01-01T00:00:00+01:00\n", "years"),
    "a time after the year 9999": (f"{KEY}not-before = 9999-12-31T23:59:59-01:00\n", "years"),
    "a threshold of thousands of digits": (f"threshold = 0x{'f' * 6000}\n{KEY}", "threshold"),
    "a refused key of thousands of digits": (f"{KEY}[refused]\nkeys = [0x{'f' * 6000}]\n", "key's id"),
    "a date": (f"{KEY}not-after = 2027-01-01\n", "offset"),
    "a time that ends before it begins": (
        f"{KEY}not-before = 2027-01-01T00:00:00Z\nnot-after = 2026-01-01T00:00:00Z\n",
        "never valid",
    ),
    "another scheme": (f'{KEY}scheme = "md5"\n', "scheme"),
    "keys as a table": ("[keys]\na = 1\n", "list of tables"),
    "keys as numbers": ("keys = [1]\n", "no table"),
    "a refused key by its name": (f'{KEY}[refused]\nkeys = ["release"]\n', "key's id"),
    "a refused release without a version": (f'{KEY}[refused]\nreleases = ["acme/demo"]\n', "ID@VERSION"),
    "refused as a list": (f"refused = []\n{KEY}", "no table"),
    "attestations that are not there": (f'attestations = "none"\n{KEY}', "can't be read"),
    "a rule for nobody": (f"{KEY}[[providers]]\n", "ids"),
    "a rule that says more": (f'{KEY}[[providers]]\nids = ["a"]\nmore = 1\n', "`more` is not known"),
    "an Ed25519 key of another length": (
        KEY.replace('"{pub}"', '"-----BEGIN PUBLIC KEY-----\\nMCowBQYDK2VwAyEA\\n-----END PUBLIC KEY-----"'),
        "wrong length",
    ),
    "a key that is no base64": (
        KEY.replace('"{pub}"', '"-----BEGIN PUBLIC KEY-----\\nA\\n-----END PUBLIC KEY-----"'),
        "no public key",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_read(tmp_path: Path, name: str) -> None:
    text, told = BROKEN[name]
    text = text.replace("{key}", str(key_file("release"))).replace("{second}", f"{key_file('second')}.pub")
    path = written(tmp_path / "trust.toml", text, schema=name != "nothing")
    if name == "nothing":
        path.write_text("")
    assert told in refused(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    refused(tmp_path / "none.toml")
    refused(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    refused(tmp_path / "fifo")
    (tmp_path / "binary").write_bytes(b"\xff\x00")
    refused(tmp_path / "binary")
    (tmp_path / "huge").write_bytes(b" " * (MAX_BYTES + 1))
    refused(tmp_path / "huge")
    (tmp_path / "loop").symlink_to("loop")
    refused(tmp_path / "loop")


def test_a_policy_that_others_can_write(tmp_path: Path) -> None:
    path = write_policy(tmp_path / "trust.toml", "release")
    path.chmod(0o666)
    assert "written by others" in refused(path)
    path.chmod(0o664)  # a group of the user's own
    read_policy(path)
    pub = tmp_path / "k.pub"
    pub.write_text(public("release").pem)
    pub.chmod(0o646)
    assert "written by others" in refused(written(tmp_path / "two.toml", KEY.replace("{pub}", "k.pub")))


def test_a_policy_of_another_user(tmp_path: Path) -> None:
    path = write_policy(tmp_path / "trust.toml", "release")
    path.chmod(0o644)
    os.chown(path, 12_345, -1) if os.geteuid() == 0 else None
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)

    def reading() -> str:
        try:
            read_policy(path)
        except BundlerError as error:
            return error.message
        return "read"

    assert "written by others" in as_another_user(reading) or os.geteuid() != 0


def test_what_contradicts_itself_as_objects() -> None:
    for make in (
        lambda: TrustPolicy(keys=(trusted("release"), trusted("release"))),
        lambda: TrustPolicy(keys=(), default=Rule(threshold=0)),
        lambda: TrustPolicy(keys=(trusted("release", since=1, until=1),)),
    ):
        with pytest.raises(BundlerError) as raised:
            make()
        assert raised.value.code == "signature-verifier-failed"


@given(
    st.lists(st.sampled_from(["a", "b", "/", "*", "**", "."]), min_size=1, max_size=6).map("".join),
    st.text("ab/.", max_size=6),
)
def test_globs_are_as_a_slow_reading_of_them(glob: str, name: str) -> None:
    assert matches((glob,), name) == slow(glob, name)


def slow(glob: str, name: str) -> bool:
    if not glob:
        return not name
    if glob.startswith("**"):
        rest = glob.lstrip("*")
        return any(slow(rest, name[at:]) for at in range(len(name) + 1))
    if glob.startswith("*"):
        ends = [at for at in range(len(name) + 1) if "/" not in name[:at]]
        return any(slow(glob[1:], name[at:]) for at in ends)
    return name[:1] == glob[0] and slow(glob[1:], name[1:])


def test_attestations_are_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bundler.trust.policy.MAX_ATTESTED_BYTES", 15)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/a.dsse.json").write_bytes(b"x" * 10)
    path = write_policy(tmp_path / "trust.toml", "release", more='attestations = "kept"')
    read_policy(path)
    (tmp_path / "kept/b.dsse.json").write_bytes(b"x" * 10)
    assert "more than 15 bytes" in refused(path)
