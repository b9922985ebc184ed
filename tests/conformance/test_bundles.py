"""Tampered bundles: each is refused with its code, or accepted where only the form differs."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bundler.bundle.manifest import digest_of
from bundler.bundle.verify import verify_bundle
from bundler.errors import BundlerError
from bundler.tree import DirectoryTree

from ..builders import build_from
from .cases import collection, lay_out, provider_cases

_CASES = collection("bundles.json")
_LISTS = ("graphs", "actions", "resources", "schemas", "files")


@pytest.mark.parametrize("case", _CASES, ids=[case["name"] for case in _CASES])
def test_tampered_bundle(case: dict[str, Any], tmp_path: Path) -> None:
    base = tmp_path.resolve()
    output = base / "out"
    build_from(lay_out(provider_cases()[case["base"]], base), output)
    shutil.rmtree(base / "root")
    text = json.loads((output / "manifest.json").read_bytes())
    raw = None
    for op in case["ops"]:
        raw = _apply(op, output, text) or raw
    (output / "manifest.json").write_text(
        json.dumps(text, indent=3, ensure_ascii=False) if raw is None else raw["text"]
    )
    code = "ok"
    with DirectoryTree(output) as tree:
        try:
            verify_bundle(tree)
        except BundlerError as error:
            code = error.code
    assert code == case["expect"]


def _apply(op: dict[str, Any], output: Path, manifest: dict[str, Any]) -> dict[str, Any] | None:
    file = output / op.get("path", "")
    match op["op"]:
        case "write":
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(op["text"])
        case "append":
            with file.open("a") as opened:
                opened.write(op["text"])
        case "delete":
            file.unlink()
        case "symlink":
            file.parent.mkdir(parents=True, exist_ok=True)
            file.symlink_to(op["target"])
        case "mkdir":
            file.mkdir(parents=True)
        case "set":
            _set(manifest, op)
        case "list":
            manifest["files"].append({"path": op["path"], "digest": _digest(file)})
        case "unlist":
            manifest["files"] = [entry for entry in manifest["files"] if entry["path"] != op["path"]]
        case "reverse":
            for name in _LISTS:
                manifest[name].reverse()
        case "rehash":
            for entry in (entry for name in _LISTS for entry in manifest[name]):
                if (output / entry["path"]).exists():
                    entry["digest"] = _digest(output / entry["path"])
        case "resign":
            manifest["digest"] = digest_of(manifest)
        case "raw":
            return op
        case unknown:
            raise AssertionError(f"unknown op {unknown}")
    return None


def _set(manifest: dict[str, Any], op: dict[str, Any]) -> None:
    *way, last = op["at"]
    place: Any = manifest
    for step in way:
        place = place[step]
    if op.get("remove"):
        del place[last]
    elif isinstance(place, list) and last == len(place):
        place.append(op["value"])
    else:
        place[last] = op["value"]


def _digest(file: Path) -> str:
    return "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()
