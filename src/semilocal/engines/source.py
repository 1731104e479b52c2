"""Where rows come from, and what an engine must be able to do with them: the seam.

Only counts matter until the very end. A :class:`Source` groups its rows by cell (``histogram``), once more for the few
cells that need it (``refine``), and in the end joins a table of regions back to the rows (``attach``). All rounds are
played in between, in numpy, on cells and counts (:mod:`semilocal.engines.run`). All randomness is the driver's.

A source has an **order of its rows** that never changes: reading it twice gives the same rows in the same order. It
decides which word of noise a row gets.

It does everything from batches of positions, in memory that does not grow with the rows. An engine that can group and
join by itself overrides the three.

Knows rows. Knows no mechanisms and no randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Floats
from ..errors import InvalidInput, OutsideDomain, listed_columns
from ..geometry.box import Box, mistake_words
from ..hierarchy.base import Cells, Hierarchy
from ..protocol.column import refuse_values
from .histogram import GrowingHistogram, Histogram, Lookup

__all__ = [
    "Attached", "Source", "Survey", "Wanted", "attached_batches", "check_axes", "is_in", "refuse_bad_rows",
    "refuse_values",
]  # fmt: skip

SAMPLE = 200_000  # rows that the depth of the histogram is chosen from


class Attached(NamedTuple):
    """Some rows in a row, and where they ended."""

    positions: Floats  # float64[b, d]
    regions: npt.NDArray[np.int32]  # int32[b], index of the region in the partition
    others: Floats = np.empty((0, 0))  # float64[b, c], further columns that were asked for


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

    def attach(self, hierarchy: Hierarchy, lookup: Lookup, **options: Any) -> Any:
        """Every row with the index of its region, in the engine's own form; here batches of :class:`Attached`.

        ``options`` are the engine's: where to write, which columns to keep, which columns to add per region.
        """
        if options:
            raise InvalidInput(f"this source takes no options for attach; got {', '.join(sorted(options))}")
        return attached_batches(self, hierarchy, lookup)

    def _codes(self, hierarchy: Hierarchy) -> Iterator[Cells]:
        return map(hierarchy.codes, self.batches())


def attached_batches(
    source: Source, hierarchy: Hierarchy, lookup: Lookup, others: Sequence[str] = ()
) -> Iterator[Attached]:
    """Rows with their regions and further columns, batch by batch, in the order of the rows, from any source."""
    axes = source.box.dimensions
    for read in source.batches(*others):
        positions = read[:, :axes]
        yield Attached(positions, lookup.regions(hierarchy.codes(positions)), read[:, axes:])


@dataclass(frozen=True)
class Wanted:
    """Which columns ``attach`` gives."""

    keep: tuple[str, ...]  # columns of the rows
    region: str  # name of the column with the index of the region
    add: Mapping[str, npt.NDArray[Any]]  # columns with one value per region

    @classmethod
    def check(
        cls, columns: Sequence[str], *, keep: Sequence[str] | None = None, region: str = "region",
        add: Mapping[str, npt.ArrayLike] | None = None,
    ) -> Wanted:  # fmt: skip
        """Check the options against the columns that the rows have."""
        kept = tuple(columns if keep is None else keep)
        if missing := [name for name in kept if name not in columns]:
            raise InvalidInput(f"there is no column {missing[0]!r} to keep; the columns are {listed_columns(columns)}")
        names = [*kept, region, *(add or {})]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InvalidInput(f"column {twice[0]!r} would be there twice; choose another name, or do not keep it")
        added = {name: np.asarray(values) for name, values in (add or {}).items()}
        if len({len(values) for values in added.values()}) > 1:
            raise InvalidInput("the columns to add must have one value per region; they have different lengths")
        return cls(kept, region, added)


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
