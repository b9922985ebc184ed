"""Errors and diagnostics: one exception, one record of a fault, one table of codes.

A host branches on codes, never on text: a code that has been released keeps its meaning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["info", "warning", "error"]

#: Codes that say that the environment failed (disk, permission, a missing library), not the input.
ENVIRONMENT_CODES: Mapping[str, str] = {
    "output-write-failed": "free space or mend the permissions of the folder; what was there before is untouched",
    "libyaml-missing": "install a PyYAML wheel that contains libyaml, or libyaml's headers before you build PyYAML from source",
    "environment-failed": "mend what the system names, such as a current folder that is gone or a full disk",
    "internal-error": "this is a fault of agent-bundler: run the command again with AGENT_BUNDLER_DEBUG=1 and report what it prints",
    "publish-extra-missing": "install the extra: pip install 'agent-graph-bundler[publish]'",
    "installation-incomplete": "reinstall agent-graph-bundler: a file that belongs to it is missing",
}

#: Every other code, with the remedy that is told where an error brings none of its own.
CODES: Mapping[str, str | None] = {
    # reading and parsing
    "file-read-failed": "make the file readable for the user who runs this command",
    "file-missing": "create the file, or correct the reference to it",
    "parse-failed": "correct the syntax at the place named",
    "schema-invalid": "correct the value at the place named; `agent-bundler schema path NAME` shows the schema",
    "absolute-path-forbidden": "use a path relative to the Provider root",
    "path-outside-provider": "use a path that stays inside the Provider root",
    "path-symlink-outside-provider": "copy the link's target into the Provider, or point the link inside its root",
    "tree-limit-exceeded": "remove links that multiply folders, or split the Provider",
    # resources
    "frontmatter-missing": "begin the file with a line that is exactly `---`, then id and kind, then a line that is exactly `---`",
    "frontmatter-invalid": "close the front matter with a line that is exactly `---`, and make it a YAML mapping",
    "resource-metadata-invalid": "give `id` (an id), `kind` and `media-type` as texts in the front matter",
    "resource-kind-invalid": "use one of: procedure, diagnostic, template, schema, skill",
    "resource-protocol-unsupported": None,
    "resource-input-invalid": "make `input` satisfy the input schema of the materializer",
    "resource-id-duplicate": "give each Resource an id of its own",
    # actions and graphs
    "action-id-duplicate": "give each Action an id of its own",
    "graph-id-duplicate": "give each Graph an id of its own",
    "graph-node-duplicate": "give each node of a Graph an id of its own",
    "graph-terminal-missing": "add a node of kind terminal",
    "graph-entry-missing": "name a node of this Graph",
    "graph-edge-node-missing": "name nodes of this Graph",
    "graph-terminal-edge-invalid": "remove the edge: a Terminal ends its frame",
    "graph-edge-duplicate": "remove one of the two edges",
    "graph-repeat-target-invalid": "let the repeat edge lead to an Action or a Gate",
    "graph-gated-by-source-invalid": "let the gatedBy edge start at a Gate, or use another kind",
    "graph-flow-cycle": "make the edge that leads back a repeat edge, or remove it",
    "graph-recursion": "remove the Subgraph node that leads back",
    "subgraph-missing": "list the Graph in the manifest, or name one that is listed",
    "subgraph-entry-missing": "name an entrypoint of that Graph",
    "gate-inspection-effect-invalid": "an inspection only looks: give its Action `effect: read`",
    "gate-resolution-effect-invalid": "a resolution records or applies: give its Action `effect: write` or `external`",
    "gate-delegated-policy-invalid": "give the gate `delegatable: true` and an `authority`, or remove `delegated`",
    "gate-delegated-inspection-missing": "give the node an inspectionAction, or remove `inspection`",
    "materializer-effect-invalid": "a materializer only reads: give its Action `effect: read`",
    "materializer-runner-invalid": None,
    "materializer-schema-missing": "give the materializer both inputSchema and outputSchema",
    "materializer-schema-identity-invalid": "give the schema an `$id` such as `acme.request/v1`",
    "schema-reference-external": "copy what is referenced into the schema (`$defs`): nothing is ever fetched or opened",
    "schema-limit-exceeded": "simplify the schema: fewer references and alternatives inside of each other",
    "code-catalog-code-duplicate": "list each code once",
    "code-document-dynamic": "name a static Resource as document",
    "route-reason-code-missing": "add the code to the Code Catalog, with kind route-reason",
    "route-reason-code-kind-invalid": "give the code kind route-reason in the Code Catalog",
    "compatibility-range-invalid": "write a version range such as `^0.3.0` or `>=20`",
    "compatibility-unsupported": "check that the Provider works with protocol 0.3.1, then widen the range",
    # building
    "build-output-overlaps-source": "choose an output folder outside of what the Provider carries, such as dist/provider",
    "build-output-not-a-bundle": "choose another output, or remove what is there yourself",
    "build-output-differs": "run `agent-bundler build` and commit or publish what it writes",
    "build-generated-name-clash": "rename the file: the build writes a file of that name itself",
    "build-absolute-path-leak": "write the path relative to the Provider root, or rename what only looks like it",
    "path-not-portable": "rename the file so that every system can hold it",
    "path-collision": "rename one of the two: some systems cannot hold both",
    "junk-left-out": "`agent-bundler inspect files` lists all of it",
    "path-long": "shorten the path, or tell Windows users to enable long paths",
    "schema-unusable": "correct the JSON Schema, so that a host can check what goes in and what comes out",
    "skill-frontmatter-unusable": "give SKILL.md front matter with a `name` text, so that a Route can name the Skill",
    # bundles
    "bundle-digest-mismatch": "rebuild the bundle from its source, or fetch it again from where it was published",
    "bundle-file-duplicate": "rebuild the bundle: its manifest lists one file twice",
    "bundle-file-digest-mismatch": "rebuild the bundle from its source, or fetch it again from where it was published",
    "bundle-catalog-mismatch": "rebuild the bundle: its catalogs do not describe its files",
    "bundle-provider-unlisted": "rebuild the bundle: its provider manifest is not among its files",
    "bundle-provider-mismatch": "rebuild the bundle: manifest.json and the provider manifest name different Providers",
    "bundle-files-mismatch": "remove what does not belong to the bundle, or rebuild it",
    "bundle-dependencies-mismatch": "rebuild the bundle: its dependency index does not describe its Graphs",
    "bundle-consistent": None,
    # wheels
    "archive-invalid": "fetch the wheel again from where it was published; if it stays so, do not use it",
    "archive-path-invalid": "do not use the wheel: no tool that makes Providers' wheels writes such a name",
    "archive-limit-exceeded": "do not use the wheel unless you know why it is so large; then split the Provider",
    "wheel-metadata-invalid": "build the wheel with `agent-bundler wheel`, or fetch it again from where it was published",
    "wheel-entry-point-invalid": "build the wheel with `agent-bundler wheel`: a Provider has one entry point, and installs no commands",
    "wheel-identity-mismatch": "build the wheel with `agent-bundler wheel`, or fetch it again from where it was published",
    "wheel-content-foreign": "do not use the wheel: it would install files that are no part of the Provider",
    "wheel-mode-invalid": "build the wheel with `agent-bundler wheel`, which writes no other modes",
    "wheel-record-mismatch": "fetch the wheel again from where it was published; if it stays so, do not use it",
    "wheel-settings-invalid": "correct the [tool.agent-bundler] table of the pyproject.toml beside the Provider",
    "wheel-version-unmappable": "use X.Y.Z or X.Y.Z-alpha.N, -beta.N, -rc.N (N from 1), or give `version` in [tool.agent-bundler]",
    "wheel-build-failed": "correct what hatchling names; [tool.agent-bundler] of the pyproject.toml is where it comes from",
    "wheel-source-changed": "run the command again while nothing changes the Provider",
    # installed Providers
    "provider-not-installed": "install the Provider's distribution for this Python; `agent-bundler list` shows what is installed",
    "installed-broken": "uninstall the distribution and install it again",
    "installed-editable": "install it without --editable: a host uses what was built and can be verified",
    "installed-zipped": "install the wheel with pip or uv, and take the file off the path",
    "installed-shadowed": "uninstall one of the two",
    "installed-provider-duplicate": "uninstall all but the distribution that you trust, then install that one again and verify it",
    "installed-path-shared": "uninstall all but the distribution that you trust, then install that one again",
    "installed-stray": "find out where it comes from, then remove it",
    # signatures and trust
    "signature-missing": "get a signed release, or an attestation of it (--attestation FILE); the policy says which Providers need none",
    "signature-invalid": "do not use it: fetch it again from where it was published; if it stays so, tell the one who signed it",
    "signature-untrusted": "if you trust that key for this Provider, add it to the trust policy; do not use the release before",
    "signature-expired": "get an attestation by a key that is valid now, or check this machine's clock",
    "signature-revoked": "do not use it: uninstall it, and get a release that is not refused",
    "signature-verifier-failed": "mend what is named; until then nothing is trusted",
    "signature-exists": "write a further signature beside it: --detached FILE",
    "provider-untrusted": "give a trust policy (--policy FILE) to use signed releases only",
    "key-invalid": "make a key with `agent-bundler key generate`, or name one in PEM",
    "key-exists": "choose another path: a key is never replaced",
    "key-exposed": "make the file readable for yourself alone: chmod 600",
    "key-unusable": "check the key's name, its passphrase (AGENT_BUNDLER_PASSPHRASE) and what its signer needs",
    "wheel-too-large": "sign it beside the wheel: --detached FILE",
    "source-differs": "build the release from this source, or find the source that it was built from",
    # verification records
    "records-folder-unsafe": "name a folder of your own that only you can write to, such as ~/.cache/agent-bundler/records",
    "record-not-kept": "free space or mend the permissions of the folder; until then every start verifies in full",
    # evaluation
    "json-invalid": "give valid JSON, or @FILE for a file that holds it",
    "json-object-required": "give a JSON object, such as {} or @FILE",
    "outcome-invalid": 'use one of the Outcomes named, or a record such as {"outcome": "completed"}',
    "entry-missing": "`agent-bundler inspect provider` names the entrypoints of each Graph",
    "required-fact-missing": "provide the Fact once it is true",
    "terminal-outcome-ambiguous": "correct the records, or the Graph: Terminals that can be reached together need one Outcome",
    "no-route": "look at the Outcomes that were recorded: no edge leads on from them",
    "route-alternatives-truncated": None,
    "route-revision-stale": "evaluate again: facts, Outcomes, authorities or files have changed",
    "route-stale": "evaluate again and take one of the Routes on offer",
    "route-unavailable": "`agent-bundler evaluate` tells why: look at its diagnostics",
    "resource-receipts-provider-mismatch": "give the read receipts of this Provider",
    "revision-invalid": "give the revision of the Route that names the Resource (--revision)",
    "resource-missing": "`agent-bundler inspect provider` names the Resources",
    "resource-static": "read the file: `agent-bundler resource locate` tells where it lies",
    "resource-host-action": "let the host's handler make it from the input that the Route's location holds",
    "folder-unsafe": "name a folder of your own outside of the Provider, such as ~/.cache/agent-bundler/views",
    "materializer-option-invalid": "`agent-bundler resource materialize --help` tells what the option takes",
    "materializer-source-changed": "open the Provider and evaluate again: with the file its revision has changed",
    "materializer-timeout": "give it more time (--timeout-ms), or let the materializer do less",
    "materializer-output-limit": "let it write more (--max-output-bytes), or let the materializer say less",
    "materializer-error-limit": "let it write more (--max-error-bytes), or let the materializer say less",
    "materializer-failed": "mend what its standard error tells; its command line is what a Route of the Action would show",
    "host-action-result-invalid": "let the handler answer for the location of this Route, as `agent-bundler schema path host-action-result` has it",
    "graph-selection-missing": "name a Graph, or a Skill that is bound to one (--skill SKILL.md)",
    "skill-graph-conflict": "leave the Graph out, or name the one that the Skill is bound to",
    "skill-entry-conflict": "leave --entry out, or name the one that the Skill is bound to",
    "route-arguments-invalid": "give a Graph, and a Route id that begins with `route:`",
    "code-missing": "`agent-bundler code list` names the codes",
    "node-unknown": "`agent-bundler inspect provider` names the nodes of each Graph",
    "test-path-missing": "name a graph test or a folder of them",
    "test-cases-empty": "write a graph test (`agent-bundler schema path test-case`), or name the folder that holds them",
    "run-target-exists": "choose another path: nothing is replaced",
    "run-provider-mismatch": "name the Provider that the Run is of, or another Run",
    "run-locked": "end the process that holds the Run, then try again",
    "run-limit-exceeded": "keep less in Facts and details, or start a new Run",
    "record-without-effect": "record the Outcomes of the nodes in the Subgraph's own Graph: GRAPH/SUBGRAPH-NODE>GRAPH/NODE",
    "evaluation-limit": "split the Graph: fewer Subgraphs in each other, and fewer that are entered twice",
    # Skills and registries
    "skill-binding-missing": "give the Skill's front matter `metadata` with agent-graph, agent-graph.graph and agent-graph.entry",
    "skill-locator-invalid": "write `path:RELATIVE-PATH` or `provider:ID`",
    "skill-locator-absolute": "write the path relative to the SKILL.md",
    "skill-graph-missing": "name a Graph of the Provider",
    "skill-entry-missing": "name an entrypoint of that Graph",
    "provider-unresolved": "install the Provider, or give a registry that names it (--registry FILE)",
    "provider-id-mismatch": "correct the registry: the manifest it names belongs to another Provider",
    "registry-invalid": 'write {"providers": {"PROVIDER-ID": "path/to/provider.yaml"}}',
    # folder indexes
    "index-missing": "name the folder of an index; `agent-bundler index init FOLDER` makes one",
    "index-exists": "choose a folder that is empty or does not exist; nothing is replaced",
    "index-locked": "wait until the other writer has ended, then try again; the lease of one that was killed ends by itself",
    "index-lease-lost": "run the command again: it was stopped for so long that another writer was let in",
    "index-conflict": "look at what has changed in the index, then try again with its new head",
    "index-invalid": "`agent-bundler index verify` tells what is wrong, `index rebuild` makes pages and head from the journal",
    "index-limit-exceeded": "split what is published: less in one document, or fewer files in one project",
    "index-file-refused": "give a wheel or an sdist with the name that its builder gave it, and beside it what accompanies it",
    "index-file-mismatch": "put the file with that digest in its place again, from a copy or from its release",
    "index-page-mismatch": "find out who changed it; `agent-bundler index rebuild` makes it again from the journal",
    "index-stray": "`agent-bundler index gc` removes what writers left, `index rebuild` a page or document; remove what else there is yourself",
    "index-unfinished": "nothing is lost: the next change, or `agent-bundler index gc`, completes it",
    "index-document-invalid": "use lower-case letters, digits, - and _, a dot in the last part: channels/stable.json",
    "index-version-missing": "`agent-bundler index list` names projects and versions",
    "release-conflict": "publish other content as another version: what was published does not change",
    # releases
    "release-unsigned": "sign it: --key FILE",
    "release-invalid": "do not publish it: make the release again from its source; remove the folder if it is no release of yours",
    "release-in-use": "let what is named use another release first; --force yanks it all the same",
    "target-unsupported": "keep it with the release, or have it written to a folder: --evidence-dir FOLDER",
    # uploads
    "repository-invalid": "give the URL that takes uploads, or a name in .pypirc",
    "repository-insecure": "use https; where nobody else is on the way, allow http",
    "publish-file-invalid": "name wheels and sdists, each once, as they were built",
    "publish-unauthorized": "give TWINE_USERNAME and TWINE_PASSWORD (a token's user is __token__) that may publish there",
    "publish-failed": "mend what the server says; if it has the file already, publish again once its index shows it",
    "publish-unreachable": "publish again once the server answers: what is there by then is passed over",
    "publish-unconfirmed": "publish again in some minutes: what the index shows by then is passed over",
    # checks of a release
    "release-settings-invalid": "correct [tool.agent-bundler.checks] or accepted-secrets in the pyproject.toml beside the Provider",
    "release-check-failed": "mend what the check names, then run all of them again",
    "release-source-changed": "run the checks again while nothing changes the source; no evidence was kept",
    "evidence-invalid": "do not believe it: run the checks again, or fetch it again from where it was published",
    "graph-tests-missing": "write graph tests, and demand them: required = true in [tool.agent-bundler.checks.graph-tests]",
    "secret-found": "take it out and revoke it; if it is none, name path, kind and reason in [[tool.agent-bundler.accepted-secrets]]",
    "secret-acceptance-unused": "take it out of [[tool.agent-bundler.accepted-secrets]], or correct its path and kind",
    "secrets-not-scanned": "look into it yourself, or carry its content unpacked",
    # channels and revocations
    "index-rolled-back": "do not use it: get the latest one from where it is published; if that is it, ask who publishes it",
    "index-expired": "get the latest one from where it is published, or check this machine's clock",
    "index-unreachable": "check the address and the network, then try again",
    "channel-missing": "`agent-bundler channels --index INDEX` lists the channels of an index",
    "channel-moved": "look at what it points to now; if it is to be moved all the same, give that as --expect",
    "release-unknown": "check the spelling: hosts refuse exactly this id and version",
    "release-missing": "publish the release first; `agent-bundler index list INDEX` lists what is in an index",
    # commands
    "schema-type-unknown": "`agent-bundler schema list` names the schemas",
    "schema-target-exists": "choose another path for --output: nothing is overwritten",
    "graph-missing": "`agent-bundler inspect provider` names the Graphs",
    "path-unknown": "`agent-bundler inspect files` lists what is carried and what is not",
    "id-invalid": "choose an id such as acme/release",
    "provider-target-exists": "choose another folder: nothing is replaced",
    "format-invalid": "use --format human or --format json",
    "option-invalid": "`agent-bundler COMMAND --help` tells what the option takes",
    "usage-invalid": "`agent-bundler --help` shows the commands, `agent-bundler COMMAND --help` their options",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One fault or warning: what, where, and how to mend it (protocol: Diagnostic).

    `path` is relative to the Provider root where the file lies in it; `line` and `column` count from 1;
    `pointer` is the JSON pointer (RFC 6901) of the value meant.
    """

    code: str
    message: str
    severity: Severity = "error"
    path: str | None = None
    line: int | None = None
    column: int | None = None
    pointer: str | None = None
    hint: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The protocol's Diagnostic; what it has no member for stands in `detail`."""
        result: dict[str, Any] = {"code": self.code, "severity": self.severity, "message": self.message}
        if self.path is not None:
            result["path"] = self.path
        places = {"line": self.line, "column": self.column, "pointer": self.pointer, "hint": self.hint}
        detail = {**self.detail, **{key: value for key, value in places.items() if value is not None}}
        if detail:
            result["detail"] = detail
        return result


class BundlerError(Exception):
    """What every refusal of this package raises.

    `code` is stable, `message` one sentence, `diagnostics` one record per fault (the first fault gives
    the code), `hint` the remedy. `str()` is the message.
    """

    code: str
    message: str
    diagnostics: tuple[Diagnostic, ...]
    hint: str | None

    def __init__(
        self,
        code: str,
        message: str,
        *,
        path: str | None = None,
        line: int | None = None,
        column: int | None = None,
        pointer: str | None = None,
        hint: str | None = None,
        detail: Mapping[str, Any] | None = None,
        diagnostics: Sequence[Diagnostic] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint if hint is not None else CODES.get(code) or ENVIRONMENT_CODES.get(code)
        self.diagnostics = (
            tuple(diagnostics)
            if diagnostics is not None
            else (
                Diagnostic(
                    code=code,
                    message=message,
                    path=path,
                    line=line,
                    column=column,
                    pointer=pointer,
                    hint=self.hint,
                    detail=detail or {},
                ),
            )
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.code, self.message, self.hint, self.diagnostics)

    @property
    def is_environment(self) -> bool:
        """Whether the environment failed, not the input (exit status 3 of the command)."""
        return self.code in ENVIRONMENT_CODES

    @classmethod
    def of(cls, faults: Iterable[BundlerError]) -> BundlerError:
        """One error for several faults, in the order found: the first gives code, message and hint."""
        faults = list(faults)
        if len(faults) == 1:
            return faults[0]
        first = faults[0]
        diagnostics = [diagnostic for fault in faults for diagnostic in fault.diagnostics]
        return _restore(first.code, first.message, first.hint, tuple(diagnostics))

    def to_json(self) -> dict[str, Any]:
        """The error envelope `agent-graph.error.v1` (specification: error envelope)."""
        return {
            "schema": "agent-graph.error.v1",
            "state": "error",
            "error": {
                "code": self.code,
                "message": self.message,
                "diagnostics": [diagnostic.to_json() for diagnostic in self.diagnostics],
            },
        }


class Suggestions:
    """What misspelt names were probably meant to be; after the first few no more are looked for."""

    def __init__(self, limit: int = 20, most_options: int = 500) -> None:
        self._left = limit
        self._most_options = most_options

    def near(self, name: str, options: Collection[str]) -> str:
        """` (did you mean …?)` for the option that the name comes near to; empty if it comes near to none."""
        if not self._left or len(options) > self._most_options:
            return ""
        self._left -= 1
        from difflib import get_close_matches

        same = [option for option in options if option.casefold() == name.casefold()]
        found = same or get_close_matches(name, options, 1)
        return f" (did you mean `{found[0]}`?)" if found else ""


def _restore(code: str, message: str, hint: str | None, diagnostics: tuple[Diagnostic, ...]) -> BundlerError:
    return BundlerError(code, message, hint=hint, diagnostics=diagnostics)
