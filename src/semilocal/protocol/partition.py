"""The partition that a run found: regions, their crowds, and what members answered about walls inside them.

A region is an interval of codes of the public order: a union of few cells, and connected on a box. Regions, crowds and
answers are public by design; only the place inside a region is protected. Knows codes and counts. Knows no participants
and no randomness.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, short_repr
from ..hierarchy.base import Cells, Polygons
from .cellmap import CodeMap, WaysOut
from .estimate import Pieces, Walls, estimate
from .mark import Mark
from .promise_words import PROTECTED
from .task import Task

__all__ = ["UNPROTECTED", "Away", "Partition", "Walls"]

UNPROTECTED = f"Regions and crowds are public by design; {PROTECTED}."


class Away(NamedTuple):
    """Participants who never announced a side after a split: they keep the region they announced last."""

    lower: Cells  # uint64[a]: codes of those regions; each holds several of the partition's
    upper: Cells  # uint64[a]
    people: Integers  # int64[a]

    @staticmethod
    def nobody() -> Away:
        """Everybody announced."""
        none = np.empty(0, dtype=np.uint64)
        return Away(none, none, np.empty(0, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Partition(WaysOut):
    """Regions in their public order, one row each; together they are the domain.

    Attributes
    ----------
    task : Task
    lower, upper : uint64[m]
        Codes lower to before upper.
    crowds : int64[m]
        Members: participants of the roster who announced the region. Exact and public.
    late : int64[m]
        People who enrolled after the first round and announced the region; counted nowhere else.
    walls : Walls
        Answers of members about cuts inside their region.
    away : Away
    mark : Mark or None
        Set if no devices made it: a simulation.
    """

    task: Task
    lower: Cells
    upper: Cells
    crowds: Integers
    late: Integers
    walls: Walls
    away: Away
    mark: Mark | None = None

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.lower)

    @property
    def _map(self) -> CodeMap:
        return self

    @property
    def intervals(self) -> tuple[Cells, Cells]:
        """First code of each region and the code after its last: uint64[m] each."""
        return self.lower, self.upper

    @property
    def are_cells(self) -> bool:
        """No: a region is a union of cells."""
        return False

    @property
    def people(self) -> int:
        """Participants of the roster, those who are away included."""
        return int(self.crowds.sum() + self.away.people.sum())

    @cached_property
    def pieces(self) -> Pieces:
        """Between the walls of each region, with estimated shares (the rule's estimate)."""
        if self.task.rule != "cut":
            return estimate(self.lower, self.upper, Walls.none(len(self)), 0.75)
        return estimate(self.lower, self.upper, self.walls, self.task.truth)

    @cached_property
    def boxes(self) -> Floats:
        """Lower and upper corner of the smallest box around each region: float64[m, 2, d], read-only."""
        boxes = self.task.hierarchy.interval_boxes(self.lower, self.upper)
        boxes.setflags(write=False)
        return boxes

    @property
    def areas(self) -> Floats:
        """Areas in km² on a map, else products of sides in units of the axes: float64[m]."""
        return self.task.hierarchy.interval_areas(self.lower, self.upper)

    @property
    def names(self) -> list[str]:
        """What regions are called: the codes of their cells, or their labels."""
        return self.task.hierarchy.interval_names(self.lower, self.upper)

    def polygons(self) -> list[Polygons]:
        """The outline of each region in two dimensions: the union of its cells, as closed rings."""
        return self.task.hierarchy.interval_polygons(self.lower, self.upper)

    @property
    def share_below_k(self) -> float:
        """Share of the participants whose region holds fewer than k of them."""
        total = int(self.crowds.sum())
        return float(self.crowds[self.crowds < self.task.k].sum() / total) if total else 0.0

    def locate(self, points: npt.ArrayLike) -> Integers:
        """Row of the region that holds each point: int64[n]."""
        codes = self.task.hierarchy.codes(points)
        return (np.searchsorted(self.lower, codes, side="right") - 1).astype(np.int64)

    def to_table(self) -> dict[str, npt.NDArray[Any]]:
        """Columns, one row per region: name, codes, crowd, walls, area, and the corners of the box around it."""
        table: dict[str, npt.NDArray[Any]] = {
            "region": np.array(self.names),
            "first_code": self.lower,
            "after_code": self.upper,
            "crowd": self.crowds,
            "walls": np.diff(self.walls.first),
            "area": self.areas,
        }
        for axis, name in enumerate(self.task.box.names):
            table[f"{name}_lower"], table[f"{name}_upper"] = self.boxes[:, 0, axis], self.boxes[:, 1, axis]
        return table
