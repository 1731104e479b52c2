"""Positions that were rounded before anybody counted them, and boxes and polygons as their lattice sees them.

Coordinates rounded to multiples of a step all lie on the lines of a lattice. Where cells are about as small as the
step, a cell has one line or two, and what a side of a box takes of it is a matter of lines, not of lengths. By lengths
all cells along the side would err alike. So boxes are measured by how many lines lie before their sides; in this
measure people lie evenly again. The step is a public fact about the data.

In this measure the place in column i and row j is the square from (i, j) to (i + 1, j + 1). So a polygon becomes the
union of the squares of its places, and is then cut to cells like any other. A place on the outline belongs to the
polygon on its upper side, as with half-open boxes.

Knows lengths and outlines. Knows no cells, counts or positions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Floats, Integers, is_number, shown
from ..errors import InvalidInput
from .box import Box
from .polygons import Polygons, ranges
from .shapes import as_polygons

__all__ = ["BETWEEN", "NOT_ROUNDED", "ON_A_LINE", "Lattice", "on_lattice"]

ON_A_LINE = 1e-6  # steps; a side so close to a line is on it: 0.01 is not a float
BETWEEN = 1e-6  # lines that the room of a step counts for beside its own, so that no cell is flat
_MOST_LINES = 1e10  # that are told apart: far more than any file has
MOST_CROSSINGS = 40_000  # of outlines and rows of the lattice, in one question


class Lattice(NamedTuple):
    """Lines at the multiples of a step along each axis; no steps at all if positions are not rounded."""

    steps: tuple[float, ...] = ()

    @staticmethod
    def of(rounding: Any, box: Box) -> Lattice:
        """From one step for all axes or one for each; none if it is 0 or left out.

        Examples
        --------
        >>> Lattice.of(0.01, Box((0, 0), (1, 1))).steps
        (0.01, 0.01)
        """
        if rounding is None or (is_number(rounding) and rounding == 0):
            return NOT_ROUNDED
        steps = tuple(rounding) if hasattr(rounding, "__iter__") else (rounding,) * box.dimensions
        if len(steps) != box.dimensions or not all(
            is_number(step) and max(abs(low), abs(high)) / _MOST_LINES <= step <= high - low
            for step, low, high in zip(steps, box.lower, box.upper, strict=True)
        ):
            raise InvalidInput(
                f"rounding must be the step that coordinates are multiples of, at most a side of the domain and not "
                f"below {1 / _MOST_LINES:.0e} of its coordinates, or one per axis ({box.dimensions}); 0 for none; "
                f"got {shown(rounding)}"
            )
        return Lattice(tuple(float(step) for step in steps))

    def measure(self, corners: Floats) -> Floats:
        """How many lines lie before each coordinate, and a trifle for the room between them: float64[..., d].

        Examples
        --------
        >>> Lattice((0.1,)).measure(np.array([[0.25], [0.3], [0.31]])).round(3).tolist()
        [[3.0], [3.0], [4.0]]
        """
        if not self.steps:
            return corners
        return np.stack([self.along(axis, corners[..., axis]) for axis in range(len(self.steps))], axis=-1)

    def along(self, axis: int, places: Floats) -> Floats:
        """The same for coordinates on one axis."""
        if not self.steps:
            return places
        steps = places / self.steps[axis]
        lines = steps - ON_A_LINE
        np.ceil(lines, out=lines)
        steps *= BETWEEN
        lines += steps
        return np.asarray(lines)


NOT_ROUNDED = Lattice()


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
