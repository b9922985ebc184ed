"""One BLAKE3 digest for everything in a tree: paths, kinds, executable bits, sizes and content.

It is ours to choose where the protocol's digests are not asked for, and says at once whether anything has changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..protocol.canonical import ALGORITHMS
from ..tree import Entry, Tree


def fingerprint_tree(
    tree: Tree,
    entries: Iterable[Entry],
    kept: dict[str, tuple[bytes, bool]],
    executable: set[str],
    *,
    room: int,
    keep: Collection[str] = (),
) -> str | None:
    """The fingerprint of a tree with these entries; None where one is neither a folder nor a regular file.

    Content and executable bit of what was hashed are put into `kept`, up to `room` bytes, those of `keep` in any case;
    the paths with an executable bit into `executable`. Raises what reading raises.
    """
    hasher = ALGORITHMS["blake3"]()
    for entry in sorted(entries):
        name = entry.path.encode("utf-8", "surrogateescape")
        if entry.kind == "folder":
            hasher.update(b"folder %d\0%b" % (len(name), name))
            continue
        if entry.kind != "file":
            return None
        small = tree.small(entry.path)
        if small is not None:
            data, is_executable = small
            if is_executable:
                executable.add(entry.path)
            hasher.update(b"file %d %d %d\0%b" % (is_executable, len(data), len(name), name))
            hasher.update(data)
            if len(data) <= room or entry.path in keep:
                room -= len(data)
                kept[entry.path] = small
            continue
        with tree.open(entry.path) as reader:
            if reader.executable:
                executable.add(entry.path)
            hasher.update(b"file %d %d %d\0%b" % (reader.executable, reader.size, len(name), name))
            size, parts = 0, []
            for chunk in reader.chunks():
                hasher.update(chunk)
                size += len(chunk)
                if entry.path in keep:
                    parts.append(chunk)
            if size != reader.size:
                return None  # it changes while it is read
            if entry.path in keep:
                kept[entry.path] = (b"".join(parts), reader.executable)
    return f"blake3:{hasher.hexdigest()}"
