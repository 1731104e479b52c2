"""Where a region's people are, in values of a function: the public range that their values are clipped to.

The noise of a value grows with the range it is scaled to. A long region pays for its empty part, unless values are
clipped to where its people are. The pieces between its walls say where that is (estimate.py). Of all ranges [a, b] on a
grid that one is taken whose expected squared error of the region's sum is smallest:

    n v (b - a)^2 + (what is cut off above b)^2 + (what is cut off below a)^2,

with n people and the variance v of the mechanism. Everything here is public, so the range costs nothing. It is quality,
not safety: a value costs the same epsilon whatever the range. The same partition gives the same numbers: only sums,
products and quotients are taken, and ends lie on a grid of the function's range over the region.

Knows a partition and a function. Knows no participants and no noise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..arrays import Floats, Integers
from ..functions import BoundedFunction
from ..randomizer.values.mechanisms import best
from .column import Column
from .density import parts_of

if TYPE_CHECKING:
    from .estimate import Pieces
    from .partition import Partition

__all__ = ["Held", "clips", "held_by"]

GRID = 32  # steps of the first look; the second one divides two of them by as many
_BATCH = 1 << 20  # numbers in a table of ranges


class Held(NamedTuple):
    """Cells of the pieces of m regions, and the values of a function there.

    Attributes
    ----------
    region : int64[c]
        Ascending.
    share : float64[c]
        Expected share of the region's people.
    low, high : float64[c]
        Range of the function over the cell.
    """

    region: Integers
    share: Floats
    low: Floats
    high: Floats

    def above(self, end: Floats) -> Floats:
        """Mean of what values exceed an end by, if they lie evenly in the range of each cell: float64[c]."""
        width = self.high - self.low
        inside = np.divide((self.high - end) ** 2, 2.0 * width, out=np.zeros(len(width)), where=width > 0)
        middle = (self.low + self.high) / 2.0 - end
        return np.where(end <= self.low, middle, np.where(end >= self.high, 0.0, inside))

    def below(self, end: Floats) -> Floats:
        """Mean of what values fall short of an end by: float64[c]."""
        return self.above(end) - (self.low + self.high) / 2.0 + end


def held_by(partition: Partition, function: BoundedFunction, pieces: Pieces) -> Held:
    """Values of a function where the people of pieces are."""
    hierarchy = partition.task.hierarchy
    parts = parts_of(hierarchy, pieces, partition.crowds.astype(np.float64))
    region = np.repeat(np.arange(len(partition)), np.diff(pieces.first))[parts.piece]
    low, high = function.range_over(hierarchy.boxes(parts.cells)).T
    return Held(region, pieces.share[parts.piece] * parts.share, low, high)


def clips(partition: Partition, function: BoundedFunction, epsilon: float) -> Floats:
    """The range that values of each region are clipped to: float64[m, 2].

    Parameters
    ----------
    partition : Partition
    function : BoundedFunction
        A value of people's own is not clipped: it does not depend on places.
    epsilon : float
        Of one value.

    Examples
    --------
    >>> from semilocal.functions import coordinate
    >>> from semilocal import Box, Task
    >>> from semilocal.protocol.partition import Partition, Away, Walls
    >>> task = Task.build(Box((0.0,), (1.0,)), epsilon=1.0)
    >>> low, high = (np.array([code], dtype=np.uint64) for code in task.hierarchy.ends)
    >>> middle = low + (high - low) // np.uint64(4)
    >>> walls = Walls(np.array([0, 1]), middle, np.array([400]), np.array([110]))  # nearly all are below
    >>> crowd = np.array([400])
    >>> found = Partition(task, low, high, crowd, 0 * crowd, walls, Away.nobody())
    >>> clips(found, coordinate(0), 1.0).round(2).tolist()
    [[0.0, 0.25]]
    """
    parts = held_by(partition, function, partition.pieces)
    starts = np.searchsorted(parts.region, np.arange(len(partition)))
    low, high = np.minimum.reduceat(parts.low, starts), np.maximum.reduceat(parts.high, starts)
    if isinstance(function, Column):
        return np.stack([low, high], axis=1)
    noise = best(epsilon).worst_variance / np.maximum(partition.crowds, 1)
    step = (high - low) / GRID
    a, b = _look(parts, starts, low, low, step, step, high, noise)
    fine = step / GRID
    a, b = _look(parts, starts, np.maximum(a - step, low), np.maximum(b - step, low), 2 * fine, 2 * fine, high, noise)
    return np.stack([a, np.minimum(np.maximum(a, b), high)], axis=1)


def _look(
    parts: Held, starts: Integers, from_low: Floats, from_high: Floats, low_step: Floats, high_step: Floats,
    most: Floats, noise: Floats,
) -> tuple[Floats, Floats]:  # fmt: skip
    """The best ends on two grids of each region; of equal ones the first."""
    number = np.arange(GRID + 1)
    a = np.minimum(from_low[:, None] + number * low_step[:, None], most[:, None])
    b = np.minimum(from_high[:, None] + number * high_step[:, None], most[:, None])
    above, below = np.zeros(a.shape), np.zeros(a.shape)
    for column in range(GRID + 1):
        above[:, column] = np.add.reduceat(parts.share * parts.above(b[parts.region, column]), starts)
        below[:, column] = np.add.reduceat(parts.share * parts.below(a[parts.region, column]), starts)
    best_low, best_high = np.zeros(len(a)), np.zeros(len(a))
    rows_at_once = max(1, _BATCH // (GRID + 1) ** 2)
    for start in range(0, len(a), rows_at_once):
        rows = slice(start, start + rows_at_once)
        width = np.maximum(b[rows, None, :] - a[rows, :, None], 0.0)
        cost = noise[rows, None, None] * width * width
        cost += (below[rows] ** 2)[:, :, None] + (above[rows] ** 2)[:, None, :]
        cost[b[rows, None, :] < a[rows, :, None]] = np.inf
        one, two = np.divmod(np.argmin(cost.reshape(len(cost), -1), axis=1), GRID + 1)
        each = np.arange(len(cost))
        best_low[rows], best_high[rows] = a[rows][each, one], b[rows][each, two]
    return best_low, best_high
