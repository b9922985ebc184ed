"""What a host holds: an opened Provider, with everything that it can be asked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ..bundle.open import Opened
from ..errors import BundlerError, Suggestions
from ..paths import normalize
from ..protocol.canonical import Json

if TYPE_CHECKING:
    from ..protocol.model import Code, Resource
    from ..trust.verdict import Trust
    from ..wheel.contents import Contents
    from ..wheel.identity import WheelIdentity
    from .evaluate import Evaluation
    from .locations import FileLocation, Location, Locator, Receipts
    from .materialize import Materialized
    from .process import Limits
    from .route import Route

Kind = Literal["source", "bundle", "wheel", "installed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedProvider(Opened):
    """An opened Provider: what it is, and for a wheel or an install its names and what else pip installs with it.

    The `root` of a wheel is its file. `trust` tells whether somebody whom the host believes has signed it; a source, which
    nobody can have signed, has none. `contents` are what a signature has to cover. `bytecode` are files that an installer
    compiled, which nothing vouches for: run scripts with `environment()`.
    """

    kind: Kind
    trust: Trust | None = None
    contents: Contents | None = None
    identity: WheelIdentity | None = None
    requires: tuple[str, ...] = ()
    bytecode: tuple[str, ...] = ()
    _digests: dict[str, str] = field(default_factory=dict, repr=False)
    _graph_digests: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def digest(self) -> str:
        """What identifies the bundle; empty for a source, which has none until it is built."""
        return "" if self.bundle is None else self.bundle.digest

    def environment(self, cache: str | os.PathLike[str]) -> dict[str, str]:
        """Variables with which this Provider's scripts are run: Python's bytecode goes to, and comes from, `cache` only.

        `cache` has to be a folder that only the host writes to. Without it Python would run the bytecode beside a
        verified script in the script's place.
        """
        return {
            "AGENT_GRAPH_PROVIDER_ROOT": self.root,
            "PYTHONPYCACHEPREFIX": os.path.abspath(os.fspath(cache)),
        }

    def evaluate(
        self,
        graph: str,
        entry: str = "default",
        *,
        facts: Mapping[str, Json] | None = None,
        outcomes: Mapping[str, Any] | None = None,
        authorities: Iterable[str] = (),
    ) -> Evaluation:
        """Which steps of a Graph are legal now (protocol: "Evaluation"); nothing is changed.

        Outcomes are texts, or records with `outcome`, by state key. Raises `graph-missing`, `evaluation-limit`, and for
        what is given `json-object-required`, `json-invalid`, `outcome-invalid`, `option-invalid`.
        """
        from .evaluate import evaluate
        from .state import make_state

        state = make_state(facts, outcomes, authorities)
        return evaluate(self.provider, self._graph_digest(graph), graph, entry, state)

    def route(
        self,
        evaluation: Evaluation,
        route_id: str | None = None,
        *,
        revision: str | None = None,
        receipts: Receipts | None = None,
        workspace: str | os.PathLike[str] | None = None,
    ) -> Route:
        """The Route of an evaluation of this Provider: the primary one, or the one with the id. Nothing is executed.

        `workspace` is where commands run; the current folder without one. Raises `route-revision-stale`, `route-stale`,
        `route-unavailable`, `provider-not-installed` for a wheel file, and `skill-frontmatter-unusable`.
        """
        from .route import choose_candidate, make_route

        candidate = choose_candidate(evaluation, route_id, revision)
        self.check_on_disk()
        return make_route(self.locator, evaluation, candidate, receipts, workspace)

    def locate(self, resource: str, *, revision: str | None = None) -> Location:
        """Where a Resource is, by its id or the path of its file. Raises `resource-missing`, `provider-not-installed`.

        A Resource that a host makes belongs to a Route: without its `revision` it raises `revision-invalid`.
        """
        self.check_on_disk()
        found = self.resource(resource)
        return self.locator.located(found, revision)

    def materialize(
        self,
        resource: str,
        *,
        cache: str | os.PathLike[str],
        revision: str,
        workspace: str | os.PathLike[str] | None = None,
        input: Mapping[str, Json] | None = None,  # noqa: A002 - the protocol's word
        environment: Mapping[str, str] | None = None,
        limits: Limits | None = None,
    ) -> Materialized:
        """Run the Action that makes a Resource for the Route with this revision: where the content is, and its receipt.

        `cache` is a folder of the user's own, made where it is missing; `workspace` is the current folder without one.
        The process sees nothing of the caller's environment but `materialize.INHERITED`, and what `environment` adds.
        It is ended at a limit with all that it started, as far as that is found (`process`); then nothing is kept.

        Raises `revision-invalid`, `materializer-option-invalid`, `json-object-required`, `json-invalid`;
        `resource-missing`, `resource-static`, `resource-host-action`, `provider-not-installed`; `folder-unsafe`,
        `output-write-failed`; `bundle-file-digest-mismatch`, `materializer-source-changed`, and what reading and
        compiling the schemas raise; `resource-input-invalid`; `materializer-timeout`, `materializer-output-limit`,
        `materializer-error-limit`, `materializer-failed`.
        """
        from .materialize import materialize
        from .process import Limits

        self.check_on_disk()
        return materialize(
            self,
            self.resource(resource),
            cache=cache,
            revision=revision,
            workspace=workspace,
            given={} if input is None else input,
            added=environment or {},
            limits=limits or Limits(),
        )

    def resource(self, name: str) -> Resource:
        """The Resource of that id, or whose file is at that path. Raises `resource-missing`."""
        resources = self.provider.resources
        by_id = {each.id: each for each in resources.values()}
        if name in by_id:
            return by_id[name]
        try:
            path = normalize(name)
        except BundlerError:
            path = name
        if path in resources:
            return resources[path]
        near = Suggestions().near(name, [*by_id, *resources])
        raise BundlerError("resource-missing", f"`{self.provider.id}` has no Resource `{name}`{near}")

    def locate_code(self, code: str) -> tuple[Code, FileLocation | None]:
        """A code of the Code Catalog, and where its document lies. Raises `code-missing`, `provider-not-installed`."""
        catalog = self.provider.catalog
        found = next((each for each in catalog.codes if each.code == code), None) if catalog is not None else None
        if found is None:
            known = [each.code for each in catalog.codes] if catalog is not None else []
            near = Suggestions().near(code, known)
            raise BundlerError("code-missing", f"the Code Catalog of `{self.provider.id}` has no code `{code}`{near}")
        if found.document is None:
            return found, None
        self.check_on_disk()
        document = self.provider.resources[found.document]
        content = document.content or document.path
        return found, self.locator.file(document.id, document.kind, document.media_type, content)

    @property
    def locator(self) -> Locator:
        """Finds what Routes name."""
        from .locations import Locator

        return Locator(provider=self.provider, tree=self.tree, root=self.root, digest_of=self.digest_of)

    def digest_of(self, path: str) -> str:
        """The digest of a carried file: of a bundle as it was verified, of a source as it lies there."""
        if self.bundle is not None:
            return self.bundle.manifest.files[path]
        if path not in self._digests:
            from ..bundle.digests import digest_of_file

            self._digests[path] = digest_of_file(self.tree, path)
        return self._digests[path]

    def check_on_disk(self) -> None:
        """Raises `provider-not-installed` for a wheel file, whose files are not on disk."""
        if self.kind == "wheel":
            raise BundlerError(
                "provider-not-installed",
                f"{self.root} is a wheel: its files are not on disk, where a Route would name them",
                path=self.root,
                hint="install the wheel, and name the Provider as provider:ID",
            )

    def _graph_digest(self, graph: str) -> str:
        if graph not in self._graph_digests and graph in self.provider.graphs:
            from .revision import graph_digest

            self._graph_digests[graph] = graph_digest(self.provider, self.closure, graph, self.digest_of)
        return self._graph_digests.get(graph, "")
