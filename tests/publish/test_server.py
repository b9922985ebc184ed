"""Uploads to real servers on loopback, and to one with faults."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from bundler.errors import BundlerError
from bundler.publish.pages import MAX_PAGE
from bundler.publish.repository import Repository, find_repository
from bundler.publish.server import Patience, Uploaded, upload
from bundler.runtime.open import open_provider

from ..installs import PIP, wheel
from .servers import (
    PASSWORD,
    TOKEN,
    USER,
    Index,
    cut,
    echo,
    hang,
    pypiserver,
    redirect_with_it,
    refuse,
    serving,
    store,
    store_and_vanish,
)

UV = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-cache", "--python", sys.executable]


@pytest.fixture(autouse=True)
def _nothing_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("TWINE_", "PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")


@pytest.fixture
def index() -> Iterator[Index]:
    server = Index()
    with serving(server):
        yield server


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def patience(pauses: list[float]) -> Patience:
    return Patience(tries=3, sleep=pauses.append)


def repository(index: Index, password: str | None = PASSWORD) -> Repository:
    url = f"http://127.0.0.1:{index.server_port}/"
    return Repository(url=url, simple_url=f"{url}simple/", username=USER, password=password)


def known(url: str, monkeypatch: pytest.MonkeyPatch, user: str = USER, password: str = PASSWORD) -> Repository:
    monkeypatch.setenv("TWINE_USERNAME", user)
    monkeypatch.setenv("TWINE_PASSWORD", password)
    return find_repository(url)


def states(uploaded: Sequence[Uploaded]) -> list[str]:
    return [each.state for each in uploaded]


def name_of(path: str) -> str:
    return os.path.basename(path)


def failing(work: Callable[[], object]) -> BundlerError:
    with pytest.raises(BundlerError) as caught:
        work()
    return caught.value


DEMO, NEWER, OTHER = (wheel(name).path for name in ("demo", "newer", "other"))


# A real index


@pytest.mark.parametrize(("installer", "user", "password"), [("pip", USER, PASSWORD), ("uv", "__token__", TOKEN)])
def test_what_is_uploaded_is_installed_by_its_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installer: str, user: str, password: str
) -> None:
    with pypiserver(tmp_path / "index") as url:
        done = upload([DEMO], known(url, monkeypatch, user, password))
        assert done == [Uploaded(name=name_of(DEMO), sha256=wheel().sha256, state="uploaded", output=done[0].output)]
        assert f"Uploading {name_of(DEMO)}" in done[0].output
        requirements = tmp_path / "requirements.txt"
        requirements.write_text(f"agent-graph-provider-acme-demo==0.1.0 --hash=sha256:{done[0].sha256}\n")
        command = [*(PIP if installer == "pip" else UV), "--require-hashes", "--index-url", f"{url}simple/"]
        subprocess.run([*command, "--target", tmp_path / "site", "-r", requirements], check=True)
    with open_provider("provider:acme/demo", path=[str(tmp_path / "site")]) as provider:
        assert provider.digest == wheel().digest


def test_what_is_there_is_passed_over_and_what_is_missing_is_uploaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, int, int, str]] = []
    with pypiserver(tmp_path / "index", asks_for="update list download") as url:
        target = known(url, monkeypatch)
        assert states(upload([DEMO], target)) == ["uploaded"]
        again = upload([NEWER, DEMO, OTHER], target, lambda *each: told.append(each))
        assert states(again) == ["uploaded", "already-there", "uploaded"]
        assert [each.sha256 for each in again] == [wheel(name).sha256 for name in ("newer", "demo", "other")]
        assert states(upload([NEWER, DEMO, OTHER], target)) == ["already-there"] * 3
    assert told == [
        (name_of(NEWER), 1, 3, "uploading"),
        (name_of(NEWER), 1, 3, "sent"),
        (name_of(OTHER), 3, 3, "uploading"),
        (name_of(OTHER), 3, 3, "sent"),
        (name_of(NEWER), 1, 3, "uploaded"),
        (name_of(DEMO), 2, 3, "already-there"),
        (name_of(OTHER), 3, 3, "uploaded"),
    ]


def test_another_content_of_the_name_is_a_conflict_before_anything_is_uploaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pypiserver(tmp_path / "index") as url:
        for path in (DEMO, OTHER):
            (tmp_path / "index" / name_of(path)).write_bytes(b"something else")
        error = failing(lambda: upload([NEWER, DEMO, OTHER], known(url, monkeypatch)))
    assert [each.code for each in error.diagnostics] == ["release-conflict"] * 2
    assert sha256(b"something else").hexdigest() in error.message
    assert wheel().sha256 in error.message
    assert not (tmp_path / "index" / name_of(NEWER)).exists()


def test_a_wrong_password_is_refused_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience: Patience) -> None:
    with pypiserver(tmp_path / "index") as url:
        error = failing(lambda: upload([DEMO], known(url, monkeypatch, password="wrong"), patience=patience))
    assert error.code == "publish-unauthorized"
    assert "403 Forbidden" in error.message
    assert list((tmp_path / "index").iterdir()) == []


def test_a_private_index_needs_the_password_for_its_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience: Patience
) -> None:
    with pypiserver(tmp_path / "index", asks_for="update list download") as url:
        error = failing(lambda: upload([DEMO], find_repository(url), patience=patience))
    assert error.code == "publish-unauthorized"
    assert "401" in error.message


def test_two_publishers_at_once_both_find_it_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[list[Uploaded]] = []
    with pypiserver(tmp_path / "index") as url:
        target = known(url, monkeypatch)
        publishers = [threading.Thread(target=lambda: done.append(upload([DEMO, OTHER], target))) for _ in range(2)]
        for each in publishers:
            each.start()
        for each in publishers:
            each.join()
    assert len(done) == 2
    assert {state for each in done for state in states(each)} <= {"uploaded", "already-there"}
    assert (tmp_path / "index" / name_of(DEMO)).read_bytes() == Path(DEMO).read_bytes()


def test_an_index_that_leads_elsewhere_for_what_it_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: Index
) -> None:
    """pypiserver's default; the other index has a file of that name, which does not count."""
    index.files[name_of(DEMO)] = b"something else"
    elsewhere = f"http://localhost:{index.server_port}/simple/"
    with pypiserver(tmp_path / "index", fallback=elsewhere) as url:
        assert states(upload([DEMO], known(url, monkeypatch))) == ["uploaded"]
    assert index.gets == []


# What may pass


@pytest.mark.parametrize("fault", [refuse(429), refuse(408), cut], ids=["429", "408", "cut"])
def test_what_may_pass_is_tried_again(index: Index, pauses: list[float], patience: Patience, fault: Any) -> None:
    index.answers = [fault, fault]
    told: list[str] = []
    done = upload([DEMO], repository(index), lambda name, number, count, state: told.append(state), patience)
    assert states(done) == ["uploaded"]
    assert pauses == [1, 2]
    assert told == ["uploading", "retrying", "retrying", "sent", "uploaded"]
    assert index.files == {name_of(DEMO): Path(DEMO).read_bytes()}


@pytest.mark.parametrize("times", [1, 6])  # twine itself tries five times, without a pause
def test_a_server_that_recovers(index: Index, pauses: list[float], patience: Patience, times: int) -> None:
    index.answers = [refuse(500)] * times
    assert states(upload([DEMO], repository(index), patience=patience)) == ["uploaded"]
    assert len(index.posts) == times + 1
    assert pauses == [1][: times // 5]


def test_a_server_that_does_not_recover(index: Index, pauses: list[float], patience: Patience) -> None:
    index.answers = [refuse(429, b"<title>t</title><style>x{}</style><p>too many &amp; <b>too soon</b>")] * 3
    error = failing(lambda: upload([DEMO], repository(index), patience=patience))
    assert error.code == "publish-unreachable"
    assert error.message.endswith(f"does not take {name_of(DEMO)}: 429 Too Many Requests too many & too soon")
    assert (pauses, len(index.posts)) == ([1, 2], 3)
    assert "429" in error.diagnostics[0].detail["output"]


def test_a_file_that_arrived_without_an_answer_is_not_sent_again(index: Index, patience: Patience) -> None:
    index.answers = [store_and_vanish]
    assert states(upload([DEMO], repository(index), patience=patience)) == ["already-there"]
    assert index.posts == [name_of(DEMO)]


def test_an_upload_that_takes_too_long_is_ended(index: Index, pauses: list[float]) -> None:
    index.answers = [hang, hang]
    patience = Patience(tries=2, upload=0.5, sleep=pauses.append)
    error = failing(lambda: upload([DEMO], repository(index), patience=patience))
    assert (error.code, pauses) == ("publish-unreachable", [1])
    assert f"took more than 0.5 seconds for {name_of(DEMO)}" in error.message


def test_nobody_listens(pauses: list[float], patience: Patience) -> None:
    with serving(Index()) as url:
        pass
    error = failing(lambda: upload([DEMO], find_repository(url), patience=patience))
    assert (error.code, pauses) == ("publish-unreachable", [1, 2])
    assert "Connection refused" in error.message


def test_the_index_is_patiently_asked(index: Index, pauses: list[float], patience: Patience) -> None:
    faults = [503, 502]

    def sometimes(handler: Any) -> bool:
        if faults:
            handler.answer(faults.pop())
            return True
        return False

    index.instead = sometimes
    index.files[name_of(DEMO)] = Path(DEMO).read_bytes()
    assert states(upload([DEMO], repository(index), patience=patience)) == ["already-there"]
    assert pauses == [1, 2]


def test_twine_is_cut_off_from_a_server_that_goes_away(index: Index, patience: Patience) -> None:
    def leave(handler: Any, name: str, data: bytes) -> None:
        index.instead = lambda other: not other.answer(503)
        handler.close_connection = True

    index.answers = [leave, leave, leave]
    error = failing(lambda: upload([DEMO], repository(index), patience=patience))
    assert error.code == "publish-unreachable"
    assert len(index.posts) == 3


# What may not


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "publish-failed"),
        (401, "publish-unauthorized"),
        (403, "publish-unauthorized"),
        (409, "publish-failed"),
    ],
)
def test_a_refusal_is_told_and_not_repeated(
    index: Index, pauses: list[float], patience: Patience, status: int, code: str
) -> None:
    index.answers = [refuse(status, b"<pre>it is\nfull</pre>", "Because")]
    error = failing(lambda: upload([DEMO, OTHER], repository(index), patience=patience))
    assert error.code == code
    assert error.message.endswith(f"does not take {name_of(DEMO)}: {status} Because it is full")
    assert (pauses, index.posts) == ([], [name_of(DEMO)])


@pytest.mark.parametrize("status", [400, 409])
def test_another_publisher_was_faster(index: Index, patience: Patience, status: int) -> None:
    index.answers = [store(status=status), store(b"something else", status)]
    assert states(upload([DEMO], repository(index), patience=patience)) == ["already-there"]
    error = failing(lambda: upload([OTHER], repository(index), patience=patience))
    assert error.code == "release-conflict"


def test_a_redirect_is_not_followed_by_an_upload(index: Index, patience: Patience) -> None:
    with serving(elsewhere := Index()) as url:
        index.answers = [lambda handler, name, data: handler.redirect(url)]
        error = failing(lambda: upload([DEMO], repository(index), patience=patience))
    assert error.code == "publish-failed"
    assert "RedirectDetected" not in error.message
    assert f"attempted to redirect to {url}" in error.message
    assert (elsewhere.posts, elsewhere.gets) == ([], [])


def test_a_file_that_is_no_wheel_inside(index: Index, tmp_path: Path, patience: Patience) -> None:
    path = tmp_path / name_of(DEMO)
    path.write_bytes(b"no zip")
    error = failing(lambda: upload([path], repository(index), patience=patience))
    assert error.code == "publish-failed"
    assert name_of(DEMO) in error.message
    assert index.posts == []


@pytest.mark.parametrize("shown", [None, b"something else"])
def test_what_the_index_does_not_show_is_not_called_uploaded(
    index: Index, pauses: list[float], patience: Patience, shown: bytes | None
) -> None:
    index.answers = [refuse(200) if shown is None else store(shown)]
    if shown is not None:
        assert failing(lambda: upload([DEMO], repository(index), patience=patience)).code == "release-conflict"
        return
    (done,) = upload([DEMO], repository(index), patience=patience)
    assert (done.state, pauses) == ("unconfirmed", [1, 2])
    assert done.warning is not None
    assert (done.warning.code, done.warning.severity) == ("publish-unconfirmed", "warning")
    assert f"does not show {name_of(DEMO)} yet" in done.warning.message
    assert "200 OK" in done.output


def test_an_index_that_shows_it_late(index: Index, pauses: list[float], patience: Patience) -> None:
    index.instead = lambda handler: len(index.gets) < 3 and not handler.answer(404)
    assert states(upload([DEMO], repository(index), patience=patience)) == ["uploaded"]
    assert pauses == [1]


def test_an_index_that_can_not_be_asked_afterwards(index: Index, patience: Patience) -> None:
    index.instead = lambda handler: len(index.gets) > 1 and not handler.answer(503)
    (done,) = upload([DEMO], repository(index), patience=patience)
    assert done.state == "unconfirmed"
    assert done.warning is not None
    assert "503" in done.warning.message


KILLED = """
import os, sys
from bundler.publish.repository import find_repository
from bundler.publish.server import Patience, upload
upload(sys.argv[2:], find_repository(sys.argv[1]), lambda *each: print(*each, flush=True))
"""


@pytest.mark.parametrize("stage", ["asking", "arrived", "stored", "confirming"])
def test_publishing_again_after_a_kill(
    index: Index, tmp_path: Path, patience: Patience, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    publisher: subprocess.Popen[bytes]
    started = threading.Event()

    def kill() -> None:
        started.wait()
        publisher.kill()
        publisher.wait()

    def answer(handler: Any, name: str, data: bytes) -> None:
        if stage == "arrived":
            kill()
            handler.close_connection = True
            return
        if stage == "stored":
            index.files[name] = data
            kill()
        store()(handler, name, data)

    def instead(handler: Any) -> bool:
        if (stage == "asking" and not index.posts) or (stage == "confirming" and index.files):
            kill()
        return False

    index.answers, index.instead = [answer], instead
    url = repository(index).url
    publisher = subprocess.Popen([sys.executable, "-c", KILLED, url, DEMO, NEWER], stdout=subprocess.DEVNULL)
    started.set()
    publisher.wait()
    assert publisher.returncode == -9
    index.instead, index.answers = lambda handler: False, []
    first = "already-there" if stage in ("stored", "confirming") else "uploaded"
    second = "already-there" if stage == "confirming" else "uploaded"
    assert states(upload([DEMO, NEWER], repository(index), patience=patience)) == [first, second]
    assert index.files == {name_of(path): Path(path).read_bytes() for path in (DEMO, NEWER)}


# Pages


@pytest.mark.parametrize("kind", ["html", "json"])
@pytest.mark.parametrize(
    "hashes",
    [lambda data: {"sha256": sha256(data).hexdigest().upper()}, lambda data: {}, lambda data: {"md5": "0" * 32}],
    ids=["sha256", "none", "md5"],
)
def test_every_kind_of_page(index: Index, kind: str, hashes: Any) -> None:
    index.kind, index.hashes = kind, hashes
    index.files = {name_of(DEMO): Path(DEMO).read_bytes(), name_of(OTHER): Path(OTHER).read_bytes() + b"more"}
    assert states(upload([DEMO], repository(index))) == ["already-there"]
    error = failing(lambda: upload([OTHER], repository(index)))
    assert error.code == "release-conflict"
    assert index.posts == []
    # A file is fetched only where its page does not tell.
    assert any(path.startswith("/files/") for path, _ in index.gets) == (index.hashes(b"").keys() != {"sha256"})


def send(kind: str, *chunks: bytes, **headers: str) -> Callable[[Any], bool]:
    def answer(handler: Any) -> bool:
        handler.send_response(200)
        handler.send_header("Content-Type", kind)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        for chunk in chunks:
            handler.wfile.write(chunk)
        handler.close_connection = True
        return True

    return answer


LARGE = [b"<a href=x>x</a> " * 65536] * 100


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (send("text/html", *LARGE), f"larger than {MAX_PAGE:,} bytes"),
        (send("text/html", gzip.compress(b"".join(LARGE), 1), Content_Encoding="gzip"), "larger than"),
        (send("text/plain", b"hello"), "is neither of type"),
        (send("application/vnd.pypi.simple.v1+json", b"{"), "can't be read"),
        (send("application/vnd.pypi.simple.v1+json", b'{"files": [{"filename": "x"}]}'), "can't be read"),
        (send("application/vnd.pypi.simple.v1+json", b'{"files": 1}'), "can't be read"),
        (send("application/vnd.pypi.simple.v1+json", b"[" * 200_000), "can't be read"),
        (send("text/html", b"no gzip at all", Content_Encoding="gzip"), "does not answer"),
        (send("text/html", b"<p>", Content_Length="100"), "does not answer"),
        (lambda handler: not handler.answer(418), "418"),
        (lambda handler: not handler.redirect(handler.path), "without end"),
        (lambda handler: not handler.redirect("http://[x/"), "can't be asked for"),
    ],
    ids=[
        "large",
        "gzip",
        "text",
        "json",
        "json-file",
        "json-files",
        "json-deep",
        "no-gzip",
        "cut",
        "418",
        "loop",
        "no-url",
    ],
)
def test_a_page_that_is_none(index: Index, patience: Patience, answer: Any, message: str) -> None:
    index.instead = answer
    error = failing(lambda: upload([DEMO], repository(index), patience=patience))
    assert error.code == ("publish-unreachable" if message == "does not answer" else "publish-failed")
    assert message in error.message
    assert index.posts == []


def test_a_page_that_never_ends_in_time(index: Index) -> None:
    def drip(handler: Any) -> bool:
        send("text/html")(handler)
        while not index.over.wait(0.01):
            handler.wfile.write(b" ")
        return True

    index.instead = drip
    patience = Patience(page=0.2, tries=1)
    error = failing(lambda: upload([DEMO], repository(index), patience=patience))
    assert error.code == "publish-unreachable"
    assert "has not arrived after 0.2 seconds" in error.message


def test_an_index_that_tells_the_password_in_a_header(index: Index, patience: Patience) -> None:
    index.instead = lambda handler: not handler.answer(200, kind=f"text/{handler.headers['authorization']}")
    error = failing(lambda: upload([DEMO], repository(index), patience=patience))
    assert error.message.endswith("is neither of type application/vnd.pypi.simple.v1+json nor text/html")


def test_credentials_go_to_the_host_that_takes_uploads_and_to_no_other(index: Index) -> None:
    with serving(pages := Index()) as url:
        target = Repository(url=repository(index).url, simple_url=f"{url}simple/", username=USER, password=PASSWORD)
        pages.files[name_of(DEMO)] = Path(DEMO).read_bytes()
        assert states(upload([DEMO], target)) == ["already-there"]
    assert [headers.get("Authorization") for _, headers in pages.gets] == [None]


def test_a_redirect_on_the_same_host_is_followed_with_credentials(index: Index) -> None:
    index.files[name_of(DEMO)] = Path(DEMO).read_bytes()
    index.instead = lambda handler: handler.path.startswith("/simple/") and not handler.redirect("/a/b/")
    assert states(upload([DEMO], repository(index))) == ["already-there"]
    assert ["Authorization" in headers for _, headers in index.gets] == [True, True]


# Secrets


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="command lines are looked up in /proc")
@pytest.mark.parametrize("answer", [echo, redirect_with_it])
def test_no_password_is_shown_anywhere(
    index: Index, patience: Patience, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, answer: Any
) -> None:
    seen: list[str] = []

    def look(handler: Any, name: str, data: bytes) -> None:
        for process in os.listdir("/proc"):
            if process.isdigit():
                try:
                    seen.append(Path("/proc", process, "cmdline").read_text(errors="replace"))
                except OSError:
                    continue
        refuse(429)(handler, name, data)

    index.answers = [look, answer]
    caplog.set_level("DEBUG")
    target = repository(index)
    error = failing(lambda: upload([DEMO], target, lambda *each: seen.append(repr(each)), patience))
    assert error.code == "publish-failed"
    assert any("twine" in each for each in seen)
    printed = capfd.readouterr()
    seen += [
        error.message,
        repr(error),
        json.dumps(error.to_json(), ensure_ascii=False),
        error.diagnostics[0].detail["output"],
    ]
    seen += [repr(error.diagnostics), repr(target), printed.out, printed.err, caplog.text]
    together = "".join("\n".join(seen).split())
    assert "[hidden]" in together
    for part in ("pass<w>", "something", "pass&lt;", "pass%3Cw", "cHVibGlzaGVyOnBhc3M8"):
        assert part not in together
    assert "\x1b" not in together


# Files


def test_files_that_are_not_sent(index: Index, tmp_path: Path) -> None:
    def code(*paths: Path | str) -> str:
        return failing(lambda: upload([DEMO, *paths], repository(index))).code

    name = "x-1.0-py3-none-any.whl"
    assert code(tmp_path / name) == "file-missing"
    (tmp_path / name).mkdir()
    assert code(tmp_path / name) == "publish-file-invalid"
    (tmp_path / name).rmdir()
    os.mkfifo(tmp_path / name)
    assert code(tmp_path / name) == "publish-file-invalid"
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to(name)
    assert code(tmp_path / name) == "file-read-failed"
    (tmp_path / "notes.txt").write_text("x")
    assert code(tmp_path / "notes.txt") == "publish-file-invalid"
    assert code(DEMO) == "publish-file-invalid"
    assert code(tmp_path / "x.whl") == "publish-file-invalid"
    assert (index.gets, index.posts) == ([], [])


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="a file that opens and can't be read")
def test_a_file_that_can_not_be_read(index: Index, tmp_path: Path) -> None:
    path = tmp_path / "x-1.0.tar.gz"
    path.symlink_to("/proc/self/mem")
    assert failing(lambda: upload([path], repository(index))).code == "file-read-failed"


def test_no_room_for_copies(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/dev/null/x")
    error = failing(lambda: upload([DEMO], repository(index)))
    assert (error.code, error.is_environment) == ("environment-failed", True)
    assert index.gets == []


def test_no_files_no_requests(index: Index) -> None:
    assert upload([], repository(index)) == []
    assert index.gets == []
