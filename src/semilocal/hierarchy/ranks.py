"""People in the order of their codes: what counting needs to know about them, and nothing else.

A cell's codes are one interval, so its people are the ranks from ``below(first)`` to ``below(last + 1)``. Sorted codes
in memory answer this (:class:`SortedCodes`); a histogram of cells does as well, wherever its cells are small enough.

Knows codes and how many people have them. Knows no participants, reports or randomness.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, Protocol

import numpy as np

from ..arrays import Integers, on_all_cores
from .base import Cells

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
        return _search(self.codes, codes, "left")

    def up_to(self, codes: Cells) -> Integers:
        """How many codes are not larger than each of these: int64[m]."""
        return _search(self.codes, codes, "right")


def _search(ordered: Cells, codes: Cells, side: Literal["left", "right"]) -> Integers:
    """As ``np.searchsorted``, on all cores."""
    if len(codes) <= _SEARCHES:
        return np.searchsorted(ordered, codes, side)
    parts = [codes[start : start + _SEARCHES] for start in range(0, len(codes), _SEARCHES)]
    return np.concatenate(on_all_cores(partial(np.searchsorted, ordered, side=side), parts))
