"""What an index has: the page of a project, in JSON or HTML, and the digest of a file that it lists without one."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urldefrag, urljoin, urlsplit

from ..errors import BundlerError
from .repository import Repository

if TYPE_CHECKING:
    from requests import Response

#: Bytes of a project's page.
MAX_PAGE = 32 * 1024 * 1024
_JSON = "application/vnd.pypi.simple.v1+json"
_HTML = ("application/vnd.pypi.simple.v1+html", "text/html")
_ACCEPT = f"{_JSON}, {_HTML[0]};q=0.2, {_HTML[1]};q=0.1"
_MAX_REDIRECTS = 5
_CHUNK = 64 * 1024
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A file that an index lists; `sha256` in hexadecimal, None where the index does not tell it."""

    url: str
    sha256: str | None


def list_files(repository: Repository, project: str, timeout: float) -> Mapping[str, Listed]:
    """What the index has of a project (its normalized name), by file name; nothing where it has no such project.

    An index that leads to another host for the project has nothing itself. `timeout` in seconds. Raises
    `publish-unreachable` for what may pass, else `publish-unauthorized` or `publish-failed`.
    """
    url = page = f"{repository.simple_url}{project}/"
    headers = {"Accept": _ACCEPT, "Cache-Control": "max-age=0"}
    for _ in range(_MAX_REDIRECTS):
        with _get(repository, url, page, timeout, headers) as response:
            if response.is_redirect:
                before, url = url, _join(url, response.headers["location"])
                if _is_foreign(before, url):
                    return {}
                continue
            if response.status_code == 404:
                return {}
            _check_status(response, page)
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != _JSON and kind not in _HTML:
                raise BundlerError("publish-failed", f"{page} is neither of type {_JSON} nor text/html")
            data = b"".join(_read(response, page, timeout, MAX_PAGE))
        try:
            return _parse_json(data, url) if kind == _JSON else _parse_html(data, url)
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError, AssertionError):
            raise BundlerError("publish-failed", f"{page} can't be read as a project's page of type {kind}") from None
    raise BundlerError("publish-failed", f"{page} leads from one address to the next without end")


def digest_of(repository: Repository, name: str, listed: Listed, most: int, timeout: float) -> str | None:
    """The file's sha256 as its page has it, else of what is downloaded; None for more than `most` bytes.

    Raises what `list_files` raises.
    """
    if listed.sha256 is not None:
        return listed.sha256
    what = f"the file {name} that {repository.simple_url} lists"
    state, size = sha256(), 0
    with _get(repository, listed.url, what, timeout, {"Accept-Encoding": "identity"}, follow=True) as response:
        _check_status(response, what)
        for chunk in _read(response, what, timeout):
            size += len(chunk)
            if size > most:
                return None
            state.update(chunk)
    return state.hexdigest()


def refusal(status: int, message: str) -> BundlerError:
    """The error for an HTTP status: `publish-unreachable` for one that may pass."""
    if status in (401, 403):
        return BundlerError("publish-unauthorized", message)
    if status in (408, 429) or status >= 500:
        return BundlerError("publish-unreachable", message)
    return BundlerError("publish-failed", message)


@contextmanager
def _get(
    repository: Repository, url: str, what: str, timeout: float, headers: Mapping[str, str], *, follow: bool = False
) -> Iterator[Response]:
    """An answer whose body is yet to be read. Credentials go to the host that takes uploads and to no other."""
    import requests
    from urllib3.exceptions import HTTPError

    is_foreign = _is_foreign(repository.url, url)
    try:
        with (
            requests.Session() as session,
            session.get(
                url,
                headers=headers,
                auth=None if is_foreign else repository.credentials,
                cert=None if is_foreign else repository.client_cert,
                verify=repository.ca_cert or True,
                timeout=timeout,
                allow_redirects=follow,
                stream=True,
            ) as response,
        ):
            yield response
    except (requests.RequestException, HTTPError, OSError, ValueError) as error:
        why = reason(repository, str(error))
        may_pass = isinstance(error, requests.ConnectionError | requests.Timeout | HTTPError)
        if may_pass and not isinstance(error, requests.exceptions.SSLError):
            raise BundlerError("publish-unreachable", f"{what} does not answer: {why}") from None
        raise BundlerError("publish-failed", f"{what} can't be asked for: {why}") from None


def reason(repository: Repository, text: str) -> str:
    """What an exception of requests says, without what is wrapped around it."""
    return repository.scrub(text).rpartition(": ")[2].strip(" '\"()")[:200]


def _is_foreign(url: str, other: str) -> bool:
    """Whether what is secret between us and the one must not be sent to the other."""
    from requests import Session

    return Session().should_strip_auth(url, other)


def _join(url: str, other: str) -> str:
    """`other` as it is meant on the page at `url`; the page's own address where it is none."""
    try:
        urlsplit(joined := urljoin(url, other)).port  # noqa: B018 - tells whether it is one
    except ValueError:
        return url
    return joined


def _check_status(response: Response, what: str) -> None:
    if response.status_code != 200:
        raise refusal(response.status_code, f"{what}: the index answers {response.status_code}")


def _read(response: Response, what: str, timeout: float, most: int | None = None) -> Iterator[bytes]:
    """The body as it arrives, decompressed. Raises for one that takes too long, or is larger than `most` bytes."""
    until = time.monotonic() + timeout
    size = 0
    while chunk := response.raw.read1(_CHUNK, decode_content=True):
        size += len(chunk)
        if most is not None and size > most:
            raise BundlerError("publish-failed", f"{what} is larger than {most:,} bytes")
        if time.monotonic() > until:
            raise BundlerError("publish-unreachable", f"{what} has not arrived after {timeout:g} seconds")
        yield chunk


def _parse_json(data: bytes, url: str) -> dict[str, Listed]:
    import json

    return {
        each["filename"]: Listed(url=_join(url, each["url"]), sha256=_hexadecimal(each["hashes"].get("sha256")))
        for each in json.loads(data)["files"]
    }


def _parse_html(data: bytes, url: str) -> dict[str, Listed]:
    page = _Page(url)
    page.feed(data.decode(errors="replace"))
    return page.files


class _Page(HTMLParser):
    """The links of a page: a file's name is the last part of its address, which ends with `#sha256=…`."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self.files: dict[str, Listed] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if tag != "a" or not href:
            return
        address, fragment = urldefrag(_join(self._url, href))
        name = unquote(urlsplit(address).path.rpartition("/")[2])
        hashes = parse_qs(fragment).get("sha256", [None])
        self.files[name] = Listed(url=address, sha256=_hexadecimal(hashes[0]))


def _hexadecimal(value: object) -> str | None:
    return value.lower() if isinstance(value, str) and _SHA256.match(value.lower()) else None
