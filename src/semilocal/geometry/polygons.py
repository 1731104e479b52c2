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

        cut = self._cut(boxes)
        share = cut._share(boxes)
        holds = share == 1.0
        holds[holds] = shapely.covers(cut.shapes[holds], _rectangles(boxes[holds]))
        return cut, share > 0.0, holds

    def covered(self, boxes: Floats) -> Floats:
        """Share of one box each, float64[q, 2, 2], that the polygons cover: float64[q]."""
        return self._cut(boxes)._share(boxes)

    def contain(self, places: Floats) -> Flags:
        """Whether the first polygon holds places float64[n, 2]: bool[n]."""
        import shapely

        shapely.prepare(self.shapes[:1])
        return np.asarray(shapely.contains_xy(self.shapes[0], places), dtype=bool)

    def _cut(self, boxes: Floats) -> Polygons:
        import shapely

        (lower, upper), (begin, end) = self.bounds.transpose(1, 0, 2), boxes.transpose(1, 0, 2)
        near, inside = ((lower < end) & (upper > begin)).all(axis=1), ((lower >= begin) & (upper <= end)).all(axis=1)
        out = np.where(near, self.shapes, shapely.Polygon())
        cut = np.flatnonzero(near & ~inside)
        out[cut] = shapely.intersection(out[cut], _rectangles(boxes[cut]))
        return Polygons(out)

    def _share(self, boxes: Floats) -> Floats:
        import shapely

        share = shapely.area(self.shapes) / np.prod(boxes[:, 1] - boxes[:, 0], axis=1)
        return np.where(share >= _WHOLE, 1.0, share)


def _rectangles(boxes: Floats) -> npt.NDArray[Any]:
    import shapely

    return np.asarray(shapely.box(*boxes.reshape(-1, 4).T))
