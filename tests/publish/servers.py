"""Servers on loopback: a real pypiserver, and an index whose faults a test chooses."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

USER, PASSWORD = "publisher", "pass<w>ord & some thing"
TOKEN = "pypi-AgEIcHlwaS5vcmcCJDRlNzM3NTQzLTAwMDAtNDAwMC04MDAw"


@contextmanager
def serving(server: Any) -> Iterator[str]:
    """The server's URL while it serves in a thread."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# A process of its own: importing it changes how Python imports, and warns.
_PYPISERVER = f"""
import socketserver, sys, wsgiref.simple_server as simple
import pypiserver

class Server(socketserver.ThreadingMixIn, simple.WSGIServer):
    daemon_threads = True

accepted = {[(USER, PASSWORD), ("__token__", TOKEN)]!r}
root, authenticate, fallback = sys.argv[1:]
app = pypiserver.app(
    roots=[root],
    authenticate=authenticate.split(),
    auther=lambda user, password: (user, password) in accepted,
    disable_fallback=not fallback,
    fallback_url=fallback,
)
server = simple.make_server("127.0.0.1", 0, app, Server)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextmanager
def pypiserver(root: Path, *, asks_for: str = "update", fallback: str = "") -> Iterator[str]:
    """A real pypiserver that keeps its files in `root`, for the user with the password and for who has the token."""
    root.mkdir(exist_ok=True)
    command = [sys.executable, "-W", "ignore", "-c", _PYPISERVER, root, asks_for, fallback]
    with (
        (root.parent / f"{root.name}.log").open("wb") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as process,
    ):
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/"
        finally:
            process.kill()


Answer = Callable[["_Handler", str, bytes], None]


class Index(ThreadingHTTPServer):
    """An index that takes every file and lists it; tests put faults into `answers`, one for each upload, and into the rest."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.answers: list[Answer] = []
        #: Names of the files of each upload that arrived, and the requests for pages and files.
        self.posts: list[str] = []
        self.gets: list[tuple[str, Mapping[str, str]]] = []
        self.kind = "html"
        self.hashes: Callable[[bytes], Mapping[str, str]] = lambda data: {"sha256": sha256(data).hexdigest()}
        #: Answers a request for a page or file in its stead, if it is one for it.
        self.instead: Callable[[_Handler], bool] = lambda handler: False
        #: Set when the test is over, for answers that never come.
        self.over = threading.Event()

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that go away are part of the tests."""

    def shutdown(self) -> None:
        self.over.set()
        super().shutdown()


class _Handler(BaseHTTPRequestHandler):
    server: Index

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.server.gets.append((self.path, dict(self.headers)))
        if self.server.instead(self):
            return
        if self.path.startswith("/files/"):
            self.answer(200, self.server.files[self.path.rpartition("/")[2]], "application/octet-stream")
            return
        files = self.server.files
        if not files:
            self.answer(404)
        elif self.server.kind == "json":
            listed = [
                {"filename": name, "url": f"../../files/{name}", "hashes": self.server.hashes(data)}
                for name, data in files.items()
            ]
            page = json.dumps({"meta": {"api-version": "1.0"}, "name": "x", "files": listed})
            self.answer(200, page.encode(), "application/vnd.pypi.simple.v1+json")
        else:
            links = []
            for name, data in files.items():
                fragment = "".join(f"#{key}={value}" for key, value in self.server.hashes(data).items())
                links.append(f'<a data-x href="../../files/{name}{fragment}">{name}</a>')
            page = f'<!doctype html><body><a name="top">Links</a><a href="http://[">x</a>{"<br>".join(links)}'
            self.answer(200, page.encode(), "text/html; charset=utf-8")

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        if self.server.answers and getattr(self.server.answers[0], "cuts", False):
            self.server.answers.pop(0)
            self.server.posts.append("")
            self.rfile.read(length // 2)
            self.close_connection = True
            return
        body = self.rfile.read(length)
        boundary = self.headers["content-type"].partition("boundary=")[2]
        part = next(part for part in body.split(f"--{boundary}".encode()) if b'name="content"' in part)
        head, _, content = part.partition(b"\r\n\r\n")
        name = head.partition(b'filename="')[2].partition(b'"')[0].decode()
        self.server.posts.append(name)
        answer = self.server.answers.pop(0) if self.server.answers else store()
        answer(self, name, content.removesuffix(b"\r\n"))

    def answer(self, status: int, body: bytes = b"", kind: str = "text/html", reason: str | None = None) -> None:
        self.send_response(status, reason)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def redirect(self, url: str) -> None:
        self.send_response(302)
        self.send_header("Location", url)
        self.send_header("Content-Length", "0")
        self.end_headers()


def store(content: bytes | None = None, status: int = 200) -> Answer:
    """Keep the file (or another content in its place), then answer."""

    def answer(handler: _Handler, name: str, data: bytes) -> None:
        handler.server.files[name] = data if content is None else content
        handler.answer(status)

    return answer


def refuse(status: int, body: bytes = b"", reason: str | None = None) -> Answer:
    """Keep nothing."""
    return lambda handler, name, data: handler.answer(status, body, reason=reason)


def cut(handler: _Handler, name: str, data: bytes) -> None:
    """Close the connection in the middle of the upload."""


cut.cuts = True  # type: ignore[attr-defined]


def store_and_vanish(handler: _Handler, name: str, data: bytes) -> None:
    """Keep the file, then close the connection without an answer."""
    handler.server.files[name] = data
    handler.close_connection = True


def hang(handler: _Handler, name: str, data: bytes) -> None:
    """Never answer."""
    handler.server.over.wait()


def echo(handler: _Handler, name: str, data: bytes) -> None:
    """Tell the client its password, in every form and place."""
    sent = handler.headers["authorization"].partition(" ")[2]
    lines = (
        sent,
        PASSWORD,
        f"{PASSWORD[:7]}\n   {PASSWORD[7:]}",
        f"{'x' * 485}{PASSWORD}",
        "pass&lt;w&gt;ord &amp; some thing",
    )
    body = "<p>you sent\x1b[2J " + "</p><p>".join(lines) + f" {b64encode(sent.encode()).decode()}"
    handler.answer(400, body.encode(), "text/html; charset=utf-8", reason=f"no {sent}")


def redirect_with_it(handler: _Handler, name: str, data: bytes) -> None:
    """Lead the client to an address that holds its password, across the end of a line of twine's output."""
    handler.redirect(f"/{'x' * 400}?{quote(PASSWORD)}&{handler.headers['authorization'].partition(' ')[2]}")
