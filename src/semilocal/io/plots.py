"""Pictures of regions.

Knows matplotlib, which is loaded when something is drawn, and a partition.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..arrays import Floats
from ..errors import InvalidInput, MissingExtra
from ..geometry.box import Box
from ..geometry.units import aspect, is_map
from ..hierarchy.base import Hierarchy
from ..pooled.partition import PooledPartition
from ..protocol.mark import Mark
from ..simulation.simulate import Run
from .files import read_text, replacing
from .map_rows import Rows, area_unit, frame, partition_rows, split_rows
from .regions import AnyPartition

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "PICTURES", "Lines", "animate", "coast", "draw_regions", "inside", "lines_json", "need_matplotlib",
    "read_basemap", "save_picture", "save_side_by_side",
]  # fmt: skip

PICTURES = (".png", ".svg", ".pdf")
SIZE = (7, 6.2)  # inches
_MARK_LENGTH = 460  # letters times points that maps side by side have room for below their titles


def need_matplotlib() -> Any:
    """The package, or a message that says how to install it."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    return matplotlib


def draw_regions(
    partition: AnyPartition,
    ax: Axes | None = None,
    *,
    points: npt.ArrayLike | None = None,
    limits: tuple[float, float] | None = None,
) -> Axes:
    """Draw the regions coloured by density, the lines inside them thin, with the coast; optionally the points on top.

    A simulation is marked along the right side. On longitude and latitude, densities are per km² and both directions
    have the same scale. Colours run from the 2nd to the 98th percentile of the densities, so that one crowded region
    does not hide the others.

    Parameters
    ----------
    ax : matplotlib axes, optional
    points : array_like, shape (n, 2), optional
        Positions to show; for public data only.
    limits : (float, float), optional
        Lowest and highest density of the colours, for several pictures side by side; then there is no colour bar.
    """
    box = partition.task.box
    if box.dimensions != 2:
        raise InvalidInput(f"a picture needs two dimensions; this partition has {box.dimensions}")
    axes, filled = draw_rows(partition_rows(partition), partition.task.hierarchy, ax, limits=limits)
    _say(axes, partition.mark)
    if points is not None:
        shown = box.check(points)
        axes.plot(shown[:, 0], shown[:, 1], ",", color="black", alpha=0.35)
    if limits is None:
        pooled = isinstance(partition, PooledPartition)
        label = f"participants per {area_unit(box)} ({'estimated' if pooled else 'public by design'})"
        axes.figure.colorbar(filled, ax=axes, label=label, shrink=0.85, extend="both")
    return axes


def _say(axes: Axes, mark: Mark | None) -> None:
    """Write the mark of a simulation along the right side, where it hides nothing; long ones in smaller letters."""
    if mark is not None:
        size = min(6.5, _MARK_LENGTH / len(mark.words))
        axes.text(1.01, 0.0, mark.words, transform=axes.transAxes, fontsize=size, rotation=90, va="bottom")


def draw_rows(
    rows: Rows, hierarchy: Hierarchy, ax: Axes | None = None, *, limits: tuple[float, float] | None = None
) -> tuple[Axes, Any]:
    """Draw one frame of a map: the axes, and what a colour bar is made from."""
    need_matplotlib()
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.colors import LogNorm

    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=SIZE, layout="constrained")[1]
    box = hierarchy.box
    density = densities(rows)
    low, high = limits or robust_limits(density)
    first, cells = hierarchy.interval_cells(rows.lower, rows.upper)
    outlines = hierarchy.polygons(cells)
    # Regions are filled cell by cell, because holes are not for PolyCollection; then their outlines are drawn.
    filled = PolyCollection(
        [ring for rings in outlines for ring in rings], cmap="YlGnBu", norm=LogNorm(low, high), edgecolor="face",
        linewidth=0.1,
    )  # fmt: skip
    parts = np.add.reduceat([len(rings) for rings in outlines], first[:-1])
    filled.set_array(np.repeat(density, parts))
    ax.add_collection(filled)
    borders = [ring for rings in hierarchy.interval_outlines(rows.lower, rows.upper) for ring in rings]
    ax.add_collection(LineCollection(borders, colors="white", linewidths=0.4))
    walls = [piece for lines in rows.lines for line in lines for piece in line.pieces]
    ax.add_collection(LineCollection(walls, colors="white", linewidths=0.15))
    if lines := coast(box):
        ax.add_collection(LineCollection(lines, colors="0.15", linewidths=0.6, zorder=3))
    ax.set_xlim(box.lower[0], box.upper[0])
    ax.set_ylim(box.lower[1], box.upper[1])
    ax.set_xlabel(box.names[0])
    ax.set_ylabel(box.names[1])
    if is_map(box):
        ax.set_aspect(aspect(box))
    return ax, filled


def densities(rows: Rows) -> Floats:
    """Participants per area, at least half a participant per cell so that a log scale holds all: float64[m]."""
    return np.asarray(np.maximum(rows.crowd, 0.5) / rows.area)


def robust_limits(density: Floats) -> tuple[float, float]:
    """The 2nd and the 98th percentile, at least a factor 2 apart."""
    low, high = np.quantile(density, [0.02, 0.98]) if len(density) else (1.0, 1.0)
    middle = np.sqrt(low * high)
    return float(min(low, middle / np.sqrt(2))), float(max(high, middle * np.sqrt(2)))


def animate(run: Run, path: str | Path, *, seconds: float = 0.6) -> None:
    """Draw the regions of a run as they are found, one picture per round with a split, into a GIF.

    Parameters
    ----------
    run : Run
    path : str or Path
        Ends in .gif.
    seconds : float
        How long a picture is shown; the last one is shown four times as long.
    """
    target, box = Path(path), run.task.box
    if target.suffix.lower() != ".gif":
        raise InvalidInput(f"{target}: the name must end in .gif")
    if box.dimensions != 2:
        raise InvalidInput(f"a picture needs two dimensions; this run has {box.dimensions}")
    need_matplotlib()
    from matplotlib.figure import Figure
    from PIL import Image

    rounds = split_rows(run.partition, run.splits)
    frames = [frame(rounds, number) for number in range(1, len(rounds) + 1)]
    limits = robust_limits(densities(frames[-1]))
    figure = Figure(figsize=SIZE)
    axes, filled = draw_rows(frames[-1], run.task.hierarchy, figure.add_subplot(), limits=limits)
    figure.colorbar(filled, ax=axes, label=f"participants per {area_unit(box)}", shrink=0.85, extend="both")
    pictures = []
    for number, rows in enumerate(frames, start=1):
        axes.clear()
        draw_rows(rows, run.task.hierarchy, axes, limits=limits)
        _say(axes, run.partition.mark)
        axes.set_title(f"step {number} of {len(frames)}: {len(rows):,} regions", fontsize=9)
        stream = io.BytesIO()
        figure.savefig(stream, dpi=80, format="png")
        pictures.append(Image.open(stream).convert("P", palette=Image.Palette.ADAPTIVE))
    times = [round(1000 * seconds)] * (len(pictures) - 1) + [round(4000 * seconds)]
    with replacing(target) as out:
        pictures[0].save(out, format="GIF", save_all=True, append_images=pictures[1:], duration=times, loop=0)


def save_side_by_side(panels: Mapping[str, AnyPartition], path: Path) -> None:
    """Draw several maps of the same domain into a file, with one scale of colours; titles by panel."""
    need_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * len(panels), 5.6), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    boxes = [(partition_rows(partition), partition.task.box) for partition in panels.values()]
    limits = robust_limits(np.concatenate([densities(rows) for rows, _ in boxes]))
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
    partition: AnyPartition, path: Path, *, points: npt.ArrayLike | None = None, title: str | None = None
) -> None:
    """Draw the regions into a file, without a window."""
    need_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, layout="constrained")
    axes = draw_regions(partition, figure.add_subplot(), points=points)
    if title is not None:
        axes.set_title(title, fontsize=9)
    with replacing(path) as stream:
        figure.savefig(stream, dpi=150, format=path.suffix.lower().lstrip("."))


# -- coastlines behind maps: the ones that ship, or those of a GeoJSON file ------------------------------------------


Lines = list[Floats]  # each float64[n, 2]


@lru_cache(maxsize=1)
def _world() -> tuple[Floats, ...]:
    packed = files("semilocal").joinpath("data", "land-50m.json.gz").read_bytes()
    topology = json.loads(gzip.decompress(packed))
    scale, offset = (np.asarray(topology["transform"][name]) for name in ("scale", "translate"))
    return tuple(np.cumsum(arc, axis=0) * scale + offset for arc in topology["arcs"])


def coast(box: Box, basemap: Path | None = None) -> Lines:
    """Lines inside a domain, one array float64[n, 2] per piece; none if its axes are not degrees and no file is given.

    Parameters
    ----------
    box : Box
    basemap : Path, optional
        A GeoJSON file whose lines and outlines are taken instead of the coast.
    """
    if basemap is not None:
        return inside(read_basemap(basemap), box)
    if not is_map(box):
        return []
    return list(_coast(box))


@lru_cache(maxsize=16)
def _coast(box: Box) -> tuple[Floats, ...]:
    return tuple(inside(_world(), box))


def inside(lines: Iterable[Floats], box: Box) -> Lines:
    """The pieces of lines that a map of a domain shows; none unless it has two dimensions."""
    return [piece for line in lines for piece in _pieces(line, box)] if box.dimensions == 2 else []


def _pieces(line: Floats, box: Box) -> Lines:
    """The pieces of a line whose segments touch the box, with the first point outside at either end."""
    low, high = np.minimum(line[:-1], line[1:]), np.maximum(line[:-1], line[1:])
    near = ((high >= box.lower) & (low <= box.upper)).all(axis=1)
    if is_map(box):
        near &= np.abs(line[1:, 0] - line[:-1, 0]) < 180  # not across the date line
    edges = np.flatnonzero(np.diff(np.concatenate([[False], near, [False]])))
    return [line[start : stop + 1] for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)]


def read_basemap(path: Path) -> Lines:
    """Lines and outlines of a GeoJSON file."""
    try:
        found: Lines = []
        _collect(json.loads(read_text(path)), found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"{path}: is not GeoJSON with lines or polygons ({error})") from None
    if not found:
        raise InvalidInput(f"{path}: holds no lines and no polygons; a base map is made of them")
    if not all(np.isfinite(line).all() for line in found):
        raise InvalidInput(f"{path}: has coordinates that are not finite numbers; write them as plain decimals")
    return found


def _collect(node: dict[str, Any], found: Lines) -> None:
    kind = node["type"]
    if kind == "FeatureCollection":
        for feature in node["features"]:
            _collect(feature, found)
    elif kind == "Feature":
        if node["geometry"] is not None:
            _collect(node["geometry"], found)
    elif kind == "GeometryCollection":
        for part in node["geometries"]:
            _collect(part, found)
    else:
        depth = {"LineString": 0, "MultiLineString": 1, "Polygon": 1, "MultiPolygon": 2}.get(kind)
        if depth is not None:
            _lines(node["coordinates"], depth, found)


def _lines(coordinates: list[Any], depth: int, found: Lines) -> None:
    if depth:
        for part in coordinates:
            _lines(part, depth - 1, found)
    else:
        found.append(np.array([point[:2] for point in coordinates], dtype=np.float64).reshape(-1, 2))


def lines_json(lines: Lines, box: Box) -> list[list[float]]:
    """Lines as flat lists x, y, x, y, …, rounded to what a map of the domain can show."""
    width = max(high - low for low, high in zip(box.lower, box.upper, strict=True))
    digits = max(0, 5 - int(np.floor(np.log10(width))))
    return [np.round(line, digits).ravel().tolist() for line in lines]
