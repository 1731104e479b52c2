"""How people are spread inside final cells: by the densities of the neighbours, every cell keeping its count.

A final cell is halved a few more times. If density changes exponentially from the neighbour beside the first half
(count a, on the axis that is halved) through the cell to the one beside the second half (count b), the first half holds
``a^(1/4) / (a^(1/4) + b^(1/4))`` of the cell. Counts of neighbours of the same size come from the estimates themselves,
evenly spread, so this is a function of what was published and costs nothing.

Knows cells and estimates. Knows no noise and no positions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..arrays import on_all_cores
from ..errors import InvalidInput
from ..hierarchy import BinaryTree, Cells, Halved, SphereTree, TableTree

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

HALVINGS = 2
_AT_ONCE = 1 << 13  # cells that one thread takes
_BACKGROUND = 0.05  # share of the cell's own count that a neighbour has at least: an empty one proves little


def spread_inside(
    tree: Halved, cells: Cells, counts: Floats, *, halvings: int = HALVINGS
) -> tuple[Halved, Cells, Floats]:
    """Halve every cell, and share out its count by its neighbours' densities.

    From disjoint cells uint64[m] that cover the domain, in its order, and their counts float64[m], not negative: the
    same hierarchy so much deeper, cells uint64[m * 2^halvings] and counts; those of the parts of a cell add up to its
    own.
    """
    if isinstance(tree, TableTree):  # its cells have no halves; evenly
        return tree, cells, counts
    try:
        deeper = tree.deeper(halvings)
    except InvalidInput:  # floats cannot tell such narrow cells apart; evenly then
        return tree, cells, counts
    for _ in range(halvings):
        first = counts * Density(deeper, cells, counts).first_half(cells, counts)
        cells = np.stack((2 * cells, 2 * cells + np.uint64(1)), axis=1).ravel()
        counts = np.stack((first, counts - first), axis=1).ravel()
    return deeper, cells, counts


class Density:
    """Counts of any cells, from those of disjoint cells in the order of the domain: each evenly spread."""

    def __init__(self, tree: BinaryTree | SphereTree, cells: Cells, counts: Floats) -> None:
        self._tree = tree
        self._first, last = tree.span(cells)
        self._width = (last - self._first + np.uint64(1)).astype(np.float64)
        self._counts = counts
        self._before = np.concatenate(([0.0], np.cumsum(counts)[:-1]))

    def count(self, cells: Cells) -> Floats:
        """People in the cells: float64[m]."""
        first, last = self._tree.span(cells)
        return np.maximum(self._up_to(last + np.uint64(1)) - self._up_to(first), 0.0)

    def first_half(self, cells: Cells, counts: Floats) -> Floats:
        """Which share of the people (``counts``, float64[m]) of any cells their first halves hold, by the densities of
        the neighbours.
        """
        out = np.empty(len(cells))

        def work(start: int) -> None:
            part = slice(start, start + _AT_ONCE)
            out[part] = self._first_half(cells[part], counts[part])

        on_all_cores(work, range(0, len(cells), _AT_ONCE))
        return out

    def _first_half(self, cells: Cells, counts: Floats) -> Floats:
        least = _BACKGROUND * counts
        beside = (np.maximum(self.count(neighbour), least) for neighbour in self._tree.beside(cells))
        one, other = (np.sqrt(np.sqrt(count)) for count in beside)
        both = one + other
        return np.asarray(np.divide(one, both, out=np.full(len(cells), 0.5), where=both > 0))

    def _up_to(self, codes: Cells) -> Floats:
        place, part = self._find(codes)
        part *= self._counts.take(place)
        part += self._before.take(place)
        return part

    def _find(self, codes: Cells) -> tuple[Integers, Floats]:
        """Which cell holds each code, and the share of its codes that come before: int64[m], float64[m]."""
        place = np.maximum(np.searchsorted(self._first, codes, side="right") - 1, 0)
        part = (codes - self._first.take(place)).astype(np.float64)
        part /= self._width.take(place)
        return place, np.minimum(part, 1.0, out=part)
