"""The figures: for each its grid of trials, its panels, and what a reader must know beside them.

A grid is a `Study`; a figure takes another one, such as a smaller one, as an argument. All numbers come from the
trials. Knows the paper's parameters and matplotlib's axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...arrays import Floats
from ...functions import gaussian_bump
from ..baselines import PublishedRegions
from . import trials
from .data import CATALOGUE, load
from .methods import CROWD, DELTA, Regions, look, promise_of
from .report import FigureReport, Output, Panel, figure_style, line_panels, save
from .runner import Trial
from .summary import FigureOptions, Study, select

MRE = "mean relative error (MRE)"
INTERVAL = "Bars: 95 % confidence interval of the mean."
DEVIATION = "Bars: one standard deviation of a single run."


def _drawn(
    options: FigureOptions, study: Study, panels: Sequence[Panel], caption: str, *, along: str = "epsilon",
    columns: int = 4,
) -> Output:  # fmt: skip
    """Run the trials, and draw the panels for which there is data; the report says what is left out."""
    found = study.gather(options)
    if not found.rows:
        return Output((FigureReport(study, options, missing="; ".join(found.missing.values())),))
    shown = [panel for panel in panels if panel.picks.get("source") not in found.missing]
    picture = line_panels(found.summary, shown, study, options, along=along, columns=columns - len(found.missing))
    there = [name for name in study.sources if name not in found.missing and name in CATALOGUE]
    notes = [n for name in there for n in (*load(name, options.data).notes, f"cite {CATALOGUE[name].citation}")]
    return Output((FigureReport(study, options, found, picture, caption, tuple(notes)),))


def _title(source: str) -> str:
    """The first word of a dataset's title; a population made here is its name."""
    entry = CATALOGUE.get(source)
    return source.capitalize() if entry is None else entry.title.split()[0].rstrip(",")


# -- Figure 1: partitions over the points, the true function, and the reports ------------------------------------------

PARTITIONS = ("paper", "published", "ours")
DENSITY = Study(
    "density_reconstruction",
    trials.density_trial,
    dict.fromkeys((*PARTITIONS, "ldp"), trials.MEAN_CROWD),
    {"n": (30_000,), "epsilon": (1.0,)},
    of=("value_mse", "mean_error"),
    quick=3,
    label="density_reconstruction",
    title="a function from private reports (Figure 1)",
    purpose="values",
    participants=trials.PARTICIPANTS["drawn"],
    parameters={
        "population": "N(0, 2²) truncated to [-10, 10]²",
        "function": "f(x) = exp(−‖x‖² / (2 · 2²))",
        "k": trials.MEAN_CROWD,
        "depth": "15 levels of the paper's quadtrees",
    },
)
BINS = 34  # hexagons across a panel


def density(options: FigureOptions, study: Study = DENSITY) -> Output:
    """Draw Figure 1 from the first run; the table holds all of them."""
    found = study.gather(options)
    place = {"n": study.axes["n"][0], "epsilon": study.axes["epsilon"][0], "k": trials.MEAN_CROWD}
    released = {
        method: trials.released_values(Trial.of(study.name, method, seed=options.seed, run=0, **place))
        for method in study.methods
    }
    points = released["ldp"][0]
    with figure_style() as Figure:
        figure = Figure(figsize=(11.0, 6.2))
        grid = figure.subplots(2, 1 + len(PARTITIONS), sharex=True, sharey=True)
        shown = _hexagons(grid[0, 0], points, gaussian_bump(trials.BUMP_SPREAD)(points), "true f at the samples")
        words = "local DP: true loss ε anywhere\nreports, mean per hexagon"
        _hexagons(grid[1, 0], points, released["ldp"][1].result, words)
        for column, method in enumerate(PARTITIONS, start=1):
            _, found_here = released[method]
            regions = found_here.regions
            assert regions is not None
            promised = promise_of(method, "values")
            kept = "crowd of k kept" if promised.k else "no crowd promised"
            title = f"{look(method).name}\nregions: {len(regions.crowds):,}, {kept}"
            _outlines(grid[0, column], points, regions, title)
            _hexagons(grid[1, column], points, found_here.result, f"reports, true loss\n{promised.cost('ε')}")
        for axes in grid[:, 0]:
            axes.set_ylabel("y")
        for axes in grid[1]:
            axes.set_xlabel("x")
        heading = f"N = {len(points):,}, ε = {place['epsilon']:g}, δ = {DELTA:g}, k = {trials.MEAN_CROWD}"
        figure.suptitle(heading, fontsize=9)
        figure.colorbar(shown, ax=grid, label="f, or the mean of its reports", shrink=0.7, extend="both")
        saved = save(figure, options.out, name=study.name)
    errors = {method: select(found.summary, method=method)[0]["value_mse_mean"] for method in study.methods}
    worded = "; ".join(f"{look(method).name} {error:.3g}" for method, error in errors.items())
    caption = (
        "Top: true values, and the partitions over the points. Bottom: means of the reports per hexagon. Mean squared "
        f"error of a single report: {worded}."
    )
    return Output((FigureReport(study, options, found, saved, caption),))


def _hexagons(axes: Any, points: Any, values: Any, title: str) -> Any:
    shown = axes.hexbin(
        points[:, 0], points[:, 1], C=values, reduce_C_function=np.mean, gridsize=BINS,
        extent=(trials.PLANE.lower[0], trials.PLANE.upper[0], trials.PLANE.lower[1], trials.PLANE.upper[1]),
        cmap="cividis", vmin=0.0, vmax=1.0, linewidths=0.1, rasterized=True,
    )  # fmt: skip
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
    axes.set(xlim=(trials.PLANE.lower[0], trials.PLANE.upper[0]), ylim=(trials.PLANE.lower[1], trials.PLANE.upper[1]))
    axes.set_title(title, fontsize=9)
    axes.set_aspect("equal")
    axes.grid(visible=False)
    axes.spines[:].set_visible(True)


# -- Figure 2: the mean of the squared norm ---------------------------------------------------------------------------

MEAN = Study(
    "mean",
    trials.mean_trial,
    {
        **dict.fromkeys(("central", "pooled-curator", "pooled-servers", "ldp"), 0),
        **dict.fromkeys(("paper", "published"), trials.MEAN_CROWD),
        "ours": CROWD,
        "zero": 0,
    },
    {"n": (2_000, 16_000, 32_000, 64_000), "epsilon": (0.5, 1.0, 2.0, 4.0, 8.0, 12.0)},
    of=("squared_error", "expected_mse", "error"),
    quick=5,
    label="mse_results_a",
    title="error of a mean against ε (Figure 2a)",
    purpose="values",
    participants=trials.PARTICIPANTS["drawn"],
    parameters={
        "population": "N(0, 1.5²) truncated to [-10, 10]² by rejection",
        "function": "f(x) = ‖x‖², range 200 over the domain",
        "k": "100 for the paper's and the published rule; 20 for semilocal",
        "split": "half for the partition, half for the values",
    },
)


def mean(options: FigureOptions, study: Study = MEAN) -> Output:
    """Draw the error of a mean against ε."""
    words = "mean squared error of the mean of ‖x‖²"
    panels = [Panel(f"N = {n:,}", {"n": n}, "squared_error", words) for n in study.axes["n"]]
    return _drawn(options, study, panels, INTERVAL)


# -- learning from released positions ----------------------------------------------------------------------------------

ALL_ROWS = 20_640  # block groups of California Housing
CLASSIFIERS = Study(
    "classifiers",
    trials.classifier_trial,
    ("ours", "pooled-curator", "pooled-servers", "paper", "sldp-quantize", "sldp-split", "ldp", "geo", "exact"),
    {
        "epsilon": (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0),
        "rows": (ALL_ROWS,),
        "classifiers": (", ".join((trials.FOREST, trials.NEIGHBOURS, trials.LOGISTIC)),),
    },
    of=("f1", "precision", "recall"),
    quick_axes={"epsilon": (0.1, 1.0, 2.0, 10.0)},
    by=("classifier",),
    label="classifiers",
    title="learning from released positions: F1 against ε",
    purpose="points",
    participants=trials.PARTICIPANTS["block"],
    parameters={
        "data": "California Housing, longitude and latitude scaled from its public box to [0, 1]²",
        "label": "median house value above the median of all block groups",
        "split": "70 % for training (released positions), 30 % for testing (true positions)",
        "classifiers": "forest of 50 trees of depth 8; 15 neighbours weighted by distance; logistic regression",
        "participants": f"{round(0.7 * ALL_ROWS):,}",
    },
)
SENSITIVITY = Study(
    "sensitivity",
    trials.classifier_trial,
    ("ours", "pooled-curator", "pooled-servers", "paper", "sldp-quantize", "sldp-split"),
    {"epsilon": (1.0,), "k": (5, 10, 20, 50, 100, 200), "rows": (ALL_ROWS,), "classifiers": (trials.FOREST,)},
    of=("precision", "recall", "f1"),
    quick=3,
    most=50,
    by=("classifier",),
    label="RF_precision_recall",
    title="precision and recall of a forest against k",
    purpose="points",
    participants=trials.PARTICIPANTS["block"],
    parameters={"classifier": "forest of 50 trees of depth 8"},
)


def classifiers(options: FigureOptions, study: Study = CLASSIFIERS) -> Output:
    """Draw F1 against ε for the classifiers."""
    names, words = study.axes["classifiers"][0].split(", "), "F1 of class 1 on held-out positions"
    caption = (
        f"{DEVIATION} SLDP-Quantization and SLDP-Split use the published code's rule; semilocal without trust and the "
        "paper's rule release region centres; with a curator or two servers it draws synthetic points of each class "
        "from that class's tree. Always class 1 would score 0.667."
    )
    return _drawn(options, study, [Panel(name, {"classifier": name}, "f1", words) for name in names], caption)


def sensitivity(options: FigureOptions, study: Study = SENSITIVITY) -> Output:
    """Draw precision and recall of the forest against k."""
    panels = [Panel(name, {}, name, f"{name} of class 1") for name in ("precision", "recall")]
    caption = f"{DEVIATION} ε = 1. The published rule's regions fall below k at every k; see the table."
    return _drawn(options, study, panels, caption, along="k")


# -- range queries -----------------------------------------------------------------------------------------------------

QUERIED = (
    "ours", "pooled-curator", "pooled-servers", "paper", "published", "privtree", "ldp-kdtree", "ahead", "zero",
)  # fmt: skip
QUERIES_SYNTHETIC = Study(
    "queries_synthetic",
    trials.counts_trial,
    QUERIED,
    {"source": ("clusters",), "n": (5_000, 10_000, 20_000, 50_000), "epsilon": (0.1, 0.5, 1.0, 2.0, 3.0)},
    of=("mre",),
    quick=5,
    label="comparision_synthetic",
    title="range queries on clusters: error against ε",
    participants=trials.PARTICIPANTS["drawn"],
    parameters={
        "population": "five Gaussian clusters in [0, 1]², equal shares, by rejection",
        "queries": "100 per trial, sides U(0.1, 0.3), place uniform",
        "error": "mean of |answer − truth| / max(truth, 10⁻⁴ N)",
        "depth": "10 levels of the paper's quadtrees",
    },
)
QUERIES_REAL = Study(
    "queries_real",
    trials.counts_trial,
    QUERIED,
    {"n": (5_000, 20_000), "epsilon": (0.1, 0.5, 1.0, 2.0, 4.0)},
    of=("mre",),
    sources=("brightkite", "geolife", "gowalla", "porto"),
    label="spatial_queries_error",
    title="range queries on real positions: error against ε",
    participants=trials.PARTICIPANTS["row"],
    parameters={
        "population": "N rows of the dataset without replacement, scaled from its public box to [0, 1]²",
        "queries": "200 per trial, around a data point, sides log-uniform in [1/256, 1/8], true count in [20, 0.05 N]",
        "error": "mean of |answer − truth| / max(truth, 10 max(1, 10⁻⁴ N))",
        "depth": "16 levels of the paper's quadtrees (the paper names none; 10 would make its error larger)",
    },
)
QUERIES_PEOPLE = replace(
    QUERIES_REAL,
    name="queries_people",
    axes={**QUERIES_REAL.axes, "n": (5_000, 18_000), "stands_for": ("person",)},
    sources=("brightkite_last_checkin", "gowalla_more_users"),  # the paper's have too few people for its N
    label="queries_people",
    title="range queries with one position per person: error against ε (our own)",
    participants=trials.PARTICIPANTS["person"],
    parameters={
        **QUERIES_REAL.parameters,
        "population": "N people of the dataset, one row of each at random, scaled to [0, 1]²",
    },
)


def queries_synthetic(options: FigureOptions, study: Study = QUERIES_SYNTHETIC) -> Output:
    """Draw error against ε for each number of participants."""
    panels = [Panel(f"N = {n:,}", {"n": n}, "mre", MRE) for n in study.axes["n"]]
    return _drawn(options, study, panels, INTERVAL)


def queries_real(options: FigureOptions, study: Study = QUERIES_REAL) -> Output:
    """Draw error against ε for each dataset and number of participants."""
    panels = [
        Panel(f"{_title(name)}, N = {n:,}", {"source": name, "n": n}, "mre", MRE)
        for n in study.axes["n"]
        for name in study.sources
    ]
    return _drawn(options, study, panels, INTERVAL, columns=len(study.sources))


def queries_people(options: FigureOptions, study: Study = QUERIES_PEOPLE) -> Output:
    """Draw the same where every participant is a different person."""
    return queries_real(options, study)


# -- our own: what each choice for sparse areas costs ------------------------------------------------------------------

TRADEOFF = Study(
    "tradeoff",
    trials.counts_trial,
    ("paper", "published", "ours", "zero"),
    {"n": (20_000,), "epsilon": (1.0,), "k": (5, 10, 20, 50, 100)},
    of=("mre",),
    sources=("clusters", "california_housing", "gowalla", "brightkite", "porto"),
    quick=1,
    label="tradeoff",
    title="what each of the three choices for sparse areas costs (our own)",
    participants=f"Clusters: {trials.PARTICIPANTS['drawn'].lower()} Others: {trials.PARTICIPANTS['row'].lower()}",
)


def tradeoff(options: FigureOptions, study: Study = TRADEOFF) -> Output:
    """Draw, against k, the error of range counts and the share of people in a region with fewer than k."""
    values = {"mre": MRE, "participants_below": "share of people with fewer than k"}
    panels = [
        Panel(_title(name), {"source": name}, value, words) for value, words in values.items() for name in study.sources
    ]
    caption = (
        "Top: error of range counts. Bottom: people in a region with fewer than k. The paper's rule lets a sparse part "
        "block the split of a dense cell; the published code exposes the people of the sparse part; semilocal lets "
        "them share a long region with others. Lower is better in both rows."
    )
    return _drawn(options, study, panels, caption, along="k", columns=len(study.sources))
