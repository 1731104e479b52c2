"""Means and values: of a function of the position, or of a number of people's own.

Whoever is trusted, people's values are read region by region, made noisy there, and give the mean of every region with
its error. The mean over all is the sum of these, each with its share of the people.

Where nobody is trusted every participant clips f at its position to the public range of its region (protocol/clip.py),
maps it into the unit interval and sends it through a value mechanism. That costs ``epsilon`` for any two positions in
the region. What becomes public is how often each output was sent from each region; the means follow from that alone.

Where somebody is trusted there is one noisy sum per final cell, or one for the whole domain (pooled/values.py). The
error of that is the one of central differential privacy (times the square root of 2 with two servers, which both add
noise). With two servers the grid is the one that devices use, so a simulation has the error of the running pair.

Rows may come in batches, in their order, and noise is drawn in that order, so the size of the batches changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ..accounting import Ledger
from ..arrays import Floats, Integers, exact
from ..engines.run import SourceRun
from ..engines.source import Source
from ..errors import InvalidInput
from ..functions import BoundedFunction, as_function, check_values
from ..geometry.areas import Areas, Boxes, Polygons, as_areas
from ..hierarchy.base import Hierarchy
from ..pooled.estimate import PooledPartition, estimate
from ..pooled.play import unrefined
from ..pooled.task import PooledTask, presence_note
from ..pooled.values import (
    SCALE,
    VALUE_BITS,
    ValueGrid,
    add_up,
    cell_grids,
    means_of,
    round_values,
    scaled,
    shared_grid,
    sum_noise,
)
from ..protocol.clip import CutOff, clips, cut_off
from ..protocol.column import Column, own_value
from ..protocol.messages import ValueClosed
from ..protocol.partition import Partition
from ..protocol.plan import Release
from ..protocol.promise import Guarantee, marked, seeded_by
from ..randomizer.values import AnyMechanism, best
from ..simulation.simulate import LOST
from ..tabular import Tabular, known
from .answers import standard_errors, what_helps
from .counts import AnyRun, Counts, Mapped, Rows, check_reports, mark_of, promise_of, rows_each, words_from

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
            return super().guarantee
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
    spent : Ledger
        Of the map and of the values.
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
        parts = np.split(np.arange(len(boxes)), range(_CELLS_AT_ONCE, len(boxes), _CELLS_AT_ONCE))
        return [
            np.concatenate([part[shapes.take(np.full(len(part), one)).within(boxes[part])[1]] for part in parts])
            for one in range(len(shapes))
        ]

    def _regions(self) -> dict[str, npt.NDArray[Any]]:
        """The regions as columns, one row each, with ``mean`` and ``mean_stderr``."""
        return super()._regions() | {"mean": self.value, "mean_stderr": self.stderr}

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is promised about map and values together; its ``explain()`` is the whole statement."""
        found = promise_of(self.partition, self.spent, releases=_losses(self.spent)[1:])
        return msgspec.structs.replace(found, own=self.own)

    def over_all(self) -> Mean:
        """The mean over everybody, where one cell is the whole domain."""
        people = self.partition.crowds
        return _over_all(self.partition, self.spent, self.own, self.ranges[0], people, self.value, self.stderr**2)


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
    mechanism : Mechanism
        That made them, for values scaled to [0, 1]; its ``epsilon`` is the loss of one value.
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


def _over_all(
    partition: Partition | PooledPartition, spent: Ledger, own: str, within: Floats, people: npt.NDArray[Any],
    value: Floats, noise: Floats, off: CutOff | None = None, regions: RegionMeans | None = None,
) -> Mean:  # fmt: skip
    """The mean over all from those of regions, each with its share of the people: float64[m].

    ``noise`` is the variance of each by noise and ``off`` what clipping takes off; ``within`` is the range of f.
    """
    total = int(people.sum())
    if not total:
        raise InvalidInput("there is nobody to take the mean of")
    some = np.flatnonzero(people)
    share, (low, high), clipping = people[some] / total, within.tolist(), 0.0
    if off is not None:
        shift, variance = (share * (off.above - off.below)[some]).sum(), (share**2 * off.variance[some]).sum()
        clipping = math.hypot(shift, math.sqrt(variance))
    stderr = math.hypot(math.sqrt((share**2 * noise[some]).sum()), clipping)
    middle = min(max(float((share * value[some]).sum()), low), high)
    return Mean(middle, stderr, (low, high), total, partition, spent, own, clipping, regions)


# -- nobody is trusted -------------------------------------------------------------------------------------------------


class _Sent(NamedTuple):
    """What people sent from the regions: row of the region, output, and how often. int64[r] each."""

    rows: Integers
    outputs: Integers
    counts: Integers


def values(run: AnyRun, points: Rows, f: Any, *, epsilon: float, rng: np.random.Generator | None) -> Values:
    """One noisy value of f per participant, at a cost of ``epsilon`` inside the region.

    Parameters
    ----------
    run : Run or SourceRun
        The finished partition of the same participants.
    points : array_like, shape (n, d), or Source
        Their positions, in the same order, or the source of the run, which is read once more.
    f : BoundedFunction
        A function that knows its range over a box; see :mod:`semilocal.functions`.
    epsilon : float
        Loss of the release between any two positions in a region.
    rng : numpy.random.Generator or None
        Of the simulated devices; a seed is repeatable, and the result says so. With None numpy's generator is seeded by
        the operating system. Real devices derive their noise from secrets of their own.
    """
    asked = asked_of(f, run.task.hierarchy)
    partition, spent = _spent(run, f"values of {asked.name}", epsilon, asked, rng)
    chosen, ranges = best(epsilon), clips(partition, asked, epsilon)
    value, stderr = np.full((2, run.participants), np.nan)
    for rows, regions, outputs in _sent_values(run, points, asked, chosen, ranges, rng):
        low, high = ranges[regions].T
        value[rows] = low + chosen.decode(outputs) * (high - low)
        stderr[rows] = (high - low) * math.sqrt(chosen.worst_variance)
    return Values(value, stderr, ranges, partition, spent, chosen, own_value(asked))


def mean(run: AnyRun, points: Rows, f: Any, *, epsilon: float, rng: np.random.Generator | None) -> Mean:
    """The mean of f over the participants, at a cost of ``epsilon`` inside the region; parameters as for `values`.

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
    partition, spent = _spent(run, f"mean of {asked.name}", epsilon, asked, rng)
    chosen = best(epsilon)
    alphabet, ranges = chosen.alphabet, clips(partition, asked, epsilon)
    sent, counts = np.empty((2, 0), dtype=np.int64)
    for _, regions, outputs in _sent_values(run, points, asked, chosen, ranges, rng):
        here, times = np.unique(regions * len(alphabet) + outputs - alphabet.start, return_counts=True)
        both, places = np.unique(np.concatenate([sent, here]), return_inverse=True)
        counts = np.bincount(places, np.concatenate([counts, times]), minlength=len(both)).astype(np.int64)
        sent = both
    rows, outputs = np.divmod(sent, len(alphabet))
    return _sent_mean(partition, _Sent(rows, outputs + alphabet.start, counts), asked, chosen, ranges, spent)


def collected_mean(partition: Partition, closed: ValueClosed, release: Release) -> Mean:
    """The mean that a closed round of values gives, from public messages alone.

    Refuses a round in which nobody answered, or with a region that is none of the partition.
    """
    assert release.mechanism is not None
    f = release.build()
    spent = Ledger.of(partition.task).spend(f"mean of {f.name}", release.epsilon, own=own_value(f)).settle(partition)
    ranges = clips(partition, f, release.epsilon)
    return _sent_mean(partition, _sent(partition, closed), f, release.mechanism, ranges, spent)


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


def _spent(
    run: AnyRun, what: str, epsilon: float, f: BoundedFunction, rng: np.random.Generator | None
) -> tuple[Partition, Ledger]:
    """The run's partition with the mark of a release on it, and what both cost a person with all rows."""
    mark = seeded_by(rng, run.partition.mark)
    partition = run.partition if mark == run.partition.mark else replace(run.partition, mark=mark)
    spent = Ledger.of(run.task).spend(what, epsilon, own=own_value(f)).times(rows_each(run))
    return partition, spent.settle(partition)


def _sent(partition: Partition, closed: ValueClosed) -> _Sent:
    """What was sent in a round of values."""
    regions = np.array(closed.regions, dtype=np.uint64).reshape(-1, 2)
    found = np.minimum(np.searchsorted(partition.lower, regions[:, 0]), len(partition) - 1)
    if not np.array_equal(np.stack([partition.lower[found], partition.upper[found]], axis=1), regions):
        raise InvalidInput("the closing has values of regions that this partition does not have")
    pairs = np.array([pair for row in closed.counts for pair in row], dtype=np.int64).reshape(-1, 2)
    return _Sent(np.repeat(found, [len(row) for row in closed.counts]), pairs[:, 0], pairs[:, 1])


def _sent_mean(
    partition: Partition, sent: _Sent, f: BoundedFunction, mechanism: AnyMechanism, ranges: Floats, spent: Ledger
) -> Mean:  # fmt: skip
    rows, outputs, counts = sent
    regions, box = len(partition), partition.task.box
    low, width = ranges[:, 0], ranges[:, 1] - ranges[:, 0]
    responders = np.bincount(rows, counts, minlength=regions).astype(np.int64)
    answered = np.where(responders > 0, responders, np.nan)
    unit = np.bincount(rows, counts * mechanism.decode(outputs), minlength=regions) / answered
    # The mechanism's variance is nearly constant and concave in the true value, so its value at the estimated mean of
    # a region is a slight overestimate of the average over the region's participants.
    noise = width**2 * mechanism.variance(np.clip(np.nan_to_num(unit, nan=0.5), 0.0, 1.0)) / answered
    off = cut_off(partition, f, ranges)
    value, stderr = low + unit * width, np.sqrt(noise + (off.above - off.below) ** 2 + off.variance)
    within = np.asarray(f.range_over([[box.lower, box.upper]]))[0]
    found = RegionMeans(value, stderr, responders, ranges)
    return _over_all(partition, spent, own_value(f), within, responders, value, noise, off, found)


def _sent_values(
    run: AnyRun, points: Rows, f: BoundedFunction, mechanism: AnyMechanism, ranges: Floats,
    rng: np.random.Generator | None,
) -> Iterator[tuple[Integers, Integers, Integers]]:  # fmt: skip
    """What everybody with a region sends, batch by batch: numbers of the rows, their regions, outputs."""
    draws = np.random.default_rng() if rng is None else rng
    if isinstance(run, SourceRun):
        batches = _batches(run.source, f, run.partition.locate)
    else:
        assert not isinstance(points, Source)
        homes = run.regions
        batches = _batches(run.check_points(points), f, lambda _: homes)
    for start, positions, homes, part in batches:
        here = np.flatnonzero(homes != LOST)
        regions = homes[here].astype(np.int64)
        low, high = ranges[regions].T
        unit = scaled(np.asarray(part(positions), dtype=np.float64)[here], low, high - low, 1)
        words = draws.integers(0, 2**64, size=len(unit), dtype=np.uint64)
        yield start + here, regions, mechanism.release(unit, words)


# -- somebody is trusted -----------------------------------------------------------------------------------------------


def pooled_mean(
    task: PooledTask, points: Rows, f: Any, *, rng: np.random.Generator | None = None, seed: int | None = None
) -> Mean:
    """The mean of f, ``task.epsilon``-differentially private for any change of one person's position (pure).

    The task's domain, epsilon, trust and ``max_reports`` count; nothing is asked about places. Parameters are those of
    :func:`semilocal.release.counts.run_pooled`; the range of f over the domain sets the noise.
    """
    asked, people, sums, grid, ranges = _noisy_sums(task, points, f, None, task.epsilon, rng)
    whole = PooledPartition(estimate(unrefined(task, people)), mark_of(task.trust, rng, seed))
    what, own = f"mean of {asked.name}", own_value(asked)
    return means_of_sums(whole, Ledger(), sums, grid, ranges, what=what, own=own, epsilon=task.epsilon).over_all()


def cell_means(
    counted: Counts, points: Rows, f: Any, *, epsilon: float, rng: np.random.Generator | None = None
) -> Means:
    """The mean of f in every final cell of a pooled run over the same positions.

    ``epsilon`` is the loss of the sums for any change of one person's position (pure), on top of what the run cost.
    """
    partition = counted.partition
    assert isinstance(partition, PooledPartition)
    what = f"mean of {as_function(f).name} per cell"
    counted.spent.spend(what, epsilon, anywhere=True)  # refuses before anything is added up
    if count_rows(points) != counted.total:
        raise InvalidInput(f"points must be the run's {counted.total} reports; got {count_rows(points)}")
    asked, _, sums, grid, ranges = _noisy_sums(partition.task, points, f, partition, epsilon, rng)
    marked_map = replace(partition, mark=seeded_by(rng, partition.mark))
    own = own_value(asked)
    return means_of_sums(marked_map, counted.spent, sums, grid, ranges, what=what, own=own, epsilon=epsilon)


def means_of_sums(
    partition: PooledPartition, spent: Ledger, sums: Integers, grid: ValueGrid, ranges: Floats, *, what: str, own: str,
    epsilon: float,
) -> Means:  # fmt: skip
    """The means that one noisy sum per final cell gives: int64[m] on a grid, of a value in ``ranges`` float64[m, 2].

    ``spent`` is the ledger before, ``epsilon`` the loss of all sums together; ``what`` and ``own`` are words for it.
    """
    task = partition.task
    found = means_of(
        sums, grid, np.asarray(partition.crowds, dtype=np.float64), partition.estimates.variances,
        epsilon=exact(epsilon), max_reports=task.max_reports, noises=task.noises,
    )  # fmt: skip
    after = spent.spend(what, epsilon, anywhere=True, own=own)
    return Means(np.clip(found.value, ranges[:, 0], ranges[:, 1]), found.stderr, ranges, partition, after, own)


def _noisy_sums(
    task: PooledTask, points: Rows, f: Any, partition: PooledPartition | None, epsilon: float,
    rng: np.random.Generator | None,
) -> tuple[BoundedFunction, int, Integers, ValueGrid, Floats]:  # fmt: skip
    """f, the number of reports, noisy sums of their values per final cell or over the domain, grid, and ranges of f."""
    check_reports(points, task)
    asked, box, words = asked_of(f, task.hierarchy), task.box, words_from(rng)
    whole = np.array([[box.lower, box.upper]])
    boxes = whole if partition is None else partition.boxes
    low, high = np.asarray(asked.range_over(whole), dtype=np.float64)[0].tolist()
    ranges = np.asarray(asked.range_over(boxes), dtype=np.float64)
    grid = shared_grid(ranges, low, high) if task.trust == "two-servers" else cell_grids(ranges)
    rows = points if isinstance(points, Source) else box.check(points)
    people, sums = 0, np.zeros(len(boxes), dtype=np.int64)
    find = (lambda positions: np.zeros(len(positions), dtype=np.int64)) if partition is None else partition.locate
    for _, positions, cells, part in _batches(rows, asked, find):
        values, _ = check_values(part, positions, boxes, of=cells)
        draws = words(np.arange(len(values)), 0, 1)[:, 0]
        if task.trust == "two-servers":
            steps = round_values(values, low, high - low, (1 << VALUE_BITS) - 1, draws)
        else:
            steps = round_values(values, ranges[cells, 0], (ranges[:, 1] - ranges[:, 0])[cells], SCALE, draws)
        people, sums = people + len(positions), sums + add_up(steps, cells, grid)
    for _ in range(task.noises):
        sums = sums + sum_noise(grid.widths, exact(epsilon), task.max_reports, words)
    return asked, people, sums, grid, ranges


def _losses(spent: Ledger) -> tuple[tuple[str, float], ...]:
    return tuple((entry.what, float(entry.epsilon)) for entry in spent.entries)


# -- what it is of, and the rows -------------------------------------------------------------------------------------


def asked_of(f: Any, hierarchy: Hierarchy) -> BoundedFunction:
    """Return f if it has values on this tree: it knows its range, and labels have no functions of the position."""
    asked = as_function(f)
    if not isinstance(asked, Column):
        hierarchy.check_coordinates(asked.name)
    return asked


def count_rows(rows: Rows) -> int:
    """How many rows there are."""
    return rows.count() if isinstance(rows, Source) else len(np.asarray(rows))


def _batches(
    rows: Floats | Source, f: BoundedFunction, find: Callable[[Floats], npt.NDArray[Any]]
) -> Iterator[tuple[int, Floats, npt.NDArray[Any], BoundedFunction]]:
    """Number of the first row, positions float64[b, d], the region of each, and f for them: a column is cut as rows."""
    if not isinstance(rows, Source):
        yield 0, rows, find(rows), f
        return
    start, axes = 0, rows.box.dimensions
    for batch in rows.batches(*((f.name,) if isinstance(f, Column) and f.stored else ())):
        part, positions = f, rows.box.check(batch[:, :axes])
        if isinstance(f, Column):
            part = f.holding(batch[:, axes] if f.stored else f.values[start : start + len(batch)])
        yield start, positions, find(positions), part
        start += len(batch)
