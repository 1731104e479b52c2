"""Polygons seen from rectangles: which of them they meet and hold, and how much of one they cover.

Shapely cuts them. Knows shapes and rectangles. Knows no counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Floats, Integers, short_repr

__all__ = ["Polygons"]

_POINTS_AT_ONCE = 1 << 15
_LARGE = 256  # corners: such polygons are cut on the way down
_WHOLE = 1.0 - 1e-12  # of a rectangle's area; the rest is rounding


@dataclass(frozen=True, eq=False)
class Polygons:
    """q areas of any shape; :func:`semilocal.geometry.shapes.as_polygons` makes and checks them.

    Attributes
    ----------
    shapes : object[q]
        Valid shapely (multi)polygons, in the order of the domain's axes.

    Examples
    --------
    >>> import shapely
    >>> one = Polygons(np.array([shapely.box(0, 0, 2, 2)]))
    >>> one.covered(np.array([[[1.0, 0.0], [5.0, 1.0]]])).tolist()
    [0.25]
    """

    shapes: npt.NDArray[Any]

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.shapes)

    @property
    def bounds(self) -> Floats:
        """Lower and upper corners of the boxes around them, NaN where there is nothing: float64[q, 2, 2]."""
        import shapely

        return np.asarray(shapely.bounds(self.shapes).reshape(-1, 2, 2))

    def batches(self) -> Iterator[Integers]:
        """The numbers of all polygons, in groups of bounded size and near each other."""
        import shapely

        order = np.argsort(self.bounds[:, 0, 0])
        group = np.cumsum(shapely.get_num_coordinates(self.shapes[order])) // _POINTS_AT_ONCE
        yield from np.split(order, np.flatnonzero(np.diff(group)) + 1)

    def take(self, rows: Integers) -> Polygons:
        """Some of the polygons, in the order of ``rows`` int64[m]; one may be taken several times."""
        return Polygons(self.shapes[rows])

    def within(self, boxes: Floats) -> tuple[Polygons, Flags, Flags]:
        """What is left of them in one box each, float64[q, 2, 2]; whether they meet it, and whether they hold it."""
        import shapely

        rectangles = _rectangles(boxes)
        shapely.prepare(self.shapes)
        meets = shapely.intersects(self.shapes, rectangles)
        meets[meets] = ~shapely.touches(self.shapes[meets], rectangles[meets])
        holds = meets.copy()
        holds[meets] = shapely.covers(self.shapes[meets], rectangles[meets])
        large = meets & ~holds & (shapely.get_num_coordinates(self.shapes) > _LARGE)
        out = self.shapes.copy()
        out[large] = shapely.intersection(out[large], rectangles[large])
        return Polygons(out), meets, holds

    def covered(self, boxes: Floats) -> Floats:
        """Share of one box each, float64[q, 2, 2], that the polygons cover: float64[q]."""
        import shapely

        (lower, upper), (begin, end) = self.bounds.transpose(1, 0, 2), boxes.transpose(1, 0, 2)
        near = np.flatnonzero(((lower < end) & (upper > begin)).all(axis=1))
        out = np.zeros(len(boxes))
        parts = shapely.intersection(self.shapes[near], _rectangles(boxes[near]))
        out[near] = shapely.area(parts) / np.prod(end[near] - begin[near], axis=1)
        return np.where(out >= _WHOLE, 1.0, out)

    def contain(self, places: Floats) -> Flags:
        """Whether the first polygon holds places float64[n, 2]: bool[n]."""
        import shapely

        shapely.prepare(self.shapes[:1])
        return np.asarray(shapely.contains_xy(self.shapes[0], places), dtype=bool)


def _rectangles(boxes: Floats) -> npt.NDArray[Any]:
    import shapely

    return np.asarray(shapely.box(*boxes.reshape(-1, 4).T))
