"""What a wheel says of its Provider, whatever its author wrote: METADATA, the readme, the SBOM."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from uuid import UUID
from zipfile import ZipFile

import pytest
from markdown_it import MarkdownIt
from packaging.metadata import Metadata

from bundler.bundle.open import open_path
from bundler.wheel.build import BuiltWheel, make_wheel
from bundler.wheel.identity import identify
from bundler.wheel.metadata import MAX_SUMMARY, readme, summary
from bundler.wheel.sbom import sbom
from bundler.wheel.settings import Settings

from ..builders import ACTION, GRAPH, PROVIDER, Files, load, minimal, write_out

HOSTILE = [
    "# heading",
    "1. one",
    "12) twelve",
    "- item",
    "+ item",
    "> quote",
    "=== x",
    "--- y",
    "***",
    "``` fence",
    "~~~ fence",
    "`",
    "``a`b```",
    "a\\",
    "\\`a\\`",
    "a|b||c\\|d",
    "| a | b |\n| --- | --- |\n| x | y |",
    "<script>alert(1)</script>",
    "<b>x</b> &amp; &lt; &#60; <!-- c --> <?php ?> <![CDATA[x]]>",
    "![i](http://x.example/i.png) [a](javascript:alert(1)) <https://x.example>",
    "[a]: http://evil.example",
    "[a][b] [^1]",
    "**b** __b__ _i_ *i* ~~s~~ `c`",
    "https://my-site.example/a_b?c=d&e ftp://x.example www.evil.example a@b.example mailto:a@b.example :smile:",
    "one\ntwo  \nthree\\\nfour\r\nfive\rsix",
    "    code",
    "\tcode",
    "Name: other\nVersion: 9\n\nBody",
    "a\x00b\x07c\x1b[31md\x7fe\x85f",
    "a\u2028b\u2029c",
    "abc \u202edcba\u202c \u2067x\u2069",
    "\u200fעברית\u200e",
    "😀 👩\u200d👩\u200d👧 🏳️\u200d🌈",
    "{root:uri} {env:HOME} %(x)s ${HOME} {{x}}",
    "\ufeffbom",
    "$x^2$ @user #12",
]
BLANK = [" ", "\n\n", "\x00", "\u2028", "\u202e", "\u00a0"]


def quoted(text: str) -> str:
    """The text as a double-quoted scalar of YAML."""
    written = json.dumps(text, ensure_ascii=False)
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff]", lambda found: f"\\u{ord(found.group()):04x}", written)


def saying(text: str, **changes: str) -> dict[str, str | bytes]:
    """The minimal Provider with this text wherever an author can write one."""
    files = minimal(
        provider_yaml=f"{PROVIDER}description: {quoted(text)}\nname: {quoted(text[:120])}\n",
        graphs__main_yaml=f"{GRAPH}description: {quoted(text)}\n",
        actions__work_yaml=ACTION.replace("make work", quoted(text)),
    )
    return {**files, **changes}


def page(files: Files, digest: str = "sha256:" + "0" * 64) -> str:
    """The readme of a Provider."""
    provider = load(files)
    return readme(provider, identify(provider.id, provider.version, Settings()), digest)


# --- the readme, without a build --------------------------------------------------------------------------


def rendered(text: str) -> tuple[list[str], list[str]]:
    """What a Markdown page is made of, and the texts and code spans that a reader sees."""
    kinds: list[str] = []
    seen: list[str] = []
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text):
        if token.type != "inline":
            kinds.append(token.type)
            continue
        line: list[str] = []
        for child in token.children or ():
            if child.type in ("text", "text_special"):
                line.append(child.content)
            elif child.type == "code_inline":
                line.append(f"⟨{child.content}⟩")
            elif child.type not in ("strong_open", "strong_close"):
                kinds.append(child.type)
        seen.append("".join(line))
    return kinds, seen


def one_line(text: str) -> str:
    """What is left of a text on one line."""
    return " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+", " ", text).split())


@pytest.mark.parametrize("text", HOSTILE)
def test_markup_shows_as_it_stands(text: str) -> None:
    expected_kinds, expected = rendered(page(saying("plain")))
    kinds, seen = rendered(page(saying(text)))
    assert kinds == expected_kinds
    assert seen == [each.replace("plain", one_line(text)) for each in expected]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_becomes_a_link_or_an_emoji(text: str) -> None:
    """As GitHub's Markdown makes links: of bare addresses, in which what was escaped would be seen."""
    outside_code = re.sub(r"(`+) ?(?!`).*?(?<!`) ?\1(?!`)", "", page(saying(text)).replace("\\`", ""))
    assert not re.search(r"(?<!\\)://|mailto:|www\.|(?<!\\)@|(?<!\\):smile:", outside_code)


@pytest.mark.parametrize("text", BLANK)
def test_a_text_that_is_blank_leaves_nothing(text: str) -> None:
    # The YAML of a double-quoted scalar says what no plain one can.
    files = minimal(
        provider_yaml=f"{PROVIDER}description: {quoted(text)}\nname: {quoted(text)}\n",
        graphs__main_yaml=f"{GRAPH}description: {quoted(text)}\n",
    )
    assert page(files) == page(minimal())
    assert summary(load(files)) == "The Agent Graph Provider acme/demo"
    kinds, seen = rendered(page(saying(text)))
    assert "hr" not in kinds
    assert "⟨ ⟩" in seen  # the command


def test_the_page_of_the_minimal_provider() -> None:
    digest = "sha256:" + "ab" * 32
    assert page(minimal(), digest) == (
        "# acme/demo 0.1.0\n\n"
        "An Agent Graph Provider: data that tells an agent's host which step is legal next. Nothing in it is imported, "
        "and installing it runs nothing. Effects are what its author declares, not a sandbox.\n\n"
        "## Graphs\n\n- `main` (entrypoints: `default`)\n\n"
        "## Actions\n\n| Action | Effect | Runner | Runs |\n| --- | --- | --- | --- |\n"
        "| `work` | write | command | `make work` |\n\n"
        "## Verify\n\n"
        "    pip install --only-binary :all: agent-graph-provider-acme-demo==0.1.0\n"
        "    agent-bundler verify --installed acme/demo\n\n"
        f"prints the digest of the bundle that this page was made for: `{digest}`\n"
    )


def test_every_action_stands_there_with_its_effect_and_what_it_runs() -> None:
    ids = ["z", "a-b", "a_b", "a.b"]
    effects = ["external", "read", "write", "read"]
    nodes = "".join(
        f"  - {{ id: n{n}, kind: action, reasonCode: route.n, action: actions/{n}.yaml }}\n" for n in range(len(ids))
    )
    files = minimal(graphs__main_yaml=GRAPH.replace("nodes:\n", f"nodes:\n{nodes}"))
    for number, (name, effect) in enumerate(zip(ids, effects, strict=True)):
        files[f"actions/{number}.yaml"] = ACTION.replace("id: work", f"id: {name}").replace("write", effect)
    files["actions/0.yaml"] = (
        "schema: agent-graph.action.v1\nid: z\nrunner: script\neffect: external\n"
        "entry: run.py\nruntime: python\nargs: [a b, '|']\n"
    )
    files["run.py"] = ""
    rows = [line for line in page(files).splitlines() if line.startswith("| `")]
    assert rows == [
        "| `a_b` | write | command | `make work` |",
        "| `a-b` | read | command | `make work` |",
        "| `a.b` | read | command | `make work` |",
        "| `work` | write | command | `make work` |",
        "| `z` | external | script | `python run.py 'a b' '\\|'` |",
    ]


def test_a_provider_without_actions_has_no_table() -> None:
    graph = """schema: agent-graph.graph.v1
id: main
entrypoints: { default: done }
nodes: [{ id: done, kind: terminal, terminalOutcome: completed }]
edges: []
"""
    text = page(minimal(graphs__main_yaml=graph, actions__work_yaml=None))
    assert "## Actions" not in text
    assert "| --- |" not in text


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("", "The Agent Graph Provider acme/demo"),
        ("name: A demo\n", "A demo"),
        ("name: A demo\ndescription: Does\n", "Does"),
        ('name: A demo\ndescription: " "\n', "A demo"),
        ("description: |\n  First\n  line.\n\n  Second paragraph.\n", "First line."),
        (f"description: {'x' * 512}\n", "x" * 512),
        (f"description: {'x' * 513}\n", "x" * 511 + "…"),
        (f"description: {'x' * 510} {'y' * 10}\n", "x" * 510 + "…"),
    ],
)
def test_summary(lines: str, expected: str) -> None:
    assert summary(load(minimal(provider_yaml=PROVIDER + lines))) == expected


@pytest.mark.parametrize("text", HOSTILE)
def test_a_summary_is_one_line(text: str) -> None:
    found = summary(load(saying(f"{text} " * (1000 // (len(text) + 1)))))
    assert len(found) <= MAX_SUMMARY
    assert found.splitlines() == [found]
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", found)


# --- wheels ------------------------------------------------------------------------------------------------

OWN = {
    "pyproject.toml": """[tool.agent-bundler]
distribution = "Acme_Demo.Flow"
version = "2026.12rc1"
license = "mit OR apache-2.0"
license-files = ["LICENSES/MIT (x) [1].txt", "LICENSES/Ä.md"]
authors = [
  { name = 'Jürgen "J" (x)', email = "j.o+x@acme.example" },
  { name = "Only Name" },
  { name = "Second" },
  { email = "only@acme.example" },
]
urls = { Homepage = "https://acme.example/x", "Bug Tracker" = "https://acme.example/?q=1#z" }
keywords = ["zeta", "größe", "two words", "agent-graph"]
dependencies = ["B_c[y,x] <2,>=1; python_version<'3.12'", "a"]
requires-python = ">=3.9,<4"
readme = "docs/Read.rst"
""",
    "LICENSES/MIT (x) [1].txt": "MIT text\n",
    "LICENSES/Ä.md": b"\xff not text",
    "LICENSE": "not asked for",
    "docs/Read.rst": "Title\n=====\n\nText *with* ``code`` — ü.\n\n- item\n",
}
PLAIN = {"pyproject.toml": '[tool.agent-bundler]\nreadme = "r.txt"\n', "r.txt": "* <b>\r\n\r\n`x\n", "LICENSE": "L"}
MARKDOWN = {"pyproject.toml": '[tool.agent-bundler]\nreadme = "r.md"\n', "r.md": "# Ü\n\n\n<b>x</b>\x00\x0c\n"}
SOURCES: dict[str, dict[str, str | bytes]] = {
    "minimal": minimal(),
    "long": saying("word |`* " * 105),
    "hostile": saying("\n\n".join(HOSTILE)[:1000]),
    "headers": saying("Name: other\n\nLicense: x\u0085Version: 9\x0b\x0cBody\x1c\x1d\x1e"),
    "rtl": saying("\u200fעברית \u202eabc\u202c 😀 👩\u200d👩\u200d👧"),
    "own": minimal() | OWN,
    "plain": minimal() | PLAIN,
    "markdown": minimal() | MARKDOWN,
}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, BuiltWheel]:
    """The wheels of the sources, by name."""
    root = tmp_path_factory.mktemp("wheels")
    built = {}
    for name, files in SOURCES.items():
        with open_path(write_out(files, root / name)) as opened:
            built[name] = make_wheel(opened, root / f"{name}-dist")
    return built


def inside(wheel: BuiltWheel) -> dict[str, bytes]:
    """The files of its .dist-info folder, by name."""
    prefix = f"{wheel.identity.dist_info}/"
    with ZipFile(wheel.path) as file:
        return {name.removeprefix(prefix): file.read(name) for name in file.namelist() if name.startswith(prefix)}


@pytest.mark.parametrize("name", SOURCES)
def test_metadata_is_valid(name: str, wheels: Mapping[str, BuiltWheel]) -> None:
    wheel = wheels[name]
    data = inside(wheel)["METADATA"]
    found = Metadata.from_email(data, validate=True)
    assert found.metadata_version == "2.4"
    assert (found.name, str(found.version)) == (wheel.identity.distribution, wheel.identity.version)
    assert found.summary is not None
    assert found.summary.splitlines() == [found.summary]
    assert len(found.summary) <= MAX_SUMMARY
    with open_path(Path(wheel.path).parents[1] / name) as opened:
        assert found.summary == summary(opened.provider)
        expected = readme(opened.provider, wheel.identity, wheel.digest)
    if name not in ("own", "plain", "markdown"):
        assert found.description == expected
        assert found.description_content_type == "text/markdown"
        assert f"`{wheel.digest}`" in expected
        assert "| `work` | write | command | " in expected
    # Nothing but the names that we know: no header was made from a text.
    headers = data.decode().split("\n\n", 1)[0].splitlines()
    names = {line.partition(":")[0] for line in headers if not line.startswith(" ")}
    assert names <= {
        *("Metadata-Version", "Name", "Version", "Summary", "Keywords", "Classifier", "Requires-Python"),
        *("Author", "Author-email", "License-Expression", "License-File", "Project-URL", "Requires-Dist"),
        "Description-Content-Type",
    }


def test_twine_takes_all_of_them(wheels: Mapping[str, BuiltWheel]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *(wheel.path for wheel in wheels.values())],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == len(wheels)


def test_what_is_set_reaches_the_metadata(wheels: Mapping[str, BuiltWheel]) -> None:
    wheel = wheels["own"]
    assert Path(wheel.path).name == "acme_demo_flow-2026.12rc1-py3-none-any.whl"
    assert wheel.identity.declared == ("distribution", "version")
    files = inside(wheel)
    found = Metadata.from_email(files["METADATA"], validate=True)
    assert found.license_expression == "MIT OR Apache-2.0"
    names = ["LICENSES/MIT (x) [1].txt", "LICENSES/Ä.md"]
    assert found.license_files == names
    assert files[f"licenses/{names[0]}"] == b"MIT text\n"
    assert files[f"licenses/{names[1]}"] == b"\xff not text"
    assert {name for name in files if name.startswith("licenses/")} == {f"licenses/{name}" for name in names}
    assert found.author == "Only Name, Second"
    assert found.author_email == '"Jürgen \\"J\\" (x)" <j.o+x@acme.example>, only@acme.example'
    assert found.project_urls == {"Homepage": "https://acme.example/x", "Bug Tracker": "https://acme.example/?q=1#z"}
    assert found.keywords == ["agent-graph", "agent-graph-provider", "größe", "two words", "zeta"]
    assert sorted(map(str, found.requires_dist or ())) == ["a", 'b-c[x,y]<2,>=1; python_version < "3.12"']
    assert str(found.requires_python) == "<4,>=3.9"
    assert found.description == OWN["docs/Read.rst"]
    assert found.description_content_type == "text/x-rst"
    component = json.loads(files["sboms/bundle.cdx.json"])["metadata"]["component"]
    assert component["licenses"] == [{"expression": "MIT OR Apache-2.0"}]
    assert {"name": "agent-graph:declared", "value": "version"} in component["properties"]


def test_readmes_of_its_author_stand_there_as_they_are(wheels: Mapping[str, BuiltWheel]) -> None:
    plain = inside(wheels["plain"])
    found = Metadata.from_email(plain["METADATA"], validate=True)
    assert found.description_content_type == "text/plain"
    assert plain["METADATA"].endswith(b"\n\n* <b>\r\n\r\n`x\n")
    assert found.license_expression is None
    assert found.license_files == ["LICENSE"]
    assert plain["licenses/LICENSE"] == b"L"
    markdown = inside(wheels["markdown"])["METADATA"]
    assert Metadata.from_email(markdown, validate=True).description_content_type == "text/markdown"
    assert markdown.endswith(b"\n\n" + str(MARKDOWN["r.md"]).encode())


# --- the SBOM ----------------------------------------------------------------------------------------------


def test_sbom(wheels: Mapping[str, BuiltWheel]) -> None:
    wheel = wheels["rtl"]
    data = inside(wheel)["sboms/bundle.cdx.json"]
    document = json.loads(data)
    component = document["metadata"]["component"]
    assert (document["bomFormat"], document["specVersion"], document["version"]) == ("CycloneDX", "1.6", 1)
    assert component["hashes"] == [{"alg": "SHA-256", "content": wheel.digest.removeprefix("sha256:")}]
    assert component["purl"] == "pkg:pypi/agent-graph-provider-acme-demo@0.1.0"
    assert [(each["name"], each["value"]) for each in component["properties"]] == [
        ("agent-graph:provider", "acme/demo"),
        ("agent-graph:version", "0.1.0"),
        ("agent-graph:bundle-digest", wheel.digest),
        ("agent-graph:module", "agent_graph_providers.p_acme_demo"),
    ]
    assert component["description"].startswith("\u200fעברית abc 😀")
    assert "licenses" not in component
    # No clock, no chance: the same bytes again.
    assert "timestamp" not in document["metadata"]
    assert sbom(wheel.identity, wheel.digest, None, component["description"]) == data


def test_a_serial_number_follows_from_names_and_digest() -> None:
    identity = identify("acme/demo", "0.1.0", Settings())

    def serial(version: str = "0.1.0", digest: str = "sha256:" + "0" * 64, text: str = "x") -> str:
        number: str = json.loads(sbom(replace(identity, version=version), digest, None, text))["serialNumber"]
        return number

    assert UUID(serial().removeprefix("urn:uuid:")).version == 5
    assert serial() == serial(text="other words")
    assert len({serial(), serial(version="0.1.1"), serial(digest="sha256:" + "1" * 64)}) == 3
