"""The mean of a function under plain differential privacy: one noisy sum over all reports, or one per final cell.

Values become integers from 0 to SCALE, rounded at random so that the sum is unbiased. A sum gets discrete Laplace noise
for the whole range of the function over the domain, so the error is that of central differential privacy (times the
square root of 2 with two servers, which both add noise).

Per cell: the sum of f less the middle of its range over the cell, with noise for that range. Somebody who moves inside
a cell changes one sum by at most the range; somebody who moves to another cell changes two sums by at most half a range
each. Either way the loss is the epsilon of the sums.

Knows positions while it adds up: who runs it is a curator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..accounting import Ledger
from ..arrays import Floats, Integers, exact, short_repr
from ..errors import InvalidInput
from ..functions import as_function, check_values
from ..geometry.box import Box
from ..pooled import noise
from ..pooled.partition import PooledPartition
from ..protocol.promise import Guarantee, Trust
from .intervals import standard_errors
from .pooled_counts import PooledCounts
from .promised import Mapped

__all__ = ["SCALE", "CellMeans", "PooledMean", "cell_means", "pooled_mean"]

SCALE = 1 << 24  # steps of the fixed-point grid: rounding adds at most 1/4 step² per report, noise at least SCALE²


@dataclass(frozen=True, eq=False)
class PooledMean:
    """A mean with its error, under plain differential privacy.

    Attributes
    ----------
    value : float
        Unbiased, then moved into the range of f.
    stderr : float
        From noise and rounding.
    participants : int
        Accepted reports; exact.
    trust : {"curator", "two-servers"}
    spent : Ledger
    rows : int
        Reports that one person may have.
    range : (float, float)
        Of f over the domain.
    simulated : bool
        Whether the noise was seeded, or one program played both servers.
    """

    value: float
    stderr: float
    participants: int
    trust: Trust
    spent: Ledger
    rows: int
    range: tuple[float, float]
    simulated: bool

    __repr__ = short_repr

    bias_bound = 0.0  # nobody is moved
    biased = False

    def interval(self, level: float = 0.95, *, widen: bool = False) -> tuple[float, float]:
        """Interval for the mean of f; ``widen`` changes nothing here, because nobody is moved."""
        half = standard_errors(level) * self.stderr
        low, high = self.range
        return max(self.value - half, low), min(self.value + half, high)

    @property
    def guarantee(self) -> Guarantee:
        """What is promised; print its ``text()``."""
        return Guarantee.plain(
            self.trust,
            float(self.spent.epsilon),
            releases=tuple((entry.what, float(entry.epsilon)) for entry in self.spent.entries),
            rows=self.rows,
            simulated=self.simulated,
        )


@dataclass(frozen=True, eq=False)
class CellMeans(Mapped):
    """The mean of f in every final cell.

    Attributes
    ----------
    value, stderr : float64[m]
        In the order of ``partition``. The middle of the range where nobody is expected.
    ranges : float64[m, 2]
        Of f over the cells.
    partition : PooledPartition
    spent : Ledger
        Of the partition and of the sums.
    """

    value: Floats
    stderr: Floats
    ranges: Floats
    partition: PooledPartition
    spent: Ledger

    __repr__ = short_repr

    def interval(self, level: float = 0.95) -> Floats:
        """Interval for each mean, inside the range of f over the cell: float64[m, 2]."""
        half = standard_errors(level) * self.stderr
        ends = np.stack([self.value - half, self.value + half], axis=1)
        return np.clip(ends, self.ranges[:, :1], self.ranges[:, 1:])


def pooled_mean(
    points: npt.ArrayLike,
    f: Any,
    box: Box,
    *,
    epsilon: float,
    trust: Trust,
    words: noise.Words,
    simulated: bool,
    max_reports: int = 1,
) -> PooledMean:
    """The mean of f, epsilon-differentially private for any change of one person's position (pure).

    Parameters
    ----------
    points : array_like, shape (n, d)
    f : BoundedFunction
    box : Box
        The public domain; the range of f over it sets the noise.
    epsilon : float
    trust : {"curator", "two-servers"}
    words : Words
        Where rounding and noise come from.
    simulated : bool
        Set it if the words are seeded, or one program plays both servers.
    max_reports : int
        Rows that one person may have.
    """
    bounded = as_function(f)
    positions = box.check(points)
    if not len(positions):
        raise InvalidInput("there is nobody to take the mean of")
    spent = Ledger().spend(f"mean of {bounded.name}", epsilon, anywhere=True)
    values, ranges = check_values(bounded, positions, np.array([[box.lower, box.upper]]))
    low, high = map(float, ranges[0])
    width = high - low
    steps = _steps((values - low) / width if width > 0 else np.zeros(len(values)), words)
    noises = 2 if trust == "two-servers" else 1
    rate, once = exact(epsilon) / (SCALE * max_reports), np.ones(noises, dtype=np.int64)
    total = int(steps.sum()) + int(noise.draw(rate, once, words).sum())
    variance = noises * float(noise.variance(rate, 1)) + len(steps) / 4
    unit = width / (SCALE * len(steps))
    value = min(max(low + total * unit, low), high)
    return PooledMean(
        value, float(np.sqrt(variance)) * unit, len(steps), trust, spent, max_reports, (low, high), simulated
    )  # fmt: skip


def cell_means(
    counted: PooledCounts, points: npt.ArrayLike, f: Any, *, epsilon: float, words: noise.Words
) -> CellMeans:
    """The mean of f in every final cell of a pooled run; ``epsilon`` comes on top of what the run cost.

    Parameters
    ----------
    counted : PooledCounts
        The run over the same positions.
    points : array_like, shape (n, d)
    f : BoundedFunction
    epsilon : float
        Loss of the sums for any change of one person's position.
    words : Words
    """
    bounded, partition, task = as_function(f), counted.partition, counted.published.task
    spent = counted.spent.spend(f"mean of {bounded.name} per cell", epsilon, anywhere=True)
    positions = task.box.check(points)
    if len(positions) != counted.total:
        raise InvalidInput(f"points must be the run's {counted.total} reports; got {len(positions)}")
    cells = partition.locate(positions)
    values, ranges = check_values(bounded, positions, partition.boxes, of=cells)
    low, high = ranges.T
    width = high - low
    wide = width[cells] > 0
    unit = np.divide(values - low[cells], width[cells], out=np.full(len(values), 0.5), where=wide)
    steps = _steps(unit, words) - SCALE // 2
    sums = np.zeros(len(partition), dtype=np.int64)
    np.add.at(sums, cells, steps)
    rate = exact(epsilon) / (SCALE * task.max_reports)
    for _ in range(task.noises):
        sums += noise.draw(rate, np.ones(len(sums), dtype=np.int64), words)
    people, doubt = np.maximum(partition.crowds, 1.0), partition.estimates.variances
    offset = np.clip(sums / (SCALE * people), -0.5, 0.5)
    noisy = task.noises * float(noise.variance(rate, 1)) / SCALE**2
    error = np.minimum(np.sqrt(noisy + offset**2 * doubt) / people, 1.0)
    middle = (low + high) / 2
    return CellMeans(middle + offset * width, error * width, ranges, partition, spent)


def _steps(unit: Floats, words: noise.Words) -> Integers:
    """Numbers from 0 to 1 as integers from 0 to SCALE, rounded at random: the expectation is kept."""
    scaled = np.clip(unit, 0.0, 1.0) * SCALE
    lower = np.floor(scaled)
    draws = words(np.arange(len(unit)), 0, 1)[:, 0] >> np.uint64(11)
    up = draws.astype(np.float64) * 2.0**-53 < scaled - lower
    return np.asarray(lower.astype(np.int64) + up)
