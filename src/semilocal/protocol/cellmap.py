"""Cells as a map: their boxes, and the ways out as a table, GeoJSON or a picture.

Knows cells of a hierarchy. Files and drawing are in io/ and loaded when used.
"""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import numpy.typing as npt

from ..arrays import Floats
from ..geometry.box import Box
from ..hierarchy.base import Cells

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..hierarchy.base import Hierarchy

__all__ = ["CellMap"]


class _Task(Protocol):
    @property
    def hierarchy(self) -> Hierarchy: ...

    @property
    def box(self) -> Box: ...


class CellMap:
    """Disjoint cells of a task's hierarchy, one row each. A subclass has ``task`` and ``cells``."""

    if TYPE_CHECKING:

        @property
        def task(self) -> _Task: ...

        @property
        def cells(self) -> Cells: ...

    def __len__(self) -> int:
        return len(self.cells)

    @cached_property
    def boxes(self) -> Floats:
        """Lower and upper corner of each region: float64[m, 2, d], read-only."""
        boxes = self.task.hierarchy.boxes(self.cells)
        boxes.setflags(write=False)
        return boxes

    def table_with(self, **columns: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        """Columns, one row per region: cell, depth, the given ones, and lower and upper bound per axis."""
        table: dict[str, npt.NDArray[Any]] = {"cell": self.cells, "depth": self.task.hierarchy.depth(self.cells)}
        table |= columns
        for axis, name in enumerate(self.task.box.names):
            table[f"{name}_lower"], table[f"{name}_upper"] = self.boxes[:, 0, axis], self.boxes[:, 1, axis]
        return table

    def to_geojson(self) -> dict[str, Any]:
        """A GeoJSON FeatureCollection of the regions and of trimmed parts (two dimensions only).

        Axis 0 is written as longitude, axis 1 as latitude.
        """
        document: dict[str, Any] = import_module("semilocal.io.regions").regions_geojson(self)
        return document

    def save_geojson(self, path: str) -> None:
        """Write :meth:`to_geojson` to a file."""
        import_module("semilocal.io.regions").write_geojson(self, path)

    def plot(self, ax: Axes | None = None, *, points: npt.ArrayLike | None = None) -> Axes:
        """Draw the regions coloured by density, trimmed parts hatched; optionally the points on top.

        Parameters
        ----------
        ax : matplotlib axes, optional
        points : array_like, shape (n, 2), optional
            Positions to show; for public data only.
        """
        drawn: Axes = import_module("semilocal.io.plots").draw_regions(self, ax, points=points)
        return drawn
