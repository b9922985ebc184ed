"""Providers as installers leave them: wheels are built and installed once, a test changes a copy of what is there."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path

from bundler.bundle.manifest import digest_of
from bundler.bundle.open import open_path
from bundler.errors import BundlerError
from bundler.runtime.open import open_provider
from bundler.wheel.build import BuiltWheel, make_wheel
from bundler.wheel.settings import Settings

from .builders import PROVIDER, minimal, with_files, write_out

INFO = "agent_graph_provider_acme_demo-0.1.0.dist-info"
MODULE = "agent_graph_providers/p_acme_demo"
BUNDLE = f"{MODULE}/bundle"
SCRIPTS = {
    "scripts/check.py": "import lib\n\nprint(lib.SAID)\n",
    "scripts/lib.py": 'SAID = "good"\n',
    "data.txt": "data\n",
}

PIP = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]

#: Wheels by name: id, version, distribution (None for the one that follows from the id).
_WHEELS: dict[str, tuple[str, str, str | None]] = {
    "demo": ("acme/demo", "0.1.0", None),
    "newer": ("acme/demo", "0.2.0", None),
    "other": ("acme/other", "0.1.0", None),
    "twin": ("acme/demo", "0.1.0", "twin"),
}


@cache
def folder() -> Path:
    """Where all of this lies while tests run."""
    made = tempfile.mkdtemp(prefix="installs-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made).resolve()


@cache
def source(name: str = "demo") -> Path:
    """The Provider's source folder: it has two scripts and a file that is carried only."""
    provider_id, version, _ = _WHEELS[name]
    text = PROVIDER.replace("acme/demo", provider_id).replace("0.1.0", version)
    return write_out(with_files(minimal(provider_yaml=text), SCRIPTS), folder() / name / "source")


@cache
def wheel(name: str = "demo") -> BuiltWheel:
    """The Provider's wheel."""
    with open_path(source(name)) as opened:
        return make_wheel(opened, folder() / name / "dist", Settings(distribution=_WHEELS[name][2]))


@cache
def _installed(installer: str, names: tuple[str, ...], upgrade: bool) -> Path:
    target = folder() / "-".join([installer, *names, str(upgrade)])
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--link-mode", "copy", "--python", sys.executable]
    pip = [*PIP, *(["--upgrade"] if upgrade else [])]
    for wheels in [[name] for name in names] if upgrade else [list(names)]:
        paths = [wheel(name).path for name in wheels]
        command = [*(uv if installer == "uv" else pip), "--no-index", "--no-deps", "--target", str(target), *paths]
        subprocess.run(command, check=True, capture_output=True)
    return target


def install(target: Path, *names: str, installer: str = "pip", upgrade: bool = False) -> Path:
    """A folder into which an installer put these wheels, all at once or, to upgrade, one after the other."""
    return Path(shutil.copytree(_installed(installer, names or ("demo",), upgrade), target, symlinks=True))


def faults(reference: str, site: Path, **options: object) -> list[str]:
    """The codes of what opening raises; none where it opens."""
    try:
        with open_provider(reference, path=[str(site)], **options):  # type: ignore[arg-type]
            return []
    except BundlerError as error:
        return [diagnostic.code for diagnostic in error.diagnostics]


def record_row(site: Path, path: str, *, info: str = INFO, as_path: str | None = None) -> None:
    """Make RECORD say of a file what is there now; `as_path` is how it writes the path."""
    data = (site / path).read_bytes()
    written = urlsafe_b64encode(sha256(data).digest()).decode().rstrip("=")
    drop_row(site, as_path or path, info=info)
    add_row(site, f"{as_path or path},sha256={written},{len(data)}", info=info)


def add_row(site: Path, row: str, *, info: str = INFO) -> None:
    """A further line of RECORD."""
    with (site / info / "RECORD").open("a", newline="") as file:
        file.write(f"{row}\n")


def drop_row(site: Path, path: str, *, info: str = INFO) -> None:
    """RECORD without the path's line."""
    record = site / info / "RECORD"
    lines = record.read_text().splitlines(keepends=True)
    record.write_text("".join(line for line in lines if not line.startswith(f"{path},")))


def replace_consistently(site: Path, path: str, data: bytes) -> None:
    """Another content of a bundle's file that is only carried, and a manifest.json that lists it."""
    bundle = site / BUNDLE
    (bundle / path).write_bytes(data)
    manifest = json.loads((bundle / "manifest.json").read_bytes())
    for file in manifest["files"]:
        if file["path"] == path:
            file["digest"] = f"sha256:{sha256(data).hexdigest()}"
    manifest["digest"] = digest_of(manifest)
    (bundle / "manifest.json").write_text(json.dumps(manifest))


def as_another_user(work: Callable[[], str]) -> str:
    """What a process of a user answers whom modes bind; what it imports has to be imported before."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setuid(65534)
            os.write(write_end, work().encode())
        except BaseException as error:
            os.write(write_end, repr(error).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text
