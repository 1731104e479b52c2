"""How every figure looks: one colour, marker and line per method, everywhere.

Knows the methods' looks and names, fonts and sizes, and how to save a picture so that the same figure gives
the same bytes. Must not know data or results. No two methods share marker, line and filling, so figures read
in grey too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...errors import InvalidInput, MissingExtra

__all__ = [
    "METHODS",
    "Look",
    "Saved",
    "epsilon_axis",
    "error_axis",
    "figure_style",
    "legend_label",
    "line",
    "look",
    "save",
    "shared_legend",
]

DPI = 160
MANY_DECADES = 1e4  # high over low of an axis from which on powers of ten read better


@dataclass(frozen=True)
class Look:
    """The look of a method: a name for people, colour, marker, line, whether the marker is filled, width in
    points."""

    name: str
    colour: str
    marker: str
    dashes: str
    filled: bool = True
    width: float = 1.4


METHODS: Mapping[str, Look] = MappingProxyType(
    {
        "ours-core": Look("semilocal, core", "#08519c", "o", "-", width=2.0),
        "ours-uniform": Look("semilocal, uniform", "#4292c6", "o", "--", filled=False, width=2.0),
        "paper": Look("paper's rule", "#a50f15", "s", ":"),
        "published": Look("published code's rule", "#ef6548", "s", "-.", filled=False),
        "central": Look("central DP (trusted curator)", "#000000", "*", "-"),
        "privtree": Look("PrivTree (trusted curator)", "#1b7837", "^", "-"),
        "ldp": Look("local DP", "#7f7f7f", "v", "--"),
        "ldp-kdtree": Look("LDP kd-tree", "#b58ac6", "D", "-.", filled=False),
        "ldp-quadtree": Look("LDP quadtree", "#762a83", "D", ":"),
        "ahead": Look("AHEAD (local DP)", "#d09a00", "P", "--"),
        "geo": Look("planar Laplace", "#35978f", "X", "-."),
        "sldp-quantize": Look("SLDP-Quantization", "#3f2d8f", "h", "-"),
        "sldp-split": Look("SLDP-Split", "#8d86c9", "h", "--", filled=False),
        "ours-core-100": Look("semilocal, core, k = 100", "#2171b5", "<", ":", filled=False, width=2.0),
        "rule-all": Look("semilocal, rule all (the sparse block)", "#54278f", "d", "-"),
        "rule-each": Look("semilocal, rule each (the sparse are exposed)", "#f16913", "H", "-."),
        "exact": Look("no privacy", "#404040", "None", ":"),
        "kanonymous": Look("k-anonymous quadtree (no noise)", "#8c4a1f", "p", ":"),
    }
)

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


def look(method: str) -> Look:
    """Return the look of a method.

    Examples
    --------
    >>> look("ldp").name
    'local DP'
    """
    if method not in METHODS:
        raise InvalidInput(f"no method is called {method!r}; there are {', '.join(METHODS)}")
    return METHODS[method]


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


def legend_label(method: str, *, cost: str, crowd: bool | None) -> str:
    """Return a legend entry with the true cost of a line and whether a crowd is kept.

    Parameters
    ----------
    method : str
        A key of `METHODS`.
    cost : str
        The true loss in terms of the ε of the axis, such as ``"1.5 ε"`` or ``"ε inside, moved (1 + T) ε, T ≤ 16"``.
    crowd : bool or None
        Whether regions with fewer than k participants are ruled out (up to δ); None where there are no
        regions.

    Examples
    --------
    >>> legend_label("published", cost="1.5 ε", crowd=False)
    "published code's rule: true loss 1.5 ε, no crowd kept"
    """
    if not cost.strip():
        raise InvalidInput(f"the cost of {method!r} is empty; say the true loss, such as '1.5 ε'")
    promise = "" if crowd is None else ", crowd of k kept" if crowd else ", no crowd kept"
    return f"{look(method).name}: true loss {cost}{promise}"


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
    names = [style.name for style in METHODS.values()]
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
        Made inside `figure_style`. Draw thousands of points with ``rasterized=True``: an SVG holds each one
        otherwise.
    folder : str or Path
        Made if it is not there.
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
