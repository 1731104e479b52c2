"""Search structures over many boxes or points, for many axis-parallel queries at once.

Knows geometry and weighted sums. Knows no mechanism and no participants: the caller gives the numbers their meaning.

Theory of operation. A query is cheap where it covers a box entirely, and expensive only along its boundary:

* :class:`DominanceSum` adds up the weights of all points inside a rectangle in a number of steps that grows
  with the logarithm of the number of points (a wavelet matrix: one bit of the vertical rank per level).
* :class:`PlanarIndex` (one and two dimensions) finds the boxes that the boundary of a query runs through.
  Between two neighbouring edges of the boxes (a *slab*) a line always crosses the same boxes, and because
  boxes are disjoint these lie one after the other along the line: a query's side is one contiguous run of the
  slab's list.
* :class:`TreeIndex` (any dimension) descends a balanced tree of bounding boxes with all queries side by side.

All of them work on chunks, so memory does not grow with the number of queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, as_boxes, as_floats, as_points
from ..errors import InvalidInput

__all__ = ["DominanceSum", "Pairs", "PlanarIndex", "TreeIndex", "count_points", "in_the_plane"]


QUERIES_AT_ONCE = 1 << 14
PAIRS_AT_ONCE = 1 << 15  # working arrays of a chunk stay in the processor's cache
LIST_LIMIT = 30_000_000  # entries of the slab lists; beyond this the tree is the better structure


class Pairs(NamedTuple):
    """Which query touches which item: two parallel arrays, int64[p] each."""

    query: Integers
    item: Integers


class DominanceSum:
    """Sums of weights of points in rectangles.

    Parameters
    ----------
    points : float64[n, 2]
    weights : float64[n, w], optional
        Without weights, points are counted.

    Examples
    --------
    >>> index = DominanceSum(np.array([[0.1, 0.1], [0.5, 0.9]]))
    >>> index.count(np.array([[[0.0, 0.0], [0.5, 1.0]], [[0.0, 0.0], [1.0, 1.0]]])).tolist()
    [1, 2]
    """

    def __init__(self, points: Floats, weights: Floats | None = None) -> None:
        by_x = np.argsort(points[:, 0], kind="stable")
        self._x = points[by_x, 0]
        by_y = np.argsort(points[by_x, 1], kind="stable")
        self._y = points[by_x, 1][by_y]
        rank = np.empty(len(points), dtype=np.int64)
        rank[by_y] = np.arange(len(points))
        carried = None if weights is None else weights[by_x]
        self._zeros: list[npt.NDArray[np.int32]] = []  # per level: how many zero bits come before each place
        self._sums: list[Floats] = []  # per level: their weights
        for level in range(len(points).bit_length() - 1, -1, -1):
            bit = (rank >> level) & 1
            zeros = np.zeros(len(points) + 1, dtype=np.int32)
            np.cumsum(1 - bit, out=zeros[1:])
            self._zeros.append(zeros)
            order = np.concatenate((np.flatnonzero(bit == 0), np.flatnonzero(bit)))
            if carried is not None:
                sums = np.zeros((len(points) + 1, carried.shape[1]))
                np.cumsum(np.where(bit[:, None] == 0, carried, 0.0), axis=0, out=sums[1:])
                self._sums.append(sums)
                carried = carried[order]
            rank = rank[order]

    def count(self, boxes: Floats) -> Integers:
        """How many points satisfy ``lower <= point < upper``, for boxes float64[q, 2, 2]."""
        return self._walk(boxes, weighted=False).astype(np.int64)

    def sum(self, boxes: Floats) -> Floats:
        """Weights of the points with ``lower <= point < upper``: float64[q, w]."""
        return self._walk(boxes, weighted=True)

    def _walk(self, boxes: Floats, weighted: bool) -> Floats:
        first = np.searchsorted(self._x, boxes[:, 0, 0], side="left")
        last = np.searchsorted(self._x, boxes[:, 1, 0], side="left")
        shape = (len(boxes), self._sums[0].shape[1]) if weighted and self._sums else (len(boxes),)
        total = np.zeros(shape)
        for side, sign in ((1, 1.0), (0, -1.0)):
            below = np.searchsorted(self._y, boxes[:, side, 1], side="left")
            start, stop = first, last
            for depth, zeros in enumerate(self._zeros):
                level = len(self._zeros) - 1 - depth
                one = ((below >> level) & 1).astype(bool)
                start_zeros, stop_zeros = zeros.take(start), zeros.take(stop)
                if weighted:
                    sums = self._sums[depth]
                    taken = np.flatnonzero(one)
                    total[taken] += sign * (sums[stop[taken]] - sums[start[taken]])
                else:
                    total += np.where(one, sign * (stop_zeros - start_zeros), 0.0)
                start = np.where(one, start - start_zeros + zeros[-1], start_zeros)
                stop = np.where(one, stop - stop_zeros + zeros[-1], stop_zeros)
        return total


class PlanarIndex:
    """Disjoint boxes in the plane, and which of them the boundary of a query runs through.

    Parameters
    ----------
    boxes : float64[m, 2, 2]
        ``boxes[:, 0]`` lower and ``boxes[:, 1]`` upper corners; interiors must be disjoint, gaps are allowed.

    Raises
    ------
    InvalidInput
        If two boxes overlap.
    """

    def __init__(self, boxes: Floats) -> None:
        self._lower = np.ascontiguousarray(boxes[:, 0].T)
        self._lists = tuple(_SlabLists(boxes, axis) for axis in (0, 1))

    @staticmethod
    def fits(boxes: Floats) -> bool:
        """Whether the lists over these boxes stay small enough to be worth their memory."""
        return all(int(np.sum(_slabs(boxes, axis)[2])) <= LIST_LIMIT for axis in (0, 1))

    def boundary(self, queries: Floats) -> Iterator[Pairs]:
        """Every box that is neither outside nor completely inside a query, once per query, in chunks.

        Boxes that only touch the query from inside or outside may be among them; a share of 1 or 0 is then
        right.
        """
        lower, upper = np.ascontiguousarray(queries[:, 0].T), np.ascontiguousarray(queries[:, 1].T)
        columns, rows = self._lists
        # The left and right side meet every box they cross; bottom and top only those that neither of them
        # crosses.
        left = columns.run(lower[0], lower[1], upper[1], whole=False)
        right = columns.run(upper[0], lower[1], upper[1], whole=False)
        bottom = rows.run(lower[1], lower[0], upper[0], whole=True)
        top = rows.run(upper[1], lower[0], upper[0], whole=True)
        yield from columns.expand(left)
        for pairs in columns.expand(right):
            new = self._lower[0].take(pairs.item) > lower[0].take(pairs.query)
            yield Pairs(pairs.query[new], pairs.item[new])
        yield from rows.expand(bottom)
        for pairs in rows.expand(top):
            new = self._lower[1].take(pairs.item) > lower[1].take(pairs.query)
            yield Pairs(pairs.query[new], pairs.item[new])


class _SlabLists:
    """For every slab between neighbouring edges of one axis: the boxes across it, along the other axis."""

    def __init__(self, boxes: Floats, axis: int) -> None:
        other = 1 - axis
        along = np.argsort(boxes[:, 0, other], kind="stable")
        ordered = boxes[along]
        self._edges, first, width = _slabs(ordered, axis)
        self._marks = np.unique(boxes[:, :, other])
        owner = np.repeat(np.arange(len(ordered)), width)
        slab = np.arange(len(owner)) - np.repeat(np.cumsum(width) - width, width) + first[owner]
        small = slab.astype(np.uint16) if len(self._edges) < 1 << 16 else slab  # 16 bits sort in linear time
        order = np.argsort(small, kind="stable")
        slab, owner = slab[order], owner[order]
        low, high = ordered[owner, 0, other], ordered[owner, 1, other]
        slack = 1e-9 * (self._marks[-1] - self._marks[0])  # edges that differ by rounding are no overlap
        clash = np.flatnonzero((slab[1:] == slab[:-1]) & (low[1:] < high[:-1] - slack))
        if len(clash):
            a, b = along[owner[clash[0]]], along[owner[clash[0] + 1]]
            raise InvalidInput(
                f"boxes must be disjoint; box {a} {boxes[a].tolist()} and box {b} {boxes[b].tolist()} overlap"
            )
        self._items = along[owner]
        self._stride = len(self._marks) + 1
        self._low = slab * self._stride + np.searchsorted(self._marks, low)
        self._high = slab * self._stride + np.searchsorted(self._marks, high)

    def run(self, line: Floats, begin: Floats, end: Floats, *, whole: bool) -> tuple[Integers, Integers]:
        """First and one-past-last list places of the boxes that a line crosses from ``begin`` to ``end``.

        ``whole`` keeps only boxes with ``begin < lower`` and ``upper <= end``; else every box that reaches in
        counts.
        """
        slab = np.searchsorted(self._edges, line, side="right") - 1
        inside = (slab >= 0) & (slab < len(self._edges) - 1)
        base = np.where(inside, slab, 0) * self._stride
        after_begin = np.searchsorted(self._marks, begin, side="right")
        if whole:
            start = np.searchsorted(self._low, base + after_begin)
            stop = np.searchsorted(self._high, base + np.searchsorted(self._marks, end, side="right"))
        else:
            start = np.searchsorted(self._high, base + after_begin)
            stop = np.searchsorted(self._low, base + np.searchsorted(self._marks, end, side="left"))
        return start, np.where(inside, np.maximum(stop, start), start)

    def expand(self, run: tuple[Integers, Integers]) -> Iterator[Pairs]:
        start, stop = run
        for queries, places in _expand(start, stop - start):
            yield Pairs(queries, self._items.take(places))


def _slabs(boxes: Floats, axis: int) -> tuple[Floats, Integers, Integers]:
    edges = np.unique(boxes[:, :, axis])
    first = np.searchsorted(edges, boxes[:, 0, axis])
    return edges, first, np.searchsorted(edges, boxes[:, 1, axis]) - first


def _expand(start: Integers, length: Integers) -> Iterator[tuple[Integers, Integers]]:
    """Write runs out as (query, place) pairs, about ``PAIRS_AT_ONCE`` at a time; a long run is cut."""
    ends = np.cumsum(length)
    total = int(ends[-1]) if len(ends) else 0
    begins = ends - length
    shift = start - begins
    for begin in range(0, total, PAIRS_AT_ONCE):
        end = min(begin + PAIRS_AT_ONCE, total)
        first = int(np.searchsorted(ends, begin, side="right"))
        last = int(np.searchsorted(ends, end, side="left"))
        part = np.minimum(ends[first : last + 1], end) - np.maximum(begins[first : last + 1], begin)
        queries = np.repeat(np.arange(first, last + 1), part)
        yield queries, np.arange(begin, end) + np.repeat(shift[first : last + 1], part)


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
        return DominanceSum(array).count(in_the_plane(queries))
    tree = TreeIndex(array, array, np.ones((len(array), 1)))
    result = np.zeros(len(queries), dtype=np.int64)
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        chunk = slice(start, start + QUERIES_AT_ONCE)
        inside = np.zeros((len(queries[chunk]), 1))
        for _ in tree.search(queries[chunk], inside, closed=False):
            pass  # a point that is cut is not inside
        result[chunk] = inside[:, 0]
    return result


def in_the_plane(boxes: Floats) -> Floats:
    """Boxes in the plane; a one-dimensional box [l, u) becomes [l, u) × [0, 1)."""
    if boxes.shape[2] == 2:
        return boxes
    return np.concatenate((boxes, np.broadcast_to([[0.0], [1.0]], boxes.shape)), axis=2)
