"""Pictures of regions, and of questions about them.

Knows matplotlib, which is loaded when something is drawn, and a partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..arrays import Floats
from ..errors import InvalidInput, optional
from ..geometry.box import Box
from ..geometry.units import aspect, is_map
from ..hierarchy.base import Hierarchy
from ..pooled.estimate import PooledPartition
from ..protocol.promise import Mark
from .basemap import cities_in, land
from .files import replacing
from .map_rows import Rows, area_unit, partition_rows
from .queries import Asked
from .regions import AnyPartition

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURES = (".png", ".svg", ".pdf")
WIDE, HIGH = 7.0, 6.2  # inches
RAMP = ("#fbf3cf", "#fdb777", "#ee605e", "#8c2981", "#231151")  # lightness goes one way; the page has the same
SEA = "#bcd4e6"
_MARK_LENGTH = 460  # letters times points that maps side by side have room for below their titles
_MOST_NAMES = 18  # of cities
_MOST_ASKED = 30  # questions that are outlined with their answers; more are coloured by them
_OUTLINED = 150  # times its size that a map may be, for a region to have an outline
_ROOM = 1.35  # times its size that a name takes: axes may get smaller when the rest is laid out


def need_matplotlib() -> Any:
    """The package, or a message that says how to install it."""
    return optional("matplotlib", "plots")


def title_of(partition: AnyPartition) -> str:
    """What a picture of a partition shows, in a line: how many people, whom they trust, and at which epsilon."""
    trust = partition.task.trust if isinstance(partition, PooledPartition) else "nobody"
    people = round(float(partition.crowds.sum()))
    return f"Where {people:,} participants are: trust {trust}, epsilon = {partition.task.epsilon:g}"


def draw_regions(
    partition: AnyPartition,
    ax: Axes | None = None,
    *,
    points: npt.ArrayLike | None = None,
    limits: tuple[float, float] | None = None,
    asked: Sequence[Asked] = (),
) -> Axes:
    """Draw the regions coloured by density, with land, sea and the largest cities; optionally the points on top.

    Pieces inside a region have the colour of what is estimated there. A simulation is marked along the right side. On
    longitude and latitude, densities are per km² and both directions have the same scale. Colours run from the 2nd to
    the 98th percentile of the densities, so that one crowded region does not hide the others; with ``limits``, for
    several pictures side by side, between those, and there is no colour bar. ``points`` are for public data only.
    Questions that were ``asked`` are outlined, with a list of their answers below the map.
    """
    box = partition.task.box
    if box.dimensions != 2:
        raise InvalidInput(f"a picture needs two dimensions; this partition has {box.dimensions}")
    axes, filled = draw_rows(partition_rows(partition), partition.task.hierarchy, ax, limits=limits, asked=asked)
    axes.set_title(f"{title_of(partition)}\n{len(partition):,} regions", fontsize=10)
    _say(axes, partition.mark)
    if points is not None:
        shown = box.check(points)
        axes.plot(shown[:, 0], shown[:, 1], ",", color="black", alpha=0.35)
    if limits is None:
        _bar(axes, filled, f"participants per {area_unit(box)}, estimated")
    if asked:
        _draw_questions(axes, asked)
    return axes


def _bar(axes: Axes, filled: Any, label: str) -> None:
    """A colour bar as high as the map, beside the mark of a simulation."""
    room = axes.inset_axes((1.05, 0.0, 0.035, 1.0))
    axes.figure.colorbar(filled, cax=room, label=label, extend="both")


def _say(axes: Axes, mark: Mark | None) -> None:
    """Write the mark of a simulation along the right side, where it hides nothing; long ones in smaller letters."""
    if mark is not None:
        size = min(6.5, _MARK_LENGTH / len(mark.words))
        axes.text(1.01, 0.0, mark.words, transform=axes.transAxes, fontsize=size, rotation=90, va="bottom")


def draw_rows(
    rows: Rows, hierarchy: Hierarchy, ax: Axes | None = None, *, limits: tuple[float, float] | None = None,
    asked: Sequence[Asked] = (),
) -> tuple[Axes, Any]:  # fmt: skip
    """Draw one frame of a map, and what was asked: the axes, and what a colour bar is made from."""
    need_matplotlib()
    from matplotlib.collections import LineCollection, PolyCollection

    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=_size(hierarchy.box), layout="constrained")[1]
    box = hierarchy.box
    lower, upper, density = _shown(rows, hierarchy)
    first, cells = hierarchy.interval_cells(lower, upper)
    outlines = hierarchy.polygons(cells)
    # Regions are filled cell by cell, because holes are not for PolyCollection; then their outlines are drawn.
    filled = PolyCollection(
        [ring for rings in outlines for ring in rings], edgecolor="face", linewidth=0.1,
        **_colours(limits or robust_limits(density)),
    )  # fmt: skip
    parts = np.add.reduceat([len(rings) for rings in outlines], first[:-1])
    filled.set_array(np.repeat(density, parts))
    ax.add_collection(filled)
    # Outlines of small regions would hide their colours.
    large = ((rows.boxes[:, 1] - rows.boxes[:, 0]) * _OUTLINED > np.subtract(box.upper, box.lower)).all(axis=1)
    rings_of = hierarchy.interval_polygons(rows.lower[large], rows.upper[large])
    borders = [ring for rings in rings_of for ring in rings]
    ax.add_collection(LineCollection(borders, colors="#6d7480", linewidths=0.25))
    _around(ax, box)
    _name_cities(ax, box, asked)
    return ax, filled


def _size(box: Box) -> tuple[float, float]:
    """Inches of a picture of a domain without much room around it; wide ones are wider."""
    high = aspect(box) * (box.upper[1] - box.lower[1]) / (box.upper[0] - box.lower[0]) if is_map(box) else 1.0
    wide = WIDE if high > 0.7 else 1.4 * WIDE
    return wide, float(np.clip((wide - 1.7) * high + 1.0, 3.0, HIGH))


def _shown(rows: Rows, hierarchy: Hierarchy) -> tuple[Any, Any, Floats]:
    """Intervals of one colour each, and their densities: the pieces of a region, or the region if it has none."""
    inside = [piece for pieces in rows.pieces for piece in pieces]
    whole = np.array([not pieces for pieces in rows.pieces], dtype=bool)
    lower, upper = (
        np.concatenate([ends[whole], np.array([piece[end] for piece in inside], dtype=np.uint64)])
        for end, ends in enumerate((rows.lower, rows.upper))
    )
    area = np.concatenate([rows.area[whole], hierarchy.interval_areas(lower[whole.sum() :], upper[whole.sum() :])])
    people = np.concatenate([rows.crowd[whole], [piece.people for piece in inside]])
    return lower, upper, np.asarray(np.maximum(people, 0.5) / area)


def _colours(limits: tuple[float, float]) -> dict[str, Any]:
    from matplotlib.colors import LinearSegmentedColormap, LogNorm

    return {"cmap": LinearSegmentedColormap.from_list("semilocal", RAMP), "norm": LogNorm(*limits)}


def _around(ax: Axes, box: Box) -> None:
    """Axes of a domain, with the sea over its cells: cells of the sea are pale, land is not."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Outline

    ax.set_xlim(box.lower[0], box.upper[0])
    ax.set_ylim(box.lower[1], box.upper[1])
    ax.set_xlabel(box.names[0])
    ax.set_ylabel(box.names[1])
    if not is_map(box):
        return
    ax.set_aspect(aspect(box))
    if rings := land(box):
        (west, south), (east, north) = box.lower, box.upper
        frame = np.array([[west, south], [east, south], [east, north], [west, north], [west, south]])
        # Land goes round the other way than the frame, so it is a hole in the sea.
        sea = Outline.make_compound_path(*(Outline(ring, closed=True) for ring in [frame, *rings]))
        ax.add_patch(PathPatch(sea, facecolor=SEA, alpha=0.78, linewidth=0, zorder=2))
        coast = Outline.make_compound_path(*(Outline(ring) for ring in rings))
        ax.add_patch(PathPatch(coast, facecolor="none", edgecolor="#2c3e4a", linewidth=0.6, zorder=3))


def _name_cities(ax: Axes, box: Box, asked: Sequence[Asked] = ()) -> None:
    """The largest cities with their names, where no other name and no question is in the way."""
    if not is_map(box):
        return
    ax.apply_aspect()
    figure: Figure = ax.figure.figure
    room, unit = ax.get_window_extent(), figure.dpi / 72
    size = 7.0
    corners = [ax.transData.transform(np.concatenate(one.rings)) for one in asked]
    taken: list[tuple[float, float, float, float]] = [(*one.min(axis=0), *one.max(axis=0)) for one in corners]
    for city in cities_in(box, 8 * _MOST_NAMES):
        left, bottom = ax.transData.transform((city.longitude, city.latitude))
        width, height = 0.6 * size * len(city.name) * unit * _ROOM, size * unit * _ROOM * 1.2
        own = (left - 3 * unit, bottom - height / 2, left + width + 4 * unit, bottom + height / 2)
        inside = room.x0 < own[0] and own[2] < room.x1 and room.y0 < own[1] and own[3] < room.y1
        if not inside or any(a[0] < own[2] and own[0] < a[2] and a[1] < own[3] and own[1] < a[3] for a in taken):
            continue
        taken.append(own)
        ax.plot(city.longitude, city.latitude, "o", color="#10181d", markersize=2.2, mec="white", mew=0.5, zorder=4)
        _write(ax, city.name, (city.longitude, city.latitude), size, offset=(3.5, 0.0), va="center")
        if len(taken) == _MOST_NAMES:
            return


def _write(ax: Axes, text: str, at: tuple[float, float], size: float, **where: Any) -> None:
    """Dark letters with a pale edge, which can be read on every colour."""
    from matplotlib.patheffects import withStroke

    ax.annotate(
        text, at, xytext=where.pop("offset", (0.0, 0.0)), textcoords="offset points", fontsize=size, color="#10181d",
        zorder=5, path_effects=[withStroke(linewidth=1.8, foreground="white")], annotation_clip=True, **where,
    )  # fmt: skip


def _draw_questions(ax: Axes, asked: Sequence[Asked]) -> None:
    """Outline areas that were asked about, each with its number; a list below the map has the answers."""
    from matplotlib.collections import LineCollection

    for line, colour in ((2.6, "white"), (1.3, "#0b5fa5")):
        ax.add_collection(
            LineCollection([ring for one in asked for ring in one.rings], colors=colour, linewidths=line, zorder=6)
        )
    for number, one in enumerate(asked, start=1):
        corners = np.concatenate(one.rings)
        _write(
            ax, str(number), tuple(corners[np.argmax(corners @ [-1.0, 1.0])]), 8.0, offset=(3.0, -9.0), weight="bold"
        )
    words = [
        f"{number}. {one.name}: {one.value:,.0f} ({one.low:,.0f} to {one.high:,.0f})"
        for number, one in enumerate(asked, start=1)
    ]
    lines = ["     ".join(words[start : start + 2]) for start in range(0, len(words), 2)]
    ax.set_xlabel("\n".join([ax.get_xlabel(), *lines]), fontsize=8)


def _draw_answers(ax: Axes, asked: Sequence[Asked], box: Box) -> Any:
    """Colour areas by their answers; what a colour bar is made from."""
    from matplotlib.collections import PathCollection
    from matplotlib.path import Path as Outline

    values = np.array([one.value for one in asked])
    limits = robust_limits(np.maximum(values, 0.5))
    shapes = [Outline.make_compound_path(*(Outline(ring, closed=True) for ring in one.rings)) for one in asked]
    filled = PathCollection(shapes, linewidth=0.2, edgecolor="#6d7480", **_colours(limits))
    filled.set_array(np.maximum(values, 0.5))
    ax.add_collection(filled)
    _around(ax, box)
    _name_cities(ax, box)
    return filled


def robust_limits(density: Floats) -> tuple[float, float]:
    """The 2nd and the 98th percentile, at least a factor 2 apart."""
    low, high = np.quantile(density, [0.02, 0.98]) if len(density) else (1.0, 1.0)
    middle = np.sqrt(low * high)
    return float(min(low, middle / np.sqrt(2))), float(max(high, middle * np.sqrt(2)))


def save_side_by_side(panels: Mapping[str, AnyPartition], path: Path) -> None:
    """Draw several maps of the same domain into a file, with one scale of colours; titles by panel."""
    need_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * len(panels), 5.6), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    boxes = [(partition_rows(partition), partition.task.box) for partition in panels.values()]
    limits = robust_limits(np.concatenate([np.maximum(rows.crowd, 0.5) / rows.area for rows, _ in boxes]))
    for ax, (title, partition) in zip(axes, panels.items(), strict=True):
        draw_regions(partition, ax, limits=limits).set_title(title, fontsize=9)
        ax.label_outer()
    bar = figure.colorbar(
        axes[0].collections[0], ax=list(axes), location="bottom", shrink=0.5, aspect=40, extend="both"
    )
    bar.set_label(f"participants per {area_unit(boxes[0][1])}, one scale for all", fontsize=9)
    with replacing(path) as stream:
        figure.savefig(stream, dpi=130, format=path.suffix.lower().lstrip("."))


def save_picture(
    partition: AnyPartition, path: Path, *, points: npt.ArrayLike | None = None, title: str | None = None,
    asked: Sequence[Asked] = (),
) -> None:  # fmt: skip
    """Draw the regions into a file, without a window; and questions with their answers, or these alone if many."""
    need_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=_size(partition.task.box), layout="constrained")
    axes = figure.add_subplot()
    if len(asked) > _MOST_ASKED:
        filled = _draw_answers(axes, asked, partition.task.box)
        _say(axes, partition.mark)
        _bar(axes, filled, "participants in an area, estimated")
        axes.set_title(f"{title_of(partition)}\n{len(asked):,} areas", fontsize=10)
    else:
        draw_regions(partition, axes, points=points, asked=asked)
    if title is not None:
        axes.set_title(title, fontsize=10)
    with replacing(path) as stream:
        figure.savefig(stream, dpi=150, format=path.suffix.lower().lstrip("."), bbox_inches="tight", pad_inches=0.1)
