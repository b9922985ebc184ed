"""Verifying a wheel file: one change of a valid wheel is one refusal, for its own reason."""

from __future__ import annotations

import base64
import email
import hashlib
import importlib.metadata
import json
import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bundler.bundle.manifest import digest_of
from bundler.bundle.open import open_path
from bundler.errors import BundlerError
from bundler.tree import MemoryTree
from bundler.wheel import distinfo
from bundler.wheel.build import BuiltWheel, make_wheel
from bundler.wheel.check import VerifiedWheel, open_wheel
from bundler.wheel.distinfo import check_wheel_file, read_entry_points, read_metadata
from bundler.wheel.identity import WheelIdentity
from bundler.wheel.sbom import sbom
from bundler.wheel.settings import Settings

from ..archives import DEFLATED, FOLDER, entry, write
from ..builders import minimal, write_out

INFO = "agent_graph_provider_acme_demo-0.1.0.dist-info"
MODULE = "agent_graph_providers/p_acme_demo"
BUNDLE = f"{MODULE}/bundle"
RECORD, METADATA, WHEEL = f"{INFO}/RECORD", f"{INFO}/METADATA", f"{INFO}/WHEEL"
ENTRY_POINTS, SBOM = f"{INFO}/entry_points.txt", f"{INFO}/sboms/bundle.cdx.json"
NAME = "agent_graph_provider_acme_demo-0.1.0-py3-none-any.whl"

Files = dict[str, bytes]
Change = Callable[[Files], object]


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> BuiltWheel:
    """A valid wheel with a licence and a script."""
    folder = tmp_path_factory.mktemp("wheel")
    files = minimal(actions__work_yaml="schema: agent-graph.action.v1\nid: work\nrunner: command\neffect: write\n")
    action = "command: make work\nfiles: [run.sh]\n"
    root = write_out({**files, "actions/work.yaml": f"{files['actions/work.yaml']!s}{action}"}, folder / "root")
    write_out({"run.sh": "#!/bin/sh\n", "LICENSE": "licence\n"}, root)
    (root / "run.sh").chmod(0o755)
    with open_path(root) as opened:
        return make_wheel(opened, folder / "dist")


@pytest.fixture
def files(base: BuiltWheel) -> Files:
    return apart(base.path)


def apart(path: str) -> Files:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rerecord(files: Files) -> None:
    """Make RECORD true again."""
    record = next(name for name in files if name.endswith(".dist-info/RECORD"))
    rows = [f"{name},sha256={hashed(data)},{len(data)}\n" for name, data in files.items() if name != record]
    files[record] = "".join([*rows, f"{record},,\n"]).encode()


def hashed(data: bytes, algorithm: str = "sha256") -> str:
    return base64.urlsafe_b64encode(hashlib.new(algorithm, data).digest()).decode().rstrip("=")


def put(files: Files, folder: Path, name: str = NAME, modes: dict[str, int] | None = None) -> Path:
    """Write the files as a wheel; a path that ends in `/` is a folder's entry."""
    entries = []
    for path, data in files.items():
        mode = {f"{BUNDLE}/run.sh": 0o755, **(modes or {})}.get(path, 0o644)
        attributes = FOLDER if path.endswith("/") else (stat.S_IFREG | mode) << 16
        entries.append(entry(path, data, method=DEFLATED if data else 0, attributes=attributes))
    (folder / name).write_bytes(write(entries))
    return folder / name


def verified(path: Path) -> VerifiedWheel:
    with open_wheel(path) as wheel:
        return wheel


def refusal(path: Path) -> BundlerError:
    with pytest.raises(BundlerError) as raised:
        verified(path)
    return raised.value


@dataclass(frozen=True, kw_only=True)
class Case:
    """A change of the files and the refusal that follows; RECORD is made true again where it is not what lies."""

    change: Change
    code: str
    says: str
    record: bool = True
    name: str = NAME
    modes: dict[str, int] = field(default_factory=dict)


def swap(path: str, old: str, new: str) -> Change:
    def change(files: Files) -> None:
        assert old.encode() in files[path]
        files[path] = files[path].replace(old.encode(), new.encode(), 1)

    return change


def add(path: str, data: bytes = b"x") -> Change:
    return lambda files: files.update({path: data})


def remove(path: str) -> Change:
    return lambda files: files.pop(path)


def move(path: str, to: str) -> Change:
    return lambda files: files.update({to: files.pop(path)})


def row(path: str, change: Callable[[str], str]) -> Change:
    """Change one line of RECORD, which has its line end."""

    def apply(files: Files) -> None:
        lines = files[RECORD].decode().splitlines(keepends=True)
        assert any(line.startswith(f"{path},") for line in lines)
        files[RECORD] = "".join(change(line) if line.startswith(f"{path},") else line for line in lines).encode()

    return apply


def other_hash(algorithm: str) -> Change:
    return lambda files: row(WHEEL, lambda line: f"{WHEEL},{algorithm}={hashed(files[WHEEL], algorithm)},87\n")(files)


def other_content(path: str) -> Change:
    return row(path, lambda line: re.sub("=[^,]*", f"={hashed(b'else')}", line))


def in_json(path: str, change: Callable[[dict[str, object]], object]) -> Change:
    def apply(files: Files) -> None:
        value = json.loads(files[path])
        change(value)
        files[path] = json.dumps(value).encode()

    return apply


def in_component(change: Callable[[dict[str, object]], object]) -> Change:
    return in_json(SBOM, lambda value: change(value["metadata"]["component"]))  # type: ignore[index]


def all_renamed(distribution: str, version: str, *declared: str) -> Change:
    """Every name that a wheel has, changed consistently."""

    def apply(files: Files) -> None:
        manifest = json.loads(files[f"{BUNDLE}/manifest.json"])
        identity = WheelIdentity(
            provider_id="acme/demo",
            provider_version="0.1.0",
            distribution=distribution,
            version=version,
            declared=declared,
        )
        names = (
            ("Name: agent-graph-provider-acme-demo", f"Name: {distribution}"),
            ("Version: 0.1.0", f"Version: {version}"),
        )
        for old, new in names:
            swap(METADATA, f"\n{old}\n", f"\n{new}\n")(files)
        files[SBOM] = sbom(identity, manifest["digest"], None, "what it is")
        for path in [path for path in files if path.startswith(INFO)]:
            move(path, path.replace(INFO, identity.dist_info))(files)

    return apply


def wheel_name(distribution: str, version: str) -> str:
    return f"{distribution.replace('-', '_')}-{version}-py3-none-any.whl"


def both(*changes: Change) -> Change:
    return lambda files: [change(files) for change in changes]


RECORDS = {
    "missing": (remove(RECORD), f"{RECORD} is missing, or is no file"),
    "twice": (row(WHEEL, lambda line: line * 2), "WHEEL` has a second row in line"),
    "lacks a row": (row(WHEEL, lambda line: ""), "WHEEL` is in the wheel and has no row"),
    "lacks a bundle's row": (row(f"{BUNDLE}/run.sh", lambda line: ""), "run.sh` is in the wheel and has no row"),
    "lacks its own row": (row(RECORD, lambda line: ""), "RECORD` is in the wheel and has no row"),
    "a row too many": (row(RECORD, lambda line: f"{INFO}/x,sha256={hashed(b'')},0\n{line}"), "x` has a row and is not"),
    "a row of a bundle's file too many": (
        row(RECORD, lambda line: f"{BUNDLE}/x,sha256={hashed(b'')},0\n{line}"),
        "x` has a row and is not in the wheel",
    ),
    "a row that leads out": (
        row(RECORD, lambda line: f"../../../bin/x,sha256={hashed(b'')},0\n{line}"),
        "`../../../bin/x` has a row and is not in the wheel",
    ),
    "a row with another spelling": (
        row(WHEEL, lambda line: f"{INFO}/./WHEEL{line.removeprefix(WHEEL)}"),
        "WHEEL` is in the wheel and has no row",
    ),
    "wrong hash": (
        other_content(WHEEL),
        "WHEEL` has the digest sha256:.* and is recorded with sha256:",
    ),
    "wrong hash of a bundle's file": (
        other_content(f"{BUNDLE}/run.sh"),
        "run.sh` has the digest sha256:.* and is recorded with sha256:",
    ),
    "wrong hash of the manifest": (
        other_content(f"{BUNDLE}/manifest.json"),
        "manifest.json` has the digest sha256:.* and is recorded with sha256:",
    ),
    "md5": (other_hash("md5"), "WHEEL` is recorded with md5; sha256 is expected"),
    "sha1": (other_hash("sha1"), "WHEEL` is recorded with sha1; sha256 is expected"),
    "sha512": (other_hash("sha512"), "WHEEL` is recorded with sha512; sha256 is expected"),
    "sha256 in other letters": (row(WHEEL, lambda line: line.replace("sha256", "SHA256")), "sha256=… is expected"),
    "no hash": (row(WHEEL, lambda line: f"{WHEEL},,87\n"), "WHEEL` has a row without hash or size"),
    "no size": (row(WHEEL, lambda line: line.replace(",87", ",")), "WHEEL` has a row without hash or size"),
    "wrong size": (row(WHEEL, lambda line: line.replace(",87", ",86")), "has 87 bytes and is recorded with 86"),
    "size that is no number": (row(WHEEL, lambda line: line.replace(",87", ",-87")), "has the size '-87'; a number"),
    "size in other digits": (row(WHEEL, lambda line: line.replace(",87", ",٨٧")), "a number of bytes is expected"),
    "size beyond measure": (row(WHEEL, lambda line: line.replace(",87", "," + "9" * 19)), "a number of bytes"),
    "hash with padding": (row(WHEEL, lambda line: line.replace(",87", "=,87")), "sha256=… is expected"),
    "hash that is too short": (row(WHEEL, lambda line: line.replace(",87", "", 1)[:-3] + ",87\n"), "is no SHA-256"),
    "hash in hexadecimal": (
        row(WHEEL, lambda line: f"{WHEEL},sha256={hashlib.sha256(b'').hexdigest()},87\n"),
        "is no SHA-256",
    ),
    "hash in other letters": (row(WHEEL, lambda line: f"{WHEEL},sha256={'+' * 43},87\n"), "sha256=… is expected"),
    "hash with bits to spare": (
        row(WHEEL, lambda line: line.replace(",87", "").rstrip("\n")[:-1] + _next_letter(line) + ",87\n"),
        "which is no SHA-256",
    ),
    "own row with a hash": (
        row(RECORD, lambda line: f"{RECORD},sha256={hashed(b'')},\n"),
        "its own row has a hash or a size, which it cannot have",
    ),
    "own row with a size": (row(RECORD, lambda line: f"{RECORD},,5\n"), "its own row has a hash or a size"),
    "two fields": (row(WHEEL, lambda line: f"{WHEEL},\n"), "has a row of 2 fields; path, hash and size are expected"),
    "four fields": (row(WHEEL, lambda line: line.replace("\n", ",x\n")), "has a row of 4 fields"),
    "empty line": (row(WHEEL, lambda line: line + "\n"), "has a row of 0 fields"),
    "quote that is not closed": (row(WHEEL, lambda line: f'"{line}'), "is no CSV file"),
    "quote in the middle": (row(WHEEL, lambda line: f'"{WHEEL}"x,,\n'), "is no CSV file"),
    "field beyond measure": (row(WHEEL, lambda line: "x" * 140_000 + ",,\n"), "is no CSV file: field larger than"),
    "no UTF-8": (lambda files: files.update({RECORD: b"\xff"}), "is no UTF-8 text"),
    "empty": (lambda files: files.update({RECORD: b""}), "is in the wheel and has no row"),
}


def _next_letter(line: str) -> str:
    """The letter behind the hash's last one: it differs in the two bits that mean nothing."""
    last = line.rpartition(",")[0][-1]
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return letters[letters.index(last) + 1]


METADATAS = {
    "missing": (remove(METADATA), f"{METADATA} is missing, or is no file"),
    "no UTF-8": (add(METADATA, b"Name: \xff\n"), "is no UTF-8 text"),
    "empty": (add(METADATA, b""), "which is no header"),
    "two Names": (swap(METADATA, "\nName:", "\nName: other\nName:"), "has 2 headers Name; one is expected"),
    "two Names in other letters": (swap(METADATA, "\nName:", "\nNAME: other\nName:"), "has 2 headers Name"),
    "no Name": (swap(METADATA, "\nName:", "\nTitle:"), "has 0 headers Name"),
    "Name in the description": (
        both(
            swap(METADATA, "\nName:", "\nTitle:"), swap(METADATA, "\n\n", "\n\nName: agent-graph-provider-acme-demo\n")
        ),
        "has 0 headers Name",
    ),
    "two Versions": (swap(METADATA, "\nVersion:", "\nVersion: 9\nVersion:"), "has 2 headers Version"),
    "no Version": (swap(METADATA, "\nVersion:", "\nEdition:"), "has 0 headers Version"),
    "Name that is continued": (swap(METADATA, "\nVersion:", "\n more\nVersion:"), "a name and a version of Python's"),
    "Name that is none": (swap(METADATA, "Name: agent", "Name: ../agent"), "a name and a version of Python's packages"),
    "Name with a blank of Unicode": (swap(METADATA, "Name: ", "Name: \u2003"), "a name and a version of Python's"),
    "Version that is none": (swap(METADATA, "Version: 0.1.0", "Version: latest"), "a version of Python's packages"),
    "Version in another form": (swap(METADATA, "Version: 0.1.0", "Version: 0.01.0"), "a version of Python's packages"),
    "Version with a path": (swap(METADATA, "Version: 0.1.0", "Version: ../0"), "a name and a version of Python's"),
    "no header": (swap(METADATA, "\nVersion:", "\nnothing\nVersion:"), "the line 'nothing', which is no header"),
    "blank before a colon": (swap(METADATA, "\nVersion:", "\nVersion :"), "which is no header"),
    "header with a blank": (swap(METADATA, "\nVersion:", "\nFoo Bar: x\nVersion:"), "which is no header"),
    "header that is not ASCII": (swap(METADATA, "\nVersion:", "\nÜ: x\nVersion:"), "which is no header"),
    "mark at the beginning": (swap(METADATA, "Metadata-", "\ufeffMetadata-"), "which is no header"),
    "continuation of nothing": (swap(METADATA, "Metadata-", " Metadata-"), "which is no header"),
    "empty line at the beginning": (swap(METADATA, "Metadata-", "\nMetadata-"), "which is no header"),
    "line end that only some see": (
        swap(METADATA, "\nVersion:", "\nSummary: x\rRequires-Dist: evil\nVersion:"),
        r"has the character U\+000D in its headers",
    ),
    "line end twice": (swap(METADATA, "\nVersion:", "\nSummary: x\r\r\nVersion:"), r"U\+000D in its headers"),
    "line end of Unicode": (
        swap(METADATA, "\nVersion:", "\nSummary: x\u2028y: z\nVersion:"),
        r"U\+2028 in its headers",
    ),
    "NUL": (swap(METADATA, "\nVersion:", "\nSummary: x\0\nVersion:"), r"U\+0000 in its headers"),
    "too many headers": (add(METADATA, b"A: b\n" * 300_000), "has headers of 1,500,000 characters; 1,048,576 is the"),
    "a header that is continued without end": (add(METADATA, b"A: b\n" + b" \n" * 600_000), "has headers of 1,200,005"),
    "WHEEL is missing": (remove(WHEEL), f"{WHEEL} is missing, or is no file"),
    "WHEEL of another version": (
        swap(WHEEL, "Version: 1.0", "Version: 1.1"),
        "has Wheel-Version: 1.1; 1.0 is expected",
    ),
    "WHEEL with another tag": (swap(WHEEL, "py3-none", "cp311-cp311"), "has Tag: cp311-cp311-any; py3-none-any is"),
    "WHEEL with two tags": (swap(WHEEL, "Tag:", "Tag: py2-none-any\nTag:"), "has 2 headers Tag; one is expected"),
    "WHEEL without a tag": (swap(WHEEL, "Tag:", "Mark:"), "has 0 headers Tag"),
    "WHEEL that is no data": (swap(WHEEL, "Purelib: true", "Purelib: false"), "has Root-Is-Purelib: false; true is"),
    "WHEEL with a continued tag": (
        swap(WHEEL, "none-any", "none-any\n evil"),
        r"any\\x0aevil; py3-none-any is expected",
    ),
    "no .dist-info": (
        lambda files: [files.pop(name) for name in list(files) if name.startswith(INFO)],
        "has the .dist-info folders none; one is expected: it is no wheel of a Provider",
    ),
    "two .dist-info": (add("other-1.dist-info/METADATA"), f"folders {INFO}, other-1.dist-info; one is expected"),
    "an empty second .dist-info": (add("other-1.dist-info/", b""), "folders .*; one is expected"),
    "a .dist-info that is a file": (
        lambda files: [files.pop(name) for name in list(files) if name != SBOM] and [move(SBOM, INFO)(files)],
        "METADATA is missing, or is no file",
    ),
}
POINTS = {
    "missing": (remove(ENTRY_POINTS), f"{ENTRY_POINTS} is missing, or is no file"),
    "no UTF-8": (add(ENTRY_POINTS, b"\xff"), "is no UTF-8 text"),
    "far too large": (add(ENTRY_POINTS, b"#" * 70_000), "is larger than such a file can be"),
    "empty": (add(ENTRY_POINTS, b""), "has the entry points none; one in"),
    "a command": (swap(ENTRY_POINTS, "[", "[console_scripts]\npip = evil:main\n["), r"points \[console_scripts\] pip"),
    "a command behind it": (
        lambda files: files.update({ENTRY_POINTS: files[ENTRY_POINTS] + b"[gui_scripts]\nx = y:z\n"}),
        r"\[agent_graph.providers\] acme/demo, \[gui_scripts\] x; one",
    ),
    "an empty group of commands": (
        swap(ENTRY_POINTS, "[", "[console_scripts]\n["),
        "one in .* and no other is expected",
    ),
    "a group in two brackets": (swap(ENTRY_POINTS, "[", "[["), "one in .* and no other is expected"),
    "its group behind it": (
        lambda files: files.update({ENTRY_POINTS: b"\n".join(reversed(files[ENTRY_POINTS].splitlines()))}),
        r"\[\] acme/demo; one in",
    ),
    "a second Provider": (
        lambda files: files.update({ENTRY_POINTS: files[ENTRY_POINTS] + b"a = agent_graph_providers.p_a\n"}),
        "and no other is expected",
    ),
    "another group": (swap(ENTRY_POINTS, "agent_graph.providers]", "pytest11]"), r"\[pytest11\] acme/demo; one in"),
    "no group": (swap(ENTRY_POINTS, "[agent_graph.providers]", ""), r"\[\] acme/demo; one in"),
    "a line end that only some see": (swap(ENTRY_POINTS, "]\n", "]\n#\r"), "contains control characters"),
    "a line end of Unicode": (swap(ENTRY_POINTS, "[", "[x]\n#\u2028["), "contains control characters"),
    "another module": (
        swap(ENTRY_POINTS, "p_acme_demo", "p_acme_other"),
        "whose folder is agent_graph_providers.p_acme_demo",
    ),
    "a module that is none": (swap(ENTRY_POINTS, "p_acme_demo", "p_acme_demo.x"), "a Provider id and agent_graph_pro"),
    "a module elsewhere": (
        swap(ENTRY_POINTS, "= agent_graph_providers.", "= os."),
        "a Provider id and agent_graph_pro",
    ),
    "a function": (swap(ENTRY_POINTS, "p_acme_demo", "p_acme_demo:main"), "a Provider id and agent_graph_providers"),
    "an extra": (swap(ENTRY_POINTS, "p_acme_demo", "p_acme_demo [x]"), "a Provider id and agent_graph_providers"),
    "no value": (swap(ENTRY_POINTS, " = agent_graph_providers.p_acme_demo", ""), "a Provider id and agent_graph_prov"),
    "an id that is none": (swap(ENTRY_POINTS, "acme/demo", "Acme/Demo"), "a Provider id and agent_graph_providers"),
}
FOREIGN = {
    "a module": "agent_graph.py",
    "a path file": "evil.pth",
    "another package": "os/__init__.py",
    "the namespace's package": "agent_graph_providers/__init__.py",
    "the Provider's package": f"{MODULE}/__init__.py",
    "beside the bundle": f"{MODULE}/bundle.py",
    "another Provider": "agent_graph_providers/p_other/bundle/manifest.json",
    "scripts": "agent_graph_provider_acme_demo-0.1.0.data/scripts/pip",
    "data": "agent_graph_provider_acme_demo-0.1.0.data/data/etc/passwd",
    "where it came from": f"{INFO}/direct_url.json",
    "who installed it": f"{INFO}/INSTALLER",
    "what was asked for": f"{INFO}/REQUESTED",
    "a signature": f"{INFO}/RECORD.jws",
    "another signature": f"{INFO}/RECORD.p7s",
    "top-level names": f"{INFO}/top_level.txt",
    "in a folder of .dist-info": f"{INFO}/other/x",
    "licences that are a file": f"{INFO}/licenses.txt",
    "a folder that leads nowhere": "agent_graph_providers/p_other/",
    "a folder of .dist-info that leads nowhere": f"{INFO}/other/",
    "a folder of the bundle that leads nowhere": f"{BUNDLE}/__pycache__/",
}
IDENTITY = {
    "another name than the file": (swap(METADATA, "Name: agent", "Name: my-agent"), f"its folder is {INFO}, my_agent"),
    "another version than the file": (
        swap(METADATA, "Version: 0.1.0", "Version: 0.1.1"),
        "acme_demo-0.1.1.dist-info is",
    ),
    "another folder than the file": (
        lambda files: [move(path, f"x{path}")(files) for path in list(files) if path.startswith(INFO)],
        f"its folder is x{INFO}, {INFO} is expected",
    ),
    "SBOM is missing": (remove(SBOM), f"{SBOM} is missing"),
    "SBOM is no JSON": (add(SBOM, b"{"), f"{SBOM} can't be used: .*is not JSON"),
    "SBOM has a key twice": (add(SBOM, b'{"a": 1, "a": 2}'), "can't be used: .*twice"),
    "SBOM is something else": (add(SBOM, b'[{"metadata": 1}]'), "describes something else than this wheel's bundle"),
    "SBOM without a component": (add(SBOM, b'{"metadata": {"component": 3}}'), "describes something else"),
    "SBOM of another digest": (swap(SBOM, '"value": "sha256:', '"value": "sha256:0'), "describes something else"),
    "SBOM with another hash": (swap(SBOM, '"content": "', '"content": "0'), "describes something else"),
    "SBOM with two hashes": (
        in_component(lambda value: value["hashes"].append({"alg": "MD5", "content": "0"})),  # type: ignore[attr-defined]
        "describes something else",
    ),
    "SBOM without a hash": (in_component(lambda value: value.pop("hashes")), "describes something else"),
    "SBOM of another package": (swap(SBOM, '"purl": "pkg:pypi/', '"purl": "pkg:pypi/x-'), "describes something else"),
    "SBOM of another name": (swap(SBOM, '"name": "agent', '"name": "x-agent'), "describes something else"),
    "SBOM of another version": (swap(SBOM, '"version": "0.1.0"', '"version": "0.1.1"'), "describes something else"),
    "SBOM of another Provider": (swap(SBOM, '"value": "acme/demo"', '"value": "acme/x"'), "describes something else"),
    "SBOM without properties": (in_component(lambda value: value.update(properties=7)), "describes something else"),
    "SBOM that declares without need": (
        in_component(lambda value: value["properties"].append({"name": "agent-graph:declared", "value": "version"})),  # type: ignore[attr-defined]
        "declares version to be set by the author; what is not derived from the Provider is nothing",
    ),
    "a bundle of another Provider": (
        both(
            swap(ENTRY_POINTS, "acme/demo", "acme/other"),
            swap(ENTRY_POINTS, "p_acme_demo", "p_acme_other"),
            lambda files: [
                move(path, path.replace(MODULE, "agent_graph_providers/p_acme_other"))(files)
                for path in list(files)
                if path.startswith(MODULE)
            ],
        ),
        "entry_points.txt is of the Provider `acme/other`, the bundle of `acme/demo`",
    ),
}
RENAMED = "agent-graph-provider-acme-release"
BUNDLES = {
    "a changed file": (
        swap(f"{BUNDLE}/run.sh", "sh", "zsh"),
        "bundle-file-digest-mismatch",
        "is not the file that was",
    ),
    "a changed manifest": (
        in_json(f"{BUNDLE}/manifest.json", lambda value: value.update(digest="sha256:" + "0" * 64)),
        "bundle-digest-mismatch",
        "it was changed after it was built",
    ),
    "a manifest of a changed file": (
        in_json(f"{BUNDLE}/manifest.json", lambda value: value["files"][0].update(digest="sha256:" + "0" * 64)),  # type: ignore[index]
        "bundle-digest-mismatch",
        "it was changed after it was built",
    ),
    "no manifest": (remove(f"{BUNDLE}/manifest.json"), "file-missing", "`manifest.json` does not exist"),
    "a manifest that is no JSON": (add(f"{BUNDLE}/manifest.json"), "parse-failed", "manifest.json:1:1 is not JSON"),
    "a missing file": (remove(f"{BUNDLE}/run.sh"), "file-missing", "`run.sh` does not exist"),
    "a further file": (add(f"{BUNDLE}/evil.py"), "bundle-files-mismatch", "`evil.py` lies in the bundle"),
    "bytecode": (add(f"{BUNDLE}/__pycache__/run.pyc"), "bundle-files-mismatch", "`__pycache__` lies in the bundle"),
    "no bundle": (
        lambda files: [files.pop(path) for path in list(files) if path.startswith(BUNDLE)],
        "file-missing",
        "is no bundle",
    ),
    "another bundle, consistent in itself": (
        in_json(
            f"{BUNDLE}/manifest.json",
            lambda value: _resigned(value, "provider", {"id": "acme/demo", "version": "9.0.0"}),
        ),
        "bundle-provider-mismatch",
        "9.0.0",
    ),
}


def _resigned(value: dict[str, object], key: str, changed: object) -> None:
    value[key] = changed
    value["digest"] = digest_of(value)


FACES = {
    "renamed file": Case(
        change=lambda files: None,
        name=NAME.replace("0.1.0", "0.2.0"),
        code="wheel-identity-mismatch",
        says=f"0.2.0-py3-none-any.whl is a wheel of agent-graph-provider-acme-demo 0.1.0, whose name is {NAME}",
    ),
    "a build number": Case(
        change=lambda files: None,
        name=NAME.replace("0.1.0", "0.1.0-1"),
        code="wheel-identity-mismatch",
        says=f"whose name is {NAME}",
    ),
    "a deviation that is not declared": Case(
        change=all_renamed("acme-things", "2.0"),
        name=wheel_name("acme-things", "2.0"),
        code="wheel-identity-mismatch",
        says="declares nothing to be set by the author; what is not derived from the Provider is distribution and version",
    ),
    "half of a deviation declared": Case(
        change=all_renamed("acme-things", "2.0", "version"),
        name=wheel_name("acme-things", "2.0"),
        code="wheel-identity-mismatch",
        says="declares version to be set by the author; what is not derived from the Provider is distribution and version",
    ),
    "the name of another Provider's wheel, declared": Case(
        change=all_renamed(RENAMED, "0.1.0", "distribution"),
        name=wheel_name(RENAMED, "0.1.0"),
        code="wheel-identity-mismatch",
        says=f"{RENAMED} is the distribution of the Provider `acme/release`; the bundle is of `acme/demo`",
    ),
    "only the owner may read it": Case(
        change=lambda files: None,
        modes={f"{BUNDLE}/provider.yaml": 0o600},
        code="wheel-mode-invalid",
        says="provider.yaml` has the mode 0600; 0644 or 0755 is expected",
    ),
    "everybody may write it": Case(
        change=lambda files: None,
        modes={METADATA: 0o777},
        code="wheel-mode-invalid",
        says="METADATA` has the mode 0777",
    ),
    "no mode": Case(
        change=lambda files: None, modes={METADATA: 0}, code="wheel-mode-invalid", says="METADATA` has the mode 0000"
    ),
    "setuid": Case(
        change=lambda files: None,
        modes={f"{BUNDLE}/run.sh": 0o4755},
        code="archive-invalid",
        says="run.sh`: it sets the user",
    ),
}


def cases() -> Iterator[tuple[str, Case]]:
    for code, record, group in (
        ("wheel-record-mismatch", False, RECORDS),
        ("wheel-metadata-invalid", True, METADATAS),
        ("wheel-entry-point-invalid", True, POINTS),
        ("wheel-identity-mismatch", True, IDENTITY),
    ):
        for name, (change, says) in group.items():
            yield f"{code}: {name}", Case(change=change, code=code, says=says, record=record)
    for name, path in FOREIGN.items():
        says = f"`{path.rstrip('/')}` is no part of a Provider's wheel"
        code = "wheel-content-foreign"
        yield f"{code}: {name}", Case(change=add(path, b"" if path.endswith("/") else b"x"), code=code, says=says)
    for name, (change, code, says) in BUNDLES.items():
        yield f"bundle: {name}", Case(change=change, code=code, says=says)
    for name, case in FACES.items():
        yield f"whole: {name}", case


HOSTILE = dict(cases())


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_wheels_are_refused(name: str, files: Files, tmp_path: Path) -> None:
    case = HOSTILE[name]
    case.change(files)
    if case.record and any(path.endswith("/RECORD") for path in files):
        folders = {path: files.pop(path) for path in list(files) if path.endswith("/")}
        rerecord(files)
        files.update(folders)
    error = refusal(put(files, tmp_path, case.name, case.modes))
    assert error.code == case.code
    assert re.search(case.says, error.message), error.message
    assert error.message.isprintable()
    assert all(diagnostic.hint for diagnostic in error.diagnostics)


def test_a_valid_wheel(base: BuiltWheel, files: Files, tmp_path: Path) -> None:
    expected = {path.removeprefix(f"{BUNDLE}/"): data for path, data in files.items() if path.startswith(BUNDLE)}
    folders = {f"{name}/": b"" for name in (MODULE, BUNDLE, INFO, f"{INFO}/licenses")}
    for path in (Path(base.path), put({**folders, **files}, tmp_path)):
        with open_wheel(path) as wheel:
            assert wheel.path == str(path)
            assert wheel.identity == base.identity
            assert wheel.identity.declared == ()
            assert wheel.bundle.digest == base.digest
            assert sorted(wheel.bundle.executable) == ["run.sh"]
            assert wheel.requires == ()
            assert {name: wheel.bundle.tree.read(name, 1 << 20) for name in expected} == expected


def test_what_a_wheel_may_have_besides(files: Files, tmp_path: Path) -> None:
    """Licences, further SBOMs, requirements, comments; line ends of Windows."""
    add(f"{INFO}/licenses/more/NOTICE")(files)
    add(f"{INFO}/sboms/other.cdx.json", b"{}")(files)
    swap(METADATA, "\nVersion:", "\nRequires-Dist: other>=1\nRequires-Dist: more\nSummary: a\n  b\nVersion:")(files)
    swap(ENTRY_POINTS, "[", "# the Provider\n\n[")(files)
    for path in (METADATA, WHEEL, ENTRY_POINTS):
        files[path] = files[path].replace(b"\n", b"\r\n")
    rerecord(files)
    files[RECORD] = files[RECORD].replace(b"\n", b"\r\n")
    assert verified(put(files, tmp_path)).requires == ("other>=1", "more")


def test_declared_deviations_are_shown(base: BuiltWheel, tmp_path: Path) -> None:
    root = write_out(minimal(), tmp_path / "root")
    for setting, declared, name in (
        (Settings(distribution="acme-things"), ("distribution",), wheel_name("acme-things", "0.1.0")),
        (Settings(version="1.0rc1"), ("version",), wheel_name("agent-graph-provider-acme-demo", "1.0rc1")),
    ):
        with open_path(root) as opened:
            built = make_wheel(opened, tmp_path / "dist", setting)
        assert os.path.basename(built.path) == name
        wheel = verified(Path(built.path))
        assert wheel.identity == built.identity
        assert wheel.identity.declared == declared


def test_a_deviation_that_is_declared_by_hand(files: Files, tmp_path: Path) -> None:
    all_renamed("acme-things", "2.0", "distribution", "version")(files)
    rerecord(files)
    wheel = verified(put(files, tmp_path, wheel_name("acme-things", "2.0")))
    assert wheel.identity.declared == ("distribution", "version")
    assert (wheel.identity.provider_id, wheel.identity.provider_version) == ("acme/demo", "0.1.0")


def test_faults_are_told_together(files: Files, tmp_path: Path) -> None:
    row(WHEEL, lambda line: "")(files)
    licence = next(path for path in files if path.endswith("/LICENSE"))
    other_content(licence)(files)
    row(RECORD, lambda line: f"{BUNDLE}/x,sha256={hashed(b'')},0\n{line}")(files)
    swap(SBOM, '"acme/demo"', '"acme/else"')(files)
    error = refusal(put(files, tmp_path, modes={METADATA: 0o666}))
    assert [diagnostic.code for diagnostic in error.diagnostics] == [
        "wheel-mode-invalid",
        *["wheel-record-mismatch"] * 4,
        "wheel-identity-mismatch",
    ]


def test_of_many_faults_the_first_are_named(files: Files, tmp_path: Path) -> None:
    for number in range(300):
        add(f"evil/{number}")(files)
    error = refusal(put(files, tmp_path))
    assert error.code == "wheel-content-foreign"
    assert len(error.diagnostics) == 101
    assert error.diagnostics[-1].message == "and more of the same kind"


def test_more_rows_than_a_record_can_need(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distinfo, "MAX_ROWS", len(files))
    verified(put(files, tmp_path))
    monkeypatch.setattr(distinfo, "MAX_ROWS", len(files) - 1)
    assert "more than 10 rows" in refusal(put(files, tmp_path)).message


def test_no_wheel(tmp_path: Path) -> None:
    assert refusal(tmp_path / NAME).code == "file-missing"
    (tmp_path / NAME).write_bytes(b"no wheel at all, though it is called one")
    assert refusal(tmp_path / NAME).code == "archive-invalid"
    (tmp_path / NAME).write_bytes(write([]))
    assert refusal(tmp_path / NAME).code == "wheel-metadata-invalid"


# --- anything -----------------------------------------------------------------------------------------


class Content:
    """What a wheel is verified to hold, and a folder to write others to."""

    def __init__(self, path: str, folder: Path) -> None:
        self.data = Path(path).read_bytes()
        self.files = apart(path)
        self.target = folder / NAME
        self.expected = self.of(Path(path))

    def of(self, path: Path) -> object:
        with open_wheel(path) as wheel:
            tree, manifest = wheel.bundle.tree, wheel.bundle.manifest
            # Of manifest.json its value counts, which the digest is made of; its layout may differ.
            files = {name: tree.read(name, 1 << 20) for name in manifest.files}
            return wheel.identity, manifest, files

    def check(self, data: bytes) -> None:
        """The same content, or a refusal; anything else fails."""
        self.target.write_bytes(data)
        with suppress(BundlerError):
            assert self.of(self.target) == self.expected


@pytest.fixture(scope="session")
def content(base: BuiltWheel, tmp_path_factory: pytest.TempPathFactory) -> Content:
    return Content(base.path, tmp_path_factory.mktemp("fuzzed"))


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "insert", "drop"]), st.integers(0, 1 << 13), st.binary(min_size=1, max_size=6)
    ),
    min_size=1,
    max_size=4,
)


def changed(data: bytes, changes: list[tuple[str, int, bytes]]) -> bytes:
    for kind, number, what in changes:
        at = number % (len(data) + 1)
        if kind == "flip":
            data = data[:at] + what + data[at + len(what) :]
        elif kind == "cut":
            data = data[:at]
        elif kind == "insert":
            data = data[:at] + what + data[at:]
        else:
            data = data[:at] + data[at + len(what) :]
    return data


@settings(max_examples=250, deadline=None)
@given(changes=CHANGES)
def test_any_change_of_the_file_is_refused_or_changes_nothing(
    content: Content, changes: list[tuple[str, int, bytes]]
) -> None:
    content.check(changed(content.data, changes))


@settings(max_examples=120, deadline=None)
@given(path=st.sampled_from([METADATA, WHEEL, ENTRY_POINTS, SBOM, RECORD, f"{BUNDLE}/manifest.json"]), changes=CHANGES)
def test_any_change_of_a_file_in_it_is_refused_or_changes_nothing(
    content: Content, path: str, changes: list[tuple[str, int, bytes]]
) -> None:
    files = {**content.files, path: changed(content.files[path], changes)}
    if path != RECORD:
        rerecord(files)
    content.check(put(files, content.target.parent).read_bytes())


HEADERS = ("Name: a\n", "Version: 1\n", "Requires-Dist: b\n", "From a\n", "Name", "Version", "Requires-Dist", ": ", ":")
POINT = (
    "[agent_graph.providers]\n",
    "acme/demo = agent_graph_providers.p_acme_demo\n",
    "[x]\n",
    "=",
    "#",
    ";",
    "a",
    "1",
)
SPACES = (" ", "\t", "\n", "\r", "\r\n", "\x0b", "\x85", "\u2028", "\u2003", "ü")
PIECES = st.sampled_from([*HEADERS, *POINT, *SPACES])


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=8).map("".join))
@example("Name: a\nVersion: 1\nRequires-Dist: b\n c\n\nName: b\n")
def test_installers_read_the_same_metadata(text: str) -> None:
    """Whatever is accepted: `email.parser` is what pip, importlib.metadata and indexes read it with."""
    text = f"Name: a\n{text}\nVersion: 1\n{text}"
    with suppress(BundlerError):
        found = read_metadata(MemoryTree({"i/METADATA": text.encode()}), "i")
        message = email.message_from_string(text)
        assert message.get_all("Name") == [found.name]
        assert message.get_all("Version") == [found.version]
        requires = tuple(value.replace("\n ", "\n") for value in message.get_all("Requires-Dist", []))
        assert [value.split() for value in requires] == [value.split() for value in found.requires]


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=8).map("".join))
@example("[agent_graph.providers]\nacme/demo = agent_graph_providers.p_acme_demo\n")
def test_installers_find_the_same_entry_point(text: str) -> None:
    with suppress(BundlerError):
        found = read_entry_points(MemoryTree({"i/entry_points.txt": text.encode()}), "i")
        (point,) = importlib.metadata.EntryPoints._from_text(text)  # type: ignore[attr-defined]
        assert (point.group, point.name) == ("agent_graph.providers", found.id)
        assert point.value == f"agent_graph_providers.{found.module}"


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=8).map("".join))
def test_any_text_as_wheel_file(text: str) -> None:
    with suppress(BundlerError):
        check_wheel_file(MemoryTree({"i/WHEEL": text.encode()}), "i", "py3-none-any")
        raise AssertionError(text)
