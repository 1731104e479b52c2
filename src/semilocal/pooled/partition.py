"""The final cells of a pooled tree as a map: boxes with estimated counts, as a table, GeoJSON or a picture.

Knows estimates. Knows no positions and no queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, short_repr
from ..hierarchy.dyadic import Cells
from ..protocol.partition import WaysOut
from ..protocol.promise import Mark
from .estimate import Estimates
from .task import PooledTask

__all__ = ["PooledPartition"]


@dataclass(frozen=True, eq=False)
class PooledPartition(WaysOut):
    """Final cells, in the order of the domain: they cover it without overlap."""

    estimates: Estimates
    mark: Mark | None = None  # set if the noise was seeded, or one program played both servers

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

    def locate(self, points: npt.ArrayLike) -> Integers:
        """Which final cell holds each point: int64[n]."""
        return self.estimates.tree.find(points)

    @property
    def intervals(self) -> tuple[Cells, Cells]:
        """First code of each cell and the code after its last: uint64[m] each."""
        first, last = self.task.hierarchy.span(self.cells)
        return first, last + np.uint64(1)

    @property
    def are_cells(self) -> bool:
        """Yes."""
        return True

    @property
    def areas(self) -> Floats:
        """Areas in km² on a map, else products of sides in units of the axes: float64[m]."""
        return self.task.hierarchy.areas(self.cells)

    @cached_property
    def boxes(self) -> Floats:
        """Lower and upper corner of each cell: float64[m, 2, d], read-only."""
        boxes = self.task.hierarchy.boxes(self.cells)
        boxes.setflags(write=False)
        return boxes

    def to_table(self) -> dict[str, npt.NDArray[Any]]:
        """Columns, one row per cell: cell, depth, estimated crowd, its standard error, and two bounds per axis.

        Cells of a table of labels also have their label.
        """
        tree = self.task.hierarchy
        table: dict[str, npt.NDArray[Any]] = {
            "cell": self.cells, "depth": tree.depth(self.cells), "crowd": self.crowds, "stderr": self.stderr,
        }  # fmt: skip
        if any(names := tree.names(self.cells)):
            table["label"] = np.array(names)
        for axis, name in enumerate(self.task.box.names):
            table[f"{name}_lower"], table[f"{name}_upper"] = self.boxes[:, 0, axis], self.boxes[:, 1, axis]
        return table
