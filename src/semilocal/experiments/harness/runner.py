"""Runs a grid of independent cells on all cores, remembers every result, and sums them up.

Knows cells, processes, a cache folder and tables. Must not know what a cell computes. A cell's randomness
comes from its identity (figure, method, parameters, seed, run) and from nothing else: not from the order, the
number of workers or what was cached. So a seed gives the same rows to the last digit, and an interrupted run
goes on where it stopped.
"""

from __future__ import annotations

import concurrent.futures
import csv
import functools
import hashlib
import inspect
import io
import json
import math
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

from ...errors import InvalidInput
from ...io.progress import Progress

__all__ = ["Cell", "Result", "run", "source_version", "stream", "summarise", "table", "write_csv"]

Scalar = str | int | float | bool | None
Row = Mapping[str, Scalar]
Work = Callable[["Cell"], Sequence[Mapping[str, Any]]]

# These modules draw, talk or serve: they cannot change a number, so a change in them keeps cached results
# valid.
CANNOT_CHANGE_NUMBERS = (
    "cli/",
    "io/progress.py",
    "audit/",
    "page/",
    "sklearn.py",
    "service/",
    "device/",
    "engines/",
    "experiments/",
)
# Of the experiments, the module of the work itself counts, and these, which it draws its data from.
DRAWS_DATA = ("experiments/datasets/", "experiments/methods.py", "experiments/workloads.py")
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Cell:
    """One independent piece of work.

    Attributes
    ----------
    figure, method : str
        What it belongs to.
    parameters : tuple of (str, scalar)
        Sorted by name; see `Cell.of`.
    seed, run : int
        The seed of the whole experiment, and which repeat this is.
    """

    figure: str
    method: str
    parameters: tuple[tuple[str, Scalar], ...]
    seed: int
    run: int

    @classmethod
    def of(cls, figure: str, method: str, *, seed: int, run: int, **parameters: Scalar) -> Cell:
        """Make a cell from named parameters.

        Examples
        --------
        >>> cell = Cell.of("fig:mse", "ldp", seed=1, run=0, n=2000, epsilon=0.5)
        >>> cell["epsilon"], cell.label
        (0.5, 'fig:mse ldp epsilon=0.5 n=2000 seed=1 run=0')
        """
        taken = {"version", "figure", "method", "seed", "run"} & set(parameters)
        if taken:
            raise InvalidInput(f"a parameter cannot be called {sorted(taken)[0]!r}; the cell has that already")
        return cls(figure, method, tuple(sorted(parameters.items())), seed, run)

    def __getitem__(self, name: str) -> Any:
        return dict(self.parameters)[name]

    @property
    def label(self) -> str:
        """The cell in one line, for people."""
        named = " ".join(f"{name}={value}" for name, value in self.parameters)
        return f"{self.figure} {self.method} {named} seed={self.seed} run={self.run}"

    def rng(self) -> np.random.Generator:
        """Return the generator of this cell: the same wherever and whenever the cell is computed."""
        return stream(self.figure, self.method, self.parameters, self.seed, self.run)

    def shared_rng(self, *names: str) -> np.random.Generator:
        """Return a generator that depends on the figure, the seed, the run and the named parameters only.

        Methods that draw their population from ``cell.shared_rng("n")`` all see the same people.
        """
        chosen = tuple((name, self[name]) for name in sorted(names))
        return stream("shared", self.figure, chosen, self.seed, self.run)

    def key(self, version: str) -> str:
        """Return the name of this cell's result in the cache: 64 hexadecimal digits."""
        return _digest([version, self.figure, self.method, self.parameters, self.seed, self.run]).hex()


@dataclass(frozen=True)
class Result:
    """What a cell gave: its rows, how long it took, and whether it came from the cache."""

    cell: Cell
    rows: tuple[Row, ...]
    seconds: float
    cached: bool


def stream(*identity: Any) -> np.random.Generator:
    """Return a generator that depends on the identity (strings, numbers, tuples of them) and on nothing else.

    Examples
    --------
    >>> stream("a", 1).random() == stream("a", 1).random()
    True
    >>> stream("a", 1).random() == stream("a", 2).random()
    False
    """
    words = np.frombuffer(_digest(list(identity)), dtype="<u4")
    return np.random.default_rng(np.random.SeedSequence([int(word) for word in words]))


def run(
    cells: Sequence[Cell],
    work: Work,
    *,
    folder: str | Path,
    workers: int | None = None,
    version: str | None = None,
    label: str = "",
    show: bool = True,
) -> list[Result]:
    """Compute all cells that are not in the cache, and return the results in the order of `cells`.

    Parameters
    ----------
    cells : sequence of Cell
        All different.
    work : callable
        A function of a module (processes import it by name): takes a cell, returns rows of scalars.
    folder : str or Path
        Where results are kept: one file of JSON lines per figure, one line per cell, appended as soon as it
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
        If a cell fails, with its label; what was finished stays in the cache.
    """
    version = source_version(work) if version is None else version
    if len(set(cells)) != len(cells):
        raise InvalidInput("two cells are the same; give every repeat its own run number")
    if workers is not None and workers < 0:
        raise InvalidInput(f"workers must be at least 0; got {workers}")
    keys = {cell: cell.key(version) for cell in cells}
    cache = _Cache(Path(folder))
    known = cache.read({cell.figure for cell in cells})
    missing = [cell for cell in cells if keys[cell] not in known]
    with Progress(len(cells), label or "cells", done=len(cells) - len(missing), show=show) as bar:
        for cell, rows, seconds in _compute(missing, work, _processes(workers, len(missing))):
            known[keys[cell]] = cache.append(cell, keys[cell], rows, seconds)
            bar.advance()
    fresh = set(missing)
    return [
        Result(cell, tuple(known[keys[cell]]["rows"]), float(known[keys[cell]]["seconds"]), cell not in fresh)
        for cell in cells
    ]


def source_version(work: Work | None = None) -> str:
    """Return the version of the package with a digest of all source that can change a number.

    Parameters
    ----------
    work : callable, optional
        The function that computes the cells; its module counts too.

    Notes
    -----
    A result in the cache is used again only if nothing changed that it could depend on. The digest stands in
    every CSV row, after the ``+``.
    """
    home = Path(__file__).resolve().parents[2]  # all of the package
    files = [
        path
        for path in sorted(home.rglob("*.py"))
        if (name := path.relative_to(home).as_posix()).startswith(DRAWS_DATA)
        or not name.startswith(CANNOT_CHANGE_NUMBERS)
    ]
    own = inspect.getsourcefile(inspect.unwrap(work)) if work is not None else None
    if own is not None and Path(own).resolve() not in files:
        files.append(Path(own).resolve())
    hashed = hashlib.sha256()
    for path in files:
        hashed.update(hashlib.sha256(path.read_bytes()).digest())
    return f"{metadata.version('semilocal')}+{hashed.hexdigest()[:12]}"


def table(results: Sequence[Result], *, version: str) -> list[dict[str, Scalar]]:
    """Return flat rows: version, figure, method, parameters, seed, run, and then what the cell gave.

    How long a cell took is left out: it would differ each time.
    """
    return [
        {
            "version": version,
            "figure": result.cell.figure,
            "method": result.cell.method,
            **dict(result.cell.parameters),
            "seed": result.cell.seed,
            "run": result.cell.run,
            **row,
        }
        for result in results
        for row in result.rows
    ]


def summarise(
    rows: Sequence[Row], *, by: Sequence[str], of: Sequence[str], level: float = 0.95
) -> list[dict[str, Scalar]]:
    """Return mean, standard deviation and confidence interval of the mean for each group of rows.

    Parameters
    ----------
    rows : sequence of mappings
        As from `table`.
    by : sequence of str
        Columns that make a group; groups come in the order of their first row.
    of : sequence of str
        Columns of numbers to sum up; ``x`` gives ``x_mean``, ``x_std``, ``x_low``, ``x_high``.
    level : float
        Of the two-sided interval of Student's t. With one run the interval is NaN: one number says nothing
        about it.

    Examples
    --------
    >>> rows = [{"method": "ldp", "mse": value} for value in (1.0, 2.0, 3.0)]
    >>> [found] = summarise(rows, by=["method"], of=["mse"])
    >>> found["runs"], found["mse_mean"], round(found["mse_low"], 3), round(found["mse_high"], 3)
    (3, 2.0, -0.484, 4.484)
    """
    if not 0 < level < 1:
        raise InvalidInput(f"level must be between 0 and 1; got {level}")
    groups: dict[tuple[Scalar, ...], list[Row]] = {}
    for row in rows:
        lacking = [name for name in (*by, *of) if name not in row]
        if lacking:
            raise InvalidInput(f"a row has no column {lacking[0]!r}; it has {', '.join(row)}")
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    found: list[dict[str, Scalar]] = []
    for group, members in groups.items():
        line: dict[str, Scalar] = dict(zip(by, group, strict=True))
        line["runs"] = len(members)
        for name in of:
            values = [float(row[name]) for row in members]  # type: ignore[arg-type]
            mean, deviation, half = _spread(values, level)
            line |= {f"{name}_mean": mean, f"{name}_std": deviation, f"{name}_low": mean - half}
            line[f"{name}_high"] = mean + half
        found.append(line)
    return found


def write_csv(path: str | Path, rows: Sequence[Row]) -> Path:
    """Write rows as CSV: every number with all its digits, the same bytes for the same rows, complete or not
    at all.

    Rows may have different columns; a column that a row lacks is left empty.
    """
    path = Path(path)
    if not rows:
        raise InvalidInput(f"{path}: there are no rows to write")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(text.getvalue(), encoding="utf-8", newline="\n")
    os.replace(part, path)
    return path


class _Cache:
    """JSON lines, one file per figure; a line that was cut off by a crash is not there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def read(self, figures: set[str]) -> dict[str, dict[str, Any]]:
        known: dict[str, dict[str, Any]] = {}
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
                known[entry["key"]] = entry
        return known

    def append(self, cell: Cell, key: str, rows: Sequence[Mapping[str, Any]], seconds: float) -> dict[str, Any]:
        entry = {"key": key, "cell": cell.label, "seconds": seconds, "rows": [_plain(row) for row in rows]}
        line = (json.dumps(entry) + "\n").encode()
        # One write to a file opened for appending: another run on the same folder cannot come in between.
        file = os.open(self._path(cell.figure), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
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
    cells: Sequence[Cell], work: Work, processes: int
) -> Iterator[tuple[Cell, Sequence[Mapping[str, Any]], float]]:
    """Yield results as they come, in any order."""
    timed = functools.partial(_timed, work)
    if processes == 0:
        for cell in cells:
            yield cell, *timed(cell)
        return
    # Fresh processes: a forked one could inherit locks of a numerical library in the middle of its work.
    context = multiprocessing.get_context("spawn")
    with _one_thread_each():
        pool = concurrent.futures.ProcessPoolExecutor(processes, mp_context=context, initializer=_leave_interrupts)
        try:
            asked = {pool.submit(timed, cell): cell for cell in cells}
            for future in concurrent.futures.as_completed(asked):
                yield asked[future], *future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _timed(work: Work, cell: Cell) -> tuple[Sequence[Mapping[str, Any]], float]:
    start = time.perf_counter()
    try:
        rows = work(cell)
    except Exception as error:
        raise RuntimeError(f"{cell.label} failed: {type(error).__name__}: {error}") from error
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


def _spread(values: Sequence[float], level: float) -> tuple[float, float, float]:
    """Return mean, standard deviation (n − 1) and half the width of the interval."""
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return mean, math.nan, math.nan
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    from scipy.stats import t

    return mean, deviation, float(t.ppf(0.5 + level / 2, n - 1)) * deviation / math.sqrt(n)


def _digest(identity: Any) -> bytes:
    """Return the SHA-256 of the identity's canonical JSON; a float and the equal integer are the same."""
    return hashlib.sha256(json.dumps(_canonical(identity), sort_keys=True, allow_nan=False).encode()).digest()


def _canonical(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_canonical(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    # epsilon=1 and epsilon=1.0 must not be two experiments
    return int(value) if isinstance(value, float) and value.is_integer() else value
