"""How many people are in each cell of one depth, and which region each interval of codes ends in.

A :class:`Histogram` is all that the rounds of a run need to know about the data; :class:`HistogramRanks` answers
:class:`~semilocal.hierarchy.ranks.Ranks` from it, and asks its source once more where its cells are too coarse. A
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

__all__ = ["CHANGED", "MOVED", "GrowingHistogram", "Histogram", "HistogramRanks", "Lookup"]

_CHUNK = 1 << 20  # cells that are worked on at a time, where histograms are large
# How many people were moved, or are in a cell, is not public: no message says it.
CHANGED = "the rows changed while they were read: run it on data that nobody writes to"
MOVED = -2  # in place of a region: the people of this interval were moved, each to a region of their own


@dataclass(frozen=True, eq=False)
class Histogram:
    """Cells of one depth that have people, and how many.

    Attributes
    ----------
    depth : int
        Of the cells, in levels of the hierarchy.
    cells : uint64[m]
        Ascending, none twice.
    counts : int64[m]
        All above 0.
    """

    depth: int
    cells: Cells
    counts: Integers

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
    def of(cls, depth: int, cells: Cells) -> Histogram:
        """From the cell of every person, in any order.

        Examples
        --------
        >>> Histogram.of(1, np.array([3, 2, 3], np.uint64)).counts.tolist()
        [1, 2]
        """
        return cls.of_sorted(depth, np.sort(cells))

    @classmethod
    def of_sorted(cls, depth: int, cells: Cells) -> Histogram:
        """From the cell of every person, ascending."""
        starts = _starts(cells)
        return cls(depth, cells[starts], np.diff(starts, append=len(cells)))


def _starts(ordered: Cells) -> Integers:
    """Where each different number of an ascending array begins."""
    if not len(ordered):
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))


class GrowingHistogram:
    """A histogram that grows batch by batch; rows wait until they are a quarter as many as there are cells.

    It is the largest thing in memory: no more than one of its two columns is copied at a time.

    Parameters
    ----------
    depth : int
    pending : int
        Rows that may wait however few cells there are.

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

    Parameters
    ----------
    hierarchy : Hierarchy
    histogram : Histogram
    refine : callable, optional
        ``refine(cells, depth, deeper)``: the histogram at depth ``deeper`` of the people in these cells of depth
        ``depth``. Called at most once, when children are asked about that are smaller than the histogram's cells; then
        the people who are still asked are known at the deepest level. Without it that is refused.
    """

    def __init__(
        self, hierarchy: Hierarchy, histogram: Histogram, refine: Callable[[Cells, int, int], Histogram] | None = None
    ) -> None:
        self._hierarchy, self._refine = hierarchy, refine
        self._depth = histogram.depth
        self._first = np.empty_like(histogram.cells)
        for begin in range(0, len(self._first), _CHUNK):
            self._first[begin : begin + _CHUNK] = hierarchy.span(histogram.cells[begin : begin + _CHUNK])[0]
        self._before = _sums_before(histogram.counts)
        self.refined = False

    def __len__(self) -> int:
        return int(self._before[-1])

    def below(self, codes: Cells) -> Integers:
        """People whose code is smaller than each of these: int64[m]."""
        return np.asarray(self._before[np.searchsorted(self._first, codes)])

    def open(self, cells: Cells) -> None:
        """Refine the people of these cells if their children are smaller than the histogram's cells."""
        if not len(cells) or self.refined:
            return
        depth = int(self._hierarchy.depth(cells[:1])[0])
        if depth < self._depth:
            return
        first, last = self._hierarchy.span(cells)
        start, stop = np.searchsorted(self._first, first), np.searchsorted(self._first, last, side="right")
        asked = cells[stop > start]
        self.refined = True
        if not len(asked):
            return
        if self._refine is None:
            raise InvalidInput(f"children of depth {depth + 1} were asked; the histogram ends at {self._depth}")
        finer = self._refine(asked, depth, self._hierarchy.max_depth)
        self._replace(start[stop > start], stop[stop > start], finer)

    def _replace(self, start: Integers, stop: Integers, finer: Histogram) -> None:
        """Put the finer cells in place of the entries from each start to its stop."""
        people = int((self._before[stop] - self._before[start]).sum())
        if people != finer.total:
            raise InvalidInput(CHANGED)
        edges = np.zeros(len(self._first) + 1, dtype=np.int8)  # the ranges do not overlap
        edges[start] += 1
        edges[stop] -= 1
        kept = np.cumsum(edges[:-1], dtype=np.int8) == 0
        finest = self._hierarchy.span(finer.cells)[0]
        self._first = self._first[kept]
        place = np.searchsorted(self._first, finest)
        self._first = np.insert(self._first, place, finest)
        self._before = _sums_before(np.insert(np.diff(self._before)[kept], place, finer.counts))


def _sums_before(counts: Integers) -> Integers:
    """Sums of the counts before each place, and of all: int64[m + 1]."""
    out = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=out[1:])
    return out


@dataclass(frozen=True, eq=False)
class Lookup:
    """From codes to regions.

    A row whose code is in interval i (``first[i]`` to below ``first[i + 1]``) belongs to ``regions[i]``, unless that is
    ``MOVED``. Those rows were moved one by one: ordered by their code, and equal codes by the order of the rows, the
    j-th row of the interval (from 0) belongs to ``moved_regions[start[i] + j]``.

    Attributes
    ----------
    first : uint64[m]
        First code (deepest level) of each interval, ascending; the intervals cover the domain.
    regions : int32[m]
        Index of the region in the partition, or ``MOVED``.
    start : int64[m]
        For ``MOVED`` intervals: where their people begin in the columns below. Also the number of people in ``MOVED``
        intervals before it, so in code order all moved rows are one sequence.
    moved_regions : int32[q]
    moved_codes : uint64[q]
        The codes that moved people act from.
    moves : int16[q]
        How often each of them was moved.
    """

    first: Cells
    regions: npt.NDArray[np.int32]
    start: Integers
    moved_regions: npt.NDArray[np.int32]
    moved_codes: Cells
    moves: npt.NDArray[np.int16]

    def __repr__(self) -> str:
        """Nothing of it: the lengths alone would say how many people were moved."""
        return "Lookup(…)"

    def interval(self, codes: Cells) -> Integers:
        """The interval that holds each code: int64[n]."""
        return np.searchsorted(self.first, codes, side="right") - 1

    @staticmethod
    def plain(hierarchy: Hierarchy, cells: Cells) -> Lookup:
        """Nobody was moved: every cell of a partition is a region, in its order, which is that of the curve."""
        first = hierarchy.span(cells)[0]
        if len(first) == 0 or first[0] != hierarchy.span([ROOT])[0][0] or np.any(first[1:] <= first[:-1]):
            raise InvalidInput("the cells of a partition must cover the domain, in the order of the curve")
        size = len(cells)
        return Lookup(
            first, np.arange(size, dtype=np.int32), np.zeros(size, dtype=np.int64), np.empty(0, dtype=np.int32),
            np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int16),
        )  # fmt: skip
