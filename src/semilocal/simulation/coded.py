"""A population in memory of which only sums are drawn: the fast way through a simulation.

Nobody reports alone and nobody drops out. So counting needs no names, and rarely whole codes: only their leading bits
are computed and sorted. In the end each participant's region is looked up by its own bits; only those who were moved
are put in order.

Knows positions and counts. Verdicts come from the curator, as they do for real devices.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..arrays import Integers
from ..hierarchy.base import Cells
from ..hierarchy.intervals import CodeLabels, label_cells
from ..hierarchy.ranks import LeadingBits
from ..protocol.task import Task
from .population import NamedPopulation

__all__ = ["CodedPopulation"]

_MOVED = -2  # in place of a region, until it is known


class CodedPopulation(NamedPopulation):
    """Participants by their codes, in their own order.

    Parameters
    ----------
    task : Task
    points : array_like, shape (n, d)
        One position per participant, inside the task's box.
    rng : numpy.random.Generator
    """

    def __init__(self, task: Task, points: npt.ArrayLike, *, rng: np.random.Generator) -> None:
        self._points = task.box.shaped(points)
        self._heads = task.hierarchy.heads(self._points)
        self._leading = LeadingBits(task.hierarchy, self._heads, lambda: self.codes)
        super().__init__(task, self._leading, rng=rng)
        self._away: Integers | None = None

    @cached_property
    def codes(self) -> Cells:
        """All bits of the participants' codes: uint64[n]."""
        return self.task.hierarchy.codes(self._points)

    def regions(self, cells: Cells) -> npt.NDArray[np.int32]:
        """Index of each participant's region among the given cells, in the order of the curve: int32[n]."""
        hierarchy = self.task.hierarchy
        first, labels = label_cells(hierarchy, cells, self.left, _MOVED)
        heads = self._leading.suffice
        found = CodeLabels(hierarchy, first, labels, codes=len(self), heads=heads)
        out = found.of(self._heads if heads else self.codes)
        away = np.flatnonzero(out == _MOVED) if len(self.left) else np.empty(0, dtype=np.int64)
        self._away = away[np.argsort(hierarchy.codes(self._points[away]), kind="stable")]
        who, _, ends = self.settled
        out[self._people(who)] = np.searchsorted(hierarchy.span(cells)[0], hierarchy.span(ends)[0])
        return out

    def _people(self, ranks: Integers) -> Integers:
        """The participants that have these ranks, of those who were moved; known after ``regions``: int64[m]."""
        assert self._away is not None
        return self._away[np.searchsorted(np.sort(self.settled.who), ranks)]
