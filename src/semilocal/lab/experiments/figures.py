"""The figures: for each its grid of trials, its pictures, and what a reader must know beside them.

A grid is a `Study`; a figure takes another one, such as a smaller one, as an argument. All numbers come from the
trials. Knows the paper's parameters and matplotlib's axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...arrays import Floats
from ...functions import gaussian_bump
from ...protocol.promise import Guarantee
from ..baselines import PublishedRegions
from . import data
from .catalogue import CATALOGUE
from .drawing import (
    Panel,
    box_panels,
    error_axis,
    figure_style,
    legend_label,
    line,
    line_panels,
    save,
    say_missing,
    shared_legend,
)  # fmt: skip
from .methods import CROWD, DELTA, Regions, look, promise_of
from .report import FigureReport
from .runner import Trial, stream
from .summary import FigureOptions, Gathered, Output, Study, lines, present, select, write_rows
from .trials import (
    BUMP_SPREAD,
    FOREST,
    LOGISTIC,
    MEAN_CROWD,
    NEIGHBOURS,
    PARTICIPANTS,
    PLANE,
    classifier_trial,
    counts_trial,
    density_trial,
    draw_people,
    housing,
    mean_trial,
    released_values,
)  # fmt: skip

__all__ = [
    "CLASSIFIERS", "DENSITY", "EXAMPLE", "MEAN", "PROMISES", "QUERIES_PEOPLE", "QUERIES_REAL", "QUERIES_SYNTHETIC",
    "SENSITIVITY", "TRADEOFF", "classifiers", "column_of", "density", "housing_map", "mean", "promises",
    "queries_example", "queries_people", "queries_real", "queries_synthetic", "sensitivity", "tradeoff",
]  # fmt: skip

MRE = "mean relative error (MRE)"
TITLES = {"clusters": "Clusters", "california_housing": "California Housing"}
BOTH = f"Clusters: {PARTICIPANTS['drawn'].lower()} Others: {PARTICIPANTS['row'].lower()}"


def _section(
    study: Study, found: Gathered, options: FigureOptions, picture: Path, caption: str, notes: tuple[str, ...] = ()
) -> FigureReport:
    """A section about the trials of a study; parameters that are axes of the study need not be named."""
    axes = {
        shown: ", ".join(f"{value:,}" if name == "n" else f"{value:g}" for value in study.axes[name])
        for name, shown in {"n": "N", "epsilon": "ε", "k": "k"}.items()
        if name in study.axes
    }
    return FigureReport(
        f"fig:{study.label}",
        study.title,
        caption,
        picture,
        {"k": CROWD, **axes, "δ": f"{DELTA:g}", **study.parameters},
        lines(found.summary, study.purpose),
        study.repeats(options),
        options.seed,
        f"{study.name}.csv",
        (*notes, *(f"left out: {why}" for why in found.missing.values())),
        participants=study.participants,
    )


def _shown(
    name: str, title: str, caption: str, picture: Path, options: FigureOptions, participants: str, **more: Any
) -> FigureReport:
    """A section about a picture that shows no trials; its numbers are in a table of its name."""
    return FigureReport(
        f"fig:{name}", title, caption, picture, runs=1, seed=options.seed, csv=f"{name}.csv",
        participants=participants, **more,
    )  # fmt: skip


def _absent(label: str, title: str, missing: Mapping[str, str]) -> Output:
    return Output((FigureReport(f"fig:{label}", title, missing="; ".join(missing.values())),))


def _short(name: str) -> str:
    """The first word of a dataset's title."""
    return CATALOGUE[name].title.split()[0].rstrip(",")


def _not_there(name: str) -> str:
    return f"not in the data folder; see: semilocal data describe {name}"


# -- Figure 1: partitions over the points, the true function, and the reports ------------------------------------------

PARTITIONS = ("paper", "published", "ours")
DENSITY = Study(
    "density_reconstruction",
    density_trial,
    dict.fromkeys((*PARTITIONS, "ldp"), MEAN_CROWD),
    {"n": (30_000,), "epsilon": (1.0,)},
    of=("value_mse", "mean_error"),
    quick=3,
    label="density_reconstruction",
    title="a function from private reports (Figure 1)",
    purpose="values",
    participants=PARTICIPANTS["drawn"],
    parameters={
        "population": "N(0, 2²) truncated to [-10, 10]²",
        "function": "f(x) = exp(−‖x‖² / (2 · 2²))",
        "k": MEAN_CROWD,
        "depth": "15 levels of the paper's quadtrees",
    },
)
BINS = 34  # hexagons across a panel


def density(options: FigureOptions, study: Study = DENSITY) -> Output:
    """Draw Figure 1 from the first run; the table holds all of them."""
    found = study.gather(options)
    place = {"n": study.axes["n"][0], "epsilon": study.axes["epsilon"][0], "k": MEAN_CROWD}
    released = {
        method: released_values(Trial.of(study.name, method, seed=options.seed, run=0, **place))
        for method in study.methods
    }
    points = released["ldp"][0]
    with figure_style() as Figure:
        figure = Figure(figsize=(11.0, 6.2))
        grid = figure.subplots(2, 1 + len(PARTITIONS), sharex=True, sharey=True)
        shown = _hexagons(grid[0, 0], points, gaussian_bump(BUMP_SPREAD)(points), "true f at the samples")
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
        heading = f"N = {len(points):,}, ε = {place['epsilon']:g}, δ = {DELTA:g}, k = {MEAN_CROWD}"
        figure.suptitle(heading, fontsize=9)
        figure.colorbar(shown, ax=grid, label="f, or the mean of its reports", shrink=0.7, extend="both")
        saved = save(figure, options.out, name=study.name)
    errors = {method: select(found.summary, method=method)[0]["value_mse_mean"] for method in study.methods}
    worded = "; ".join(f"{look(method).name} {error:.3g}" for method, error in errors.items())
    caption = (
        "Top: true values, and the partitions over the points. Bottom: means of the reports per hexagon. Mean squared "
        f"error of a single report: {worded}."
    )
    return Output((_section(study, found, options, saved, caption),))


def _hexagons(axes: Any, points: Any, values: Any, title: str) -> Any:
    shown = axes.hexbin(
        points[:, 0], points[:, 1], C=values, reduce_C_function=np.mean, gridsize=BINS,
        extent=(PLANE.lower[0], PLANE.upper[0], PLANE.lower[1], PLANE.upper[1]),
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
    axes.set(xlim=(PLANE.lower[0], PLANE.upper[0]), ylim=(PLANE.lower[1], PLANE.upper[1]))
    axes.set_title(title, fontsize=9)
    axes.set_aspect("equal")
    axes.grid(visible=False)
    axes.spines[:].set_visible(True)


# -- Figure 2: the mean of the squared norm, error against ε and its distribution --------------------------------------

MEAN = Study(
    "mean",
    mean_trial,
    {
        **dict.fromkeys(("central", "pooled-curator", "pooled-servers", "ldp"), 0),
        **dict.fromkeys(("paper", "published"), MEAN_CROWD),
        "ours": CROWD,
        "zero": 0,
    },
    {"n": (2_000, 16_000, 32_000, 64_000), "epsilon": (0.5, 1.0, 2.0, 4.0, 8.0, 12.0)},
    of=("squared_error", "expected_mse", "error"),
    quick=5,
    label="mse_results_a",
    title="error of a mean against ε (Figure 2a)",
    purpose="values",
    participants=PARTICIPANTS["drawn"],
    parameters={
        "population": "N(0, 1.5²) truncated to [-10, 10]² by rejection",
        "function": "f(x) = ‖x‖², range 200 over the domain",
        "k": "100 for the paper's and the published rule; 20 for semilocal",
        "split": "half for the partition, half for the values",
    },
)
MOST_IN_BOXES = 5.0  # ε of the box plots


def mean(options: FigureOptions, study: Study = MEAN) -> Output:
    """Draw Figures 2a and 2b from the same runs."""
    found = study.gather(options)
    panels = [Panel(f"N = {n:,}", {"n": n}) for n in study.axes["n"]]
    words = "error of the mean of ‖x‖²"
    errors = line_panels(found.summary, panels, study, options, value="squared_error", y_label=f"mean squared {words}")
    rows: list[dict[str, Any]] = [dict(row) for row in found.rows]
    small = [{**row, "absolute_error": abs(row["error"])} for row in rows if row["epsilon"] <= MOST_IN_BOXES]
    spread = replace(study, label="error_boxplots_b", title="distribution of the error (Figure 2b)")
    boxes = box_panels(small, panels, spread, options, value="absolute_error", y_label=f"absolute {words}", log=True)
    interval = "Bars: 95 % confidence interval of the mean squared error."
    same = (
        "The same runs, ε up to 5. Absolute errors, because the lines lie powers of ten apart; signed ones, and their "
        "means (the bias), are in the table."
    )
    second = _section(spread, found, options, boxes, same)
    return Output((_section(study, found, options, errors, interval), second))


# -- learning from released positions ----------------------------------------------------------------------------------

ALL_ROWS = 20_640  # block groups of California Housing
CLASSIFIERS = Study(
    "classifiers",
    classifier_trial,
    ("ours", "pooled-curator", "pooled-servers", "paper", "sldp-quantize", "sldp-split", "ldp", "geo", "exact"),
    {
        "epsilon": (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0),
        "rows": (ALL_ROWS,),
        "classifiers": (", ".join((FOREST, NEIGHBOURS, LOGISTIC)),),
    },
    of=("f1", "precision", "recall"),
    quick_axes={"epsilon": (0.1, 1.0, 2.0, 10.0)},
    by=("classifier",),
    label="classifiers",
    title="learning from released positions: F1 against ε",
    purpose="points",
    participants=PARTICIPANTS["block"],
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
    classifier_trial,
    ("ours", "pooled-curator", "pooled-servers", "paper", "sldp-quantize", "sldp-split"),
    {"epsilon": (1.0,), "k": (5, 10, 20, 50, 100, 200), "rows": (ALL_ROWS,), "classifiers": (FOREST,)},
    of=("precision", "recall", "f1"),
    quick=3,
    most=50,
    by=("classifier",),
    label="RF_precision_recall",
    title="precision and recall of a forest against k",
    purpose="points",
    participants=PARTICIPANTS["block"],
    parameters={"classifier": "forest of 50 trees of depth 8"},
)


def classifiers(options: FigureOptions, study: Study = CLASSIFIERS) -> Output:
    """Draw F1 against ε for the classifiers."""
    found = study.gather(options)
    panels = [Panel(name, {"classifier": name}) for name in study.axes["classifiers"][0].split(", ")]
    words = "F1 of class 1 on held-out positions"
    scores = line_panels(found.summary, panels, study, options, value="f1", y_label=words, score=True)
    caption = (
        "Bars: one standard deviation of a single run. SLDP-Quantization and SLDP-Split use the published code's rule; "
        "semilocal without trust and the paper's rule release region centres; with a curator or two servers it draws "
        "synthetic points of each class from that class's tree. Always class 1 would score 0.667."
    )
    return Output((_section(study, found, options, scores, caption),))


def sensitivity(options: FigureOptions, study: Study = SENSITIVITY) -> Output:
    """Draw precision and recall of the forest against k."""
    found = study.gather(options)
    panels = [Panel(name, {"value": name}) for name in ("precision", "recall")]
    boxes = box_panels(found.rows, panels, study, options, value="precision", along="k")
    caption = "ε = 1. The published rule's regions fall below k at every k; see the table."
    return Output((_section(study, found, options, boxes, caption),))


def housing_map(options: FigureOptions) -> Output:
    """Draw the classification task on the map."""
    name = "housing_data"
    classes = ((0, "at or below the median value", "#9ecae1"), (1, "above the median value", "#a50f15"))
    points, labels, middle = housing()
    counts = np.bincount(labels, minlength=2).tolist()
    with figure_style() as Figure:
        figure = Figure(figsize=(4.6, 4.8))
        axes = figure.subplots()
        order = stream("picture", name, options.seed).permutation(len(points))  # neither class covers the other
        colours = np.array([colour for _, _, colour in classes])[labels[order]]
        axes.scatter(*points[order].T, s=2.5, c=colours, linewidths=0, rasterized=True)
        for value, meaning, colour in classes:
            axes.plot([], [], "o", markersize=6, color=colour, label=f"class {value}: {meaning} ({counts[value]:,})")
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="longitude, scaled to [0, 1]", ylabel="latitude, scaled to [0, 1]")
        axes.set_aspect("equal")
        figure.legend(loc="outside lower center", ncols=1)
        saved = save(figure, options.out, name=name)
    rows = [
        {"class": value, "meaning": meaning, "block_groups": counts[value], "median_value_usd": middle}
        for value, meaning, _ in classes
    ]
    write_rows(options, name, rows)
    caption = (
        f"California Housing, {len(points):,} block groups; the median of their median house values is {middle:,.0f} "
        "US dollars."
    )
    section = _shown(name, "the two classes on the map", caption, saved, options, PARTICIPANTS["block"])
    return Output((section,))


# -- range queries -----------------------------------------------------------------------------------------------------

QUERIED = (
    "ours", "pooled-curator", "pooled-servers", "paper", "published", "privtree", "ldp-kdtree", "ahead", "zero",
)  # fmt: skip
QUERIES_SYNTHETIC = Study(
    "queries_synthetic",
    counts_trial,
    QUERIED,
    {"source": ("clusters",), "n": (5_000, 10_000, 20_000, 50_000), "epsilon": (0.1, 0.5, 1.0, 2.0, 3.0)},
    of=("mre",),
    quick=5,
    label="comparision_synthetic",
    title="range queries on clusters: error against ε",
    participants=PARTICIPANTS["drawn"],
    parameters={
        "population": "five Gaussian clusters in [0, 1]², equal shares, by rejection",
        "queries": "100 per trial, sides U(0.1, 0.3), place uniform",
        "error": "mean of |answer − truth| / max(truth, 10⁻⁴ N)",
        "depth": "10 levels of the paper's quadtrees",
    },
)
QUERIES_REAL = Study(
    "queries_real",
    counts_trial,
    QUERIED,
    {"n": (5_000, 20_000), "epsilon": (0.1, 0.5, 1.0, 2.0, 4.0)},
    of=("mre",),
    sources=("brightkite", "geolife", "gowalla", "porto"),
    label="spatial_queries_error",
    title="range queries on real positions: error against ε",
    participants=PARTICIPANTS["row"],
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
    participants=PARTICIPANTS["person"],
    parameters={
        **QUERIES_REAL.parameters,
        "population": "N people of the dataset, one row of each at random, scaled to [0, 1]²",
    },
)
EXAMPLE = ("gowalla", "brightkite", "geolife", "porto")
EXAMPLE_SIZE = 20_000


def queries_synthetic(options: FigureOptions, study: Study = QUERIES_SYNTHETIC) -> Output:
    """Draw the clusters with some queries, and error against ε."""
    found = study.gather(options)
    shown, name = 12, "spatial_queries_synthetic"
    rng = stream("picture", "clusters", options.seed)
    points, boxes, counts, _ = draw_people("clusters", study.axes["n"][0], rng)
    with figure_style() as Figure:
        figure = Figure(figsize=(4.2, 4.2))
        axes = figure.subplots()
        _workload(axes, points, boxes[:shown])
        title = f"N = {len(points):,}, {shown} of {len(boxes)} queries"
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="x", ylabel="y", title=title)
        picture = save(figure, options.out, name=name)
    write_rows(options, name, _workload_rows("clusters", boxes[:shown], counts))
    panels = [Panel(f"N = {n:,}", {"n": n}) for n in study.axes["n"]]
    errors = line_panels(found.summary, panels, study, options, value="mre", y_label=MRE)
    caption = "Bars: 95 % confidence interval of the mean."
    words = "Half of a trial's participants are drawn at most; boxes are queries."
    workload = _shown(name, "the clusters and some queries", words, picture, options, study.participants)
    return Output((workload, _section(study, found, options, errors, caption)))


def queries_real(options: FigureOptions, study: Study = QUERIES_REAL) -> Output:
    """Draw error against ε for each dataset and number of participants."""
    found = study.gather(options)
    if not found.rows:
        return _absent(study.label, study.title, found.missing)
    panels = [
        Panel(f"{_short(name)}, N = {n:,}", {"source": name, "n": n}, _not_there(name) if name in found.missing else "")
        for n in study.axes["n"]
        for name in study.sources
    ]
    errors = line_panels(found.summary, panels, study, options, value="mre", y_label=MRE, columns=len(study.sources))
    there = [name for name in study.sources if name not in found.missing]
    notes = tuple(note for name in there for note in data.load(name, options.data).notes)
    caption = "Bars: 95 % confidence interval of the mean."
    return Output((_section(study, found, options, errors, caption, notes),))


def queries_people(options: FigureOptions, study: Study = QUERIES_PEOPLE) -> Output:
    """Draw the same where every participant is a different person."""
    return queries_real(options, study)


def queries_example(options: FigureOptions, names: Sequence[str] = EXAMPLE, *, size: int = EXAMPLE_SIZE) -> Output:
    """Draw the datasets with some of their queries; one that is not there leaves its panel empty, with the reason."""
    there, missing = present(names, options.data)
    label, title, shown = "spatial_queries_example", "the datasets with sample queries", 25
    if not there:
        return _absent(label, title, missing)
    rows: list[dict[str, Any]] = []
    with figure_style() as Figure:
        figure = Figure(figsize=(3.1 * len(names), 3.6))
        for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
            axes.set_title(_short(name))
            axes.set_box_aspect(1)
            if name in missing:
                say_missing(axes, _not_there(name))
                continue
            rng = stream("picture", name, options.seed)
            points, boxes, counts, _ = draw_people(name, size, rng, data=options.data)
            _workload(axes, points, boxes[:shown])
            axes.set(xlabel="longitude, scaled to [0, 1]", ylabel="latitude, scaled to [0, 1]")
            # the square that holds all but the outermost percent on each side: a few trips go far
            low, high = np.quantile(points, (0.01, 0.99), axis=0)
            middle, half = (low + high) / 2, 0.62 * float((high - low).max())
            axes.set(xlim=(middle[0] - half, middle[0] + half), ylim=(middle[1] - half, middle[1] + half))
            rows += _workload_rows(name, boxes[:shown], counts)
        saved = save(figure, options.out, name=label)
    write_rows(options, label, rows)
    caption = f"{size:,} positions of each dataset, {shown} of its 200 queries; the outermost 1 % is cut off."
    parameters = {"N": f"{size:,}", "queries": "each around a data point, sides log-uniform in [1/256, 1/8]"}
    notes = tuple(f"left out: {why}" for why in missing.values())
    section = _shown(label, title, caption, saved, options, PARTICIPANTS["row"], parameters=parameters, notes=notes)
    return Output((section,))


def _workload(axes: Any, points: Any, boxes: Any) -> None:
    """Draw points and query boxes; axes are equal in scale."""
    from matplotlib.patches import Rectangle

    axes.plot(points[:, 0], points[:, 1], ".", markersize=1.2, color="#08519c", alpha=0.25, rasterized=True)
    for (x0, y0), (x1, y1) in boxes:
        axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor="#1b7837", linewidth=0.9, zorder=3))
    axes.set_aspect("equal")


def _workload_rows(source: str, boxes: Any, counts: Any) -> list[dict[str, Any]]:
    """One row per query: its corners in the unit square and its true count."""
    corners = ("x_lower", "y_lower", "x_upper", "y_upper")
    return [
        {"source": source, **dict(zip(corners, box.ravel().tolist(), strict=True)), "true_count": int(count)}
        for box, count in zip(boxes, counts, strict=False)
    ]


# -- our own: error against what is promised to whom -------------------------------------------------------------------

PROMISES = Study(
    "promises",
    counts_trial,
    QUERIED,
    {"n": (20_000,), "epsilon": (1.0,)},
    of=("mre",),
    sources=("clusters", "gowalla", "brightkite", "porto"),
    label="promises",
    title="error against what is promised to whom (our own)",
    participants=BOTH,
)
COLUMNS = ("any move\n(plain DP)", "inside the region,\nwith a crowd", "inside the region,\nno crowd")
WHO = {"nobody": "trust: nobody", "two-servers": "trust: two servers", "curator": "trust: a curator"}


def column_of(guarantee: Guarantee) -> int:
    """Return the column that a promise belongs to."""
    if guarantee.adjacency != "inside":
        return 0
    return 1 if guarantee.k else 2


def promises(options: FigureOptions, study: Study = PROMISES) -> Output:
    """Draw error at one ε, a column per kind of promise: nobody compares unlike promises by an axis alone."""
    found = study.gather(options)
    sources = list(dict.fromkeys(row["source"] for row in found.summary))
    rows = -(-len(sources) // 2)
    with figure_style() as Figure:
        figure = Figure(figsize=(9.4, 3.1 * rows + 1.4))
        panels = figure.subplots(rows, min(2, len(sources)), squeeze=False).ravel()
        for axes, source in zip(panels, sources, strict=False):
            _promise_panel(axes, select(found.summary, source=source))
            axes.set_title(TITLES.get(source, source.capitalize()))
        for axes in panels[len(sources) :]:
            axes.set_visible(False)
        shared_legend(figure)
        saved = save(figure, options.out, name="promises")
    caption = (
        "Range counts at one ε, error on a logarithmic axis. Compare inside a column: there the promise is of one "
        "kind. The legend says who has to be trusted and what is bounded. Lower is better for the analyst; the promise "
        "on the left is of a stronger kind than those on the right."
    )
    return Output((_section(study, found, options, saved, caption),))


def _promise_panel(axes: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """Points of one source: a column per promise, its methods side by side."""
    columns: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["method"] == "zero":  # it promises everything and says nothing: no column, but the error to stay below
            axes.axhline(row["mre_mean"], color=look("zero").colour, label=look("zero").name)
        else:
            columns.setdefault(column_of(promise_of(row["method"], "counts")), []).append(row)
    for column, members in columns.items():
        for place, row in enumerate(members):
            x = column + 0.13 * (place - (len(members) - 1) / 2)
            style = {**line(row["method"]), "linestyle": "None", "markersize": 7}
            axes.plot([x], [row["mre_mean"]], **style, label=_promise_words(row["method"]))
    axes.set_xticks(range(len(COLUMNS)), labels=COLUMNS, fontsize=7.5)
    axes.set_xlim(-0.55, len(COLUMNS) - 0.45)
    for edge in range(1, len(COLUMNS)):
        axes.axvline(edge - 0.5, color="#d0d0d0", linewidth=0.6)
    axes.grid(False, axis="x")
    error_axis(axes)
    axes.set_ylabel(MRE)


def _promise_words(method: str) -> str:
    guarantee = promise_of(method, "counts")
    cost = guarantee.cost("ε")
    if guarantee.adjacency != "inside" and guarantee.anywhere is not None:
        cost = "ε for any move" if guarantee.anywhere == 1 else f"{guarantee.anywhere:g} ε for any move"
    return f"{look(method).name.partition(' (')[0]} ({WHO[guarantee.trust]}): {cost}"


# -- our own: what each choice for sparse areas costs ------------------------------------------------------------------

TRADEOFF = Study(
    "tradeoff",
    counts_trial,
    ("paper", "published", "ours", "zero"),
    {"n": (20_000,), "epsilon": (1.0,), "k": (5, 10, 20, 50, 100)},
    of=("mre",),
    sources=("clusters", "california_housing", "gowalla", "brightkite", "porto"),
    quick=1,
    label="tradeoff",
    title="what each of the three choices for sparse areas costs (our own)",
    participants=BOTH,
)


def tradeoff(options: FigureOptions, study: Study = TRADEOFF) -> Output:
    """Draw, against k, the error of range counts and the share of people in a region with fewer than k."""
    found = study.gather(options)
    sources = list(dict.fromkeys(row["source"] for row in found.summary))
    with figure_style() as Figure:
        figure = Figure(figsize=(2.7 * len(sources) + 0.6, 6.0))
        grid = figure.subplots(2, len(sources), sharex=True, squeeze=False)
        for (top, bottom), source in zip(grid.T, sources, strict=True):
            top.set_title(TITLES.get(source, source.capitalize()))
            _tradeoff_panels(top, bottom, select(found.summary, source=source))
        grid[0, 0].set_ylabel(MRE)
        grid[1, 0].set_ylabel("people with fewer than k (%)")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=1, handlelength=3.5)
        saved = save(figure, options.out, name="tradeoff")
    caption = (
        "Top: error of range counts on a logarithmic axis. Bottom: people in a region with fewer than k. The paper's "
        "rule lets a sparse part block the split of a dense cell; the published code exposes the people of the sparse "
        "part; semilocal lets them share a long region with others. Lower is better in both rows."
    )
    return Output((_section(study, found, options, saved, caption),))


def _tradeoff_panels(top: Any, bottom: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """Error and exposed people of one source, a line per choice."""
    for method in dict.fromkeys(row["method"] for row in rows):
        mine = sorted(select(rows, method=method), key=lambda row: int(row["k"]))
        crowds = [row["k"] for row in mine]
        label = legend_label(method, promise_of(method, "counts"))
        top.plot(crowds, [row["mre_mean"] for row in mine], **line(method), label=label)
        if method != "zero":
            bottom.plot(crowds, [100 * row["participants_below"] for row in mine], **line(method))
    error_axis(top)
    crowds = sorted({row["k"] for row in rows})
    bottom.set_xscale("log")
    bottom.set_xticks(crowds, labels=[str(k) for k in crowds])
    bottom.minorticks_off()
    bottom.set_xlabel("smallest crowd k (participants)")
