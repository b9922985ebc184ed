"""Run a command line: in this process for speed, or as a user would."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from bundler.cli.main import run


@dataclass(frozen=True, slots=True)
class Result:
    """What a command line answered."""

    status: int
    out: str
    err: str


def agent_bundler(*arguments: str) -> Result:
    """The command in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        status = run(list(arguments))
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return Result(status, *texts)


def in_process(*arguments: str, cwd: Path | None = None, **environment: str) -> Result:
    """The command as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", "from bundler.cli.main import main; main()", *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        check=False,
        timeout=120,
    )
    return Result(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
