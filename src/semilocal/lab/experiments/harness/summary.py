"""What all figure modules share: the options of a reproduction, and how trials become rows, a summary and two CSVs.

Knows the runner, folders and the promises of methods. Draws nothing.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....errors import InvalidInput
from ....io.files import write_text
from ....protocol.promise import Guarantee
from ..datasets import load as data
from ..methods import Purpose, crowd_kept, promise_of
from ..trials import FACTS
from .report import Claim, FigureReport, Line
from .runner import Work, run, source_version
from .trial import Row, Scalar, Trial

if TYPE_CHECKING:
    from .runner import Result

__all__ = [
    "Experiment", "FigureOptions", "Gathered", "Output", "gather", "line_of", "lines", "present", "select",
    "stamped", "summarise", "table", "write_csv",
]  # fmt: skip


@dataclass(frozen=True)
class FigureOptions:
    """What the user asked for.

    Attributes
    ----------
    runs : int
        Repeats of every trial; figures that the paper repeats less often, or that are our own, may take fewer.
    seed : int
        The same seed gives the same CSV to the last digit.
    out : Path
        Where pictures, tables, the report and the cache go.
    data : Path or None
        The data folder; the one that SEMILOCAL_DATA names if None.
    quick : bool
        Few repeats and fewer points on the axes: to see that all works.
    workers : int or None
        Processes; all cores if None, none at all if 0.
    show : bool
        Whether to show progress.
    """

    runs: int = 60
    seed: int = 1
    out: Path = Path("results")
    data: Path | None = None
    quick: bool = False
    workers: int | None = None
    show: bool = True

    def repeats(self, *, quick: int, most: int | None = None) -> int:
        """Return how often to repeat a trial, when a quick look takes `quick` and more than `most` is never useful."""
        return min(self.runs, quick if self.quick else self.runs, most or self.runs)


@dataclass(frozen=True)
class Output:
    """What an experiment made: sections of the report, claims for its table, and lines to print."""

    figures: tuple[FigureReport, ...] = ()
    claims: tuple[Claim, ...] = ()
    text: str = ""


@dataclass(frozen=True)
class Experiment:
    """An entry of the registry.

    Attributes
    ----------
    name : str
        What the user types.
    labels : tuple of str
        The paper's labels of its figures, which the user may type as well.
    title : str
    """

    name: str
    labels: tuple[str, ...]
    title: str

    def make(self, options: FigureOptions) -> Output:
        """Load its module, and write its files into ``options.out``; one without labels draws no figure."""
        home = "figures." if self.labels else ""
        output: Output = import_module(f"semilocal.lab.experiments.{home}{self.name}").make(options)
        return output


@dataclass(frozen=True)
class Gathered:
    """Rows of all trials, their summary per group, and what it took."""

    rows: tuple[Row, ...]
    summary: tuple[dict[str, Any], ...]
    seconds: float
    version: str
    csv: str


def gather(
    name: str, trials: Sequence[Trial], work: Work, options: FigureOptions, *, by: Sequence[str], of: Sequence[str]
) -> Gathered:
    """Compute the trials, and write ``name.csv`` (one row per group) and ``name_runs.csv`` (one row per trial).

    Parameters
    ----------
    name : str
        Of the figure; names the files.
    by : sequence of str
        Columns that make a group, besides those that are the same in all rows.
    of : sequence of str
        Columns that get mean, standard deviation and 95 % confidence interval. Of the facts about regions the
        summary holds the mean.
    """
    version = source_version(work)
    folder = options.out / "cache"
    results = run(trials, work, folder=folder, workers=options.workers, version=version, label=name, show=options.show)
    rows = table(results, version=version)
    summary = summarise(rows, by=by, of=of)
    first = {key: rows[0][key] for key in ("version", "figure", "seed")}
    members_of: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        members_of.setdefault(tuple(row[key] for key in by), []).append(row)
    for group in summary:
        members = members_of[tuple(group[key] for key in by)]
        for fact in FACTS:
            values = [float(row[fact]) for row in members if row.get(fact) is not None]
            group[fact] = sum(values) / len(values) if values else None
    full = [{**first, **group} for group in summary]
    write_csv(options.out / f"{name}.csv", full)
    write_csv(options.out / f"{name}_runs.csv", rows)
    seconds = sum(result.seconds for result in results)
    return Gathered(tuple(rows), tuple(summary), seconds, version, f"{name}.csv")


def stamped(rows: Sequence[Mapping[str, Any]], options: FigureOptions) -> list[dict[str, Any]]:
    """Return the rows with the version of the code and the seed in front."""
    first = {"version": source_version(), "seed": options.seed}
    return [{**first, **row} for row in rows]


def select(rows: Sequence[Mapping[str, Any]], **wanted: Any) -> list[Mapping[str, Any]]:
    """Return the rows whose columns have the wanted values, in their order.

    Examples
    --------
    >>> select([{"n": 1, "x": 3}, {"n": 2, "x": 4}], n=2)
    [{'n': 2, 'x': 4}]
    """
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def present(names: Sequence[str], folder: Path | None) -> tuple[dict[str, str], dict[str, str]]:
    """Return the datasets that can be read, with their fingerprints, and for the others what is missing."""
    available: dict[str, str] = {}
    missing: dict[str, str] = {}
    for name in names:
        try:
            available[name] = data.load(name, folder).fingerprint
        except InvalidInput as error:
            missing[name] = str(error)
    return available, missing


def line_of(method: str, guarantee: Guarantee, rows: Sequence[Mapping[str, Any]], *notes: str) -> Line:
    """Return a row of a figure's table: a promise, and the shares below k averaged over groups that have regions."""
    cells = guarantee.row()
    return Line(
        method,
        epsilon=guarantee.cost("ε"),
        adjacency=cells["between"],
        delta=cells["delta"],
        crowd=crowd_kept(guarantee),
        regions_below=_average(rows, "regions_below"),
        participants_below=_average(rows, "participants_below"),
        note="; ".join([*guarantee.notes, *notes]),
    )


def lines(summary: Sequence[Mapping[str, Any]], purpose: Purpose) -> tuple[Line, ...]:
    """Return the table of a figure's methods."""
    out = []
    for method in dict.fromkeys(row["method"] for row in summary):
        guarantee = promise_of(method, purpose)
        rows = [row for row in summary if row["method"] == method and row["regions"] is not None]
        parts = [f"{what} {loss:g} ε" for what, loss in guarantee.releases]
        if parts and guarantee.epsilon is not None:
            partition = guarantee.epsilon - sum(loss for _, loss in guarantee.releases)
            parts.append(f"partition {partition:g} ε")
        out.append(line_of(method, guarantee, rows, *parts))
    return tuple(out)


def _average(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    return sum(float(row[name]) for row in rows) / len(rows) if rows else None


# -- rows of results: flat tables, summaries with intervals, CSV files -----------------------------------------------


def table(results: Sequence[Result], *, version: str) -> list[dict[str, Scalar]]:
    """Return flat rows: version, figure, method, parameters, seed, run, and then what the trial gave.

    How long a trial took is left out: it would differ each time.
    """
    return [
        {
            "version": version,
            "figure": result.trial.figure,
            "method": result.trial.method,
            **dict(result.trial.parameters),
            "seed": result.trial.seed,
            "run": result.trial.run,
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
    write_text(path, text.getvalue())
    return path


def _spread(values: Sequence[float], level: float) -> tuple[float, float, float]:
    """Return mean, standard deviation (n − 1) and half the width of the interval."""
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return mean, math.nan, math.nan
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    from scipy.stats import t

    return mean, deviation, float(t.ppf(0.5 + level / 2, n - 1)) * deviation / math.sqrt(n)
