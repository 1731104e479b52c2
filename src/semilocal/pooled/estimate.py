"""Consistent estimates of every cell from all published numbers, and their exact errors.

Weighted least squares: N is exact, every difference and every final count is unbiased with a known variance. Two passes
over the tree solve it. Going up, each cell learns its best estimate from everything below it. Going down, the parent's
final estimate corrects its children. Errors form a chain: with e the error of a cell, its children's are
``share * e + w`` and ``(1 - share) * e - w``, where w is independent of e and has variance ``spread``. So the variance
of any weighted sum of final cells is a sum over opened cells.

Last, no child gets less than nothing or more than its parent; sums stay as they are. To cut estimates at these ends
would put people into empty cells. So a child gets its posterior mean, see :func:`split_mean`.

Inside a final cell people are spread by the densities of its neighbours. It is halved a few more times. If density
changes exponentially from the neighbour beside the first half (count a, on the axis that is halved) through the cell to
the one beside the second half (count b), the first half holds ``a^(1/4) / (a^(1/4) + b^(1/4))`` of the cell. Counts of
neighbours of the same size come from the estimates, evenly spread: a function of what was published, at no cost.

The final cells with their estimates are a map (:class:`PooledPartition`), as a table, GeoJSON or a picture.

Knows the tree and published numbers. Knows no data and no queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Integers, on_all_cores, short_repr
from ..errors import InvalidInput
from ..hierarchy import BinaryTree, Cells, Halved, SphereTree, TableTree
from ..protocol.partition import WaysOut
from ..protocol.promise import Mark
from . import noise
from .play import Tree, siblings
from .task import PooledTask

_LEAST = 1e-6
HALVINGS = 2
_AT_ONCE = 1 << 13  # cells that one thread takes
_BACKGROUND = 0.05  # share of the cell's own count that a neighbour has at least: an empty one proves little
_UNKNOWN = 1e-12  # a chance below which a normal law between two ends cannot be told from its nearer end


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimates of the final cells, in the order of ``Tree.cells``."""

    tree: Tree
    counts: Floats  # float64[m], not negative; they add up to N
    # Float64[m], before negative numbers were removed: the weighted least-squares solution. Also adds up to N
    unbiased: Floats
    variances: Floats  # float64[m], exact variances of `unbiased`
    # Tuple of float64[opened], one per level, how an opened cell's error is handed down, see the module
    shares: tuple[Floats, ...]
    spreads: tuple[Floats, ...]  # float64[opened], one per level

    __repr__ = short_repr


def estimate(tree: Tree) -> Estimates:
    """Weighted least-squares estimates of the final cells and their errors, in time linear in the tree."""
    task = tree.task
    places = tree.final_places
    final_noise = task.noises * noise.variance(task.unit, tree.units)
    differences = [*(level.astype(np.float64) for level in tree.differences), np.zeros(0)]  # none of the last level
    shares, spreads, firsts = [], [], []
    value, spread = np.zeros(0), np.zeros(0)
    for level, place, difference in reversed(list(zip(tree.levels, places, differences, strict=True))):
        opened = level.opened
        level_values, noisy = np.empty(len(opened)), np.empty(len(opened))
        level_values[~opened], noisy[~opened] = tree.counts[place], final_noise[place]
        one, other, one_noise, other_noise = value[0::2], value[1::2], spread[0::2], spread[1::2]
        measured = task.noises * noise.variance(task.unit, level.price[opened])
        all_noise = one_noise + other_noise + measured
        step = (difference - (one - other)) / all_noise
        one, other = one + one_noise * step, other - other_noise * step
        level_values[opened] = one + other
        # The variances of both and of their sum, after the difference has been taken in.
        both = one_noise * other_noise / all_noise
        own = one_noise - one_noise * one_noise / all_noise
        noisy[opened] = own + 2 * both + other_noise - other_noise * other_noise / all_noise
        share = (own + both) / noisy[opened]
        shares.append(share)
        spreads.append(np.maximum(own - share * share * noisy[opened], 0.0))
        firsts.append(one - share * level_values[opened])  # child 0 is this and a share of the parent's final estimate
        value, spread = level_values, noisy
    shares, spreads, firsts = shares[::-1], spreads[::-1], firsts[::-1]

    settled, plain, error = np.array([float(tree.people)]), np.array([float(tree.people)]), np.zeros(1)
    counts, unbiased, variances = (np.empty(len(tree.cells)) for _ in range(3))
    for level, place, share, own, first in zip(tree.levels, places, shares, spreads, firsts, strict=True):
        opened = level.opened
        counts[place], unbiased[place], variances[place] = settled[~opened], plain[~opened], error[~opened]
        above, parent, doubt = settled[opened], plain[opened], error[opened]
        # The correction is for the parent's settled estimate; the plain one is the least-squares solution.
        one, other = split_mean(above, first + share * above, own), first + share * parent
        settled, plain = siblings(one, above - one), siblings(other, parent - other)
        error = siblings(share * share * doubt + own, (1 - share) ** 2 * doubt + own)
    return Estimates(tree, counts, unbiased, variances, tuple(shares), tuple(spreads))


def split_mean(parent: Floats, first: Floats, variance: Floats) -> Floats:
    """Posterior mean of the first child's people, between nobody and all of the parent's: float64[m].

    The prior is a quarter "all in the second", a quarter "all in the first", and a half uniform in between. The
    likelihood is normal: ``first`` is the estimate, given the parent's people, and ``variance`` its variance.

    Examples
    --------
    >>> found = split_mean(np.array([100.0, 100.0, 100.0]), np.array([50.0, 2.0, -80.0]), np.array([4.0, 4.0, 4.0]))
    >>> found.round(2).tolist()
    [50.0, 0.31, 0.0]
    """
    from scipy.special import ndtr  # loaded at first use: it takes a while

    n, s = np.maximum(parent, _LEAST), np.sqrt(variance + _LEAST)
    low, high = first / s, (first - n) / s  # standard errors above each end
    at_low, at_high = (np.exp(-0.5 * end * end) / np.sqrt(2.0 * np.pi) for end in (low, high))
    # P(between the ends), from the tails that are not rounded away.
    between = np.where(first < 0.0, ndtr(low) - ndtr(high), ndtr(-high) - ndtr(-low))
    known = between >= _UNKNOWN
    mean = first + s * np.divide(at_low - at_high, between, out=np.zeros_like(first), where=known)
    mean = np.clip(np.where(known, mean, first), 0.0, n)
    none, every, some = at_low / (4.0 * s), at_high / (4.0 * s), between / (2.0 * n)
    total = none + every + some
    share = np.divide(every + some * mean / n, total, out=mean / n, where=total > 0.0)
    return np.asarray(parent * share)


@dataclass(frozen=True, eq=False)
class PooledPartition(WaysOut):
    """Final cells, in the order of the domain: they cover it without overlap."""

    estimates: Estimates
    mark: Mark | None = None  # set if the noise was seeded, or one program played both servers

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def task(self) -> PooledTask:
        """What was asked and is promised."""
        return self.estimates.tree.task

    @property
    def cells(self) -> Cells:
        """uint64[m]."""
        return self.estimates.tree.cells

    @property
    def crowds(self) -> Floats:
        """Estimated reports in each cell, not negative; they add up to all reports: float64[m]."""
        return self.estimates.counts

    @property
    def stderr(self) -> Floats:
        """Standard errors of the estimates: float64[m]."""
        return np.asarray(np.sqrt(self.estimates.variances))

    def locate(self, points: npt.ArrayLike) -> Integers:
        """Which final cell holds each point: int64[n]."""
        return self.estimates.tree.find(points)

    @property
    def intervals(self) -> tuple[Cells, Cells]:
        """First code of each cell and the code after its last: uint64[m] each."""
        first, last = self.task.hierarchy.span(self.cells)
        return first, last + np.uint64(1)

    @property
    def are_cells(self) -> bool:
        """Yes."""
        return True

    @property
    def areas(self) -> Floats:
        """Areas in km² on a map, else products of sides in units of the axes: float64[m]."""
        return self.task.hierarchy.areas(self.cells)

    @cached_property
    def boxes(self) -> Floats:
        """Lower and upper corner of each cell: float64[m, 2, d], read-only."""
        boxes = self.task.hierarchy.boxes(self.cells)
        boxes.setflags(write=False)
        return boxes

    def to_table(self) -> dict[str, npt.NDArray[Any]]:
        """Columns, one row per cell: cell, depth, estimated crowd, its standard error, and two bounds per axis.

        Cells of a table of labels also have their label.
        """
        tree = self.task.hierarchy
        table: dict[str, npt.NDArray[Any]] = {
            "cell": self.cells, "depth": tree.depth(self.cells), "crowd": self.crowds, "stderr": self.stderr,
        }  # fmt: skip
        if any(names := tree.names(self.cells)):
            table["label"] = np.array(names)
        for axis, name in enumerate(self.task.box.names):
            table[f"{name}_lower"], table[f"{name}_upper"] = self.boxes[:, 0, axis], self.boxes[:, 1, axis]
        return table


# -- inside final cells ------------------------------------------------------------------------------------------------


def spread_inside(
    tree: Halved, cells: Cells, counts: Floats, *, halvings: int = HALVINGS
) -> tuple[Halved, Cells, Floats]:
    """Halve every cell, and share out its count by its neighbours' densities.

    From disjoint cells uint64[m] that cover the domain, in its order, and their counts float64[m], not negative: the
    same hierarchy so much deeper, cells uint64[m * 2^halvings] and counts; those of the parts of a cell add up to its
    own.
    """
    if isinstance(tree, TableTree):  # its cells have no halves; evenly
        return tree, cells, counts
    try:
        deeper = tree.deeper(halvings)
    except InvalidInput:  # floats cannot tell such narrow cells apart; evenly then
        return tree, cells, counts
    for _ in range(halvings):
        first = counts * Density(deeper, cells, counts).first_half(cells, counts)
        cells = np.stack((2 * cells, 2 * cells + np.uint64(1)), axis=1).ravel()
        counts = np.stack((first, counts - first), axis=1).ravel()
    return deeper, cells, counts


class Density:
    """Counts of any cells, from those of disjoint cells in the order of the domain: each evenly spread."""

    def __init__(self, tree: BinaryTree | SphereTree, cells: Cells, counts: Floats) -> None:
        self._tree = tree
        self._first, last = tree.span(cells)
        self._width = (last - self._first + np.uint64(1)).astype(np.float64)
        self._counts = counts
        self._before = np.concatenate(([0.0], np.cumsum(counts)[:-1]))

    def count(self, cells: Cells) -> Floats:
        """People in the cells: float64[m]."""
        first, last = self._tree.span(cells)
        return np.maximum(self._up_to(last + np.uint64(1)) - self._up_to(first), 0.0)

    def first_half(self, cells: Cells, counts: Floats) -> Floats:
        """Which share of the people (``counts``, float64[m]) of any cells their first halves hold, by the densities of
        the neighbours.
        """
        out = np.empty(len(cells))

        def work(start: int) -> None:
            part = slice(start, start + _AT_ONCE)
            out[part] = self._first_half(cells[part], counts[part])

        on_all_cores(work, range(0, len(cells), _AT_ONCE))
        return out

    def _first_half(self, cells: Cells, counts: Floats) -> Floats:
        least = _BACKGROUND * counts
        beside = (np.maximum(self.count(neighbour), least) for neighbour in self._tree.beside(cells))
        one, other = (np.sqrt(np.sqrt(count)) for count in beside)
        both = one + other
        return np.asarray(np.divide(one, both, out=np.full(len(cells), 0.5), where=both > 0))

    def _up_to(self, codes: Cells) -> Floats:
        place, part = self._find(codes)
        part *= self._counts.take(place)
        part += self._before.take(place)
        return part

    def _find(self, codes: Cells) -> tuple[Integers, Floats]:
        """Which cell holds each code, and the share of its codes that come before: int64[m], float64[m]."""
        place = np.maximum(np.searchsorted(self._first, codes, side="right") - 1, 0)
        part = (codes - self._first.take(place)).astype(np.float64)
        part /= self._width.take(place)
        return place, np.minimum(part, 1.0, out=part)
