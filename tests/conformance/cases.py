"""Where the cases are, and how one is laid out on disk."""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
#: The whole collection, beside the repository where it is checked out for that.
SHARED = HERE.parents[2] / "shared" / "conformance"
#: The hand-written cases, always here.
KEPT = HERE / "cases"


@cache
def provider_cases() -> dict[str, dict[str, Any]]:
    """Every case by the name of its file: the kept ones, and those beside the repository."""
    folders = [KEPT / "providers", SHARED / "providers", SHARED / "generated"]
    files = {file.stem: file for folder in folders if folder.is_dir() for file in sorted(folder.glob("*.json"))}
    return {name: json.loads(file.read_bytes()) for name, file in files.items()}


def collection(name: str) -> list[dict[str, Any]]:
    """`bundles.json` or `cli.json`."""
    file = SHARED / name if (SHARED / name).is_file() else KEPT / name
    cases: list[dict[str, Any]] = json.loads(file.read_bytes())
    return cases


def lay_out(case: dict[str, Any], base: Path) -> Path:
    """Write the case below `base`; its Provider root."""
    root = base / "root"
    root.mkdir(parents=True)
    for path, text in case["files"].items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(
            base64.b64decode(text["base64"]) if isinstance(text, dict) else text.replace("{ROOT}", str(root)).encode()
        )
    for path, target in case.get("symlinks", {}).items():
        link = root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    for name, text in case.get("outside", {}).items():
        (base / name).write_text(text)
    return root
