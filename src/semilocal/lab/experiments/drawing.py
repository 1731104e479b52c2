"""How every figure looks: fonts, sizes, legends, panels of lines and boxes; pictures have the same bytes each time.

No two methods share marker, line and filling, so figures read in grey too. Knows matplotlib and the looks of the
methods. All numbers come in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...io.plots import need_matplotlib
from ...protocol.promise import Guarantee
from .methods import METHODS, Purpose, crowd_kept, look, promise_of
from .summary import FigureOptions, Study, select

__all__ = [
    "Panel", "box_panels", "epsilon_axis", "error_axis", "figure_style", "legend_label", "line", "line_panels",
    "save", "say_missing", "shared_legend",
]  # fmt: skip

DPI = 160
MANY_DECADES = 1e4  # high over low of an axis from which on powers of ten read better
X_LABELS = {"epsilon": "privacy budget ε", "k": "smallest crowd k (participants)"}
LARGEST_DROP = 0.9  # on a logarithmic axis an error bar cannot reach zero
SETTINGS: Mapping[str, Any] = MappingProxyType(
    {
        "figure.constrained_layout.use": True,
        "figure.dpi": DPI,
        "figure.facecolor": "white",
        "font.family": "DejaVu Sans",  # ships with matplotlib: the same picture on every machine
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.labelsize": 9,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "grid.color": "#d9d9d9",
        "grid.linewidth": 0.6,
        "legend.fontsize": 8,
        "legend.frameon": False,
        "lines.markersize": 5,
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
        "savefig.dpi": DPI,
        "svg.fonttype": "path",
        "svg.hashsalt": "semilocal",
    }
)


def line(method: str) -> dict[str, Any]:
    """The keyword arguments of ``Axes.plot`` and ``Axes.errorbar`` for a method (no label)."""
    style = look(method)
    return {
        "color": style.colour,
        "marker": style.marker,
        "linestyle": style.dashes,
        "linewidth": style.width,
        "markerfacecolor": style.colour if style.filled else "white",
        "markeredgecolor": style.colour,
    }


def legend_label(method: str, guarantee: Guarantee) -> str:
    """A legend entry: the name of a line, its true loss in terms of the ε of the axis, whether a crowd is kept.

    Examples
    --------
    >>> legend_label("published", promise_of("published", "values"))
    "published code's rule: true loss 1.5 ε inside, no crowd promised"
    """
    kept = crowd_kept(guarantee)
    crowd = "" if kept is None else ", crowd of k kept" if kept else ", no crowd promised"
    return f"{look(method).name}: true loss {guarantee.cost('ε')}{crowd}"


@contextmanager
def figure_style() -> Iterator[Any]:
    """Give the class ``matplotlib.figure.Figure``, with the house style in force.

    Figures made from the class itself belong to nobody else: there is no list of open figures and no window.

    Examples
    --------
    >>> with figure_style() as Figure:
    ...     axes = Figure(figsize=(6, 3)).subplots(1, 2)
    >>> len(axes)
    2
    """
    matplotlib = need_matplotlib()
    from matplotlib.figure import Figure

    with matplotlib.rc_context(dict(SETTINGS)):
        yield Figure


def epsilon_axis(axes: Any, values: Sequence[float]) -> None:
    """Make the x axis logarithmic in ε, with a plain number at each value that was computed."""
    axes.set_xscale("log")
    axes.set_xticks(list(values), labels=[f"{value:g}" for value in values])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(X_LABELS["epsilon"])


def error_axis(axes: Any) -> None:
    """Make the y axis logarithmic, with plain numbers where it spans little and powers of ten where it spans much."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high / low < MANY_DECADES:
        plain = FuncFormatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(plain)
        axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: ""))


def shared_legend(figure: Any, *, columns: int = 2) -> None:
    """Put one legend below all panels, each label once, in the order of `METHODS` as far as they are methods."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    names = [method.look.name for method in METHODS.values()]
    rank = {
        label: min((i for i, name in enumerate(names) if label.startswith(name)), default=len(names)) for label in found
    }
    labels = sorted(found, key=rank.__getitem__)
    figure.legend(
        [found[label] for label in labels], labels, loc="outside lower center", ncols=columns, handlelength=3.5
    )


def save(figure: Any, folder: str | Path, *, name: str) -> Path:
    """Write a figure as PNG and SVG, of the same bytes each time, and return the path of the PNG.

    Draw thousands of points with ``rasterized=True``: an SVG holds each one otherwise.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.png"
    # Dates and versions in the metadata would change the bytes.
    with need_matplotlib().rc_context(dict(SETTINGS)):
        figure.savefig(path, bbox_inches="tight", metadata={"Software": None})
        figure.savefig(path.with_suffix(".svg"), bbox_inches="tight", metadata={"Date": None, "Creator": None})
    return path


# -- panels that several figures share ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Panel:
    """One panel: its title, and the values of the columns that pick its rows; `missing` says why it is empty."""

    title: str
    picks: Mapping[str, Any]
    missing: str = ""


def line_panels(
    summary: Sequence[Mapping[str, Any]],
    panels: Sequence[Panel],
    study: Study,
    options: FigureOptions,
    *,
    value: str,
    y_label: str,
    columns: int = 4,
    score: bool = False,
) -> Path:
    """Draw a value against ε, one line per method, with error bars.

    ``value`` is a column of the summary without its ending: ``value_mean`` is drawn. The axis of a ``score`` goes from
    0 to 1, and bars show one standard deviation of a single run. Otherwise it is an error on a logarithmic axis, and
    bars show the 95 % confidence interval of the mean.
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
            _draw_lines(axes, summary, panels[place], value, study.purpose, score)
            if place % width == 0:
                axes.set_ylabel(y_label)
        shared_legend(figure, columns=1 if width < 3 else 2)
        return save(figure, options.out, name=study.label)


def _draw_lines(
    axes: Any, summary: Sequence[Mapping[str, Any]], panel: Panel, value: str, purpose: Purpose, score: bool
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
        half = [row[f"{value}_std"] if score else row[f"{value}_high"] - row[f"{value}_mean"] for row in mine]
        down = half if score else [min(h, LARGEST_DROP * m) for h, m in zip(half, y, strict=True)]
        label = legend_label(method, promise_of(method, purpose))
        axes.errorbar(x, y, yerr=[down, half], elinewidth=0.8, capsize=1.5, **line(method), label=label)
    epsilon_axis(axes, epsilons)
    if score:
        axes.set_ylim(0, 1)
    else:
        error_axis(axes)


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
    study: Study,
    options: FigureOptions,
    *,
    value: str,
    along: str = "epsilon",
    y_label: str = "",
    log: bool = False,
) -> Path:
    """Draw box plots of single runs: groups by the column ``along``, one box per method in each.

    Boxes span the quartiles, whiskers 1.5 times their distance; points beyond are drawn. A panel that picks ``value``
    draws that column instead.
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
                _boxes(axes, sets, at, 0.8 * step, method, legend_label(method, promise_of(method, study.purpose)))
            axes.set_xticks(range(len(groups)), labels=[f"{group:g}" for group in groups])
            axes.grid(axis="x", visible=False)
            axes.set_title(panel.title)
            axes.set_xlabel(X_LABELS[along])
            if log:
                error_axis(axes)
            if place == 0 or "value" in panel.picks:
                axes.set_ylabel(panel.picks.get("value", y_label))
        shared_legend(figure, columns=2)
        return save(figure, options.out, name=study.label)


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
