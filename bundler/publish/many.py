"""Releases of many sources: workers check and build, the caller signs and publishes. No key leaves the caller."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from multiprocessing import get_context

from ..errors import BundlerError
from ..trust.policy import TrustPolicy
from ..trust.signing import Signer
from ..wheel.working import working_folder
from .checks import run_checks
from .index import FolderIndex
from .record import Release
from .release import Prepared, complete, prepared, work_folder
from .targets import Published, Target, publish_all


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a source: its release, and where that was published; `error` is what ended it."""

    source: str
    release: Release | None = None
    published: tuple[Published, ...] = ()
    error: BundlerError | None = None


def release_many(
    sources: Iterable[str | os.PathLike[str]],
    output: str | os.PathLike[str] = "dist",
    *,
    executor: Executor | None = None,
    signer: Signer | None = None,
    policy: TrustPolicy | None = None,
    index: FolderIndex | None = None,
    targets: Sequence[Target] = (),
    progress: Callable[[Outcome], object] = lambda outcome: None,
) -> list[Outcome]:
    """Release each source into `output`, and publish it; whatever becomes of one, the others go on. In their order.

    `executor` runs `check_source`, by default in a process for each processor; its workers have to see sources and
    `output` under the same paths. `progress` is called with each outcome. Raises `output-write-failed` for `output`.
    """
    places = [os.path.abspath(os.fspath(source)) for source in sources]
    folder = os.path.abspath(os.fspath(output))
    outcomes = []

    def finish(source: str, future: Future[Prepared]) -> Outcome:
        try:
            made = complete(_result(future), folder, signer=signer, policy=policy, index=index)
        except BundlerError as error:
            return Outcome(source=source, error=error)
        published, errors = publish_all(made, targets)
        return Outcome(
            source=source,
            release=made,
            published=tuple(published),
            error=BundlerError.of(errors) if errors else None,
        )

    with working_folder(folder) as work, ExitStack() as stack:
        # A forked worker would have the key in its memory; a new process has nothing of ours.
        pool = executor or stack.enter_context(ProcessPoolExecutor(mp_context=get_context("spawn")))
        futures = [
            pool.submit(check_source, each, folder, str(work / str(number))) for number, each in enumerate(places)
        ]
        stack.callback(_cancel, futures)
        for source, future in zip(places, futures, strict=True):
            outcomes.append(finish(source, future))
            progress(outcomes[-1])
    return outcomes


def check_source(source: str, output: str, folder: str) -> Prepared:
    """Make every check of a source, and leave wheel and sdist in `folder`, which is made. Raises what `run_checks` does."""
    with run_checks(source, work_folder(source, output)) as checked:
        built = prepared(source, output, checked)
        os.makedirs(folder)
        moved = [os.path.join(folder, os.path.basename(path)) for path in (built.wheel, built.sdist)]
        for path, place in zip((built.wheel, built.sdist), moved, strict=True):
            os.replace(path, place)
        return replace(built, wheel=moved[0], sdist=moved[1])


def _result(future: Future[Prepared]) -> Prepared:
    try:
        return future.result()
    except BundlerError:
        raise
    except Exception as error:  # of a worker that was killed, or of somebody's cluster
        message = f"the worker that checked it ended: {type(error).__name__}: {error}"
        raise BundlerError("environment-failed", message, hint="try again; see what ended it") from None


def _cancel(futures: Sequence[Future[Prepared]]) -> None:
    for future in futures:
        future.cancel()
