"""The mean of a function under plain differential privacy: one noisy sum over all reports, or one per final cell.

A report's value becomes an integer from -SCALE / 2 to SCALE / 2: where it lies in the range of f over its cell, rounded
at random so that sums are unbiased (:func:`exact_sums`). Every sum gets discrete Laplace noise (:func:`draw_sums`). A
person who moves inside a cell changes one sum by at most SCALE; one who moves to another cell changes two sums by at
most SCALE / 2 each. Either way the loss is the epsilon of the sums (docs/explanation/proofs.md).

The mean over all takes the whole domain for one cell, so its error is that of central differential privacy (times the
square root of 2 with two servers, which both add noise).

Knows positions while it adds up: who runs it is a curator.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..accounting import Ledger
from ..arrays import Floats, Integers, exact, short_repr
from ..errors import InvalidInput
from ..functions import as_function, check_values
from ..pooled import noise
from ..pooled.estimate import estimate
from ..pooled.partition import PooledPartition
from ..pooled.play import unrefined
from ..pooled.task import PooledTask
from ..protocol.partition import Partition
from ..protocol.promise import Guarantee
from .intervals import standard_errors
from .pooled_counts import PooledCounts, is_simulated, words_from
from .promised import Mapped, promise_of
from .value_release import MeanRelease

__all__ = [
    "SCALE",
    "CellMeans",
    "PooledMean",
    "cell_means",
    "draw_sums",
    "exact_sums",
    "pooled_mean",
    "region_means",
    "sum_rate",
]

SCALE = 1 << 24  # steps of the fixed-point grid: rounding adds at most 1/4 step² per report, noise at least SCALE²


@dataclass(frozen=True, eq=False)
class PooledMean(Mapped):
    """A mean with its error, under plain differential privacy.

    Attributes
    ----------
    value : float
        Unbiased, then moved into the range of f.
    stderr : float
        From noise and rounding.
    range : (float, float)
        Of f over the domain.
    partition : PooledPartition
        One cell, the whole domain: nothing but the number of reports is known about where people are.
    spent : Ledger
    simulated : bool
        Whether the noise was seeded, or one program played both servers.
    """

    value: float
    stderr: float
    range: tuple[float, float]
    partition: PooledPartition
    spent: Ledger
    simulated: bool

    __repr__ = short_repr

    bias_bound = 0.0  # nobody is moved
    biased = False

    @property
    def participants(self) -> int:
        """Accepted reports; exact."""
        return self.total

    def interval(self, level: float = 0.95, *, widen: bool = False) -> tuple[float, float]:
        """Interval for the mean of f; ``widen`` changes nothing here, because nobody is moved."""
        half = standard_errors(level) * self.stderr
        low, high = self.range
        return max(self.value - half, low), min(self.value + half, high)

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is promised; print its ``text()``."""
        task = self.partition.task
        releases = _losses(self.spent)
        return Guarantee.plain(
            task.trust, task.epsilon, releases=releases, rows=task.max_reports, simulated=self.simulated
        )


@dataclass(frozen=True, eq=False)
class CellMeans(Mapped):
    """The mean of f in every region of a map.

    Attributes
    ----------
    value, stderr : float64[m]
        In the order of ``partition``. Pooled: the middle of the range where nobody is expected; public regions: NaN
        where nobody answered, and moved participants count where they were moved to.
    ranges : float64[m, 2]
        Of f over the regions.
    partition : Partition or PooledPartition
    spent : Ledger
        Of the map and of the values.
    simulated : bool
    """

    value: Floats
    stderr: Floats
    ranges: Floats
    partition: Partition | PooledPartition
    spent: Ledger
    simulated: bool

    __repr__ = short_repr

    @property
    def participants(self) -> int:
        """All who took part; exact."""
        return self.total

    def interval(self, level: float = 0.95) -> Floats:
        """Interval for each mean, inside the range of f over the region: float64[m, 2]."""
        half = standard_errors(level) * self.stderr
        ends = np.stack([self.value - half, self.value + half], axis=1)
        return np.clip(ends, self.ranges[:, :1], self.ranges[:, 1:])

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is promised about map and values together; print its ``text()``."""
        return promise_of(self.partition, self.spent, releases=_losses(self.spent)[1:], simulated=self.simulated)


def pooled_mean(
    task: PooledTask, points: npt.ArrayLike, f: Any, *, rng: np.random.Generator | None = None
) -> PooledMean:
    """The mean of f, ``task.epsilon``-differentially private for any change of one person's position (pure).

    Parameters
    ----------
    task : PooledTask
        Its domain, epsilon, trust and ``max_reports`` count; its hierarchy is not used. The range of f over the domain
        sets the noise.
    points : array_like, shape (n, d)
        At most ``task.max_reports`` rows of every person.
    f : BoundedFunction
    rng : numpy.random.Generator, optional
        Seeded noise, which protects nobody; the result says so. Without it the noise is the operating system's.
    """
    bounded, box, words = as_function(f), task.box, words_from(rng)
    positions = box.check(points)
    if not len(positions):
        raise InvalidInput("there is nobody to take the mean of")
    everybody = np.zeros(len(positions), dtype=np.int64)
    values, ranges = check_values(bounded, positions, np.array([[box.lower, box.upper]]))
    found = _noisy(values, ranges, everybody, task, exact(task.epsilon), words)
    low, high = map(float, ranges[0])
    unit = (high - low) / len(positions)
    return PooledMean(
        min(max((low + high) / 2 + float(found.sums[0]) / SCALE * unit, low), high),
        float(np.sqrt(found.variance + len(positions) / 4 / SCALE**2)) * unit,
        (low, high),
        PooledPartition(estimate(unrefined(task, len(positions)))),
        Ledger().spend(f"mean of {bounded.name}", task.epsilon, anywhere=True),
        is_simulated(task.trust, rng),
    )


def cell_means(
    counted: PooledCounts,
    points: npt.ArrayLike,
    f: Any,
    *,
    epsilon: float,
    rng: np.random.Generator | None = None,
) -> CellMeans:
    """The mean of f in every final cell of a pooled run; ``epsilon`` comes on top of what the run cost.

    Parameters
    ----------
    counted : PooledCounts
        The run over the same positions.
    points : array_like, shape (n, d)
    f : BoundedFunction
    epsilon : float
        Loss of the sums for any change of one person's position (pure).
    rng : numpy.random.Generator, optional
        As for :func:`pooled_mean`.
    """
    bounded, partition, task, words = as_function(f), counted.partition, counted.published.task, words_from(rng)
    spent = counted.spent.spend(f"mean of {bounded.name} per cell", epsilon, anywhere=True)
    positions = task.box.check(points)
    if len(positions) != counted.total:
        raise InvalidInput(f"points must be the run's {counted.total} reports; got {len(positions)}")
    cells = partition.locate(positions)
    values, ranges = check_values(bounded, positions, partition.boxes, of=cells)
    found = _noisy(values, ranges, cells, task, exact(epsilon), words)
    low, high = ranges.T
    people, doubt = np.maximum(partition.crowds, 1.0), partition.estimates.variances
    offset = np.clip(found.sums / (SCALE * people), -0.5, 0.5)
    error = np.minimum(np.sqrt(found.variance + offset**2 * doubt) / people, 1.0)
    return CellMeans(
        (low + high) / 2 + offset * (high - low), error * (high - low), ranges, partition, spent,
        counted.simulated or rng is not None,
    )  # fmt: skip


def region_means(found: MeanRelease, f: Any) -> CellMeans:
    """The means of single regions that a mean over all rests on; they cost nothing beyond it."""
    ranges = np.asarray(as_function(f).range_over(found.partition.boxes), dtype=np.float64)
    regions = found.regions
    value = np.clip(regions.value, ranges[:, 0], ranges[:, 1])
    return CellMeans(value, regions.stderr, ranges, found.partition, found.spent, found.simulated)


def _losses(spent: Ledger) -> tuple[tuple[str, float], ...]:
    return tuple((entry.what, float(entry.epsilon)) for entry in spent.entries)


# -- the sums --------------------------------------------------------------------------------------------------------


def exact_sums(unit: Floats, cells: Integers, number: int, words: noise.Words) -> Integers:
    """Sums per cell of values from 0 to 1, as integers around the middle: int64[number].

    Parameters
    ----------
    unit : float64[n]
        From 0 to 1.
    cells : int64[n]
        Whose sum a value goes into.
    words : Words
        Values are rounded at random so that their expectation is kept.
    """
    scaled = np.clip(unit, 0.0, 1.0) * SCALE
    lower = np.floor(scaled)
    draws = words(np.arange(len(unit)), 0, 1)[:, 0] >> np.uint64(11)
    up = draws.astype(np.float64) * 2.0**-53 < scaled - lower
    sums = np.zeros(number, dtype=np.int64)
    np.add.at(sums, cells, lower.astype(np.int64) + up - SCALE // 2)
    return sums


def sum_rate(task: PooledTask, epsilon: Fraction) -> Fraction:
    """Rate of the noise of sums that lose epsilon: all reports of a person change them by SCALE per report at most."""
    return epsilon / (SCALE * task.max_reports)


def draw_sums(sums: Integers, task: PooledTask, rate: Fraction, words: noise.Words) -> Integers:
    """The sums with one draw of noise of each party that adds noise: int64[number]."""
    once = np.ones(len(sums), dtype=np.int64)
    for _ in range(task.noises):
        sums = sums + noise.draw(rate, once, words)
    return sums


class _Noisy(NamedTuple):
    """Noisy sums int64[m] and the variance of the noise of each, divided by SCALE^2."""

    sums: Integers
    variance: float


def _noisy(
    values: Floats, ranges: Floats, cells: Integers, task: PooledTask, epsilon: Fraction, words: noise.Words
) -> _Noisy:
    low, width = ranges[cells, 0], ranges[cells, 1] - ranges[cells, 0]
    unit = np.divide(values - low, width, out=np.full(len(values), 0.5), where=width > 0)
    rate = sum_rate(task, epsilon)
    sums = draw_sums(exact_sums(unit, cells, len(ranges), words), task, rate, words)
    return _Noisy(sums, task.noises * float(noise.variance(rate, 1)) / SCALE**2)
