"""What the three honest choices for the sparse cost: block the others, be exposed, or share a long region.

For each source of positions, the error of range counts and the share of people in a region with fewer than k, both
against k. Knows the grid of the experiment and its picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..harness.report import FigureReport
from ..harness.style import Saved, error_axis, figure_style, legend_label, line, save
from ..harness.summary import FigureOptions, Gathered, Output, gather, lines, present, select
from ..harness.trial import Trial
from ..methods import promise_of
from ..trials import PARTICIPANTS, counts_trial
from ..ways import DELTA

__all__ = ["FULL", "METHODS", "Grid", "make", "results"]

NAME = "tradeoff"
METHODS = ("paper", "published", "ours")


@dataclass(frozen=True)
class Grid:
    """Sources of positions, number of participants, ε and values of k."""

    sources: tuple[str, ...] = ("clusters", "california_housing", "gowalla", "brightkite", "porto")
    size: int = 20_000
    epsilon: float = 1.0
    crowds: tuple[int, ...] = (5, 10, 20, 50, 100)


FULL = Grid()
CAPTION = (
    "Top: error of range counts on a logarithmic axis. Bottom: people in a region with fewer than k. The paper's rule "
    "lets a sparse part block the split of a dense cell; the published code exposes the people of the sparse part; "
    "semilocal lets them share a long region with others. Lower is better in both rows."
)
TITLES = {"clusters": "Clusters", "california_housing": "California Housing"}


def results(options: FigureOptions, grid: Grid = FULL) -> tuple[Gathered, dict[str, str]]:
    """Return the trials on the sources that are there, and why others are missing."""
    real = [source for source in grid.sources if source != "clusters"]
    present_sources, missing = present(real, options.data)
    sources = {"clusters": "made here", **present_sources} if "clusters" in grid.sources else present_sources
    trials = [
        Trial.of(
            NAME, method, seed=options.seed, run=run, source=source, data=fingerprint, n=grid.size,
            epsilon=grid.epsilon, k=k,
        )
        for run in range(options.repeats(quick=1))
        for source, fingerprint in sources.items()
        for k in grid.crowds
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
                "fig:tradeoff",
                "what each of the three choices for sparse areas costs (our own)",
                CAPTION,
                (saved.svg,),
                {
                    "N": f"{grid.size:,}",
                    "ε": f"{grid.epsilon:g}",
                    "k": ", ".join(map(str, grid.crowds)),
                    "δ": f"{DELTA:g}",
                },
                lines(found.summary, "counts"),
                options.repeats(quick=1),
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
    with figure_style() as Figure:
        figure = Figure(figsize=(2.7 * len(sources) + 0.6, 6.0))
        grid = figure.subplots(2, len(sources), sharex=True, squeeze=False)
        for column, source in enumerate(sources):
            grid[0, column].set_title(TITLES.get(source, source.capitalize()))
            _panels(grid[0, column], grid[1, column], select(summary, source=source))
        grid[0, 0].set_ylabel("mean relative error (MRE)")
        grid[1, 0].set_ylabel("people with fewer than k (%)")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=1, handlelength=3.5)
        return save(figure, options.out, name=NAME)


def _panels(top: Any, bottom: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """Error and exposed people of one source, a line per choice."""
    for method in METHODS:
        mine = sorted(select(rows, method=method), key=lambda row: int(row["k"]))
        crowds = [row["k"] for row in mine]
        label = legend_label(method, promise_of(method, "counts"))
        top.plot(crowds, [row["mre_mean"] for row in mine], **line(method), label=label)
        bottom.plot(crowds, [100 * row["participants_below"] for row in mine], **line(method))
    error_axis(top)
    crowds = sorted({row["k"] for row in rows})
    bottom.set_xscale("log")
    bottom.set_xticks(crowds, labels=[str(k) for k in crowds])
    bottom.minorticks_off()
    bottom.set_xlabel("smallest crowd k (participants)")
