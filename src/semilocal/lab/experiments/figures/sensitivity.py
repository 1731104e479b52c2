"""How the smallest crowd k changes what a forest learns: precision and recall at ε = 1.

Knows the grid of the experiment and its picture.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..harness.panels import Panel, box_panels
from ..harness.report import FigureReport
from ..harness.summary import FigureOptions, Gathered, Output, gather, lines
from ..harness.trial import Trial
from ..trials import FOREST, PARTICIPANTS, classifier_trial

__all__ = ["FULL", "Grid", "make", "results"]

NAME = "sensitivity"
METHODS = ("ours", "pooled-curator", "pooled-servers", "paper", "sldp-quantize", "sldp-split")
PAPERS_RUNS = 50


@dataclass(frozen=True)
class Grid:
    """Values of k, and how many block groups take part."""

    crowds: tuple[int, ...] = (5, 10, 20, 50, 100, 200)
    rows: int = 20_640
    epsilon: float = 1.0


FULL = Grid()


def results(options: FigureOptions, grid: Grid = FULL) -> Gathered:
    """Run the trials, or read them from the cache."""
    trials = [
        Trial.of(
            NAME, method, seed=options.seed, run=run, epsilon=grid.epsilon, k=k, rows=grid.rows, classifiers=FOREST
        )
        for k in grid.crowds
        for method in METHODS
        for run in range(options.repeats(quick=3, most=PAPERS_RUNS))
    ]
    by = ("method", "classifier", "epsilon", "k", "rows")
    return gather(NAME, trials, classifier_trial, options, by=by, of=("precision", "recall", "f1"))


def make(options: FigureOptions, grid: Grid = FULL) -> Output:
    """Draw the figure."""
    found = results(options, grid)
    boxes = box_panels(
        found.rows,
        [Panel(name, {"value": name}) for name in ("precision", "recall")],
        value="precision",
        along="k",
        x_label="smallest crowd k (participants)",
        y_label="",
        purpose="points",
        folder=options.out,
        name="RF_precision_recall",
    )
    return Output(
        (
            FigureReport(
                "fig:RF_precision_recall",
                "precision and recall of a forest against k",
                f"ε = {grid.epsilon:g}. The published rule's regions fall below k at every k; see the table.",
                (boxes.svg,),
                {
                    "ε": grid.epsilon,
                    "k": ", ".join(map(str, grid.crowds)),
                    "δ": "0.05",
                    "classifier": "forest of 50 trees of depth 8",
                },
                lines(found.summary, "points"),
                options.repeats(quick=3, most=PAPERS_RUNS),
                options.seed,
                found.seconds,
                found.csv,
                participants=PARTICIPANTS["block"],
            ),
        )
    )
