"""People in the order of their codes: what counting needs to know about them, and nothing else.

A cell's codes are one interval, so its people are the ranks from ``below(first)`` to ``below(last + 1)``. Sorted codes
in memory answer this (:class:`SortedCodes`), or only the bits of them that are asked about (:class:`LeadingBits`); a
histogram of cells does as well, wherever its cells are small enough.

Knows codes and how many people have them. Knows no participants, reports or randomness.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ..arrays import Integers, on_all_cores, sort_on_all_cores
from .base import HEAD_BITS, ROOT, Cells, Heads, Hierarchy

__all__ = ["LeadingBits", "Ranks", "SortedCodes", "people_in"]

_Code = TypeVar("_Code", np.uint32, np.uint64)
_SEARCHES = 1 << 13  # that one thread does: most of them wait for memory


class Ranks(Protocol):
    """How many people have a smaller code."""

    def __len__(self) -> int:
        """All people."""

    def open(self, cells: Cells) -> None:
        """Get ready to be asked about the children of these cells (ascending, of one depth)."""

    def below(self, codes: Cells) -> Integers:
        """People whose code is smaller than each of these: int64[m].

        Each code must be the first one of a cell that is open or above an open one, or of such a cell's child, or
        follow the last one of such a cell.
        """


class SortedCodes:
    """All codes in memory, ascending."""

    def __init__(self, codes: Cells) -> None:
        self.codes = codes

    def __len__(self) -> int:
        return len(self.codes)

    def open(self, cells: Cells) -> None:
        """Do nothing: every code is known."""

    def below(self, codes: Cells) -> Integers:
        """People whose code is smaller than each of these: int64[m]."""
        return _search(self.codes, codes)


class LeadingBits:
    """All people by the leading bits of their codes, sorted; all bits are sorted as soon as they are asked about.

    Parameters
    ----------
    hierarchy : Hierarchy
    heads : uint32[n]
        In any order; not changed.
    codes : callable
        Gives all bits, uint64[n], in any order.
    """

    def __init__(self, hierarchy: Hierarchy, heads: Heads, codes: Callable[[], Cells]) -> None:
        self._low, self._shift = hierarchy.span([ROOT])[0][0], np.uint64(hierarchy.tail_bits)
        self._size, self._codes = len(heads), codes
        self._all: SortedCodes | None = None
        self._heads = heads.copy()
        sort_on_all_cores(self._heads)

    def __len__(self) -> int:
        return self._size

    @property
    def suffice(self) -> bool:
        """Whether only leading bits were asked about so far."""
        return self._all is None

    def open(self, cells: Cells) -> None:
        """Do nothing: every code is known."""

    def below(self, codes: Cells) -> Integers:
        """People whose code is smaller than each of these: int64[m]."""
        places = codes - self._low
        if self._all is None and np.any(places & ((np.uint64(1) << self._shift) - np.uint64(1))):
            ordered = self._codes().copy()
            sort_on_all_cores(ordered)
            self._all, self._heads = SortedCodes(ordered), self._heads[:0]
        if self._all is not None:
            return self._all.below(codes)
        places >>= self._shift
        out = _search(self._heads, places.astype(np.uint32))
        out[places >> np.uint64(HEAD_BITS) != 0] = len(self)  # behind the last code
        return out


def _search(ordered: npt.NDArray[_Code], codes: npt.NDArray[_Code]) -> Integers:
    """As ``np.searchsorted``, on all cores."""
    if len(codes) <= _SEARCHES:
        return np.searchsorted(ordered, codes)
    parts = [codes[start : start + _SEARCHES] for start in range(0, len(codes), _SEARCHES)]
    return np.concatenate(on_all_cores(partial(np.searchsorted, ordered), parts))


def people_in(hierarchy: Hierarchy, ranks: Ranks, cells: Cells) -> Integers:
    """People in each cell: int64[m]."""
    first, last = hierarchy.span(cells)
    start, after = ranks.below(first), last + np.uint64(1)
    stop = np.append(start[1:], 0)  # most cells begin where the one before them ends
    apart = np.flatnonzero(np.append(first[1:] != after[:-1], True)) if len(first) else np.empty(0, dtype=np.int64)
    stop[apart] = ranks.below(after[apart])
    return stop[: len(start)] - start
