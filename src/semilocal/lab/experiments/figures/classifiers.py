"""Learning from released positions: F1 against ε for three classifiers on California Housing.

Knows the grid of the experiment and its picture.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..harness.panels import Panel, line_panels
from ..harness.report import FigureReport
from ..harness.summary import FigureOptions, Gathered, Output, gather, lines
from ..harness.trial import Trial
from ..trials import CROWD, FOREST, LOGISTIC, NEIGHBOURS, PARTICIPANTS, classifier_trial

__all__ = ["FULL", "QUICK", "Grid", "make", "results"]

NAME = "classifiers"
METHODS = (
    "ours", "pooled-curator", "pooled-servers", "paper", "sldp-quantize", "sldp-split", "ldp", "geo", "exact",
)  # fmt: skip


@dataclass(frozen=True)
class Grid:
    """Values of ε, and how many block groups take part."""

    epsilons: tuple[float, ...] = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
    rows: int = 20_640
    classifiers: tuple[str, ...] = (FOREST, NEIGHBOURS, LOGISTIC)


FULL = Grid()
QUICK = Grid(epsilons=(0.1, 1.0, 2.0, 10.0))


def results(options: FigureOptions, grid: Grid | None = None) -> Gathered:
    """Run the trials, or read them from the cache."""
    grid = grid or (QUICK if options.quick else FULL)
    trials = [
        Trial.of(
            NAME,
            method,
            seed=options.seed,
            run=run,
            epsilon=epsilon,
            k=CROWD,
            rows=grid.rows,
            classifiers=", ".join(grid.classifiers),
        )
        for epsilon in grid.epsilons
        for method in METHODS
        for run in range(options.repeats(quick=2))
    ]
    by = ("method", "classifier", "epsilon", "k", "rows")
    return gather(NAME, trials, classifier_trial, options, by=by, of=("f1", "precision", "recall"))


def make(options: FigureOptions, grid: Grid | None = None) -> Output:
    """Draw the figure."""
    grid = grid or (QUICK if options.quick else FULL)
    found = results(options, grid)
    scores = line_panels(
        found.summary,
        [Panel(name, {"classifier": name}) for name in grid.classifiers],
        value="f1",
        y_label="F1 of class 1 on held-out positions",
        purpose="points",
        folder=options.out,
        name=NAME,
        log=False,
        spread="deviation",
        columns=3,
    )
    parameters = {
        "data": "California Housing, longitude and latitude scaled from its public box to [0, 1]²",
        "label": "median house value above the median of all block groups",
        "split": "70 % for training (released positions), 30 % for testing (true positions)",
        "ε": ", ".join(f"{epsilon:g}" for epsilon in grid.epsilons),
        "k": CROWD,
        "δ": "0.05",
        "classifiers": "forest of 50 trees of depth 8; 15 neighbours weighted by distance; logistic regression",
        "participants": f"{round(0.7 * grid.rows):,}",
    }
    caption = (
        "Bars: one standard deviation of a single run. SLDP-Quantization and SLDP-Split use the published code's rule; "
        "semilocal without trust and the paper's rule release region centres; with a curator or two servers it draws "
        "synthetic points of each class from that class's tree. Always class 1 would score 0.667."
    )
    return Output(
        (
            FigureReport(
                "fig:classifiers",
                "learning from released positions: F1 against ε",
                caption,
                (scores.svg,),
                parameters,
                lines(found.summary, "points"),
                options.repeats(quick=2),
                options.seed,
                found.seconds,
                found.csv,
                participants=PARTICIPANTS["block"],
            ),
        )
    )
