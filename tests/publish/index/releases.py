"""Small releases and the indexes that hold them, and what a stranger sees of an index."""

from __future__ import annotations

import json
import os
import signal
import warnings
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from bundler.errors import BundlerError
from bundler.publish.index import FolderIndex

#: What changes a file system.
_STEPS = ("replace", "rename", "link", "mkdir", "fsync", "unlink", "rmdir")


def wheel(folder: Path, name: str = "demo", version: str = "1.0", *, requires: str = ">=3.8", text: str = "") -> Path:
    """A wheel that installers take; `text` makes its content another."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.txt": text,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Python: {requires}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [
        f"{path},sha256={urlsafe_b64encode(sha256(data.encode()).digest()).decode().rstrip('=')},{len(data)}\n"
        for path, data in files.items()
    ]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in {**files, f"{info}/RECORD": "".join([*rows, f"{info}/RECORD,,\n"])}.items():
            archive.writestr(zipfile.ZipInfo(member), data)
    return path


def beside(path: Path, suffix: str, text: str = "{}") -> Path:
    """A file that accompanies another."""
    made = path.with_name(f"{path.name}.{suffix}")
    made.write_text(text)
    return made


def make_index(folder: Path, *files: Path, patience: float = 20.0) -> FolderIndex:
    """An index with these files."""
    FolderIndex.init(folder)
    index = FolderIndex(folder, patience=patience)
    if files:
        index.add(files, who="maker")
    return index


def code_of(work: Callable[[], object]) -> str:
    """The code of the error that is raised; empty where none is."""
    try:
        work()
    except BundlerError as error:
        return error.code
    return ""


def visible(index: FolderIndex) -> dict[str, bytes]:
    """Pages and documents by place. Everything that a page names has to be there as the page says."""
    root = Path(index.root)
    found = {
        str(path.relative_to(root)): path.read_bytes()
        for folder in ("simple", "documents")
        for path in root.glob(f"{folder}/**/*")
        if path.is_file()
    }
    for href, attributes in anchors(found["simple/index.html"]):
        assert attributes == {}
        assert f"simple/{href}index.html" in found
    for project in json.loads(found["simple/index.json"])["projects"]:
        assert f"simple/{project['name']}/index.json" in found
    for path, data in found.items():
        folder = (root / path).parent
        if path.count("/") != 2 or not path.startswith("simple/"):
            continue
        if path.endswith(".html"):
            for href, attributes in anchors(data):
                place, _, fragment = href.partition("#")
                assert sha256_of(folder / unquote(place)) == fragment.removeprefix("sha256=")
                if "data-core-metadata" in attributes:
                    expected = attributes["data-core-metadata"].removeprefix("sha256=")
                    assert sha256_of(folder / unquote(f"{place}.metadata")) == expected
        else:
            for file in json.loads(data)["files"]:
                place = unquote(file["url"])
                assert sha256_of(folder / place) == file["hashes"]["sha256"]
                for each in file.get("_accompanying", ()):
                    assert sha256_of(folder / f"{place}.{each['suffix']}") == each["hashes"]["sha256"]
    return found


def anchors(page: bytes) -> list[tuple[str, dict[str, str]]]:
    """The links of an HTML page: target, other attributes."""
    found = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag == "a":
                attributes = {name: value or "" for name, value in attrs}
                found.append((attributes.pop("href"), attributes))

    Parser().feed(page.decode())
    return found


def sha256_of(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def in_child(work: Callable[[], object]) -> tuple[int, int]:
    """Begin the work in a process of its own: its id, and where the code of its error is read, `done` without one."""
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks in a process with threads
        child = os.fork()
    if child == 0:
        try:
            os.write(write_end, (code_of(work) or "done").encode())
        except BaseException as error:
            os.write(write_end, repr(error).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    return child, read_end


def ended(child: int, answer: int) -> str:
    """What a process answered; empty where it was killed."""
    with os.fdopen(answer) as file:
        text = file.read()
    os.waitpid(child, 0)
    return text


def at_step(number: int, send: signal.Signals, work: Callable[[], object]) -> Callable[[], object]:
    """The work, in whose process a signal is sent to itself before its n-th step on the file system."""

    def run() -> object:
        count = 0

        def counted(function: Callable[..., object]) -> Callable[..., object]:
            def step(*arguments: object, **options: object) -> object:
                nonlocal count
                count += 1
                if count == number:
                    os.kill(os.getpid(), send)
                return function(*arguments, **options)

            return step

        for name in _STEPS:
            setattr(os, name, counted(getattr(os, name)))
        plain = os.open
        making = counted(plain)

        def opened(path: object, flags: int, *rest: object, **options: object) -> object:
            return (making if flags & os.O_CREAT else plain)(path, flags, *rest, **options)  # type: ignore[arg-type]

        os.open = opened  # type: ignore[assignment]
        return work()

    return run
