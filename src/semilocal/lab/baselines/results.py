"""What the baselines return: numbers, and the guarantee they were bought with.

Knows how to answer queries about a finished result. Knows no mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy.typing as npt

from ...arrays import Floats, short_repr
from ...geometry.box import Box
from ...protocol.promise import Guarantee
from ...release.answers import Answers, check_level, standard_errors
from .boxes import BoxCounts

__all__ = ["MeanEstimate", "ReleasedPoints", "SpatialCounts"]


@dataclass(frozen=True)
class MeanEstimate:
    """An estimated mean.

    Attributes
    ----------
    value : float
    stderr : float
        Standard deviation of the noise, known exactly and independent of the data (unless ``guarantee`` notes
        otherwise). The mean of the participants is the target: there is no sampling error in it.
    shape : str
        ``"laplace"`` or ``"normal"``: the distribution of the noise that intervals use.
    guarantee : Guarantee
    """

    value: float
    stderr: float
    shape: str
    guarantee: Guarantee

    __repr__ = short_repr

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Two-sided interval for the participants' mean."""
        check_level(level)
        if self.shape == "laplace":
            half = -math.log1p(-level) * self.stderr / math.sqrt(2)
        else:
            half = standard_errors(level) * self.stderr
        return self.value - half, self.value + half


@dataclass(frozen=True, eq=False)
class ReleasedPoints:
    """Perturbed positions, one per participant.

    Attributes
    ----------
    points : float64[n, d]
    clipped : int
        How many draws fell outside the domain and were moved to its nearest point; 0 if clipping was off.
    guarantee : Guarantee
    """

    points: Floats
    clipped: int
    guarantee: Guarantee

    __repr__ = short_repr


@dataclass(frozen=True, eq=False)
class SpatialCounts:
    """Counts in disjoint boxes with the guarantee they were released under.

    Attributes
    ----------
    regions : BoxCounts
        Boxes, counts and variances. Where counts were made consistent across a tree their errors are
        negatively correlated; treating them as independent makes the standard errors of large queries too
        large, not too small.
    guarantee : Guarantee
    """

    regions: BoxCounts
    guarantee: Guarantee

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.regions)

    @property
    def boxes(self) -> Floats:
        """Lower and upper corners, float64[m, 2, d]."""
        return self.regions.boxes

    @property
    def counts(self) -> Floats:
        """Released count per box, float64[m]."""
        return self.regions.counts

    @property
    def total(self) -> float:
        """Sum of the released counts."""
        return self.regions.total

    def query(self, boxes: npt.ArrayLike) -> Answers:
        """Answers to range queries, boxes of shape (q, 2, d); as :meth:`BoxCounts.query`."""
        return self.regions.query(boxes)

    def density(self, grid: Iterable[int], domain: Box | None = None) -> Floats:
        """Expected count per grid cell; as :meth:`BoxCounts.density`."""
        return self.regions.density(grid, domain)
