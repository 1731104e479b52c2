"""The mean of the squared norm: error against ε (Figure 2a) and its distribution (Figure 2b), from the same runs.

Knows the grid of the experiment and its two pictures.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..harness.panels import Panel, box_panels, line_panels
from ..harness.report import FigureReport
from ..harness.summary import FigureOptions, Gathered, Output, gather, lines
from ..harness.trial import Trial
from ..trials import CROWD, MEAN_CROWD, PARTICIPANTS, mean_trial

__all__ = ["FULL", "Grid", "make", "results"]

NAME = "mean"
CROWDS = {
    "central": 0,
    "pooled-curator": 0,
    "pooled-servers": 0,
    "ldp": 0,
    "paper": MEAN_CROWD,
    "published": MEAN_CROWD,
    "ours": CROWD,
    "zero": 0,
}
MOST_IN_BOXES = 5.0  # ε of the box plots


@dataclass(frozen=True)
class Grid:
    """Numbers of participants and values of ε."""

    sizes: tuple[int, ...] = (2_000, 16_000, 32_000, 64_000)
    epsilons: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0, 12.0)


FULL = Grid()


def results(options: FigureOptions, grid: Grid = FULL) -> Gathered:
    """Run the trials (or read them from the cache); every grid point is kept in a quick look too."""
    trials = [
        Trial.of(NAME, method, seed=options.seed, run=run, n=n, epsilon=epsilon, k=k)
        for n in grid.sizes
        for epsilon in grid.epsilons
        for method, k in CROWDS.items()
        for run in range(options.repeats(quick=5))
    ]
    return gather(
        NAME,
        trials,
        mean_trial,
        options,
        by=("method", "n", "epsilon", "k"),
        of=("squared_error", "expected_mse", "error"),
    )


def make(options: FigureOptions, grid: Grid = FULL) -> Output:
    """Draw both figures."""
    found = results(options, grid)
    panels = [Panel(f"N = {n:,}", {"n": n}) for n in grid.sizes]
    errors = line_panels(
        found.summary,
        panels,
        value="squared_error",
        y_label="mean squared error of the mean of ‖x‖²",
        purpose="values",
        folder=options.out,
        name="mse_results_a",
    )
    small = [
        {**row, "absolute_error": abs(float(row["error"]))}  # type: ignore[arg-type]
        for row in found.rows
        if float(row["epsilon"]) <= MOST_IN_BOXES  # type: ignore[arg-type]
    ]
    boxes = box_panels(
        small,
        panels,
        value="absolute_error",
        along="epsilon",
        x_label="privacy budget ε",
        y_label="absolute error of the mean of ‖x‖²",
        purpose="values",
        folder=options.out,
        name="error_boxplots_b",
        log=True,
    )
    repeats = options.repeats(quick=5)
    parameters = {
        "population": "N(0, 1.5²) truncated to [-10, 10]² by rejection",
        "function": "f(x) = ‖x‖², range 200 over the domain",
        "N": ", ".join(f"{n:,}" for n in grid.sizes),
        "ε": ", ".join(f"{epsilon:g}" for epsilon in grid.epsilons),
        "δ": "0.05",
        "k": "100 for the paper's and the published rule; 20 for semilocal",
        "split": "half for the partition, half for the values",
    }
    shared = {
        "parameters": parameters,
        "lines": lines(found.summary, "values"),
        "runs": repeats,
        "seed": options.seed,
        "csv": found.csv,
        "participants": PARTICIPANTS["drawn"],
    }
    return Output(
        (
            FigureReport(
                "fig:mse_results_a",
                "error of a mean against ε (Figure 2a)",
                "Bars: 95 % confidence interval of the mean squared error.",
                (errors.svg,),
                seconds=found.seconds,
                **shared,  # type: ignore[arg-type]
            ),
            FigureReport(
                "fig:error_boxplots_b",
                "distribution of the error (Figure 2b)",
                "The same runs, ε up to 5. Absolute errors, because the lines lie powers of ten apart; signed ones, "
                "and their means (the bias), are in the table.",
                (boxes.svg,),
                notes=("No time of its own: it shows the runs of Figure 2a.",),
                **shared,  # type: ignore[arg-type]
            ),
        )
    )
