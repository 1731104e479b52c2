"""The real datasets with some of their range queries on the map.

Knows one picture. A dataset that is not there leaves its panel empty, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....arrays import Floats
from ..datasets.catalogue import dataset
from ..harness.panels import say_missing
from ..harness.report import FigureReport
from ..harness.style import figure_style, save
from ..harness.summary import FigureOptions, Output, present, stamped, write_csv
from ..harness.trial import stream
from ..trials import PARTICIPANTS, draw_people
from .queries_synthetic import show_workload, workload_rows

__all__ = ["FULL", "Grid", "make"]

NAME = "spatial_queries_example"
SHOWN = 25  # queries per panel


@dataclass(frozen=True)
class Grid:
    """Datasets, and how many participants are drawn."""

    datasets: tuple[str, ...] = ("gowalla", "brightkite", "geolife", "porto")
    size: int = 20_000


FULL = Grid()


def _look_at_most(axes: Any, points: Floats) -> None:
    """Show the square that holds all but the outermost percent on each side: a few trips go far."""
    low, high = np.quantile(points, (0.01, 0.99), axis=0)
    middle, half = (low + high) / 2, 0.62 * float((high - low).max())
    axes.set(xlim=(middle[0] - half, middle[0] + half), ylim=(middle[1] - half, middle[1] + half))


def make(options: FigureOptions, grid: Grid = FULL) -> Output:
    """Draw the figure."""
    present_sources, missing = present(grid.datasets, options.data)
    title = "the datasets with sample queries"
    if not present_sources:
        return Output((FigureReport("fig:spatial_queries_example", title, missing="; ".join(missing.values())),))
    rows: list[dict[str, Any]] = []
    with figure_style() as Figure:
        figure = Figure(figsize=(3.1 * len(grid.datasets), 3.6))
        for axes, name in zip(figure.subplots(1, len(grid.datasets), squeeze=False)[0], grid.datasets, strict=True):
            axes.set_title(dataset(name).title.split()[0].rstrip(","))
            axes.set_box_aspect(1)
            if name in missing:
                say_missing(axes, f"not in the data folder; see: semilocal data describe {name}")
                continue
            points, boxes, counts, _ = draw_people(
                name, grid.size, stream("picture", name, options.seed), data=options.data
            )
            show_workload(axes, points, boxes[:SHOWN])
            axes.set(xlabel="longitude, scaled to [0, 1]", ylabel="latitude, scaled to [0, 1]")
            _look_at_most(axes, points)
            rows += workload_rows(name, boxes[:SHOWN], counts[:SHOWN])
        saved = save(figure, options.out, name=NAME)
    write_csv(options.out / f"{NAME}.csv", stamped(rows, options))
    return Output(
        (
            FigureReport(
                "fig:spatial_queries_example",
                title,
                f"{grid.size:,} positions of each dataset, {SHOWN} of its 200 queries; the outermost 1 % is cut off.",
                (saved.png,),
                {"N": f"{grid.size:,}", "queries": "each around a data point, sides log-uniform in [1/256, 1/8]"},
                runs=1,
                seed=options.seed,
                csv=f"{NAME}.csv",
                participants=PARTICIPANTS["row"],
                notes=tuple(f"left out: {why}" for why in missing.values()),
            ),
        )
    )
