"""Runs a grid of independent trials on all cores, and remembers every result.

Knows trials, processes and a cache folder. Knows no method. A seed gives the same rows to the last digit, and an
interrupted run goes on where it stopped.
"""

from __future__ import annotations

import concurrent.futures
import functools
import hashlib
import inspect
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from ....errors import InvalidInput
from ....io.progress import Progress
from .trial import Row, Scalar, Trial

__all__ = ["Result", "Work", "run", "source_version", "sources"]

Work = Callable[[Trial], Sequence[Mapping[str, Any]]]

ROOT = Path(__file__).resolve().parents[3]
# Packages that no trial depends on; nor does one depend on a picture.
APART = {"cli", "device", "page", "service", "testing", "transcript"}
PICTURES = {"audit", "figures", "panels.py", "report.py", "style.py", "summary.py"}
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Result:
    """What a trial gave: its rows, how long it took, and whether it came from the cache."""

    trial: Trial
    rows: tuple[Row, ...]
    seconds: float
    cached: bool


def run(
    trials: Sequence[Trial],
    work: Work,
    *,
    folder: str | Path,
    workers: int | None = None,
    version: str | None = None,
    label: str = "",
    show: bool = True,
) -> list[Result]:
    """Compute all trials that are not in the cache, and return the results in the order of `trials`.

    Parameters
    ----------
    trials : sequence of Trial
        All different.
    work : callable
        A function of a module (processes import it by name): takes a trial, returns rows of scalars.
    folder : str or Path
        Where results are kept: one file of JSON lines per figure, one line per trial, appended as soon as it
        is known.
    workers : int, optional
        Processes; all cores if left out. 0 computes in this process (for a debugger), with the same
        generators.
    version : str, optional
        Results of another version are not used; `source_version(work)` if left out.
    label : str
        What the progress bar is called.

    Raises
    ------
    RuntimeError
        If a trial fails, with its label; what was finished stays in the cache.
    """
    version = source_version(work) if version is None else version
    if len(set(trials)) != len(trials):
        raise InvalidInput("two trials are the same; give every repeat its own run number")
    if workers is not None and workers < 0:
        raise InvalidInput(f"workers must be at least 0; got {workers}")
    keys = {trial: trial.key(version) for trial in trials}
    cache = _Cache(Path(folder))
    cached = cache.read({trial.figure for trial in trials})
    missing = [trial for trial in trials if keys[trial] not in cached]
    with Progress(len(trials), label or "trials", done=len(trials) - len(missing), show=show) as bar:
        for trial, rows, seconds in _compute(missing, work, _processes(workers, len(missing))):
            cached[keys[trial]] = cache.append(trial, keys[trial], rows, seconds)
            bar.advance()
    fresh = set(missing)
    return [
        Result(trial, tuple(cached[keys[trial]]["rows"]), float(cached[keys[trial]]["seconds"]), trial not in fresh)
        for trial in trials
    ]


@functools.cache
def sources() -> dict[str, bytes]:
    """SHA-256 of every file of the package that a trial can depend on, by its path in it."""
    paths = {path.relative_to(ROOT): path for path in sorted(ROOT.rglob("*.py"))}
    chosen = {inside: path for inside, path in paths.items() if inside.parts[0] not in APART}
    return {
        inside.as_posix(): hashlib.sha256(path.read_bytes()).digest()
        for inside, path in chosen.items()
        if PICTURES.isdisjoint(inside.parts)
    }


def source_version(work: Callable[..., Any] | None = None) -> str:
    """Return the version of the package with a digest of its sources, and of the file of ``work`` if that is elsewhere.

    A result in the cache is used again only if nothing changed that it could depend on. The digest is in every CSV row,
    after the ``+``.
    """
    hashed = hashlib.sha256(b"".join(sources().values()))
    if work is not None:
        file = inspect.getsourcefile(inspect.unwrap(work.func if isinstance(work, functools.partial) else work))
        if file is not None and ROOT not in (path := Path(file).resolve()).parents:
            hashed.update(path.read_bytes())
    return f"{metadata.version('semilocal')}+{hashed.hexdigest()[:12]}"


class _Cache:
    """JSON lines, one file per figure; a line that was cut off by a crash is not there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def read(self, figures: set[str]) -> dict[str, dict[str, Any]]:
        rows: dict[str, dict[str, Any]] = {}
        for figure in figures:
            path = self._path(figure)
            if not path.exists():
                continue
            content = path.read_bytes()
            whole = content[: content.rfind(b"\n") + 1]
            if len(whole) < len(content):
                os.truncate(path, len(whole))
            for line in whole.splitlines():
                entry = json.loads(line)
                rows[entry["key"]] = entry
        return rows

    def append(self, trial: Trial, key: str, rows: Sequence[Mapping[str, Any]], seconds: float) -> dict[str, Any]:
        entry = {"key": key, "trial": trial.label, "seconds": seconds, "rows": [_plain(row) for row in rows]}
        line = (json.dumps(entry) + "\n").encode()
        # One write to a file opened for appending: another run on the same folder cannot come in between.
        file = os.open(self._path(trial.figure), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, line)
        finally:
            os.close(file)
        # Back through JSON, so that a fresh result and a cached one are the same to the last digit.
        loaded: dict[str, Any] = json.loads(line)
        return loaded

    def _path(self, figure: str) -> Path:
        safe = "".join(letter if letter.isalnum() else "-" for letter in figure)
        return self._folder / f"{safe}.jsonl"


def _compute(
    trials: Sequence[Trial], work: Work, processes: int
) -> Iterator[tuple[Trial, Sequence[Mapping[str, Any]], float]]:
    """Yield results as they come, in any order."""
    timed = functools.partial(_timed, work)
    if processes == 0:
        for trial in trials:
            yield trial, *timed(trial)
        return
    # Fresh processes: a forked one could inherit locks of a numerical library in the middle of its work.
    context = multiprocessing.get_context("spawn")
    with _one_thread_each():
        pool = concurrent.futures.ProcessPoolExecutor(processes, mp_context=context, initializer=_leave_interrupts)
        try:
            asked = {pool.submit(timed, trial): trial for trial in trials}
            for future in concurrent.futures.as_completed(asked):
                yield asked[future], *future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _timed(work: Work, trial: Trial) -> tuple[Sequence[Mapping[str, Any]], float]:
    start = time.perf_counter()
    try:
        rows = work(trial)
    except Exception as error:
        raise RuntimeError(f"{trial.label} failed: {type(error).__name__}: {error}") from error
    return rows, time.perf_counter() - start


def _leave_interrupts() -> None:
    """Let the parent alone answer Ctrl-C: it stops the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Give each worker one thread of the numerical libraries: cores are not fought over, sums have one
    order."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _processes(workers: int | None, jobs: int) -> int:
    wanted = (os.cpu_count() or 1) if workers is None else workers
    return min(wanted, jobs)


def _plain(row: Mapping[str, Any]) -> dict[str, Scalar]:
    """Return the row with plain Python scalars."""
    plain: dict[str, Scalar] = {}
    for name, value in row.items():
        scalar = value.item() if isinstance(value, np.generic) else value
        if scalar is not None and not isinstance(scalar, (str, int, float, bool)):
            raise InvalidInput(f"a row holds scalars; {name!r} is a {type(value).__name__}")
        plain[str(name)] = scalar
    return plain
