"""Growing a quadtree level by level over sorted positions.

Knows exact counts of cells. Knows no noise: the rule that decides about splits is an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...arrays import Flags, Floats, Integers, as_integer
from ...errors import InvalidInput
from ...functions import BoundedFunction, check_values
from ...geometry.box import Box
from ...hierarchy import MAX_BITS, ROOT, Cells, Quadtree

__all__ = ["CountedTree", "check_people", "check_share", "deepest", "evaluate"]

MOST_CELLS = 20_000_000

SplitRule = Callable[[int, Cells, Integers], Flags]


def deepest(box: Box) -> int:
    """The deepest quadtree over this box whose cells floats can still tell apart, at most 30 levels."""
    for depth in range(min(30, MAX_BITS // box.dimensions), 1, -1):
        try:
            Quadtree(box, depth)
        except InvalidInput:
            continue
        return depth
    return 1


def quadtree_of(box: Box, max_depth: int | None) -> Quadtree:
    """A quadtree with so many levels, or as many as there can be."""
    most = deepest(box)
    return Quadtree(box, most if max_depth is None else as_integer(max_depth, "max_depth", low=1, high=most))


class CountedTree:
    """Positions sorted along the paths of a quadtree, so that every cell is one range of them."""

    def __init__(self, tree: Quadtree, positions: Floats) -> None:
        self.tree = tree
        self._codes = np.sort(tree.codes(positions))

    def count(self, cells: Cells) -> Integers:
        """Exact number of positions in each cell: int64[m]."""
        first, last = self.tree.span(cells)
        return np.searchsorted(self._codes, last, side="right") - np.searchsorted(self._codes, first, side="left")

    def grow(self, splits: SplitRule) -> tuple[Cells, Integers]:
        """Leaves and their exact counts.

        Parameters
        ----------
        splits : callable
            Takes a depth, all open cells of that depth and their counts, returns bool[m]. It is not asked at
            the deepest level.
        """
        leaves: list[Cells] = []
        counts: list[Integers] = []
        cells = np.array([ROOT], dtype=np.uint64)
        for depth in range(self.tree.max_depth + 1):
            sizes = self.count(cells)
            goes_on = np.zeros(len(cells), dtype=bool) if depth == self.tree.max_depth else splits(depth, cells, sizes)
            leaves.append(cells[~goes_on])
            counts.append(sizes[~goes_on])
            if not goes_on.any():
                break
            if int(np.count_nonzero(goes_on)) * self.tree.fanout > MOST_CELLS:
                raise InvalidInput(
                    f"the tree grows beyond {MOST_CELLS} cells at depth {depth + 1}; use a smaller max_depth"
                )
            cells = self.tree.children(cells[goes_on])
        return np.concatenate(leaves), np.concatenate(counts)


# -- what every baseline checks before it starts ---------------------------------------------------------------------


class Evaluated(NamedTuple):
    """Values of a function, and the bounds that the domain alone implies."""

    values: Floats
    low: float
    high: float


def check_people(points: npt.ArrayLike, box: Box) -> Floats:
    """Return the positions as float64[n, d], at least one and all inside the box, or refuse them."""
    array = box.check(points)
    if not len(array):
        raise InvalidInput("points must hold at least one position; got none")
    return array


def check_share(share: float, name: str) -> None:
    """Refuse a share of the budget or of the people that leaves nothing for the rest."""
    if not 0 < share < 1:
        raise InvalidInput(f"{name} must lie strictly between 0 and 1; got {share!r}")


def evaluate(points: npt.ArrayLike, f: BoundedFunction, box: Box) -> Evaluated:
    """Values at the points and the range over the whole box; a value outside the stated range is refused."""
    values, ranges = check_values(f, check_people(points, box), [[box.lower, box.upper]])
    return Evaluated(values, float(ranges[0, 0]), float(ranges[0, 1]))
