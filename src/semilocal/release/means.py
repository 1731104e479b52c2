"""Means and values: of a function of the position, or of a number of people's own.

Where nobody is trusted every participant clips f at its position to the public range of its region (protocol/clip.py),
maps it into the unit interval and sends it through a value mechanism. That costs ``epsilon`` for any two positions in
the region. What becomes public is how often each output was sent from each region. The mean follows from that alone,
whether devices sent it (:func:`collected_mean`) or a simulation made it (:func:`mean`).

Where somebody is trusted there is one noisy sum for all, or one per final cell (pooled/values.py). The mean over all
takes the whole domain for one cell, so its error is that of central differential privacy (times the square root of 2
with two servers, which both add noise). With two servers the grid is the one that devices use, so a simulation has the
error of the running pair.

Rows may come in batches, in their order, and noise is drawn in that order, so the size of the batches changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ..accounting import Ledger
from ..arrays import Floats, Integers, exact
from ..engines.run import SourceRun
from ..engines.source import Source, attached_batches
from ..errors import InvalidInput
from ..functions import BoundedFunction, as_function, check_values
from ..geometry.areas import Areas, Boxes, as_areas
from ..geometry.box import Box
from ..geometry.polygons import Polygons
from ..hierarchy.base import Hierarchy
from ..pooled.estimate import estimate
from ..pooled.loss import presence_note
from ..pooled.partition import PooledPartition
from ..pooled.play import unrefined
from ..pooled.task import PooledTask
from ..pooled.values import (
    SCALE,
    VALUE_BITS,
    ValueGrid,
    add_up,
    cell_grids,
    means_of,
    round_values,
    shared_grid,
    sum_noise,
)
from ..protocol.clip import clips, cut_off
from ..protocol.column import Column, own_value
from ..protocol.mark import Mark, seeded_by
from ..protocol.messages import ValueClosed
from ..protocol.partition import Partition
from ..protocol.plan import Release
from ..protocol.promise import Guarantee, marked
from ..randomizer.values import AnyMechanism, best
from ..simulation.simulate import LOST, Run
from ..tabular import Tabular, known
from .answers import standard_errors, what_helps
from .counts import AnyRun, Counts, Mapped, Rows, check_reports, mark_of, promise_of, rows_each, words_from

__all__ = [
    "Mean", "Means", "RegionMeans", "Values", "asked_of", "cell_means", "check_stored", "collected_mean", "count_rows",
    "mean", "mean_of_sum", "means_of_sums", "pooled_mean", "region_means", "region_values", "values",
]  # fmt: skip

_CELLS_AT_ONCE = 256  # a polygon is copied for each


class RegionMeans(NamedTuple):
    """Means of single regions, one row per region of the partition; NaN where nobody answered.

    ``ranges`` float64[m, 2] is what values were clipped to; ``stderr`` has noise and clipping.
    """

    value: Floats
    stderr: Floats
    responders: Integers
    ranges: Floats


@dataclass(frozen=True, eq=False, repr=False)
class Mean(Mapped):
    """A mean with its error.

    Attributes
    ----------
    value : float
        Unbiased (for the clipped values where nobody is trusted), then moved into the range of f.
    stderr : float
        Standard error: noise, rounding, and ``clipping``.
    range : (float, float)
        Of f over the domain: noise can lead out of it, the truth cannot.
    participants : int
        Number of participants who answered; exact.
    partition : Partition or PooledPartition
        Where somebody is trusted one cell, the whole domain: nothing but the number of reports is known about places.
    spent : Ledger
    own : str
        The people's own value and its range, in words; empty for a function of the position.
    clipping : float
        How far clipping may shift the mean, by the estimated density. It is counted as an error and not taken out: an
        estimate of the few far away is worse than their clipped values.
    regions : RegionMeans or None
        What it rests on where nobody is trusted, with the public ranges that values were clipped to.
    """

    value: float
    stderr: float
    range: tuple[float, float]
    participants: int
    partition: Partition | PooledPartition
    spent: Ledger
    own: str = ""
    clipping: float = 0.0
    regions: RegionMeans | None = None

    def to_table(self, level: float = 0.95) -> dict[str, npt.NDArray[Any]]:
        """One row: what it is the mean of, the estimate, both ends of the interval, and its level."""
        value, *ends = known([self.value, *self.interval(level)], self.stderr)
        row = {"name": self.spent.entries[-1].what, "estimate": value, "low": ends[0], "high": ends[1], "level": level}
        return {name: np.array([entry]) for name, entry in row.items()}

    def caution(self, level: float = 0.95) -> str:
        """What to say if the interval tells next to nothing, three quarters of the range or more; else nothing."""
        (low, high), (least, most) = self.interval(level), self.range
        if high - low < 0.75 * (most - least) or most == least:
            return ""
        return f"The interval says next to nothing: it is most of the range. {what_helps(self, 'a smaller range')}"

    def _below(self) -> str:
        return "\n".join(filter(None, [f"of {self.counted}; {self.guarantee}", self.caution()]))

    __repr__ = Tabular.__repr__

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Interval for the mean of f, inside the range of f. It holds the value."""
        half, (low, high) = standard_errors(level) * self.stderr, self.range
        return max(self.value - half, low), min(self.value + half, high)

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is promised; its ``explain()`` is the whole statement."""
        if isinstance(self.partition, Partition):
            found = promise_of(self.partition, self.spent)
            return msgspec.structs.replace(found, own=self.own) if self.own else found
        task = self.partition.task
        return Guarantee.plain(
            task.trust, task.epsilon, releases=_losses(self.spent), rows=task.max_reports, own=self.own,
            notes=(presence_note(task.epsilon / 2),), **marked(self.partition.mark),
        )  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Means(Mapped):
    """The mean of f in every region of a map.

    Attributes
    ----------
    value, stderr : float64[m]
        In the order of ``partition``. Pooled: the middle of the range where nobody is expected; public regions: NaN
        where nobody answered.
    ranges : float64[m, 2]
        Of f over the regions.
    partition : Partition or PooledPartition
    spent : Ledger
        Of the map and of the values.
    own : str
        As for :class:`Mean`.
    """

    value: Floats
    stderr: Floats
    ranges: Floats
    partition: Partition | PooledPartition
    spent: Ledger
    own: str = ""

    @property
    def participants(self) -> int:
        """All who took part; exact."""
        return self.total

    def interval(self, level: float = 0.95) -> Floats:
        """Interval for each mean, inside the range of f over the region: float64[m, 2]."""
        half = standard_errors(level) * self.stderr
        ends = np.stack([self.value - half, self.value + half], axis=1)
        return np.clip(ends, self.ranges[:, :1], self.ranges[:, 1:])

    def meeting(self, areas: Any) -> list[Integers]:
        """Rows of the regions that meet each area; of regions that are not boxes, those whose bounding box does.

        Parameters
        ----------
        areas : array_like of shape (q, 2, d), or polygons
            As for :meth:`query`.
        """
        asked, boxes = as_areas(areas, self.partition.task.box), self.partition.boxes
        shapes: Areas = asked if isinstance(asked, Polygons) else Boxes(asked)
        every = np.arange(len(boxes))
        return [
            np.concatenate(
                [
                    part[shapes.take(np.full(len(part), number)).within(boxes[part])[1]]
                    for part in np.split(every, every[_CELLS_AT_ONCE::_CELLS_AT_ONCE])
                ]
            )
            for number in range(len(shapes))
        ]

    def _regions(self) -> dict[str, npt.NDArray[Any]]:
        """The regions as columns, one row each, with ``mean`` and ``mean_stderr``."""
        return super()._regions() | {"mean": self.value, "mean_stderr": self.stderr}

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is promised about map and values together; its ``explain()`` is the whole statement."""
        found = promise_of(self.partition, self.spent, releases=_losses(self.spent)[1:])
        return msgspec.structs.replace(found, own=self.own)


@dataclass(frozen=True, eq=False, repr=False)
class Values(Mapped):
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

    def to_table(self) -> dict[str, npt.NDArray[Any]]:
        """One row per participant, in their order."""
        return {"value": self.value, "stderr": self.stderr}

    def interval(self, level: float = 0.95) -> Floats:
        """Interval for each value, clipped: float64[n, 2]."""
        half = standard_errors(level) * self.stderr
        return np.stack([self.value - half, self.value + half], axis=-1)


# -- nobody is trusted -------------------------------------------------------------------------------------------------


class _Sent(NamedTuple):
    """What people sent from the regions: row of the region, output, and how often. int64[r] each."""

    rows: Integers
    outputs: Integers
    counts: Integers


def values(
    run: AnyRun, points: Rows, f: Any, *, epsilon: float, rng: np.random.Generator | None, ledger: Ledger | None = None
) -> Values:
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
        Of the simulated devices; a seed is repeatable, and the result says so. With None numpy's generator is seeded by
        the operating system. Real devices derive their noise from secrets of their own.
    ledger : Ledger, optional
        What was spent on these people so far, the run included; the run's alone if left out, for all rows of a person.
    """
    asked = asked_of(f, run.task.hierarchy)
    spent = _spent(run, ledger, f"values of {asked.name}", epsilon, own_value(asked))
    chosen = best(epsilon)
    value, stderr = np.full((2, run.participants), np.nan)
    who = np.flatnonzero(run.regions != LOST) if isinstance(run, Run) else np.arange(run.participants)
    start, worst = 0, math.sqrt(chosen.worst_variance)
    draws = np.random.default_rng() if rng is None else rng
    for (low, width, outputs), _ in _sent_values(run, points, asked, chosen, draws):
        here = who[start : start + len(outputs)]
        value[here], stderr[here] = low + chosen.decode(outputs) * width, width * worst
        start += len(here)
    ranges = clips(run.partition, asked, chosen.epsilon)
    return Values(value, stderr, ranges, _marked(run, rng), spent, chosen, own_value(asked))


def mean(
    run: AnyRun, points: Rows, f: Any, *, epsilon: float, rng: np.random.Generator | None, ledger: Ledger | None = None
) -> Mean:
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
    spent = _spent(run, ledger, f"mean of {asked.name}", epsilon, own_value(asked))
    chosen = best(epsilon)
    sent = _outputs(run, points, asked, chosen, np.random.default_rng() if rng is None else rng)
    return _mean(_marked(run, rng), sent, asked, chosen, spent)


def collected_mean(
    partition: Partition, closed: ValueClosed, release: Release, *, ledger: Ledger | None = None
) -> Mean:
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
    return _mean(partition, _sent(partition, closed), f, release.mechanism, spent)


def region_means(found: Mean, f: Any) -> Means:
    """The means of single regions that a mean over all rests on; they cost nothing beyond it."""
    regions = found.regions
    assert regions is not None
    ranges = np.asarray(as_function(f).range_over(found.partition.boxes), dtype=np.float64)
    value = np.clip(regions.value, ranges[:, 0], ranges[:, 1])
    return Means(value, regions.stderr, ranges, found.partition, found.spent, found.own)


def region_values(partition: Partition, closed: ValueClosed, release: Release) -> list[tuple[Floats, list[int]]]:
    """Per region of a closing the values float64[r] that were sent from there, and how often each was."""
    assert release.mechanism is not None
    rows, outputs, counts = _sent(partition, closed)
    ranges = clips(partition, release.build(), release.epsilon)
    decoded = ranges[rows, 0] + (ranges[rows, 1] - ranges[rows, 0]) * release.mechanism.decode(outputs)
    ends = np.cumsum([len(row) for row in closed.counts])[:-1]
    pairs = zip(np.split(decoded, ends), np.split(counts, ends), strict=True)
    return [(values, numbers.tolist()) for values, numbers in pairs][: len(closed.regions)]


def _spent(run: AnyRun, ledger: Ledger | None, what: str, epsilon: float, own: str) -> Ledger:
    """The ledger after a release; one that nobody gave is for all rows of a person."""
    spent = (ledger or Ledger.of(run.task)).spend_on(run.partition, what, epsilon, own=own)
    return spent if ledger is not None else spent.times(rows_each(run))


def _sent(partition: Partition, closed: ValueClosed) -> _Sent:
    """What was sent in a round of values."""
    regions = np.array(closed.regions, dtype=np.uint64).reshape(-1, 2)
    found = np.minimum(np.searchsorted(partition.lower, regions[:, 0]), len(partition) - 1)
    if not (np.array_equal(partition.lower[found], regions[:, 0])
            and np.array_equal(partition.upper[found], regions[:, 1])):  # fmt: skip
        raise InvalidInput("the closing has values of regions that this partition does not have")
    pairs = np.array([pair for row in closed.counts for pair in row], dtype=np.int64).reshape(-1, 2)
    return _Sent(np.repeat(found, [len(row) for row in closed.counts]), pairs[:, 0], pairs[:, 1])


def _marked(run: AnyRun, rng: np.random.Generator | None) -> Partition:
    """The run's partition, with the mark of what is released on it."""
    mark = seeded_by(rng, run.partition.mark)
    return run.partition if mark == run.partition.mark else replace(run.partition, mark=mark)


def _mean(
    partition: Partition, sent: _Sent, f: BoundedFunction, mechanism: AnyMechanism, spent: Ledger
) -> Mean:  # fmt: skip
    rows, outputs, counts = sent
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
    return Mean(
        min(max(value, least), most), math.hypot(math.sqrt(float(np.sum(responders * noise))) / total, clipping),
        (least, most), total, partition, spent, own_value(f), clipping,
        RegionMeans(low + share * width, errors, responders, ranges),
    )  # fmt: skip


def _sent_values(
    run: AnyRun, points: Rows, f: BoundedFunction, mechanism: AnyMechanism, rng: np.random.Generator
) -> Iterator[tuple[tuple[Floats, Floats, Integers], Integers]]:
    """Per batch: low, width and output of everybody with a region, and their regions."""
    ranges = clips(run.partition, f, mechanism.epsilon)
    for positions, regions, part in _run_batches(run, points, f):
        low, width = ranges[regions, 0], ranges[regions, 1] - ranges[regions, 0]
        value = np.asarray(part(positions), dtype=np.float64)
        unit = np.divide(value - low, width, out=np.full(len(low), 0.5), where=width > 0)
        words = rng.integers(0, 2**64, size=len(unit), dtype=np.uint64)
        yield (low, width, mechanism.release(np.clip(unit, 0.0, 1.0), words)), regions.astype(np.int64)


def _outputs(run: AnyRun, points: Rows, f: BoundedFunction, mechanism: AnyMechanism, rng: np.random.Generator) -> _Sent:
    """What everybody sends."""
    alphabet = mechanism.alphabet
    sent, counts = np.empty((2, 0), dtype=np.int64)
    for (_, _, given), regions in _sent_values(run, points, f, mechanism, rng):
        here, times = np.unique(regions * len(alphabet) + given - alphabet.start, return_counts=True)
        both, places = np.unique(np.concatenate([sent, here]), return_inverse=True)
        counts = np.bincount(places, np.concatenate([counts, times]), minlength=len(both)).astype(np.int64)
        sent = both
    rows, outputs = np.divmod(sent, len(alphabet))
    return _Sent(rows, outputs + alphabet.start, counts)


# -- somebody is trusted -----------------------------------------------------------------------------------------------


def pooled_mean(
    task: PooledTask, points: Rows, f: Any, *, rng: np.random.Generator | None = None, seed: int | None = None
) -> Mean:
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
    seed : int, optional
        Of that generator, if it is known.
    """
    found = _noisy_sums(task, points, f, None, task.epsilon, rng)
    if not found.people:
        raise InvalidInput("there is nobody to take the mean of")
    return mean_of_sum(
        task, found.people, found.sums, found.grid, what=f"mean of {found.f.name}", own=own_value(found.f),
        mark=mark_of(task.trust, rng, seed),
    )  # fmt: skip


def mean_of_sum(
    task: PooledTask, people: int, sums: Integers, grid: ValueGrid, *, what: str, own: str, mark: Mark | None = None
) -> Mean:
    """The mean that one noisy sum over all reports gives.

    Parameters
    ----------
    task : PooledTask
        Its epsilon is the loss of the sum.
    people : int
        Accepted reports.
    sums : int64[1]
    grid : ValueGrid
        Of the whole domain.
    what, own : str
        As the ledger and :class:`Mean` say it.
    mark : Mark, optional
        Of a simulation.
    """
    found = means_of(
        sums, grid, np.array([float(people)]), np.zeros(1), epsilon=exact(task.epsilon), max_reports=task.max_reports,
        noises=task.noises,
    )  # fmt: skip
    low, high = (float(grid.low[0] + grid.step[0] * end) for end in grid.limits[0])
    return Mean(
        min(max(float(found.value[0]), low), high), float(found.stderr[0]), (low, high), people,
        PooledPartition(estimate(unrefined(task, people)), mark),
        Ledger().spend(what, task.epsilon, anywhere=True, own=own), own,
    )  # fmt: skip


def cell_means(
    counted: Counts, points: Rows, f: Any, *, epsilon: float, rng: np.random.Generator | None = None
) -> Means:
    """The mean of f in every final cell of a pooled run; ``epsilon`` comes on top of what the run cost.

    Parameters
    ----------
    counted : Counts
        The run over the same positions.
    points : array_like, shape (n, d)
    f : BoundedFunction
    epsilon : float
        Loss of the sums for any change of one person's position (pure).
    rng : numpy.random.Generator, optional
        As for :func:`pooled_mean`.
    """
    partition = counted.partition
    assert isinstance(partition, PooledPartition)
    what = f"mean of {as_function(f).name} per cell"
    counted.spent.spend(what, epsilon, anywhere=True)  # refuses before anything is added up
    if count_rows(points) != counted.total:
        raise InvalidInput(f"points must be the run's {counted.total} reports; got {count_rows(points)}")
    found = _noisy_sums(partition.task, points, f, partition, epsilon, rng)
    marked_map = replace(partition, mark=seeded_by(rng, partition.mark))
    return means_of_sums(
        replace(counted, partition=marked_map), found.sums, found.grid, found.ranges, what=what,
        own=own_value(found.f), epsilon=epsilon,
    )  # fmt: skip


def means_of_sums(
    counted: Counts, sums: Integers, grid: ValueGrid, ranges: Floats, *, what: str, own: str, epsilon: float,
) -> Means:  # fmt: skip
    """The means that one noisy sum per final cell gives.

    Parameters
    ----------
    counted : Counts
        The run; its cells are those of the sums.
    sums : int64[m]
    grid : ValueGrid
    ranges : float64[m, 2]
        Of f over the cells.
    what, own : str
        As the ledger and :class:`Means` say it.
    epsilon : float
        Loss of all sums together.
    """
    partition = counted.partition
    assert isinstance(partition, PooledPartition)
    found = means_of(
        sums, grid, np.asarray(partition.crowds, dtype=np.float64), partition.estimates.variances,
        epsilon=exact(epsilon), max_reports=partition.task.max_reports, noises=partition.task.noises,
    )  # fmt: skip
    spent = counted.spent.spend(what, epsilon, anywhere=True, own=own)
    value = np.clip(found.value, ranges[:, 0], ranges[:, 1])
    return Means(value, found.stderr, ranges, partition, spent, own)


class _Sums(NamedTuple):
    """Noisy sums of a value, one per cell."""

    f: BoundedFunction
    people: int
    sums: Integers
    grid: ValueGrid
    ranges: Floats


def _noisy_sums(
    task: PooledTask, points: Rows, f: Any, partition: PooledPartition | None, epsilon: float,
    rng: np.random.Generator | None,
) -> _Sums:  # fmt: skip
    """Everybody's value added up in final cells, or over the whole domain, with each party's noise."""
    check_reports(points, task)
    bounded, box, words = asked_of(f, task.hierarchy), task.box, words_from(rng)
    whole = np.array([[box.lower, box.upper]])
    boxes = whole if partition is None else partition.boxes
    low, high = np.asarray(bounded.range_over(whole), dtype=np.float64)[0].tolist()
    ranges = np.asarray(bounded.range_over(boxes), dtype=np.float64)
    grid = shared_grid(ranges, low, high) if task.trust == "two-servers" else cell_grids(ranges)
    people, sums = 0, np.zeros(len(boxes), dtype=np.int64)
    for positions, part in _position_batches(points, bounded, box):
        cells = np.zeros(len(positions), dtype=np.int64) if partition is None else partition.locate(positions)
        values = check_values(part, positions, boxes, of=None if partition is None else cells).values
        draws = words(np.arange(len(values)), 0, 1)[:, 0]
        if task.trust == "two-servers":
            steps = round_values(values, low, high - low, (1 << VALUE_BITS) - 1, draws)
        else:
            steps = round_values(values, ranges[cells, 0], (ranges[:, 1] - ranges[:, 0])[cells], SCALE, draws)
        people, sums = people + len(positions), sums + add_up(steps, cells, grid)
    for _ in range(task.noises):
        sums = sums + sum_noise(grid.widths, exact(epsilon), task.max_reports, words)
    return _Sums(bounded, people, sums, grid, ranges)


def _losses(spent: Ledger) -> tuple[tuple[str, float], ...]:
    return tuple((entry.what, float(entry.epsilon)) for entry in spent.entries)


# -- what it is of, and the rows -------------------------------------------------------------------------------------


def asked_of(f: Any, hierarchy: Hierarchy) -> BoundedFunction:
    """Return f if it has values on this tree; every mean asks here.

    Refuses what does not know its range, and functions of the position where positions are labels.

    Examples
    --------
    >>> from semilocal.functions import coordinate
    >>> from semilocal.hierarchy.tables import from_labels
    >>> asked_of(coordinate(0), from_labels("ICD", [("heart", "I21"), ("lung", "J18")]))
    Traceback (most recent call last):
    ...
    semilocal.errors.InvalidInput: coordinate(0): positions are labels of 'ICD', which have no coordinates; ask for \
counts, or for the mean of a value of people's own
    """
    asked = as_function(f)
    if not isinstance(asked, Column):
        hierarchy.check_coordinates(asked.name)
    return asked


def count_rows(rows: Rows) -> int:
    """How many rows there are."""
    return rows.count() if isinstance(rows, Source) else len(np.asarray(rows))


def check_stored(rows: Source, f: BoundedFunction) -> None:
    """Refuse a column that is read with the rows if it is not there, or not inside its public range."""
    for name in _stored(f):
        assert isinstance(f, Column)
        rows.check_value(name, f.low, f.high)


def _position_batches(rows: Rows, f: BoundedFunction, box: Box) -> Iterator[tuple[Floats, BoundedFunction]]:
    """Positions float64[b, d] inside the box, and f for them: a column is cut as the rows are."""
    if not isinstance(rows, Source):
        yield box.check(rows), f
        return
    seen = 0
    for batch in rows.batches(*_stored(f)):
        yield box.check(batch[:, : box.dimensions]), _part(f, seen, batch[:, box.dimensions :])
        seen += len(batch)


def _run_batches(
    run: AnyRun, points: Rows, f: BoundedFunction
) -> Iterator[tuple[Floats, npt.NDArray[np.int32], BoundedFunction]]:
    """Everybody with a region: positions float64[b, d], regions int32[b], and f for them."""
    if isinstance(run, SourceRun):
        seen = 0
        for part in attached_batches(run.source, run.task.hierarchy, run.lookup, _stored(f)):
            yield part.positions, part.regions, _part(f, seen, part.others)
            seen += len(part.regions)
        return
    assert not isinstance(points, Source)
    positions = run.check_points(points)
    if isinstance(f, Column):
        f(positions)  # refuses another number of values
    if (run.regions == LOST).any():
        who = np.flatnonzero(run.regions != LOST)
        yield positions[who], run.regions[who], f.rows(who) if isinstance(f, Column) else f
    else:
        yield positions, run.regions, f


def _stored(f: BoundedFunction) -> tuple[str, ...]:
    """The column that is read with the rows, if f is one."""
    return (f.name,) if isinstance(f, Column) and f.stored else ()


def _part(f: BoundedFunction, start: int, read: Floats) -> BoundedFunction:
    """The function for some rows; ``read`` has the column that came with them."""
    if not isinstance(f, Column):
        return f
    return f.holding(read[:, 0]) if f.stored else f.rows(np.arange(start, start + len(read)))
