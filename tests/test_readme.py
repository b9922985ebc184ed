"""What the README shows works as it stands there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bundler.cli.main import run

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_python_example(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(ROOT / "templates" / "provider", here / "my-provider")
    code = python_block("make_wheel")
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out == "example/release True\n"
    (here / "out" / "extra").write_text("x")
    exec(compile(code[: code.index("\n")] + code[code.index("\ntry:") :], "README.md", "exec"), {})
    assert capsys.readouterr().out == "bundle-files-mismatch ['extra']\n"


def python_block(word: str) -> str:
    """The one Python example that holds the word."""
    (code,) = [each for each in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if word in each]
    return str(code)


def test_the_host_example(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["init", "my-provider", "--id", "acme/release"]) == 0
    assert run(["-m", "my-provider", "wheel", "dist"]) == 0
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", "site"]
    subprocess.run([*install, *Path("dist").iterdir()], check=True)
    monkeypatch.syspath_prepend(str(here / "site"))
    capsys.readouterr()
    for _ in range(2):  # the second time with a record
        exec(compile(python_block("evaluate("), "README.md", "exec"), {})
        assert capsys.readouterr().out == (
            "waiting-user ['approve']\nPublish the package as it was checked? ['git show --stat']\n"
        )


def test_the_command_lines(here: Path) -> None:
    """Each line that is indented and begins with the command, in their order; with the policy that stands there."""
    (policy,) = re.findall(r"```toml\n(schema = .*?)```", README, re.DOTALL)
    (here / "trust.toml").write_text(re.sub("not-after = \\S+", "", policy))  # the test outlives the example's key
    (here / "attestations").mkdir()
    environment = {**os.environ, "AGENT_BUNDLER_PASSPHRASE": "x y z"}
    wheel = "agent_graph_provider_acme_release-0.1.0-py3-none-any.whl"
    lines = [line.split("#")[0].strip() for line in README.splitlines() if line.startswith("    agent-bundler ")]
    assert len(lines) >= 10
    lines.sort(key=lambda line: "build --check" in line)  # the others come first here: they make what it compares with
    for line in lines:
        command, _, target = line.partition(">")
        arguments = shlex.split(command.replace("PATH", "codes.yaml").replace("NAME.whl", wheel))[1:]
        code = "from bundler.cli.main import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, check=False, env=environment
        )
        assert done.returncode == 0, (line, done.stderr)
        if target:
            Path(target.strip()).write_bytes(done.stdout)
    tool = ["sha256sum"] if shutil.which("sha256sum") else ["shasum", "-a", "256"]
    done = subprocess.run([*tool, "--check", "--quiet", "../list"], cwd="out", check=False)
    assert done.returncode == 0


def test_the_benchmark_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            ROOT / "scripts" / "bench",
            "--files",
            "100,200",
            "--wheel-files",
            "200",
            "--runs",
            "1",
            "--work",
            tmp_path,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    for part in (
        "agent-bundler --version",
        "200 files",
        "Growth",
        "copy, digest, scan",
        "against hatchling",
        "with a record",
        "folder index of 1,000 releases",
    ):
        assert part in done.stdout


def test_security_names_tests_that_are_there() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    named = re.findall(r"`(tests/[a-z_/]+\.py)`", text)
    assert len(named) >= 10
    for name in named:
        assert (ROOT / name).is_file()


def test_what_it_names_is_there() -> None:
    for name in re.findall(r"\]\(([A-Z]+\.md)\)", README):
        assert (ROOT / name).is_file()
    for name in ("scripts/quickstart", "scripts/test"):
        assert os.access(ROOT / name, os.X_OK)
    assert run(["--version"]) == 0
