"""What lies where in a folder index, and the largest of it that is read.

simple/index.html, index.json             the projects (PEP 503, PEP 691)
simple/PROJECT/index.html, index.json     the files of a project
files/PROJECT/FILE, FILE.metadata, …      wheels and sdists, METADATA of wheels (PEP 658), accompanying files
documents/NAME                            what others sign: the index keeps it and does not read it
journal/00000001.json …                   what was changed, when and by whom; each entry has the digest of the one before
head                                      number and digest of the last entry whose change is in place
lease, lock, staging/                     of whoever writes
"""

from __future__ import annotations

import json
import re
from typing import Any

from ...errors import BundlerError

SIMPLE, FILES, DOCUMENTS, JOURNAL, STAGING = "simple", "files", "documents", "journal", "staging"
HEAD, LEASE, LOCK = "head", "lease", "lock"
FOLDERS = (SIMPLE, FILES, DOCUMENTS, JOURNAL, STAGING)
JSON_PAGE, HTML_PAGE = "index.json", "index.html"

#: Bytes of a page, of a journal entry, of a document, of head and lease.
MAX_PAGE = 64 * 1024 * 1024
MAX_ENTRY = 32 * 1024 * 1024
MAX_DOCUMENT = 4 * 1024 * 1024
MAX_SMALL = 64 * 1024

# A folder of documents has no dot in its name and a document has one: none can be in the other's place.
_DOCUMENT = re.compile(r"(?:[a-z0-9][a-z0-9-]*/){0,3}[a-z0-9][a-z0-9_-]*\.(?:[a-z0-9_-]+\.)*[a-z0-9_-]+\Z")


def entry_place(number: int) -> str:
    """The place of a journal entry."""
    return f"{JOURNAL}/{number:08}.json"


def document_place(name: str) -> str:
    """The place of a document. Raises `index-document-invalid` for a name that none can have."""
    if not _DOCUMENT.match(name) or len(name) > 200:
        raise BundlerError("index-document-invalid", f"{name!r} is no name of a document", path=name)
    return f"{DOCUMENTS}/{name}"


def project_page(project: str, page: str) -> str:
    """The place of one of a project's two pages."""
    return f"{SIMPLE}/{project}/{page}"


def to_bytes(value: Any) -> bytes:
    """JSON in one form only: keys in order, ASCII, one line."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def check_size(data: bytes, limit: int, what: str) -> bytes:
    """The data. Raises `index-limit-exceeded` for more than would be read again."""
    if len(data) > limit:
        raise BundlerError("index-limit-exceeded", f"{what} would have {len(data):,} bytes; {limit:,} is the most")
    return data


def invalid(path: str, what: str) -> BundlerError:
    """`index-invalid`."""
    return BundlerError("index-invalid", f"`{path}` {what}", path=path)
