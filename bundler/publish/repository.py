"""Where files are uploaded to, and with which credentials: read as twine reads them.

A password or token stands in no message, no `repr` and no argument of a process.
"""

from __future__ import annotations

import html
import logging
import os
import re
from base64 import b64encode
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from ..errors import BundlerError
from ..paths import printable
from .extra import check_extra

if TYPE_CHECKING:
    from twine.settings import Settings

#: Indexes whose pages lie on another host than the one that takes uploads.
_SIMPLE_URLS = {
    "https://upload.pypi.org/legacy/": "https://pypi.org/simple/",
    "https://test.pypi.org/legacy/": "https://test.pypi.org/simple/",
}
_DEFAULT_CONFIG = "~/.pypirc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """An index that takes uploads at `url` and shows its files below `simple_url`, which ends with a slash.

    Without `username` nothing is sent but what ~/.netrc holds. `ca_cert` and `client_cert` are paths of PEM files.
    """

    url: str
    simple_url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_cert: str | None = None
    client_cert: str | None = None

    def __post_init__(self) -> None:
        try:
            ":".join(self.credentials or ()).encode("latin-1")
        except UnicodeEncodeError:
            message = f"the credentials for {self.url} hold characters that HTTP can't send"
            raise BundlerError("publish-unauthorized", message) from None

    @property
    def credentials(self) -> tuple[str, str] | None:
        """Username and password."""
        return None if self.username is None else (self.username, self.password or "")

    def scrub(self, text: str) -> str:
        """The text without the password, in whatever form and with whatever line breaks in it; no control characters."""
        if self.password and not self.password.isspace():
            basic = b64encode(":".join(self.credentials or ()).encode("latin-1")).decode()
            for secret in {self.password, html.escape(self.password), quote(self.password, safe=""), basic}:
                text = re.sub(r"\s*".join(map(re.escape, "".join(secret.split()))), "[hidden]", text)
        return "\n".join(printable(line.rstrip()) for line in text.splitlines())


def find_repository(
    name: str = "pypi",
    *,
    config_file: str | os.PathLike[str] | None = None,
    simple_url: str | None = None,
    allow_http: bool = False,
) -> Repository:
    """The index of a URL, or of a name in `.pypirc` (`config_file`, else ~/.pypirc).

    Credentials come from TWINE_USERNAME and TWINE_PASSWORD, the file, the keyring, or on PyPI from trusted publishing,
    in twine's order; nobody is asked. `simple_url` is needed where it does not follow from the upload URL: it does for
    PyPI, TestPyPI, and an index at the root of its host, whose pages are in `/simple/`.

    Raises `repository-invalid`; `repository-insecure` for plain http to another machine, unless `allow_http`;
    `publish-unauthorized` where there is a user and no password.
    """
    check_extra()
    settings = _read_settings(name, config_file, allow_http)
    url = _checked(settings.repository_config["repository"] or "", f"the repository {name}", allow_http)
    simple_url = _checked(simple_url or _derive(url), "the address of the simple pages", allow_http)
    username, password = _credentials(settings, url)
    return Repository(
        url=url,
        simple_url=simple_url.rstrip("/") + "/",
        username=username,
        password=password,
        ca_cert=settings.cacert,
        client_cert=settings.client_cert,
    )


def _read_settings(name: str, config_file: str | os.PathLike[str] | None, allow_http: bool) -> Settings:
    from twine.exceptions import TwineException
    from twine.settings import Settings

    logger = logging.getLogger("twine")
    if not logger.handlers:  # or Python prints its warnings, tracebacks included, where no logging is set up
        logger.addHandler(logging.NullHandler())
    file = os.fspath(config_file) if config_file is not None else _DEFAULT_CONFIG
    place = os.path.expanduser(file)
    if os.path.exists(place) and not os.path.isfile(place):
        raise _invalid(f"{file} is no file; a .pypirc is expected")
    url = _checked(name, "the address of the repository", allow_http) if "://" in name or "@" in name else None
    try:
        return Settings(
            non_interactive=True,
            config_file=file,
            repository_name=name,
            repository_url=url,
            username=os.environ.get("TWINE_USERNAME"),
            password=os.environ.get("TWINE_PASSWORD"),
            cacert=os.environ.get("TWINE_CERT"),
        )
    except ValueError:
        raise _invalid(f"{file}: the repository {name} is no URL") from None
    except KeyError:
        raise _invalid(f"{file} gives no `repository` for {name}") from None
    except TwineException as error:
        raise _invalid(f"the repository {name} can't be used: {_first_line(error)}") from None


def _checked(url: str, what: str, allow_http: bool) -> str:
    """The URL, if it is one to send credentials to. What may hold a password is not repeated."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise _invalid(f"{what} is no URL; one that begins with https:// is expected") from None
    if "@" in url:
        raise BundlerError(
            "repository-invalid",
            f"{what} holds credentials, which logs and lists of processes would show",
            hint="give them in TWINE_USERNAME and TWINE_PASSWORD, .pypirc or the keyring",
        )
    if parts.scheme not in ("http", "https") or not host or not url.isprintable():
        raise _invalid(f"{what} is {url!r}; a URL that begins with https:// is expected")
    if parts.scheme == "http" and not allow_http and not _is_loopback(host):
        raise BundlerError(
            "repository-insecure", f"{what} is {url}: whoever is on the way can read credentials and change files"
        )
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _derive(url: str) -> str:
    if url in _SIMPLE_URLS:
        return _SIMPLE_URLS[url]
    parts = urlsplit(url)
    if parts.path in ("", "/") and not parts.query:
        return f"{parts.scheme}://{parts.netloc}/simple/"
    raise BundlerError(
        "repository-invalid",
        f"where {url} shows its files does not follow from that address",
        hint="give the URL of its simple pages, which pip takes as --index-url",
    )


def _credentials(settings: Settings, url: str) -> tuple[str | None, str | None]:
    from requests import RequestException
    from twine.exceptions import NonInteractive, TwineException

    try:
        username = settings.username
    except NonInteractive:
        return None, None
    try:
        password = settings.password
    except NonInteractive:
        raise BundlerError("publish-unauthorized", f"no password or token of {username} for {url} was found") from None
    except (TwineException, RequestException) as error:  # trusted publishing
        raise BundlerError("publish-unauthorized", f"{url} gives no token: {_first_line(error)}") from None
    return (username or "", password) if username or password else (None, None)


def _first_line(error: Exception) -> str:
    return printable(str(error).partition("\n")[0])


def _invalid(message: str) -> BundlerError:
    return BundlerError("repository-invalid", message)
