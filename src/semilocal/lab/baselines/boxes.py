"""Range counts over disjoint boxes with a count each, what maps of baselines answer with; true counts, and errors.

People are taken to be spread evenly inside a box. Everything is half-open: a box holds the points with
``lower <= point < upper`` on every axis.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...arrays import Floats, Integers, as_boxes, as_floats, as_number, as_points, short_repr
from ...errors import InvalidInput
from ...protocol.promise import Guarantee

QUERIES_AT_ONCE = 32


@dataclass(frozen=True, eq=False)
class SpatialCounts:
    """Counts of people in disjoint boxes, with the guarantee they were released under.

    The answer to a query is the sum over boxes of ``count × share``, where ``share`` is the part of the box's volume
    that the query covers. The boxes need not fill the domain.

    Examples
    --------
    >>> boxes = np.array([[[0.0, 0.0], [0.5, 1.0]], [[0.5, 0.0], [1.0, 1.0]]])
    >>> halves = SpatialCounts(boxes, np.array([100, 20]), Guarantee.plain("curator", None))
    >>> halves.query([[[0.0, 0.0], [0.5, 1.0]], [[0.25, 0.0], [1.0, 1.0]]]).tolist()
    [100.0, 70.0]
    """

    boxes: Floats  # float64[m, 2, d]: lower and upper corners, finite
    counts: Floats  # float64[m]; noisy counts may be negative
    guarantee: Guarantee

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.boxes)

    def query(self, boxes: npt.ArrayLike) -> Floats:
        """Expected number of people in each box: float64[q].

        Parameters
        ----------
        boxes : array_like, shape (q, 2, d)
            ``lower <= upper``; infinite sides are allowed. Empty boxes and boxes outside hold nobody.
        """
        queries = as_boxes(boxes, dimensions=self.boxes.shape[2], infinite=True)
        found = np.zeros(len(queries))
        nearby = np.argsort(queries[:, 0, 0])  # neighbours on the first axis meet the same boxes
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            chunk = nearby[start : start + QUERIES_AT_ONCE]
            found[chunk] = self._answer(queries[chunk])
        return found

    def _answer(self, queries: Floats) -> Floats:
        """Answers by the share of every box that a query on the same stretch covers."""
        near = (self.boxes[:, 1, 0] > queries[:, 0, 0].min()) & (self.boxes[:, 0, 0] < queries[:, 1, 0].max())
        low, high = self.boxes[near].transpose(1, 0, 2)
        share = np.ones((len(queries), len(low)))
        for axis in range(self.boxes.shape[2]):
            overlap = np.minimum(queries[:, 1, axis, None], high[:, axis])
            overlap -= np.maximum(queries[:, 0, axis, None], low[:, axis])
            share *= np.maximum(overlap, 0.0) / (high - low)[:, axis]
        return np.asarray(share @ self.counts[near])


@dataclass(frozen=True, eq=False)
class GridCounts:
    """Counts of people in the cells of a grid: the answers of :class:`SpatialCounts`, an axis at a time."""

    edges: tuple[Floats, Floats]  # ascending borders of the cells on both axes: a + 1 and b + 1
    counts: Floats  # float64[a, b]; noisy counts may be negative
    guarantee: Guarantee

    __repr__ = short_repr

    def query(self, boxes: npt.ArrayLike) -> Floats:
        """Expected number of people in each box, as :meth:`SpatialCounts.query`."""
        queries = as_boxes(boxes, dimensions=2, infinite=True)
        x, y = (_covered(queries[:, :, axis], edges) for axis, edges in enumerate(self.edges))
        return np.asarray(((x @ self.counts) * y).sum(axis=1))


def _covered(sides: Floats, edges: Floats) -> Floats:
    """Which share of each stretch between edges a query's side covers: float64[q, m]."""
    overlap = np.minimum(sides[:, 1:], edges[1:]) - np.maximum(sides[:, :1], edges[:-1])
    return np.asarray(np.maximum(overlap, 0.0) / np.diff(edges))


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
    array = array[np.argsort(array[:, 0])]
    first, last = np.searchsorted(array[:, 0], queries[:, :, 0].T)  # a box meets one stretch of the first axis
    found = np.maximum(last - first, 0)
    if array.shape[1] > 1:
        rest = np.ascontiguousarray(array[:, 1:])
        for place, (start, stop) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
            near, (lower, upper) = rest[start:stop], queries[place, :, 1:]
            found[place] = np.count_nonzero(((near >= lower) & (near < upper)).all(axis=1))
    return np.asarray(found, dtype=np.int64)


def earth_movers_distance(estimate: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """How far people must be moved on average to turn one map into the other, as a share of the map's side.

    Exact, for the Manhattan distance between the cells of two grids of s x s cells: people move to neighbouring cells
    in steps, and a linear programme finds the fewest steps. Numbers below zero count as zero, and both maps are scaled
    to 1. A map without anybody is taken to be even. With s = 32 it takes below a tenth of a second.

    Examples
    --------
    >>> round(earth_movers_distance([[1, 0], [0, 0]], [[0, 0], [0, 1]]), 6)  # one step on each axis, half a side long
    1.0
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, hstack

    maps = [np.maximum(as_floats(one, "a map"), 0.0) for one in (estimate, truth)]
    side = len(maps[0])
    if any(one.shape != (side, side) for one in maps) or side < 2:
        raise InvalidInput(f"both maps must be square and alike; got {maps[0].shape} and {maps[1].shape}")
    shares = [one / one.sum() if one.any() else np.full_like(one, side**-2) for one in maps]
    cells = np.arange(side * side).reshape(side, side)
    ends = np.concatenate(
        ([cells[:-1].ravel(), cells[1:].ravel()], [cells[:, :-1].ravel(), cells[:, 1:].ravel()]), axis=1
    )
    steps = ends.shape[1]
    entries = np.repeat([1.0, -1.0], steps), (ends.ravel(), np.tile(np.arange(steps), 2))
    leaving = coo_array(entries, shape=(side * side, steps))
    moved = linprog(np.ones(2 * steps), A_eq=hstack([leaving, -leaving]), b_eq=(shares[0] - shares[1]).ravel())
    return float(moved.fun) / side


def mean_relative_error(estimate: npt.ArrayLike, truth: npt.ArrayLike, floor: float) -> float:
    """Mean over queries of ``|estimate − truth| / max(truth, floor)``, both float64[q].

    A positive floor keeps queries that hold almost nobody from deciding the mean.

    Examples
    --------
    >>> mean_relative_error([90, 3], [100, 0], floor=10)
    0.2
    """
    given, true = as_floats(estimate, "estimate"), as_floats(truth, "truth")
    if given.ndim != 1 or given.shape != true.shape or not len(given):
        raise InvalidInput(
            f"estimate and truth must be equally long lists of numbers; got {given.shape} and {true.shape}"
        )
    least = as_number(floor, "floor", positive=True)
    return float(np.mean(np.abs(given - true) / np.maximum(true, least)))
