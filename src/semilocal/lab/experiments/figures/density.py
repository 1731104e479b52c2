"""Figure 1: partitions over the points, the true function, and the reports under each rule and under plain LDP.

Knows the experiment and its picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....arrays import Floats
from ....functions import gaussian_bump
from ...baselines import PublishedRegions
from ..harness.report import FigureReport
from ..harness.style import Saved, figure_style, save
from ..harness.summary import FigureOptions, Output, gather, lines, select
from ..harness.trial import Trial
from ..methods import look, promise_of
from ..trials import BUMP_SPREAD, MEAN_CROWD, PARTICIPANTS, PLANE, density_trial, released_values
from ..ways import DELTA, Regions

__all__ = ["FULL", "Grid", "make"]

NAME = "density_reconstruction"
PARTITIONS = ("paper", "published", "ours")
METHODS = (*PARTITIONS, "ldp")
BINS = 34  # hexagons across a panel


@dataclass(frozen=True)
class Grid:
    """How many participants, and ε."""

    size: int = 30_000
    epsilon: float = 1.0


FULL = Grid()


def make(options: FigureOptions, grid: Grid = FULL) -> Output:
    """Draw the figure from the first run; the table holds all of them."""
    runs = options.repeats(quick=3)
    trials = {
        method: [
            Trial.of(NAME, method, seed=options.seed, run=run, n=grid.size, epsilon=grid.epsilon, k=MEAN_CROWD)
            for run in range(runs)
        ]
        for method in METHODS
    }
    every = [cell for of_method in trials.values() for cell in of_method]
    found = gather(
        NAME, every, density_trial, options, by=("method", "n", "epsilon", "k"), of=("value_mse", "mean_error")
    )
    saved = _draw({method: of_method[0] for method, of_method in trials.items()}, options)
    errors = {method: select(found.summary, method=method)[0]["value_mse_mean"] for method in METHODS}
    worded = "; ".join(f"{look(method).name} {error:.3g}" for method, error in errors.items())
    return Output(
        (
            FigureReport(
                "fig:density_reconstruction",
                "a function from private reports (Figure 1)",
                "Top: true values, and the partitions over the points. Bottom: means of the reports per hexagon. "
                f"Mean squared error of a single report: {worded}.",
                (saved.png,),
                {
                    "population": "N(0, 2²) truncated to [-10, 10]²",
                    "function": "f(x) = exp(−‖x‖² / (2 · 2²))",
                    "N": f"{grid.size:,}",
                    "ε": grid.epsilon,
                    "δ": "0.05",
                    "k": MEAN_CROWD,
                    "depth": "15 levels of the paper's quadtrees",
                },
                lines(found.summary, "values"),
                runs,
                options.seed,
                found.seconds,
                found.csv,
                participants=PARTICIPANTS["drawn"],
            ),
        )
    )


def _draw(trials: dict[str, Trial], options: FigureOptions) -> Saved:
    released = {method: released_values(cell) for method, cell in trials.items()}
    points = released["ldp"].points
    with figure_style() as Figure:
        figure = Figure(figsize=(11.0, 6.2))
        grid = figure.subplots(2, 1 + len(PARTITIONS), sharex=True, sharey=True)
        shown = _hexagons(grid[0, 0], points, gaussian_bump(BUMP_SPREAD)(points), "true f at the samples")
        words = "local DP: true loss ε anywhere\nreports, mean per hexagon"
        _hexagons(grid[1, 0], points, released["ldp"].values, words)
        for place, method in enumerate(PARTITIONS, start=1):
            regions = released[method].regions
            assert regions is not None
            promised = promise_of(method, "values")
            kept = "crowd of k kept" if promised.k else "no crowd promised"
            _outlines(grid[0, place], points, regions, f"{look(method).name}\nregions: {len(regions.crowds):,}, {kept}")
            _hexagons(grid[1, place], points, released[method].values, f"reports, true loss\n{promised.cost('ε')}")
        for axes in grid[:, 0]:
            axes.set_ylabel("y")
        for axes in grid[1]:
            axes.set_xlabel("x")
        n, epsilon = len(points), trials["ldp"]["epsilon"]
        figure.suptitle(f"N = {n:,}, ε = {epsilon:g}, δ = {DELTA:g}, k = {MEAN_CROWD}", fontsize=9)
        figure.colorbar(shown, ax=grid, label="f, or the mean of its reports", shrink=0.7, extend="both")
        return save(figure, options.out, name=NAME)


def _hexagons(axes: Any, points: Any, values: Any, title: str) -> Any:
    shown = axes.hexbin(
        points[:, 0],
        points[:, 1],
        C=values,
        reduce_C_function=np.mean,
        gridsize=BINS,
        extent=(PLANE.lower[0], PLANE.upper[0], PLANE.lower[1], PLANE.upper[1]),
        cmap="cividis",
        vmin=0.0,
        vmax=1.0,
        linewidths=0.1,
        rasterized=True,
    )
    _frame(axes, title)
    return shown


def _outlines(axes: Any, points: Any, regions: Regions, title: str) -> None:
    from matplotlib.collections import PolyCollection

    axes.plot(points[:, 0], points[:, 1], ".", markersize=0.6, color="#6baed6", alpha=0.4, rasterized=True)
    axes.add_collection(PolyCollection(_rings(regions), facecolor="none", edgecolor="black", linewidth=0.5, zorder=3))
    _frame(axes, title)


def _rings(regions: Regions) -> list[Floats]:
    """The outlines of all regions, as corners float64[c, 2]."""
    if isinstance(regions, PublishedRegions):
        (x0, y0), (x1, y1) = regions.boxes.transpose(1, 2, 0)
        return list(np.stack([[x0, y0], [x1, y0], [x1, y1], [x0, y1]]).transpose(2, 0, 1))
    return [np.array(ring) for rings in regions.polygons() for ring in rings]


def _frame(axes: Any, title: str) -> None:
    axes.set(xlim=(PLANE.lower[0], PLANE.upper[0]), ylim=(PLANE.lower[1], PLANE.upper[1]))
    axes.set_title(title, fontsize=9)
    axes.set_aspect("equal")
    axes.grid(visible=False)
    axes.spines[:].set_visible(True)
