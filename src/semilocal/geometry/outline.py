"""The outline of a region that is put together from rectangles on a lattice of whole numbers.

Theory of operation. Every rectangle is walked around with its inside on the left. On each line of the lattice the walks
of neighbours go in opposite directions and cancel; what is left is the outline, with its longest straight pieces.
Upright and level pieces alternate. Where four pieces meet in one point the walk turns to the right, so that no ring of
a connected region touches itself. Outer rings run counter-clockwise, holes clockwise.

Knows rectangles. Knows no cells, codes or participants.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..arrays import Flags, Floats, Integers


class Rings(NamedTuple):
    """Closed rings of regions, one after another: of each region the outer ring (or rings) first, then holes."""

    points: Integers  # int64[n, 2]
    first: Integers  # int64[r + 1]: where the points of each ring begin
    first_ring: Integers  # int64[m + 1]: where the rings of each region begin

    def of(self, places: Floats) -> list[list[list[list[float]]]]:
        """Their points in other coordinates, float64[n, 2], ring by ring and region by region."""
        points, first, ends = places.tolist(), self.first.tolist(), self.first_ring.tolist()
        rings = [points[begin:end] for begin, end in pairwise(first)]
        return [rings[begin:end] for begin, end in pairwise(ends)]


class _Pieces(NamedTuple):
    """Straight pieces of outlines: on the line ``across`` of a region, from ``start`` to ``stop``."""

    region: Integers
    across: Integers
    start: Integers
    stop: Integers


def rings(region: Integers, lower: Integers, upper: Integers) -> Rings:
    """Outlines of regions, each the union of its rectangles, which do not overlap.

    ``region`` int64[m] is that of each rectangle, 0, 1 and so on; ``lower`` and ``upper`` int64[m, 2] its corners.

    Examples
    --------
    >>> two = rings(np.zeros(2, np.int64), np.array([[0, 0], [1, 0]]), np.array([[1, 1], [2, 1]]))
    >>> two.points.tolist(), two.first.tolist(), two.first_ring.tolist()
    ([[0, 0], [2, 0], [2, 1], [0, 1], [0, 0]], [0, 5], [0, 1])
    """
    (x0, y0), (x1, y1) = lower.T, upper.T
    level = _pieces(region, y0, y1, x0, x1)  # the lower side to the right, the upper one to the left
    upright = _pieces(region, x1, x0, y0, y1)  # the right side upwards, the left one downwards
    right, up = np.sign(level.stop - level.start), np.sign(upright.stop - upright.start)
    begins = np.lexsort((right, level.across, level.start, level.region))
    ends = np.lexsort((up, upright.stop, upright.across, upright.region))  # after "up" comes "right"
    after_upright = np.empty_like(ends)
    after_upright[ends] = begins
    begins = np.lexsort((up, upright.start, upright.across, upright.region))
    ends = np.lexsort((-right, level.across, level.stop, level.region))  # after "right" comes "down"
    after_level = np.empty_like(ends)
    after_level[ends] = begins
    following, each = after_upright[after_level], np.arange(len(level.region))
    rank = np.empty_like(each)
    rank[np.lexsort((level.start, level.across, level.region))] = each
    # A ring begins at its lowest point: the least rank of all pieces ahead, so many at first and then twice as many.
    least, ahead = rank, following
    while ((lower_rank := np.minimum(least, least[ahead])) != least).any():
        least, ahead = lower_rank, ahead[ahead]
    # How many pieces follow up to the ring's last one, by the same doubling.
    left = (rank[following] != least).astype(np.int64)
    ahead = np.where(left > 0, following, each)
    while (more := left[ahead]).any():
        left, ahead = left + more, ahead[ahead]
    order = np.lexsort((-left, least))
    begin = np.flatnonzero(rank[order] == least[order])
    corners = np.stack([level.start, level.across, level.stop, level.across], axis=1)[order].reshape(-1, 2)
    points = np.insert(corners, np.append(2 * begin[1:], len(corners)), corners[2 * begin], axis=0)
    first = np.append(2 * begin + np.arange(len(begin)), len(points))
    regions = np.arange(int(region.max(initial=-1)) + 2)
    return Rings(points, first, np.searchsorted(level.region[order[begin]], regions))


def borders(region: Integers, second: Flags, lower: Integers, upper: Integers) -> list[Integers]:
    """Where two parts of each region meet: straight pieces int64[p, 2, 2] from point to point, per region.

    As :func:`rings`; ``second`` bool[m] says which of its two parts each rectangle belongs to.
    """
    (x0, y0), (x1, y1) = lower.T, upper.T
    weight = np.where(second, 3, 1)  # a first part's side and a second part's cancel to 2 or -2
    level = _pieces(region, y0, y1, x0, x1, weight, wanted=2)
    upright = _pieces(region, x1, x0, y0, y1, weight, wanted=2)
    regions = np.concatenate([level.region, upright.region])
    begin = np.concatenate([np.stack([level.start, level.across], 1), np.stack([upright.across, upright.start], 1)])
    end = np.concatenate([np.stack([level.stop, level.across], 1), np.stack([upright.across, upright.stop], 1)])
    order = np.argsort(regions, kind="stable")
    pieces = np.stack([begin, end], axis=1)[order]
    cuts = np.searchsorted(regions[order], np.arange(1, int(region.max(initial=-1)) + 1))
    return np.split(pieces, cuts) if len(region) else []


def _pieces(
    region: Integers, rising: Integers, falling: Integers, low: Integers, high: Integers,
    weight: Integers | None = None, *, wanted: int | None = None,
) -> _Pieces:  # fmt: skip
    """What is left of sides from low to high on the lines ``rising``, and from high to low on the lines ``falling``.

    With weights, those places where the walk is so many times there in either direction.
    """
    regions, lines = np.tile(region, 4), np.concatenate([rising, rising, falling, falling])
    places, steps = np.concatenate([low, high, low, high]), np.repeat([1, -1, -1, 1], len(region))
    if weight is not None:
        steps = steps * np.tile(weight, 4)
    order = np.lexsort((places, lines, regions))
    regions, lines, places, steps = regions[order], lines[order], places[order], steps[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (regions[1:] != regions[:-1]) | (lines[1:] != lines[:-1]) | (places[1:] != places[:-1])
    start = np.flatnonzero(new)
    change = np.add.reduceat(steps, start) if len(start) else steps
    start, change = start[change != 0], change[change != 0]
    regions, lines, places = regions[start], lines[start], places[start]
    # On a line the walk is 0, 1 or -1 times there between two places; the changes on it add up to 0.
    walks = np.cumsum(change)
    piece = np.flatnonzero(walks if wanted is None else np.abs(walks) == wanted)
    ends = np.stack([places[piece], places[piece + 1]])
    backwards = walks[piece] < 0
    ends[:, backwards] = ends[::-1, backwards]
    return _Pieces(regions[piece], lines[piece], ends[0], ends[1])
