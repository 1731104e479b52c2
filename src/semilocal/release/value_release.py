"""Function values and their mean, released with noise scaled to where the people of each region are.

Every participant clips f at its position to the public range of its region (protocol/clip.py), maps it into the unit
interval and sends it through a value mechanism, which costs ``epsilon`` for any two positions in the region. What
becomes public is how often each output was sent from each region. The mean is computed from that alone, whether devices
sent it (:func:`collected_mean`) or a simulation made it (:func:`mean`).

Knows partitions, runs, functions and mechanisms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..accounting import Ledger
from ..arrays import Floats, Integers, short_repr
from ..errors import InvalidInput
from ..functions import BoundedFunction
from ..protocol.clip import clips, cut_off
from ..protocol.column import own_value
from ..protocol.mark import seeded_by
from ..protocol.messages import ValueClosed
from ..protocol.partition import Partition
from ..protocol.plan import Release
from ..randomizer.values.mechanisms import AnyMechanism, best
from ..simulation.simulate import LOST, Run
from .asked import asked_of
from .intervals import standard_errors
from .promised import Promised
from .streamed import AnyRun, Rows, rows_each, run_batches

__all__ = [
    "MeanRelease",
    "RegionMeans",
    "ValuesRelease",
    "collected_mean",
    "mean",
    "region_values",
    "value_batches",
    "values",
]


@dataclass(frozen=True, eq=False)
class ValuesRelease(Promised):
    """One noisy value per participant.

    Attributes
    ----------
    value : float64[n]
        Unbiased for f at the position, clipped to the range of the region; NaN for participants without a region.
    stderr : float64[n]
        Largest standard error of each value by noise: the width of that range times the mechanism's.
    ranges : float64[m, 2]
        What values are clipped to in each region. Public.
    partition : Partition
    spent : Ledger
    mechanism : Mechanism
    own : str
        The people's own value and its range, in words; empty for a function of the position.
    """

    value: Floats
    stderr: Floats
    ranges: Floats
    partition: Partition
    spent: Ledger
    mechanism: AnyMechanism
    own: str = ""

    __repr__ = short_repr

    def interval(self, level: float = 0.95) -> Floats:
        """Interval for each value, clipped: float64[n, 2]."""
        half = standard_errors(level) * self.stderr
        return np.stack([self.value - half, self.value + half], axis=-1)


class ValueBatch(NamedTuple):
    """Noisy values of some rows, and their largest standard errors: float64[b] each."""

    value: Floats
    stderr: Floats


class RegionMeans(NamedTuple):
    """Means of single regions, one row per region of the partition; NaN where nobody answered.

    ``ranges`` float64[m, 2] is what values were clipped to; ``stderr`` has noise and clipping.
    """

    value: Floats
    stderr: Floats
    responders: Integers
    ranges: Floats


@dataclass(frozen=True, eq=False)
class MeanRelease(Promised):
    """A mean with its error.

    Attributes
    ----------
    value : float
        The mean of the clipped values; unbiased for it, then moved into the range of f.
    stderr : float
        Standard error: noise of the mechanism, and ``clipping``.
    clipping : float
        How far clipping may shift the mean, by the estimated density. It is counted as an error and not taken out: an
        estimate of the few far away is worse than their clipped values.
    range : (float, float)
        Of f over the domain: noise can lead out of it, the truth cannot.
    participants : int
        Number of participants who answered.
    regions : RegionMeans
        With the public ranges that values were clipped to.
    partition : Partition
    spent : Ledger
    own : str
        The people's own value and its range, in words; empty for a function of the position.
    """

    value: float
    stderr: float
    clipping: float
    range: tuple[float, float]
    participants: int
    regions: RegionMeans
    partition: Partition
    spent: Ledger
    own: str = ""

    __repr__ = short_repr

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Interval for the mean of f, inside the range of f. It holds the value."""
        half, (low, high) = standard_errors(level) * self.stderr, self.range
        return max(self.value - half, low), min(self.value + half, high)


def values(
    run: AnyRun,
    points: Rows,
    f: Any,
    *,
    epsilon: float,
    rng: np.random.Generator | None,
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
    rng : numpy.random.Generator or None
        Seeded noise, which protects nobody; the result says so. With None the noise is the operating system's.
    mechanism : optional
        A value mechanism of that epsilon; the one with the smallest worst-case variance if left out.
    ledger : Ledger, optional
        What was spent on these people so far, the run included; the run's alone if left out, for all rows of a person.
    """
    asked = asked_of(f, run.task.hierarchy)
    spent = _spent(run, ledger, f"values of {asked.name}", epsilon, own_value(asked))
    chosen = _mechanism(epsilon, mechanism)
    value, stderr = np.full((2, run.participants), np.nan)
    who = np.flatnonzero(run.regions != LOST) if isinstance(run, Run) else np.arange(run.participants)
    start = 0
    for part in value_batches(run, points, asked, chosen, np.random.default_rng() if rng is None else rng):
        here = who[start : start + len(part.value)]
        value[here], stderr[here] = part
        start += len(here)
    ranges = clips(run.partition, asked, chosen.epsilon)
    return ValuesRelease(value, stderr, ranges, _marked(run, rng), spent, chosen, own_value(asked))


def mean(
    run: AnyRun,
    points: Rows,
    f: Any,
    *,
    epsilon: float,
    rng: np.random.Generator | None,
    mechanism: AnyMechanism | None = None,
    ledger: Ledger | None = None,
) -> MeanRelease:
    """The mean of f over the participants, at a cost of ``epsilon`` inside the region.

    Parameters are those of :func:`values`. A run over a source reads its rows once more, batch by batch; ``points`` is
    then that source.

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
    asked = asked_of(f, run.task.hierarchy)
    what = f"mean of {asked.name}"
    spent = _spent(run, ledger, what, epsilon, own_value(asked))
    chosen = _mechanism(epsilon, mechanism)
    rows, outputs, counts = _outputs(run, points, asked, chosen, np.random.default_rng() if rng is None else rng)
    return _mean(_marked(run, rng), rows, outputs, counts, asked, chosen, spent)


def collected_mean(
    partition: Partition, closed: ValueClosed, release: Release, *, ledger: Ledger | None = None
) -> MeanRelease:
    """The mean that a closed round of values gives, from public messages alone.

    Parameters
    ----------
    partition : Partition
        Of the same task.
    closed : ValueClosed
    release : Release
        What the round asked for; its mechanism and function.
    ledger : Ledger, optional
        What was spent on these people so far, the run and this release included; these alone if left out.

    Raises
    ------
    InvalidInput
        If nobody answered, or a region is none of the partition.
    """
    assert release.mechanism is not None
    f = release.build()
    if ledger is None:
        ledger = Ledger.of(partition.task).spend(f"mean of {f.name}", release.epsilon, own=own_value(f))
    spent = ledger.settle(partition)
    rows, outputs, counts = _sent(partition, closed)
    return _mean(partition, rows, outputs, counts, f, release.mechanism, spent)


def region_values(partition: Partition, closed: ValueClosed, release: Release) -> list[tuple[Floats, list[int]]]:
    """Per region of a closing the values float64[r] that were sent from there, and how often each was."""
    assert release.mechanism is not None
    rows, outputs, counts = _sent(partition, closed)
    ranges = clips(partition, release.build(), release.epsilon)
    decoded = ranges[rows, 0] + (ranges[rows, 1] - ranges[rows, 0]) * release.mechanism.decode(outputs)
    ends = np.cumsum([len(row) for row in closed.counts])[:-1]
    pairs = zip(np.split(decoded, ends), np.split(counts, ends), strict=True)
    return [(values, numbers.tolist()) for values, numbers in pairs][: len(closed.regions)]


def value_batches(
    run: AnyRun, points: Rows, f: BoundedFunction, mechanism: AnyMechanism, rng: np.random.Generator
) -> Iterator[ValueBatch]:
    """Noisy values of everybody with a region, batch by batch, in the order of the rows.

    Each row loses ``mechanism.epsilon`` inside its region, on top of the run: :func:`values` counts that, and is what
    to use unless the values do not fit into memory.
    """
    worst = math.sqrt(mechanism.worst_variance)
    for (low, width, outputs), _ in _sent_values(run, points, f, mechanism, rng):
        yield ValueBatch(low + mechanism.decode(outputs) * width, width * worst)


def _spent(run: AnyRun, ledger: Ledger | None, what: str, epsilon: float, own: str) -> Ledger:
    """The ledger after a release; one that nobody gave is for all rows of a person."""
    spent = (ledger or Ledger.of(run.task)).spend_on(run.partition, what, epsilon, own=own)
    return spent if ledger is not None else spent.times(rows_each(run))


def _sent(partition: Partition, closed: ValueClosed) -> tuple[Integers, Integers, Integers]:
    """What was sent in a round of values: the region's row, the output, and how often. int64[r] each."""
    regions = np.array(closed.regions, dtype=np.uint64).reshape(-1, 2)
    found = np.minimum(np.searchsorted(partition.lower, regions[:, 0]), len(partition) - 1)
    if not (np.array_equal(partition.lower[found], regions[:, 0])
            and np.array_equal(partition.upper[found], regions[:, 1])):  # fmt: skip
        raise InvalidInput("the closing has values of regions that this partition does not have")
    pairs = np.array([pair for row in closed.counts for pair in row], dtype=np.int64).reshape(-1, 2)
    return np.repeat(found, [len(row) for row in closed.counts]), pairs[:, 0], pairs[:, 1]


def _marked(run: AnyRun, rng: np.random.Generator | None) -> Partition:
    """The run's partition, with the mark of what is released on it."""
    mark = seeded_by(rng, run.partition.mark)
    return run.partition if mark == run.partition.mark else replace(run.partition, mark=mark)


def _mean(
    partition: Partition, rows: Integers, outputs: Integers, counts: Integers, f: BoundedFunction,
    mechanism: AnyMechanism, spent: Ledger,
) -> MeanRelease:  # fmt: skip
    total = int(counts.sum())
    if not total:
        raise InvalidInput("there is nobody to take the mean of")
    regions, box = len(partition), partition.task.box
    ranges = clips(partition, f, mechanism.epsilon)
    low, width = ranges[:, 0], ranges[:, 1] - ranges[:, 0]
    least, most = f.range_over([[box.lower, box.upper]])[0].tolist()
    responders = np.bincount(rows, counts, minlength=regions).astype(np.int64)
    sums = np.bincount(rows, counts * mechanism.decode(outputs), minlength=regions)
    share = np.divide(sums, responders, out=np.full(regions, np.nan), where=responders > 0)
    # The mechanism's variance is nearly constant and concave in the true value, so its value at the estimated mean of
    # a region is a slight overestimate of the average over the region's participants.
    noise = width**2 * mechanism.variance(np.clip(np.nan_to_num(share, nan=0.5), 0.0, 1.0))
    off = cut_off(partition, f, ranges)
    clipping = math.hypot(float(responders @ (off.above - off.below)), math.sqrt(float(responders**2 @ off.variance)))
    clipping /= total
    each = np.divide(noise, responders, out=np.full(regions, np.nan), where=responders > 0)
    errors = np.sqrt(each + (off.above - off.below) ** 2 + off.variance)
    value = float(np.sum(responders * low + sums * width) / total)
    return MeanRelease(
        min(max(value, least), most), math.hypot(math.sqrt(float(np.sum(responders * noise))) / total, clipping),
        clipping, (least, most), total,
        RegionMeans(low + share * width, errors, responders, ranges),
        partition, spent, own_value(f),
    )  # fmt: skip


def _mechanism(epsilon: float, mechanism: AnyMechanism | None) -> AnyMechanism:
    chosen = best(epsilon) if mechanism is None else mechanism
    if chosen.epsilon != epsilon:
        raise InvalidInput(
            f"the mechanism costs epsilon = {chosen.epsilon:g} inside your region (delta = 0); epsilon must say so, "
            f"got {epsilon!r}"
        )
    return chosen


def _sent_values(
    run: AnyRun, points: Rows, f: BoundedFunction, mechanism: AnyMechanism, rng: np.random.Generator
) -> Iterator[tuple[tuple[Floats, Floats, Integers], Integers]]:
    """Per batch: low, width and output of everybody with a region, and their regions."""
    ranges = clips(run.partition, f, mechanism.epsilon)
    for positions, regions, part in run_batches(run, points, f):
        low, width = ranges[regions, 0], ranges[regions, 1] - ranges[regions, 0]
        value = np.asarray(part(positions), dtype=np.float64)
        unit = np.divide(value - low, width, out=np.full(len(low), 0.5), where=width > 0)
        words = rng.integers(0, 2**64, size=(len(unit), mechanism.words), dtype=np.uint64)
        yield (low, width, mechanism.release(np.clip(unit, 0.0, 1.0), words)), regions.astype(np.int64)


def _outputs(
    run: AnyRun, points: Rows, f: BoundedFunction, mechanism: AnyMechanism, rng: np.random.Generator
) -> tuple[Integers, Integers, Integers]:
    """What everybody sends: the region's row, the output, and how often. int64[r] each."""
    alphabet = mechanism.alphabet
    sent, counts = np.empty((2, 0), dtype=np.int64)
    for (_, _, given), regions in _sent_values(run, points, f, mechanism, rng):
        here, times = np.unique(regions * len(alphabet) + given - alphabet.start, return_counts=True)
        both, places = np.unique(np.concatenate([sent, here]), return_inverse=True)
        counts = np.bincount(places, np.concatenate([counts, times]), minlength=len(both)).astype(np.int64)
        sent = both
    rows, outputs = np.divmod(sent, len(alphabet))
    return rows, outputs + alphabet.start, counts
