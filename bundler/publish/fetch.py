"""Documents of an index, wherever it is: a folder, a `file://` URL, or a web server, of which nothing else is read."""

from __future__ import annotations

import os
import time
from urllib.parse import quote, urlsplit

from ..errors import BundlerError
from .extra import check_extra
from .index import FolderIndex
from .index.layout import MAX_DOCUMENT, document_place

#: Seconds for a connection, between two pieces of an answer, and for the whole of it.
_CONNECT, _READ, _WHOLE = 10, 30, 120
_CHUNK = 64 * 1024


def fetch_document(index: str | os.PathLike[str], name: str) -> bytes | None:
    """A document of an index, as it is: nothing about it is verified. None where there is none.

    Raises `index-missing` for a folder that is no index, `index-unreachable` where a web server gives no answer, or
    another one than the document, and what reading a folder raises.
    """
    text = os.fspath(index)
    if urlsplit(text).scheme.lower() not in ("http", "https"):
        return FolderIndex(text).document(name)
    return _fetch(f"{text.rstrip('/')}/{quote(document_place(name))}")


def document_name(index: str | os.PathLike[str], name: str) -> str:
    """What messages call a document of an index: no password that a URL holds is in it."""
    return f"{_without_secrets(os.fspath(index)).rstrip('/')}/{document_place(name)}"


def _fetch(url: str) -> bytes | None:
    check_extra()
    import requests
    from urllib3.exceptions import HTTPError

    shown = _without_secrets(url)
    ends = time.monotonic() + _WHOLE
    data = bytearray()
    try:
        # What is not compressed can't unfold into more than is read. An address that leads elsewhere is told, not followed.
        headers = {"Accept-Encoding": "identity", "Cache-Control": "no-cache"}
        with requests.get(
            url, headers=headers, timeout=(_CONNECT, _READ), stream=True, allow_redirects=False
        ) as answer:
            if answer.status_code in (404, 410):
                return None
            if answer.status_code != 200:
                raise _unreachable(shown, f"the server answers {answer.status_code}")
            while piece := answer.raw.read(_CHUNK, decode_content=False):
                data += piece
                if len(data) > MAX_DOCUMENT:
                    raise _unreachable(shown, f"it has more than {MAX_DOCUMENT:,} bytes, the most that is read")
                if time.monotonic() > ends:
                    raise _unreachable(shown, f"it has not ended after {_WHOLE} seconds")
    except (requests.RequestException, HTTPError, ValueError) as error:
        # Their texts can hold the whole URL.
        raise _unreachable(shown, f"{type(error).__name__}") from None
    return bytes(data)


def _without_secrets(text: str) -> str:
    scheme, separator, rest = text.partition("://")
    place, slash, path = rest.partition("/")
    return f"{scheme}://{place.rpartition('@')[2]}{slash}{path}" if separator else text


def _unreachable(url: str, why: str) -> BundlerError:
    return BundlerError("index-unreachable", f"{url} can't be fetched: {why}", path=url)
