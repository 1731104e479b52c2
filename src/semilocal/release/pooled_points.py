"""Synthetic positions drawn from a pooled run's estimates. They cost nothing beyond it: no position is looked at.

Knows estimates. Knows no positions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..arrays import Floats, short_repr
from ..pooled.spread import spread_inside
from .intervals import check_level
from .pooled_counts import PooledCounts

__all__ = ["PooledPoints", "pooled_points"]


@dataclass(frozen=True, eq=False)
class PooledPoints(PooledCounts):
    """As many made-up positions as there were reports; none belongs to anybody. Also the counts they are drawn from.

    Attributes
    ----------
    points : float64[n, d]
        In the order of the domain.
    """

    points: Floats = field(kw_only=True)

    __repr__ = short_repr

    def interval(self, level: float = 1.0) -> Floats:
        """The final cell that each point was drawn in, whatever the level: float64[n, 2, d]."""
        check_level(level, certain=True)
        return self.boxes[self.locate(self.points)]


def pooled_points(counted: PooledCounts, *, rng: np.random.Generator | None = None) -> PooledPoints:
    """Draw synthetic positions from a run's estimates.

    Every part of a final cell gets its estimated count, rounded up or down at random so that the expectation and the
    total are kept; positions are even inside it.

    Parameters
    ----------
    counted : PooledCounts
    rng : numpy.random.Generator, optional
        Protects nothing and costs nothing: everything that is drawn from is public.
    """
    draws = np.random.default_rng() if rng is None else rng
    partition = counted.partition
    deeper, cells, counts = spread_inside(partition.task.hierarchy, partition.cells, partition.crowds)
    # Systematic rounding: whole numbers passed by the running sum, from a random start.
    passed = np.concatenate(([0.0], np.cumsum(counts)))
    passed *= counted.total / passed[-1] if passed[-1] > 0 else 0.0
    numbers = np.diff(np.floor(passed + draws.random()))
    places = np.repeat(cells, numbers.astype(np.int64))
    drawn = deeper.places(places, draws.random((len(places), deeper.box.dimensions)))
    return PooledPoints(counted.published, partition, counted.spent, points=drawn)
