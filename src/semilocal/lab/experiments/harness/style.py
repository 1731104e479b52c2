"""How every figure looks: fonts, sizes, legends, and pictures that have the same bytes each time.

Knows matplotlib and the looks of the methods. No two methods share marker, line and filling, so figures read in grey
too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ....errors import MissingExtra
from ....protocol.promise import Guarantee
from ..methods import METHODS, crowd_kept, look

__all__ = ["Saved", "epsilon_axis", "error_axis", "figure_style", "legend_label", "line", "save", "shared_legend"]

DPI = 160
MANY_DECADES = 1e4  # high over low of an axis from which on powers of ten read better


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


@dataclass(frozen=True)
class Saved:
    """Where the two pictures of a figure are."""

    png: Path
    svg: Path


def line(method: str) -> dict[str, Any]:
    """Return the keyword arguments of ``Axes.plot`` and ``Axes.errorbar`` for a method (no label)."""
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
    """Return a legend entry: the name of a line, its true loss in terms of the ε of the axis, whether a crowd is kept.

    Examples
    --------
    >>> from ..methods import promise_of
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
    matplotlib = _matplotlib()
    with matplotlib.rc_context(dict(SETTINGS)):
        yield matplotlib.figure.Figure


def epsilon_axis(axes: Any, values: Sequence[float]) -> None:
    """Make the x axis logarithmic in ε, with a plain number at each value that was computed."""
    axes.set_xscale("log")
    axes.set_xticks(list(values), labels=[f"{value:g}" for value in values])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("privacy budget ε")


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


def save(figure: Any, folder: str | Path, *, name: str) -> Saved:
    """Write a figure as PNG and SVG; the same figure gives the same bytes.

    Parameters
    ----------
    figure : matplotlib Figure
        Output inside `figure_style`. Draw thousands of points with ``rasterized=True``: an SVG holds each one
        otherwise.
    folder : str or Path
        Output if it is not there.
    name : str
        File name without ending.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    saved = Saved(folder / f"{name}.png", folder / f"{name}.svg")
    # Dates and versions in the metadata would change the bytes.
    with _matplotlib().rc_context(dict(SETTINGS)):
        figure.savefig(saved.png, bbox_inches="tight", metadata={"Software": None})
        figure.savefig(saved.svg, bbox_inches="tight", metadata={"Date": None, "Creator": None})
    return saved


def _matplotlib() -> Any:
    try:
        import matplotlib.figure
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    return matplotlib
