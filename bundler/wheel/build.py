"""Provider → wheel: hatchling writes it from the files that the manifest lists, and it is verified before it has its name.

The files are read where they lie; nothing is copied but what is generated. The same source gives the same bytes
with the same versions of hatchling and zlib; across those, what identifies a release is the bundle's digest.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from ..bundle.layout import MANIFEST_NAME, MAX_MANIFEST_BYTES
from ..bundle.manifest import BundleManifest
from ..bundle.manifest import read as read_manifest
from ..bundle.open import Opened
from ..bundle.plan import Plan, check_output, make_plan
from ..bundle.swap import write_failed
from ..bundle.write import Nowhere, Progress, write_bundle
from ..errors import BundlerError, Diagnostic
from ..paths import to_system
from ..tree import Tree
from .check import open_wheel
from .embed import Seal, embed
from .identity import WheelIdentity, identify
from .metadata import project, summary
from .sbom import NAME as SBOM_NAME
from .sbom import sbom
from .settings import OWN_FOLDER, Settings, read_settings
from .working import finish, working_folder

#: Seconds since 1970: the time of a wheel's files where SOURCE_DATE_EPOCH does not say another, and what a zip can hold.
DEFAULT_EPOCH = 1_580_601_600
MIN_EPOCH, MAX_EPOCH = 315_532_800, 4_354_819_198


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltWheel:
    """A wheel that was written and verified; `digest` is its bundle's, `sha256` that of the file in hexadecimal."""

    path: str
    identity: WheelIdentity
    manifest: BundleManifest
    sha256: str
    size: int
    warnings: tuple[Diagnostic, ...]

    @property
    def digest(self) -> str:
        return self.manifest.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What goes into a wheel: the manifest, the bytes that were generated, and which paths are executable."""

    opened: Opened
    settings: Settings
    identity: WheelIdentity
    manifest: BundleManifest
    generated: Mapping[str, bytes]
    executable: Set[str]
    warnings: tuple[Diagnostic, ...]


def make_wheel(
    opened: Opened,
    output: str | os.PathLike[str] = "dist",
    settings: Settings | None = None,
    progress: Progress = lambda files, size, total: None,
    *,
    seal: Seal | None = None,
) -> BuiltWheel:
    """Write the wheel of an opened source or bundle into the folder `output`; a wheel of its name is replaced.

    `settings` where they are not those of the pyproject.toml beside the source. `seal` signs the finished wheel, before it
    gets its name. Raises what `seal` raises, what planning a bundle raises,
    `wheel-settings-invalid`, `wheel-version-unmappable`, `wheel-build-failed`, `wheel-source-changed`,
    `build-output-overlaps-source` and `output-write-failed`. After an error nothing was added.
    """
    return write_wheel(survey(opened, settings, progress), output, seal)


def write_wheel(content: Content, output: str | os.PathLike[str], seal: Seal | None = None) -> BuiltWheel:
    """The same for what was surveyed."""
    folder = os.path.abspath(os.fspath(output))
    path = os.path.join(folder, content.identity.wheel_name)
    check_place(content, path)
    with working_folder(folder) as work:
        built = _run(work, _write_project(work, content), "wheel")
        _check(built, content)
        if seal is not None:
            with open_wheel(built) as wheel:
                embed(wheel, seal(wheel.contents), built)
        digest, size = finish(built)
        try:
            os.replace(built, path)
        except OSError as error:
            raise write_failed(path, error) from None
    return BuiltWheel(
        path=path,
        identity=content.identity,
        manifest=content.manifest,
        sha256=digest,
        size=size,
        warnings=content.warnings,
    )


def survey(
    opened: Opened, settings: Settings | None = None, progress: Progress = lambda files, size, total: None
) -> Content:
    """Everything about a wheel that is known before it is written; every refusal of a bundle is raised here."""
    if settings is None:
        settings = read_settings(opened.tree) if opened.bundle is None else Settings()
    identity = identify(opened.provider.id, opened.provider.version, settings)
    if opened.bundle is not None:
        data = opened.tree.read(MANIFEST_NAME, MAX_MANIFEST_BYTES)
        manifest, generated = read_manifest(data)[0], {MANIFEST_NAME: data}
        if manifest != opened.bundle.manifest:
            raise source_changed(f"{MANIFEST_NAME} has changed since the bundle was verified")
        executable = {path for path in manifest.files if _is_executable(opened.tree, path)}
        warnings = opened.warnings
    else:
        plan = make_plan(opened.tree, opened.provider, opened.closure)
        nowhere = Nowhere()
        manifest = write_bundle(plan, nowhere, progress)
        generated = {**plan.generated, MANIFEST_NAME: manifest.to_bytes()}
        executable = nowhere.executable
        warnings = (*opened.warnings, *plan.warnings)
    return Content(
        opened=opened,
        settings=settings,
        identity=identity,
        manifest=manifest,
        generated=generated,
        executable=executable,
        warnings=warnings,
    )


def check_place(content: Content, path: str) -> None:
    """Raises `build-output-overlaps-source` for a file that would be, or replace, one that the bundle carries."""
    opened = content.opened
    files = (*content.manifest.files, opened.provider.manifest_path, *content.settings.files)
    plan = Plan(
        tree=opened.tree,
        provider=opened.provider,
        closure=opened.closure,
        files=files,
        generated=content.generated,
        warnings=(),
    )
    check_output(plan, path)
    folder = Path(path).parent
    beside = folder / MANIFEST_NAME
    is_readable = beside.is_file() and beside.stat().st_size <= MAX_MANIFEST_BYTES
    if is_readable and b"agent-graph.bundle." in beside.read_bytes():
        raise BundlerError(
            "build-output-overlaps-source",
            f"the output {folder} is a bundle, in which nothing else may lie",
            path=str(folder),
            hint="choose a folder of its own for wheels, such as dist",
        )


def metadata_folder(content: Content, output: str) -> str:
    """Write the wheel's METADATA into its .dist-info folder in `output`; that folder's path."""
    with working_folder(output) as work:
        made = _run(work, _write_project(work, content, with_files=False), "metadata")
        target = os.path.join(output, os.path.basename(made))
        try:
            shutil.copytree(made, target, dirs_exist_ok=True)
        except OSError as error:
            raise write_failed(target, error) from None
    return target


def epoch() -> int:
    """SOURCE_DATE_EPOCH within what a zip can hold, or a fixed date. Raises `option-invalid` if it is no number."""
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not text:
        return DEFAULT_EPOCH
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise BundlerError(
            "option-invalid",
            f"SOURCE_DATE_EPOCH is {text!r}; seconds since 1970 are expected",
            hint="set it to a whole number, or unset it",
        )
    return min(max(int(text), MIN_EPOCH), MAX_EPOCH)


def _write_project(work: Path, content: Content, with_files: bool = True) -> Path:
    """What hatchling builds from: a pyproject.toml with a row for each file, and the files that were generated."""
    import tomli_w

    root = work / "project"
    (root / OWN_FOLDER).mkdir(parents=True)
    if content.opened.tree.roots:
        (root / OWN_FOLDER / "tree").symlink_to(content.opened.tree.roots[0], target_is_directory=True)
    rows: dict[str, str] = {}
    if with_files:
        for number, path in enumerate([*content.manifest.files, MANIFEST_NAME]):
            source = f"{OWN_FOLDER}/tree/{path}"
            if path in content.generated or not _is_plain(content, path):
                source = f"{OWN_FOLDER}/generated/{number}"
                _generate(root / source, content, path)
            rows[source] = f"{content.identity.bundle_folder}/{path}"
    files = dict(content.settings.licenses)
    files[f"{OWN_FOLDER}/{SBOM_NAME}"] = sbom(
        content.identity, content.manifest.digest, content.settings.license, summary(content.opened.provider)
    )
    for name, data in files.items():
        place = root / os.fsdecode(to_system(name))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        place.chmod(0o644)
    description = project(content.opened.provider, content.identity, content.settings, content.manifest.digest, rows)
    (root / "pyproject.toml").write_text(tomli_w.dumps(description), "utf-8")
    return root


def _is_plain(content: Content, path: str) -> bool:
    """Whether hatchling finds the file at its place and reads its executable bit as we do."""
    roots = content.opened.tree.roots
    if not roots:
        return False
    try:
        mode = os.stat(os.path.join(os.fsencode(roots[0]), os.fsencode(to_system(path)))).st_mode
    except OSError as error:
        raise source_changed(f"`{path}` can't be read any more: {os.strerror(error.errno or 0)}") from None
    if not stat.S_ISREG(mode):
        raise source_changed(f"`{path}` is no regular file any more")
    return mode & 0o7000 == 0 and bool(mode & stat.S_IXUSR) == (path in content.executable)


def _generate(target: Path, content: Content, path: str) -> None:
    target.parent.mkdir(exist_ok=True)
    with target.open("wb") as file:
        if path in content.generated:
            file.write(content.generated[path])
        else:
            try:
                with content.opened.tree.open(path) as reader:
                    for chunk in reader.chunks():
                        file.write(chunk)
            except BundlerError as error:  # it was read before
                raise source_changed(error.message) from None
    target.chmod(0o755 if path in content.executable else 0o644)


def _run(work: Path, root: Path, what: str) -> str:
    """Have hatchling write the wheel or its metadata; the path of what it wrote."""
    from build import BuildBackendException, BuildException, ProjectBuilder

    output = work / what
    output.mkdir()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("HATCH_")},
        "SOURCE_DATE_EPOCH": str(epoch()),
        "TMPDIR": str(work),  # what it stages lies on one file system with the output, and is gone with the rest
        "PYTHONUTF8": "1",
    }
    environment.pop("PIP_BUILD_TRACKER", None)  # hatchling writes no metadata for pip, which asks us and not it
    said = ""

    def call(cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None) -> None:
        nonlocal said
        done = subprocess.run(  # noqa: S603 - what `build` calls hatchling with
            cmd,
            cwd=cwd,
            env={**environment, **(extra_environ or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        said = done.stdout.decode(errors="replace")
        done.check_returncode()

    try:
        builder = ProjectBuilder(str(root), python_executable=sys.executable, runner=call)
        if what == "metadata":
            return str(builder.prepare("wheel", str(output)))
        return builder.build("wheel", str(output))
    except (BuildException, BuildBackendException) as error:
        # A traceback ends with the error, whose further lines are indented.
        lines = [line for line in said.splitlines() if line.strip() and not line[0].isspace()]
        reason = lines[-1] if lines else str(error)
        raise BundlerError("wheel-build-failed", f"hatchling does not build the {what}: {reason}") from None


def _check(path: str, content: Content) -> None:
    """The finished wheel, reopened and verified, against what it was to hold."""
    try:
        with open_wheel(path) as wheel:
            if wheel.bundle.manifest != content.manifest or wheel.bundle.executable != content.executable:
                raise source_changed("the wheel holds something else than was read before")
            if wheel.identity != content.identity:
                raise AssertionError(f"{wheel.identity} is not {content.identity}")
    except BundlerError as error:
        if error.code == "bundle-file-digest-mismatch":
            raise source_changed(error.message) from None
        raise


def source_changed(what: str) -> BundlerError:
    """`wheel-source-changed`."""
    return BundlerError("wheel-source-changed", what)


def _is_executable(tree: Tree, path: str) -> bool:
    with tree.open(path) as reader:
        return reader.executable
