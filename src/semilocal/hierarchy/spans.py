"""Regions: intervals [lower, upper) of codes, and the cells that they consist of.

Knows cells and codes. Knows no participants, reports or randomness.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..arrays import Integers
from ..errors import InvalidInput

if TYPE_CHECKING:
    from .base import Cells, Hierarchy, Polygons

__all__ = ["checked", "cover", "gathered", "rows_of"]


def checked(hierarchy: Hierarchy, lower: npt.ArrayLike, upper: npt.ArrayLike) -> tuple[Cells, Cells]:
    """Ends of intervals: uint64[m], uint64[m].

    Raises
    ------
    InvalidInput
        If one is empty, or not an interval of the hierarchy's codes.
    """
    low, high = (np.asarray(side) for side in (lower, upper))
    if (
        low.ndim != 1
        or low.shape != high.shape
        or any(side.size and side.dtype.kind not in "iu" for side in (low, high))
    ):
        raise InvalidInput(
            "intervals need as many lower as upper codes, integers; "
            f"got {low.dtype}{low.shape} and {high.dtype}{high.shape}"
        )
    begin, end = hierarchy.ends
    if low.size and not (low.min() >= begin and high.max() <= end and np.all(low < high)):
        raise InvalidInput(f"an interval of codes is not empty and lies within [{begin}, {end})")
    return low.astype(np.uint64, copy=False), high.astype(np.uint64, copy=False)


def cover(hierarchy: Hierarchy, lower: Cells, upper: Cells) -> tuple[Integers, Cells]:
    """The fewest cells of each interval, from the root down: a cell is taken, left out, or replaced by its children."""
    row = np.arange(len(lower))
    cells = np.ones(len(lower), dtype=np.uint64)
    rows, starts, found = [row[:0]], [cells[:0]], [cells[:0]]
    while len(cells):
        first, last = hierarchy.span(cells)
        low, high = lower[row], upper[row]
        inside = (low <= first) & (last < high)
        rows.append(row[inside])
        starts.append(first[inside])
        found.append(cells[inside])
        cut = ~inside & (first < high) & (last >= low)
        row, cells = row[cut], cells[cut]
        row, cells = np.repeat(row, hierarchy.fanouts(cells)), hierarchy.children(cells)
    row = np.concatenate(rows)
    order = np.lexsort((np.concatenate(starts), row))
    bounds = np.append(0, np.cumsum(np.bincount(row, minlength=len(lower))))
    return bounds, np.concatenate(found)[order]


def rows_of(first: Integers) -> Integers:
    """The interval of each cell, from the first cell of every interval and one more: int64[c]."""
    return np.repeat(np.arange(len(first) - 1), np.diff(first))


def gathered(first: Integers, parts: list[Polygons]) -> list[Polygons]:
    """The rings of all cells of each interval."""
    ends = zip(first[:-1].tolist(), first[1:].tolist(), strict=True)
    return [[ring for part in parts[begin:end] for ring in part] for begin, end in ends]
