"""The mean of a function or of a column under plain differential privacy: one noisy sum for all, or one per final cell.

The mean over all takes the whole domain for one cell, so its error is that of central differential privacy (times the
square root of 2 with two servers, which both add noise). Grids, sums, noise and estimates are those of
:mod:`semilocal.pooled.values`; with two servers the grid is the one that devices use, so a simulation has the error of
the running pair.

Knows positions and values while it adds up: the person who runs it is a curator.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ..accounting import Ledger
from ..arrays import Floats, Integers, exact, short_repr
from ..errors import InvalidInput
from ..functions import BoundedFunction, as_function, check_values
from ..geometry.polygons import Polygons
from ..pooled import noise
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
from ..protocol.column import own_value
from ..protocol.mark import Mark, seeded_by
from ..protocol.partition import Partition
from ..protocol.promise import Guarantee, marked
from .areas import Areas, Boxes, as_areas
from .asked import asked_of
from .intervals import standard_errors
from .pooled_counts import PooledCounts, mark_of, words_from
from .promised import Mapped, promise_of
from .streamed import Rows, check_reports, count_rows, position_batches
from .value_release import MeanRelease

__all__ = ["CellMeans", "PooledMean", "cell_means", "mean_of_sum", "means_of_sums", "pooled_mean", "region_means"]

_CELLS_AT_ONCE = 256  # a polygon is copied for each


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
    own : str
        The people's own value and its range, in words; empty for a function of the position.
    """

    value: float
    stderr: float
    range: tuple[float, float]
    partition: PooledPartition
    spent: Ledger
    own: str = ""

    __repr__ = short_repr

    @property
    def participants(self) -> int:
        """Accepted reports; exact."""
        return self.total

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Interval for the mean of f, inside its range."""
        half = standard_errors(level) * self.stderr
        low, high = self.range
        return max(self.value - half, low), min(self.value + half, high)

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is promised; print its ``text()``."""
        task = self.partition.task
        releases = _losses(self.spent)
        return Guarantee.plain(
            task.trust,
            task.epsilon,
            releases=releases,
            rows=task.max_reports,
            **marked(self.partition.mark),
            own=self.own,
            notes=(presence_note(task.epsilon / 2),),
        )


@dataclass(frozen=True, eq=False)
class CellMeans(Mapped):
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
        As for :class:`PooledMean`.
    """

    value: Floats
    stderr: Floats
    ranges: Floats
    partition: Partition | PooledPartition
    spent: Ledger
    own: str = ""

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

    def meeting(self, areas: Any) -> list[Integers]:
        """Rows of the regions that meet each area; of regions that are not boxes, those whose bounding box does.

        Parameters
        ----------
        areas : array_like of shape (q, 2, d), or polygons
            As for :meth:`query`.
        """
        asked, boxes = as_areas(areas, self.partition.task.box), self.partition.boxes
        shapes: Areas = asked if isinstance(asked, Polygons) else Boxes.of(asked)
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

    def to_table(self) -> dict[str, npt.NDArray[Any]]:
        """The regions as columns, one row each, with ``mean`` and ``mean_stderr``."""
        return super().to_table() | {"mean": self.value, "mean_stderr": self.stderr}

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is promised about map and values together; print its ``text()``."""
        found = promise_of(self.partition, self.spent, releases=_losses(self.spent)[1:])
        return msgspec.structs.replace(found, own=self.own)


def pooled_mean(
    task: PooledTask, points: Rows, f: Any, *, rng: np.random.Generator | None = None, seed: int | None = None
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
    check_reports(points, task)
    bounded, box, words = asked_of(f, task.hierarchy), task.box, words_from(rng)
    whole = np.array([[box.lower, box.upper]])
    low, high = np.asarray(bounded.range_over(whole), dtype=np.float64)[0].tolist()
    people, sums = 0, np.zeros(1, dtype=np.int64)
    for positions, part in position_batches(points, bounded, box):
        values, ranges = check_values(part, positions, whole)
        everybody = np.zeros(len(positions), dtype=np.int64)
        grid, added = _added_up(values, ranges, everybody, task, (low, high), words)
        people, sums = people + len(positions), sums + added
    if not people:
        raise InvalidInput("there is nobody to take the mean of")
    sums = _noisy(sums, grid, task, task.epsilon, words)
    return mean_of_sum(
        task, people, sums, grid, what=f"mean of {bounded.name}", own=own_value(bounded),
        mark=mark_of(task.trust, rng, seed),
    )  # fmt: skip


def mean_of_sum(
    task: PooledTask, people: int, sums: Integers, grid: ValueGrid, *, what: str, own: str, mark: Mark | None = None
) -> PooledMean:
    """The mean that one noisy sum over all reports gives.

    Parameters
    ----------
    task : PooledTask
        Its epsilon is the loss of the sum.
    people : int
        Accepted reports.
    sums : int64[1]
    grid : Grid
        Of the whole domain.
    mark : Mark, optional
        Of a simulation.
    """
    found = means_of(
        sums, grid, np.array([float(people)]), np.zeros(1), epsilon=exact(task.epsilon), max_reports=task.max_reports,
        noises=task.noises,
    )  # fmt: skip
    low, high = (float(grid.low[0] + grid.step[0] * end) for end in grid.limits[0])
    return PooledMean(
        min(max(float(found.value[0]), low), high),
        float(found.stderr[0]),
        (low, high),
        PooledPartition(estimate(unrefined(task, people)), mark),
        Ledger().spend(what, task.epsilon, anywhere=True, own=own),
        own,
    )


def cell_means(
    counted: PooledCounts, points: Rows, f: Any, *, epsilon: float, rng: np.random.Generator | None = None
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
    partition, task, words = counted.partition, counted.published.task, words_from(rng)
    bounded = asked_of(f, task.hierarchy)
    check_reports(points, task)
    counted.spent.spend(_per_cell(bounded), epsilon, anywhere=True)  # refuses before anything is added up
    if count_rows(points) != counted.total:
        raise InvalidInput(f"points must be the run's {counted.total} reports; got {count_rows(points)}")
    low, high = np.asarray(bounded.range_over(np.array([[task.box.lower, task.box.upper]])))[0].tolist()
    sums = np.zeros(len(partition), dtype=np.int64)
    for positions, part in position_batches(points, bounded, task.box):
        cells = partition.locate(positions)
        values, ranges = check_values(part, positions, partition.boxes, of=cells)
        grid, added = _added_up(values, ranges, cells, task, (low, high), words)
        sums = sums + added
    sums = _noisy(sums, grid, task, epsilon, words)
    mark = seeded_by(rng, partition.mark)
    return means_of_sums(
        replace(counted, partition=replace(partition, mark=mark)),
        sums,
        grid,
        ranges,
        what=_per_cell(bounded),
        own=own_value(bounded),
        epsilon=epsilon,
    )


def means_of_sums(
    counted: PooledCounts, sums: Integers, grid: ValueGrid, ranges: Floats, *, what: str, own: str, epsilon: float,
) -> CellMeans:  # fmt: skip
    """The means that one noisy sum per final cell gives.

    Parameters
    ----------
    counted : PooledCounts
        The run; its cells are those of the sums.
    sums : int64[m]
    grid : Grid
    ranges : float64[m, 2]
        Of f over the cells.
    what, own : str
        As the ledger and :class:`CellMeans` say it.
    epsilon : float
        Loss of all sums together.
    """
    partition, task = counted.partition, counted.published.task
    found = means_of(
        sums, grid, np.asarray(partition.crowds, dtype=np.float64), partition.estimates.variances,
        epsilon=exact(epsilon), max_reports=task.max_reports, noises=task.noises,
    )  # fmt: skip
    spent = counted.spent.spend(what, epsilon, anywhere=True, own=own)
    value = np.clip(found.value, ranges[:, 0], ranges[:, 1])
    return CellMeans(value, found.stderr, ranges, partition, spent, own)


def region_means(found: MeanRelease, f: Any) -> CellMeans:
    """The means of single regions that a mean over all rests on; they cost nothing beyond it."""
    ranges = np.asarray(as_function(f).range_over(found.partition.boxes), dtype=np.float64)
    regions = found.regions
    value = np.clip(regions.value, ranges[:, 0], ranges[:, 1])
    return CellMeans(value, regions.stderr, ranges, found.partition, found.spent, found.own)


def _losses(spent: Ledger) -> tuple[tuple[str, float], ...]:
    return tuple((entry.what, float(entry.epsilon)) for entry in spent.entries)


def _per_cell(f: BoundedFunction) -> str:
    return f"mean of {f.name} per cell"


def _added_up(
    values: Floats, ranges: Floats, cells: Integers, task: PooledTask, whole: tuple[float, float], words: noise.Words
) -> tuple[ValueGrid, Integers]:
    """The grid and the exact sums of everybody's value; ``whole`` is the range over the domain."""
    draws = words(np.arange(len(values)), 0, 1)[:, 0]
    if task.trust == "two-servers":
        low, high = whole
        grid = shared_grid(ranges, low, high)
        steps = round_values(values, low, high - low, (1 << VALUE_BITS) - 1, draws)
    else:
        grid = cell_grids(ranges)
        steps = round_values(values, ranges[cells, 0], (ranges[:, 1] - ranges[:, 0])[cells], SCALE, draws)
    return grid, add_up(steps, cells, grid)


def _noisy(sums: Integers, grid: ValueGrid, task: PooledTask, epsilon: float, words: noise.Words) -> Integers:
    """The sums with one draw of noise of each party that adds noise: int64[m]."""
    for _ in range(task.noises):
        sums = sums + sum_noise(grid.widths, exact(epsilon), task.max_reports, words)
    return sums
