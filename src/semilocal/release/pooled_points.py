"""Synthetic positions drawn from a pooled run's estimates. They cost nothing beyond it: no position is looked at.

Knows estimates. Knows no positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..accounting import Ledger
from ..arrays import Floats, short_repr
from ..pooled.partition import PooledPartition
from ..pooled.spread import spread_inside
from ..protocol.promise import Guarantee
from .pooled_counts import PooledCounts
from .promised import Mapped

__all__ = ["PooledPoints", "pooled_points"]


@dataclass(frozen=True, eq=False)
class PooledPoints(Mapped):
    """As many made-up positions as there were reports; none belongs to anybody.

    Attributes
    ----------
    points : float64[n, d]
        In the order of the domain.
    counts : PooledCounts
        The run that they are drawn from.
    """

    points: Floats
    counts: PooledCounts

    __repr__ = short_repr

    @property
    def partition(self) -> PooledPartition:  # type: ignore[override]
        """The final cells."""
        return self.counts.partition

    @property
    def spent(self) -> Ledger:
        """What the run cost."""
        return self.counts.spent

    @property
    def simulated(self) -> bool:
        """Whether the run is marked as a simulation."""
        return self.counts.simulated

    @property
    def participants(self) -> int:
        """As many as there are points."""
        return self.counts.total

    @property
    def guarantee(self) -> Guarantee:
        """What is promised; print its ``text()``."""
        return self.counts.guarantee


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
    boxes = deeper.boxes(np.repeat(cells, numbers.astype(np.int64)))
    lower, upper = boxes[:, 0], boxes[:, 1]
    return PooledPoints(np.minimum(lower + draws.random(lower.shape) * (upper - lower), upper), counted)
