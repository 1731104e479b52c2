"""What a run published, as one tree: who is expected where, and independent errors where its rows divide.

A row is an interval of codes of the public order. Its children are consecutive rows, and rows come after their parents.
An error of a row is handed down to its children by ``weight``. A child's own error is taken by its siblings and itself
by ``rest``, so that the sum of the children stays what it is.

A question takes a share of some leaves. Its variance is one recursion up to the root (walk.py).

The tree of a pooled run has every cell with its estimate, and the errors of the least-squares solution. Estimates are
kept from being negative, which takes people from crowded parts and gives them to empty ones. The errors are those of
the unbiased estimates, so the tree has both numbers, and an interval holds both answers. Final cells are divided
further by the densities of their neighbours (pooled/spread.py). The tree of public regions is made in public.py.

Knows codes, numbers and errors. Knows no participants or shapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..arrays import Floats, Integers, short_repr
from ..hierarchy.base import Cells, Hierarchy
from ..pooled.estimate import Estimates
from ..pooled.spread import spread_inside
from ..protocol.estimate import Parts
from ..protocol.promise import Mark
from .answers import mean_above_zero
from .prior import Halved, clumped, leaning


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
