"""Search structures over many boxes or points, for many axis-parallel queries at once.

Knows geometry and weighted sums. Knows no mechanism and no participants: the caller gives the numbers their meaning.

Theory of operation. A query is cheap where it covers a box entirely, and expensive only along its boundary:

* :class:`DominanceCount` counts the points inside a rectangle in a number of steps that grows with the logarithm of
  the number of points (a wavelet matrix: one bit of the vertical rank per level).
* :class:`TreeIndex` (any dimension) descends a balanced tree of bounding boxes with all queries side by side.

All of them work on chunks, so memory does not grow with the number of queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, as_boxes, as_floats, as_points

__all__ = ["DominanceCount", "Pairs", "TreeIndex", "count_points"]


QUERIES_AT_ONCE = 1 << 14
PAIRS_AT_ONCE = 1 << 15  # working arrays of a chunk stay in the processor's cache


class Pairs(NamedTuple):
    """Which query touches which item: two parallel arrays, int64[p] each."""

    query: Integers
    item: Integers


class DominanceCount:
    """How many points lie in rectangles.

    Parameters
    ----------
    points : float64[n, 2]

    Examples
    --------
    >>> index = DominanceCount(np.array([[0.1, 0.1], [0.5, 0.9]]))
    >>> index.count(np.array([[[0.0, 0.0], [0.5, 1.0]], [[0.0, 0.0], [1.0, 1.0]]])).tolist()
    [1, 2]
    """

    def __init__(self, points: Floats) -> None:
        by_x = np.argsort(points[:, 0], kind="stable")
        self._x = points[by_x, 0]
        by_y = np.argsort(points[by_x, 1], kind="stable")
        self._y = points[by_x, 1][by_y]
        rank = np.empty(len(points), dtype=np.int64)
        rank[by_y] = np.arange(len(points))
        self._zeros: list[npt.NDArray[np.int32]] = []  # per level: how many zero bits come before each place
        for level in range(len(points).bit_length() - 1, -1, -1):
            bit = (rank >> level) & 1
            zeros = np.zeros(len(points) + 1, dtype=np.int32)
            np.cumsum(1 - bit, out=zeros[1:])
            self._zeros.append(zeros)
            rank = rank[np.concatenate((np.flatnonzero(bit == 0), np.flatnonzero(bit)))]

    def count(self, boxes: Floats) -> Integers:
        """How many points satisfy ``lower <= point < upper``, for boxes float64[q, 2, 2]: int64[q]."""
        first = np.searchsorted(self._x, boxes[:, 0, 0], side="left")
        last = np.searchsorted(self._x, boxes[:, 1, 0], side="left")
        total = np.zeros(len(boxes), dtype=np.int64)
        for side, sign in ((1, 1), (0, -1)):
            below = np.searchsorted(self._y, boxes[:, side, 1], side="left")
            start, stop = first, last
            for depth, zeros in enumerate(self._zeros):
                level = len(self._zeros) - 1 - depth
                one = ((below >> level) & 1).astype(bool)
                start_zeros, stop_zeros = zeros.take(start), zeros.take(stop)
                total += np.where(one, sign * (stop_zeros - start_zeros), 0)
                start = np.where(one, start - start_zeros + zeros[-1], start_zeros)
                stop = np.where(one, stop - stop_zeros + zeros[-1], stop_zeros)
        return total


class TreeIndex:
    """A balanced binary tree of bounding boxes over boxes or points of any dimension.

    Parameters
    ----------
    lower, upper : float64[m, d]
        Items; points have ``lower is upper``.
    weights : float64[m, w]
        Added up for queries that contain an item.
    """

    def __init__(self, lower: Floats, upper: Floats, weights: Floats) -> None:
        self._order = np.arange(len(lower))
        self._depth = max(len(lower) - 1, 0).bit_length()
        centre = (lower + upper) / 2
        for depth in range(self._depth):
            # Node ranges are equal shares of the items; each is sorted along its own widest axis.
            node = (np.arange(len(lower)) << depth) // max(len(lower), 1)
            bounds = np.searchsorted(node, np.arange(1 << depth))
            used = np.append(np.diff(bounds) > 0, bounds[-1] < len(lower))
            start = bounds[used]
            placed = centre[self._order]
            spread = np.maximum.reduceat(placed, start) - np.minimum.reduceat(placed, start)
            axis = np.zeros(1 << depth, dtype=np.int64)
            axis[used] = np.argmax(spread, axis=1)
            key = placed[np.arange(len(lower)), axis[node]]
            self._order = self._order[np.lexsort((key, node))]
        self._leaf = (np.arange(len(lower)) << self._depth) // max(len(lower), 1)
        leaves = 1 << self._depth
        self._low = np.full((2 * leaves, lower.shape[1]), np.inf)
        self._high = np.full((2 * leaves, lower.shape[1]), -np.inf)
        self._sum = np.zeros((2 * leaves, weights.shape[1]))
        self._item = np.full(leaves, -1, dtype=np.int64)
        self._item[self._leaf] = self._order
        self._low[leaves + self._leaf] = lower[self._order]
        self._high[leaves + self._leaf] = upper[self._order]
        self._sum[leaves + self._leaf] = weights[self._order]
        for level in range(self._depth - 1, -1, -1):
            own, below = slice(1 << level, 2 << level), slice(2 << level, 4 << level)
            self._low[own] = np.minimum(self._low[below][::2], self._low[below][1::2])
            self._high[own] = np.maximum(self._high[below][::2], self._high[below][1::2])
            self._sum[own] = self._sum[below][::2] + self._sum[below][1::2]

    def search(self, queries: Floats, total: Floats, *, closed: bool) -> Iterator[Pairs]:
        """Add the weights of contained items to ``total``, and yield the items that a query cuts, in chunks.

        Parameters
        ----------
        queries : float64[q, 2, d]
        total : float64[q, w]
            Complete once the iterator is used up.
        closed : bool
            Whether an item whose upper corner lies on the query's upper side is contained: true for half-open
            boxes, false for points.
        """
        leaves = 1 << self._depth
        stack = [(np.arange(len(queries)), np.ones(len(queries), dtype=np.int64))]
        while stack:
            query, node = stack.pop()
            if len(query) > PAIRS_AT_ONCE:
                half = len(query) // 2
                stack += [(query[:half], node[:half]), (query[half:], node[half:])]
                continue
            meets = np.ones(len(query), dtype=bool)
            inside = np.ones(len(query), dtype=bool)
            for axis in range(queries.shape[2]):
                begin, end = queries[query, 0, axis], queries[query, 1, axis]
                low, high = self._low[node, axis], self._high[node, axis]
                meets &= (low < end) & ((high > begin) if closed else (high >= begin))
                inside &= (low >= begin) & ((high <= end) if closed else (high < end))
            inside &= meets
            full, partial = np.flatnonzero(inside), np.flatnonzero(meets & ~inside)
            for column in range(total.shape[1]):
                total[:, column] += np.bincount(query[full], self._sum[node[full], column], minlength=len(queries))
            query, node = query[partial], node[partial]
            if not len(query):
                continue
            if node[0] >= leaves:  # all nodes of one entry of the stack have the same depth
                yield Pairs(query, self._item[node - leaves])
            else:
                stack.append((np.concatenate((query, query)), np.concatenate((2 * node, 2 * node + 1))))


def count_points(points: npt.ArrayLike, boxes: npt.ArrayLike) -> Integers:
    """How many points satisfy ``lower <= point < upper`` on every axis, exactly.

    Parameters
    ----------
    points : array_like, shape (n, d)
        Finite; shape (n,) is taken as (n, 1).
    boxes : array_like, shape (q, 2, d)
        ``lower <= upper``; infinite sides are allowed. A point on the upper side of a box is not in it; if the upper
        side of the domain belongs to the domain, reach beyond it.

    Examples
    --------
    >>> count_points([[0.0], [0.5], [1.0]], [[[0.0], [0.5]], [[0.0], [1.0]], [[0.0], [np.inf]]]).tolist()
    [1, 2, 3]
    """
    positions = as_floats(points, "points")
    array = as_points(positions.reshape(-1, 1) if positions.ndim == 1 else positions)
    queries = as_boxes(boxes, dimensions=array.shape[1], infinite=True)
    if not len(array) or not len(queries):
        return np.zeros(len(queries), dtype=np.int64)
    if array.shape[1] <= 2:
        if array.shape[1] == 1:
            array = np.concatenate((array, np.zeros_like(array)), axis=1)
        return DominanceCount(array).count(_in_the_plane(queries))
    tree = TreeIndex(array, array, np.ones((len(array), 1)))
    result = np.zeros(len(queries), dtype=np.int64)
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        chunk = slice(start, start + QUERIES_AT_ONCE)
        inside = np.zeros((len(queries[chunk]), 1))
        for _ in tree.search(queries[chunk], inside, closed=False):
            pass  # a point that is cut is not inside
        result[chunk] = inside[:, 0]
    return result


def _in_the_plane(boxes: Floats) -> Floats:
    """Boxes in the plane; a one-dimensional box [l, u) becomes [l, u) × [0, 1)."""
    if boxes.shape[2] == 2:
        return boxes
    return np.concatenate((boxes, np.broadcast_to([[0.0], [1.0]], boxes.shape)), axis=2)
