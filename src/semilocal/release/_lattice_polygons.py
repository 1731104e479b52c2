"""Polygons as a lattice of rounded positions sees them: the squares of the places that they hold.

In the measure of :mod:`semilocal.release._lattice` the place in column i and row j of the lattice is the square from
(i, j) to (i + 1, j + 1). So a polygon becomes the union of the squares of its places, and is then cut to cells like
any other. A place on the outline belongs to the polygon on its upper side, as with half-open boxes.

Knows lengths and outlines. Knows no cells, counts or positions.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Floats, Integers
from ..errors import InvalidInput
from ..geometry.box import Box
from ..geometry.polygons import Polygons, ranges
from ..geometry.shapes import as_polygons
from ._lattice import BETWEEN, ON_A_LINE, Lattice

__all__ = ["on_lattice"]

MOST_CROSSINGS = 40_000  # of outlines and rows of the lattice, in one question


def on_lattice(polygons: Polygons, lattice: Lattice, box: Box) -> Polygons:
    """The polygons in the measure of a lattice.

    Parameters
    ----------
    polygons : Polygons
        In the order of the domain's axes.
    lattice : Lattice
        With a step along both axes.
    box : Box
        The domain; nothing outside matters.

    Raises
    ------
    InvalidInput
        If the outlines cross too many rows.

    Examples
    --------
    >>> triangle = Polygons(np.array([[0.05, 0.05], [0.35, 0.05], [0.05, 0.35]]), np.array([3]), np.array([0]), 1)
    >>> found = on_lattice(triangle, Lattice((0.1, 0.1)), Box((0, 0), (1, 1)))
    >>> len(found), found.points.min(axis=0).round(3).tolist(), found.points.max(axis=0).round(3).tolist()
    (1, [1.0, 1.0], [3.0, 3.0])
    """
    import shapely

    owner, row, column = _crossings(polygons, lattice, box)
    # An outline is crossed by a row an even number of times: what lies between two crossings is inside.
    left, right = column[::2], column[1::2]
    filled = left < right
    squares = shapely.box(left[filled], row[::2][filled], right[filled], row[::2][filled] + 1)
    owners, first = np.unique(owner[::2][filled], return_index=True)
    if not len(owners):
        return Polygons(np.empty((0, 2)), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), len(polygons))
    unions = [shapely.union_all(part) for part in np.split(squares, first[1:])]
    found = as_polygons(unions, Box((0.0, 0.0), (1.0, 1.0)))
    return Polygons(found.points * (1.0 + BETWEEN), found.sizes, owners[found.owners], len(polygons))


def _crossings(polygons: Polygons, lattice: Lattice, box: Box) -> tuple[Integers, Floats, Floats]:
    """Where outlines cross rows, by polygon, row and column: the polygon, the row, and the first place to the right."""
    lower, upper = (np.ceil(np.array(corner) / lattice.steps - ON_A_LINE) for corner in (box.lower, box.upper))
    start = polygons.points / np.array(lattice.steps)
    stop = start[polygons.following]
    from_row, to_row = (
        np.clip(np.ceil(ends - ON_A_LINE), lower[1], upper[1])
        for ends in (np.minimum(start[:, 1], stop[:, 1]), np.maximum(start[:, 1], stop[:, 1]))
    )
    number = (to_row - from_row).astype(np.int64)
    if number.sum() > MOST_CROSSINGS:
        raise InvalidInput(
            f"the outlines of the polygons cross {number.sum():,} rows of rounded positions; {MOST_CROSSINGS:,} are "
            "allowed. Ask about fewer, or leave rounding out: it hardly matters for such large areas"
        )
    edge = np.repeat(np.arange(len(start)), number)
    row = ranges(from_row.astype(np.int64), number).astype(np.float64)
    (x0, y0), (x1, y1) = start[edge].T, stop[edge].T
    place = x0 + (row + ON_A_LINE - y0) / (y1 - y0) * (x1 - x0)
    column = np.clip(np.ceil(place - ON_A_LINE), lower[0], upper[0])
    owner = polygons.corner_owners[edge]
    order = np.lexsort((column, row, owner))
    return owner[order], row[order], column[order]
