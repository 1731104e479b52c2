"""The final cells of a pooled tree as a map: boxes with estimated counts, as a table, GeoJSON or a picture.

Knows estimates. Knows no positions and no queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, short_repr
from ..hierarchy.dyadic import Cells
from ..protocol.cellmap import CellMap
from ..protocol.mark import Mark
from .estimate import Estimates
from .task import PooledTask

__all__ = ["PooledPartition"]


@dataclass(frozen=True, eq=False)
class PooledPartition(CellMap):
    """Final cells, in the order of the domain: they cover it without overlap."""

    estimates: Estimates
    mark: Mark | None = None  # set if the noise was seeded, or one program played both servers

    __repr__ = short_repr

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

    def locate(self, points: npt.ArrayLike) -> Integers:
        """Which final cell holds each point: int64[n]."""
        return self.estimates.tree.find(points)

    def to_table(self) -> dict[str, npt.NDArray[Any]]:
        """Columns, one row per cell: cell, depth, estimated crowd, its standard error, and two bounds per axis."""
        return self.table_with(crowd=self.crowds, stderr=self.stderr)
