"""`build --check`: every way in which a folder is not what the source builds now."""

from __future__ import annotations

from pathlib import Path

import pytest

from bundler.bundle.compare import check_output_current, differences
from bundler.bundle.plan import make_plan
from bundler.bundle.write import Nowhere, write_bundle
from bundler.errors import BundlerError
from bundler.provider.load import load_provider
from bundler.tree import DirectoryTree

from ..builders import build_from, with_skill, write_out


def found(root: Path, output: Path) -> list[str]:
    nowhere = Nowhere()
    with DirectoryTree(root) as source, DirectoryTree(output) as tree:
        manifest = write_bundle(make_plan(source, load_provider(source)), nowhere)
        return [difference.message for difference in differences(tree, manifest, nowhere.executable)]


def test_every_difference_is_named(tmp_path: Path) -> None:
    root = write_out(with_skill(a="a\n", b="b", c="c", **{"run.sh": ""}), tmp_path / "root")
    (root / "skills/s/run.sh").chmod(0o755)
    output = tmp_path / "out"
    build_from(root, output)
    assert found(root, output) == []
    inside = output / "skills/s"
    (inside / "a").write_bytes(b"a\r\n")
    (inside / "b").unlink()
    (inside / "c").chmod(0o755)
    (inside / "run.sh").chmod(0o644)
    (inside / ".DS_Store").write_text("x")
    (output / "more" / "of").mkdir(parents=True)
    assert found(root, output) == [
        "the folder `more` is not part of the bundle",
        "the file `skills/s/.DS_Store` is not part of the bundle (macOS folder settings)",
        "`skills/s/a` has other content (only its line ends differ)",
        "`skills/s/b` is missing",
        "`skills/s/c` has an executable bit",
        "`skills/s/run.sh` lacks its executable bit",
    ]


def test_a_changed_source_is_a_difference_of_the_manifest_too(tmp_path: Path) -> None:
    root = write_out(with_skill(a="a"), tmp_path / "root")
    build_from(root, tmp_path / "out")
    (root / "skills/s/a").write_text("b")
    assert found(root, tmp_path / "out") == ["`skills/s/a` has other content", "`manifest.json` has other content"]
    nowhere = Nowhere()
    with DirectoryTree(root) as source, DirectoryTree(tmp_path / "out") as tree:
        manifest = write_bundle(make_plan(source, load_provider(source)), nowhere)
        with pytest.raises(BundlerError) as raised:
            check_output_current(tree, manifest, nowhere.executable)
    assert raised.value.code == "build-output-differs"
    assert len(raised.value.diagnostics) == 2
