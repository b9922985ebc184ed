"""What an index says of a wheel, read from the wheel itself; an sdist is known by its name and content only."""

from __future__ import annotations

from ...errors import BundlerError
from ...tree.archive import Archive
from ...tree.zipped import ZipTree
from ...wheel.distinfo import MAX_BYTES, Metadata, normalized, read_metadata
from .records import identify, refused


def read_wheel(path: str, name: str) -> tuple[bytes, str | None]:
    """METADATA of the wheel at a path, whose name is to be `name`, and the Python that it requires (None for any).

    Raises `index-file-refused` where name and content disagree, `wheel-metadata-invalid`, the `archive-…` codes,
    `file-missing` and `file-read-failed`.
    """
    from packaging.metadata import parse_email
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        metadata, data = _metadata(path, name)
    except BundlerError as error:  # told of the wheel, wherever it is staged
        raise BundlerError(error.code, error.message.replace(path, name), path=name, hint=error.hint) from None
    expected = identify(name)
    found = (normalized(metadata.name), metadata.version)
    if found != expected:
        raise refused(name, f"is by its METADATA of {' '.join(found)}; {' '.join(expected)} is expected")
    requires = parse_email(data)[0].get("requires_python") or None
    try:
        SpecifierSet(requires or "")
    except InvalidSpecifier as error:
        message = f"`{name}` has in its METADATA a Requires-Python that is none: {error}"
        raise BundlerError("wheel-metadata-invalid", message, path=name) from None
    return data, requires


def _metadata(path: str, name: str) -> tuple[Metadata, bytes]:
    archive = Archive(path)
    try:
        tree = ZipTree(archive)
        folders = [each for each in tree.names("") if each.endswith(".dist-info")]
        if len(folders) != 1:
            raise refused(name, f"has {len(folders)} .dist-info folders; one is expected")
        return read_metadata(tree, folders[0]), tree.read(f"{folders[0]}/METADATA", MAX_BYTES)
    finally:
        archive.close()
