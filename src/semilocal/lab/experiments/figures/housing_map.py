"""The classification task on the map: block groups above and below the median house value.

Knows one picture.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..harness.report import FigureReport
from ..harness.style import figure_style, save
from ..harness.summary import FigureOptions, Output, stamped, write_csv
from ..harness.trial import stream
from ..trials import PARTICIPANTS, housing

__all__ = ["make"]

NAME = "housing_data"
CLASSES = ((0, "at or below the median value", "#9ecae1"), (1, "above the median value", "#a50f15"))


def make(options: FigureOptions) -> Output:
    """Draw the figure."""
    points, labels, middle = housing()
    with figure_style() as Figure:
        figure = Figure(figsize=(4.6, 4.8))
        axes = figure.subplots()
        order = stream("picture", NAME, options.seed).permutation(len(points))  # neither class covers the other
        colours = np.array([colour for _, _, colour in CLASSES])[labels[order]]
        axes.scatter(*points[order].T, s=2.5, c=colours, linewidths=0, rasterized=True)
        for value, name, colour in CLASSES:
            count = int(np.count_nonzero(labels == value))
            axes.plot([], [], "o", markersize=6, color=colour, label=f"class {value}: {name} ({count:,})")
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="longitude, scaled to [0, 1]", ylabel="latitude, scaled to [0, 1]")
        axes.set_aspect("equal")
        figure.legend(loc="outside lower center", ncols=1)
        saved = save(figure, options.out, name=NAME)
    rows: list[dict[str, Any]] = [
        {
            "class": value,
            "meaning": name,
            "block_groups": int(np.count_nonzero(labels == value)),
            "median_value_usd": middle,
        }
        for value, name, _ in CLASSES
    ]
    write_csv(options.out / f"{NAME}.csv", stamped(rows, options))
    caption = (
        f"California Housing, {len(points):,} block groups; the median of their median house values is "
        f"{middle:,.0f} US dollars."
    )
    figure_report = FigureReport(
        "fig:housing_data",
        "the two classes on the map",
        caption,
        (saved.png,),
        csv=f"{NAME}.csv",
        participants=PARTICIPANTS["block"],
        seed=options.seed,
        runs=1,
    )
    return Output((figure_report,))
