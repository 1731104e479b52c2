"""The final cells of a pooled tree as a map: boxes with estimated counts, as a table, GeoJSON or a picture.

Knows estimates. Knows no positions and no queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, short_repr
from ..hierarchy.dyadic import Cells
from .estimate import Estimates
from .task import PooledTask

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PooledPartition"]


@dataclass(frozen=True, eq=False)
class PooledPartition:
    """Final cells, in the order of the domain: they cover it without overlap.

    Attributes
    ----------
    estimates : Estimates
    """

    estimates: Estimates

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def task(self) -> PooledTask:
        """What was asked and is promised."""
        return self.estimates.tree.task

    @property
    def cells(self) -> Cells:
        """uint64[m]."""
        return self.estimates.tree.cells

    @property
    def crowds(self) -> Floats:
        """Estimated reports in each cell, not negative; they add up to all reports: float64[m]."""
        return self.estimates.counts

    @property
    def stderr(self) -> Floats:
        """Standard errors of the estimates: float64[m]."""
        return np.asarray(np.sqrt(self.estimates.variances))

    @property
    def boxes(self) -> Floats:
        """Lower and upper corner of each cell: float64[m, 2, d]."""
        return self.task.hierarchy.boxes(self.cells)

    @property
    def trimmed_cells(self) -> Cells:
        """None: nobody is moved."""
        return np.empty(0, dtype=np.uint64)

    def locate(self, points: npt.ArrayLike) -> Integers:
        """Which final cell holds each point: int64[n]."""
        return self.estimates.tree.find(points)

    # -- ways out ------------------------------------------------------------------------------------------

    def to_table(self) -> dict[str, npt.NDArray[Any]]:
        """Columns, one row per cell: cell, depth, estimated crowd, its standard error, and two bounds per axis."""
        boxes = self.boxes
        columns: dict[str, npt.NDArray[Any]] = {
            "cell": self.cells,
            "depth": self.task.hierarchy.depth(self.cells),
            "crowd": self.crowds,
            "stderr": self.stderr,
        }
        for axis, name in enumerate(self.task.box.names):
            columns[f"{name}_lower"], columns[f"{name}_upper"] = boxes[:, 0, axis], boxes[:, 1, axis]
        return columns

    def to_geojson(self) -> dict[str, Any]:
        """A GeoJSON FeatureCollection of the cells (two dimensions only). Axis 0 is written as longitude."""
        document: dict[str, Any] = import_module("semilocal.io.regions").regions_geojson(self)
        return document

    def save_geojson(self, path: str) -> None:
        """Write :meth:`to_geojson` to a file."""
        import_module("semilocal.io.regions").write_geojson(self, path)

    def plot(self, ax: Axes | None = None, *, points: npt.ArrayLike | None = None) -> Axes:
        """Draw the cells coloured by estimated density; optionally the points on top, for public data only."""
        drawn: Axes = import_module("semilocal.io.plots").draw_regions(self, ax, points=points)
        return drawn
