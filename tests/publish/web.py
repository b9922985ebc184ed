"""Web servers on this machine's own address: one that knows nothing of indexes, one that answers as it is told."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FILES = """
import functools, http.server, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""
#: Sends its second argument, with escapes, to whoever connects, and as many zero bytes as the third says.
_FIXED = """
import socketserver, sys
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        while self.rfile.readline().strip():
            pass
        try:
            self.wfile.write(sys.argv[1].encode().decode("unicode_escape").encode() + bytes(int(sys.argv[2])))
        except OSError:
            pass
socketserver.ThreadingTCPServer.daemon_threads = True
server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@contextmanager
def serving(folder: Path | str) -> Iterator[str]:
    """The URL of a folder."""
    with _started(_FILES, str(folder)) as url:
        yield url


@contextmanager
def answering(head: str, zeros: int = 0) -> Iterator[str]:
    """The URL of a server that gives one answer to everything: its first lines, with `\\r\\n` written out."""
    with _started(_FIXED, head, str(zeros)) as url:
        yield url


@contextmanager
def _started(code: str, *arguments: str) -> Iterator[str]:
    command = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()
