"""pip and uv, with hashes, from `file://` and from a web server; a yanked version is passed over."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bundler.publish.index import FolderIndex

from ...installs import wheel as provider_wheel
from .releases import make_index, wheel

PIP = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
UV = [sys.executable, "-m", "uv", "pip", "install", "--no-cache", "--python", sys.executable]
#: Without what this machine has configured: other indexes would be asked too.
CLEAN = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))},
    "PIP_CONFIG_FILE": os.devnull,
    "UV_NO_CONFIG": "1",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> FolderIndex:
    """Two versions of a Provider, the newer one yanked; a project that no Python here may take."""
    folder = tmp_path_factory.mktemp("indexes")
    files = [Path(provider_wheel(name).path) for name in ("demo", "newer")]
    made = make_index(folder / "an index", *files, wheel(folder, "future", requires=">=99"))
    made.yank("agent-graph-provider-acme-demo", "0.2.0", reason="it is broken", who="me")
    return made


@pytest.fixture(scope="module")
def server(index: FolderIndex) -> Iterator[str]:
    """Its URL on a web server that knows nothing of indexes."""
    code = (
        "import functools, http.server, sys\n"
        "handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])\n"
        "server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)\n"
        "print(server.server_address[1], flush=True)\n"
        "server.serve_forever()\n"
    )
    command = [sys.executable, "-c", code, index.root]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=CLEAN) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/simple/"
        finally:
            process.kill()


@pytest.fixture(params=["file", "http"])
def url(request: pytest.FixtureRequest, index: FolderIndex) -> str:
    if request.param == "http":
        return str(request.getfixturevalue("server"))
    return f"{Path(index.root).as_uri()}/simple"


def install(tool: list[str], url: str, target: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [*tool, "--index-url", url, "--target", target, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=CLEAN, cwd=target.parent)


def installed(target: Path) -> list[str]:
    return sorted(each.name for each in target.glob("*.dist-info"))


@pytest.mark.parametrize("tool", [PIP, UV], ids=["pip", "uv"])
def test_with_hashes_and_without(tool: list[str], url: str, tmp_path: Path) -> None:
    made = provider_wheel("demo")
    (tmp_path / "list").write_text(f"{made.identity.distribution}==0.1.0 --hash=sha256:{made.sha256}\n")
    for name, arguments in (
        ("plain", [made.identity.distribution]),  # the newer one is yanked
        ("hashed", ["--require-hashes", "-r", tmp_path / "list"]),
    ):
        done = install(tool, url, tmp_path / name, *arguments)
        assert done.returncode == 0, done.stderr
        assert installed(tmp_path / name) == [made.identity.dist_info]


@pytest.mark.parametrize("tool", [PIP, UV], ids=["pip", "uv"])
def test_what_is_told_of_a_file_is_heeded(tool: list[str], index: FolderIndex, tmp_path: Path) -> None:
    url = f"{Path(index.root).as_uri()}/simple"
    newer = provider_wheel("newer")
    name = newer.identity.distribution
    (tmp_path / "list").write_text(f"{name}==0.2.0 --hash=sha256:{'0' * 64}\n")
    assert newer.sha256 in install(tool, url, tmp_path / "x", "--require-hashes", "-r", tmp_path / "list").stderr
    assert "future" in install(tool, url, tmp_path / "x", "future").stderr
    assert not installed(tmp_path / "x")
    done = install(tool, url, tmp_path / "yanked", f"{name}==0.2.0")
    assert done.returncode == 0, done.stderr
    assert installed(tmp_path / "yanked") == [newer.identity.dist_info]
    assert "it is broken" in done.stdout + done.stderr
