"""Polygons cut to rectangles, many at once, and how much of a rectangle they cover.

A polygon is a set of closed rings: outlines run counter-clockwise, holes clockwise. What it covers is then a sum over
directed edges (Green's theorem), and neither holes nor several parts need care. Cutting a ring at a line drops the
points beyond the line and adds the points where the ring crosses it. Two parts that were cut apart stay connected by an
edge along the line that runs there and back, which adds nothing to the sum.

Points on the sides of a rectangle keep its exact coordinates. So "covered wholly" and "not met" are decided by
comparing numbers that are equal, without a tolerance.

Knows rings and rectangles. Knows no counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..arrays import Flags, Floats, Integers, short_repr

__all__ = ["Polygons", "ranges"]

_POINTS_AT_ONCE = 1 << 15  # working arrays stay in the processor's cache


@dataclass(frozen=True, eq=False)
class Polygons:
    """q polygons, each made of any number of rings.

    Attributes
    ----------
    points : float64[n, 2]
        Corners of all rings, one ring after another; the first corner of a ring is not repeated at its end.
    sizes : int64[r]
        Corners of each ring, 3 or more.
    owners : int64[r]
        The polygon that each ring belongs to, ascending.
    number : int
        Polygons; those without a ring cover nothing.

    Examples
    --------
    >>> square = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]])
    >>> one = Polygons(square, np.array([4]), np.array([0]), 1)
    >>> box = np.array([[[1.0, 0.0], [5.0, 1.0]]])
    >>> cut = one.cut(box)
    >>> cut.points.tolist(), cut.share(box).tolist()
    ([[1.0, 0.0], [2.0, 0.0], [2.0, 1.0], [1.0, 1.0]], [0.25])
    """

    points: Floats
    sizes: Integers
    owners: Integers
    number: int

    __repr__ = short_repr

    def __len__(self) -> int:
        return self.number

    @cached_property
    def starts(self) -> Integers:
        """The first corner of each ring: int64[r]."""
        return np.asarray(np.cumsum(self.sizes) - self.sizes)

    @cached_property
    def following(self) -> Integers:
        """The corner after each one on its ring: int64[n]."""
        after = np.arange(1, len(self.points) + 1)
        after[self.starts + self.sizes - 1] = self.starts
        return after

    @cached_property
    def corner_owners(self) -> Integers:
        """The polygon of each corner: int64[n]."""
        return np.repeat(self.owners, self.sizes)

    def batches(self) -> Iterator[Integers]:
        """The numbers of all polygons, in groups of bounded size and near each other."""
        first = np.full(self.number, np.inf)
        np.minimum.at(first, self.corner_owners, self.points[:, 0])
        order = np.argsort(first)
        group = np.cumsum(np.bincount(self.corner_owners, minlength=self.number)[order]) // _POINTS_AT_ONCE
        yield from np.split(order, np.flatnonzero(np.diff(group)) + 1)

    def take(self, rows: Integers) -> Polygons:
        """Some of the polygons, in the order of ``rows`` int64[m]; one may be taken several times."""
        first, last = (np.searchsorted(self.owners, rows, side=side) for side in ("left", "right"))
        rings = ranges(first, last - first)
        owners = np.repeat(np.arange(len(rows)), last - first)
        sizes = self.sizes[rings]
        return Polygons(self.points[ranges(self.starts[rings], sizes)], sizes, owners, len(rows))

    def within(self, boxes: Floats) -> tuple[Polygons, Flags, Flags]:
        """The polygons cut to one box each, float64[q, 2, 2]; whether they meet it, and whether they hold all of it.

        Both are exact: an edge through the inside of the box meets it and does not hold it. Without such an edge the
        box is covered as a whole or not at all.
        """
        cut = self.cut(boxes)
        through, covered = cut._runs_through(boxes), cut.share(boxes) > 0.5
        return cut, through | covered, ~through & covered

    def contain(self, places: Floats) -> Flags:
        """Whether the first polygon holds places float64[n, 2]: bool[n]. Those on its outline are on either side."""
        start, stop = self.points, self.points[self.following]
        mine = (self.corner_owners == 0) & (start[:, 1] != stop[:, 1])
        out = np.zeros(len(places), dtype=bool)
        for (x0, y0), (x1, y1) in zip(start[mine].tolist(), stop[mine].tolist(), strict=True):
            beside = (places[:, 1] >= y0) != (places[:, 1] >= y1)
            out ^= beside & (places[:, 0] < x0 + (x1 - x0) * (places[:, 1] - y0) / (y1 - y0))
        return out

    def cut(self, boxes: Floats) -> Polygons:
        """The parts inside one box each, float64[q, 2, 2]."""
        found = self
        for axis in (0, 1):
            for side in (0, 1):
                found = found._cut_at(axis, boxes[:, side, axis], above=side == 0)
        return found

    def share(self, boxes: Floats) -> Floats:
        """Share of one box each, float64[q, 2, 2], in the polygons, which must lie inside it: float64[q]."""
        own, after = self.corner_owners, self.following
        low, inverse = boxes[:, 0], 1.0 / (boxes[:, 1] - boxes[:, 0])
        # 0 and 1 come out exactly for corners on the sides of the box.
        x, y = np.where(self.points == boxes[own, 1], 1.0, (self.points - low[own]) * inverse[own]).T
        parts = np.bincount(own, (x + x[after]) / 2.0 * (y[after] - y), minlength=self.number)
        return np.clip(parts, 0.0, 1.0)  # rounding alone leads outside

    def covered(self, boxes: Floats) -> Floats:
        """Share of one box each, float64[q, 2, 2], that the polygons cover: float64[q]."""
        return self.cut(boxes).share(boxes)

    def _runs_through(self, boxes: Floats) -> Flags:
        """Whether any edge of a polygon runs through the inside of its box: bool[q]."""
        own, after = self.corner_owners, self.following
        along = np.zeros(len(self.points), dtype=bool)
        for axis in (0, 1):
            column = self.points[:, axis]
            for side in (0, 1):
                on = column == boxes[own, side, axis]
                along |= on & on[after]
        out = np.zeros(self.number, dtype=bool)
        out[own[~along & (self.points != self.points[after]).any(axis=1)]] = True
        return out

    def _cut_at(self, axis: int, limits: Floats, *, above: bool) -> Polygons:
        """What lies above or below one line each, float64[q]."""
        column, limit = self.points[:, axis], limits[self.corner_owners]
        inside = column >= limit if above else column <= limit
        if inside.all():
            return self
        after, on = self.following, column == limit
        rows = np.flatnonzero((inside != inside[after]) & ~on & ~on[after])
        crossing = np.zeros(len(column), dtype=np.int64)
        crossing[rows] = 1
        ends = np.cumsum(inside + crossing)
        points = np.empty((int(ends[-1]) if len(ends) else 0, 2))
        points[(ends - crossing)[inside] - 1] = self.points[inside]
        start, stop = self.points[rows, 1 - axis], self.points[after[rows], 1 - axis]
        far = (limit[rows] - column[rows]) / (column[after[rows]] - column[rows])
        points[ends[rows] - 1, axis] = limit[rows]
        points[ends[rows] - 1, 1 - axis] = np.clip(
            start + far * (stop - start), np.minimum(start, stop), np.maximum(start, stop)
        )
        sizes = np.add.reduceat(inside + crossing, self.starts)
        real = sizes >= 3  # fewer corners cover nothing
        if not real.all():
            points = points[np.repeat(real, sizes)]
        return Polygons(points, sizes[real], self.owners[real], self.number)


def ranges(starts: Integers, sizes: Integers) -> Integers:
    """Runs of numbers from each start on, each of its own length, one after another."""
    ends = np.cumsum(sizes)
    return np.asarray(np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - sizes), sizes))
