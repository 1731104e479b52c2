"""From a lookup of code intervals to tables that an engine joins by equality.

Rows carry keys, and keys are not in the order of the codes, so intervals cannot be joined. Cells can: the cells that
hold rows are known from the counting, every one of them that lies in one interval has one region, and a table of keys
and regions is joined by hash. Deep intervals would need deep cells, of which there are many; so there are at most two
tables: a coarse one for cells that lie in one interval already, and a fine one for the rest.

Knows cells and regions. Knows no positions, participants or randomness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Integers
from ..errors import InvalidInput, listed_columns
from ..hierarchy.base import Cells
from ..hierarchy.dyadic import BoxTree
from .histogram import Lookup
from .keys import keys_of_cells

__all__ = ["Groups", "JoinTable", "Wanted", "covers", "join_tables", "unclear_cells"]


@dataclass(frozen=True, eq=False)
class Groups:
    """Cells that hold rows, as the engine counted them.

    Attributes
    ----------
    bits : int
        Of the cells' paths.
    cells : uint64[m]
        Ascending, none twice.
    """

    bits: int
    cells: Cells


@dataclass(frozen=True, eq=False)
class JoinTable:
    """Rows whose key of ``bits`` bits is ``keys[i]`` belong to ``regions[i]``."""

    bits: int
    keys: Integers
    regions: npt.NDArray[np.int32]


def unclear_cells(tree: BoxTree, lookup: Lookup, groups: Groups) -> Cells:
    """Cells whose rows lie in several intervals: they must be counted finer before a table can be made. uint64[u]."""
    return groups.cells[~_clear(tree, lookup, groups)]


def join_tables(tree: BoxTree, lookup: Lookup, groups: Groups, finer: Groups | None = None) -> list[JoinTable]:
    """At most three tables; a row has its region in the first one that has its key.

    Parameters
    ----------
    groups : Groups
        Together they hold all rows.
    finer : Groups, optional
        Where ``unclear_cells`` are, at a depth at which every cell lies in one interval.
    """
    if not len(groups.cells):  # no rows
        return [JoinTable(0, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32))]
    clear = _clear(tree, lookup, groups)
    known = Groups(groups.bits, groups.cells if clear.all() else groups.cells[clear])
    tables = _coarse_and_fine(tree, lookup, known)
    if clear.all():
        return tables
    if finer is None:
        raise InvalidInput(f"{np.count_nonzero(~clear)} cells lie in several intervals; count their rows finer first")
    above = finer.cells >> np.uint64(finer.bits - groups.bits)
    needed = ~_is_in(above, known.cells)
    return [*tables, _table(tree, lookup, finer.bits, finer.cells[needed], finer.bits)]


def covers(finer: Groups, cells: Cells, bits: int) -> bool:
    """Whether the finer groups hold the rows of all these cells of a smaller depth."""
    return bool(_is_in(cells, np.unique(finer.cells >> np.uint64(finer.bits - bits))).all())


@dataclass(frozen=True)
class Wanted:
    """Which columns ``attach`` gives.

    Attributes
    ----------
    keep : tuple of str
        Columns of the rows.
    region : str
        Name of the column with the index of the region.
    add : mapping of str to array
        Columns with one value per region.
    """

    keep: tuple[str, ...]
    region: str
    add: Mapping[str, npt.NDArray[Any]]

    @classmethod
    def check(
        cls,
        columns: Sequence[str],
        *,
        keep: Sequence[str] | None = None,
        region: str = "region",
        add: Mapping[str, npt.ArrayLike] | None = None,
    ) -> Wanted:
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


def _coarse_and_fine(tree: BoxTree, lookup: Lookup, groups: Groups) -> list[JoinTable]:
    """One table, or two if that makes them much smaller."""
    if not len(groups.cells):
        return []
    begins = np.searchsorted(_first(tree, groups), lookup.first)  # no interval begins inside a cell
    occupied = np.diff(begins, append=len(groups.cells))
    depths = np.minimum(_interval_bits(tree, lookup), groups.bits)
    deepest = int(depths[occupied > 0].max())
    sizes = _interval_sizes(tree, lookup)

    def entries(chosen: Flags, bits: int) -> float:
        return float(np.minimum(occupied[chosen], sizes[chosen] * 2.0 ** (bits - tree.path_bits) + 1).sum())

    costs = {deepest: entries(occupied > 0, deepest)}
    for bits in range(int(depths[occupied > 0].min()), deepest, tree.box.dimensions):
        costs[bits] = entries(depths <= bits, bits) + entries(depths > bits, deepest)
    best = min(costs, key=lambda bits: costs[bits])
    if costs[deepest] <= _SMALL or costs[best] > costs[deepest] / 2:
        return [_table(tree, lookup, groups.bits, groups.cells, deepest)]
    coarse = np.repeat(depths <= best, occupied)
    parts = [(coarse, best), (~coarse, deepest)]
    return [_table(tree, lookup, groups.bits, groups.cells[part], bits) for part, bits in parts]


_SMALL = 1 << 18  # entries of a table that stays in the processor's cache: one look-up is faster than two


def _table(tree: BoxTree, lookup: Lookup, deeper: int, deep: Cells, bits: int) -> JoinTable:
    """Of the cells of a given number of bits that hold the deeper ones (of ``deeper`` bits, ascending)."""
    cells = deep >> np.uint64(deeper - bits)
    cells = cells[np.concatenate([[True], cells[1:] != cells[:-1]])] if len(cells) else cells
    regions = lookup.regions(cells << np.uint64(tree.path_bits - bits))
    return JoinTable(bits, keys_of_cells(tree, cells, bits), regions)


def _first(tree: BoxTree, groups: Groups) -> Cells:
    return groups.cells << np.uint64(tree.path_bits - groups.bits)


def _clear(tree: BoxTree, lookup: Lookup, groups: Groups) -> Flags:
    """Which cells lie in one interval: those in which no other interval begins."""
    first = _first(tree, groups)
    holds = np.searchsorted(first, lookup.first, side="right") - 1
    begins, holds = lookup.first[holds >= 0], holds[holds >= 0]
    offset = begins - first[holds]
    clear = np.ones(len(first), dtype=bool)
    clear[holds[(offset > 0) & (offset < np.uint64(1 << (tree.path_bits - groups.bits)))]] = False
    return clear


def _ends(tree: BoxTree, lookup: Lookup) -> Cells:
    return np.append(lookup.first[1:], np.uint64(2 << tree.path_bits))


def _interval_sizes(tree: BoxTree, lookup: Lookup) -> npt.NDArray[np.float64]:
    """Codes of each interval."""
    return (_ends(tree, lookup) - lookup.first).astype(np.float64)


def _interval_bits(tree: BoxTree, lookup: Lookup) -> Integers:
    """The smallest depth, in bits of the path, whose cells do not cross the ends of each interval: int64[m]."""
    both = lookup.first | _ends(tree, lookup)
    lowest = both & (~both + np.uint64(1))
    zeros = np.frexp(lowest.astype(np.float64))[1] - 1  # a power of two is exact
    step = tree.box.dimensions  # only whole levels of the curve have keys
    return np.asarray(-(np.minimum(zeros - tree.path_bits, 0) // step) * step, dtype=np.int64)


def _is_in(values: Cells, ascending: Cells) -> Flags:
    if not len(ascending):
        return np.zeros(len(values), dtype=bool)
    place = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return np.asarray(ascending[place] == values)
