"""For every valid case: source, bundle folder, wheel file and installed Provider are one Provider with one digest."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bundler.bundle.open import open_path
from bundler.protocol.model import Provider
from bundler.runtime.open import open_provider
from bundler.wheel.build import make_wheel
from bundler.wheel.settings import Settings

from ..builders import build_from
from .cases import lay_out, provider_cases

VALID = [
    name
    for name, case in provider_cases().items()
    if "error" not in case["expect"] and "buildError" not in case["expect"]
]


def value(provider: Provider) -> Provider:
    """What a host evaluates: the same wherever it lies. A source's manifest may have any name and layout."""
    executable = provider.executable - {provider.manifest_path}
    documents = {path: data for path, data in provider.documents.items() if path != provider.manifest_path}
    skills = {path: replace(skill, left_out={}) for path, skill in provider.skills.items()}
    return replace(provider, manifest_path="provider.yaml", documents=documents, executable=executable, skills=skills)


@pytest.mark.parametrize("name", VALID)
def test_one_provider_in_four_places(name: str, tmp_path: Path) -> None:
    case = provider_cases()[name]
    base = tmp_path.resolve()
    root = lay_out(case, base)
    manifest = case.get("manifest", "provider.yaml")
    digest = build_from(root, base / "out", manifest).digest
    with open_path(root / manifest) as source:
        expected = value(source.provider)
        # A version that Python's have no counterpart for is for the author to map.
        wheel = make_wheel(source, base / "dist", Settings(version="1.0"))
    assert wheel.digest == digest
    site = base / "site"
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--offline", "--no-index", "--no-deps"]
    subprocess.run([*command, "--target", site, wheel.path], check=True)
    for reference in (str(base / "out"), wheel.path, f"provider:{expected.id}"):
        with open_provider(reference, path=[str(site)]) as opened:
            assert (reference, opened.digest) == (reference, digest)
            assert value(opened.provider) == expected
