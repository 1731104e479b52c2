"""What a run published, as one tree: who is expected where, and independent errors where its rows divide.

A row is an interval of codes of the public order. Its children are consecutive rows, and rows come after their parents.
An error of a row is handed down to its children by ``weight``. A child's own error is taken by its siblings and itself
by ``rest``, so that the sum of the children stays what it is.

A question takes a share of some leaves. Its variance is one recursion up to the root (walk.py).

The tree of a pooled run has every cell with its estimate, and the errors of the least-squares solution. Estimates are
kept from being negative, which takes people from crowded parts and gives them to empty ones. The errors are those of
the unbiased estimates, so the tree has both numbers, and an interval holds both answers. Final cells are divided
further by the densities of their neighbours (pooled/estimate.py). The tree of public regions is made in public.py.

How unevenly people lie in final cells of a pooled tree is a Beta prior for each depth, learnt from the run itself.
Two people of a cell are in the same place with the chance ``clumped``, and anywhere in it otherwise. Of n people a part
with the share b then holds n b on average, with the variance (Beta-binomial)

    n b (1 - b) + n (n - 1) clumped b (1 - b),

chance and clumps. Every opened cell estimates ``clumped`` without bias, by the method of moments: the square of what
its halves are apart, beyond what its neighbours explain (pooled/estimate.py), without noise and chance. Cells count by
how well their noise lets the division be known; those of another depth count for few, fewer the farther it is. One cell
of which all divisions are equally likely is added: few or noisy cells leave ignorance.

Cells that one line cuts may lean together: along a street, or where positions are rounded. Every second pair of
siblings lies side by side and is halved by one line, and their noise is independent. So the product of what their
halves are apart estimates the covariance without bias.

All opened cells teach both, with the sizes that were known before they were opened: what a division shows does not
select it then.

Knows codes, numbers and errors. Knows no participants or shapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Floats, Integers, short_repr
from ..hierarchy import TableTree
from ..hierarchy.base import Cells, Hierarchy
from ..pooled import noise
from ..pooled.estimate import Density, Estimates, spread_inside
from ..protocol.estimate import Parts
from ..protocol.promise import Mark
from .answers import mean_above_zero

_WIDEST = 1.0 / 12.0  # variance of a share if all divisions are equally likely
_EQUAL = 1.0 / 3.0  # the chance to be in the same place that belongs to it
_NEARBY = 2.0  # cells without noise that the next depth counts for at the most; the second next half as many


@dataclass(frozen=True, eq=False)
class CountTree:
    """Expected people and their errors: n rows, the root first."""

    hierarchy: Hierarchy
    lower: Cells  # uint64[n], codes of each row, lower to before upper
    upper: Cells
    # int64[n + 1]: the children of row i are rows first[i] to before first[i + 1]: any number of the root, two of
    # others; leaves have none
    first: Integers
    people: Floats  # float64[n], expected number, never negative; those of children add up to their parent's
    weight: Floats  # float64[n], by which an error of the parent is handed to this row; siblings add up to 1
    rest: Floats  # float64[n], by which its siblings and itself take an error of this row; siblings add up to 1
    error: Floats  # float64[n], variance of the row's own error, people squared
    parts: Parts  # cells of the leaves, along the order, and the share of each in its leaf; `piece` counts leaves
    # float64[n], overdispersion inside leaves: chance that two people of a leaf are in the same place. A share of a
    # leaf has a Beta-binomial law: chance, and clumps
    clumped: Floats
    lean: float = 0.0  # correlation of what is uneven in two leaves that a question cuts
    # float64[n], numbers that may be negative, if `people` were kept from being so; errors are about these then
    unbiased: Floats | None = None
    # float64[n], public regions: numbers with people expected towards crowded neighbours; errors are about these
    sloping: Floats | None = None
    mark: Mark | None = None  # set if no devices made it

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.people)

    @property
    def total(self) -> float:
        """All people of the tree."""
        return float(self.people[0])

    @property
    def plain(self) -> Floats:
        """The numbers that errors are about; ``people`` if there are no others."""
        other = self.sloping if self.unbiased is None else self.unbiased
        return self.people if other is None else other

    @cached_property
    def parent(self) -> Integers:
        """The row above each row: int64[n]; -1 for the root."""
        return np.concatenate([[-1], np.repeat(np.arange(len(self)), np.diff(self.first))])

    @cached_property
    def level(self) -> Integers:
        """How many rows are above each row: int64[n]."""
        depth = np.zeros(len(self), dtype=np.int64)
        begin, end = 0, 1
        while begin < end:  # the children of consecutive rows are consecutive
            depth[self.first[begin] : self.first[end]] = depth[begin] + 1
            begin, end = int(self.first[begin]), int(self.first[end])
        return depth

    @cached_property
    def noise(self) -> Floats:
        """Variance of each row's number, all errors together: float64[n]."""
        out, parent, level = np.zeros(len(self)), self.parent, self.level
        together = np.bincount(np.maximum(parent, 0), self.error, minlength=len(self))
        for depth in range(1, int(level.max()) + 1):
            rows = np.flatnonzero(level == depth)
            own, rest, above = self.error[rows], self.rest[rows], parent[rows]
            siblings = together[above] - own
            out[rows] = self.weight[rows] ** 2 * out[above] + (1.0 - rest) ** 2 * own + rest**2 * siblings
        return out

    @cached_property
    def squares(self) -> Floats:
        """Expected square of each row's people: float64[n].

        Estimates that were kept from being negative are either nobody or a normal law cut off at zero: whoever is
        there meets E[X^2] / E[X] of the latter.
        """
        if self.unbiased is None:
            return np.asarray(self.people**2 + self.noise)
        middle = np.maximum(self.unbiased, 0.0)
        there = mean_above_zero(middle, np.sqrt(self.noise))
        met = middle + np.divide(self.noise, there, out=np.zeros(len(self)), where=there > 0)
        return np.asarray(self.people * np.maximum(met, self.people))

    @cached_property
    def leaves(self) -> Integers:
        """Rows without children, along the order: int64[l]."""
        rows = np.flatnonzero(self.first[:-1] == self.first[1:])
        return rows[np.argsort(self.lower[rows])]


def pooled_tree(estimates: Estimates, mark: Mark | None = None) -> CountTree:
    """The tree that follows from what a pooled run published."""
    tree = estimates.tree
    levels = tree.levels
    starts = np.cumsum([0, *(len(level.cells) for level in levels)])
    opened = np.concatenate([level.opened for level in levels])
    first = 1 + 2 * np.concatenate([[0], np.cumsum(opened)])
    weight, rest, error = np.ones(len(opened)), np.ones(len(opened)), np.zeros(len(opened))
    people, unbiased = np.zeros((2, len(opened)))
    # Two children each: the error of the first one is taken by the second.
    one = first[:-1][opened]
    weight[one], error[one] = np.concatenate(estimates.shares), np.concatenate(estimates.spreads)
    weight[one + 1], rest[one] = 1.0 - weight[one], 0.0
    finals = np.empty(len(tree.cells), dtype=np.int64)
    for start, level, place in zip(starts[:-1], levels, tree.final_places, strict=True):
        finals[place] = start + np.flatnonzero(~level.opened)
    people[finals], unbiased[finals] = estimates.counts, estimates.unbiased
    for start, end in zip(starts[-2::-1], starts[:0:-1], strict=True):
        rows = start + np.flatnonzero(opened[start:end])
        for number in (people, unbiased):
            number[rows] = number[first[rows]] + number[first[rows] + 1]
    hierarchy, parts = _parts(estimates)
    begin, end = hierarchy.span(np.concatenate([level.cells for level in levels]))
    uneven = np.zeros(len(opened))
    halved = Halved.of(estimates)
    uneven[finals] = clumped(estimates, halved)
    return CountTree(
        hierarchy, begin, end + np.uint64(1), first, people, weight, rest, error, parts, uneven,
        leaning(estimates.tree.task.hierarchy, halved), unbiased, mark=mark,
    )  # fmt: skip


def _parts(estimates: Estimates) -> tuple[Hierarchy, Parts]:
    """Cells inside final ones, as the neighbours suggest, and the hierarchy that has them."""
    tree, hierarchy = estimates.tree, estimates.tree.task.hierarchy
    every = np.arange(len(tree.cells))
    if not hierarchy.cells_are_boxes:
        return hierarchy, Parts(tree.cells, every, np.ones(len(every)))
    deeper, cells, counts = spread_inside(hierarchy, tree.cells, estimates.counts)
    number = len(cells) // len(every)
    piece, share = np.repeat(every, number), np.full(len(cells), 1.0 / number)
    total = estimates.counts[piece]
    np.divide(counts, total, out=share, where=total > 0)
    return deeper, Parts(cells, piece, share)


# -- how unevenly people lie inside final cells ------------------------------------------------------------------------


class Halved(NamedTuple):
    """Opened cells, level by level and along the order, and what is known about their halves: m each."""

    cells: Cells
    size: Floats  # people as estimated before the cell was opened, 2 or more
    apart: Floats  # share of the first half less what is expected of it
    chance: Floats  # variance of that if people were independent
    noise: Floats  # and by the noise of the difference
    even: Floats  # variance of the half in which somebody is who may be anywhere in the cell

    @staticmethod
    def of(estimates: Estimates) -> Halved:
        """Those of a run."""
        tree, task, hierarchy = estimates.tree, estimates.tree.task, estimates.tree.task.hierarchy
        rows: list[Any] = [(np.empty(0, np.uint64), *np.empty((3, 0)))]
        for level, difference in zip(tree.levels, tree.differences, strict=False):
            error = task.noises * noise.variance(task.unit, level.price[level.opened]) / 4.0
            rows.append((level.cells[level.opened], level.size[level.opened], difference, error))
        cells, size, difference, error = (np.concatenate(column) for column in zip(*rows, strict=True))
        size, area = np.maximum(size, 2.0), np.full(len(cells), 0.5)
        if not hierarchy.cells_are_boxes and len(cells):
            halves = hierarchy.areas(hierarchy.children(cells)).reshape(-1, 2)
            area = halves[:, 0] / halves.sum(axis=1)
        share = area
        if hierarchy.cells_are_boxes and not isinstance(hierarchy, TableTree):
            share = Density(hierarchy, tree.cells, estimates.counts).first_half(cells, size)
        chance = share * (1.0 - share) / size
        apart = difference / (2.0 * size) + 0.5 - share
        return Halved(cells, size, apart, chance, error / size**2, area * (1.0 - area))


def clumped(estimates: Estimates, some: Halved) -> Floats:
    """Chance that two people of a final cell are in the same place, apart from what its parts show: float64[m]."""
    hierarchy = estimates.tree.task.hierarchy
    found = (some.apart**2 - some.noise - some.chance) / ((1.0 - 1.0 / some.size) * some.even)
    at, depth = hierarchy.depth(some.cells), hierarchy.depth(estimates.tree.cells)
    weight, every = _weight(some.noise), np.arange(int(depth.max()) + 1)
    known = np.bincount(at, weight, minlength=len(every))
    told = np.bincount(at, weight * found, minlength=len(every)) / np.maximum(known, 1e-300)
    # People of another depth may lie otherwise: what it tells is limited, however many its cells are.
    near = known / (1.0 + known * np.abs(every - every[:, None]) / (_NEARBY * _weight(0.0)))
    alone = (near @ told + _EQUAL * _weight(0.0)) / (near.sum(axis=1) + _weight(0.0))
    return np.asarray(np.clip(alone, 0.0, 1.0)[depth])


def leaning(hierarchy: Hierarchy, some: Halved) -> float:
    """Correlation of what is uneven in cells that one line cuts; moved towards 0 by its own error."""
    one = np.flatnonzero(some.cells[:-1] ^ np.uint64(1) == some.cells[1:])
    if isinstance(hierarchy, TableTree) or not hierarchy.cells_are_boxes or not len(one):
        return 0.0
    low, high = hierarchy.boxes(hierarchy.children(some.cells))[:, 0].reshape(len(some.cells), 2, -1).swapaxes(0, 1)
    apart = np.where((low < high).any(axis=1), some.apart, -some.apart)  # the order may run either way
    across = (low != high).argmax(axis=1)
    one = one[across[one] == across[one + 1]]
    weight = 1.0 / ((_WIDEST + some.noise[one]) * (_WIDEST + some.noise[one + 1]))
    both, alone = weight * apart[one] * apart[one + 1], apart**2 - some.noise - some.chance
    together, all_uneven = float(both.sum()), float((weight * (alone[one] + alone[one + 1])).sum()) / 2.0
    if together <= 0.0 or all_uneven <= 0.0:
        return 0.0
    return min(max(together - float((both * both).sum()) / together, 0.0) / all_uneven, 1.0)


def told_together(found: Floats, error: Floats) -> float:
    """``clumped`` by divisions that say ``found`` each, float64[m], with variances of their shares by noise; 0 or more.

    Examples
    --------
    >>> told_together(np.empty(0), np.empty(0)), told_together(np.full(9_999, 0.5), np.zeros(9_999))
    (0.3333333333333333, 0.49998333333333334)
    """
    weight = _weight(error)
    return max(float(((weight * found).sum() + _EQUAL * _weight(0.0)) / (weight.sum() + _weight(0.0))), 0.0)


def _weight(error: Floats | float) -> Any:
    return 1.0 / (_WIDEST + error) ** 2
