"""A source → what may be released of it, with evidence for every check; all or nothing, and from one source.

In order: it is validated; its graph tests run; the bundle is built, from it the wheel, and from the source the sdist;
another process builds bundle and wheel again; the wheel is verified, judged by twine, and installed into a fresh
environment, where it is verified once more; all that would be released is searched for secrets; the project's own
commands run. In the end the source has to be what it was.

There is no way to begin in the middle, and nothing is taken over from an earlier run. What is built lies in a folder
that is gone after the block; only the evidence and what failed stay in the work folder.
"""

from __future__ import annotations

import os
import platform
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import file_digest
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from .. import __version__
from ..bundle.manifest import BundleManifest
from ..bundle.plan import check_output, make_plan
from ..bundle.write import build
from ..errors import BundlerError, Diagnostic
from ..runtime.graph_tests import read_tests, run_tests
from ..runtime.open import SCHEME, open_provider
from ..runtime.provider import OpenedProvider
from ..tree import DirectoryTree
from ..wheel.build import BuiltWheel, Content, survey, write_wheel
from ..wheel.check import open_wheel
from ..wheel.sdist import TESTS, make_sdist
from ..wheel.settings import Settings, read_settings
from ..wheel.source import fingerprint_of
from ..wheel.working import working_folder
from . import pitfalls
from .evidence import NAME, BuiltFile, Evidence
from .expectations import BUILT_IN, DIFFERS, GRAPH_TESTS, expectation
from .extra import check_extra
from .scrub import Recorder, Scrubber, without_secrets
from .secrets_audit import SCANNER, Audit, audit_secrets
from .session import CheckFailed, Progress, Session
from .settings import CheckSettings, ProjectCheck, read_check_settings

#: What another process has otherwise when it builds again; its umask is 077, too.
_ELSEWHERE = {"TZ": "Pacific/Kiritimati", "LANG": "C", "LC_ALL": "C", "PYTHONHASHSEED": "4711"}
_REQUIRED_HINT = f"write graph tests, or take `required` out of [tool.agent-bundler.checks.{GRAPH_TESTS}]"
_LIBRARIES = ("build", "hatchling", SCANNER, "pip", "twine")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What passed every check: files, which are gone after the block, the bundle's manifest, and the evidence."""

    wheel: BuiltWheel
    sdist: str
    manifest: BundleManifest
    evidence: Evidence
    warnings: tuple[Diagnostic, ...]


@contextmanager
def run_checks(
    source: str | os.PathLike[str],
    work: str | os.PathLike[str],
    *,
    progress: Progress = lambda check, state: None,
) -> Iterator[Checked]:
    """Make every check of a source, and hand over what was built as long as the block lasts.

    `work` is a folder, made where it is missing; `evidence.json` stays there, and what failed (`read_pitfalls`). Raises
    `release-check-failed` with the diagnostics of the check that failed; `release-source-changed`, after which there is
    no evidence; `release-settings-invalid`, `parse-failed` and what else reading the settings raises;
    `build-output-overlaps-source`, `output-write-failed` (which an OSError of the block becomes, too) and
    `publish-extra-missing`.
    """
    check_extra()
    text, place = os.fspath(source), os.path.abspath(os.fspath(work))
    root = os.path.abspath(text if os.path.isdir(text) else os.path.dirname(text))
    with DirectoryTree(root) as tree:
        settings = read_check_settings(tree)
    _check_place(place, root)
    with working_folder(place) as folder, ExitStack() as stack:
        with suppress(FileNotFoundError):  # it may be another source's: from now on there is none until there is ours
            os.unlink(os.path.join(place, NAME))
        run = _Run(
            source=text, root=root, place=place, folder=folder, settings=settings, progress=progress, stack=stack
        )
        try:
            checked = run.make()
        except CheckFailed as failed:
            run.check_source()
            known = pitfalls.updated(pitfalls.read_pitfalls(place), run.session.reached, run.session.pitfall(failed))
            _keep(folder, place, NAME, run.evidence().to_bytes())
            _keep(folder, place, pitfalls.NAME, pitfalls.to_bytes(known))
            raise _as_error(failed) from None
        _keep(folder, place, NAME, checked.evidence.to_bytes())
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(place, pitfalls.NAME))
        yield checked


class _Run:
    """The checks of one source, and what is known by now."""

    def __init__(
        self,
        *,
        source: str,
        root: str,
        place: str,
        folder: Path,
        settings: CheckSettings,
        progress: Progress,
        stack: ExitStack,
    ) -> None:
        self._source, self._root, self._place, self._folder = source, root, place, folder
        self._settings, self._stack = settings, stack
        places = dict.fromkeys((str(folder), os.path.realpath(folder)), "{work}")
        places |= {path: "{source}" for path in (root, os.path.realpath(root)) if path != os.sep}
        places[sys.executable] = "{python}"
        names = [*BUILT_IN, *(check.name for check in settings.checks)]
        self.session = Session(names, Scrubber(os.environ, places), progress)
        # Without colours, and without line ends in the middle of a path.
        said = {"NO_COLOR": "1", "COLUMNS": "400"}
        self._environment = {**without_secrets(os.environ), **said, "TMPDIR": str(folder)}
        self._tools = {
            "agent-graph-bundler": __version__,
            "python": platform.python_version(),
            "zlib": zlib.ZLIB_RUNTIME_VERSION,
            **{name: _version(name) for name in _LIBRARIES},
        }
        self._fingerprint: str | None = None
        self._opened: OpenedProvider | None = None
        self._manifest: BundleManifest | None = None
        self._files: tuple[BuiltFile, ...] = ()
        self._audit = Audit(accepted=(), warnings=())
        self._warnings: list[Diagnostic] = []

    def make(self) -> Checked:
        """Every check, in order. Raises CheckFailed for the first one that fails."""
        do = self.session.do
        opened, settings = do("validate", self._validate)
        do(GRAPH_TESTS, lambda log: self._test(opened, log))
        bundle = do("build", lambda log: self._build(opened, log))
        content, wheel = do("wheel", lambda log: self._write_wheel(bundle, settings, log))
        sdist = do("sdist", lambda log: self._write_sdist(replace(content, opened=opened), log))
        self._build_again(opened, wheel)
        do("wheel-verify", lambda log: self._verify_wheel(wheel, log))
        self._run_tool("wheel-check", _module("twine", "--no-color", "check", "--strict", wheel.path, sdist))
        self._install(wheel)
        do("secrets", lambda log: self._search(sdist, wheel, log))
        for check in self._settings.checks:
            self._run_project(check, wheel, sdist)
        self._check_files(wheel.path, sdist)
        self.check_source()
        return Checked(
            wheel=wheel,
            sdist=sdist,
            manifest=wheel.manifest,
            evidence=self.evidence(),
            warnings=(*self._warnings, *self._audit.warnings),
        )

    def evidence(self) -> Evidence:
        """What is known by now; what was not reached is told to be so."""
        provider = None if self._opened is None else self._opened.provider
        return Evidence(
            source=self._fingerprint,
            provider=None if provider is None else (provider.id, provider.version),
            bundle=None if self._manifest is None else self._manifest.digest,
            files=self._files,
            tools=self._tools,
            accepted=self._audit.accepted,
            checks=self.session.end(),
        )

    def check_source(self) -> None:
        """Raises `release-source-changed` where the source is not the one that was validated."""
        if self._fingerprint is None:
            return
        try:
            with open_provider(self._source) as opened:
                now = _fingerprint(opened, read_settings(opened.tree))
        except BundlerError as error:
            raise _changed(f"it can't be read as before: {error.message}") from None
        if now != self._fingerprint:
            raise _changed("it is another one than before")

    # --- the checks ---------------------------------------------------------------------------------------

    def _validate(self, log: Recorder) -> tuple[OpenedProvider, Settings]:
        opened = self._stack.enter_context(open_provider(self._source))
        if opened.kind != "source":
            raise BundlerError(
                "option-invalid",
                f"{self._source} is a {opened.kind}; a release is made from a source",
                hint="name the folder that holds the provider.yaml that its author wrote",
            )
        settings = read_settings(opened.tree)
        plan = make_plan(opened.tree, opened.provider, opened.closure)
        check_output(plan, self._place)
        self._fingerprint = _fingerprint(opened, settings)
        self._opened = opened
        self._warnings += [*opened.warnings, *plan.warnings]
        log.say(f"{opened.provider.id} {opened.provider.version}: valid, {len(plan.files):,} files are carried")
        log.say(*(f"{each.severity}[{each.code}] {each.message}" for each in self._warnings))
        return opened, settings

    def _test(self, opened: OpenedProvider, log: Recorder) -> None:
        folder = os.path.join(opened.root, TESTS)
        try:
            results = run_tests(opened, read_tests(folder))
        except BundlerError as error:
            if error.code not in ("test-path-missing", "test-cases-empty"):
                raise
            message = f"the Provider has no graph tests in {TESTS}/, so none was run"
            if self._settings.graph_tests_required:
                raise BundlerError("graph-tests-missing", message, hint=_REQUIRED_HINT) from None
            self._warnings.append(Diagnostic(code="graph-tests-missing", severity="warning", message=message))
            log.say(message)
            return
        faults = []
        for result in results:
            path = os.path.relpath(result.test.path, opened.root)
            log.say(f"{'passed' if result.passed else 'FAILED'} {result.test.name} ({path})", *result.failures)
            if not result.passed:
                message = f"{path}: {result.test.name}: {result.failures[0]}"
                hint = "correct the Graph or the test; `agent-bundler test` shows all that differs"
                faults.append(BundlerError("release-check-failed", message, path=path, hint=hint))
        if faults:
            raise BundlerError.of(faults)

    def _build(self, opened: OpenedProvider, log: Recorder) -> OpenedProvider:
        folder = self._folder / "bundle"
        manifest = build(make_plan(opened.tree, opened.provider, opened.closure), folder)
        bundle = self._stack.enter_context(open_provider(folder, built=True))
        if bundle.digest != manifest.digest:
            raise AssertionError("another bundle was verified than was built")
        self._manifest = manifest
        log.say(f"{manifest.digest}: {len(manifest.files):,} files")
        return bundle

    def _write_wheel(self, bundle: OpenedProvider, settings: Settings, log: Recorder) -> tuple[Content, BuiltWheel]:
        content = survey(bundle, settings)
        wheel = write_wheel(content, self._folder / "dist")
        self._built(wheel.path, log)
        return content, wheel

    def _write_sdist(self, content: Content, log: Recorder) -> str:
        sdist = make_sdist(content, self._folder / "dist")
        self._built(sdist, log)
        return sdist

    def _built(self, path: str, log: Recorder) -> None:
        file = _describe(path)
        self._files = (*self._files, file)
        log.say(f"{file.name}: sha256:{file.sha256}, {file.size:,} bytes")

    def _build_again(self, opened: OpenedProvider, wheel: BuiltWheel) -> None:
        elsewhere = self._folder / "elsewhere"
        elsewhere.mkdir()
        environment = {**self._environment, **_ELSEWHERE, "TMPDIR": str(elsewhere)}
        command = _module("bundler", "--manifest", opened.manifest_path)
        bundle, again = str(self._folder / "bundle"), self._folder / "again"
        self.session.run(
            "rebuild", [*command, "build", "--check", bundle], cwd=str(elsewhere), environment=environment, umask=0o077
        )

        def compare() -> None:
            other = _describe(str(again / os.path.basename(wheel.path)))
            if other.sha256 != wheel.sha256:
                message = f"the wheel that was built again has the digest {other.sha256}; {wheel.sha256} is expected"
                raise BundlerError("release-check-failed", message, hint=DIFFERS)

        self.session.run(
            "rebuild-wheel",
            [*command, "wheel", str(again)],
            cwd=str(elsewhere),
            environment=environment,
            umask=0o077,
            then=compare,
        )

    def _verify_wheel(self, wheel: BuiltWheel, log: Recorder) -> None:
        with open_wheel(wheel.path) as verified:
            _check_same("the wheel", verified.bundle.digest, wheel)
        log.say(f"{wheel.identity.wheel_name} holds {wheel.digest}")

    def _install(self, wheel: BuiltWheel) -> None:
        place = self._folder / "venv"
        self._run_tool("environment", _module("venv", "--without-pip", str(place)))
        (site,) = map(str, place.glob("lib/python*/site-packages"))
        requirements = self._folder / "requirements.txt"
        identity = wheel.identity
        requirements.write_text(f"{identity.distribution}=={identity.version} --hash=sha256:{wheel.sha256}\n")
        # From outside: an environment of its own pip takes ten times as long to make.
        pip = _module("pip", "--python", str(place / "bin" / "python"), "--isolated", "install", "--no-deps")
        pip += ["--no-index", "--only-binary", ":all:", "--require-hashes", "--no-cache-dir"]
        pip += ["--find-links", str(self._folder / "dist"), "--requirement", str(requirements)]
        self._run_tool("install", pip)
        self.session.do("verify-installed", lambda log: self._verify_installed(site, wheel, log))

    def _verify_installed(self, site: str, wheel: BuiltWheel, log: Recorder) -> None:
        with open_provider(f"{SCHEME}{wheel.identity.provider_id}", path=[site]) as installed:
            _check_same("the installed Provider", installed.digest, wheel)
        log.say(f"{SCHEME}{wheel.identity.provider_id} is {wheel.digest}")

    def _search(self, sdist: str, wheel: BuiltWheel, log: Recorder) -> None:
        self._audit = audit_secrets(sdist, wheel.path, wheel.identity, self._settings.accepted, log.say)
        log.say(*(f"{each.severity}[{each.code}] {each.message}" for each in self._audit.warnings))

    def _run_project(self, check: ProjectCheck, wheel: BuiltWheel, sdist: str) -> None:
        built = {"BUNDLE": str(self._folder / "bundle"), "WHEEL": wheel.path, "SDIST": sdist}
        self.session.run(
            check.name,
            check.command,
            cwd=os.path.join(self._root, *check.cwd.split("/")),
            inside=self._root,
            environment={**os.environ, **{f"AGENT_BUNDLER_{name}": path for name, path in built.items()}},
            timeout=check.timeout,
        )

    def _run_tool(self, name: str, command: Sequence[str]) -> None:
        """A tool for which neither Python nor pip is set up in a way of its own."""
        plain = {name: value for name, value in self._environment.items() if not name.startswith(("PYTHON", "PIP_"))}
        plain |= {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        self.session.run(name, command, cwd=str(self._folder), environment=plain)

    def _check_files(self, *paths: str) -> None:
        """Raises `release-source-changed` where what was checked is not what was built."""
        if tuple(map(_describe, paths)) != self._files:
            message = "a command changed the wheel or the sdist, which it was given to look at"
            raise BundlerError("release-source-changed", message)


def _module(*arguments: str) -> list[str]:
    """A module of this Python as a command; what lies in the current folder is none."""
    return [sys.executable, "-P", "-m", *arguments]


def _fingerprint(opened: OpenedProvider, settings: Settings) -> str:
    found = fingerprint_of(opened, settings)
    if found is None:
        raise _changed("a file of it changed while it was read")
    return found


def _changed(what: str) -> BundlerError:
    return BundlerError("release-source-changed", f"the source changed while the checks ran: {what}")


def _check_same(what: str, digest: str, wheel: BuiltWheel) -> None:
    if digest != wheel.digest:
        message = f"{what} has the digest {digest}; {wheel.digest} was built"
        raise BundlerError("release-check-failed", message, hint="run the checks again while nothing else works there")


def _describe(path: str) -> BuiltFile:
    with open(path, "rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
        return BuiltFile(name=os.path.basename(path), sha256=digest, size=os.fstat(file.fileno()).st_size)


def _check_place(place: str, root: str) -> None:
    """Raises `build-output-overlaps-source` for a work folder in which a file would change what is released."""
    place, root = os.path.realpath(place), os.path.realpath(root)
    common = os.path.commonpath([place, root])
    why = f"is the source {root}, or holds it" if common == place else None
    if common == root:
        folders = os.path.relpath(place, root).split(os.sep)
        ways = [os.path.join(root, *folders[:count]) for count in range(1, len(folders) + 1)]
        if folders[0] == TESTS or any(os.path.lexists(os.path.join(each, "SKILL.md")) for each in ways):
            why = "lies in a folder that is released whole"
    if why is not None:
        raise BundlerError("build-output-overlaps-source", f"the work folder {place} {why}", path=place)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        raise BundlerError("installation-incomplete", f"the library {name} is not installed") from None


def _keep(folder: Path, place: str, name: str, data: bytes) -> None:
    """Put a file into the work folder, whole or not at all."""
    staged = folder / name
    with staged.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(staged, os.path.join(place, name))


def _as_error(failed: CheckFailed) -> BundlerError:
    error = failed.error
    return BundlerError(
        "release-check-failed",
        f"the check {failed.check} failed: {error.message}",
        hint=error.hint or expectation(failed.check).cause,
        diagnostics=error.diagnostics,
    )
