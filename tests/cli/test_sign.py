"""Keys, signatures and policies on the command line, as release engineers, hosts and reviewers use them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bundler.trust.envelope import read_envelope
from bundler.trust.provenance import check_provenance
from bundler.trust.statement import read_statement

from ..installs import INFO, MODULE, PIP, add_row, drop_row, install, record_row, source
from ..installs import wheel as unsigned
from ..signed import ENVELOPE, key_file, public, wheel, write_policy
from ..signed import install as install_signed
from .run import agent_bundler, in_process

NAME = "agent_graph_provider_acme_demo-0.1.0-py3-none-any.whl"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a source, its wheel, and a policy that trusts the key `release`."""
    shutil.copytree(source("demo"), tmp_path / "source")
    shutil.copy(unsigned("demo").path, tmp_path)
    write_policy(tmp_path / "trust.toml", "release")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(*arguments: str) -> Any:
    result = agent_bundler(*arguments, "--format", "json")
    assert result.status == 0, result.err
    return json.loads(result.out)


def refused(*arguments: str, status: int = 1) -> str:
    told = agent_bundler(*arguments)
    assert (told.status, told.out) == (status, "")
    assert "remedy:" in told.err
    result = agent_bundler(*arguments, "--format", "json")
    assert (result.status, result.out) == (status, "")
    code = str(json.loads(result.err.splitlines()[-1])["error"]["code"])
    assert code in told.err
    return code


KEY = str(key_file("release"))


def test_from_a_key_to_a_trusted_install(here: Path) -> None:
    value = answer("key", "generate", "my.key", "--no-passphrase")
    assert value["keyId"] == answer("key", "show", "my.key.pub")["keyId"] == answer("key", "show", "my.key")["keyId"]
    assert agent_bundler("key", "show", "my.key").out == f"{value['keyId']}\n{(here / 'my.key.pub').read_text()}"
    built = answer("-m", "source", "wheel", "dist", "--key", "my.key")
    assert built["keyId"] == value["keyId"]
    policy = here / "mine.toml"
    policy.write_text(
        'schema = "agent-bundler.trust.v1"\n[[keys]]\nname = "me"\npublic-key = "my.key.pub"\nproviders = ["acme/*"]\n'
    )
    verified = answer("verify", built["path"], "--policy", "mine.toml")
    assert (verified["state"], verified["trusted"]) == ("trusted", True)
    assert verified["bundles"][0]["trust"] == {
        "state": "trusted",
        "signers": [{"name": "me", "keyId": value["keyId"]}],
        "claimed": [value["keyId"]],
    }
    command = [*PIP, "--no-index", "--no-deps", "--target", str(here / "site"), built["path"]]
    subprocess.run(command, check=True, capture_output=True)
    for arguments in (["verify", "--installed"], ["list"]):
        value = answer(*arguments, "--path", "site", "--policy", "mine.toml")
        (told,) = value.get("bundles", value.get("providers"))
        assert told["trust"]["state"] == "trusted"
    human = agent_bundler("verify", "--installed", "--path", "site", "--policy", "mine.toml").out
    assert "and manifest.json: trusted\n" in human
    assert f"  signed by me ({verified['bundles'][0]['trust']['claimed'][0]})" in human


def test_signing_a_wheel(here: Path) -> None:
    assert answer("sign", NAME, "--key", KEY) == {
        "state": "signed",
        "path": NAME,
        "keyId": public("release").key_id,
        "provenance": None,
    }
    data = (here / NAME).read_bytes()
    assert agent_bundler("sign", NAME, "--key", KEY).out == (
        f"{NAME}: it was signed so before by {public('release').key_id}\n"
    )
    assert refused("sign", NAME, "--key", str(key_file("other"))) == "signature-exists"
    assert answer("sign", NAME, "--key", str(key_file("other")), "--detached", "o.dsse.json")["state"] == "signed"
    assert answer("sign", NAME, "--key", str(key_file("other")), "--detached", "o.dsse.json")["state"] == "unchanged"
    assert (here / NAME).read_bytes() == data
    write_policy(here / "both.toml", "release", "other", more="threshold = 2")
    assert refused("verify", NAME, "--policy", "both.toml") == "signature-missing"
    assert answer("verify", NAME, "--policy", "both.toml", "--attestation", "o.dsse.json")["trusted"]
    (here / "attestations").mkdir()
    shutil.move("o.dsse.json", "attestations")
    write_policy(here / "folder.toml", "release", "other", more='threshold = 2\nattestations = "attestations"')
    assert answer("verify", NAME, "--policy", "folder.toml")["trusted"]


def test_nothing_is_signed_that_the_policy_would_not_count(here: Path) -> None:
    before = (here / NAME).read_bytes()
    other = str(key_file("other"))
    assert refused("sign", NAME, "--key", other, "--policy", "trust.toml") == "signature-untrusted"
    assert refused("-m", "source", "wheel", "dist", "--key", other, "--policy", "trust.toml") == "signature-untrusted"
    assert (here / NAME).read_bytes() == before
    assert not (here / "dist").exists()
    assert agent_bundler("sign", NAME, "--key", KEY, "--policy", "trust.toml").status == 0


def test_signing_a_bundle(here: Path) -> None:
    assert agent_bundler("-m", "source", "build", "out").status == 0
    value = answer("sign", "out", "--key", KEY)
    assert value["path"] == str(here / "out.dsse.json")
    assert answer("verify", "out", "--policy", "trust.toml")["trusted"]
    assert agent_bundler("-m", "out", "evaluate", "main", "--policy", "trust.toml").err == ""
    note = agent_bundler("-m", "out", "evaluate", "main").err
    assert note.startswith("note[provider-untrusted] ")
    assert "no policy says whose signature counts" in note
    with (here / "source/data.txt").open("a") as file:
        file.write("more\n")
    assert agent_bundler("-m", "source", "build", "out").status == 0
    assert refused("verify", "out") == "signature-invalid"
    assert refused("sign", "out", "--key", KEY) == "signature-exists"
    (here / "out.dsse.json").unlink()
    assert answer("sign", "out/", "--key", KEY)["path"] == str(here / "out.dsse.json")
    assert answer("verify", "out", "--policy", "trust.toml")["trusted"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([NAME, "--key", "none"], "file-missing"),
        ([NAME, "--key", "trust.toml"], "key-invalid"),
        ([NAME, "--key", f"{KEY}.pub"], "key-invalid"),
        ([NAME, "--key", "env:NOTHING"], "key-invalid"),
        ([NAME, "--key", f"file2:{KEY}"], "option-invalid"),
        (["none.whl", "--key", KEY], "file-missing"),
        (["trust.toml", "--key", KEY, "--detached", "d"], "file-missing"),
        (["source", "--key", KEY], "file-missing"),
        (["provider:acme/none", "--key", KEY, "--detached", "d"], "provider-not-installed"),
        ([NAME, "--key", KEY, "--policy", "none.toml"], "signature-verifier-failed"),
        ([NAME, "--key", KEY, "--detached", "trust.toml"], "signature-exists"),
    ],
)
def test_what_sign_refuses(here: Path, arguments: list[str], code: str) -> None:
    before = {path.name for path in here.iterdir()}
    assert refused("sign", *arguments) == code
    assert {path.name for path in here.iterdir()} == before


def test_usage(here: Path) -> None:
    for arguments in (
        ["sign", NAME],
        ["sign", "provider:acme/demo", "--key", KEY],
        ["sign", NAME, "--key", KEY, "--sdist", "x"],
        ["sign", "source", "--key", KEY, "--source", "source"],
        ["verify", NAME, NAME, "--source", "source"],
        ["verify", NAME, NAME, "--attestation", "x"],
    ):
        (here / "x").write_text("x")
        assert agent_bundler(*arguments).status == 2, arguments


def test_where_a_wheel_comes_from(here: Path) -> None:
    value = answer("sign", NAME, "--key", KEY, "--source", "source")
    assert value["provenance"] == str(here / f"{NAME}.provenance.dsse.json")
    envelope = read_envelope(Path(value["provenance"]).read_bytes(), "p")
    hashed = subprocess.run(["sha256sum", NAME], check=True, capture_output=True, text=True).stdout.split()[0]
    predicate = check_provenance(envelope, {NAME: hashed})
    assert predicate["buildDefinition"]["externalParameters"]["provider"] == {"id": "acme/demo", "version": "0.1.0"}
    (dependency,) = predicate["buildDefinition"]["resolvedDependencies"]
    assert "annotations" not in dependency
    assert str(here) not in json.dumps(read_statement(envelope))
    assert refused("verify", NAME, "--attestation", value["provenance"]) == "signature-invalid"
    asked = ["verify", NAME, "--provenance", value["provenance"]]
    told = answer(*asked, "--policy", "trust.toml")["bundles"][0]["provenance"]
    assert told == {"signers": [{"name": "release", "keyId": public("release").key_id}], "predicate": predicate}
    assert answer(*asked)["bundles"][0]["provenance"]["signers"] == []
    assert "as release says:" in agent_bundler(*asked, "--policy", "trust.toml").out
    other = str(write_policy(here / "other.toml", "other", more='signatures = "optional"'))
    assert refused(*asked, "--policy", other) == "signature-untrusted"
    shutil.copy(wheel().path, here / "dist.whl")
    assert refused("verify", wheel().path, "--provenance", value["provenance"]) == "signature-invalid"
    assert refused("verify", NAME, "--provenance", str(here / "trust.toml")) == "signature-invalid"
    with (here / "source/data.txt").open("a") as file:
        file.write("more\n")
    (here / f"{NAME}.provenance.dsse.json").unlink()
    assert refused("sign", NAME, "--key", KEY, "--source", "source") == "source-differs"
    assert not (here / f"{NAME}.provenance.dsse.json").exists()


def test_the_state_of_a_repository_is_told(here: Path) -> None:
    git = ["git", "-C", "source", "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *arguments], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    evil = here / "ran"
    subprocess.run([*git, "config", "core.fsmonitor", f"touch {evil};false"], check=True)
    for dirty in (False, True):
        path = answer("sign", NAME, "--key", KEY, "--source", "source")["provenance"]
        statement = read_statement(read_envelope(Path(path).read_bytes(), "p"))
        (dependency,) = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
        assert dependency["annotations"] == {"gitCommit": commit, "dirty": dirty}
        Path(path).unlink()
        (here / "source/notes.txt").write_text("not carried\n")
    assert not evil.exists()


def test_an_sdist_comes_from_the_source_too(here: Path) -> None:
    (here / "source/pyproject.toml").write_text(
        '[build-system]\nrequires = ["agent-graph-bundler"]\nbuild-backend = "bundler.backend"\n'
    )
    script = "from bundler import backend; print(backend.build_sdist('..'))"
    done = subprocess.run([sys.executable, "-c", script], cwd="source", check=True, capture_output=True, text=True)
    sdist = done.stdout.strip()
    value = answer("sign", NAME, "--key", KEY, "--source", "source", "--sdist", sdist)
    statement = read_statement(read_envelope(Path(value["provenance"]).read_bytes(), "p"))
    assert [each["name"] for each in statement["subject"]] == [NAME, sdist]
    Path(value["provenance"]).unlink()
    with (here / sdist).open("ab") as file:
        file.write(b"\0")
    assert refused("sign", NAME, "--key", KEY, "--source", "source", "--sdist", sdist) == "source-differs"


def test_verify_against_the_source(here: Path) -> None:
    site = install(here / "site")
    (here / "dist").mkdir()
    assert agent_bundler("-m", "source", "build", "out").status == 0
    things = (["out"], [NAME], ["--installed", "acme/demo", "--path", str(site)])
    for thing in things:
        assert agent_bundler("verify", *thing, "--source", "source").status == 0
    assert agent_bundler("verify", wheel().path, "--source", "source").status == 1  # that one has a licence
    with (here / "source/data.txt").open("a") as file:
        file.write("more\n")
    (here / "source/scripts/check.py").chmod(0o755)
    (here / "source/LICENSE").write_text("a licence\n")
    for thing in things:
        result = agent_bundler("verify", *thing, "--source", "source")
        assert result.status == 1
        assert "`data.txt` has other content" in result.err
        assert "`scripts/check.py` lacks its executable bit" in result.err
        if thing != ["out"]:
            assert ".dist-info/METADATA has other content: " in result.err
            assert "+License-File: LICENSE" in result.err
            assert ".dist-info/licenses/LICENSE is missing" in result.err
    assert refused("verify", "out", "--source", "none") == "file-missing"


def test_another_version_of_hatchling_is_told_and_counts_for_nothing(here: Path) -> None:
    import re

    site = install(here / "site")
    path = site / INFO / "WHEEL"
    path.write_text(re.sub("Generator: .*", "Generator: hatchling 0.0.1", path.read_text()))
    record_row(site, f"{INFO}/WHEEL")
    result = agent_bundler("verify", "--installed", "--path", str(site), "--source", "source")
    assert result.status == 0
    assert "-Generator: hatchling 0.0.1" in result.err


@pytest.mark.parametrize("more", ["Generator: x\n" * 12 + "Build: 1\n", "\r\n"], ids=["far behind", "line ends"])
def test_what_differs_behind_the_tools_name_counts(here: Path, more: str) -> None:
    site = install(here / "site")
    path = site / INFO / "WHEEL"
    data = path.read_bytes().decode()
    changed = data.replace("\n", more) if more == "\r\n" else data.rstrip("\n") + "\n" + more
    path.write_bytes(changed.encode())
    record_row(site, f"{INFO}/WHEEL")
    result = in_process("verify", "--installed", "--path", str(site), "--source", "source")
    assert (result.status, "source-differs" in result.err) == (1, True)


def test_a_host_with_a_policy(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = install_signed(here / "site")
    monkeypatch.syspath_prepend(str(site))
    other = str(write_policy(here / "other.toml", "other"))
    assert agent_bundler("-m", "provider:acme/demo", "evaluate", "main", "--policy", "trust.toml").err == ""
    assert refused("-m", "provider:acme/demo", "evaluate", "main", "--policy", other) == "signature-untrusted"
    monkeypatch.setenv("AGENT_BUNDLER_POLICY", other)
    assert refused("-m", "provider:acme/demo", "evaluate", "main") == "signature-untrusted"
    assert refused("-m", "source", "evaluate", "main") == "signature-missing"
    assert agent_bundler("-m", "source", "validate").status == 0  # an author's own
    assert agent_bundler("-m", "provider:acme/demo", "route", "main", "--policy", "trust.toml").status == 0
    for name in ("none.toml", ""):
        monkeypatch.setenv("AGENT_BUNDLER_POLICY", name)
        assert refused("-m", "provider:acme/demo", "evaluate", "main") == "signature-verifier-failed"
    monkeypatch.setenv("AGENT_BUNDLER_POLICY", "none.toml")
    assert refused("-m", "provider:acme/demo", "evaluate", "main") == "signature-verifier-failed"
    monkeypatch.delenv("AGENT_BUNDLER_POLICY")
    assert refused("verify", "--installed", "--path", str(site), "--demand-policy") == "signature-verifier-failed"


def test_list_tells_signers_and_states(here: Path) -> None:
    site = install_signed(here / "site")
    release = public("release").key_id
    out = agent_bundler("list", "--path", "site").out
    assert f"  not verified: it says that it is signed by {release}" in out
    (here / "none.toml").write_text('schema = "agent-bundler.trust.v1"\n')
    (value,) = answer("list", "--path", "site", "--policy", "none.toml")["providers"]
    assert (value["state"], value["problem"]["code"]) == ("refused", "signature-untrusted")
    assert "signature-untrusted: " in agent_bundler("list", "--path", "site", "--policy", "none.toml").out
    assert f"signed by release ({release})" in agent_bundler("list", "--path", "site", "--policy", "trust.toml").out
    (site / ENVELOPE).write_text("{}")
    (value,) = answer("list", "--path", "site")["providers"]
    assert (value["state"], value["problem"]["code"]) == ("refused", "signature-invalid")
    (site / ENVELOPE).unlink()
    drop_row(site, ENVELOPE)
    (here / "open.toml").write_text('schema = "agent-bundler.trust.v1"\nsignatures = "optional"\n')
    out = agent_bundler("list", "--path", "site", "--policy", "open.toml").out
    assert "consistent, not trusted (it is not signed, which the policy allows)" in out
    add_row(site, "x,,")


def test_a_reviewer_needs_no_tool_of_ours(here: Path) -> None:
    """The commands of README, as they stand there."""
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    start = readme.index("    unzip -q ")
    lines = [line.strip() for line in readme[start:].split("\n\n")[0].splitlines()]
    script = "\n".join(lines).replace("dist/NAME.whl", wheel().path).replace("release.key.pub", f"{KEY}.pub")
    script = script.replace("p_acme_release", "p_acme_demo")
    done = subprocess.run(["sh", "-eu", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Signature Verified Successfully" in done.stdout
    assert "provider.yaml: OK" in done.stdout
    assert done.stdout.count(": OK") == 7
    for name in ("agent_graph_providers/p_acme_demo/bundle/data.txt", ENVELOPE):
        shutil.rmtree("wheel")
        broken = script.replace(" -d wheel\n", f" -d wheel\nsed -i 's/[Aa]/B/' wheel/{name}\n")
        assert broken != script
        assert subprocess.run(["sh", "-eu", "-c", broken], capture_output=True, check=False).returncode != 0
    assert MODULE in ENVELOPE


def test_an_interrupted_prompt_and_no_terminal(here: Path) -> None:
    result = in_process("key", "generate", "k", cwd=here)
    assert result.status == 1
    assert "AGENT_BUNDLER_PASSPHRASE" in result.err
    assert not (here / "k").exists()


def test_an_empty_policy_is_none_that_can_be_read(here: Path) -> None:
    """As a variable that is not set gives it."""
    result = in_process("verify", NAME, "--policy", "")
    assert (result.status, "signature-verifier-failed" in result.err) == (1, True)
