"""Range queries on five Gaussian clusters: a picture of the workload, and error against ε.

Knows the grid of the experiment and its two pictures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..harness.panels import Panel, line_panels
from ..harness.report import FigureReport
from ..harness.style import Saved, figure_style, save
from ..harness.summary import FigureOptions, Gathered, Output, gather, lines, stamped, write_csv
from ..harness.trial import Trial, stream
from ..trials import CROWD, PARTICIPANTS, counts_trial, draw_people

__all__ = ["FULL", "METHODS", "Grid", "make", "results", "show_workload"]

NAME = "queries_synthetic"
SOURCE = "clusters"
METHODS = (
    "ours",
    "pooled-curator",
    "pooled-servers",
    "paper",
    "published",
    "privtree",
    "ldp-kdtree",
    "ldp-quadtree",
    "ahead",
    "kanonymous",
    "zero",
)
AS_THE_AUTHORS = "privtree-cut"  # their code cuts counts at zero here: the line to compare with theirs
SHOWN = 12  # queries in the picture


@dataclass(frozen=True)
class Grid:
    """Numbers of participants and values of ε."""

    sizes: tuple[int, ...] = (5_000, 10_000, 20_000, 50_000)
    epsilons: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0, 3.0)


FULL = Grid()


def results(options: FigureOptions, grid: Grid = FULL) -> Gathered:
    """Run the trials, or read them from the cache."""
    trials = [
        Trial.of(NAME, method, seed=options.seed, run=run, source=SOURCE, n=n, epsilon=epsilon, k=CROWD)
        for run in range(options.repeats(quick=5))
        for n in grid.sizes
        for epsilon in grid.epsilons
        for method in (*METHODS, AS_THE_AUTHORS)
    ]
    return gather(NAME, trials, counts_trial, options, by=("method", "source", "n", "epsilon", "k"), of=("mre",))


def make(options: FigureOptions, grid: Grid = FULL) -> Output:
    """Draw both figures."""
    found = results(options, grid)
    picture = _draw_workload(options, grid)
    errors = line_panels(
        found.summary,
        [Panel(f"N = {n:,}", {"n": n}) for n in grid.sizes],
        value="mre",
        y_label="mean relative error (MRE)",
        purpose="counts",
        folder=options.out,
        name="comparision_synthetic",
    )
    parameters = {
        "population": "five Gaussian clusters in [0, 1]², equal shares, by rejection",
        "queries": "100 per trial, sides U(0.1, 0.3), place uniform",
        "error": "mean of |answer − truth| / max(truth, 10⁻⁴ N)",
        "N": ", ".join(f"{n:,}" for n in grid.sizes),
        "ε": ", ".join(f"{epsilon:g}" for epsilon in grid.epsilons),
        "k": CROWD,
        "δ": "0.05",
        "depth": "10 levels of the paper's quadtrees",
    }
    return Output(
        (
            FigureReport(
                "fig:spatial_queries_synthetic",
                "the clusters and some queries",
                "Half of a trial's participants are drawn at most; boxes are queries.",
                (picture.svg,),
                runs=1,
                seed=options.seed,
                csv="spatial_queries_synthetic.csv",
                participants=PARTICIPANTS["drawn"],
            ),
            FigureReport(
                "fig:comparision_synthetic",
                "range queries on clusters: error against ε",
                "Bars: 95 % confidence interval of the mean. The k-anonymous quadtree does not depend on ε.",
                (errors.svg,),
                parameters,
                lines(found.summary, "counts"),
                options.repeats(quick=5),
                options.seed,
                found.seconds,
                found.csv,
                participants=PARTICIPANTS["drawn"],
            ),
        )
    )


def _draw_workload(options: FigureOptions, grid: Grid) -> Saved:
    points, boxes, counts, _ = draw_people(SOURCE, grid.sizes[0], stream("picture", SOURCE, options.seed))
    with figure_style() as Figure:
        figure = Figure(figsize=(4.2, 4.2))
        axes = figure.subplots()
        show_workload(axes, points, boxes[:SHOWN])
        axes.set(
            xlim=(0, 1),
            ylim=(0, 1),
            xlabel="x",
            ylabel="y",
            title=f"N = {len(points):,}, {SHOWN} of {len(boxes)} queries",
        )
        saved = save(figure, options.out, name="spatial_queries_synthetic")
    rows = workload_rows(SOURCE, boxes[:SHOWN], counts[:SHOWN])
    write_csv(options.out / "spatial_queries_synthetic.csv", stamped(rows, options))
    return saved


def show_workload(axes: Any, points: Any, boxes: Any) -> None:
    """Draw points and query boxes; axes are equal in scale."""
    from matplotlib.patches import Rectangle

    axes.plot(points[:, 0], points[:, 1], ".", markersize=1.2, color="#08519c", alpha=0.25, rasterized=True)
    for (x0, y0), (x1, y1) in boxes:
        axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor="#1b7837", linewidth=0.9, zorder=3))
    axes.set_aspect("equal")


def workload_rows(source: str, boxes: Any, counts: Any) -> list[dict[str, Any]]:
    """Return one row per query: its corners in the unit square and its true count."""
    return [
        {
            "source": source,
            "x_lower": float(box[0, 0]),
            "y_lower": float(box[0, 1]),
            "x_upper": float(box[1, 0]),
            "y_upper": float(box[1, 1]),
            "true_count": int(count),
        }
        for box, count in zip(boxes, counts, strict=True)
    ]
