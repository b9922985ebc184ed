"""What was built → the same again from its source, and every difference between the two.

Whoever has the source needs to trust nobody: what it builds is what the release has to be.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator
from itertools import islice
from tempfile import TemporaryDirectory

from ..bundle.compare import differences
from ..bundle.open import Opened
from ..bundle.verified import VerifiedBundle
from ..errors import CODES, BundlerError, Diagnostic
from ..paths import printable
from ..tree import DirectoryTree
from ..tree.archive import Archive
from ..tree.zipped import ZipTree
from .build import survey, write_wheel
from .check import open_wheel
from .contents import Contents
from .distinfo import MAX_BYTES
from .identity import WheelIdentity

#: Gives the bytes of a file of the .dist-info folder by its name there.
ReadInfo = Callable[[str], bytes]
# Lines that differ, shown one by one.
_MAX_LINES = 10
# Bytes of two files whose lines are compared: that takes more than linear time.
_MAX_SHOWN = 256 * 1024
_GENERATOR = "Generator: "


def wheel_info(file: str, identity: WheelIdentity) -> ReadInfo:
    """Reads the .dist-info folder of a wheel."""

    def read(name: str) -> bytes:
        archive = Archive(file)
        try:
            return ZipTree(archive).read(f"{identity.dist_info}/{name}", MAX_BYTES)
        finally:
            archive.close()

    return read


def installed_info(root: str, identity: WheelIdentity) -> ReadInfo:
    """Reads the .dist-info folder of the distribution whose bundle is installed in `root`."""
    site = root.removesuffix(os.path.join("", *identity.bundle_folder.split("/")))

    def read(name: str) -> bytes:
        with DirectoryTree(site) as tree:
            return tree.read(f"{identity.dist_info}/{name}", MAX_BYTES)

    return read


def compare_with_source(
    bundle: VerifiedBundle, contents: Contents, read_info: ReadInfo | None, source: Opened
) -> list[Diagnostic]:
    """Build the source and compare: files, executable bits, and for a wheel or an install its .dist-info folder.

    Signatures and what installers write are no part of it. That another version of hatchling wrote a wheel is a warning,
    which is given back. Raises `source-differs` with a diagnostic for each difference, and what building raises.
    """
    content = survey(source)
    found = [
        _difference(each.path or "", each.message)
        for each in differences(bundle.tree, content.manifest, content.executable)
    ]
    if contents.distribution is not None and read_info is not None:
        with TemporaryDirectory(prefix="agent-bundler-") as folder:
            built = write_wheel(content, folder)
            with open_wheel(built.path) as wheel:
                again = wheel_info(built.path, wheel.identity)
                found += _info_differences(contents, wheel.contents, read_info, again)
    warnings = [each for each in found if each.severity == "warning"]
    errors = [each for each in found if each.severity == "error"]
    if errors:
        raise BundlerError(
            "source-differs",
            f"it is not what {source.root} builds: {errors[0].message}"
            + (f" (and {len(errors) - 1:,} more)" if len(errors) > 1 else ""),
            diagnostics=errors,
        )
    return warnings


def _info_differences(
    there: Contents, here: Contents, read_there: ReadInfo, read_here: ReadInfo
) -> Iterator[Diagnostic]:
    old, new = there.distribution, here.distribution
    if old is None or new is None:
        return
    for what, one, other in (("distribution", old.name, new.name), ("version", old.version, new.version)):
        if one != other:
            yield _difference("METADATA", f"its {what} is {one}, the source's is {other}")
    for name in sorted({*old.files, *new.files}):
        if old.files.get(name) == new.files.get(name):
            continue
        if name not in new.files or name not in old.files:
            where = "is not what the source builds" if name not in new.files else "is missing"
            yield _difference(name, f".dist-info/{printable(name)} {where}")
            continue
        lines = _lines(read_there(name), read_here(name))
        only_tool = name == "WHEEL" and bool(lines) and all(line[1:].startswith(_GENERATOR) for line in lines)
        shown = "; ".join(map(printable, lines[:_MAX_LINES])) + ("; …" if len(lines) > _MAX_LINES else "")
        message = f".dist-info/{printable(name)} has other content: {shown or 'other line ends, or too much to show'}"
        yield _difference(name, message, "warning" if only_tool else "error")


def _lines(there: bytes, here: bytes) -> list[str]:
    """The lines that differ: `-` for what lies there, `+` for what the source builds; none of what is too large for it."""
    if len(there) + len(here) > _MAX_SHOWN:
        return []
    old, new = (data.decode(errors="replace").splitlines() for data in (there, here))
    lines = islice(difflib.unified_diff(old, new, n=0, lineterm=""), 2, None)  # names of files come first
    return [line for line in lines if not line.startswith("@@")]


def _difference(path: str, message: str, severity: str = "error") -> Diagnostic:
    return Diagnostic(
        code="source-differs",
        severity="warning" if severity == "warning" else "error",
        message=message,
        path=path,
        hint=CODES["source-differs"],
    )
