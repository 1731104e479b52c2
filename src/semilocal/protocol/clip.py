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

if TYPE_CHECKING:
    from .partition import Partition

GRID = 32  # steps of the first look; the second one divides two of them by as many
_BATCH = 1 << 15  # numbers in an array: all of them stay in the processor's cache


class CutOff(NamedTuple):
    """What a range takes off the values of m regions, per person: float64[m] each."""

    above: Floats  # expected means
    below: Floats
    variance: Floats  # of the mean, because people of a piece may sit in few places


class _Held(NamedTuple):
    """Values of a function where the people of pieces are: parts of pieces, pieces of regions, both ascending."""

    first_part: Integers  # int64[p + 1]: where the parts of each piece begin
    first_piece: Integers  # int64[m + 1]: where the pieces of each region begin
    region: Integers  # int64[c]: of each part
    part: Floats  # float64[c]: share of the piece's people
    piece: Floats  # float64[p]: share of the region's people
    low: Floats  # float64[c]: range of the function over the part
    high: Floats

    def off(self, end: Floats, side: float) -> tuple[Floats, Floats]:
        """Mean and variance of what one end of each region, float64[..., m], takes off; side is 1 above, -1 below."""
        at = (side * end)[..., self.region]
        low, high = (self.low, self.high) if side > 0 else (-self.high, -self.low)
        # Values lie evenly in the range of a part, from zero beyond the end on.
        width = high - low
        begin, stop = np.maximum(low - at, 0.0), np.maximum(high - at, 0.0)
        share = np.divide(stop - begin, width, out=np.ones_like(stop), where=width > 0)
        share *= self.part
        both = begin + stop
        means = np.add.reduceat(share * both, self.first_part[:-1], axis=-1) / 2.0
        both *= both
        both -= np.multiply(begin, stop, out=begin)
        both *= share
        squares = np.add.reduceat(both, self.first_part[:-1], axis=-1) / 3.0
        spread = self.piece**2 * np.maximum(squares - means * means, 0.0)
        means *= self.piece
        first = self.first_piece[:-1]
        return np.add.reduceat(means, first, axis=-1), np.add.reduceat(spread, first, axis=-1)

    def rows(self, begin: int, end: int) -> _Held:
        """Those of the regions ``begin`` to before ``end``."""
        first = self.first_piece[begin : end + 1]
        pieces = slice(first[0], first[-1])
        first_part = self.first_part[first[0] : first[-1] + 1]
        parts = slice(first_part[0], first_part[-1])
        return _Held(
            first_part - parts.start, first - pieces.start, self.region[parts] - begin, self.part[parts],
            self.piece[pieces], self.low[parts], self.high[parts],
        )  # fmt: skip


def clips(partition: Partition, function: BoundedFunction, epsilon: float) -> Floats:
    """The range that values of each region are clipped to, for one value of this epsilon: float64[m, 2].

    A value of people's own is not clipped: it does not depend on places.
    """
    if isinstance(function, Column):
        return np.tile(np.array([function.low, function.high]), (len(partition), 1))
    held = _held(partition, function)
    starts = held.first_part[held.first_piece[:-1]]
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
    pieces, parts = partition.pieces, partition.parts
    region = np.repeat(np.arange(len(partition)), np.diff(pieces.first))
    low, high = function.range_over(partition.task.hierarchy.boxes(parts.cells)).T
    first = np.searchsorted(parts.piece, np.arange(len(region) + 1))
    return _Held(first, pieces.first, region[parts.piece], parts.share, pieces.share, low, high)


def _look(
    held: _Held, from_low: Floats, from_high: Floats, step: Floats, most: Floats, noise: Floats, clumped: float
) -> tuple[Floats, Floats]:
    """The best ends on two grids of each region; of equal ones the first."""
    best_low, best_high = np.zeros((2, len(step)))
    at_once = max(1, _BATCH * len(step) // ((GRID + 1) * len(held.part)))
    for begin in range(0, len(step), at_once):
        rows = slice(begin, min(begin + at_once, len(step)))
        some, number = held.rows(rows.start, rows.stop), np.arange(GRID + 1)[:, None] * step[rows]
        a, b = (np.minimum(start[rows] + number, most[rows]) for start in (from_low, from_high))
        below, above = (mean * mean + clumped * spread for mean, spread in (some.off(a, -1.0), some.off(b, 1.0)))
        a, b, below, above = (np.ascontiguousarray(grid.T) for grid in (a, b, below, above))
        width = b[:, None, :] - a[:, :, None]
        cost = noise[rows, None, None] * width
        cost *= width
        cost += below[:, :, None]
        cost += above[:, None, :]
        cost[width < 0.0] = np.inf
        one, two = np.divmod(np.argmin(cost.reshape(len(cost), -1), axis=1), GRID + 1)
        each = np.arange(len(cost))
        best_low[rows], best_high[rows] = a[each, one], b[each, two]
    return best_low, best_high


def unit_value(value: float, low: float, high: float) -> float:
    """A value clipped to a range and scaled to [0, 1]; 1/2 where the range is one number."""
    return 0.5 if high <= low else min(max((value - low) / (high - low), 0.0), 1.0)
