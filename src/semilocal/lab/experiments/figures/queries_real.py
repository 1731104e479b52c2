"""Range queries on real positions: error against ε for each dataset and number of participants.

Knows the grid of the experiment and its picture. A dataset that is not there leaves its panels empty, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ..datasets import load as data
from ..datasets.catalogue import dataset
from ..harness.panels import Panel, line_panels
from ..harness.report import FigureReport
from ..harness.summary import FigureOptions, Gathered, Output, gather, lines, present
from ..harness.trial import Trial
from ..trials import CROWD, PARTICIPANTS, counts_trial
from .queries_synthetic import METHODS

__all__ = ["FULL", "Grid", "make", "results"]


@dataclass(frozen=True)
class Grid:
    """Datasets, numbers of participants and values of ε; and the names of the figure.

    Attributes
    ----------
    stands_for : {"row", "person"}
        What stands for one participant.
    """

    datasets: tuple[str, ...] = ("brightkite", "geolife", "gowalla", "porto")
    sizes: tuple[int, ...] = (5_000, 20_000)
    epsilons: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0, 4.0)
    stands_for: str = "row"
    name: str = "queries_real"
    picture: str = "spatial_queries_error"
    title: str = "range queries on real positions: error against ε"


FULL = Grid()


def results(options: FigureOptions, grid: Grid = FULL) -> tuple[Gathered | None, dict[str, str]]:
    """Return the trials on the datasets that are there (None if there are none), and why others are missing."""
    present_sources, missing = present(grid.datasets, options.data)
    kind = {} if grid.stands_for == "row" else {"stands_for": grid.stands_for}
    trials = [
        Trial.of(
            grid.name, method, seed=options.seed, run=run, source=name, data=fingerprint, n=n, epsilon=epsilon,
            k=CROWD, **kind,
        )
        for run in range(options.repeats(quick=2))
        for name, fingerprint in present_sources.items()
        for n in grid.sizes
        for epsilon in grid.epsilons
        for method in METHODS
    ]  # fmt: skip
    if not trials:
        return None, missing
    by = ("method", "source", "data", "n", "epsilon", "k")
    return gather(grid.name, trials, partial(counts_trial, data=options.data), options, by=by, of=("mre",)), missing


def make(options: FigureOptions, grid: Grid = FULL) -> Output:
    """Draw the figure."""
    found, missing = results(options, grid)
    name = f"fig:{grid.picture}"
    if found is None:
        return Output((FigureReport(name, grid.title, missing="; ".join(missing.values())),))
    panels = [
        Panel(
            f"{dataset(source).title.split()[0].rstrip(',')}, N = {n:,}",
            {"source": source, "n": n},
            f"not in the data folder; see: semilocal data describe {source}" if source in missing else "",
        )
        for n in grid.sizes
        for source in grid.datasets
    ]
    errors = line_panels(
        found.summary,
        panels,
        value="mre",
        y_label="mean relative error (MRE)",
        purpose="counts",
        folder=options.out,
        name=grid.picture,
        columns=len(grid.datasets),
    )
    shown_sources = [source for source in grid.datasets if source not in missing]
    notes = [note for source in shown_sources for note in data.load(source, options.data).notes]
    parameters = {
        "population": "N rows of the dataset without replacement, scaled from its public box to [0, 1]²",
        "queries": "200 per trial, around a data point, sides log-uniform in [1/256, 1/8], true count in [20, 0.05 N]",
        "error": "mean of |answer − truth| / max(truth, 10 max(1, 10⁻⁴ N))",
        "N": ", ".join(f"{n:,}" for n in grid.sizes),
        "ε": ", ".join(f"{epsilon:g}" for epsilon in grid.epsilons),
        "k": CROWD,
        "δ": "0.05",
        "depth": "16 levels of the paper's quadtrees (the paper names none; 10 would make its error larger)",
    }
    if grid.stands_for == "person":
        parameters["population"] = "N people of the dataset, one row of each at random, scaled to [0, 1]²"
    return Output(
        (
            FigureReport(
                name,
                grid.title,
                "Bars: 95 % confidence interval of the mean.",
                (errors.svg,),
                parameters,
                lines(found.summary, "counts"),
                options.repeats(quick=2),
                options.seed,
                found.seconds,
                found.csv,
                (*notes, *(f"left out: {why}" for why in missing.values())),
                participants=PARTICIPANTS[grid.stands_for],
            ),
        )
    )
