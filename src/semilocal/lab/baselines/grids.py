"""Grids that a curator lays over the domain: one cell after the other, uniform, adaptive.

Qardaji, Yang, Li, "Differentially private grids for geospatial data" (ICDE 2013): how fine a grid should be follows
from the number of people and epsilon. Where the domain has finest cells, borders of a grid are moved to theirs.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ...arrays import Floats, Integers, as_integer, as_number
from ...errors import InvalidInput
from ...geometry.box import Box
from ...protocol.promise import Guarantee
from .boxes import GridCounts, SpatialCounts
from .releases import check_people

FINENESS = 10.0  # the papers' c: a uniform grid has N epsilon / c cells
FIRST_SHARE = 0.5  # alpha, the part of epsilon that an adaptive grid spends on its first level
FEWEST = 10  # cells per axis of its first level
MOST_DEPTH = 12


def identity(
    points: npt.ArrayLike, box: Box, *, epsilon: float, rng: np.random.Generator, max_depth: int = 7
) -> GridCounts:
    """All finest cells, 2**max_depth on each axis, each with its own Laplace noise of scale 1 / epsilon; as
    :func:`ugrid`.
    """
    return _grid(points, box, 1 << as_integer(max_depth, "max_depth", low=1, high=MOST_DEPTH), epsilon, rng, None)


def ugrid(
    points: npt.ArrayLike, box: Box, *, epsilon: float, rng: np.random.Generator, max_depth: int | None = None
) -> GridCounts:
    """A uniform grid of m x m cells, m = sqrt(N epsilon / 10), with Laplace noise of scale 1 / epsilon (UG).

    Two dimensions; N is public. With ``max_depth`` the domain has 2**max_depth finest cells on each axis; positions are
    continuous if it is left out.

    Returns
    -------
    GridCounts
        epsilon-differentially private with a trusted curator, if one participant is added or removed; 2 epsilon for any
        move. Counts may be negative.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = ugrid(rng.random((1000, 2)), Box((0, 0), (1, 1)), epsilon=1.0, rng=rng)
    >>> found.counts.shape
    (10, 10)
    """
    wanted = len(check_people(points, box)) * as_number(epsilon, "epsilon", positive=True) / FINENESS
    return _grid(points, box, max(round(math.sqrt(wanted)), 1), epsilon, rng, max_depth)


def agrid(
    points: npt.ArrayLike, box: Box, *, epsilon: float, rng: np.random.Generator, max_depth: int | None = None
) -> SpatialCounts:
    """A grid whose cells are divided again by their noisy counts (AG).

    The first level has m1 x m1 cells, m1 = max(10, sqrt(N epsilon / 10) / 4), and half of epsilon. A cell with the
    noisy count n is divided into m2 x m2, m2 = sqrt(n epsilon / 2 / 5), which are counted with the other half. The two
    levels are made consistent by the paper's constrained inference, weighted least squares. All else is as in
    :func:`ugrid`.
    """
    epsilon = as_number(epsilon, "epsilon", positive=True)
    positions = _scaled(points, box)
    first, second = 1 / (FIRST_SHARE * epsilon), 1 / ((1 - FIRST_SHARE) * epsilon)
    edges = _edges(0.0, 1.0, max(math.ceil(math.sqrt(len(positions) * epsilon / FINENESS) / 4), FEWEST), max_depth)
    parts = len(edges) - 1
    cells = _place(positions, edges, edges)
    positions = positions[np.argsort(cells, kind="stable")]
    exact = np.bincount(cells, minlength=parts**2)
    ends = np.cumsum(exact)
    noisy = exact + rng.laplace(0.0, first, parts**2)
    boxes, counts = [], []
    for cell, above in enumerate(noisy):
        column, row = divmod(cell, parts)
        wanted = max(math.ceil(math.sqrt(max(above, 0.0) / (second * FINENESS / 2))), 1)
        x, y = (_edges(edges[at], edges[at + 1], wanted, max_depth) for at in (column, row))
        mine = _count(positions[ends[cell] - exact[cell] : ends[cell]], x, y).ravel()
        below = mine + rng.laplace(0.0, second, len(mine))
        spread = len(mine) * second**2
        share = spread / (first**2 + spread)  # what the first level's own count weighs
        boxes.append(_cells(x, y))
        counts.append(below + share * (above - below.sum()) / len(mine))
    corner, size = np.asarray(box.lower), np.asarray(box.upper) - np.asarray(box.lower)
    guarantee = Guarantee.plain("curator", 2 * epsilon, presence=epsilon)
    return SpatialCounts(corner + size * np.concatenate(boxes), np.concatenate(counts), guarantee)


def _grid(
    points: npt.ArrayLike, box: Box, parts: int, epsilon: float, rng: np.random.Generator, max_depth: int | None
) -> GridCounts:
    """A grid of that many cells per axis."""
    edges = _edges(0.0, 1.0, parts, max_depth)
    exact = _count(_scaled(points, box), edges, edges)
    scale = 1 / as_number(epsilon, "epsilon", positive=True)
    x, y = (low + (high - low) * edges for low, high in zip(box.lower, box.upper, strict=True))
    guarantee = Guarantee.plain("curator", 2 * epsilon, presence=epsilon)
    return GridCounts((x, y), exact + rng.laplace(0.0, scale, exact.shape), guarantee)


def _scaled(points: npt.ArrayLike, box: Box) -> Floats:
    """Positions in the unit square."""
    if box.dimensions != 2:
        raise InvalidInput(f"a grid needs a box of 2 dimensions; got {box.dimensions}")
    lower = np.asarray(box.lower)
    return np.asarray((check_people(points, box) - lower) / (np.asarray(box.upper) - lower))


def _edges(low: float, high: float, parts: int, max_depth: int | None) -> Floats:
    """Borders of equal parts, moved to those of finest cells if there are any; then there may be fewer parts."""
    edges = np.linspace(low, high, parts + 1)
    if max_depth is None:
        return edges
    ticks = 1 << as_integer(max_depth, "max_depth", low=1, high=MOST_DEPTH)
    return np.asarray(np.unique(np.rint(edges * ticks)) / ticks)


def _place(positions: Floats, x: Floats, y: Floats) -> Integers:
    """Which cell each position lies in, row by row; the upper border belongs to the last cells."""
    column, row = (
        np.clip(np.searchsorted(edges, positions[:, axis], side="right") - 1, 0, len(edges) - 2)
        for axis, edges in enumerate((x, y))
    )
    return np.asarray(column * (len(y) - 1) + row)


def _count(positions: Floats, x: Floats, y: Floats) -> Integers:
    """Exact numbers of people: int64[a, b]."""
    shape = len(x) - 1, len(y) - 1
    return np.bincount(_place(positions, x, y), minlength=shape[0] * shape[1]).reshape(shape)


def _cells(x: Floats, y: Floats) -> Floats:
    """The boxes of all cells, row by row: float64[m, 2, 2]."""
    low, high = (np.stack(np.meshgrid(*at, indexing="ij"), axis=-1) for at in ((x[:-1], y[:-1]), (x[1:], y[1:])))
    return np.stack((low, high), axis=2).reshape(-1, 2, 2)
