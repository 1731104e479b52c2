"""Error against what is promised to whom: methods in columns, so that nobody compares unlike promises by an axis alone.

Range queries at one ε. A column is a promise: plain differential privacy (any move of a person, nobody's region is
public), positions inside one public region only, or a crowd of k without noise. The legend says who has to be trusted
and what ε bounds. Knows the grid of the experiment and its picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ....protocol.promise import Guarantee
from ..harness.report import FigureReport
from ..harness.style import Saved, error_axis, figure_style, line, save, shared_legend
from ..harness.summary import FigureOptions, Gathered, Output, gather, lines, present, select
from ..harness.trial import Trial
from ..methods import look, promise_of
from ..trials import PARTICIPANTS, counts_trial
from ..ways import CROWD, DELTA
from .queries_synthetic import METHODS as QUERIED

__all__ = ["COLUMNS", "FULL", "Grid", "column_of", "make", "results"]

NAME = "promises"
METHODS = tuple(method for method in QUERIED if method != "zero")  # which promises nothing to anybody
COLUMNS = (
    "any move\n(plain DP)",
    "inside the region,\nwith a crowd",
    "inside the region,\nno crowd",
    "a crowd of k,\nno noise",
)
_WHO = {"nobody": "trust: nobody", "two-servers": "trust: two servers", "curator": "trust: a curator"}


@dataclass(frozen=True)
class Grid:
    """Sources of positions, number of participants and ε."""

    sources: tuple[str, ...] = ("clusters", "gowalla", "brightkite", "porto")
    size: int = 20_000
    epsilon: float = 1.0


FULL = Grid()
TITLES = {"clusters": "Clusters"}
CAPTION = (
    "Range counts at one ε, error on a logarithmic axis. Compare inside a column: there the promise is of one kind. "
    "The legend says who has to be trusted and what is bounded. Lower is better for the analyst; the promise on the "
    "left is of a stronger kind than those on the right."
)


def column_of(guarantee: Guarantee) -> int:
    """Return the column that a promise belongs to."""
    if guarantee.epsilon is None:
        return 3
    if guarantee.adjacency != "inside":
        return 0
    return 1 if guarantee.k else 2


def results(options: FigureOptions, grid: Grid = FULL) -> tuple[Gathered, dict[str, str]]:
    """Return the trials on the sources that are there, and why others are missing."""
    present_sources, missing = present([source for source in grid.sources if source != "clusters"], options.data)
    sources = {"clusters": "made here", **present_sources} if "clusters" in grid.sources else present_sources
    trials = [
        Trial.of(
            NAME, method, seed=options.seed, run=run, source=source, data=fingerprint, n=grid.size,
            epsilon=grid.epsilon, k=CROWD,
        )
        for run in range(options.repeats(quick=2))
        for source, fingerprint in sources.items()
        for method in METHODS
    ]  # fmt: skip
    by = ("method", "source", "data", "n", "epsilon", "k")
    return gather(NAME, trials, partial(counts_trial, data=options.data), options, by=by, of=("mre",)), missing


def make(options: FigureOptions, grid: Grid = FULL) -> Output:
    """Draw the figure."""
    found, missing = results(options, grid)
    saved = _draw(found.summary, options)
    return Output(
        (
            FigureReport(
                "fig:promises",
                "error against what is promised to whom (our own)",
                CAPTION,
                (saved.svg,),
                {"N": f"{grid.size:,}", "ε": f"{grid.epsilon:g}", "k": CROWD, "δ": f"{DELTA:g}"},
                lines(found.summary, "counts"),
                options.repeats(quick=2),
                options.seed,
                found.seconds,
                found.csv,
                tuple(f"left out: {why}" for why in missing.values()),
                participants=f"Clusters: {PARTICIPANTS['drawn'].lower()} Others: {PARTICIPANTS['row'].lower()}",
            ),
        )
    )


def _draw(summary: Sequence[Mapping[str, Any]], options: FigureOptions) -> Saved:
    sources = list(dict.fromkeys(row["source"] for row in summary))
    rows = -(-len(sources) // 2)
    with figure_style() as Figure:
        figure = Figure(figsize=(9.4, 3.1 * rows + 1.4))
        panels = figure.subplots(rows, min(2, len(sources)), squeeze=False).ravel()
        for axes, source in zip(panels, sources, strict=False):
            _panel(axes, select(summary, source=source))
            axes.set_title(TITLES.get(source, source.capitalize()))
        for axes in panels[len(sources) :]:
            axes.set_visible(False)
        shared_legend(figure)
        return save(figure, options.out, name=NAME)


def _panel(axes: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """Points of one source: a column per promise, its methods side by side."""
    columns: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        columns.setdefault(column_of(promise_of(row["method"], "counts")), []).append(row)
    for column, members in columns.items():
        for place, row in enumerate(members):
            x = column + 0.13 * (place - (len(members) - 1) / 2)
            method = row["method"]
            axes.plot(
                [x], [row["mre_mean"]], **{**line(method), "linestyle": "None", "markersize": 7}, label=_words(method)
            )
    axes.set_xticks(range(len(COLUMNS)), labels=COLUMNS, fontsize=7.5)
    axes.set_xlim(-0.55, len(COLUMNS) - 0.45)
    for edge in range(1, len(COLUMNS)):
        axes.axvline(edge - 0.5, color="#d0d0d0", linewidth=0.6)
    axes.grid(False, axis="x")
    error_axis(axes)
    axes.set_ylabel("mean relative error (MRE)")


def _words(method: str) -> str:
    guarantee = promise_of(method, "counts")
    cost = guarantee.cost("ε")
    if guarantee.adjacency != "inside" and guarantee.anywhere is not None:
        cost = "ε for any move" if guarantee.anywhere == 1 else f"{guarantee.anywhere:g} ε for any move"
    name = look(method).name.partition(" (")[0]
    return f"{name} ({_WHO[guarantee.trust]}): {cost}"
