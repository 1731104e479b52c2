"""Positions for learning: every participant's position replaced by one that its region alone decides.

Both releases are post-processing of the public partition, so they cost nothing beyond it. The paper spends half its
budget on the second one; it need not, because a draw around the centre of a region does not look at the position.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..accounting import Ledger
from ..arrays import Floats, Integers, as_number, short_repr
from ..errors import InvalidInput
from ..geometry.box import Box
from ..protocol.partition import Partition
from ..simulation.run import LOST, Run
from .intervals import check_level
from .promised import Promised

__all__ = ["PointsRelease", "centres", "draws", "quantize", "resample"]


@dataclass(frozen=True, eq=False)
class PointsRelease(Promised):
    """One position per participant.

    Attributes
    ----------
    points : float64[n, d]
        In the order of the participants; NaN for those lost to dropout. Publish them in another order (such as that of
        ``regions``) if the participants' own order tells where they are, as in a file that is sorted by place.
    stderr : float64[n, d]
        Root mean square distance, per axis, to a position spread evenly over the region.
    clipped : int
        How many draws fell outside the domain and were moved to its edge.
    regions : int32[n]
        Index of each participant's region; -1 for participants lost to dropout.
    partition : Partition
    spent : Ledger
    """

    points: Floats
    stderr: Floats
    clipped: int
    regions: npt.NDArray[np.int32]
    partition: Partition
    spent: Ledger

    __repr__ = short_repr

    def interval(self, level: float = 1.0) -> Floats:
        """The region that holds each position (with certainty, but for moved participants): float64[n, 2, d].

        NaN for participants lost to dropout.
        """
        check_level(level, certain=True)
        out = self.partition.boxes[self.regions]
        out[self.regions == LOST] = np.nan
        return out


def quantize(
    run: Run, points: npt.ArrayLike, *, ledger: Ledger | None = None, public_data: bool = False
) -> PointsRelease:
    """Each position becomes the centre of its region (the paper's SLDP-Quantization).

    Parameters
    ----------
    public_data : bool
        All positions are public: only then are there points with rule "each", where it is not public who is left behind
        in which part.
    """
    partition = run.partition.to_publish(public_data=public_data)
    who, boxes = _regions(run, points)
    out = np.full((len(run.regions), run.task.box.dimensions), np.nan)
    out[who] = partition.middles[run.regions[who]]
    stderr = np.full(out.shape, np.nan)
    stderr[who] = (boxes[:, 1] - boxes[:, 0]) / np.sqrt(12.0)
    spent = (ledger or Ledger.of(run.task)).settle(run.partition)
    return PointsRelease(out, stderr, 0, run.regions, partition, spent)


def resample(
    run: Run,
    points: npt.ArrayLike,
    *,
    epsilon: float,
    rng: np.random.Generator,
    ledger: Ledger | None = None,
    public_data: bool = False,
) -> PointsRelease:
    """Each position becomes a Laplace draw around the centre of its region (the paper's SLDP-Split).

    Parameters
    ----------
    epsilon : float
        The scale on an axis is the region's width divided by epsilon. It is a parameter of the spread, not a cost.
    public_data : bool
        As for :func:`quantize`.
    """
    partition = run.partition.to_publish(public_data=public_data)
    if not run.task.hierarchy.cells_are_boxes:
        raise InvalidInput("resample draws around the middles of boxes; on this hierarchy use quantize")
    who, boxes = _regions(run, points)
    widths = boxes[:, 1] - boxes[:, 0]
    drawn, clipped = draws(boxes, run.task.box, epsilon=epsilon, rng=rng)
    out = np.full((len(run.regions), run.task.box.dimensions), np.nan)
    out[who] = drawn
    stderr = np.full(out.shape, np.nan)
    stderr[who] = widths * np.sqrt(1.0 / 12.0 + 2.0 / epsilon**2)
    spent = (ledger or Ledger.of(run.task)).settle(run.partition)
    return PointsRelease(out, stderr, clipped, run.regions, partition, spent)


def centres(boxes: Floats) -> Floats:
    """Middle of each box float64[n, 2, d]: float64[n, d]."""
    return np.asarray(boxes.mean(axis=1))


def draws(boxes: Floats, domain: Box, *, epsilon: float, rng: np.random.Generator) -> tuple[Floats, int]:
    """A Laplace draw around the middle of each box float64[n, 2, d], within the domain, and how many were clipped."""
    epsilon = as_number(epsilon, "epsilon", positive=True)
    widths = boxes[:, 1] - boxes[:, 0]
    drawn, clipped = domain.nearest(centres(boxes) + rng.laplace(size=widths.shape) * widths / epsilon)
    return drawn, clipped


def _regions(run: Run, points: npt.ArrayLike) -> tuple[Integers, Floats]:
    run.check_points(points)
    who = np.flatnonzero(run.regions != LOST)
    return who, run.partition.boxes[run.regions[who]]
