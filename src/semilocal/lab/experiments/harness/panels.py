"""Drawings that several figures share: a row of panels with one line per method, and rows of box plots.

Knows summaries and axes. All numbers come in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..methods import Purpose, look, promise_of
from .style import Saved, epsilon_axis, error_axis, figure_style, legend_label, line, save, shared_legend
from .summary import select

__all__ = ["Panel", "box_panels", "line_panels"]

LARGEST_DROP = 0.9  # on a logarithmic axis an error bar cannot reach zero


@dataclass(frozen=True)
class Panel:
    """One panel: its title, and the values of the columns that pick its rows; `missing` says why it is empty."""

    title: str
    picks: Mapping[str, Any]
    missing: str = ""


def line_panels(
    summary: Sequence[Mapping[str, Any]],
    panels: Sequence[Panel],
    *,
    value: str,
    y_label: str,
    purpose: Purpose,
    folder: Path,
    name: str,
    columns: int = 4,
    log: bool = True,
    spread: str = "interval",
) -> Saved:
    """Draw a value against ε, one line per method, with error bars.

    Parameters
    ----------
    summary : sequence of mappings
        As from `summary.gather`, with ``method``, ``epsilon`` and the columns that `panels` pick by.
    value : str
        The column without its ending: ``value_mean`` is drawn.
    spread : {"interval", "deviation"}
        What the bars show: the 95 % confidence interval of the mean, or one standard deviation of a single run.
    """
    rows = -(-len(panels) // columns)
    width = min(columns, len(panels))
    with figure_style() as Figure:
        figure = Figure(figsize=(max(3.1 * width, 7.5), 2.9 * rows + 1.1))
        grid = figure.subplots(rows, width, squeeze=False, sharey="row")
        for place, axes in enumerate(grid.flat):
            if place >= len(panels):
                axes.set_axis_off()
                continue
            _draw_lines(axes, summary, panels[place], value, purpose, log, spread)
            if place % width == 0:
                axes.set_ylabel(y_label)
        shared_legend(figure, columns=1 if width < 3 else 2)
        return save(figure, folder, name=name)


def _draw_lines(
    axes: Any, summary: Sequence[Mapping[str, Any]], panel: Panel, value: str, purpose: Purpose, log: bool, spread: str
) -> None:
    axes.set_title(panel.title)
    if panel.missing:
        say_missing(axes, panel.missing)
        return
    chosen = select(summary, **panel.picks)
    epsilons = sorted({row["epsilon"] for row in chosen})
    for method in dict.fromkeys(row["method"] for row in chosen):
        mine = sorted(select(chosen, method=method), key=lambda row: float(row["epsilon"]))
        x = [row["epsilon"] for row in mine]
        y = [row[f"{value}_mean"] for row in mine]
        half = [
            row[f"{value}_std"] if spread == "deviation" else row[f"{value}_high"] - row[f"{value}_mean"]
            for row in mine
        ]
        down = [min(h, LARGEST_DROP * m) if log else h for h, m in zip(half, y, strict=True)]
        axes.errorbar(
            x,
            y,
            yerr=[down, half],
            elinewidth=0.8,
            capsize=1.5,
            **line(method),
            label=legend_label(method, promise_of(method, purpose)),
        )
    epsilon_axis(axes, epsilons)
    if log:
        error_axis(axes)
    else:
        axes.set_ylim(0, 1)


def say_missing(axes: Any, why: str) -> None:
    """Write into an empty panel what is missing."""
    import textwrap

    # ticks are shared with the neighbours: they are hidden here, not taken away
    axes.tick_params(which="both", bottom=False, left=False, labelbottom=False, labelleft=False)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.text(0.5, 0.5, textwrap.fill(why, 30), ha="center", va="center", fontsize=8, transform=axes.transAxes)


def box_panels(
    rows: Sequence[Mapping[str, Any]],
    panels: Sequence[Panel],
    *,
    value: str,
    along: str,
    x_label: str,
    y_label: str,
    purpose: Purpose,
    folder: Path,
    name: str,
    log: bool = False,
) -> Saved:
    """Draw box plots of single runs: groups along the x axis, one box per method in each.

    Boxes span the quartiles, whiskers 1.5 times their distance; points beyond are drawn.

    Parameters
    ----------
    value : str or mapping
        The column to draw.
    along : str
        The column that makes groups.
    log : bool
        Whether the y axis is logarithmic.
    """
    methods = list(dict.fromkeys(row["method"] for row in rows))
    with figure_style() as Figure:
        figure = Figure(figsize=(max(3.6 * len(panels), 10.0), 4.6))
        for place, (axes, panel) in enumerate(
            zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True)
        ):
            column = panel.picks.get("value", value)
            chosen = select(rows, **{key: want for key, want in panel.picks.items() if key != "value"})
            groups = sorted({row[along] for row in chosen})
            step = 0.8 / len(methods)
            for order, method in enumerate(methods):
                sets = [[row[column] for row in select(chosen, method=method, **{along: group})] for group in groups]
                at = [index + (order - (len(methods) - 1) / 2) * step for index in range(len(groups))]
                _boxes(axes, sets, at, 0.8 * step, method, legend_label(method, promise_of(method, purpose)))
            axes.set_xticks(range(len(groups)), labels=[f"{group:g}" for group in groups])
            axes.grid(axis="x", visible=False)
            axes.set_title(panel.title)
            axes.set_xlabel(x_label)
            if log:
                error_axis(axes)
            if place == 0 or "value" in panel.picks:
                axes.set_ylabel(panel.picks.get("value", y_label))
        shared_legend(figure, columns=2)
        return save(figure, folder, name=name)


def _boxes(
    axes: Any, sets: Sequence[Sequence[float]], at: Sequence[float], width: float, method: str, label: str
) -> None:
    style = look(method)
    drawn = axes.boxplot(
        sets,
        positions=at,
        widths=width,
        manage_ticks=False,
        patch_artist=True,
        boxprops={"facecolor": style.colour if style.filled else "white", "edgecolor": style.colour, "linewidth": 0.9},
        medianprops={"color": "white" if style.filled else style.colour, "linewidth": 1.1},
        whiskerprops={"color": style.colour, "linewidth": 0.8},
        capprops={"color": style.colour, "linewidth": 0.8},
        flierprops={"marker": style.marker, "markersize": 2, "markeredgecolor": style.colour, "alpha": 0.6},
    )
    # the medians carry the method's marker, so that boxes are told apart without colour
    axes.plot(
        at,
        [line_.get_ydata()[0] for line_ in drawn["medians"]],
        linestyle="none",
        marker=style.marker,
        markersize=4,
        markerfacecolor="white" if style.filled else style.colour,
        markeredgecolor=style.colour,
        zorder=3,
    )
    axes.plot([], [], **{**line(method), "linestyle": "none", "markersize": 9}, label=label)
