"""What all experiments share: the options of a reproduction, grids of trials, and how they become a summary and CSVs.

Knows the runner, folders and the promises of methods. Draws nothing.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import InvalidInput
from ...io.files import write_text
from .data import load
from .methods import CROWD, Purpose
from .runner import Row, Scalar, Trial, Work, run, source_version
from .trials import FACTS, MADE, counts_trial


@dataclass(frozen=True)
class FigureOptions:
    """What the user asked for."""

    runs: int = 60  # repeats of every trial; some figures take fewer
    seed: int = 1
    out: Path = Path("results")  # where pictures, tables, the report and the cache go
    data: Path | None = None  # the data folder; the one that SEMILOCAL_DATA names if None
    quick: bool = False  # few repeats and fewer points on the axes: to see that all works
    workers: int | None = None  # processes; all cores if None, none at all if 0
    show: bool = True


@dataclass(frozen=True)
class Gathered:
    """Rows of all trials, their summary per group, and why sources of positions are missing."""

    rows: tuple[Row, ...] = ()
    summary: tuple[dict[str, Any], ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """A grid of trials: every method at every place of the axes, repeated."""

    name: str  # of the files
    work: Work  # what a trial does; it gives the columns ``of``
    methods: tuple[str, ...] | Mapping[str, int]  # a mapping gives each its own k
    axes: Mapping[str, tuple[Any, ...]]  # values of every parameter
    of: tuple[str, ...]  # columns that get mean, standard deviation and interval
    sources: tuple[str, ...] = ()  # datasets, or populations made here; one that is not there is left out
    quick: int = 2  # repeats of a quick look
    most: int | None = None  # repeats that are enough
    quick_axes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # axes of a quick look that are shorter
    by: tuple[str, ...] = ()  # columns of the rows that make groups, besides the parameters
    label: str = ""  # of the figure, as its title
    title: str = ""
    purpose: Purpose = "counts"  # which promise of a method counts
    participants: str = ""  # what stands for one of them
    parameters: Mapping[str, object] = field(default_factory=dict)  # what a reader must know besides the axes

    def repeats(self, options: FigureOptions) -> int:
        """How often every trial is repeated."""
        return min(options.runs, self.quick if options.quick else options.runs, self.most or options.runs)

    def gather(self, options: FigureOptions) -> Gathered:
        """Run the trials on the sources that are there, or read them from the cache.

        Writes ``name.csv`` (one row per group, with the mean of the facts about regions) and ``name_runs.csv`` (one row
        per trial).
        """
        found: dict[str, str] = {}  # the sources that can be read, with their fingerprints
        missing: dict[str, str] = {}
        for name in self.sources:
            try:
                found[name] = "made here" if name in MADE else load(name, options.data).fingerprint
            except InvalidInput as error:
                missing[name] = str(error)
        if missing and not found:
            return Gathered(missing=missing)
        axes = {**self.axes, **(self.quick_axes if options.quick else {})}
        crowds = self.methods if isinstance(self.methods, Mapping) else {}
        grid = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
        places = [{"source": name, "data": data} for name, data in found.items()] if self.sources else [{}]
        trials = [
            Trial.of(
                self.name, method, seed=options.seed, run=run, **where, **{"k": crowds.get(method, CROWD), **place}
            )
            for run in range(self.repeats(options))
            for where in places
            for place in grid
            for method in self.methods
        ]
        work = partial(self.work, data=options.data) if self.work is counts_trial else self.work
        by = ("method", *self.by, *(("source", "data") if self.sources else ()), *dict.fromkeys((*axes, "k")))
        version = source_version(work)
        folder = options.out / "cache"
        found_rows = run(
            trials, work, folder=folder, workers=options.workers, version=version, label=self.name, show=options.show
        )
        rows = table(trials, found_rows, version=version)
        summary = summarise(rows, by=by, of=self.of, facts=FACTS)
        first = {key: rows[0][key] for key in ("version", "figure", "seed")}
        write_csv(options.out / f"{self.name}.csv", [{**first, **group} for group in summary])
        write_csv(options.out / f"{self.name}_runs.csv", rows)
        return Gathered(tuple(rows), tuple(summary), missing)


def select(rows: Sequence[Mapping[str, Any]], **wanted: Any) -> list[Mapping[str, Any]]:
    """The rows whose columns have the wanted values, in their order.

    Examples
    --------
    >>> select([{"n": 1, "x": 3}, {"n": 2, "x": 4}], n=2)
    [{'n': 2, 'x': 4}]
    """
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


# -- rows of results: flat tables, summaries with intervals, CSV files -----------------------------------------------


def table(trials: Sequence[Trial], found: Sequence[Sequence[Row]], *, version: str) -> list[dict[str, Scalar]]:
    """Flat rows: version, figure, method, parameters, seed, run, and then what the trial gave."""
    return [
        {"version": version, "figure": one.figure, "method": one.method, **dict(one.parameters), "seed": one.seed,
         "run": one.run, **row}
        for one, rows in zip(trials, found, strict=True) for row in rows
    ]  # fmt: skip


def summarise(
    rows: Sequence[Row], *, by: Sequence[str], of: Sequence[str], facts: Sequence[str] = ()
) -> list[dict[str, Scalar]]:
    """Mean, standard deviation and 95 % confidence interval of the mean for each group of rows, in their order.

    Columns ``by`` make a group. ``x`` in ``of`` gives ``x_mean``, ``x_std``, ``x_low``, ``x_high``; the interval is
    Student's t, NaN with one run: one number says nothing about it. Of ``facts`` the mean alone is taken, over the rows
    that have them.

    Examples
    --------
    >>> rows = [{"method": "ldp", "mse": value} for value in (1.0, 2.0, 3.0)]
    >>> [found] = summarise(rows, by=["method"], of=["mse"])
    >>> found["runs"], found["mse_mean"], round(found["mse_low"], 3), round(found["mse_high"], 3)
    (3, 2.0, -0.484, 4.484)
    """
    from scipy.stats import t

    groups: dict[tuple[Scalar, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    found: list[dict[str, Scalar]] = []
    for group, members in groups.items():
        line: dict[str, Scalar] = dict(zip(by, group, strict=True))
        line["runs"] = len(members)
        for name in of:
            values = [float(row[name]) for row in members]  # type: ignore[arg-type]
            n, mean, deviation, half = len(values), math.fsum(values) / len(values), math.nan, math.nan
            if n > 1:
                deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
                half = float(t.ppf(0.975, n - 1)) * deviation / math.sqrt(n)
            line |= {f"{name}_mean": mean, f"{name}_std": deviation, f"{name}_low": mean - half}
            line[f"{name}_high"] = mean + half
        found.append({**line, **{fact: average(members, fact) for fact in facts}})
    return found


def average(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """The mean of a column over the rows that have it; None if none has."""
    values = [float(row[name]) for row in rows if row.get(name) is not None]
    return sum(values) / len(values) if values else None


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as CSV: every number with all its digits, the same bytes for the same rows, complete or not at all.

    Rows may have different columns; a column that a row lacks is left empty.
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text.getvalue())
