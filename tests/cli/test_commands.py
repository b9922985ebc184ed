"""Every command on good input and on bad: output, exit status, JSON, errors with code, place and remedy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bundler import __version__
from bundler.protocol.documents import parse_json
from bundler.protocol.schemas import NAMES, check

from ..builders import PROVIDER, minimal, snapshot, with_files, with_skill, write_out
from .run import Result, agent_bundler, in_process

TEMPLATE = Path(__file__).parents[2] / "templates" / "provider"
COMMANDS = ("init", "validate", "build", "verify", "inspect", "explain", "graph", "digest", "schema")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return Path(shutil.copytree(TEMPLATE, tmp_path / "source"))


@pytest.fixture
def bundle(source: Path, tmp_path: Path) -> Path:
    assert agent_bundler("-m", str(source), "build", str(tmp_path / "bundle")).status == 0
    return tmp_path / "bundle"


def answer(*arguments: str) -> Any:
    """The JSON on stdout; what has a schema satisfies it."""
    result = agent_bundler(*arguments, "--format", "json")
    # Of what is built it is told that nobody vouches for it.
    told = [line for line in result.err.splitlines() if json.loads(line)["code"] != "provider-untrusted"]
    assert (result.status, told) == (0, [])
    assert result.out.count("\n") == 1
    document = parse_json(result.out.encode(), "stdout")
    schema = document.value.get("schema", "").split(".")
    if len(schema) == 3:
        check(document, schema[1])
    return document.value


def refused(*arguments: str, status: int = 1) -> str:
    """The code of the error envelope, which satisfies its schema; nothing is on stdout."""
    result = agent_bundler(*arguments, "--format", "json")
    assert (result.status, result.out) == (status, "")
    document = parse_json(result.err.encode(), "stderr")
    check(document, "error")
    return str(document.value["error"]["code"])


def test_init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    value = answer("init", str(tmp_path / "new"), "--id", "acme/x")
    assert value == {"state": "created", "manifest": str(tmp_path / "new" / "provider.yaml")}
    assert answer("-m", value["manifest"], "validate")["provider"]["id"] == "acme/x"
    assert refused("init", str(tmp_path / "new"), "--id", "acme/x") == "provider-target-exists"
    assert refused("init", str(tmp_path / "other"), "--id", "Acme") == "id-invalid"
    assert agent_bundler("init", str(tmp_path / "other")).status == 2
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert "created" in agent_bundler("init", "--id", "acme/y").out
    assert (tmp_path / "here" / "provider.yaml").is_file()


def test_validate(source: Path) -> None:
    value = answer("-m", str(source), "validate")
    assert (value["state"], value["counts"]["nodes"]) == ("valid", 5)
    result = agent_bundler("validate", "-m", str(source))
    assert result.out == "example/release 0.1.0: valid (1 Graph, 5 nodes, 5 edges, 4 Actions, 1 Resource, 4 codes)\n"


def test_validate_warns_of_what_build_refuses_and_of_skills(source: Path) -> None:
    (source / "skills/release/nul").write_text("x")
    (source / "skills/release/SKILL.md").write_text("no front matter")
    result = agent_bundler("validate", "-m", str(source))
    assert result.status == 0
    assert "warning[path-not-portable]" in result.err
    assert "warning[skill-frontmatter-unusable]" in result.err
    assert "remedy:" in result.err
    quiet = agent_bundler("validate", "-m", str(source), "-q")
    assert quiet.err == ""
    lines = agent_bundler("validate", "-m", str(source), "--format", "json").err.splitlines()
    assert {json.loads(line)["severity"] for line in lines} == {"warning"}


def test_errors_tell_code_place_and_remedy(source: Path) -> None:
    action = source / "actions" / "check.yaml"
    action.write_text(
        action.read_text().replace("effect: read", "effect: reads").replace("scripts/check.py", "scripts/none.py")
    )
    (source / "graphs" / "release.yaml").write_text("a: [b")
    result = agent_bundler("validate", "-m", str(source))
    assert result.status == 1
    assert result.err.startswith("error[parse-failed] graphs/release.yaml:2:1 is not YAML")
    assert "remedy: close the list" in result.err
    result = agent_bundler("validate", "-m", str(source / "nothing"))
    assert (result.status, "file-missing" in result.err, "remedy:" in result.err) == (1, True, True)


def test_several_faults_are_counted(tmp_path: Path) -> None:
    files = minimal(
        actions__work_yaml="schema: agent-graph.action.v1\nid: W\nrunner: command\neffect: none\ncommand: x\n"
    )
    result = agent_bundler("validate", "-m", str(write_out(files, tmp_path / "p")))
    assert "error[schema.pattern] actions/work.yaml:2:5" in result.err
    assert "2 faults; the first decides the code: schema-invalid" in result.err
    one = minimal(
        actions__work_yaml="schema: agent-graph.action.v1\nid: w\nrunner: command\neffect: none\ncommand: x\n"
    )
    assert "code: schema-invalid" in agent_bundler("validate", "-m", str(write_out(one, tmp_path / "q"))).err


@pytest.mark.parametrize("place", [0, 1, 2])
def test_global_options_stand_before_or_after(source: Path, place: int) -> None:
    arguments = ["inspect", "provider"]
    arguments[place:place] = ["-m", str(source), "--format", "json", "-q"]
    result = agent_bundler(*arguments)
    assert json.loads(result.out)["provider"]["id"] == "example/release"


def test_the_default_manifest_is_in_the_current_folder(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(source)
    assert agent_bundler("validate").status == 0
    assert agent_bundler("build").status == 0
    assert (source / "dist" / "provider" / "manifest.json").is_file()
    assert agent_bundler("verify").status == 0
    assert agent_bundler("verify", "-m", "dist/provider").status == 0


def test_build(source: Path, tmp_path: Path) -> None:
    value = answer("-m", str(source), "build", str(tmp_path / "out"))
    assert value == json.loads((tmp_path / "out" / "manifest.json").read_bytes())
    result = agent_bundler("-m", str(source), "build", str(tmp_path / "out"))
    assert result.out.splitlines()[-1] == value["digest"]


def test_build_dry_run_shows_the_plan_and_writes_nothing(source: Path, bundle: Path) -> None:
    (source / "skills/release/.DS_Store").write_text("x")
    before = snapshot(bundle.parent)
    value = answer("-m", str(source), "build", "--dry-run", str(bundle))
    assert (value["state"], value["replaces"], value["output"]) == ("planned", True, str(bundle))
    assert value["leftOut"] == [{"path": "skills/release/.DS_Store", "reason": "macOS folder settings"}]
    assert value["manifest"]["digest"] == json.loads((bundle / "manifest.json").read_bytes())["digest"]
    script = next(file for file in value["files"] if file["path"] == "scripts/check.py")
    assert script == {
        "path": "scripts/check.py",
        "size": (source / "scripts/check.py").stat().st_size,
        "executable": True,
        "reason": "graphs/release.yaml › node check › actions/check.yaml › entry",
    }
    text = agent_bundler("-m", str(source), "build", "--dry-run", str(bundle.parent / "new")).out
    assert "left out: skills/release/.DS_Store (macOS folder settings)" in text
    assert "would write" in text
    assert refused("-m", str(source), "build", "--dry-run", str(source)) == "build-output-overlaps-source"
    assert snapshot(bundle.parent) == before


def test_build_check(source: Path, bundle: Path) -> None:
    assert "up to date" in agent_bundler("-m", str(source), "build", "--check", str(bundle)).out
    (source / "codes.yaml").write_text(
        (source / "codes.yaml").read_text().replace("not been checked", "not been inspected")
    )
    before = snapshot(bundle)
    assert refused("-m", str(source), "build", "--check", str(bundle)) == "build-output-differs"
    assert snapshot(bundle) == before
    assert refused("-m", str(source), "build", "--check", str(bundle / "none")) == "file-missing"
    assert agent_bundler("-m", str(source), "build", "--check", "--dry-run", str(bundle)).status == 2


@pytest.mark.parametrize(
    ("files", "code"),
    [
        (with_files(minimal(), {"manifest.json": "x"}), "build-generated-name-clash"),
        (with_skill(nul="x"), "path-not-portable"),
        (with_skill(a="1", A="2"), "path-collision"),
        (with_skill(leak="{ROOT}/x"), "build-absolute-path-leak"),
    ],
)
def test_build_refuses(tmp_path: Path, files: dict[str, str | bytes], code: str) -> None:
    root = tmp_path.resolve() / "root"
    write_out(
        {path: text.replace("{ROOT}", str(root)) if isinstance(text, str) else text for path, text in files.items()},
        root,
    )
    assert refused("-m", str(root), "build", str(tmp_path / "out")) == code
    assert os.listdir(tmp_path) == ["root"]


def test_verify(bundle: Path, source: Path, tmp_path: Path) -> None:
    value = answer("verify", str(bundle))
    assert (value["state"], value["trusted"]) == ("consistent", False)
    assert value["bundles"][0]["digest"] == json.loads((bundle / "manifest.json").read_bytes())["digest"]
    assert answer("verify", str(bundle / "manifest.json"), str(bundle))["bundles"][1] == value["bundles"][0]
    assert "consistent, not trusted" in agent_bundler("verify", str(bundle)).out
    assert refused("verify", str(source)) == "file-missing"
    (bundle / "extra").write_text("x")
    good = tmp_path / "good"
    agent_bundler("-m", str(source), "build", str(good))
    result = agent_bundler("verify", str(bundle), str(good))
    assert (result.status, f"{good}: example/release" in result.out) == (1, True)
    assert f"{bundle}: `extra` lies in the bundle" in result.err
    assert refused("verify", str(bundle), str(good)) == "bundle-files-mismatch"


def test_verify_refuses_what_it_would_ignore(bundle: Path, source: Path) -> None:
    for arguments in (["--skill", str(source / "skills/release/SKILL.md")], ["-m", str(bundle), str(bundle)]):
        assert agent_bundler("verify", *arguments).status == 2


def test_warnings_of_several_bundles_name_theirs(tmp_path: Path) -> None:
    files = minimal(provider_yaml=PROVIDER + "compatibility: { agentGraph: ^0.2.0 }\n")
    for name in ("one", "two"):
        agent_bundler("-m", str(write_out(files, tmp_path / f"source-{name}")), "build", str(tmp_path / name))
    result = agent_bundler("verify", str(tmp_path / "one"), str(tmp_path / "two"))
    for name in ("one", "two"):
        assert f"warning[compatibility-unsupported] {tmp_path / name}: provider.yaml:" in result.err


def test_who_has_a_bundle_is_not_told_to_repair_it(bundle: Path) -> None:
    (bundle / "codes.yaml").unlink()
    result = agent_bundler("verify", str(bundle))
    assert "error[file-missing]" in result.err
    assert "remedy: rebuild the bundle from its source, or fetch it again" in result.err
    (bundle / "manifest.json").write_text("{")
    assert "remedy: rebuild the bundle" in agent_bundler("verify", str(bundle)).err
    (bundle / "manifest.json").unlink()
    assert "remedy: name the folder that `agent-bundler build` wrote" in agent_bundler("verify", str(bundle)).err


def test_junk_is_reported_where_it_is_left_out(source: Path, tmp_path: Path) -> None:
    for name in (".DS_Store", "a~", "b~", "c~"):
        (source / "skills/release" / name).write_text("x")
    for arguments in (["build", str(tmp_path / "out")], ["validate"]):
        err = agent_bundler("-m", str(source), *arguments).err
        assert err.startswith(
            "note[junk-left-out] left out of Skill folders: skills/release/.DS_Store (macOS folder settings), "
        )
        assert "and 1 more" in err


def test_several_graphs_are_drawn_as_a_page(tmp_path: Path) -> None:
    files = minimal(provider_yaml=PROVIDER.replace("]", ", graphs/two.yaml]"))
    files["graphs/two.yaml"] = str(files["graphs/main.yaml"]).replace("id: main", "id: two")
    text = agent_bundler("graph", "-m", str(write_out(files, tmp_path / "p"))).out
    assert text.count("```mermaid\n---\ntitle:") == 2
    assert text.startswith("## main\n")


def test_the_place_of_a_leak(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "root"
    write_out(with_skill(leak=f"one\ntwo é {root}/x"), root)
    err = agent_bundler("-m", str(root), "build", str(tmp_path / "out")).err
    assert "skills/s/leak:2:7 holds the absolute path" in err


def test_inspect_provider(source: Path, bundle: Path) -> None:
    from_source, from_bundle = (
        answer("inspect", "provider", "-m", str(source)),
        answer("inspect", "provider", "-m", str(bundle)),
    )
    assert from_source["provider"]["manifest"] == str(source / "provider.yaml")
    assert {**from_source, "provider": None} == {**from_bundle, "provider": None}
    text = agent_bundler("inspect", "provider", "-m", str(bundle)).out
    for part in (
        "a bundle, consistent, not trusted",
        "external  host     publish (cwd workspace): release.publish",
        "read      command  show (cwd workspace): git show --stat",
    ):
        assert part in text
    assert "a source" in agent_bundler("inspect", "provider", "-m", str(source)).out


def test_inspect_files(source: Path, bundle: Path) -> None:
    value = answer("inspect", "files", "-m", str(source))
    by_path = {file["path"]: file for file in value["files"]}
    assert by_path["scripts/check.py"]["executable"]
    assert by_path["codes.yaml"]["reasons"] == ["provider.yaml › catalogs.codes"]
    assert {other["path"] for other in value["notCarried"]} == {"pyproject.toml", "tests/"}
    listed = {file["path"]: file["digest"] for file in json.loads((bundle / "manifest.json").read_bytes())["files"]}
    of_bundle = answer("inspect", "files", "-m", str(bundle))
    assert {file["path"]: file["digest"] for file in of_bundle["files"] if file["path"] != "manifest.json"} == listed
    assert of_bundle["notCarried"] == []
    text = agent_bundler("inspect", "files", "-m", str(source)).out
    assert "not carried: tests/ (nothing that is carried names it)" in text
    assert "12 files" in text


def test_inspect_skill(source: Path) -> None:
    value = answer("inspect", "skill", str(source / "skills/release/SKILL.md"))
    check(parse_json(json.dumps(value["binding"]).encode(), "binding"), "skill-binding")
    check(parse_json(json.dumps(value["provider"]).encode(), "provider"), "inspect")
    assert "Graph     release" in agent_bundler("inspect", "skill", str(source / "skills/release/SKILL.md")).out
    assert refused("inspect", "skill", str(source / "resources/checklist.md")) == "skill-binding-missing"
    assert refused("inspect", "skill", str(source / "none.md")) == "file-missing"


def test_a_skill_selects_the_provider(source: Path, tmp_path: Path) -> None:
    skill = str(source / "skills/release/SKILL.md")
    assert answer("--skill", skill, "validate")["provider"]["id"] == "example/release"
    assert answer("--skill", skill, "validate", "-m", str(source / "provider.yaml"))["state"] == "valid"
    assert refused("--skill", skill, "validate", "-m", str(tmp_path / "provider.yaml")) == "option-invalid"
    text = (source / "skills/release/SKILL.md").read_text()
    (source / "skills/release/SKILL.md").write_text(
        text.replace("path:../../provider.yaml", "provider:example/release")
    )
    registry = tmp_path / "registry.json"
    registry.write_text(json.dumps({"providers": {"example/release": "source/provider.yaml"}}))
    assert answer("--registry", str(registry), "--skill", skill, "validate")["state"] == "valid"
    assert refused("--skill", skill, "validate") == "provider-unresolved"


@pytest.mark.parametrize(
    ("path", "carried", "reason"),
    [
        ("scripts/check.py", True, "graphs/release.yaml › node check › actions/check.yaml › entry"),
        ("./scripts//check.py", True, "graphs/release.yaml › node check › actions/check.yaml › entry"),
        ("tests/waits-for-approval.yaml", False, "nothing that is carried names it"),
        ("tests", False, "nothing that is carried names it"),
        ("skills/release/.DS_Store", False, "left out: macOS folder settings"),
        ("scripts", False, "it is a folder, of which 1 files are carried, scripts/check.py among them"),
    ],
)
def test_explain(source: Path, path: str, carried: bool, reason: str) -> None:
    (source / "skills/release/.DS_Store").write_text("x")
    value = answer("explain", path, "-m", str(source))
    assert (value["carried"], value["reasons"]) == (carried, [reason])
    assert reason in agent_bundler("explain", path, "-m", str(source)).out


def test_explain_other_spellings(source: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer("explain", str(source / "codes.yaml"), "-m", str(source))["carried"]
    monkeypatch.chdir(source / "scripts")
    assert answer("explain", "check.py", "-m", str(source))["path"] == "scripts/check.py"
    assert "generated" in answer("explain", "manifest.json", "-m", str(bundle))["reasons"][0]
    assert refused("explain", "nothing.txt", "-m", str(source)) == "path-unknown"
    assert refused("explain", "../x", "-m", str(source)) == "path-outside-provider"


def test_graph(source: Path) -> None:
    text = agent_bundler("graph", "-m", str(source)).out
    assert text == answer("graph", "release", "-m", str(source))["graphs"][0]["mermaid"]
    assert "flowchart TD" in text
    assert refused("graph", "other", "-m", str(source)) == "graph-missing"


@pytest.mark.parametrize("algorithm", ["sha256", "blake3"])
def test_digest(source: Path, bundle: Path, algorithm: str) -> None:
    for place in (source, bundle):
        result = agent_bundler("digest", "--algorithm", algorithm, "-m", str(place))
        value = answer("digest", "--algorithm", algorithm, "-m", str(place))
        assert value["fingerprint"] in result.err
        assert result.out == "".join(f"{file['digest'].partition(':')[2]}  {file['path']}\n" for file in value["files"])
        assert (
            agent_bundler("digest", "--fingerprint", "--algorithm", algorithm, "-m", str(place)).out.strip()
            == value["fingerprint"]
        )
    assert agent_bundler("digest", "--algorithm", "md5", "-m", str(source)).status == 2


def test_digest_lists_are_read_by_sha256sum(bundle: Path) -> None:
    result = agent_bundler("digest", "-q", "-m", str(bundle))
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet"],
        input=result.out,
        text=True,
        cwd=bundle,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    whole = subprocess.run(["sha256sum"], input=result.out, text=True, capture_output=True, check=True).stdout.split()[
        0
    ]
    assert f"sha256:{whole}" == agent_bundler("digest", "--fingerprint", "-m", str(bundle)).out.strip()


def test_schema(tmp_path: Path) -> None:
    assert answer("schema", "list") == {"schemas": list(NAMES)}
    assert agent_bundler("schema", "list").out.split() == list(NAMES)
    path = answer("schema", "path", "graph")["path"]
    assert agent_bundler("schema", "path", "graph").out.strip() == path
    output = tmp_path / "graph.schema.json"
    assert agent_bundler("schema", "extract", "graph", "--output", str(output)).status == 0
    assert output.read_bytes() == Path(path).read_bytes()
    assert refused("schema", "extract", "graph", "--output", str(output)) == "schema-target-exists"
    assert (
        refused("schema", "extract", "graph", "--output", str(tmp_path / "no" / "x"), status=3) == "output-write-failed"
    )
    assert refused("schema", "path", "nope") == "schema-type-unknown"
    assert answer("schema", "extract", "run", "--output", str(tmp_path / "run.json")) == {
        "name": "run",
        "output": str(tmp_path / "run.json"),
    }


@pytest.mark.parametrize(
    "arguments", [["nope"], ["build", "a", "b"], ["--nope"], ["explain"], ["schema", "nope"], ["digest", "--algorithm"]]
)
def test_usage_errors_end_with_2(arguments: list[str]) -> None:
    result = agent_bundler(*arguments)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(("Usage:", "Error:"))
    if arguments[-1] != "--algorithm":  # which takes what follows as its value
        assert refused(*arguments, status=2) == "usage-invalid"


def test_an_unknown_format_has_a_code() -> None:
    result = agent_bundler("--format", "xml", "schema", "list")
    assert (result.status, "error[format-invalid]" in result.err) == (1, True)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example(name: str) -> None:
    result = agent_bundler(name, "--help")
    assert (result.status, "Example: agent-bundler" in result.out, "--manifest" in result.out) == (0, True, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "files"],
        ["inspect", "skill"],
        ["inspect", "provider"],
        ["schema", "list"],
        ["schema", "path"],
        ["schema", "extract"],
    ],
)
def test_help_of_subcommands_has_an_example(arguments: list[str]) -> None:
    assert "Example: agent-bundler" in agent_bundler(*arguments, "--help").out


def test_help_and_version() -> None:
    assert all(name in agent_bundler("--help").out for name in COMMANDS)
    assert agent_bundler("--version").out == f"agent-bundler {__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion(shell: str) -> None:
    assert "agent-bundler" in in_process(_AGENT_BUNDLER_COMPLETE=f"{shell}_source").out
    result = in_process(_AGENT_BUNDLER_COMPLETE="bash_complete", COMP_WORDS="agent-bundler va", COMP_CWORD="1")
    assert result.out.strip() == "plain,validate"


@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
    ],
)
def test_terminals_that_are_no_utf_8(source: Path, environment: dict[str, str]) -> None:
    (source / "skills/release/🚀 é").write_text("x")
    human = in_process("inspect", "files", "-m", str(source), **environment)
    assert (human.status, "Traceback" in human.err) == (0, False)
    value = json.loads(in_process("inspect", "files", "-m", str(source), "--format", "json", **environment).out)
    assert "skills/release/🚀 é" in [file["path"] for file in value["files"]]


def test_no_colour_and_no_progress_but_on_a_terminal(source: Path, tmp_path: Path) -> None:
    result = in_process("-m", str(source), "build", str(tmp_path / "out"))
    assert ("\x1b" in result.out + result.err, result.err) == (False, "")
    assert "\x1b" not in in_process("validate", "-m", str(tmp_path / "none")).err


def test_colour_on_a_terminal_unless_it_is_unwanted(tmp_path: Path) -> None:
    assert "\x1b[31m" in on_terminal("validate", "-m", str(tmp_path / "none"))
    assert "\x1b" not in on_terminal("validate", "-m", str(tmp_path / "none"), NO_COLOR="1")


def test_progress_on_a_terminal(tmp_path: Path) -> None:
    files = with_skill(**{f"f{i}": "x" * 2000 for i in range(3000)})
    root = write_out(files, tmp_path / "root")
    slow = "import bundler.cli.output as o; o.time.monotonic = iter(range(10**9)).__next__; "
    shown = on_terminal("-m", str(root), "build", str(tmp_path / "out"), before=slow)
    assert "of 3,004 files" in shown
    assert "\r\x1b[K" in shown


def on_terminal(*arguments: str, before: str = "", **environment: str) -> str:
    """What the command shows on a terminal."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", before + "from bundler.cli.main import main; main()", *arguments],
        stdout=theirs,
        stderr=theirs,
        env={**{name: value for name, value in os.environ.items() if name != "NO_COLOR"}, **environment},
    )
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:  # how a terminal ends on Linux
        pass
    process.wait(60)
    os.close(ours)
    return shown.decode()


def test_a_closed_stdout_is_no_traceback(source: Path) -> None:
    code = "from bundler.cli.main import main; main()"
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run(
        [sys.executable, "-c", code, "inspect", "files", "-m", str(source)],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (process.returncode, process.stderr) == (1, "")


def test_a_fault_of_our_own_is_told_as_one(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bundler.provider import inspection

    def broken(*arguments: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(inspection, "inspect_provider", broken)
    result: Result = agent_bundler("validate", "-m", str(source))
    assert (result.status, "error[internal-error] RuntimeError: broken" in result.err) == (3, True)
    monkeypatch.setenv("AGENT_BUNDLER_DEBUG", "1")
    with pytest.raises(RuntimeError):
        agent_bundler("validate", "-m", str(source))


def test_a_current_folder_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    code = "import os, sys; os.chdir(sys.argv.pop(1)); os.rmdir(os.getcwd()); from bundler.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "gone"), "validate"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "error[environment-failed]" in done.stderr) == (3, True)


def test_a_full_stdout() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from bundler.cli.main import main; main()", "schema", "list"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, "error[environment-failed] the system answers: No space left" in done.stderr) == (3, True)


def test_a_stdout_that_is_closed() -> None:
    done = subprocess.run(
        ["sh", "-c", '"$0" -m bundler schema list >&-', sys.executable],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, "error[environment-failed]" in done.stderr) == (3, True)


def test_which_of_several_bundles_passed_is_told_in_json_too(bundle: Path, tmp_path: Path) -> None:
    result = agent_bundler("verify", str(bundle), str(tmp_path / "none"), "--format", "json")
    found = [(d["code"], d["severity"]) for d in json.loads(result.err)["error"]["diagnostics"]]
    assert found == [("file-missing", "error"), ("bundle-consistent", "info")]


def test_text_of_a_provider_cannot_steer_a_terminal(tmp_path: Path) -> None:
    hostile = 'schema: agent-graph.action.v1\nid: work\nrunner: command\neffect: write\ncommand: "evil\\e[2K\\rmake\\n  read      command  fake: true"\n'
    root = write_out({**minimal(actions__work_yaml=hostile)}, tmp_path / "root")
    result = agent_bundler("inspect", "provider", "-m", str(root))
    assert "evil\\x1b[2K\\rmake\\n  read" in result.out
    assert not set(result.out) & {"\x1b", "\r"}
    names = write_out(with_skill(**{"a\x1b]0;x\nb": "x"}), tmp_path / "names")
    err = agent_bundler("build", str(tmp_path / "out"), "-m", str(names)).err
    assert "\x1b" not in err
    assert len(err.splitlines()) == 2


def test_an_error_in_json_is_the_only_document_on_stderr(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "root"
    files = with_skill(leak=f"{root}/x")
    files["provider.yaml"] = PROVIDER + "compatibility: { agentGraph: ^0.2.0 }\n"
    write_out(files, root)
    result = agent_bundler("-m", str(root), "build", str(tmp_path / "out"), "--format", "json")
    diagnostics = json.loads(result.err)["error"]["diagnostics"]
    assert [(d["code"], d["severity"]) for d in diagnostics] == [
        ("build-absolute-path-leak", "error"),
        ("compatibility-unsupported", "warning"),
    ]


def test_what_is_not_carried_is_not_looked_into(source: Path) -> None:
    (source / "closed").mkdir(0)
    assert "closed/" in [other["path"] for other in answer("inspect", "files", "-m", str(source))["notCarried"]]
    assert answer("explain", ".", "-m", str(source))["reasons"] == ["it is the Provider root"]


def test_an_interrupt_is_no_traceback(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bundler.provider import inspection

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(inspection, "inspect_provider", interrupted)
    assert agent_bundler("validate", "-m", str(source)).status == 130


def test_a_missing_libyaml_says_what_to_do(source: Path) -> None:
    code = "import sys; sys.modules['yaml.cyaml'] = None; from bundler.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "validate", "-m", str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "error[libyaml-missing]" in done.stderr
    assert "remedy: install a PyYAML wheel that contains libyaml" in done.stderr


def test_a_provider_of_0_2_is_built_with_a_warning(tmp_path: Path) -> None:
    root = write_out(minimal(provider_yaml=PROVIDER + "compatibility: { agentGraph: ^0.2.0 }\n"), tmp_path / "root")
    result = agent_bundler("-m", str(root), "build", str(tmp_path / "out"))
    assert (result.status, "warning[compatibility-unsupported]" in result.err) == (0, True)
