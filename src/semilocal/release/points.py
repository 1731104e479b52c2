"""Positions for learning, instead of the true ones. All of them cost nothing beyond the map they are made from.

Where nobody is trusted every participant's position is replaced by one that its region alone decides. The paper spends
half its budget on a draw around the centre of a region; it need not, because the draw does not look at the position.
Where somebody is trusted positions are drawn from the estimated counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..accounting import Ledger
from ..arrays import Floats
from ..pooled.estimate import PooledPartition, spread_inside
from ..pooled.play import Published
from ..protocol.partition import Partition
from ..simulation.simulate import LOST, Run
from .answers import check_level
from .counts import Counts, Mapped
from .public import public_tree


@dataclass(frozen=True, eq=False, repr=False)
class Points(Mapped):
    """Positions that may be published, and the counts that they are drawn from.

    Attributes
    ----------
    points : float64[n, d]
        Where nobody is trusted one per participant, in their order; NaN for those without a region. Publish them in
        another order (such as that of ``regions``) if the participants' own order tells where they are, as in a file
        that is sorted by place. Else as many made-up positions as there were reports; none belongs to anybody.
    regions : int32[n]
        Index of each position's region; -1 for participants without one.
    stderr : float64[n, d] or None
        Where nobody is trusted root mean square distance, per axis, to where the region's people are estimated to be.
    published : Published or None
        As for :class:`semilocal.release.Counts`.
    """

    points: Floats
    regions: npt.NDArray[np.int32]
    partition: Partition | PooledPartition
    spent: Ledger
    stderr: Floats | None = None
    published: Published | None = None

    def to_table(self) -> dict[str, npt.NDArray[np.float64]]:
        """The positions, one row each and one column per axis."""
        return dict(zip(self.partition.task.box.names, self.points.T, strict=True))

    @property
    def participants(self) -> int:
        """All who took part; exact."""
        return self.total

    def interval(self, level: float = 1.0) -> Floats:
        """The box around the region of each position, whatever the level: float64[n, 2, d].

        Where nobody is trusted it holds the true position with certainty; NaN for participants without a region.
        """
        check_level(level, certain=True)
        out = self.partition.boxes[self.regions]
        out[self.regions == LOST] = np.nan
        return out


class Centres(NamedTuple):
    """Where the people of m regions are, as estimated."""

    middle: Floats  # float64[m, d], mean position; where cells are no boxes the middle of the part with most people
    spread: Floats  # float64[m, d], standard deviation of positions along each axis


def quantize(run: Run, points: npt.ArrayLike) -> Points:
    """Each position becomes the estimated centre of its region (the paper's SLDP-Quantization)."""
    run.check_points(points)
    who, found = np.flatnonzero(run.regions != LOST), centres(run.partition)
    middle, spread = np.full((2, len(run.regions), run.task.box.dimensions), np.nan)
    middle[who], spread[who] = found.middle[run.regions[who]], found.spread[run.regions[who]]
    return Points(middle, run.regions, run.partition, Ledger.of(run.task).settle(run.partition), spread)


def pooled_points(counted: Counts, *, rng: np.random.Generator | None = None) -> Points:
    """Draw synthetic positions from a pooled run's estimates: that costs nothing, because all of them are public.

    Every part of a final cell gets its estimated count, rounded up or down at random so that the expectation and the
    total are kept; positions are even inside it.
    """
    draws = np.random.default_rng() if rng is None else rng
    partition = counted.partition
    assert isinstance(partition, PooledPartition)
    deeper, cells, counts = spread_inside(partition.task.hierarchy, partition.cells, partition.crowds)
    # Systematic rounding: whole numbers passed by the running sum, from a random start.
    passed = np.concatenate(([0.0], np.cumsum(counts)))
    passed *= counted.total / passed[-1] if passed[-1] > 0 else 0.0
    numbers = np.diff(np.floor(passed + draws.random()))
    places = np.repeat(cells, numbers.astype(np.int64))
    drawn = deeper.places(places, draws.random((len(places), deeper.box.dimensions)))
    regions = partition.locate(drawn).astype(np.int32)
    return Points(drawn, regions, partition, counted.spent, published=counted.published)


def centres(partition: Partition) -> Centres:
    """Where the people of each region are, from the public partition alone."""
    tree = public_tree(partition)
    parts, leaves, hierarchy = tree.parts, tree.leaves, tree.hierarchy
    region = (np.searchsorted(partition.lower, tree.lower[leaves], side="right") - 1)[parts.piece]
    people, regions = tree.people[leaves][parts.piece] * parts.share, len(partition)
    begin, end = hierarchy.span(parts.cells)
    weight = people + 1e-9 * ((end - begin).astype(np.float64) + 1.0) / float(2**64)  # also where nobody is
    boxes = hierarchy.boxes(parts.cells)
    places = hierarchy.places(parts.cells, np.full((len(people), hierarchy.box.dimensions), 0.5))
    total = np.bincount(region, weight, minlength=regions)[:, None]

    def averaged(columns: Floats) -> Floats:
        sums = [np.bincount(region, weight * column, minlength=regions) for column in columns.T]
        return np.asarray(np.stack(sums, axis=1) / total)

    if hierarchy.cells_are_boxes:
        middle = averaged(places)
    else:
        order = np.lexsort((weight, region))
        middle = places[order[np.searchsorted(region[order], np.arange(regions), side="right") - 1]]
    around = averaged((places - middle[region]) ** 2 + (boxes[:, 1] - boxes[:, 0]) ** 2 / 12.0)
    return Centres(middle, np.sqrt(around))
