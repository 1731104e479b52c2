"""Where a region's people are, in values of a function: the public range that their values are clipped to.

The noise of a value grows with the range it is scaled to. A long region pays for its empty part, unless values are
clipped to where its people are. The pieces between its walls say where that is. Of all ranges [a, b] on a grid that one
is taken whose expected squared error of the region's sum is smallest: with n people and the mechanism's variance v,

    n v (b - a)^2 + bias^2 + clumps.

The bias is what is cut off above b and below a. Inside a piece people may sit in few places (the partition's strength),
so what is cut off of it is uncertain: these are the clumps. Where nobody answered the range is that of the region.

Everything here is public, so the range costs nothing. It is quality, not safety: a value costs the same epsilon
whatever the range.

Knows a partition and a function. Knows no participants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..arrays import Floats, Integers
from ..functions import BoundedFunction
from ..randomizer.values import best
from .column import Column
from .estimate import parts_of

if TYPE_CHECKING:
    from .partition import Partition

GRID = 32  # steps of the first look; the second one divides two of them by as many
_BATCH = 1 << 20  # numbers in a table of ranges


class CutOff(NamedTuple):
    """What a range takes off the values of m regions, per person: float64[m] each."""

    above: Floats  # expected means
    below: Floats
    variance: Floats  # of the mean, because people of a piece may sit in few places


class _Held(NamedTuple):
    """Values of a function where the people of pieces are: parts of pieces, pieces of regions, both ascending."""

    first_part: Integers  # int64[p]: where the parts of each piece begin
    first_piece: Integers  # int64[m]: where the pieces of each region begin
    region: Integers  # int64[c]: of each part
    part: Floats  # float64[c]: share of the piece's people
    piece: Floats  # float64[p]: share of the region's people
    low: Floats  # float64[c]: range of the function over the part
    high: Floats

    def off(self, end: Floats, side: float) -> tuple[Floats, Floats]:
        """Mean and variance of what one end of each region takes off: float64[m] each; side is 1 above, -1 below."""
        at = (side * end)[self.region]
        low, high = (self.low, self.high) if side > 0 else (-self.high, -self.low)
        # Values lie evenly in the range of a part, from zero beyond the end on.
        begin, stop = np.maximum(low - at, 0.0), np.maximum(high - at, 0.0)
        width = high - low
        flat = width <= 0
        inside = np.where(flat, 1.0, width)
        mean = np.where(flat, stop, (stop * stop - begin * begin) / (2.0 * inside))
        square = np.where(flat, stop * stop, (stop**3 - begin**3) / (3.0 * inside))
        means = np.add.reduceat(self.part * mean, self.first_part)
        squares = np.add.reduceat(self.part * square, self.first_part)
        spread = self.piece**2 * np.maximum(squares - means * means, 0.0)
        return np.add.reduceat(self.piece * means, self.first_piece), np.add.reduceat(spread, self.first_piece)


def clips(partition: Partition, function: BoundedFunction, epsilon: float) -> Floats:
    """The range that values of each region are clipped to, for one value of this epsilon: float64[m, 2].

    A value of people's own is not clipped: it does not depend on places.
    """
    if isinstance(function, Column):
        return np.tile(np.array([function.low, function.high]), (len(partition), 1))
    held = _held(partition, function)
    starts = held.first_part[held.first_piece]
    low, high = np.minimum.reduceat(held.low, starts), np.maximum.reduceat(held.high, starts)
    noise = best(epsilon).worst_variance / np.maximum(partition.crowds, 1)
    clumped, step = 1.0 / (1.0 + partition.strength), (high - low) / GRID
    a, b = _look(held, low, low, step, high, noise, clumped)
    a, b = _look(held, np.maximum(a - step, low), np.maximum(b - step, low), 2.0 * step / GRID, high, noise, clumped)
    asked = np.diff(partition.walls.first)[:, None] > 0  # where nobody answered, nothing says where people are
    return np.where(asked, np.stack([a, np.minimum(np.maximum(a, b), high)], axis=1), np.stack([low, high], axis=1))


def cut_off(partition: Partition, function: BoundedFunction, ranges: Floats) -> CutOff:
    """What ranges float64[m, 2] take off the values of regions, as estimated."""
    if isinstance(function, Column):
        return CutOff(*np.zeros((3, len(ranges))))
    held = _held(partition, function)
    (above, one), (below, two) = held.off(ranges[:, 1], 1.0), held.off(ranges[:, 0], -1.0)
    return CutOff(above, below, (one + two) / (1.0 + partition.strength))


def _held(partition: Partition, function: BoundedFunction) -> _Held:
    hierarchy, pieces = partition.task.hierarchy, partition.pieces
    parts = parts_of(hierarchy, pieces, partition.crowds.astype(np.float64))
    region = np.repeat(np.arange(len(partition)), np.diff(pieces.first))
    low, high = function.range_over(hierarchy.boxes(parts.cells)).T
    first = np.searchsorted(parts.piece, np.arange(len(region)))
    return _Held(first, pieces.first[:-1], region[parts.piece], parts.share, pieces.share, low, high)


def _look(
    held: _Held, from_low: Floats, from_high: Floats, step: Floats, most: Floats, noise: Floats, clumped: float
) -> tuple[Floats, Floats]:
    """The best ends on two grids of each region; of equal ones the first."""
    number = np.arange(GRID + 1) * step[:, None]
    a, b = (np.minimum(start[:, None] + number, most[:, None]) for start in (from_low, from_high))
    above, below = np.zeros(a.shape), np.zeros(a.shape)
    for column in range(GRID + 1):
        for cost, ends, side in ((above, b, 1.0), (below, a, -1.0)):
            mean, spread = held.off(ends[:, column], side)
            cost[:, column] = mean * mean + clumped * spread
    best_low, best_high = np.zeros(len(a)), np.zeros(len(a))
    rows_at_once = max(1, _BATCH // (GRID + 1) ** 2)
    for start in range(0, len(a), rows_at_once):
        rows = slice(start, start + rows_at_once)
        width = b[rows, None, :] - a[rows, :, None]
        cost = noise[rows, None, None] * width * width + below[rows, :, None] + above[rows, None, :]
        cost[width < 0.0] = np.inf
        one, two = np.divmod(np.argmin(cost.reshape(len(cost), -1), axis=1), GRID + 1)
        each = np.arange(len(cost))
        best_low[rows], best_high[rows] = a[rows][each, one], b[rows][each, two]
    return best_low, best_high


def unit_value(value: float, low: float, high: float) -> float:
    """A value clipped to a range and scaled to [0, 1]; 1/2 where the range is one number."""
    return 0.5 if high <= low else min(max((value - low) / (high - low), 0.0), 1.0)
