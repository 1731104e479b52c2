"""Function values and their mean, released with noise scaled to each participant's region.

Every participant maps f at the position it acts from into the unit interval by the range of f over its region, and
sends it through a value mechanism that costs ``epsilon`` for any two positions in the region. What becomes public is
how often each output was sent from each region. The mean is computed from that alone, whether devices sent it
(:func:`collected_mean`) or a simulation made it (:func:`mean`).

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
from ..protocol.column import own_value
from ..protocol.mark import seeded_by
from ..protocol.messages import ValueClosed
from ..protocol.partition import Partition
from ..protocol.plan import Release
from ..protocol.values import unit_values
from ..randomizer.values.mechanisms import AnyMechanism, best
from ..simulation.run import LOST, Run
from ._shift import Shift, shift_of
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
        Unbiased for f at the (moved) position; NaN for participants lost to dropout.
    stderr : float64[n]
        Largest standard error of each value: the range of f over the region times the mechanism's.
    partition : Partition
    spent : Ledger
    mechanism : Mechanism
    own : str
        The people's own value and its range, in words; empty for a function of the position.
    """

    value: Floats
    stderr: Floats
    partition: Partition
    spent: Ledger
    mechanism: AnyMechanism
    own: str = ""

    __repr__ = short_repr

    def interval(self, level: float = 0.95) -> Floats:
        """Interval for each value: float64[n, 2]."""
        half = standard_errors(level) * self.stderr
        return np.stack([self.value - half, self.value + half], axis=-1)


class ValueBatch(NamedTuple):
    """Noisy values of some rows, and their largest standard errors: float64[b] each."""

    value: Floats
    stderr: Floats


class RegionMeans(NamedTuple):
    """Means of single regions, one row per region of the partition; NaN where nobody answered."""

    value: Floats
    stderr: Floats
    responders: Integers


@dataclass(frozen=True, eq=False)
class MeanRelease(Promised):
    """A mean with its error.

    Attributes
    ----------
    value : float
        The mean over the positions that participants act from, corrected for what moving them likely did to it, then
        moved into the range of f.
    acting : float
        Unbiased for the mean of f over the positions that participants act from.
    stderr : float
        Standard error from the mechanism's noise.
    range : (float, float)
        Of f over the domain: noise can lead out of it, the truth cannot.
    shift : Shift
        What moving participants may have done to the sum.
    participants : int
        Number of participants who answered.
    regions : RegionMeans
        Of the positions that participants act from.
    partition : Partition
    spent : Ledger
    own : str
        The people's own value and its range, in words; empty for a function of the position.
    """

    acting: float
    stderr: float
    range: tuple[float, float]
    shift: Shift
    participants: int
    regions: RegionMeans
    partition: Partition
    spent: Ledger
    own: str = ""

    __repr__ = short_repr

    @property
    def value(self) -> float:
        """The mean, corrected for what moving participants likely did to it."""
        return self._possible(self.acting + self.shift.likely / self.participants)

    @property
    def bias_bound(self) -> float:
        """How far moving participants can have shifted the mean, with two standard errors; 0 if nobody was moved."""
        far = max(abs(self.shift.likely), abs(self.shift.expected)) + 2.0 * math.sqrt(self.shift.variance)
        return far / self.participants

    @property
    def biased(self) -> bool:
        """Whether anybody can have been moved."""
        return self.bias_bound > 0

    def interval(self, level: float = 0.95, *, widen: bool = True) -> tuple[float, float]:
        """Interval for the mean of f over the true positions, inside the range of f. It holds the value.

        Parameters
        ----------
        level : float
        widen : bool
            If not, it is for the mean over the positions that participants act from: noise alone, and nothing for
            participants who were moved.
        """
        # Around a mean that is possible: one beyond the range would leave a single point of it.
        width, middle = standard_errors(level), self._possible(self.acting)
        half, ends = width * self.stderr, [0.0]
        if widen:
            half = width * math.hypot(self.stderr, math.sqrt(self.shift.variance) / self.participants)
            # Where in a trimmed part its people live is not known: evenly, or all next to what is kept, as they act.
            ends += [self.shift.expected, self.shift.likely]
        low, high = min(ends) / self.participants - half, max(ends) / self.participants + half
        return self._possible(middle + low), self._possible(middle + high)

    def _possible(self, mean: float) -> float:
        """The mean nearest to it that f can have."""
        low, high = self.range
        return min(max(mean, low), high)


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
    partition = _marked(run, rng).with_public_crowds(run.partition.crowds)  # everybody sends a value for their region
    return ValuesRelease(value, stderr, partition, spent, chosen, own_value(asked))


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
        If nobody answered, or a cell is no region of the partition.
    """
    assert release.mechanism is not None
    f = release.build()
    if ledger is None:
        ledger = Ledger.of(partition.task).spend(f"mean of {f.name}", release.epsilon, own=own_value(f))
    spent = ledger.settle(partition)
    rows, outputs, counts = _sent(partition, closed)
    return _mean(partition, rows, outputs, counts, f, release.mechanism, spent)


def _spent(run: AnyRun, ledger: Ledger | None, what: str, epsilon: float, own: str) -> Ledger:
    """The ledger after a release; one that nobody gave is for all rows of a person."""
    spent = (ledger or Ledger.of(run.task)).spend_on(run.partition, what, epsilon, own=own)
    return spent if ledger is not None else spent.times(rows_each(run))


def _sent(partition: Partition, closed: ValueClosed) -> tuple[Integers, Integers, Integers]:
    """What was sent in a round of values: the region's row, the output, and how often. int64[r] each."""
    order = np.argsort(partition.cells)
    cells = np.array(closed.cells, dtype=np.uint64)
    found = np.minimum(np.searchsorted(partition.cells, cells, sorter=order), len(order) - 1)
    if len(cells) and not np.array_equal(partition.cells[order[found]], cells):
        raise InvalidInput("the closing has values of cells that are not regions of this partition")
    pairs = np.array([pair for row in closed.counts for pair in row], dtype=np.int64).reshape(-1, 2)
    return np.repeat(order[found], [len(row) for row in closed.counts]), pairs[:, 0], pairs[:, 1]


def region_values(partition: Partition, closed: ValueClosed, release: Release) -> list[tuple[Floats, list[int]]]:
    """Per cell of a closing the values float64[r] that were sent from there, and how often each was."""
    assert release.mechanism is not None
    rows, outputs, counts = _sent(partition, closed)
    ranges = release.build().range_over(partition.boxes)
    decoded = ranges[rows, 0] + (ranges[rows, 1] - ranges[rows, 0]) * release.mechanism.decode(outputs)
    ends = np.cumsum([len(row) for row in closed.counts])[:-1]
    pairs = zip(np.split(decoded, ends), np.split(counts, ends), strict=True)
    return [(values, numbers.tolist()) for values, numbers in pairs][: len(closed.cells)]


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
    regions = len(partition)
    ranges, box = f.range_over(partition.boxes), partition.task.box
    low, width = ranges[:, 0], ranges[:, 1] - ranges[:, 0]
    least, most = f.range_over([[box.lower, box.upper]])[0].tolist()
    responders = np.bincount(rows, counts, minlength=regions).astype(np.int64)
    partition = partition.with_public_crowds(responders)
    sums = np.bincount(rows, counts * mechanism.decode(outputs), minlength=regions)
    share = np.divide(sums, responders, out=np.full(regions, np.nan), where=responders > 0)
    # The mechanism's variance is nearly constant and concave in the true value, so its value at the estimated mean of
    # a region is a slight overestimate of the average over the region's participants.
    noise = width**2 * mechanism.variance(np.clip(np.nan_to_num(share, nan=0.5), 0.0, 1.0))
    error = np.sqrt(np.divide(noise, responders, out=np.full(regions, np.nan), where=responders > 0))
    return MeanRelease(
        float(np.sum(responders * low + sums * width) / total), math.sqrt(float(np.sum(responders * noise))) / total,
        (least, most), shift_of(partition, f), total, RegionMeans(low + share * width, error, responders),
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


def value_batches(
    run: AnyRun, points: Rows, f: BoundedFunction, mechanism: AnyMechanism, rng: np.random.Generator
) -> Iterator[ValueBatch]:
    """Noisy values of everybody with a region, batch by batch, in the order of the rows.

    Each row loses ``mechanism.epsilon`` inside its region, on top of the run: :func:`values` counts that, and is what
    to use unless the values do not fit into memory.
    """
    worst = math.sqrt(mechanism.worst_variance)
    for unit, _ in _sent_values(run, points, f, mechanism, rng):
        low, width, outputs = unit
        yield ValueBatch(low + mechanism.decode(outputs) * width, width * worst)


def _sent_values(
    run: AnyRun, points: Rows, f: BoundedFunction, mechanism: AnyMechanism, rng: np.random.Generator
) -> Iterator[tuple[tuple[Floats, Floats, Integers], Integers]]:
    """Per batch: low, width and output of everybody with a region, and their regions."""
    boxes = run.partition.boxes
    for acting, regions, part in run_batches(run, points, f):
        unit, low, width = unit_values(part, acting, boxes, of=regions)
        words = rng.integers(0, 2**64, size=(len(unit), mechanism.words), dtype=np.uint64)
        yield (low, width, mechanism.release(unit, words)), regions.astype(np.int64)


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
