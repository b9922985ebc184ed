"""`[tool.agent-bundler]`: every key, every fault of it, and all faults of a table together."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from email.headerregistry import Address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from bundler.errors import CODES, BundlerError
from bundler.tree import DirectoryTree, MemoryTree
from bundler.wheel.identity import identify
from bundler.wheel.naming import distribution_name
from bundler.wheel.settings import DEFAULT_REQUIRES_PYTHON, MAX_BYTES, Settings, check_backend, read_settings

from ..builders import Files, encode, write_out

TABLE = "[tool.agent-bundler]\n"


def tree(text: str | bytes, files: Files | None = None) -> MemoryTree:
    """A tree with this pyproject.toml, and other files."""
    return MemoryTree({"pyproject.toml": encode(text), **{path: encode(data) for path, data in (files or {}).items()}})


def read(line: str, files: Files | None = None) -> Settings:
    """The settings of a table with this line."""
    return read_settings(tree(f"{TABLE}{line}\n", files))


def refused(line: str, files: Files | None = None) -> BundlerError:
    """The error of a table with this line."""
    with pytest.raises(BundlerError) as caught:
        read(line, files)
    assert caught.value.code == "wheel-settings-invalid"
    assert caught.value.hint == CODES["wheel-settings-invalid"]
    return caught.value


def test_defaults_without_a_file() -> None:
    assert read_settings(MemoryTree({})) == Settings()
    assert Settings().requires_python == DEFAULT_REQUIRES_PYTHON == ">=3.8"


@pytest.mark.parametrize(
    "text", ["", "[tool]\n", "[tool.other]\nx = 1\n", "tool = 3\n", TABLE, "[project]\nname = 'x'\n"]
)
def test_defaults_without_a_table(text: str) -> None:
    assert read_settings(tree(text)) == Settings(files=("pyproject.toml",))


def test_a_file_that_must_exist() -> None:
    with pytest.raises(BundlerError) as caught:
        read_settings(MemoryTree({}), "other.toml", must_exist=True)
    assert caught.value.code == "file-missing"
    assert read_settings(MemoryTree({"other.toml": b""}), "other.toml", must_exist=True).files == ("other.toml",)


def test_settings_of_another_file_name_it() -> None:
    with pytest.raises(BundlerError, match=r"^other\.toml: \[tool\.agent-bundler\] version is a number"):
        read_settings(MemoryTree({"other.toml": f"{TABLE}version = 1".encode()}), "other.toml")


GOOD: list[tuple[str, Mapping[str, object]]] = [
    ('manifest = "other.yaml"', {"manifest": "other.yaml"}),
    ('manifest = "./a b.yaml"', {"manifest": "a b.yaml"}),
    ('distribution = "Acme.Release_Flow"', {"distribution": "acme-release-flow"}),
    ('version = "v1.0-RC.1"', {"version": "1.0rc1"}),
    ('version = "1!2026.12.1.post1"', {"version": "1!2026.12.1.post1"}),
    ('license = "mit or apache-2.0"', {"license": "MIT OR Apache-2.0"}),
    ('license = "LicenseRef-Proprietary"', {"license": "LicenseRef-Proprietary"}),
    ("license-files = []", {"licenses": {}}),
    ('authors = [{ name = "A. Ü (B) [c]; \\"d\\"" }]', {"authors": ({"name": 'A. Ü (B) [c]; "d"'},)}),
    ('authors = [{ email = " a.b+c@d-e.example " }]', {"authors": ({"email": "a.b+c@d-e.example"},)}),
    ("authors = []", {"authors": ()}),
    ('urls = { Home = "https://a.example/x?y#z" }', {"urls": {"Home": "https://a.example/x?y#z"}}),
    ('urls = { "A b" = "http://localhost:8000" }', {"urls": {"A b": "http://localhost:8000"}}),
    ('keywords = ["b", " a "]', {"keywords": ("b", "a")}),
    ("keywords = []", {"keywords": ()}),
    (
        "dependencies = [\"B_c [y,x] <2,>=1; python_version<'3.12'\"]",
        {"dependencies": ('B_c[x,y]<2,>=1; python_version < "3.12"',)},
    ),
    ('requires-python = " >=3.11 , <4 "', {"requires_python": "<4,>=3.11"}),
    ("checks = { anything = 1 }", {}),
]


@pytest.mark.parametrize(("line", "expected"), GOOD)
def test_good(line: str, expected: Mapping[str, object]) -> None:
    assert read(line) == replace(Settings(files=("pyproject.toml",)), **expected)


TEXTS = ("manifest", "distribution", "version", "license", "readme", "requires-python")
LISTS = ("license-files", "keywords", "dependencies")


@pytest.mark.parametrize("key", TEXTS)
@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("1", "is a number; a text is expected"),
        ("1.5", "is a number; a text is expected"),
        ("true", "is a truth value; a text is expected"),
        ("[]", "is a list; a text is expected"),
        ("{}", "is a table; a text is expected"),
        ("2026-12-01", "is a date or time; a text is expected"),
        ("12:00:00", "is a date or time; a text is expected"),
        ('""', "is ''; a text on one line is expected"),
        ('"  "', "is '  '; a text on one line is expected"),
        (r'"a\nb"', r"is 'a\nb'; a text on one line is expected"),
        (r'"a\u0000"', r"is 'a\x00'; a text on one line is expected"),
        (r'"a\u001B[31m"', r"is 'a\x1b[31m'; a text on one line is expected"),
        (r'"a\u0085"', r"is 'a\x85'; a text on one line is expected"),
        (r'"a\u2028b"', r"is 'a\u2028b'; a text on one line is expected"),
        (r'"a\u202Eb"', r"is 'a\u202eb'; a text on one line is expected"),
    ],
)
def test_a_text_of_another_type_empty_or_with_control_characters(key: str, value: str, what: str) -> None:
    error = refused(f"{key} = {value}")
    assert error.message == f"pyproject.toml: [tool.agent-bundler] {key} {what}"
    assert error.diagnostics[0].path == "pyproject.toml"


@pytest.mark.parametrize("key", LISTS)
@pytest.mark.parametrize(
    ("value", "what"),
    [
        ('"a"', "is a text; a list of texts is expected"),
        ("{ a = 1 }", "is a table; a list of texts is expected"),
        ("[1]", "is a number; a text is expected"),
        ("[['a']]", "is a list; a text is expected"),
        ('[""]', "is ''; a text on one line is expected"),
        (r'["a\tb"]', r"is 'a\tb'; a text on one line is expected"),
    ],
)
def test_a_list_of_other_things(key: str, value: str, what: str) -> None:
    assert refused(f"{key} = {value}").message == f"pyproject.toml: [tool.agent-bundler] {key} {what}"


BAD = [
    ('manifest = "."', "manifest is '.'; the name of a file beside pyproject.toml is expected"),
    ('manifest = "a/b.yaml"', "manifest is 'a/b.yaml'; the name of a file beside pyproject.toml is expected"),
    ('manifest = "../b.yaml"', "manifest names a file that can't be used: '../b.yaml' contains `..`"),
    ('manifest = "/b.yaml"', "manifest names a file that can't be used: '/b.yaml' is absolute"),
    ('distribution = "-a"', "distribution is '-a'; letters, digits and inner"),
    ('distribution = "a b"', "distribution is 'a b'; letters, digits and inner"),
    ('distribution = "a/b"', "distribution is 'a/b'; letters, digits and inner"),
    ('distribution = "ſ"', "distribution is 'ſ'; letters, digits and inner"),
    (f'distribution = "{"a" * 189}"', "distribution has 189 characters; 188 is the most"),
    ('version = "1.0-alpha.beta"', "version is '1.0-alpha.beta'; a version of PEP 440 such as"),
    ('version = "latest"', "version is 'latest'; a version of PEP 440 such as"),
    (f'version = "{"1" * 41}"', "version has 41 characters; 40 is the most"),
    (f'version = "{"1" * 5000}"', "version"),
    ('license = "MIT License"', "license is 'MIT License'; an SPDX expression such as"),
    ('license = "MIT OR"', "license is 'MIT OR'; an SPDX expression such as"),
    (f'license = "{"(" * 3000}MIT"', "license is"),
    ('license = { file = "LICENSE" }', "license is a table; a text is expected"),
    ('license-files = ["NONE"]', "license-files names a file that can't be used: `NONE` does not exist"),
    ('license-files = ["*"]', "license-files names a file that can't be used: `*` does not exist"),
    ('license-files = ["."]', "license-files names a file that can't be used: `.` is a folder"),
    ('license-files = ["../LICENSE"]', "license-files names a file that can't be used: '../LICENSE' contains `..`"),
    (r'license-files = ["a\\b"]', r"license-files names a file that can't be used: 'a\\b' contains a backslash"),
    ('license-files = ["con.txt"]', "license-files names con.txt, which can't be a file on every system: `con.txt`"),
    ('license-files = ["L", "l"]', "license-files names L and l, for which some systems hold one file"),
    ('authors = "me"', "authors is a text; a list of tables with name and email is expected"),
    ('authors = { name = "me" }', "authors is a table; a list of tables with name and email is expected"),
    ('authors = ["me"]', "authors has an author that is no table with name, email or both"),
    ("authors = [{}]", "authors has an author that is no table with name, email or both"),
    ('authors = [{ name = "me", url = "x" }]', "authors has an author that is no table with name, email or both"),
    ("authors = [{ name = 1 }]", "authors is a number; a text is expected"),
    ('authors = [{ name = "a, b" }]', "authors has the name 'a, b'; a comma separates authors"),
    ('authors = [{ name = "", email = "a@b.c" }]', "authors is ''; a text on one line is expected"),
    *(
        (f'authors = [{{ email = "{email}" }}]', f"authors has the email {email!r}; an address is expected")
        for email in (
            *("me", "@", "a@", "@b", "a@b@c", "a b@c", "a@b c", "<a@b>", "a@b,c@d", "a..b@c", ".a@b", "a@b.", "a@b..c"),
            *("a(b)@c", "a:b@c", "a@[1.2", "jür@b.example", "a@exämple.de", "'a' <a@b>"),
        )
    ),
    ('urls = "https://a"', "urls is a text; a table of labels and addresses is expected"),
    ("urls = { a = 1 }", "urls is a number; a text is expected"),
    (f'urls = {{ {"a" * 33} = "https://a" }}', f"urls has the label '{'a' * 33}'; at most 32 characters"),
    ('urls = { "a,b" = "https://a" }', "urls has the label 'a,b'; at most 32 characters and no comma"),
    ('urls = { "" = "https://a" }', "urls is ''; a text on one line is expected"),
    ('urls = { a = "https://a", " a" = "https://b" }', "urls has two labels that differ only in blanks"),
    *(
        (f'urls = {{ a = "{url}" }}', f"urls has the address {url!r}; one that begins with https:// is expected")
        for url in ("a.example", "javascript:alert(1)", "ftp://a", "https://", "https:///x", "https://?", "https://a b")
    ),
    ('keywords = ["a,b"]', "keywords has 'a,b'; a comma separates keywords"),
    ('readme = "README"', "readme is 'README'; a file that ends in .md, .rst or .txt is expected"),
    ('readme = "README.html"', "readme is 'README.html'; a file that ends in .md, .rst or .txt is expected"),
    ('readme = "README.md"', "readme names a file that can't be used: `README.md` does not exist"),
    ('readme = "../README.md"', "readme names a file that can't be used: '../README.md' contains `..`"),
    ('dependencies = ["a b"]', "dependencies has 'a b'; a requirement such as `name>=1` is expected"),
    (f'dependencies = ["a; {"(" * 3000}"]', "dependencies has 'a; (("),
    ('dependencies = ["a @ https://a.example/a.whl"]', "indexes refuse what depends on an address"),
    ('dependencies = ["a @ file:///a.whl"]', "indexes refuse what depends on an address"),
    ('requires-python = "3.11"', "requires-python is '3.11'; a specifier such as >=3.11 is expected"),
    ('requires-python = "python"', "requires-python is 'python'; a specifier such as >=3.11 is expected"),
    ("verison = '1.0'", "verison is no setting (did you mean `version`?); expected: manifest, distribution"),
    ("Version = '1.0'", "Version is no setting (did you mean `version`?); expected: manifest, distribution"),
    ("qqq = 1", "qqq is no setting; expected: manifest, distribution, version, license, license-files"),
]


@pytest.mark.parametrize(("line", "what"), BAD)
def test_bad(line: str, what: str) -> None:
    error = refused(line)
    assert error.message.startswith("pyproject.toml: [tool.agent-bundler] ")
    assert what in error.message
    assert len(error.diagnostics) == 1


def test_a_table_that_is_none() -> None:
    with pytest.raises(BundlerError) as caught:
        read_settings(tree("[tool]\nagent-bundler = 3\n"))
    assert caught.value.message == "pyproject.toml: [tool.agent-bundler] is a number; a table is expected"


def test_all_faults_of_a_table_are_told_together() -> None:
    lines = ["version = 1", "kewords = []", "license = 'none such'", "readme = 'x.md'", "keywords = ['fine']"]
    error = refused("\n".join(lines))
    told = [each.message.removeprefix("pyproject.toml: [tool.agent-bundler] ") for each in error.diagnostics]
    assert [each.split()[0] for each in told] == ["version", "kewords", "license", "readme"]
    assert {each.code for each in error.diagnostics} == {"wheel-settings-invalid"}
    assert error.message == error.diagnostics[0].message


EMAIL = st.from_regex(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.@<>\" -]{1,12}@[A-Za-z0-9.@-]{1,12}", fullmatch=True)


@given(EMAIL)
@hypothesis_settings(max_examples=200, deadline=None)
def test_an_address_that_is_taken_is_one_that_headers_take(email: str) -> None:
    text = email.replace('"', '\\"')
    try:
        found = read(f'authors = [{{ email = "{text}" }}]').authors[0]["email"]
    except BundlerError as error:
        assert error.code == "wheel-settings-invalid"  # noqa: PT017 - either may happen
        return
    assert found == email.strip()
    assert str(Address(addr_spec=found)) == found


# --- the files that are named ------------------------------------------------------------------------------


def test_license_files() -> None:
    files = {"LICENSE": "a", "LICENSES/MIT (x) [1] ä.txt": b"\xff", "other": "c"}
    found = read('license-files = ["LICENSES/MIT (x) [1] ä.txt", "./other", "other"]', files)
    assert found.licenses == {"LICENSES/MIT (x) [1] ä.txt": b"\xff", "other": b"c"}
    assert found.files == ("pyproject.toml", "LICENSES/MIT (x) [1] ä.txt", "other")


def test_license_files_that_are_found() -> None:
    files = {"LICENSE": b"a", "NOTICE": b"b", "COPYING.md": b"c", "COPYRIGHT": b"d", "sub/LICENSE": b"e"}
    expected = {"LICENSE": b"a", "NOTICE": b"b", "COPYING.md": b"c"}
    found = read_settings(MemoryTree(files))
    assert found.licenses == expected
    assert sorted(found.files) == sorted(expected)
    assert read("version = '1.0'", files).licenses == expected
    assert read("license-files = []", files).licenses == {}


def test_a_folder_called_license_is_none() -> None:
    assert read_settings(MemoryTree({"LICENSE/MIT": b"", "NOTICE": b"x"})).licenses == {"NOTICE": b"x"}


def test_a_license_that_leads_out(tmp_path: Path) -> None:
    root = write_out({"pyproject.toml": TABLE, "inside": "x"}, tmp_path / "p")
    (root / "LICENSE").symlink_to("inside")
    with DirectoryTree(root) as found:
        assert read_settings(found).licenses == {"LICENSE": b"x"}
    (root / "NOTICE").symlink_to("/etc/hostname")
    with DirectoryTree(root) as found, pytest.raises(BundlerError) as caught:
        read_settings(found)
    assert caught.value.code == "path-symlink-outside-provider"
    (root / "pyproject.toml").write_text(f"{TABLE}license-files = ['NOTICE']\n")
    with (
        DirectoryTree(root) as found,
        pytest.raises(BundlerError, match="leads outside of the Provider root") as caught,
    ):
        read_settings(found)
    assert caught.value.code == "wheel-settings-invalid"


@pytest.mark.parametrize(
    ("name", "media_type"),
    [("README.md", "text/markdown"), ("docs/Read Me.RST", "text/x-rst"), ("r.txt", "text/plain")],
)
def test_readme(name: str, media_type: str) -> None:
    found = read(f'readme = "{name}"', {name: "# Ü\r\n"})
    assert found.readme == ("# Ü\r\n", media_type)
    assert found.files == ("pyproject.toml", name)


def test_a_readme_that_is_no_text() -> None:
    assert "readme names r.md, which is no UTF-8 text" in refused('readme = "r.md"', {"r.md": b"\xff"}).message
    error = refused('readme = "r.md"', {"r.md": b"x" * (MAX_BYTES + 1)})
    assert f"is larger than {MAX_BYTES:,} bytes" in error.message
    assert "`r.md` is a folder" in refused('readme = "r.md"', {"r.md/x": b""}).message


# --- the file itself ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\xff", "pyproject.toml is not valid TOML: 'utf-8' codec can't decode byte 0xff"),
        ("\ufeffx = 1".encode("utf-16"), "pyproject.toml is not valid TOML"),
        (b"[tool.agent-bundler\n", "pyproject.toml is not valid TOML"),
        (b"[tool.agent-bundler]\nversion = '1'\nversion = '2'\n", "pyproject.toml is not valid TOML"),
        (b"x = 1\nx\x00 = 2\n", "pyproject.toml is not valid TOML"),
        (b"x = " + b"[" * 5000, "pyproject.toml is not valid TOML"),
        (b"x = " + b"9" * 5000, "pyproject.toml is not valid TOML"),
        (b"x = 2026-02-30", "pyproject.toml is not valid TOML"),
        (b"#" * (MAX_BYTES + 1), f"`pyproject.toml` is larger than {MAX_BYTES:,} bytes"),
    ],
)
def test_a_file_that_is_no_toml(data: bytes, what: str) -> None:
    for reader in (read_settings, check_backend):
        with pytest.raises(BundlerError) as caught:
            reader(tree(data))
        assert caught.value.code == "parse-failed"
        assert caught.value.message.startswith(what)
        assert caught.value.diagnostics[0].path == "pyproject.toml"


def test_what_lies_in_the_place_of_the_file(tmp_path: Path) -> None:
    """Nothing there is no file; anything else that can't be read is not passed over."""

    def code_of(root: Path) -> str:
        with DirectoryTree(root) as found, pytest.raises(BundlerError) as caught:
            read_settings(found)
        return f"{caught.value.code}: {caught.value.message}"

    (tmp_path / "folder/pyproject.toml").mkdir(parents=True)
    assert code_of(tmp_path / "folder") == "file-missing: `pyproject.toml` is a folder; a regular file is expected"
    (tmp_path / "fifo").mkdir()
    os.mkfifo(tmp_path / "fifo/pyproject.toml")
    assert code_of(tmp_path / "fifo") == "file-missing: `pyproject.toml` is a FIFO; a regular file is expected"
    (tmp_path / "dangling").mkdir()
    (tmp_path / "dangling/pyproject.toml").symlink_to("nothing")
    assert code_of(tmp_path / "dangling").startswith("file-missing: `pyproject.toml` does not exist")
    (tmp_path / "out").mkdir()
    (tmp_path / "outside.toml").write_text(TABLE)
    (tmp_path / "out/pyproject.toml").symlink_to("../outside.toml")
    assert code_of(tmp_path / "out").startswith("path-symlink-outside-provider: `pyproject.toml`")


def test_a_link_inside_the_root(tmp_path: Path) -> None:
    root = write_out({"config/p.toml": f"{TABLE}version = '7.0'\n"}, tmp_path)
    (root / "pyproject.toml").symlink_to("config/p.toml")
    with DirectoryTree(root) as found:
        assert read_settings(found).version == "7.0"


# --- whose distribution, whose backend ---------------------------------------------------------------------


def test_a_distribution_of_another_provider() -> None:
    settings = read(f'distribution = "{distribution_name("acme/other-one").upper()}"')
    with pytest.raises(BundlerError) as caught:
        identify("acme/demo", "1.0.0", settings)
    assert caught.value.code == "wheel-settings-invalid"
    assert "which is the one of the Provider `acme/other-one`" in caught.value.message
    assert identify("acme/other-one", "1.0.0", settings).declared == ()


def test_a_distribution_of_its_own() -> None:
    for name in ("acme-demo-flow", "agent-graph-provider-x"):
        identity = identify("acme/demo", "1.0.0", read(f'distribution = "{name}"\nversion = "2.0"'))
        assert (identity.distribution, identity.version) == (name, "2.0")
        assert identity.declared == ("distribution", "version")
    longest = "z_" * 79 + "zz"
    named = distribution_name(longest)
    assert identify(longest, "1.0.0", read(f'distribution = "{named}"')).declared == ()


def test_a_project_table_is_not_for_our_backend() -> None:
    check_backend(tree(TABLE))
    with pytest.raises(BundlerError) as caught:
        check_backend(tree(f"{TABLE}[project]\nname = 'x'\n"))
    assert caught.value.code == "wheel-settings-invalid"
    assert caught.value.hint == "move what it says to [tool.agent-bundler]"
    with pytest.raises(BundlerError, match=r"`pyproject\.toml` does not exist"):
        check_backend(MemoryTree({}))
