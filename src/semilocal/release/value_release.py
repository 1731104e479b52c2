"""Function values and their mean, released with noise scaled to each participant's region.

Every participant maps f at its (moved) position into the unit interval by the range of f over its region, and sends
it through a value mechanism that costs ``epsilon`` for any two positions in the region. A participant that was moved
releases at its moved position: a small bias for very few instead of large noise for all.

Knows runs, functions and mechanisms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..accounting import Ledger
from ..arrays import Floats, Integers, short_repr
from ..errors import InvalidInput
from ..functions import as_function
from ..protocol.partition import Partition
from ..randomizer.values.mechanisms import AnyMechanism, best
from ..simulation.run import Run
from ..simulation.values import give_values
from .intervals import standard_errors
from .promised import Promised

__all__ = ["MeanRelease", "ValuesRelease", "mean", "values"]


@dataclass(frozen=True, eq=False)
class ValuesRelease(Promised):
    """One noisy value per participant.

    Attributes
    ----------
    value : float64[n]
        Unbiased for f at the (moved) position; NaN for participants lost to dropout.
    stderr : float64[n]
        Largest standard error of each value: the range of f over the region times the mechanism's.
    partition : Partition
    spent : Ledger
    mechanism : Mechanism
    simulated : bool
        Whether one program played all participants.
    """

    value: Floats
    stderr: Floats
    partition: Partition
    spent: Ledger
    mechanism: AnyMechanism
    simulated: bool = False

    __repr__ = short_repr

    def interval(self, level: float = 0.95) -> Floats:
        """Interval for each value: float64[n, 2]."""
        half = standard_errors(level) * self.stderr
        return np.stack([self.value - half, self.value + half], axis=-1)


@dataclass(frozen=True, eq=False)
class MeanRelease(Promised):
    """A mean with its error.

    Attributes
    ----------
    value : float
        Unbiased for the mean of f over the (moved) positions.
    stderr : float
        Standard error from the mechanism's noise.
    bias_bound : float
        How far moving participants can have shifted the mean: the estimated number of moved participants (plus two of
        its standard errors) times the largest change of f a move can make. 0 if nobody can have been moved.
    participants : int
        Number of participants.
    partition : Partition
    spent : Ledger
    simulated : bool
        Whether one program played all participants.
    """

    value: float
    stderr: float
    bias_bound: float
    participants: int
    partition: Partition
    spent: Ledger
    simulated: bool = False

    __repr__ = short_repr

    @property
    def biased(self) -> bool:
        """Whether the interval leaves out a possible bias; ``interval(widen=True)`` takes it in."""
        return self.bias_bound > 0

    def interval(self, level: float = 0.95, *, widen: bool = False) -> tuple[float, float]:
        """Interval for the mean of f over the (moved) positions.

        Parameters
        ----------
        level : float
        widen : bool
            Add the bias bound on both sides, so that it covers the mean over the true positions.
        """
        half = standard_errors(level) * self.stderr + (self.bias_bound if widen else 0.0)
        return self.value - half, self.value + half


def values(
    run: Run,
    points: npt.ArrayLike,
    f: Any,
    *,
    epsilon: float,
    rng: np.random.Generator,
    mechanism: AnyMechanism | None = None,
    ledger: Ledger | None = None,
) -> ValuesRelease:
    """One noisy value of f per participant, at a cost of ``epsilon`` inside the region.

    Parameters
    ----------
    run : Run
        The finished partition of the same participants.
    points : array_like, shape (n, d)
        Their positions, in the same order.
    f : BoundedFunction
        A function that knows its range over a box; see :mod:`semilocal.functions`.
    epsilon : float
        Loss of the release between any two positions in a region.
    rng : numpy.random.Generator
    mechanism : optional
        A value mechanism of that epsilon; the one with the smallest worst-case variance if left out.
    ledger : Ledger, optional
        What was spent on these people so far, the run included; the run's alone if left out.
    """
    spent = (ledger or Ledger.of(run.task)).settle(run.partition).spend(f"values of {as_function(f).name}", epsilon)
    reports = _release(run, points, f, epsilon, rng, mechanism)
    value = np.full(len(run.regions), np.nan)
    stderr = np.full(len(run.regions), np.nan)
    value[reports.who] = reports.low + reports.decoded * reports.width
    stderr[reports.who] = reports.width * float(np.sqrt(reports.mechanism.worst_variance))
    return ValuesRelease(value, stderr, run.partition, spent, reports.mechanism, run.simulated)


def mean(
    run: Run,
    points: npt.ArrayLike,
    f: Any,
    *,
    epsilon: float,
    rng: np.random.Generator,
    mechanism: AnyMechanism | None = None,
    ledger: Ledger | None = None,
) -> MeanRelease:
    """The mean of f over the participants, at a cost of ``epsilon`` inside the region.

    Parameters are those of :func:`values`.

    Examples
    --------
    >>> import semilocal as sl
    >>> rng = np.random.default_rng(1)
    >>> points = rng.random((20_000, 2))
    >>> run = sl.simulate(points, sl.Task.build(sl.Box((0, 0), (1, 1)), epsilon=1.0, delta=0.01, k=50), rng=rng)
    >>> result = mean(run, points, sl.functions.coordinate(0), epsilon=1.0, rng=rng)
    >>> bool(abs(result.value - points[:, 0].mean()) < 5 * result.stderr)
    True
    """
    spent = (ledger or Ledger.of(run.task)).settle(run.partition).spend(f"mean of {as_function(f).name}", epsilon)
    reports = _release(run, points, f, epsilon, rng, mechanism)
    count = len(reports.who)
    if not count:
        raise InvalidInput("there is nobody to take the mean of")
    value = float(np.mean(reports.low + reports.decoded * reports.width))
    return MeanRelease(
        value,
        float(np.sqrt(_noise_variance(run, reports))) / count,
        _bias_bound(run.partition, f, count),
        count,
        run.partition,
        spent,
        run.simulated,
    )


@dataclass(frozen=True, eq=False)
class _Reports:
    who: Integers
    regions: Integers
    decoded: Floats  # unit scale
    low: Floats
    width: Floats
    mechanism: AnyMechanism


def _release(
    run: Run,
    points: npt.ArrayLike,
    f: Any,
    epsilon: float,
    rng: np.random.Generator,
    mechanism: AnyMechanism | None,
) -> _Reports:
    bounded = as_function(f)
    chosen = best(epsilon) if mechanism is None else mechanism
    if chosen.epsilon != epsilon:
        raise InvalidInput(
            f"the mechanism costs epsilon = {chosen.epsilon:g} inside your region (delta = 0); epsilon must say so, "
            f"got {epsilon!r}"
        )
    given = give_values(
        run, points, bounded, chosen, lambda who: rng.integers(0, 2**64, size=(len(who), chosen.words), dtype=np.uint64)
    )
    return _Reports(given.who, given.regions, chosen.decode(given.outputs), given.low, given.width, chosen)


def _noise_variance(run: Run, reports: _Reports) -> float:
    """Variance of the sum of all released values, from the released values alone.

    The mechanism's variance is nearly constant and concave in the true value, so its value at the estimated mean of a
    region is a slight overestimate of the average over the region's participants.
    """
    regions = len(run.partition)
    crowd = np.bincount(reports.regions, minlength=regions)
    sums = np.bincount(reports.regions, reports.decoded, minlength=regions)
    centre = np.clip(np.divide(sums, crowd, out=np.full(regions, 0.5), where=crowd > 0), 0.0, 1.0)
    width = np.zeros(regions)
    width[reports.regions] = reports.width
    return float(np.sum(crowd * width**2 * reports.mechanism.variance(centre)))


def _bias_bound(partition: Partition, f: Any, count: int) -> float:
    """Largest shift of a mean that the moved participants can have caused, from the public transcript."""
    trims = partition.trims
    if not len(trims.cells):
        return 0.0
    failing = (~trims.kept).sum(axis=1)
    variance = np.array([partition.task.randomizer.variance(partition.task.tau, members=int(m)) for m in failing])
    moved = np.where(trims.kept, 0.0, trims.estimates).sum(axis=1) + 2.0 * np.sqrt(trims.responders * variance)
    ranges = as_function(f).range_over(partition.task.hierarchy.boxes(trims.cells))
    return float(np.sum(np.clip(moved, 0.0, trims.responders) * (ranges[:, 1] - ranges[:, 0])) / count)
