"""What the engines that group by key have in common: counting, refining, checking, and the tables they join.

An engine says how its rows are grouped; which cells the groups are, and which of them must be counted finer, is decided
here. Groups stay known until the regions are joined back, so that this needs no further scan in most cases.

Knows groups of rows. Knows no mechanisms and no randomness.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, sort_with_order
from ..errors import InvalidInput, listed_columns
from ..geometry.box import Box
from ..hierarchy.base import Cells, Hierarchy
from ..hierarchy.dyadic import BoxTree
from .expressions import Dialect, coarser, condition_of_rows, key
from .histogram import CHANGED, Histogram, Lookup
from .joins import Groups, JoinTable, Wanted, covers, join_tables, unclear_cells
from .keys import cells_of_keys, fits_keys, keys_of_cells, whole_levels
from .source import Source, check_axes, refuse_bad_rows, refuse_values

__all__ = ["CHANGED", "KEY", "ROW", "Grouping", "region_columns"]

KEY, ROW = "semilocal key", "semilocal row"
_FIRST_ROWS = 1000  # rows that show what went wrong
_RESERVED = "semilocal "  # names of columns that queries add begin with this


class Grouping(Source):
    """A source whose engine groups rows by an expression; use ``DuckDBSource`` or ``SparkSource``.

    Parameters
    ----------
    columns : sequence of str
        Numeric columns with the positions, one per axis of the box.
    box : Box
    types : mapping of str to (str, bool)
        All columns of the rows: what they hold, and whether that is numbers.
    order : str, optional
        The column that has the number of each row. Without it the rows are in the order in which the engine gives
        them, or, where it gives them in none, in that of their contents.
    """

    dialect: Dialect
    rows_per_person = 1
    guarded = True  # by the key of -1
    everybody: Grouping | None = None  # all rows, where those of this source were chosen out of them

    def __init__(
        self, columns: Sequence[str], box: Box, types: dict[str, tuple[str, bool]], *, order: str | None = None
    ) -> None:
        super().__init__(box)
        self.columns, self.order = tuple(columns), order
        self._people: int | None = None
        self._counted: dict[bytes, list[Groups]] = {}
        self._types = {name: kind for name, kind in types.items() if name != ROW}
        self._every = tuple(self._types)
        check_axes(columns, box)
        self._check_numbers(columns)
        if order is not None and order != ROW:
            self._check_numbers([order])
        if taken := [column for column in self._types if column.startswith(_RESERVED)]:
            raise InvalidInput(f"the name of column {taken[0]!r} is reserved; rename it first")

    # -- what an engine does -------------------------------------------------------------------------------

    def _keyed(self, expression: str) -> Any:
        """The rows with one column, ``KEY``: the value of an expression."""
        raise NotImplementedError

    def _within(self, keyed: Any, expression: str, keys: Integers) -> Any:
        """Of such rows, those for which an expression of the key is one of the keys."""
        raise NotImplementedError

    def _count_rows(self) -> int:
        """Number of rows, by the fastest way."""
        raise NotImplementedError

    def _count_groups(self, keyed: Any, most: int = 0) -> tuple[Integers, Integers]:
        """The different keys of such rows and how many rows have each: int64[m], int64[m].

        ``most`` keys are possible, where that is known: an engine may take many of them in several turns.
        """
        raise NotImplementedError

    def _first(self, size: int) -> list[npt.NDArray[Any]]:
        """The positions of the first few rows, one array per axis; they may be missing or outside."""
        raise NotImplementedError

    # -- checks --------------------------------------------------------------------------------------------

    def _check_numbers(self, columns: Sequence[str]) -> None:
        if missing := [column for column in columns if column not in self._types]:
            raise InvalidInput(
                f"there is no column {missing[0]!r}; the columns are {listed_columns(list(self._types))}"
            )
        for column in columns:
            what, numbers = self._types[column]
            if not numbers:
                raise InvalidInput(f"column {column!r} holds {what}, not numbers; choose another, or cast it")

    def _conditions(self, columns: Sequence[str], box: Box) -> tuple[int, int, int, int]:
        """How many rows there are, and how many have no value, one that is not finite, or one outside the box."""
        kinds, people = self._count_groups(self._keyed(condition_of_rows(columns, box, self.dialect)))
        found = dict(zip(kinds.tolist(), people.tolist(), strict=True))
        return sum(found.values()), found.get(1, 0), found.get(2, 0), found.get(3, 0)

    def check_value(self, name: str, low: float, high: float) -> None:
        """Refuse a column if a value is missing or outside its range; also of rows that are not chosen. One scan."""
        if self.everybody is not None:
            return self.everybody.check_value(name, low, high)
        self._check_numbers([name])
        rows, null, missing, outside = self._conditions([name], Box((low,), (high,)))
        refuse_values(name, low, high, rows=rows, bad=null + missing + outside, missing=null + missing)

    def count(self) -> int:
        """Number of rows."""
        if self._people is None:
            self._people = self._count_rows()
        return self._people

    def check(self) -> None:
        """Refuse rows that have no value, are not finite or lie outside, with how many there are. One scan."""
        self._people, null, missing, outside = self._conditions(self.columns, self.box)
        refuse_bad_rows(
            self.box, rows=self._people, null=null, missing=missing, outside=outside,
            some=lambda: _stacked(self._first(_FIRST_ROWS)),
        )  # fmt: skip

    def _refuse(self) -> NoReturn:
        """Say what is wrong with the rows, some of which are known to be bad."""
        self.check()
        raise InvalidInput(CHANGED)

    def _checked(self, columns: Sequence[npt.NDArray[Any]]) -> Floats:
        """Sampled positions float64[s, d] from their columns; refuses bad ones."""
        points = _stacked(columns)
        if not np.all((points >= self.box.lower) & (points <= self.box.upper)):
            self._refuse()
        return points

    # -- counting ------------------------------------------------------------------------------------------

    def histogram(self, hierarchy: Hierarchy, depth: int) -> Histogram:
        """How many rows are in each cell of this depth. One scan and one group-by of the engine."""
        if not fits_keys(hierarchy):
            self.check()
            return super().histogram(hierarchy, depth)
        most = min(self.count(), 1 << hierarchy.level_bits * depth)
        found, groups = self.group(hierarchy, self._keyed(self._key(hierarchy, depth)), depth, most)
        self._counted = {hierarchy.digest(): [groups]}
        return found

    def refine(self, hierarchy: Hierarchy, cells: Cells, depth: int, deeper: int) -> Histogram:
        """The same at depth ``deeper``, of the rows in these cells of depth ``depth`` alone. One scan."""
        if not fits_keys(hierarchy):
            return super().refine(hierarchy, cells, depth, deeper)
        found, groups = self._refined(hierarchy, cells, depth, deeper)
        known = self._counted.get(hierarchy.digest(), [])
        if known and known[0].bits == hierarchy.level_bits * depth:
            known[1:] = [groups]
        return found

    def group(self, tree: BoxTree, keyed: Any, depth: int, most: int = 0) -> tuple[Histogram, Groups]:
        """Count rows by their keys of this depth, of which ``most`` are possible if that is known."""
        bits = tree.level_bits * depth
        keys, people = self._count_groups(keyed, most)
        if (keys < 0).any():
            self._refuse()
        found = _sorted(depth, cells_of_keys(tree, keys, bits), people, bits)
        return found, Groups(bits, found.cells)

    def tables(self, tree: BoxTree, lookup: Lookup) -> list[JoinTable]:
        """Tables of keys and regions, from the cells that were counted; what is not known yet is counted."""
        if tree.digest() not in self._counted:
            self.histogram(tree, min(tree.max_depth, whole_levels(tree, 24 // tree.level_bits + 1)))
        groups, *finer = self._counted[tree.digest()]
        unclear = unclear_cells(tree, lookup, groups)
        if len(unclear) and not (finer and covers(finer[0], unclear, groups.bits)):
            finer = [self._refined(tree, unclear, groups.bits // tree.level_bits, tree.max_depth)[1]]
        return join_tables(tree, lookup, groups, finer[0] if finer else None)

    def _refined(self, tree: BoxTree, cells: Cells, depth: int, deeper: int) -> tuple[Histogram, Groups]:
        bits, fewer = tree.level_bits * deeper, tree.level_bits * depth
        above = coarser(tree, self.dialect.name(KEY), bits, fewer)
        rows = self._within(self._keyed(self._key(tree, deeper)), above, keys_of_cells(tree, cells, fewer))
        return self.group(tree, rows, deeper)

    def _key(self, tree: BoxTree, depth: int) -> str:
        return key(tree, self.columns, tree.level_bits * depth, self.dialect)

    # -- columns -------------------------------------------------------------------------------------------

    @property
    def _own(self) -> list[str]:
        """All columns of the rows, quoted."""
        return [self.dialect.name(column) for column in self._every]

    @property
    def _numbers(self) -> list[str]:
        """The positions, as numbers."""
        return self._cast(self.columns)

    def _cast(self, columns: Sequence[str]) -> list[str]:
        return [f"CAST({self.dialect.name(column)} AS DOUBLE)" for column in columns]


def _stacked(columns: Sequence[npt.NDArray[Any]]) -> Floats:
    """Columns of numbers side by side, float64[s, d]; NaN where there is none."""
    return np.stack([np.ma.filled(np.ma.asarray(column, np.float64), np.nan) for column in columns], axis=1)


def _sorted(depth: int, cells: Cells, people: Integers, bits: int) -> Histogram:
    """Cells of a given number of bits, none twice, with their counts: ascending. Overwrites the cells."""
    width = int(people.max(initial=0)).bit_length()
    if bits + 1 + width > 64:
        cells, order = sort_with_order(cells, 1 << bits, (2 << bits) - 1)
        return Histogram(depth, cells, people[order])
    cells <<= np.uint64(width)  # cell and count in one word: one plain sort
    cells |= people.astype(np.uint64)
    cells.sort()
    people = (cells & np.uint64((1 << width) - 1)).astype(np.int64)
    cells >>= np.uint64(width)
    return Histogram(depth, cells, people)


def region_columns(wanted: Wanted, region: str) -> dict[str, Any]:
    """Columns of a table with one row per region: its index, and what is to be added."""
    size = len(next(iter(wanted.add.values())))
    added = {f"{_RESERVED}added {place}": column for place, column in enumerate(wanted.add.values())}
    return {region: np.arange(size, dtype=np.int32), **added}
