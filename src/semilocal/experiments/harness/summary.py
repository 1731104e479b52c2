"""What all figure modules share: the options of a reproduction, and how trials become rows, a summary and two CSVs.

Knows the runner and folders. Must not know mechanisms or pictures.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import InvalidInput
from ..datasets import load as data
from ..trials import FACTS
from .report import Claim, FigureReport
from .runner import Cell, Row, Work, run, source_version, summarise, table, write_csv

__all__ = ["Experiment", "Gathered", "Made", "Options", "data_named", "gather", "present", "select", "stamped"]


@dataclass(frozen=True)
class Options:
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
class Made:
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
    make : callable
        Takes `Options`, writes its files into ``options.out`` and returns a `Made`.
    """

    name: str
    labels: tuple[str, ...]
    title: str
    make: Callable[[Options], Made]


@dataclass(frozen=True)
class Gathered:
    """Rows of all trials, their summary per group, and what it took."""

    rows: tuple[Row, ...]
    summary: tuple[dict[str, Any], ...]
    seconds: float
    version: str
    csv: str


def gather(
    name: str,
    cells: Sequence[Cell],
    work: Work,
    options: Options,
    *,
    by: Sequence[str],
    of: Sequence[str],
) -> Gathered:
    """Compute the cells, and write ``name.csv`` (one row per group) and ``name_runs.csv`` (one row per trial).

    Parameters
    ----------
    name : str
        Of the figure; names the files.
    by : sequence of str
        Columns that make a group, besides those that are the same in all rows.
    of : sequence of str
        Columns that get mean, standard deviation and 95 % confidence interval. Of the facts about regions the
        summary holds the mean (of ``most_trims`` the largest).
    """
    version = source_version(work)
    with data_named(options.data):
        results = run(cells, work, folder=options.out / "cache", workers=options.workers, label=name, show=options.show)
    rows = table(results, version=version)
    summary = summarise(rows, by=by, of=of)
    first = {key: rows[0][key] for key in ("version", "figure", "seed")}
    members_of: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        members_of.setdefault(tuple(row[key] for key in by), []).append(row)
    for group in summary:
        members = members_of[tuple(group[key] for key in by)]
        for fact in FACTS:
            known = [float(row[fact]) for row in members if row.get(fact) is not None]
            group[fact] = (max(known) if fact == "most_trims" else sum(known) / len(known)) if known else None
    full = [{**first, **group} for group in summary]
    write_csv(options.out / f"{name}.csv", full)
    write_csv(options.out / f"{name}_runs.csv", rows)
    seconds = sum(result.seconds for result in results)
    return Gathered(tuple(rows), tuple(summary), seconds, version, f"{name}.csv")


def stamped(rows: Sequence[Mapping[str, Any]], options: Options) -> list[dict[str, Any]]:
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
    there: dict[str, str] = {}
    missing: dict[str, str] = {}
    for name in names:
        try:
            there[name] = data.load(name, folder).fingerprint
        except InvalidInput as error:
            missing[name] = str(error)
    return there, missing


@contextmanager
def data_named(folder: Path | None) -> Iterator[None]:
    """Name the data folder to this process and to those it starts."""
    if folder is None:
        yield
        return
    before = os.environ.get(data.VARIABLE)
    os.environ[data.VARIABLE] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[data.VARIABLE]
        else:
            os.environ[data.VARIABLE] = before
