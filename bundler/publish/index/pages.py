"""Files → pages, as PEP 503, 592, 658, 691, 700 and 714 demand, and JSON pages → files.

A page is a function of what it lists: it holds no time, and the HTML page nothing that the JSON page has not. What an
index can't keep when it is copied elsewhere, such as the absolute addresses of `data-provenance`, is not written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from html import escape
from typing import Any, TypeVar

from ...errors import BundlerError
from .layout import HTML_PAGE, JSON_PAGE, MAX_PAGE, SIMPLE, check_size, invalid, project_page, to_bytes
from .records import IndexFile

API_VERSION = "1.1"
_PROJECT = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_Read = TypeVar("_Read")


def root_pages(projects: Iterable[str]) -> list[tuple[str, bytes]]:
    """Place and content of the pages that list the projects."""
    names = sorted(projects)
    value = {"meta": {"api-version": API_VERSION}, "projects": [{"name": name} for name in names]}
    lines = [f'<a href="{escape(name)}/">{escape(name)}</a><br>' for name in names]
    return _pages(SIMPLE, value, "Projects", lines)


def project_pages(project: str, files: Iterable[IndexFile]) -> list[tuple[str, bytes]]:
    """Place and content of a project's pages."""
    from packaging.version import Version

    listed = list(files)
    versions = {each.version: Version(each.version) for each in listed}
    listed.sort(key=lambda each: (versions[each.version], each.name))
    value = {
        "meta": {"api-version": API_VERSION},
        "name": project,
        "versions": sorted(versions, key=versions.__getitem__),
        "files": [each.to_json() for each in listed],
    }
    return _pages(f"{SIMPLE}/{project}", value, project, [_anchor(each) for each in listed])


def read_root(data: bytes) -> list[str]:
    """The projects that a JSON page lists. Raises `index-invalid` for a page that this package did not write."""

    def read(value: Any) -> list[str]:
        projects = [each["name"] for each in value["projects"]]
        if not all(map(_PROJECT.match, projects)) or root_pages(projects)[0][1] != data:
            raise ValueError
        return projects

    return read_json(data, f"{SIMPLE}/{JSON_PAGE}", read)


def read_project(project: str, data: bytes) -> list[IndexFile]:
    """The files that a project's JSON page lists. Raises `index-invalid` for a page that this package did not write."""

    def read(value: Any) -> list[IndexFile]:
        files = [IndexFile.of_json(each) for each in value["files"]]
        if any(each.project != project for each in files) or project_pages(project, files)[0][1] != data:
            raise ValueError
        return files

    return read_json(data, project_page(project, JSON_PAGE), read)


def read_json(data: bytes, path: str, read: Callable[[Any], _Read]) -> _Read:
    """What `read` makes of a JSON value. Raises `index-invalid` where there is none, or `read` can make nothing of it."""
    try:
        return read(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, BundlerError):
        raise invalid(path, "is not what this package writes there") from None


def _pages(folder: str, value: Any, title: str, lines: list[str]) -> list[tuple[str, bytes]]:
    """The JSON page, which is what writers read, and the HTML page."""
    text = "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            f'<head><meta charset="utf-8"><meta name="pypi:repository-version" content="{API_VERSION}">',
            f"<title>{escape(title)}</title></head>",
            "<body>",
            *lines,
            "</body>",
            "</html>\n",
        ]
    )
    pages = [(f"{folder}/{JSON_PAGE}", to_bytes(value)), (f"{folder}/{HTML_PAGE}", text.encode())]
    return [(path, check_size(data, MAX_PAGE, f"`{path}`")) for path, data in pages]


def _anchor(file: IndexFile) -> str:
    attributes = {"href": f"{file.url}#sha256={file.content.sha256}"}
    if file.requires_python is not None:
        attributes["data-requires-python"] = file.requires_python
    if file.metadata is not None:
        # The second name is what pip before 23.2 looks for (PEP 714).
        attributes["data-core-metadata"] = attributes["data-dist-info-metadata"] = f"sha256={file.metadata.sha256}"
    if file.yanked is not None:
        attributes["data-yanked"] = file.yanked
    written = " ".join(f'{name}="{escape(value)}"' for name, value in attributes.items())
    return f"<a {written}>{escape(file.name)}</a><br>"
