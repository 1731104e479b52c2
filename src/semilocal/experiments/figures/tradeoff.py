"""What the three honest choices for the sparse cost: block the others, move along at a price, or be exposed.

For each dataset, the error of range counts against the share of participants moved and against the worst loss, over
tau, rule and accounting. Knows the grid of the experiment and its picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from ...arrays import Floats
from ...protocol.promise import Guarantee, promise
from ..harness.report import FigureReport, Line
from ..harness.style import Saved, error_axis, figure_style, legend_label, line, save
from ..harness.summary import FigureOptions, Gathered, Output, gather, line_of, present, select
from ..harness.trial import Trial
from ..trials import PARTICIPANTS, tradeoff_task, tradeoff_trial
from ..ways import CROWD, DELTA

__all__ = ["CHOICES", "FULL", "Choice", "Grid", "make", "results"]

NAME = "tradeoff"
NUMBER_SIZE = 6.5  # points of type
MARKER = 3.5  # half a marker of a curve, with a little air
TURNS = tuple(np.array(turn) for turn in ((1, 1), (-1, 1), (1, -1), (-1, -1), (1, 0), (-1, 0), (0, 1), (0, -1)))
POINTER = {"arrowstyle": "-", "linewidth": 0.4, "color": "#909090", "shrinkA": 0, "shrinkB": 2}


@dataclass(frozen=True)
class Choice:
    """One setting: the line it belongs to, and the options of `Task.build`."""

    method: str
    rule: str
    accounting: str = "core"
    tau: float = 0.2
    max_trims: int = 0


TAUS = (0.05, 0.1, 0.2, 0.3, 0.4)
CHOICES = (
    Choice("rule-all", "all"),
    Choice("rule-each", "each"),
    *(Choice("ours-core", "trim", tau=tau, max_trims=16) for tau in TAUS),
    *(Choice("ours-core", "trim", max_trims=trims) for trims in (1, 2, 4, 8)),
    *(Choice("ours-uniform", "trim", "uniform", tau=tau, max_trims=3) for tau in TAUS),
    *(Choice("ours-uniform", "trim", "uniform", tau=0.4, max_trims=trims) for trims in (1, 2, 6)),
)


@dataclass(frozen=True)
class Grid:
    """Sources of positions, number of participants and ε."""

    sources: tuple[str, ...] = ("clusters", "california_housing", "gowalla", "brightkite", "porto")
    size: int = 20_000
    epsilon: float = 1.0


FULL = Grid()
CAPTION = (
    "Range counts, error on a logarithmic axis. Top: against the share of participants that a TRIM moved; the curves "
    "go through tau = 0.05, 0.1, 0.2, 0.3, 0.4 (the number at a point). Bottom: against (1 + T) ε for "
    "the largest T on a path, averaged over runs; the curves go through max_trims (the number at a point), at "
    "tau = 0.2 for core and 0.4 for uniform, which promises (1 + T) ε / (1 + max_trims) to moved positions. The legend "
    "states the promises of the top row. Further left is better for the sparse, lower is better for the analyst."
)
TITLES = {"clusters": "Clusters", "california_housing": "California Housing"}


def results(options: FigureOptions, grid: Grid = FULL) -> tuple[Gathered, dict[str, str]]:
    """Return the trials on the sources that are there, and why others are missing."""
    real = [source for source in grid.sources if source != "clusters"]
    present_sources, missing = present(real, options.data)
    sources = {"clusters": "made here", **present_sources} if "clusters" in grid.sources else present_sources
    trials = [
        Trial.of(
            NAME,
            choice.method,
            seed=options.seed,
            run=run,
            source=source,
            data=fingerprint,
            n=grid.size,
            epsilon=grid.epsilon,
            k=CROWD,
            rule=choice.rule,
            accounting=choice.accounting,
            tau=choice.tau,
            max_trims=choice.max_trims,
        )
        for run in range(options.repeats(quick=1))
        for source, fingerprint in sources.items()
        for choice in CHOICES
    ]
    by = ("method", "source", "data", "n", "epsilon", "k", "rule", "accounting", "tau", "max_trims")
    return gather(
        NAME,
        trials,
        partial(tradeoff_trial, data=options.data),
        options,
        by=by,
        of=("mre", "worst_loss", "worst_bound"),
    ), missing


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
                    "ε": f"{grid.epsilon:g} (core: inside pairs; uniform: moved positions against those inside)",
                    "k": CROWD,
                    "δ": f"{DELTA:g}",
                    "randomizer": "randomized response over two children",
                },
                _lines(found.summary),
                options.repeats(quick=1),
                options.seed,
                found.seconds,
                found.csv,
                tuple(f"left out: {why}" for why in missing.values()),
                participants=f"Clusters: {PARTICIPANTS['drawn'].lower()} Others: {PARTICIPANTS['row'].lower()}",
            ),
        )
    )


METHODS = tuple(dict.fromkeys(choice.method for choice in CHOICES))


def promise_of(method: str) -> Guarantee:
    """Return what a line of the top row promises at ε = 1: its first choice is one of those with another tau."""
    choice = next(choice for choice in CHOICES if choice.method == method)
    return promise(tradeoff_task(1.0, CROWD, choice.rule, choice.accounting, choice.tau, choice.max_trims))


def _lines(summary: Sequence[Mapping[str, Any]]) -> tuple[Line, ...]:
    return tuple(line_of(method, promise_of(method), select(summary, method=method)) for method in METHODS)


def _draw(summary: Sequence[Mapping[str, Any]], options: FigureOptions) -> Saved:
    sources = list(dict.fromkeys(row["source"] for row in summary))
    with figure_style() as Figure:
        figure = Figure(figsize=(2.7 * len(sources) + 0.6, 6.6))
        grid = figure.subplots(2, len(sources), sharey="col", squeeze=False)
        for column, source in enumerate(sources):
            mine = select(summary, source=source)
            grid[0, column].set_title(TITLES.get(source, source.capitalize()))
            _moved(grid[0, column], mine)
            _lost(grid[1, column], mine)
        for axes in grid[:, 0]:
            axes.set_ylabel("mean relative error (MRE)")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, handlelength=3.5)
        figure.draw_without_rendering()  # now places on the paper are known
        for axes in grid.flat:
            _place_numbers(axes)
        return save(figure, options.out, name=NAME)


def _moved(axes: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    for method in METHODS:
        promised = promise_of(method)
        trims = promised.trims
        mine = sorted(select(rows, method=method, max_trims=trims), key=lambda row: float(row["tau"]))
        label = legend_label(method, promised)
        x, y = [100 * row["moved"] for row in mine], [row["mre_mean"] for row in mine]
        axes.plot(x, y, **{**line(method), "markersize": 5 if trims else 8}, label=label)
        if method == "ours-core":
            _number(axes, x, y, [f"{row['tau']:g}" for row in mine])
    error_axis(axes)
    axes.set_xlabel("participants moved (%)")


def _lost(axes: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    for method in METHODS:
        tau = 0.4 if method == "ours-uniform" else 0.2
        mine = sorted(select(rows, method=method, tau=tau), key=lambda row: int(row["max_trims"]))
        x, y = [row["worst_loss_mean"] for row in mine], [row["mre_mean"] for row in mine]
        axes.plot(x, y, **{**line(method), "markersize": 5 if len(x) > 1 else 8})
        if method.startswith("ours"):
            _number(axes, x, y, [f"{row['max_trims']}" for row in mine])
    error_axis(axes)
    axes.set_xlim(left=0)
    axes.set_xlabel("(1 + T) ε for the largest T of the run")


def _number(axes: Any, x: Sequence[float], y: Sequence[float], texts: Sequence[str]) -> None:
    """Note the number at each point; it is placed when the layout is known."""
    axes.numbers = [*getattr(axes, "numbers", []), *zip(x, y, texts, strict=True)]


def _place_numbers(axes: Any) -> list[Floats]:
    """Write numbers beside their points, none over another, a marker, a line or the axis: their boxes, in points."""
    taken = [_around(place, (1.0, 1.0)) for one in axes.lines for place in _along(_on_paper(axes, *one.get_data()))]
    for one in axes.lines:
        half_marker = one.get_markersize() / 2 + 1
        taken += [_around(place, (half_marker, half_marker)) for place in _on_paper(axes, *one.get_data())]
    left = axes.bbox.x0 * 72 / axes.figure.dpi + 1
    taken.append(np.array([[-np.inf, -np.inf], [left, np.inf]]))  # there are the numbers of the axis
    placed: list[Floats] = []
    for x, y, text in axes.numbers:
        at = _on_paper(axes, [x], [y])[0]
        half = np.array([0.32 * NUMBER_SIZE * len(text), 0.5 * NUMBER_SIZE])
        offsets = [(MARKER + half) * turn + away * turn for away in range(0, 40, 2) for turn in TURNS]
        free = [offset for offset in offsets if not any(_meet(_around(at + offset, half), box) for box in taken)]
        offset = free[0] if free else offsets[0]
        far = float(np.abs(offset).max()) > MARKER + half.max() + 3
        axes.annotate(
            text, (x, y), xytext=tuple(offset), textcoords="offset points", fontsize=NUMBER_SIZE, color="#404040",
            ha="center", va="center_baseline", arrowprops=POINTER if far else None,
        )  # fmt: skip
        placed.append(_around(at + offset, half))
        taken.append(placed[-1])
    return placed


def _on_paper(axes: Any, x: Any, y: Any) -> Floats:
    """Where data is drawn, in points of type: float64[n, 2]."""
    return np.asarray(axes.transData.transform(np.column_stack([x, y])) * 72 / axes.figure.dpi)


def _along(corners: Floats) -> Floats:
    """Places along a line, close enough that no number fits between: float64[n, 2]."""
    steps = [np.linspace(a, b, 2 + int(np.abs(b - a).max() / 3)) for a, b in pairwise(corners)]
    return np.concatenate(steps) if steps else corners


def _around(middle: Any, half: Any) -> Floats:
    return np.array([np.subtract(middle, half), np.add(middle, half)])


def _meet(one: Floats, other: Floats) -> bool:
    return bool((one[0] < other[1]).all() and (other[0] < one[1]).all())
