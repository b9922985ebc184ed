"""`[tool.agent-bundler]` of the pyproject.toml beside a Provider: what its author says about the wheel."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import BundlerError, Suggestions
from ..paths import collisions, normalize, unportable
from ..tree import Tree
from .naming import MAX_VERSION, claimed_by

FILE = "pyproject.toml"
#: Where hatchling finds what is ours; license files keep their paths beside it.
OWN_FOLDER = ".agent-bundler"
TABLE = "tool.agent-bundler"
BACKEND = "bundler.backend"
#: The largest pyproject.toml, readme or licence that is read, in bytes.
MAX_BYTES = 4 * 1024 * 1024
#: The longest distribution: what follows from the longest id fits.
MAX_DISTRIBUTION = 188
#: What older Pythons lack to find a Provider: importlib.metadata.
DEFAULT_REQUIRES_PYTHON = ">=3.8"
_LICENSES = ("LICENSE", "LICENSE.md", "LICENSE.txt", "LICENCE", "COPYING", "COPYING.md", "COPYING.txt", "NOTICE")
# What a header takes as it stands: RFC 5322's dot-atom, and host names.
_EMAIL = re.compile(r"[\w!#$%&'*+/=?^`{|}~-]+(?:\.[\w!#$%&'*+/=?^`{|}~-]+)*@[a-z0-9-]+(?:\.[a-z0-9-]+)*\Z", re.A | re.I)
_URL = re.compile(r"https?://[^\s/?#]\S*\Z")
_CONTENT_TYPES = {".md": "text/markdown", ".rst": "text/x-rst", ".txt": "text/plain"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What was set; None or empty where nothing was. `declared` are the keys that stand in the file.

    `licenses` maps names to content, `readme` is content and its media type.
    """

    manifest: str | None = None
    distribution: str | None = None
    version: str | None = None
    license: str | None = None
    licenses: Mapping[str, bytes] = field(default_factory=dict)
    authors: tuple[Mapping[str, str], ...] = ()
    urls: Mapping[str, str] = field(default_factory=dict)
    keywords: tuple[str, ...] = ()
    readme: tuple[str, str] | None = None
    dependencies: tuple[str, ...] = ()
    requires_python: str = DEFAULT_REQUIRES_PYTHON
    #: Paths of the files that the settings themselves were made from.
    files: tuple[str, ...] = ()


def read_settings(tree: Tree, path: str = FILE, *, must_exist: bool = False) -> Settings:
    """The settings in a tree; the defaults where there is no such file (unless it must exist), or no such table in it.

    Raises `wheel-settings-invalid` with every fault, and what reading raises.
    """
    try:
        document = read_document(tree, path)
    except BundlerError as error:
        if must_exist or error.code != "file-missing" or path in tree.names(""):
            raise  # something lies there that is no file
        return _with_licenses(tree, Settings())
    table = document.get("tool", {})
    table = table.get("agent-bundler", {}) if isinstance(table, dict) else {}
    return _Reader(tree, path, document).read(table)


def read_document(tree: Tree, path: str = FILE) -> dict[str, Any]:
    """What a pyproject.toml says. Raises `parse-failed`, and what reading raises."""
    import tomllib

    try:
        return tomllib.loads(tree.read(path, MAX_BYTES).decode())
    except (ValueError, RecursionError) as error:
        raise BundlerError("parse-failed", f"{path} is not valid TOML: {error}", path=path) from None


def check_backend(tree: Tree, path: str = FILE) -> None:
    """Raises `wheel-settings-invalid` for a `[project]` table, which a Provider's own backend does not read."""
    if "project" in read_document(tree, path):
        raise BundlerError(
            "wheel-settings-invalid",
            f"{path} has a [project] table; {BACKEND} takes name and version from the Provider, and the rest from [{TABLE}]",
            path=path,
            hint=f"move what it says to [{TABLE}]",
        )


class _Reader:
    """Collects every fault of one table."""

    def __init__(self, tree: Tree, path: str, document: Mapping[str, Any]) -> None:
        self._tree, self._path = tree, path
        self._faults: list[BundlerError] = []
        self._files: list[str] = [path]
        self._document = document

    def read(self, table: object) -> Settings:
        if not isinstance(table, dict):
            raise self._refused("", f"is {_kind(table)}; a table is expected")
        readers: dict[str, tuple[str, Callable[[Any], object]]] = {
            "manifest": ("manifest", self._manifest),
            "distribution": ("distribution", self._distribution),
            "version": ("version", self._version),
            "license": ("license", self._license),
            "license-files": ("licenses", self._license_files),
            "authors": ("authors", self._authors),
            "urls": ("urls", self._urls),
            "keywords": ("keywords", self._keywords),
            "readme": ("readme", self._readme),
            "dependencies": ("dependencies", self._dependencies),
            "requires-python": ("requires_python", self._requires_python),
        }
        found: dict[str, Any] = {}
        for key, value in table.items():
            if key in _OTHER_TABLES:
                continue
            if key not in readers:
                near = Suggestions().near(key, list(readers))
                self._faults.append(self._refused(key, f"is no setting{near}; expected: {', '.join(readers)}"))
                continue
            name, reader = readers[key]
            try:
                found[name] = reader(value)
            except _Refused as error:
                self._faults.append(self._refused(key, str(error)))
            except BundlerError as error:
                self._faults.append(self._refused(key, f"names a file that can't be used: {error.message}"))
        if self._faults:
            raise BundlerError.of(self._faults)
        settings = Settings(**found, files=tuple(dict.fromkeys(self._files)))
        return settings if "licenses" in found else _with_licenses(self._tree, settings)

    def _refused(self, key: str, what: str) -> BundlerError:
        name = f"[{TABLE}]" + (f" {key}" if key else "")
        return BundlerError("wheel-settings-invalid", f"{self._path}: {name} {what}", path=self._path)

    def _manifest(self, value: object) -> str:
        name = normalize(self._line(value))
        if not name or "/" in name:
            raise _Refused(f"is {value!r}; the name of a file beside {self._path} is expected")
        return name

    def _distribution(self, value: object) -> str:
        from packaging.utils import InvalidName, canonicalize_name

        text = self._line(value)
        try:
            name = canonicalize_name(text, validate=True)
        except InvalidName:
            raise _Refused(f"is {text!r}; letters, digits and inner `-`, `_`, `.` are expected") from None
        if len(name) > MAX_DISTRIBUTION:
            raise _Refused(f"has {len(name)} characters; {MAX_DISTRIBUTION} is the most")
        return name

    def _version(self, value: object) -> str:
        from packaging.version import InvalidVersion, Version

        text = self._line(value)
        try:
            version = str(Version(text))
        except (InvalidVersion, ValueError):
            raise _Refused(f"is {text!r}; a version of PEP 440 such as 1.0.0 or 1.0.0rc1 is expected") from None
        if len(version) > MAX_VERSION:
            raise _Refused(f"has {len(version)} characters; {MAX_VERSION} is the most")
        return version

    def _license(self, value: object) -> str:
        from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

        text = self._line(value)
        try:
            return canonicalize_license_expression(text)
        except InvalidLicenseExpression:
            raise _Refused(
                f"is {text!r}; an SPDX expression such as MIT or LicenseRef-Proprietary is expected"
            ) from None

    def _license_files(self, value: object) -> dict[str, bytes]:
        paths = [normalize(text) for text in self._texts(value)]
        for path in paths:
            if (why := unportable(path)) is not None:
                raise _Refused(f"names {path}, which can't be a file on every system: {why}")
            if path == FILE or path.split("/")[0] == OWN_FOLDER:
                raise _Refused(f"names {path}, which is no license")
        for first, second in collisions(paths):
            raise _Refused(f"names {first} and {second}, for which some systems hold one file")
        return {path: self._content(path) for path in paths}

    def _authors(self, value: object) -> tuple[dict[str, str], ...]:
        if not isinstance(value, list):
            raise _Refused(f"is {_kind(value)}; a list of tables with name and email is expected")
        authors = []
        for each in value:
            if not isinstance(each, dict) or not each or not set(each) <= {"name", "email"}:
                raise _Refused("has an author that is no table with name, email or both")
            authors.append({key: self._line(text) for key, text in each.items()})
            if "email" in authors[-1] and not _EMAIL.match(authors[-1]["email"]):
                raise _Refused(f"has the email {each['email']!r}; an address is expected")
            if "," in each.get("name", ""):
                raise _Refused(f"has the name {each['name']!r}; a comma separates authors")
        return tuple(authors)

    def _urls(self, value: object) -> dict[str, str]:
        if not isinstance(value, dict):
            raise _Refused(f"is {_kind(value)}; a table of labels and addresses is expected")
        urls = {self._line(label): self._line(address) for label, address in value.items()}
        if len(urls) != len(value):
            raise _Refused("has two labels that differ only in blanks")
        for label, address in urls.items():
            if len(label) > 32 or "," in label:
                raise _Refused(f"has the label {label!r}; at most 32 characters and no comma are expected")
            if not _URL.match(address):
                raise _Refused(f"has the address {address!r}; one that begins with https:// is expected")
        return urls

    def _keywords(self, value: object) -> tuple[str, ...]:
        keywords = tuple(self._texts(value))
        for each in keywords:
            if "," in each:
                raise _Refused(f"has {each!r}; a comma separates keywords")
        return keywords

    def _readme(self, value: object) -> tuple[str, str]:
        path = normalize(self._line(value))
        suffix = "." + path.rpartition(".")[2].lower()
        if suffix not in _CONTENT_TYPES:
            raise _Refused(f"is {path!r}; a file that ends in .md, .rst or .txt is expected")
        try:
            return self._content(path).decode(), _CONTENT_TYPES[suffix]
        except UnicodeDecodeError:
            raise _Refused(f"names {path}, which is no UTF-8 text") from None

    def _dependencies(self, value: object) -> tuple[str, ...]:
        from packaging.requirements import InvalidRequirement, Requirement

        found = []
        for text in self._texts(value):
            try:
                requirement = Requirement(text)
            except InvalidRequirement:
                raise _Refused(f"has {text!r}; a requirement such as `name>=1` is expected") from None
            if requirement.url:
                raise _Refused(f"has {text!r}; indexes refuse what depends on an address")
            found.append(str(requirement))
        return tuple(found)

    def _requires_python(self, value: object) -> str:
        from packaging.specifiers import InvalidSpecifier, SpecifierSet

        text = self._line(value)
        try:
            return str(SpecifierSet(text))
        except InvalidSpecifier:
            raise _Refused(f"is {text!r}; a specifier such as >=3.11 is expected") from None

    def _texts(self, value: object) -> list[str]:
        if not isinstance(value, list):
            raise _Refused(f"is {_kind(value)}; a list of texts is expected")
        return [self._line(each) for each in value]

    def _line(self, value: object) -> str:
        if not isinstance(value, str):
            raise _Refused(f"is {_kind(value)}; a text is expected")
        if not value.strip() or not value.isprintable():
            raise _Refused(f"is {value!r}; a text on one line is expected")
        return value.strip()

    def _content(self, path: str) -> bytes:
        data = self._tree.read(path, MAX_BYTES)
        self._files.append(path)
        return data


class _Refused(ValueError):  # noqa: N818 - it becomes an error
    """What is wrong with a value."""


#: Tables of [tool.agent-bundler] that belong to other commands.
_OTHER_TABLES = ("checks", "accepted-secrets")


def _with_licenses(tree: Tree, settings: Settings) -> Settings:
    from dataclasses import replace

    names = {entry.path for entry in tree.entries(lambda folder: False) if entry.kind != "folder"}
    licenses = {name: tree.read(name, MAX_BYTES) for name in _LICENSES if name in names}
    return replace(settings, licenses=licenses, files=(*settings.files, *licenses))


def _kind(value: object) -> str:
    names = {str: "a text", bool: "a truth value", int: "a number", float: "a number", list: "a list", dict: "a table"}
    return names.get(type(value), "a date or time")


def check_distribution(settings: Settings, provider_id: str) -> None:
    """Raises `wheel-settings-invalid` where the distribution set is the one of another Provider id."""
    owner = claimed_by(settings.distribution) if settings.distribution is not None else None
    if owner not in (None, provider_id):
        raise BundlerError(
            "wheel-settings-invalid",
            f"{FILE}: [{TABLE}] distribution is {settings.distribution}, which is the one of the Provider `{owner}`",
            path=FILE,
        )
