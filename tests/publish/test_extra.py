"""Without the extra `publish` everything but releasing works, and releasing says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ..builders import minimal, write_out

#: As if none of the extra were installed.
HIDDEN = """
import sys
from importlib.abc import MetaPathFinder
class Hidden(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in ('kingfisher_sdk', 'requests', 'twine', 'urllib3'):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hidden())
"""


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", HIDDEN + code, *arguments], capture_output=True, text=True, check=False
    )


COMMAND = "from bundler.cli.main import main; main()"


def test_a_host_needs_none_of_it(tmp_path: Path) -> None:
    root = str(write_out(minimal(), tmp_path / "source"))
    for arguments in (
        ["-m", root, "validate"],
        ["key", "generate", str(tmp_path / "k"), "--no-passphrase"],
        ["-m", root, "wheel", str(tmp_path / "dist"), "--key", str(tmp_path / "k")],
        ["index", "init", str(tmp_path / "index")],
    ):
        done = run(COMMAND, *arguments)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "code",
    [
        "from bundler.publish.repository import find_repository as f; f('http://127.0.0.1:1/')",
        "from bundler.publish.checks import run_checks as r\nwith r('none', 'work'): pass",
        "from bundler.publish.fetch import fetch_document as f; f('http://127.0.0.1:1/', 'channels/stable.json')",
    ],
)
def test_releasing_says_what_is_missing(code: str) -> None:
    done = run(code)
    assert done.returncode == 1
    assert "BundlerError: " in done.stderr
    assert "kingfisher_sdk, requests, twine, urllib3 can't be imported" in done.stderr
