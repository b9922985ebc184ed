"""Resources that Actions make: what runs, with what, within which limits; and that nothing is left of what fails."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jsonschema_rs
import pytest

from bundler.errors import BundlerError
from bundler.protocol.canonical import sha256 as digest_of
from bundler.protocol.schemas import schema_path
from bundler.runtime.locations import FileLocation, GraphActionLocation
from bundler.runtime.materialize import Materialized
from bundler.runtime.open import open_provider
from bundler.runtime.process import Limits
from bundler.runtime.receipts import ReadReceipt, make_receipts, receipt_of
from bundler.wheel.build import make_wheel

from ..builders import UNCOVERED, build_from, snapshot
from ..installs import PIP, as_another_user
from ..views import REVISION, all_gone, is_running, pids, with_command, with_script, with_view, write_view

LOCATION = jsonschema_rs.Draft202012Validator(json.loads(schema_path("resource-location").read_bytes()))
SHORT = Limits(timeout_ms=700)
PRINTS_ENVIRONMENT = (
    "import json, os, sys\nprint(json.dumps([dict(os.environ), os.getcwd(), sys.argv[1:], sys.stdin.read()]))\n"
)
SAYS_LIB = "import lib\nprint(lib.SAID)\n"
LIB = "files: [scripts/lib.py]\n"
POISONS = """import importlib.util, marshal, os, sys
source = sys.argv[1]
target = importlib.util.cache_from_source(source)
os.makedirs(os.path.dirname(target), exist_ok=True)
code = marshal.dumps(compile("SAID = 'evil'", source, "exec"))
open(target, "wb").write(importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8) + code)
"""


@pytest.fixture(autouse=True)
def python3(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python3` is this one, and no locale makes it set variables of its own."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


def make(tmp_path: Path, reference: Path | str | None = None, resource: str = "view", **options: Any) -> Materialized:
    """Materialize in `work` beside the Provider, into `cache`."""
    given = {"cache": tmp_path / "cache", "revision": REVISION, "workspace": tmp_path / "work", **options}
    with open_provider(reference or tmp_path / "provider") as opened:
        return opened.materialize(resource, **given)


def failure(tmp_path: Path, **options: Any) -> BundlerError:
    """The error that it raises; nothing was kept."""
    with pytest.raises(BundlerError) as raised:
        make(tmp_path, **options)
    assert kept(tmp_path) == []
    return raised.value


def kept(tmp_path: Path) -> list[str]:
    cache = tmp_path / "cache"
    return sorted(path.name for path in cache.iterdir()) if cache.is_dir() else []


def output(made: Materialized) -> bytes:
    return Path(str(made.location.file_path)).read_bytes()


# --- what is made -----------------------------------------------------------------------------------------


def test_the_location_names_a_file_of_the_content(tmp_path: Path) -> None:
    write_view(tmp_path, with_command("printf 'a view'"))
    made = make(tmp_path)
    digest = digest_of(b"a view")
    path = tmp_path / "cache" / f"{digest.removeprefix('sha256:')}.txt"
    value = {
        "schema": "agent-graph.resource-location.graph-action.v1",
        "id": "view",
        "kind": "context-view",
        "mediaType": "text/plain",
        "revision": REVISION,
        "digest": digest,
        "filePath": str(path),
    }
    assert made.location.to_json() == value
    assert LOCATION.is_valid(value)
    assert snapshot(tmp_path / "cache") == {path.name: (0o100600, b"a view")}
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    assert made.receipt == ReadReceipt(id="view", digest=digest, revision=REVISION)


def test_receipts_are_the_protocols(tmp_path: Path) -> None:
    write_view(tmp_path, with_command("printf 'a view'"))
    made = make(tmp_path)
    with open_provider(tmp_path / "provider") as opened:
        file, view = opened.locate("guide"), opened.locate("view", revision=REVISION)
        assert isinstance(file, FileLocation)
        receipts = make_receipts(opened.provider.id, [made.receipt, receipt_of(file), made.receipt])
    assert receipts == {
        "schema": "agent-graph.resource-read-receipts.v1",
        "provider": "acme/demo",
        "receipts": [made.receipt.to_json(), {"id": "guide", "digest": file.digest}],
    }
    assert isinstance(view, GraphActionLocation)
    with pytest.raises(ValueError, match="`view` was not materialized"):
        receipt_of(view)
    with pytest.raises(BundlerError) as raised:
        make_receipts("acme/demo", [ReadReceipt(id="x", digest="md5:0")])
    assert raised.value.code == "schema-invalid"


def test_a_resource_by_its_path(tmp_path: Path) -> None:
    write_view(tmp_path, with_command("echo view"))
    assert make(tmp_path, resource="./resources/view.yaml") == make(tmp_path)


@pytest.mark.parametrize(
    ("media_type", "ending"),
    [
        ("text/markdown; charset=utf-8", ".md"),
        ("Application/JSON", ".json"),
        ("application/acme.v1+json", ".json"),
        ("application/x+evil", ""),
        ("../../x", ""),
    ],
)
def test_the_ending_follows_from_the_media_type(tmp_path: Path, media_type: str, ending: str) -> None:
    files = with_command("true")
    files["resources/view.yaml"] = str(files["resources/view.yaml"]).replace("text/plain", f"'{media_type}'")
    write_view(tmp_path, files)
    made = make(tmp_path)
    assert kept(tmp_path) == [f"{sha256(b'').hexdigest()}{ending}"]
    assert made.location.media_type == media_type


@pytest.mark.parametrize("what", ["other content", "half", "link", "write permission", "FIFO"])
def test_what_lies_in_its_place_is_replaced(tmp_path: Path, what: str) -> None:
    write_view(tmp_path, with_command("printf 'a view'"))
    path = Path(str(make(tmp_path).location.file_path))
    before = path.stat().st_ino
    make(tmp_path)
    assert path.stat().st_ino == before  # the right one stays
    if what == "write permission":
        path.chmod(0o622)
    else:
        path.unlink()
        match what:
            case "other content":
                path.write_bytes(b"A view")
            case "half":
                path.write_bytes(b"a v")
            case "link":
                (tmp_path / "elsewhere").write_bytes(b"a view")
                path.symlink_to(tmp_path / "elsewhere")
            case "FIFO":
                os.mkfifo(path)
    make(tmp_path)
    assert snapshot(tmp_path / "cache") == {path.name: (0o100600, b"a view")}


def test_what_cannot_be_put_in_place(tmp_path: Path) -> None:
    write_view(tmp_path, with_command("printf 'a view'"))
    path = Path(str(make(tmp_path).location.file_path))
    path.unlink()
    path.mkdir()
    with pytest.raises(BundlerError) as raised:
        make(tmp_path)
    assert (raised.value.code, raised.value.is_environment) == ("output-write-failed", True)
    assert kept(tmp_path) == [path.name]


def test_many_at_once_into_one_cache(tmp_path: Path) -> None:
    write_view(tmp_path, with_command('printf "%s" "$AGENT_GRAPH_INPUT"; head -c 300000 /dev/zero'))
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda number: make(tmp_path, input={"n": number % 3}), range(24)))
    assert len({each.location.file_path for each in made}) == len(kept(tmp_path)) == 3
    for number, each in enumerate(made):
        assert output(each) == b'{"n":%d}' % (number % 3) + bytes(300_000)
        assert each.location.digest == digest_of(output(each))


# --- what it runs with ------------------------------------------------------------------------------------


def test_the_environment_is_what_is_said_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SECRET_TOKEN", "PYTHONPATH", "LD_PRELOAD_X", "AGENT_GRAPH_OTHER", "AGENT_GRAPH_INPUT"):
        monkeypatch.setenv(name, "leaks")
    for name, value in (("HOME", "/home/of-a-user"), ("TZ", "UTC"), ("LANG", "C"), ("TMPDIR", "/tmp")):
        monkeypatch.setenv(name, value)
    root = write_view(tmp_path, with_script(PRINTS_ENVIRONMENT, "args: ['a b', \"$(c)'\"]\n"))
    made = make(tmp_path, input={"z": 1.0, "a": ["ü", None]}, environment={"ADDED": "by the host"})
    environment, cwd, arguments, read = json.loads(output(made))
    bytecode = environment.pop("PYTHONPYCACHEPREFIX")
    assert environment == {
        "PATH": os.environ["PATH"],
        "HOME": "/home/of-a-user",
        "LANG": "C",
        "LC_ALL": "C.UTF-8",
        "TMPDIR": "/tmp",
        "TZ": "UTC",
        "ADDED": "by the host",
        "PYTHONDONTWRITEBYTECODE": "1",
        "AGENT_GRAPH_PROVIDER_ROOT": str(root),
        "AGENT_GRAPH_WORKSPACE": str(tmp_path / "work"),
        "AGENT_GRAPH_REVISION": REVISION,
        "AGENT_GRAPH_INPUT": '{"a":["ü",null],"z":1}',
    }
    assert Path(bytecode).parent == tmp_path / "cache"
    assert (cwd, arguments, read) == (str(tmp_path / "work"), ["a b", "$(c)'"], "")
    assert len(kept(tmp_path)) == 1


def test_what_is_not_set_is_not_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "TZ", "LANG", "TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    write_view(tmp_path, with_script(PRINTS_ENVIRONMENT, "cwd: provider\n"))
    monkeypatch.chdir(tmp_path / "work")
    environment, cwd, _, _ = json.loads(output(make(tmp_path, workspace=None)))
    assert not {"HOME", "TZ", "LANG", "TMPDIR"} & environment.keys()
    assert environment["AGENT_GRAPH_INPUT"] == "{}"
    assert environment["AGENT_GRAPH_WORKSPACE"] == str(tmp_path / "work")
    assert cwd == environment["AGENT_GRAPH_PROVIDER_ROOT"] == str(tmp_path / "provider")


@pytest.mark.parametrize(
    ("runtime", "script"),
    [("shell", 'printf "%s" "$1"'), ("python", "import sys; sys.stdout.write(sys.argv[1])"), ("node", None)],
)
def test_the_runtimes(tmp_path: Path, runtime: str, script: str | None) -> None:
    """What a script is given is one argument, however it reads in a shell. Node is played by the shell."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "node").symlink_to("/bin/sh")
    action = f"runner: script\nruntime: {runtime}\nentry: scripts/the view\nargs: ['; echo $HOME `id`']\n"
    write_view(tmp_path, with_view(action, **{"scripts__the view": script or 'printf "%s" "$1"'}))
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    assert output(make(tmp_path, environment={"PATH": path})) == b"; echo $HOME `id`"


@pytest.mark.parametrize(("runtime", "command"), [("bun", "bun"), ("shell", "sh")])
def test_a_runtime_that_is_not_there(tmp_path: Path, runtime: str, command: str) -> None:
    action = f"runner: script\nruntime: {runtime}\nentry: scripts/view\n"
    write_view(tmp_path, with_view(action, scripts__view=""))
    error = failure(tmp_path, environment={"PATH": str(tmp_path)})
    assert (error.code, error.message) == (
        "materializer-failed",
        f"the materializer actions/view.yaml: `{command}` is not on the PATH",
    )
    (tmp_path / command).mkdir()
    assert "can't be started: Permission denied" in failure(tmp_path, environment={"PATH": str(tmp_path)}).message


def test_a_command_that_no_system_takes(tmp_path: Path) -> None:
    write_view(tmp_path, with_view('runner: command\ncommand: "echo \\0"\n'))
    assert "can't be started: embedded null byte" in failure(tmp_path).message


def test_an_input_that_is_larger_than_the_system_passes_on(tmp_path: Path) -> None:
    write_view(tmp_path, with_command("true"))
    error = failure(tmp_path, input={"text": "x" * 4_000_000})
    assert error.code == "materializer-option-invalid"
    assert "larger than what the system gives" in error.message


def test_bytecode_beside_a_script_is_not_run(tmp_path: Path) -> None:
    root = write_view(tmp_path, with_script(SAYS_LIB, LIB, scripts__lib_py="SAID = 'good'\n"))
    subprocess.run(["python3", "-c", POISONS, root / "scripts" / "lib.py"], check=True)
    plainly = subprocess.run(["python3", "-B", root / "scripts" / "view.py"], check=True, capture_output=True)
    assert plainly.stdout == b"evil\n"
    assert output(make(tmp_path)) == b"good\n"


def test_a_run_leaves_no_bytecode_for_the_next(tmp_path: Path) -> None:
    """Not even one that writes it in spite of what it was told."""
    script = """import os
bytecode = os.environ["PYTHONPYCACHEPREFIX"]
os.makedirs(bytecode)
open(bytecode + "/x", "w")
print(bytecode)
"""
    write_view(tmp_path, with_script(script))
    first = output(make(tmp_path))
    assert first != output(make(tmp_path))
    assert not any(name.startswith(".") for name in kept(tmp_path))


# --- what is verified -------------------------------------------------------------------------------------

RUNS = "open('ran', 'w')\nprint('ran')\n"
DECLARES = "files: [scripts/lib.py]\ninputSchema: schemas/in.json\noutputSchema: schemas/out.json\n"
CARRIED = {"scripts__lib_py": "", "schemas__in_json": "{}", "schemas__out_json": "{}"}


@pytest.mark.parametrize("path", ["scripts/view.py", "scripts/lib.py", "schemas/in.json", "schemas/out.json"])
@pytest.mark.parametrize("how", ["written", "replaced", "another folder"])
def test_what_has_changed_since_it_was_verified_is_not_run(tmp_path: Path, path: str, how: str) -> None:
    build_from(write_view(tmp_path, with_script(RUNS, DECLARES, **CARRIED)), tmp_path / "bundle")
    bundle = tmp_path / "bundle"
    with open_provider(bundle) as opened:
        if how == "another folder":
            bundle.rename(tmp_path / "old")
            shutil.copytree(tmp_path / "old", bundle)
        if how == "replaced":
            (bundle / path).unlink()
        (bundle / path).write_text("true")
        with pytest.raises(BundlerError) as raised:
            opened.materialize("view", cache=tmp_path / "cache", revision=REVISION, workspace=tmp_path / "work")
    assert (raised.value.code, raised.value.diagnostics[0].path) == ("bundle-file-digest-mismatch", path)
    assert (kept(tmp_path), list((tmp_path / "work").iterdir())) == ([], [])


@pytest.mark.parametrize("path", ["scripts/view.py", "schemas/in.json"])
def test_a_source_that_has_changed_since_it_was_evaluated_is_not_run(tmp_path: Path, path: str) -> None:
    root = write_view(tmp_path, with_script("print('{}')", DECLARES, **CARRIED))
    with open_provider(root) as opened:
        revision = opened.evaluate("main").revision
        options: dict[str, Any] = {"cache": tmp_path / "cache", "revision": revision, "workspace": tmp_path / "work"}
        assert output(opened.materialize("view", **options)) == b"{}\n"
        (root / path).write_text("true")
        with pytest.raises(BundlerError) as raised:
            opened.materialize("view", **options)
    assert (raised.value.code, raised.value.diagnostics[0].path) == ("materializer-source-changed", path)


def test_a_script_that_is_gone(tmp_path: Path) -> None:
    root = write_view(tmp_path, with_script(RUNS))
    with open_provider(root) as opened:
        (root / "scripts" / "view.py").unlink()
        with pytest.raises(BundlerError) as raised:
            opened.materialize("view", cache=tmp_path / "cache", revision=REVISION, workspace=tmp_path / "work")
    assert raised.value.code == "file-missing"


def test_installed_and_as_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_view(tmp_path, with_script(SAYS_LIB, LIB, scripts__lib_py="SAID = 'good'\n"))
    with open_provider(root) as opened:
        wheel = make_wheel(opened, tmp_path / "dist").path
    with open_provider(wheel) as opened, pytest.raises(BundlerError) as raised:
        opened.materialize("view", cache=tmp_path / "cache", revision=REVISION)
    assert raised.value.code == "provider-not-installed"
    site = tmp_path / "site"
    subprocess.run([*PIP, "--no-index", "--no-deps", "--target", site, wheel], check=True, capture_output=True)
    bundle = next(site.glob("agent_graph_providers/*/bundle"))
    subprocess.run(["python3", "-c", POISONS, bundle / "scripts" / "lib.py"], check=True)
    monkeypatch.syspath_prepend(str(site))
    assert output(make(tmp_path, "provider:acme/demo")) == b"good\n"
    (bundle / "scripts" / "lib.py").write_text("SAID = 'evil'\n")
    with pytest.raises(BundlerError) as raised:
        make(tmp_path, "provider:acme/demo")
    assert raised.value.code == "bundle-file-digest-mismatch"


# --- what it is asked -------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["", "sha256:" + "5" * 63, "sha256:" + "A" * 64, REVISION + "\n", None])
def test_a_revision_that_is_none(tmp_path: Path, revision: str | None) -> None:
    write_view(tmp_path, with_command("touch ran"))
    assert failure(tmp_path, revision=revision).code == "revision-invalid"
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("resource", "code"),
    [("guide", "resource-static"), ("made", "resource-host-action"), ("vieww", "resource-missing")],
)
def test_a_resource_that_no_action_makes(tmp_path: Path, resource: str, code: str) -> None:
    write_view(tmp_path, with_command("touch ran"))
    assert failure(tmp_path, resource=resource).code == code


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "9", None, 2**53])
@pytest.mark.parametrize("name", ["timeout_ms", "max_output_bytes", "max_error_bytes"])
def test_a_limit_that_is_no_positive_integer(name: str, value: Any) -> None:
    with pytest.raises(BundlerError) as raised:
        Limits(**{name: value})
    assert raised.value.code == "materializer-option-invalid"
    assert raised.value.message.startswith(f"{name.replace('_', '-')} is {value!r}")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("workspace", "nowhere", "does not exist"),
        ("workspace", "provider/provider.yaml", "is no folder"),
        ("workspace", "", "is empty"),
        ("cache", "", "is empty"),
        ("environment", {"AGENT_GRAPH_REVISION": "x"}, "is not the host's to set"),
        ("environment", {"PYTHONPYCACHEPREFIX": "x"}, "is not the host's to set"),
        ("environment", {"A=B": "x"}, "no environment variable"),
        ("environment", {"": "x"}, "no environment variable"),
        ("environment", {"A": "\0"}, "no environment variable"),
    ],
)
def test_options_that_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, value: Any, message: str
) -> None:
    write_view(tmp_path, with_command("touch ran"))
    monkeypatch.chdir(tmp_path)
    error = failure(tmp_path, **{option: value})
    assert error.code == "materializer-option-invalid"
    assert message in error.message


def test_an_input_that_is_no_json_object(tmp_path: Path) -> None:
    write_view(tmp_path, with_command("touch ran"))
    assert failure(tmp_path, input=[1]).code == "json-object-required"
    assert failure(tmp_path, input={"x": float("nan")}).code == "json-invalid"
    assert failure(tmp_path, input={"x": "\ud800"}).code == "json-invalid"


def test_the_input_has_to_satisfy_its_schema(tmp_path: Path) -> None:
    schema = '{"required": ["path"], "properties": {"path": {"type": "string"}, "depth": {"minimum": 1}}}'
    write_view(tmp_path, with_command("touch ran; echo ran", "inputSchema: schemas/in.json\n", schemas__in_json=schema))
    error = failure(tmp_path, input={"path": 1, "depth": 0})
    assert {(fault.code, fault.pointer) for fault in error.diagnostics} == {
        ("resource-input-invalid", "/path"),
        ("resource-input-invalid", "/depth"),
    }
    assert failure(tmp_path).message == "the input breaks schemas/in.json: it lacks the field `path` (required)"
    assert not (tmp_path / "work" / "ran").exists()
    assert output(make(tmp_path, input={"path": "x"})) == b"ran\n"


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("nothing", "is not JSON"),
        ('{"n": 1e999}', "holds a number that is beyond"),
        ('{"n": 1, "n": 2}', "names the key"),
        ('{"n": "1"}', '`/n` is "1"; expected: integer'),
        ("[]", "it is a list; expected: object"),
    ],
)
def test_the_output_has_to_satisfy_its_schema(tmp_path: Path, said: str, message: str) -> None:
    schema = '{"type": "object", "properties": {"n": {"type": "integer"}}}'
    more = "outputSchema: schemas/out.json\n"
    write_view(tmp_path, with_command(f"echo '{said}'", more, schemas__out_json=schema))
    error = failure(tmp_path)
    assert error.code == "materializer-failed"
    assert message in error.message
    write_view(tmp_path, with_command("echo '{\"n\": 1}'", more, schemas__out_json=schema))
    assert output(make(tmp_path)) == b'{"n": 1}\n'


def test_a_schema_that_is_none_is_told_before_anything_runs(tmp_path: Path) -> None:
    more = "outputSchema: schemas/out.json\n"
    for text, code in (("[]", "schema-invalid"), ('{"$ref": "other.json"}', "schema-reference-external")):
        write_view(tmp_path, with_command("touch ran", more, schemas__out_json=text))
        assert failure(tmp_path).code == code
    assert not (tmp_path / "work" / "ran").exists()


# --- how it ends ------------------------------------------------------------------------------------------


def test_a_failing_exit_status(tmp_path: Path) -> None:
    write_view(tmp_path, with_command("echo out; printf 'first\\n\\nred \\033[31m\\r\\nlast \\377' >&2; exit 3"))
    error = failure(tmp_path)
    assert error.code == "materializer-failed"
    said = "first | red \\x1b[31m | last \\xff"
    assert (
        error.message
        == f"the materializer actions/view.yaml ended with exit status 3; its standard error ends in: {said}"
    )
    assert error.diagnostics[0].detail == {"exitStatus": 3, "stderr": ["first", "red \\x1b[31m", "last \\xff"]}
    assert error.diagnostics[0].path == "actions/view.yaml"


def test_only_the_last_of_a_long_story_is_told(tmp_path: Path) -> None:
    write_view(tmp_path, with_command("i=0; while [ $i -lt 500 ]; do echo $i >&2; i=$((i+1)); done; exit 1"))
    assert failure(tmp_path).diagnostics[0].detail["stderr"] == ["495", "496", "497", "498", "499"]
    write_view(tmp_path, with_command("head -c 100000 /dev/zero >&2; exit 1"))
    assert len(failure(tmp_path).message) < 2_000


@pytest.mark.parametrize(("number", "name"), [("KILL", "SIGKILL"), ("TERM", "SIGTERM"), ("40", "40")])
def test_a_signal(tmp_path: Path, number: str, name: str) -> None:
    write_view(tmp_path, with_command(f"echo out; kill -{number} $$; sleep 60"))
    error = failure(tmp_path)
    assert (error.code, error.message) == (
        "materializer-failed",
        f"the materializer actions/view.yaml was ended by the signal {name}",
    )
    assert error.diagnostics[0].detail == {"signal": name}


HANGS = {
    "with children": "echo $$ >> pids; sleep 60 & echo $! >> pids; sh -c 'echo $$ >> pids; sleep 60; true'",
    "ignoring SIGTERM": "trap '' TERM; echo $$ >> pids; sleep 60 & echo $! >> pids; sh -c 'echo $$ >> pids; sleep 60; true'",
    "with its output closed": "exec >&- 2>&-; echo $$ >> pids; sleep 60 & echo $! >> pids; sh -c 'echo $$ >> pids; sleep 60; true'",
    "stopped": "echo $$ >> pids; sleep 60 & echo $! >> pids; sh -c 'echo $$ >> pids; kill -STOP $$; sleep 60'",
}


@pytest.mark.parametrize("how", HANGS)
def test_a_timeout_leaves_no_process(tmp_path: Path, how: str) -> None:
    write_view(tmp_path, with_command(HANGS[how]))
    error = failure(tmp_path, limits=SHORT)
    assert error.code == "materializer-timeout"
    assert "had not ended after 700 ms" in error.message
    assert all_gone(pids(tmp_path / "work", 3))


def test_a_timeout_finds_what_has_left_the_group(tmp_path: Path) -> None:
    """On Linux, as long as its parent runs."""
    script = """import os, subprocess, sys
subprocess.run([sys.executable, "-c", '''
import os, time
os.setsid()
open("pids", "a").write(f"{os.getpid()}\\\\n")
time.sleep(60)
'''])
"""
    write_view(tmp_path, with_script(script))
    assert failure(tmp_path, limits=Limits(timeout_ms=1500)).code == "materializer-timeout"
    stray = pids(tmp_path / "work", 1)
    if hasattr(os, "pidfd_open"):
        assert all_gone(stray)
    else:
        os.kill(stray[0], signal.SIGKILL)


def test_last_words_after_sigterm_do_not_block(tmp_path: Path) -> None:
    """Who floods its output while it ends itself is read until it has ended, and nothing of that is kept."""
    command = (
        "trap 'head -c 1000000 /dev/zero; echo gone > said; exit 0' TERM; echo $$ >> pids; while :; do sleep 0.05; done"
    )
    write_view(tmp_path, with_command(command))
    assert failure(tmp_path, limits=SHORT).code == "materializer-timeout"
    assert (tmp_path / "work" / "said").read_text() == "gone\n"
    assert all_gone(pids(tmp_path / "work", 1))


@pytest.mark.parametrize("child", ["sleep 60", "sleep 60 >/dev/null 2>&1", "sh -c 'while :; do sleep 0.5; echo; done'"])
def test_a_child_that_outlives_its_parent_is_ended_and_the_output_kept(tmp_path: Path, child: str) -> None:
    write_view(tmp_path, with_command(f"{child} & echo $! >> pids; printf said"))
    assert output(make(tmp_path)).strip() == b"said"
    assert all_gone(pids(tmp_path / "work", 1))


def test_a_child_that_writes_after_its_parent_has_ended(tmp_path: Path) -> None:
    write_view(tmp_path, with_command("yes & echo $! >> pids; exit 0"))
    assert failure(tmp_path, limits=Limits(max_output_bytes=1000)).code == "materializer-output-limit"
    assert all_gone(pids(tmp_path / "work", 1))


@pytest.mark.parametrize(
    ("command", "codes"),
    [
        ("yes", {"materializer-output-limit"}),
        ("yes >&2", {"materializer-error-limit"}),
        ("yes >&2 & echo $! >> pids; yes", {"materializer-output-limit", "materializer-error-limit"}),
    ],
)
def test_a_flood(tmp_path: Path, command: str, codes: set[str]) -> None:
    write_view(tmp_path, with_command(f"echo $$ >> pids; {command}"))
    error = failure(tmp_path)
    assert error.code in codes
    assert "wrote more than" in error.message
    assert all_gone(pids(tmp_path / "work", 2 if "&" in command.replace(">&2", "") else 1))


@pytest.mark.parametrize(
    ("to", "limit", "code"),
    [("", "max_output_bytes", "materializer-output-limit"), (">&2", "max_error_bytes", "materializer-error-limit")],
)
def test_exactly_the_limit_and_one_byte_more(tmp_path: Path, to: str, limit: str, code: str) -> None:
    write_view(tmp_path, with_command(f"head -c 200000 /dev/zero {to}"))
    assert failure(tmp_path, limits=Limits(**{limit: 199_999})).code == code
    made = make(tmp_path, limits=Limits(**{limit: 200_000}))
    assert output(made) == (b"" if to else bytes(200_000))


def test_the_limits_where_none_are_given() -> None:
    assert Limits() == Limits(timeout_ms=30_000, max_output_bytes=10_485_760, max_error_bytes=1_048_576)


HOST = """import sys, signal
from bundler.runtime.open import open_provider
{before}
with open_provider(sys.argv[1]) as opened:
    for number in range(1_000_000):
        made = opened.materialize("view", cache=sys.argv[2], revision="sha256:" + "5" * 64, workspace=sys.argv[3], input={{"n": number}})
"""


def start_host(tmp_path: Path, before: str = "") -> subprocess.Popen[bytes]:
    places = [str(tmp_path / name) for name in ("provider", "cache", "work")]
    command = [sys.executable, "-B", "-c", HOST.format(before=before), *places]
    return subprocess.Popen(command, env=UNCOVERED, stderr=subprocess.PIPE)


def test_an_interrupted_host_ends_what_it_has_started(tmp_path: Path) -> None:
    write_view(tmp_path, with_command(HANGS["ignoring SIGTERM"]))
    with start_host(tmp_path) as host:
        running = pids(tmp_path / "work", 3)
        assert all(map(is_running, running))
        host.send_signal(signal.SIGINT)
        _, errors = host.communicate(timeout=60)
    assert b"KeyboardInterrupt" in errors
    assert all_gone(running)
    assert kept(tmp_path) == []


def test_a_killed_host_leaves_no_half_file(tmp_path: Path) -> None:
    write_view(tmp_path, with_command('printf "%s" "$AGENT_GRAPH_INPUT"; head -c 3000000 /dev/zero'))
    finished: list[Path] = []
    for wait in (0.0, 0.013, 0.031):
        before = len(finished)
        with start_host(tmp_path) as host:
            until = time.monotonic() + 30
            while len(finished) <= before and time.monotonic() < until:
                time.sleep(0.002)
                finished = [tmp_path / "cache" / name for name in kept(tmp_path) if not name.startswith(".")]
            time.sleep(wait)
            host.kill()
        finished = [tmp_path / "cache" / name for name in kept(tmp_path) if not name.startswith(".")]
        assert len(finished) > before
        for file in finished:
            assert file.name == f"{sha256(file.read_bytes()).hexdigest()}.txt"


def test_a_host_that_takes_the_exit_statuses_itself(tmp_path: Path) -> None:
    """Then how a process ended is not known, and that is not taken for success."""
    write_view(tmp_path, with_command("exit 3"))
    with start_host(tmp_path, "signal.signal(signal.SIGCHLD, signal.SIG_IGN)") as host:
        _, errors = host.communicate(timeout=60)
    assert b"the host let nobody know how" in errors
    assert kept(tmp_path) == []


def test_a_thread_may_materialize(tmp_path: Path) -> None:
    write_view(tmp_path, with_command("printf said"))
    made: list[Materialized] = []
    thread = threading.Thread(target=lambda: made.append(make(tmp_path)))
    thread.start()
    thread.join(60)
    assert output(made[0]) == b"said"


# --- the cache folder -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_cache_that_others_can_write_to(tmp_path: Path, mode: int) -> None:
    write_view(tmp_path, with_command("touch ran"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(mode)
    error = failure(tmp_path)
    assert error.code == "folder-unsafe"
    assert "does not belong to you alone" in error.message
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.parametrize("place", ["provider", "provider/cache", "provider/scripts", "link", "link/cache"])
@pytest.mark.parametrize("manifest", ["provider.yaml", "other.yaml"])
def test_a_cache_in_the_provider(tmp_path: Path, place: str, manifest: str) -> None:
    root = write_view(tmp_path, with_script("open('ran', 'w')"))
    (root / "provider.yaml").rename(root / manifest)
    (tmp_path / "link").symlink_to("provider")
    before = snapshot(root)
    with pytest.raises(BundlerError) as raised:
        make(tmp_path, root / manifest, cache=tmp_path / place)
    assert raised.value.code == "folder-unsafe"
    assert f"lies in the Provider {root}" in raised.value.message
    assert (snapshot(root), list((tmp_path / "work").iterdir())) == (before, [])


def test_a_cache_that_is_read_only() -> None:
    """For a user whom modes bind: nothing is run whose output could not be kept."""
    with TemporaryDirectory() as folder:  # pytest's own is closed to that user
        place = Path(folder).resolve()
        write_view(place, with_command("touch ran"))
        make(place)  # what a process of another user needs is imported
        shutil.rmtree(place / "cache")
        shutil.rmtree(place / "work")
        (place / "work").mkdir()
        (place / "cache").mkdir(mode=0o500)
        if os.geteuid() == 0:
            os.chown(place / "cache", 65534, 65534)
            os.chown(place / "work", 65534, 65534)
            place.chmod(0o755)

        def work() -> str:
            with pytest.raises(BundlerError) as raised:
                make(place)
            return raised.value.code

        assert as_another_user(work) == "output-write-failed"
        assert list((place / "work").iterdir()) == []


def test_a_cache_that_is_a_file(tmp_path: Path) -> None:
    write_view(tmp_path, with_command("touch ran"))
    (tmp_path / "cache").write_text("")
    with pytest.raises(BundlerError) as raised:
        make(tmp_path)
    assert raised.value.code == "output-write-failed"
