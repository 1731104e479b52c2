"""Where rows come from, and what an engine must be able to do with them: the seam.

Only counts matter until the very end. A :class:`Source` groups its rows by cell (``histogram``), once more for the few
cells that need it (``refine``), and in the end joins a table of regions back to the rows (``attach``). All rounds are
played in between, in numpy, on cells and counts (:mod:`semilocal.engines.run`). All randomness is the driver's.

A source has an **order of its rows** that never changes: reading it twice gives the same rows in the same order. It
decides which word of noise a row gets.

It does everything from batches of positions, in memory that does not grow with the rows. An engine that can group and
join by itself overrides the three.

A :class:`Histogram` is all that the rounds of a run need to know about the data; :class:`HistogramRanks` answers
:class:`~semilocal.hierarchy.ranks.Ranks` from it, and asks its source again where its cells are too coarse.

Knows rows, cells and counts. Knows no mechanisms and no randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Floats, Integers, short_repr, sort_on_all_cores
from ..errors import InvalidInput, OutsideDomain, listed_columns
from ..geometry.box import Box, mistake_words
from ..hierarchy.base import Cells, Hierarchy
from ..protocol.column import refuse_values

# -- counts -----------------------------------------------------------------------------------------------------------


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
        size = int(np.count_nonzero(cells[1:] != cells[:-1])) + min(len(cells), 1)
        different, counts, done, before = np.empty(size, dtype=np.uint64), np.empty(size, dtype=np.int64), 0, 0
        for begin in range(0, len(cells) - 1, _CHUNK):
            part = cells[begin : begin + _CHUNK + 1]
            ends = np.flatnonzero(part[1:] != part[:-1]) + (begin + 1)
            there = slice(done, done + len(ends))
            different[there], counts[there] = cells[ends - 1], np.diff(ends, prepend=before)
            done, before = there.stop, int(ends[-1]) if len(ends) else before
        different[done:], counts[done:] = cells[-1:], len(cells) - before
        return cls(depth, different, counts)


class GrowingHistogram:
    """A histogram that grows batch by batch.

    While most rows are in cells of their own, rows are kept and sorted again: a row takes less than a cell and its
    count, and a sort is faster than a merge. Then cells are kept, and rows wait until they are a quarter as many. It is
    the largest thing in memory: no more than one column is copied at a time. So many rows may be ``pending`` however
    few are kept.
    """

    def __init__(self, depth: int, pending: int = 1 << 22) -> None:
        self._depth, self._pending = depth, pending
        self._waiting: list[Cells] = []
        self._rows = 0
        self._alone = np.empty(0, dtype=np.uint64)  # rows that were sorted, of which more than half are different
        self._cells, self._counts = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)

    def add(self, cells: Cells) -> None:
        """Count people, each in one of these cells of the depth: uint64[n], kept until they are counted."""
        self._waiting.append(cells)
        self._rows += len(cells)
        if self._rows > max(len(self._alone), len(self._cells) // 4, self._pending):
            self._merge()

    def _merge(self) -> None:
        rows = self._sorted()
        different = 1 + int(np.count_nonzero(rows[1:] != rows[:-1]))
        if not len(self._cells) and 2 * different > len(rows):
            self._alone = rows
        else:
            self._count(Histogram.of_sorted(self._depth, rows))

    def _sorted(self) -> Cells:
        """All rows that are not in the cells, ascending; none is kept."""
        rows = np.concatenate([self._alone, *self._waiting])
        self._alone, self._waiting, self._rows = rows[:0].copy(), [], 0
        sort_on_all_cores(rows)
        return rows

    def _count(self, more: Histogram) -> None:
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
        if self._rows or len(self._alone):
            self._count(Histogram.of_sorted(self._depth, self._sorted()))
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


# -- rows -------------------------------------------------------------------------------------------------------------


Locate: TypeAlias = Callable[[Floats], Integers]  # positions float64[b, d] to rows of a partition: int64[b]
REGION = "region"  # the column that rows get
SAMPLE = 200_000  # rows that the depth of the histogram is chosen from


class Attached(NamedTuple):
    """Some rows in a row, and where they ended."""

    positions: Floats  # float64[b, d]
    regions: npt.NDArray[np.int32]  # int32[b], index of the region in the partition


class Survey(NamedTuple):
    """What one scan says about the rows."""

    rows: int
    missing: int  # rows that have no value, or are NaN or infinite
    outside: int  # rows outside the box
    first: int  # the first such row; -1 if there is none
    sample: Floats  # float64[s, d], positions at even distances, at most 2 * SAMPLE


class Source:
    """Rows of people inside a box; a subclass has ``batches`` of positions, and everything else follows from them.

    Depths are in levels of the hierarchy. The axes of the box are the source's columns, in this order.
    """

    rows_per_person = 1  # the most rows that anybody has, chosen by the source
    person: str | None = None  # the column that says whose row it is, if rows are chosen by it
    guarded = False  # whether `sample` and `histogram` refuse bad rows themselves, so that no scan is needed for it

    def __init__(self, box: Box) -> None:
        self.box = box

    def batches(self, *others: str) -> Iterator[Floats]:
        """Positions in the order of the rows, then further columns, not yet checked: float64[b, d + len(others)]."""
        raise NotImplementedError

    @cached_property
    def _surveyed(self) -> Survey:
        return self.survey()

    def survey(self) -> Survey:
        """What one scan says about the rows."""
        rows, missing, outside, first, step = 0, 0, 0, -1, 1
        kept = [np.empty((0, self.box.dimensions))]
        for batch in self.batches():
            finite, inside = _judge(batch, self.box)
            bad = ~(finite & inside)
            if first < 0 and bad.any():
                first = rows + int(np.argmax(bad))
            missing += int(np.count_nonzero(~finite))
            outside += int(np.count_nonzero(finite & ~inside))
            kept.append(batch[-rows % step :: step].copy())  # a view would keep the whole batch
            rows += len(batch)
            while sum(map(len, kept)) > 2 * SAMPLE:
                kept, step = [np.concatenate(kept)[::2]], 2 * step
        return Survey(rows, missing, outside, first, np.concatenate(kept))

    def count(self) -> int:
        """Number of rows."""
        return self._surveyed.rows

    @property
    def rows_in_all(self) -> int:
        """All rows, chosen or not."""
        return self.count()

    def check(self) -> None:
        """Refuse rows that are not finite or outside (``OutsideDomain``), with how many there are and what to do."""
        found = self._surveyed
        refuse_bad_rows(
            self.box, rows=found.rows, missing=found.missing, outside=found.outside, first=found.first,
            some=lambda: found.sample,
        )  # fmt: skip

    def check_value(self, name: str, low: float, high: float) -> None:
        """Refuse a column if a value is missing or outside its range. One scan."""
        rows, bad, missing, first = 0, 0, 0, -1
        for batch in self.batches(name):
            values = batch[:, -1]
            wrong = ~((values >= low) & (values <= high))  # true for NaN
            if first < 0 and wrong.any():
                first = rows + int(np.argmax(wrong))
            rows, bad = rows + len(values), bad + int(np.count_nonzero(wrong))
            missing += int(np.count_nonzero(np.isnan(values)))
        refuse_values(name, low, high, rows=rows, bad=bad, missing=missing, first=first)

    def sample(self, size: int = SAMPLE) -> Floats:
        """At most ``size`` positions, which show where rows are: float64[s, d]. Only the depth depends on them."""
        kept = self._surveyed.sample
        return kept[:: max(1, -(-len(kept) // size))]

    def histogram(self, hierarchy: Hierarchy, depth: int) -> Histogram:
        """How many rows are in each cell of this depth. One scan."""
        found = GrowingHistogram(depth)
        for codes in self._codes(hierarchy):
            found.add(hierarchy.ancestors(codes, depth))
        return found.close()

    def refine(self, hierarchy: Hierarchy, cells: Cells, depth: int, deeper: int) -> Histogram:
        """The same at depth ``deeper``, of the rows in these cells (ascending) of depth ``depth`` alone. One scan."""
        found = GrowingHistogram(deeper)
        for codes in self._codes(hierarchy):
            found.add(hierarchy.ancestors(codes[is_in(hierarchy.ancestors(codes, depth), cells)], deeper))
        return found.close()

    def attach(self, locate: Locate, **options: Any) -> Any:
        """Every row with the index of its region, in the engine's own form; here batches of :class:`Attached`.

        ``locate`` is a partition's. ``options`` are the engine's: where to write, and which columns to keep.
        """
        if options:
            raise InvalidInput(f"this source takes no options for attach; got {', '.join(sorted(options))}")
        return (Attached(places, locate(places).astype(np.int32)) for places in self.batches())

    def _codes(self, hierarchy: Hierarchy) -> Iterator[Cells]:
        return map(hierarchy.codes, self.batches())


def kept_columns(columns: Sequence[str], options: dict[str, Any]) -> list[str]:
    """The columns of the rows that stay beside their region, all if ``options`` do not say which to ``keep``."""
    keep = list(options.pop("keep", columns))
    if options:
        raise InvalidInput(f"attach takes keep, the columns to keep beside the region; got {', '.join(options)}")
    if missing := [name for name in keep if name not in columns]:
        raise InvalidInput(f"there is no column {missing[0]!r} to keep; the columns are {listed_columns(columns)}")
    if REGION in keep:
        raise InvalidInput(f"column {REGION!r} would be there twice; do not keep it, or rename it first")
    return keep


def check_axes(columns: Sequence[str], box: Box) -> None:
    """Refuse more or fewer columns than the box has axes."""
    if len(columns) != box.dimensions:
        raise InvalidInput(f"the box has {box.dimensions} axes; got {len(columns)} columns: {', '.join(columns)}")


def refuse_bad_rows(
    box: Box, *, rows: int, missing: int = 0, outside: int = 0, first: int | None = None,
    some: Callable[[], Floats] | None = None,
) -> None:  # fmt: skip
    """Refuse rows that no cell can hold: without a value, NaN or infinite, or outside the box.

    ``some`` gives a few positions, float64[s, d], which may show what went wrong. None of them is printed.
    """
    kinds = {"have no value or are NaN or infinite": missing, f"lie outside the domain {box}": outside}
    bad = [f"{number:,} {what}" for what, number in kinds.items() if number]
    if bad:
        where = f", the first at row {first:,}" if first is not None and first >= 0 else ""
        what = f"of {rows:,} rows {' and '.join(bad)}{where}"
        if outside and some is not None and (mistake := mistake_words(some(), box)):
            raise OutsideDomain(f"{what}. {mistake}: nothing was released")
        fix = "remove them" if not outside else "remove them, or take a larger box"
        raise OutsideDomain(f"{what}; {fix} first: nothing was released")


def _judge(batch: Floats, box: Box) -> tuple[Flags, Flags]:
    """Which rows are finite, and which of those are inside: bool[b], bool[b]."""
    return np.asarray(np.isfinite(batch).all(axis=1)), box.inside(batch)


def is_in(values: Cells, ascending: Cells) -> Flags:
    """Which values an ascending array holds: bool[n]."""
    if not len(ascending):
        return np.zeros(len(values), dtype=bool)
    place = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return np.asarray(ascending[place] == values)
