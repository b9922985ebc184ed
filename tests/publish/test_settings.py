"""`[tool.agent-bundler.checks]` and accepted secrets: every key, every fault, and all faults together."""

from __future__ import annotations

import pytest

from bundler.errors import CODES, BundlerError
from bundler.publish.settings import AcceptedSecret, CheckSettings, ProjectCheck, read_check_settings
from bundler.tree import MemoryTree
from bundler.wheel.settings import Settings, read_settings

CHECKS = "[tool.agent-bundler.checks]\n"
ACCEPTED = "[[tool.agent-bundler.accepted-secrets]]\n"


def tree(text: str) -> MemoryTree:
    return MemoryTree({"pyproject.toml": text.encode()})


def read(text: str) -> CheckSettings:
    return read_check_settings(tree(text))


def refused(text: str) -> list[str]:
    with pytest.raises(BundlerError) as caught:
        read(text)
    assert caught.value.code == "release-settings-invalid"
    assert caught.value.hint == CODES["release-settings-invalid"]
    assert {each.path for each in caught.value.diagnostics} == {"pyproject.toml"}
    return [each.message for each in caught.value.diagnostics]


@pytest.mark.parametrize("text", ["", "tool = 3", "[tool]\nagent-bundler = 3", "[tool.other]", CHECKS])
def test_nothing_was_said(text: str) -> None:
    assert read(text) == CheckSettings()
    assert read_check_settings(MemoryTree({})) == CheckSettings()


def test_checks_in_the_order_of_the_file() -> None:
    text = f'{CHECKS}z-1 = {{ command = "make" }}\na = {{ command = "x\\ny", timeout = 2, cwd = "./tools//x" }}\n'
    assert read(text).checks == (
        ProjectCheck(name="z-1", command="make", timeout=600.0, cwd=""),
        ProjectCheck(name="a", command="x\ny", timeout=2.0, cwd="tools/x"),
    )
    assert read(f'{CHECKS}a = {{ command = "x", cwd = "." }}').checks[0].cwd == ""


def test_graph_tests_can_be_demanded() -> None:
    assert read(f"{CHECKS}graph-tests = {{ required = true }}").graph_tests_required
    assert not read(f"{CHECKS}graph-tests = {{}}").graph_tests_required


def test_accepted_secrets() -> None:
    rest = 'path = "./a"\nkind = "k"\nreason = "r"\n'
    assert read(f"{ACCEPTED}{rest}{ACCEPTED}{rest}sha256 = '{'a' * 64}'").accepted == (
        AcceptedSecret(path="a", kind="k", reason="r"),
        AcceptedSecret(path="a", kind="k", reason="r", sha256="a" * 64),
    )


def test_the_wheel_does_not_mind_them() -> None:
    text = f'{CHECKS}a = {{ command = "x" }}\n{ACCEPTED}path = "a"\n'
    assert read_settings(tree(text)) == Settings(files=("pyproject.toml",))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[tool.agent-bundler]\nchecks = 3", "checks is no table"),
        ("[tool.agent-bundler]\naccepted-secrets = 3", "accepted-secrets is no list of tables"),
        (f"{CHECKS}a = 3", "checks.a is no table"),
        (f"{CHECKS}a = {{}}", "checks.a lacks its `command`"),
        (f"{CHECKS}a = {{ comand = 'x' }}", "checks.a has `comand` (did you mean `command`?)"),
        (f"{CHECKS}a = {{ command = '' }}", "checks.a has the `command` ''; a text is expected"),
        (f"{CHECKS}a = {{ command = ['x'] }}", "checks.a has the `command` ['x']; a text is expected"),
        (f'{CHECKS}a = {{ command = "x\\u0000" }}', "checks.a has the `command` 'x\\x00'; a text is expected"),
        (f"{CHECKS}'A b' = {{ command = 'x' }}", "checks.A b is no name"),
        (f"{CHECKS}{'a' * 65} = {{ command = 'x' }}", "is no name"),
        (f"{CHECKS}build = {{ command = 'x' }}", "checks.build is the name of a check that is always made"),
        (f"{CHECKS}graph-tests = {{ command = 'x' }}", "checks.graph-tests has `command`"),
        (f"{CHECKS}graph-tests = {{ required = 1 }}", "checks.graph-tests has the `required` 1"),
        (f"{CHECKS}a = {{ command = 'x', timeout = 0 }}", "checks.a has the `timeout` 0"),
        (f"{CHECKS}a = {{ command = 'x', timeout = true }}", "checks.a has the `timeout` True"),
        (f"{CHECKS}a = {{ command = 'x', timeout = inf }}", "checks.a has the `timeout` inf"),
        (f"{CHECKS}a = {{ command = 'x', timeout = nan }}", "checks.a has the `timeout` nan"),
        (f"{CHECKS}a = {{ command = 'x', timeout = '1' }}", "checks.a has the `timeout` '1'"),
        (f"{CHECKS}a = {{ command = 'x', cwd = '..' }}", "checks.a has a `cwd` that does not lie in the source"),
        (f"{CHECKS}a = {{ command = 'x', cwd = '/x' }}", "checks.a has a `cwd` that does not lie in the source"),
        (f"{CHECKS}a = {{ command = 'x', cwd = 1 }}", "checks.a has the `cwd` 1"),
        (f"{ACCEPTED}path = 'a'\nkind = 'k'", "number 1, lacks its `reason`"),
        (f"{ACCEPTED}path = 'a'\nreason = 'k'", "number 1, lacks its `kind`"),
        (
            f"{ACCEPTED}path = '../a'\nkind = 'k'\nreason = 'r'",
            "number 1, has a `path` that does not lie in the source",
        ),
        (f"{ACCEPTED}path = 'a'\nkind = 'k'\nreason = 'r'\nsha256 = 'x'", "number 1, has a `sha256`"),
        (f"{ACCEPTED}secret = 'a'", "number 1, has `secret`"),
    ],
)
def test_faults(text: str, told: str) -> None:
    (message,) = refused(text)
    assert message.startswith("pyproject.toml: [tool.agent-bundler] ")
    assert told in message


def test_all_faults_are_told_together() -> None:
    assert len(refused(f"{CHECKS}a = 1\nb = 2\n{ACCEPTED}x = 1\n")) == 3


def test_what_is_no_toml() -> None:
    with pytest.raises(BundlerError) as caught:
        read("[tool")
    assert caught.value.code == "parse-failed"
