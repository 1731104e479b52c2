"""Counting where somebody holds the data: people in the order of their codes, a cell is one range of them.

The person who runs it is a curator, also where two servers are simulated. Knows no rule.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..arrays import Integers, sort_on_all_cores
from ..errors import InvalidInput
from ..hierarchy.dyadic import ROOT, Cells
from ..hierarchy.ranks import Ranks, SortedCodes
from . import noise
from .task import PooledTask


class RankedCounter:
    """A counter over people whose ranks are known: sorted codes, or a histogram. Every number gets ``task.noises``
    draws.
    """

    def __init__(self, task: PooledTask, ranks: Ranks, words: noise.Words) -> None:
        self._task, self._ranks, self._words = task, ranks, words
        self._asked = np.empty(0, dtype=np.uint64)  # children that were counted last, and their first and last ranks
        self._edges = np.empty((2, 0), dtype=np.int64)
        # Where cells begin: codes and ranks of the root, and of the second children of all that were halved.
        self._cuts = [(task.hierarchy.span([ROOT])[0], np.zeros(1, dtype=np.int64))]

    @property
    def people(self) -> int:
        """Reports."""
        return len(self._ranks)

    def differences(self, depth: int, cells: Cells, units: Integers) -> Integers:
        """Noisy differences of the cells' children: int64[m]."""
        tree = self._task.hierarchy
        self._ranks.open(cells)
        children = tree.children(cells)
        start, stop = self._ranks_of(cells)
        half = tree.span(children[1::2])[0]
        middle = self._ranks.below(half)
        self._cuts.append((half, middle))
        self._asked = children
        self._edges = np.stack([np.stack([start, middle], axis=1), np.stack([middle, stop], axis=1)]).reshape(2, -1)
        return self._noisy(2 * middle - start - stop, units)

    def counts(self, cells: Cells, units: Integers) -> Integers:
        """Noisy numbers of reports in the cells that halving left, in the order of the domain: int64[m]."""
        codes, ranks = (np.sort(np.concatenate(cut)) for cut in zip(*self._cuts, strict=True))  # both in one order
        if not np.array_equal(codes, self._task.hierarchy.span(cells)[0]):
            raise InvalidInput("these are not the cells that halving left, in the order of the domain")
        return self._noisy(np.diff(ranks, append=self.people), units)

    def _ranks_of(self, cells: Cells) -> Integers:
        """Ranks of the first people in the cells, and of the first ones after them: int64[2, m].

        Cells that are opened were mostly counted on the level above.
        """
        place = np.searchsorted(self._asked, cells)
        if len(self._asked) and np.array_equal(self._asked.take(place, mode="clip"), cells):
            return self._edges.take(place, axis=1)
        first, last = self._task.hierarchy.span(cells)
        return np.stack([self._ranks.below(first), self._ranks.below(last + np.uint64(1))])

    def _noisy(self, exact: Integers, units: Integers) -> Integers:
        for _ in range(self._task.noises):
            exact = exact + noise.draw(self._task.unit, units, self._words)
        return exact


class MemoryCounter(RankedCounter):
    """A counter over positions float[n, d] that are all in memory, one row per report: 8 bytes of each are kept."""

    def __init__(self, task: PooledTask, points: npt.ArrayLike, words: noise.Words) -> None:
        codes = task.hierarchy.codes(points)
        sort_on_all_cores(codes)
        super().__init__(task, SortedCodes(codes), words)
