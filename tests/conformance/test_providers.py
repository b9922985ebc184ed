"""Every conformance case: validity, code, manifest, provider.yaml; and what our build writes, our verify accepts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bundler.bundle.verify import verify_bundle
from bundler.errors import BundlerError
from bundler.provider.load import load_provider
from bundler.tree import DirectoryTree

from ..builders import build_from
from .cases import SHARED, lay_out, provider_cases


def test_all_cases_are_there() -> None:
    if os.environ.get("CI"):
        assert SHARED.is_dir(), f"{SHARED} is missing: the generated cases would not run"
    assert len(provider_cases()) >= (300 if SHARED.is_dir() else 210)


@pytest.mark.parametrize("name", list(provider_cases()))
def test_case(name: str, tmp_path: Path) -> None:
    case = provider_cases()[name]
    expected = case["expect"]
    manifest = case.get("manifest", "provider.yaml")
    base = tmp_path.resolve()
    root = lay_out(case, base)
    code = None
    with DirectoryTree(root) as tree:
        try:
            load_provider(tree, manifest)
        except BundlerError as error:
            code = error.code
    assert code == expected.get("error")
    if code is not None:
        return
    output = base / "out"
    if "buildError" in expected:
        with pytest.raises(BundlerError) as raised:
            build_from(root, output, manifest)
        assert raised.value.code == expected["buildError"]
        assert not output.exists()
        return
    built = build_from(root, output, manifest)
    written = (output / "manifest.json").read_bytes()
    if "manifest" in expected:
        assert written.decode() == json.dumps(expected["manifest"], indent=2, ensure_ascii=False) + "\n"
        assert (output / "provider.yaml").read_text() == expected["providerYaml"]
    with DirectoryTree(output) as tree:
        assert verify_bundle(tree).manifest == built
    assert sorted(os.listdir(base)) == sorted({"root", "out", *case.get("outside", {})})
