"""How many people are in each cell of one depth, and which region each interval of codes ends in.

A :class:`Histogram` is all that the rounds of a run need to know about the data; :class:`HistogramRanks` answers
:class:`~semilocal.hierarchy.ranks.Ranks` from it, and asks its source again where its cells are too coarse. A
:class:`Lookup` is all that the rows need to know about the result.

Knows cells and counts. Knows no positions, reports or randomness.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..arrays import Integers, short_repr, sort_on_all_cores
from ..errors import InvalidInput
from ..hierarchy.base import ROOT, Cells, Hierarchy

__all__ = ["CHANGED", "GrowingHistogram", "Histogram", "HistogramRanks", "Lookup"]

_CHUNK = 1 << 20  # cells that are worked on at a time, where histograms are large
# How many people are in a cell is not public: no message says it.
CHANGED = "the rows changed while they were read: run it on data that nobody writes to"


@dataclass(frozen=True, eq=False)
class Histogram:
    """Cells of one depth that have people, and how many."""

    depth: int  # of the cells, in levels of the hierarchy
    cells: Cells  # uint64[m], ascending, none twice
    counts: Integers  # int64[m], all above 0

    __repr__ = short_repr

    def __post_init__(self) -> None:
        if self.cells.dtype != np.uint64 or self.counts.dtype != np.int64 or self.cells.shape != self.counts.shape:
            raise InvalidInput(
                f"a histogram has uint64[m] cells and int64[m] counts; got {self.cells.dtype}{self.cells.shape} and "
                f"{self.counts.dtype}{self.counts.shape}"
            )
        if np.any(self.cells[1:] <= self.cells[:-1]) or np.any(self.counts <= 0):
            raise InvalidInput("the cells of a histogram must ascend, none twice, with counts above 0")

    @property
    def total(self) -> int:
        """All people."""
        return int(self.counts.sum())

    @classmethod
    def of_sorted(cls, depth: int, cells: Cells) -> Histogram:
        """From the cell of every person, ascending."""
        starts = np.flatnonzero(np.concatenate([np.ones(min(len(cells), 1), dtype=bool), cells[1:] != cells[:-1]]))
        return cls(depth, cells[starts], np.diff(starts, append=len(cells)))


class GrowingHistogram:
    """A histogram that grows batch by batch; rows wait until they are a quarter as many as there are cells.

    It is the largest thing in memory: no more than one of its two columns is copied at a time. So many rows may be
    ``pending`` however few cells there are.

    Examples
    --------
    >>> grown = GrowingHistogram(1)
    >>> grown.add(np.array([3, 2], np.uint64)), grown.add(np.array([3], np.uint64))
    (None, None)
    >>> grown.close().counts.tolist()
    [1, 2]
    """

    def __init__(self, depth: int, pending: int = 1 << 22) -> None:
        self._depth, self._pending = depth, pending
        self._waiting: list[Cells] = []
        self._rows = 0
        self._cells, self._counts = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)

    def add(self, cells: Cells) -> None:
        """Count people, each in one of these cells of the depth: uint64[n], kept until they are counted."""
        self._waiting.append(cells)
        self._rows += len(cells)
        if self._rows > max(len(self._cells) // 4, self._pending):
            self._merge()

    def _merge(self) -> None:
        cells = np.concatenate(self._waiting)
        self._waiting, self._rows = [], 0
        sort_on_all_cores(cells)
        more = Histogram.of_sorted(self._depth, cells)
        del cells
        if not len(self._cells):
            self._cells, self._counts = more.cells, more.counts
            return
        place = np.searchsorted(self._cells, more.cells)
        present = self._cells[np.minimum(place, len(self._cells) - 1)] == more.cells
        self._counts[place[present]] += more.counts[present]
        place = place[~present]
        self._cells = np.insert(self._cells, place, more.cells[~present])
        self._counts = np.insert(self._counts, place, more.counts[~present])

    def close(self) -> Histogram:
        """Everybody so far. How people were divided changes nothing."""
        if self._rows:
            self._merge()
        return Histogram(self._depth, self._cells, self._counts)


class HistogramRanks:
    """Ranks of people who are known by their cells only.

    ``refine(cells, depth, deeper)`` is the histogram at depth ``deeper`` of the people in these cells of depth
    ``depth``. Called once, when cells of the histogram are opened; then their people are known at the deepest level.
    """

    def __init__(
        self, hierarchy: Hierarchy, histogram: Histogram, refine: Callable[[Cells, int, int], Histogram]
    ) -> None:
        self._hierarchy, self._refine = hierarchy, refine
        self._depth = histogram.depth
        self._first = np.empty_like(histogram.cells)
        for begin in range(0, len(self._first), _CHUNK):
            self._first[begin : begin + _CHUNK] = hierarchy.span(histogram.cells[begin : begin + _CHUNK])[0]
        self._before = _sums_before(histogram.counts)

    def __len__(self) -> int:
        return int(self._before[-1])

    def below(self, codes: Cells) -> Integers:
        """People whose code is smaller than each of these: int64[m]."""
        return np.asarray(self._before[np.searchsorted(self._first, codes)])

    def open(self, cells: Cells) -> None:
        """Count the people of these cells once more if their children are smaller than the histogram's cells."""
        deepest = self._hierarchy.max_depth
        if not len(cells) or not self._depth == int(self._hierarchy.depth(cells[:1])[0]) < deepest:
            return
        first = self._hierarchy.span(cells)[0]
        place = np.searchsorted(self._first, first)
        there = self._first[np.minimum(place, len(self._first) - 1)] == first
        cells, place = cells[there], place[there]
        if not len(cells):
            return
        finer, counts = self._refine(cells, self._depth, deepest), np.diff(self._before)
        if int(counts[place].sum()) != finer.total:
            raise InvalidInput(CHANGED)
        others, counts = np.delete(self._first, place), np.delete(counts, place)
        finest = self._hierarchy.span(finer.cells)[0]
        place = np.searchsorted(others, finest)
        self._first = np.insert(others, place, finest)
        self._before = _sums_before(np.insert(counts, place, finer.counts))


def _sums_before(counts: Integers) -> Integers:
    """Sums of the counts before each place, and of all: int64[m + 1]."""
    out = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=out[1:])
    return out


@dataclass(frozen=True, eq=False)
class Lookup:
    """From codes to regions: a row whose code is from ``first[i]`` to below ``first[i + 1]`` belongs to region i."""

    first: Cells  # uint64[m], first code (deepest level) of each region, ascending; the regions cover the domain

    __repr__ = short_repr

    def regions(self, codes: Cells) -> npt.NDArray[np.int32]:
        """The region that holds each code: int32[n]."""
        return (np.searchsorted(self.first, codes, side="right") - 1).astype(np.int32)

    @staticmethod
    def plain(hierarchy: Hierarchy, cells: Cells) -> Lookup:
        """Every cell of a partition is a region, in its order, which is that of the curve."""
        first = hierarchy.span(cells)[0]
        if len(first) == 0 or first[0] != hierarchy.span([ROOT])[0][0] or np.any(first[1:] <= first[:-1]):
            raise InvalidInput("the cells of a partition must cover the domain, in the order of the curve")
        return Lookup(first)
