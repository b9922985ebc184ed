"""The checks that are always made: what each one expects, why it usually fails, and what helps."""

from __future__ import annotations

from dataclasses import dataclass

from .evidence import Kind

GRAPH_TESTS = "graph-tests"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a check expects, and the likely cause where it is not so.

    `remedies` are for what its tool is known to say: a part of that, and what helps. The first one found counts.
    """

    expected: str
    cause: str
    kind: Kind = "library"
    remedies: tuple[tuple[str, str], ...] = ()

    def remedy(self, said: str) -> str | None:
        """What helps where a tool said this; None for what is not known."""
        return next((remedy for part, remedy in self.remedies if part in said), None)


#: What helps where a build is not the same again.
DIFFERS = (
    "find what changes from build to build: files that are written while the checks run, or file names that only one "
    "locale can hold"
)
_MODULE = ("No module named", "reinstall agent-graph-bundler: a library that belongs to it is missing")
_FULL = ("No space left", "free space on the disk")

#: By name, in the order in which they are made.
BUILT_IN = {
    "validate": Expectation(
        expected="the Provider loads, and every rule of the protocol holds",
        cause="a file does not say what the protocol asks for",
    ),
    GRAPH_TESTS: Expectation(
        expected="every graph test passes",
        cause="a Graph was changed and its tests were not, or the change was not meant",
    ),
    "build": Expectation(
        expected="the bundle is built and verifies",
        cause="a file is missing, has a name that some system cannot hold, or holds the path of the source folder",
    ),
    "wheel": Expectation(
        expected="the wheel is built from the bundle",
        cause="a setting in [tool.agent-bundler] does not fit, or the version has no counterpart in Python",
    ),
    "sdist": Expectation(
        expected="the sdist is built from the source",
        cause="the pyproject.toml names another build backend, or says otherwise than what was built",
    ),
    "rebuild": Expectation(
        expected="another process, with other settings of the system, builds the same bundle",
        cause="the source was changed meanwhile, or the bundle depends on the machine",
        kind="tool",
        remedies=(_MODULE, _FULL, ("build-output-differs", DIFFERS)),
    ),
    "rebuild-wheel": Expectation(
        expected="another process, with other settings of the system, builds the same wheel, byte by byte",
        cause="the source was changed meanwhile, or the wheel depends on the machine",
        kind="tool",
        remedies=(_MODULE, _FULL),
    ),
    "wheel-verify": Expectation(
        expected="the wheel file verifies, and holds the bundle that was built",
        cause="something changed the wheel after it was built",
    ),
    "wheel-check": Expectation(
        expected="twine finds nothing that an index would refuse or show badly",
        cause="the readme has a fault",
        kind="tool",
        remedies=(
            _MODULE,
            ("long_description", "correct the readme that [tool.agent-bundler] names: an index would not show it"),
        ),
    ),
    "environment": Expectation(
        expected="a fresh virtual environment can be made",
        cause="this Python was installed without what makes virtual environments",
        kind="tool",
        remedies=(
            ("ensurepip", "install the part of Python that makes virtual environments (on Debian: python3-venv)"),
            ("No module named venv", "install the part of Python that makes virtual environments"),
            _FULL,
        ),
    ),
    "install": Expectation(
        expected="pip installs the wheel by its hash, and nothing else",
        cause="the wheel is not for this Python",
        kind="tool",
        remedies=(
            (
                "requires a different Python",
                "correct requires-python in [tool.agent-bundler], or run the checks with a Python that it admits",
            ),
            ("DO NOT MATCH THE HASHES", "run the checks again while nothing changes the work folder"),
            _FULL,
        ),
    ),
    "verify-installed": Expectation(
        expected="the installed Provider opens, verified, and is the bundle that was built",
        cause="an installer changes what the wheel holds",
    ),
    "secrets": Expectation(
        expected="nothing that is released looks like a secret, but what is accepted by name",
        cause="a key, password or token was left in a file",
    ),
}

#: What is expected of a command of the project's own.
OF_PROJECT = Expectation(
    expected="the command ends with exit status 0",
    cause="the command tells it: its output is in the evidence",
    kind="project",
    remedies=(
        ("not found", "install the program that is missing, or correct `command` in [tool.agent-bundler.checks]"),
        ("Permission denied", "make the program executable (chmod +x), or name what runs it"),
        _FULL,
    ),
)


def expectation(check: str) -> Expectation:
    """That of a check by its name."""
    return BUILT_IN.get(check, OF_PROJECT)
