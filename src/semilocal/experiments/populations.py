"""Synthetic populations, workloads of range queries, and their true answers.

Knows distributions, boxes and counting. Must not know mechanisms. Query boxes are float64[m, 2, d]: lower
corner, upper corner; a point lies in a box if lower <= x < upper on every axis.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..domain import Box
from ..errors import InvalidInput

__all__ = [
    "CLUSTERS",
    "UNIT_SQUARE",
    "anchored_floor",
    "anchored_queries",
    "clipped_gaussian",
    "clusters",
    "mean_relative_error",
    "true_counts",
    "truncated_gaussian",
    "uniform",
    "uniform_floor",
    "uniform_queries",
]

Points = npt.NDArray[np.float64]
Boxes = npt.NDArray[np.float64]

UNIT_SQUARE = Box((0.0, 0.0), (1.0, 1.0), names=("x", "y"))

# Centre and spread of the five Gaussian clusters of the paper's synthetic range queries.
CLUSTERS = (
    ((0.2, 0.2), 0.05),
    ((0.8, 0.8), 0.05),
    ((0.5, 0.5), 0.10),
    ((0.2, 0.8), 0.04),
    ((0.8, 0.2), 0.04),
)

INSIDE = 1e-9  # how far the authors' code keeps clipped points from the upper bounds
PATIENCE = 1_000  # rounds of candidates before a workload is called impossible


def uniform(n: int, rng: np.random.Generator, *, box: Box = UNIT_SQUARE) -> Points:
    """Return n points spread evenly over the box: float64[n, d]."""
    return rng.uniform(box.lower, box.upper, size=(n, box.dimensions))


def truncated_gaussian(
    n: int, rng: np.random.Generator, *, box: Box, scale: float, centre: tuple[float, ...] | None = None
) -> Points:
    """Return n points of N(centre, scale²) given that they fall into the box, by rejection: float64[n, d].

    Parameters
    ----------
    n : int
        Participants.
    rng : numpy Generator
        The only source of randomness.
    box : Box
        The domain.
    scale : float
        Standard deviation of each coordinate.
    centre : tuple of float, optional
        The origin if left out.

    Examples
    --------
    >>> box = Box((-10, -10), (10, 10))
    >>> points = truncated_gaussian(1000, np.random.default_rng(1), box=box, scale=1.5)
    >>> box.check(points).shape
    (1000, 2)
    """
    middle = np.zeros(box.dimensions) if centre is None else np.asarray(centre, dtype=np.float64)
    kept = np.empty((0, box.dimensions))
    for _ in range(PATIENCE):
        drawn = rng.normal(middle, scale, size=(n - len(kept), box.dimensions))
        inside = ((drawn >= box.lower) & (drawn <= box.upper)).all(axis=1)
        kept = np.concatenate([kept, drawn[inside]])
        if len(kept) == n:
            return kept
    raise InvalidInput(
        f"almost nothing of N({middle.tolist()}, {scale}²) falls into {box}; move the centre into the box"
    )


def clipped_gaussian(n: int, rng: np.random.Generator, *, box: Box, scale: float) -> Points:
    """Return n points of N(0, scale²) pushed to the border of the box where they fall outside, as the
    published code does.

    The paper says rejection (`truncated_gaussian`); at 1.5 in [-10, 10] the two differ for one point in 10¹⁰.
    """
    drawn = rng.normal(0.0, scale, size=(n, box.dimensions))
    return np.clip(drawn, box.lower, np.array(box.upper) - INSIDE)


def clusters(n: int, rng: np.random.Generator) -> Points:
    """Return n points of the five Gaussian clusters in the unit square, in random order: float64[n, 2].

    Equal shares (what does not divide by five goes to the first clusters), rejection to the square.
    """
    shares = [n // len(CLUSTERS) + (place < n % len(CLUSTERS)) for place in range(len(CLUSTERS))]
    drawn = [
        truncated_gaussian(share, rng, box=UNIT_SQUARE, scale=spread, centre=centre)
        for share, (centre, spread) in zip(shares, CLUSTERS, strict=True)
    ]
    return rng.permutation(np.concatenate(drawn))


def uniform_queries(m: int, rng: np.random.Generator, *, sides: tuple[float, float] = (0.1, 0.3)) -> Boxes:
    """Return m boxes in the unit square: each side U(sides), the place uniform among those that fit."""
    size = rng.uniform(*sides, size=(m, 2))
    lower = rng.uniform(0.0, 1.0 - size)
    return np.stack([lower, lower + size], axis=1)


def anchored_queries(
    points: Points,
    m: int,
    rng: np.random.Generator,
    *,
    sides: tuple[float, float] = (1 / 256, 1 / 8),
    fewest: int = 20,
    largest_share: float = 0.05,
) -> tuple[Boxes, npt.NDArray[np.int64]]:
    """Return m boxes that each contain a data point, and their true counts.

    A data point is drawn; width and height are log-uniform in `sides` (of the unit square); the box lies so
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
    low, high = np.log(sides[0]), np.log(sides[1])
    most = largest_share * len(points)
    if most < fewest:
        raise InvalidInput(
            f"no count lies between {fewest} and {most:g}: {len(points)} points are too few; take at least "
            f"{fewest / largest_share:.0f}"
        )
    kept: list[Boxes] = []
    counted: list[npt.NDArray[np.int64]] = []
    have = 0
    for _ in range(PATIENCE):
        anchors = points[rng.integers(len(points), size=2 * m)]
        size = np.exp(rng.uniform(low, high, size=(2 * m, 2)))
        lower = anchors - rng.random((2 * m, 2)) * size
        boxes = np.stack([lower, lower + size], axis=1)
        counts = true_counts(points, boxes)
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


def true_counts(points: Points, boxes: Boxes) -> npt.NDArray[np.int64]:
    """Return how many points lie in each half-open box: int64[m].

    Examples
    --------
    >>> points = np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 0.5]])
    >>> true_counts(points, np.array([[[0.0, 0.0], [1.0, 1.0]]])).tolist()
    [2]
    """
    order = np.argsort(points[:, 0], kind="stable")
    ordered = points[order]
    first = np.searchsorted(ordered[:, 0], boxes[:, 0, 0], side="left")
    last = np.searchsorted(ordered[:, 0], boxes[:, 1, 0], side="left")
    others = ordered[:, 1:]
    counts = np.empty(len(boxes), dtype=np.int64)
    for place, (start, stop) in enumerate(zip(first, last, strict=True)):
        strip = others[start:stop]
        counts[place] = np.count_nonzero(((strip >= boxes[place, 0, 1:]) & (strip < boxes[place, 1, 1:])).all(axis=1))
    return counts


def mean_relative_error(answers: npt.ArrayLike, truth: npt.ArrayLike, *, floor: float) -> float:
    """Return the mean of |answer − truth| / max(truth, floor) over the queries.

    Examples
    --------
    >>> mean_relative_error([12, 1], [10, 0], floor=2)
    0.35
    """
    answered, true = np.asarray(answers, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if answered.shape != true.shape or answered.ndim != 1 or not len(true):
        raise InvalidInput(
            f"answers and truth must be two arrays of the same length; got {answered.shape} and {true.shape}"
        )
    return float(np.mean(np.abs(answered - true) / np.maximum(true, floor)))


def anchored_floor(n: int) -> float:
    """Return the smallest denominator of the error on real data: 10·max(1, 10⁻⁴n)."""
    return 10.0 * max(1.0, 1e-4 * n)


def uniform_floor(n: int) -> float:
    """Return the smallest denominator of the error on the synthetic clusters: 10⁻⁴n."""
    return 1e-4 * n
