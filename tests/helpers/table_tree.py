"""A toy hierarchy that is no box tree: a table of areas, with another number of children in every cell.

A line from 0 to 1 is cut by hand. Cells are numbered level by level, codes are the numbers of the deepest areas along
the line. Nothing in here is a shift.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from semilocal import Box
from semilocal.arrays import Floats, Integers
from semilocal.errors import InvalidInput
from semilocal.hierarchy import Cells, Hierarchy

# Each level lists the upper edges of its areas; every level refines the one above.
AREAS: tuple[tuple[float, ...], ...] = (
    (1.0,),
    (0.2, 0.5, 1.0),
    (0.1, 0.2, 0.3, 0.35, 0.4, 0.5, 1.0),
    (0.05, 0.1, 0.15, 0.18, 0.2, 0.3, 0.31, 0.35, 0.38, 0.4, 0.42, 0.44, 0.46, 0.48, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
)


class TableTree(Hierarchy, frozen=True, tag="table"):
    """Areas of a line; ``levels`` lists their upper edges, level by level."""

    levels: tuple[tuple[float, ...], ...] = AREAS

    @property
    def box(self) -> Box:
        return Box((0.0,), (1.0,))

    @property
    def max_depth(self) -> int:
        return len(self.levels) - 1

    @property
    def _starts(self) -> Integers:
        """The first cell of each level, and the one after the last."""
        return 1 + np.cumsum([0, *(len(level) for level in self.levels)])

    def _edges(self, depth: int) -> Floats:
        return np.array([0.0, *self.levels[depth]])

    def _first_child(self, depth: int) -> Integers:
        """Where each area's children begin in the next level, and one past the last."""
        return np.searchsorted(self._edges(depth + 1), self._edges(depth))

    def _place(self, cells: npt.ArrayLike) -> tuple[Integers, Integers]:
        """Depth, and index in the level."""
        array = np.asarray(cells)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise InvalidInput("cells must be a one-dimensional array of integers")
        numbers = array.astype(np.int64)
        depth = np.searchsorted(self._starts, numbers, side="right") - 1
        if np.any((depth < 0) | (depth > self.max_depth)):
            raise InvalidInput("some numbers are no cells of the table")
        return depth, numbers - self._starts[depth]

    @property
    def fanout(self) -> int:
        return int(self.fanouts(np.arange(1, self._starts[-1])).max())

    def fanouts(self, cells: npt.ArrayLike) -> Integers:
        depth, index = self._place(cells)
        out = np.zeros(len(depth), dtype=np.int64)
        for level in range(self.max_depth):
            here = depth == level
            out[here] = np.diff(self._first_child(level))[index[here]]
        return out

    def depth(self, cells: npt.ArrayLike) -> Integers:
        return self._place(cells)[0]

    def _parent_and_number(self, cells: npt.ArrayLike) -> tuple[Integers, Integers]:
        depth, index = self._place(cells)
        if np.any(depth == 0):
            raise InvalidInput("the root has no parent")
        parent, number = np.zeros((2, len(depth)), dtype=np.int64)
        for level in range(self.max_depth):
            here = depth == level + 1
            first = self._first_child(level)
            found = np.searchsorted(first, index[here], side="right") - 1
            parent[here], number[here] = self._starts[level] + found, index[here] - first[found]
        return parent, number

    def parent(self, cells: npt.ArrayLike) -> Cells:
        return self._parent_and_number(cells)[0].astype(np.uint64)

    def number(self, cells: npt.ArrayLike) -> Integers:
        return self._parent_and_number(cells)[1]

    def child(self, cells: npt.ArrayLike, numbers: npt.ArrayLike) -> Cells:
        depth, index = self._place(cells)
        chosen = np.broadcast_to(np.asarray(numbers, dtype=np.int64), depth.shape)
        if np.any((chosen < 0) | (chosen >= self.fanouts(cells))):
            raise InvalidInput("some cells have no children with these numbers")
        out = np.zeros(len(depth), dtype=np.int64)
        for level in range(self.max_depth):
            here = depth == level
            out[here] = self._starts[level + 1] + self._first_child(level)[index[here]] + chosen[here]
        return out.astype(np.uint64)

    def codes(self, points: npt.ArrayLike) -> Cells:
        inner = self._edges(self.max_depth)[1:-1]
        return np.searchsorted(inner, self.box.check(points)[:, 0], side="right").astype(np.uint64)

    def span(self, cells: npt.ArrayLike) -> tuple[Cells, Cells]:
        depth, index = self._place(cells)
        first, after = np.zeros((2, len(depth)), dtype=np.int64)
        for level in range(self.max_depth + 1):
            here = depth == level
            place = np.searchsorted(self._edges(self.max_depth), self._edges(level))
            first[here], after[here] = place[index[here]], place[index[here] + 1]
        return first.astype(np.uint64), (after - 1).astype(np.uint64)

    def ancestors(self, codes: Cells, depth: int) -> Cells:
        first = self.span(np.arange(self._starts[depth], self._starts[depth + 1]))[0]
        return np.asarray(self._starts[depth] + np.searchsorted(first, codes, side="right") - 1, dtype=np.uint64)

    def child_of(self, codes: Cells, depth: int | Integers) -> Integers:
        assert isinstance(depth, int)
        return self.number(self.ancestors(codes, depth + 1))

    def boxes(self, cells: npt.ArrayLike) -> Floats:
        depth, index = self._place(cells)
        out = np.zeros((len(depth), 2, 1))
        for level in range(self.max_depth + 1):
            here = depth == level
            out[here, :, 0] = np.stack([self._edges(level)[index[here]], self._edges(level)[index[here] + 1]], axis=1)
        return out
