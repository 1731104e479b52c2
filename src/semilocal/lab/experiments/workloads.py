"""Workloads of range queries, and the smallest denominators of their errors.

Knows boxes and counting. Knows no mechanism. Query boxes are float64[m, 2, d]: lower
corner, upper corner; a point lies in a box if lower <= x < upper on every axis.
"""

from __future__ import annotations

import numpy as np

from ...arrays import Floats, Integers
from ...errors import InvalidInput
from ...geometry.index import count_points

__all__ = ["anchored_floor", "anchored_queries", "uniform_floor", "uniform_queries"]


PATIENCE = 1_000  # rounds of candidates before a workload is called impossible


def uniform_queries(m: int, rng: np.random.Generator) -> Floats:
    """Return m boxes in the unit square: each side U(0.1, 0.3), the place uniform among those that fit."""
    size = rng.uniform(0.1, 0.3, size=(m, 2))
    lower = rng.uniform(0.0, 1.0 - size)
    return np.stack([lower, lower + size], axis=1)


def anchored_queries(
    points: Floats, m: int, rng: np.random.Generator, *, fewest: int = 20, largest_share: float = 0.05
) -> tuple[Floats, Integers]:
    """Return m boxes that each contain a data point, and their true counts.

    A data point is drawn; width and height are log-uniform from 1/256 to 1/8 of the unit square's side; the box lies so
    that the point is at a uniform place in it, and may reach over the border of the square; it is kept if its
    true count is between `fewest` and `largest_share` of all points, both included.

    Parameters
    ----------
    points : float64[n, 2]
        The participants of the trial, in the unit square.
    m : int
        Boxes wanted.
    rng : numpy Generator
        The only source of randomness.

    Returns
    -------
    boxes : float64[m, 2, 2]
    counts : int64[m]
        Exact, half-open boxes. They are not private: they are the truth that errors are measured against.
    """
    low, high = np.log(1 / 256), np.log(1 / 8)
    most = largest_share * len(points)
    if most < fewest:
        raise InvalidInput(
            f"no count lies between {fewest} and {most:g}: {len(points)} points are too few; take at least "
            f"{fewest / largest_share:.0f}"
        )
    kept: list[Floats] = []
    counted: list[Integers] = []
    have = 0
    for _ in range(PATIENCE):
        anchors = points[rng.integers(len(points), size=2 * m)]
        size = np.exp(rng.uniform(low, high, size=(2 * m, 2)))
        lower = anchors - rng.random((2 * m, 2)) * size
        boxes = np.stack([lower, lower + size], axis=1)
        counts = count_points(points, boxes)
        good = (counts >= fewest) & (counts <= most)
        kept.append(boxes[good])
        counted.append(counts[good])
        have += int(np.count_nonzero(good))
        if have >= m:
            return np.concatenate(kept)[:m], np.concatenate(counted)[:m]
    raise InvalidInput(
        f"only {have} of {m} queries with a count in [{fewest}, {most:g}] were found among "
        f"{2 * m * PATIENCE:,} candidates; "
        "the points are too few, or too many of them share one place"
    )


def anchored_floor(n: int) -> float:
    """Return the smallest denominator of the error on real data: 10·max(1, 10⁻⁴n)."""
    return 10.0 * max(1.0, 1e-4 * n)


def uniform_floor(n: int) -> float:
    """Return the smallest denominator of the error on the synthetic clusters: 10⁻⁴n."""
    return 1e-4 * n
