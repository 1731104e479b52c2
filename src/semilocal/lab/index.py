"""Exact counts of points in boxes: the truth that errors are measured against."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..arrays import Integers, as_boxes, as_floats, as_points


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
