"""How the crowd of a region divides among its children, as far as the last round tells.

The round's estimates are shrunk towards an even division by what is known of their noise. They also tell how unevenly
people lie in the regions of this run.

Knows a partition. Knows no queries and no moves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Integers
from ..hierarchy.base import Cells
from ..protocol.partition import Partition

__all__ = ["Tiles"]


_SPREAD = 0.25  # standard deviation of a child's share among real regions; sets how far estimates are shrunk
_LEAST_SHARE = 0.02  # no child of a region is taken to be quite empty


class Tiles(NamedTuple):
    """The children of regions that were asked for them, and whole regions that were not."""

    cells: Cells  # in the order of the curve
    boxes: Floats
    regions: Integers
    people: Floats  # who act from there; they add up to the crowds
    variances: Floats
    clumping: float  # see below

    @staticmethod
    def of(partition: Partition) -> Tiles:
        """Divide the crowds.

        ``clumping`` is the chance that one of two people of a region draws the other into its own child, over an even
        division: 0 if they lie evenly, 1 if they always lie together.
        """
        task = partition.task
        asked = ~np.isnan(partition.estimates).any(axis=1)
        fanout = task.randomizer.fanout
        even = 1.0 / fanout
        crowd = np.maximum(partition.crowds[asked], 1).astype(np.float64)
        noise = task.randomizer.variance(even) / crowd  # variance of an estimated share
        share = partition.estimates[asked] / crowd[:, None]
        clumping = _clumping(((share - even) ** 2).mean(axis=1) - noise, noise, widest=even * (1.0 - even))
        trust = _SPREAD**2 / (_SPREAD**2 + noise)
        share = np.maximum(even + (share - even) * trust[:, None], _LEAST_SHARE)
        share /= share.sum(axis=1, keepdims=True)
        people = partition.crowds[asked][:, None] * share
        variance = np.broadcast_to((partition.crowds[asked] ** 2 * trust * noise)[:, None], share.shape)
        whole = np.flatnonzero(~asked)
        cells = np.concatenate([task.hierarchy.children(partition.cells[asked]), partition.cells[whole]])
        regions = np.concatenate([np.repeat(np.flatnonzero(asked), fanout), whole])
        numbers = np.concatenate([people.ravel(), partition.crowds[whole]])
        variances = np.concatenate([variance.ravel(), np.zeros(len(whole))])
        order = np.argsort(task.hierarchy.span(cells)[0])
        cells = cells[order]
        return Tiles(
            cells, task.hierarchy.boxes(cells), regions[order], numbers[order], variances[order], clumping
        )  # fmt: skip


def _clumping(excess: Floats, noise: Floats, *, widest: float) -> float:
    """Variance of true shares over the widest there can be, by moments.

    Regions count by how well they are known; what is usual counts like one more region without noise.
    """
    usual = _SPREAD**2
    weight = np.append(1.0 / (usual + noise) ** 2, 1.0 / usual**2)
    found = float(np.average(np.append(excess, usual), weights=weight))
    return min(max(found / widest, 0.0), 1.0)
