"""Schemas and templates are found in a checkout (and so in an editable install) and in an installed wheel."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import bundler
from bundler import data
from bundler.data import data_folder
from bundler.errors import BundlerError
from bundler.protocol.schemas import NAMES

ROOT = Path(bundler.__file__).resolve().parents[1]


def test_in_a_checkout() -> None:
    assert data_folder("schemas") == ROOT / "schemas"
    assert data_folder("templates") == ROOT / "templates"
    assert {file.name for file in data_folder("schemas").iterdir()} == {f"{name}.schema.json" for name in NAMES}


def test_in_a_wheel(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    code = "from bundler.data import data_folder as f; print(f('schemas')); print(f('templates')); import bundler.protocol.schemas as s; s.check"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(installed / "bundler" / "schemas"), str(installed / "bundler" / "templates")]
    assert (installed / "bundler" / "py.typed").is_file()
    for name in NAMES:
        assert (installed / "bundler" / "schemas" / f"{name}.schema.json").read_bytes() == (
            ROOT / "schemas" / f"{name}.schema.json"
        ).read_bytes()
    assert sorted(
        file.relative_to(installed / "bundler")
        for file in (installed / "bundler" / "templates").rglob("*")
        if file.is_file()
    ) == sorted(
        file.relative_to(ROOT)
        for file in (ROOT / "templates").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    )


def test_a_broken_installation_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "_PACKAGE", tmp_path / "bundler")
    with pytest.raises(BundlerError) as raised:
        data_folder("schemas")
    assert (raised.value.code, raised.value.is_environment) == ("installation-incomplete", True)
