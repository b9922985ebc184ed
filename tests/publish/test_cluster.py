"""Releases of many sources on a cluster: its workers check and build, the key stays here."""

from __future__ import annotations

import warnings
from pathlib import Path

from bundler.publish.index import FolderIndex
from bundler.publish.many import release_many
from bundler.publish.targets import FolderTarget
from bundler.runtime.open import open_provider

from ..builders import PROVIDER, minimal, write_out
from ..signed import policy, signer


def test_a_cluster_builds_and_the_caller_signs(tmp_path: Path) -> None:
    from distributed import Client, LocalCluster

    names = ("one", "two", "broken")
    for name in names:
        files = minimal(provider_yaml=PROVIDER.replace("acme/demo", f"acme/{name}"))
        write_out({**files, "graphs/main.yaml": "nonsense"} if name == "broken" else files, tmp_path / name)
    index = FolderIndex.init(tmp_path / "index")
    with (
        warnings.catch_warnings(),
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            local_directory=str(tmp_path),
        ) as cluster,
        Client(cluster) as client,
    ):
        warnings.simplefilter("ignore")
        outcomes = release_many(
            [tmp_path / name for name in names],
            tmp_path / "dist",
            executor=client.get_executor(),
            signer=signer("release"),
            index=index,
            targets=[FolderTarget(index=index, who="tests")],
        )
    assert [outcome.error.code if outcome.error else "" for outcome in outcomes] == ["", "", "release-check-failed"]
    assert index.projects() == ["agent-graph-provider-acme-one", "agent-graph-provider-acme-two"]
    for outcome in outcomes[:2]:
        assert outcome.release is not None
        with open_provider(outcome.release.path(outcome.release.wheel), policy=policy("release")) as opened:
            assert opened.trust is not None
            assert opened.trust.trusted
