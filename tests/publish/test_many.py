"""Many sources: workers check, the caller signs; one that fails keeps none of the others from its release."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from bundler.publish.many import Outcome, release_many
from bundler.publish.targets import FolderTarget

from .. import installs, signed
from .index.releases import make_index


def test_one_is_broken(tmp_path: Path) -> None:
    broken = Path(shutil.copytree(installs.source(), tmp_path / "broken"))
    (broken / "actions/work.yaml").unlink()
    sources = [installs.source("other"), broken, installs.source()]
    index = make_index(tmp_path / "index")
    told: list[Outcome] = []
    outcomes = release_many(
        sources,
        tmp_path / "out",
        signer=signed.signer("release"),
        policy=signed.policy("release"),
        index=index,
        targets=[FolderTarget(index=index, who="publisher")],
        progress=told.append,
    )
    assert told == outcomes
    assert [outcome.source for outcome in outcomes] == [str(source) for source in sources]
    first, failed, last = outcomes
    assert failed.release is None
    assert failed.error is not None
    assert failed.error.code == "release-check-failed"
    for outcome, provider_id in ((first, "acme/other"), (last, "acme/demo")):
        assert outcome.error is None
        assert outcome.release is not None
        assert outcome.release.is_new
        assert (outcome.release.provider_id, outcome.release.signer) == (provider_id, signed.public("release").key_id)
        assert len(outcome.published) == 1
    assert len(index.projects()) == 2
    assert len(os.listdir(tmp_path / "out")) == 3  # with the work folder


def test_workers_that_die(tmp_path: Path) -> None:
    with ProcessPoolExecutor(1, get_context("spawn"), os._exit, (1,)) as pool:
        (outcome,) = release_many([installs.source()], tmp_path / "out", executor=pool)
    assert outcome.error is not None
    assert outcome.error.code == "environment-failed"
    assert not (tmp_path / "out").exists()
