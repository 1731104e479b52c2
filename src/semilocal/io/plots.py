"""Pictures of regions.

Knows matplotlib, which is loaded when something is drawn, and a partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..arrays import Floats
from ..errors import InvalidInput, MissingExtra
from ..pooled.partition import PooledPartition
from .files import replacing
from .regions import AnyPartition, areas, ring

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PICTURES", "draw_regions", "need_matplotlib", "save_picture", "save_side_by_side"]

PICTURES = (".png", ".svg", ".pdf")
SIZE = (7, 6.2)  # inches


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
    """Draw the regions coloured by density, trimmed parts hatched; optionally the points on top.

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
    need_matplotlib()
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import LogNorm

    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=SIZE, layout="constrained")[1]
    boxes, density = partition.boxes, _densities(partition)
    low, high = limits or (density.min(), density.max())
    norm = LogNorm(low, max(high, low * 1.001))
    filled = PolyCollection([ring(one) for one in boxes], cmap="viridis", norm=norm, edgecolor="white", linewidth=0.25)
    filled.set_array(density)
    ax.add_collection(filled)
    hollow = [ring(one) for one in partition.task.hierarchy.boxes(partition.trimmed_cells)]
    if hollow:
        ax.set_title("Hatched: trimmed areas. Participants there were moved to the nearest region.", fontsize=9)
        ax.add_collection(PolyCollection(hollow, facecolor="none", edgecolor="0.75", linewidth=0.3, hatch="////"))
    if points is not None:
        shown = box.check(points)
        ax.plot(shown[:, 0], shown[:, 1], ",", color="black", alpha=0.35)
    ax.set_xlim(box.lower[0], box.upper[0])
    ax.set_ylim(box.lower[1], box.upper[1])
    ax.set_xlabel(box.names[0])
    ax.set_ylabel(box.names[1])
    if limits is None:
        pooled = isinstance(partition, PooledPartition)
        label = f"participants per unit area ({'estimated' if pooled else 'public by design'})"
        ax.figure.colorbar(filled, ax=ax, label=label, shrink=0.85)
    return ax


def save_side_by_side(panels: Mapping[str, AnyPartition], path: Path) -> None:
    """Draw several maps of the same domain into a file, with one scale of colours; titles by panel."""
    need_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * len(panels), 5.6), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    densities = np.concatenate([_densities(partition) for partition in panels.values()])
    low, high = np.quantile(densities, 0.02), densities.max()
    for ax, (title, partition) in zip(axes, panels.items(), strict=True):
        draw_regions(partition, ax, limits=(low, high)).set_title(title, fontsize=9)
        ax.label_outer()
    bar = figure.colorbar(axes[0].collections[0], ax=list(axes), location="bottom", shrink=0.5, aspect=40)
    bar.set_label("participants per unit area, one scale for all", fontsize=9)
    with replacing(path) as stream:
        figure.savefig(stream, dpi=130, format=path.suffix.lower().lstrip("."))


def _densities(partition: AnyPartition) -> Floats:
    return np.asarray(np.maximum(partition.crowds, 0.5) / areas(partition.boxes))


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
