"""How many people are in boxes, from a pooled tree: one walk down for many queries at once, one back up.

A query takes the estimates of cells that it holds and nothing from cells that it does not meet; only cells that it cuts
are followed further. On the way back every cell says which share of its people the query takes. That gives the exact
variance of the noise: errors of two children differ by an independent part of known size (pooled/estimate.py), which
enters with the square of the difference of their shares. Cells that a query holds have equal shares below them, so
nothing of them enters.

Where a query cuts a final cell, its people are divided by the densities of the neighbours (pooled/spread.py), and how
far they may lie otherwise is learned from the run's own divisions (spread.py).

Knows published numbers. Knows no positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..arrays import Flags, Floats, Integers
from ..pooled import noise
from ..pooled.estimate import Estimates, final_places
from ..pooled.rule import last_opened
from ..pooled.spread import Density, spread_inside
from ._walk import Counted
from .spread import Spread, fit

__all__ = ["PooledWalk"]

_QUERIES_AT_ONCE = 1 << 13
_FINAL = -1


@dataclass(frozen=True, eq=False)
class PooledWalk:
    """A pooled tree of n cells with m final ones, ready for range counts.

    Attributes
    ----------
    lower, upper : float64[d, n]
        Corners of the cells; the root comes first.
    people : float64[n]
        Estimates, not negative; children add up to their parent.
    below : int64[n]
        The first of two children, which stand side by side; -1 for final cells.
    share, split : float64[n]
        How an error of the cell is handed to its first child, and the variance of what is added; 0 for final cells.
    noise : float64[n]
        Variances of the estimates of final cells; 0 for others.
    parts_lower, parts_upper : float64[d, p, n]
        Corners of the parts of final cells.
    parts : float64[p, n]
        People in the parts of final cells.
    spread : Spread
        How unevenly people lie inside cells.
    """

    lower: Floats
    upper: Floats
    people: Floats
    below: Integers
    share: Floats
    split: Floats
    noise: Floats
    parts_lower: Floats
    parts_upper: Floats
    parts: Floats
    spread: Spread

    @classmethod
    def of(cls, estimates: Estimates) -> PooledWalk:
        """Lay the tree out, divide the people of final cells, and learn how unevenly people lie."""
        tree = estimates.tree
        hierarchy, levels = tree.task.hierarchy, tree.levels
        starts = np.cumsum([0, *(len(level.cells) for level in levels)])
        total = int(starts[-1])
        people, share, split, noisy = np.zeros((4, total))
        below = np.full(total, _FINAL)
        finals = np.empty(len(tree.cells), dtype=np.int64)
        for start, level, place, handed, own in zip(
            starts[:-1], levels, final_places(tree), estimates.shares, estimates.spreads, strict=True
        ):
            opened = start + np.flatnonzero(level.opened)
            below[opened] = start + len(level.cells) + 2 * np.arange(len(opened))
            share[opened], split[opened] = handed, own
            finals[place] = start + np.flatnonzero(~level.opened)
        people[finals], noisy[finals] = estimates.counts, estimates.variances
        for start, end in list(pairwise(starts.tolist()))[::-1]:
            opened = start + np.flatnonzero(below[start:end] != _FINAL)
            people[opened] = people[below[opened]] + people[below[opened] + 1]
        deeper, parts, counts = spread_inside(hierarchy, tree.cells, estimates.counts)
        each = len(parts) // len(tree.cells)
        boxes = hierarchy.boxes(np.concatenate([level.cells for level in levels]))
        inside = deeper.boxes(parts).reshape(len(tree.cells), each, 2, -1)
        corners = np.zeros((2, boxes.shape[2], each, total))
        corners[:, :, :, finals] = np.moveaxis(inside, (0, 1, 2, 3), (3, 2, 0, 1))
        shared = np.zeros((each, total))
        shared[:, finals] = counts.reshape(-1, each).T
        lower, upper = np.ascontiguousarray(np.moveaxis(boxes, (0, 1, 2), (2, 0, 1)))
        return cls(
            lower, upper, people, below, share, split, noisy, corners[0], corners[1], shared,
            _fitted(estimates, people, starts),
        )  # fmt: skip

    def query(self, boxes: Floats) -> Counted:
        """People in boxes float64[q, 2, d]."""
        value, variance = np.zeros((2, len(boxes)))
        nearby = np.argsort(boxes[:, 0, 0])  # neighbours follow the same cells: better use of the cache
        for start in range(0, len(boxes), _QUERIES_AT_ONCE):
            some = nearby[start : start + _QUERIES_AT_ONCE]
            value[some], variance[some] = self._answer(np.moveaxis(boxes[some], 0, 2))
        return Counted(value, np.maximum(variance, 0.0), value, np.full(len(boxes), self.people[0]))

    def _answer(self, queries: Floats) -> tuple[Floats, Floats]:
        """Corners of queries: float64[2, d, q]."""
        value, variance = np.zeros((2, queries.shape[2]))
        query, cell = np.arange(queries.shape[2]), np.zeros(queries.shape[2], dtype=np.int64)
        follow, _ = self._meet(value, variance, queries, query, cell)
        query, cell = query[follow], cell[follow]
        steps = []
        while len(query):
            first = self.below.take(cell)
            met = [self._meet(value, variance, queries, query, first + child) for child in (0, 1)]
            steps.append((query, cell, met))
            query = np.concatenate([query[follow] for follow, _ in met])
            cell = np.concatenate([(first + child)[follow] for child, (follow, _) in enumerate(met)])
        deeper = np.empty(0)
        for query, cell, met in reversed(steps):
            place = 0
            for follow, taken in met:
                size = int(np.count_nonzero(follow))
                taken[follow] = deeper[place : place + size]
                place += size
            (_, one), (_, other) = met
            share = self.share.take(cell)
            variance += np.bincount(query, (one - other) ** 2 * self.split.take(cell), minlength=len(variance))
            deeper = share * one + (1.0 - share) * other
        return value, variance

    def _meet(
        self, value: Floats, variance: Floats, queries: Floats, query: Integers, cell: Integers
    ) -> tuple[Flags, Floats]:
        """Add what queries take from cells; which cells must be followed, and the share of the others that is taken."""
        meets, holds = np.ones((2, len(query)), dtype=bool)
        for axis in range(queries.shape[1]):
            begin, end = queries[0, axis].take(query), queries[1, axis].take(query)
            low, high = self.lower[axis].take(cell), self.upper[axis].take(cell)
            meets &= (begin < high) & (end > low)
            holds &= (begin <= low) & (end >= high)
        inner = np.flatnonzero(holds)
        value += np.bincount(query[inner], self.people[cell[inner]], minlength=len(value))
        cut = meets & ~holds
        final = self.below.take(cell) == _FINAL
        taken = holds.astype(np.float64)
        rows = np.flatnonzero(cut & final)
        if len(rows):
            people = self.people[cell[rows]]
            number, taken[rows] = self._cut(queries, query[rows], cell[rows], people)
            value += np.bincount(query[rows], number, minlength=len(value))
            inside = self.spread.variance(people, taken[rows], self.noise[cell[rows]])
            variance += np.bincount(query[rows], inside, minlength=len(value))
        return cut & ~final, taken

    def _cut(self, queries: Floats, query: Integers, cell: Integers, people: Floats) -> tuple[Floats, Floats]:
        """People of final cells in queries that cut them, and their share of the cell's people."""
        number, room = np.zeros((2, len(cell)))
        for part in range(len(self.parts)):
            overlap = np.ones(len(cell))
            for axis in range(queries.shape[1]):
                low, high = self.parts_lower[axis, part].take(cell), self.parts_upper[axis, part].take(cell)
                end = np.minimum(queries[1, axis].take(query), high)
                end -= np.maximum(queries[0, axis].take(query), low)
                overlap *= np.maximum(end, 0.0) / (high - low)
            number += self.parts[part].take(cell) * overlap
            room += overlap
        share = np.divide(number, people, out=room / len(self.parts), where=people > 0)
        return number, np.minimum(share, 1.0)


def _fitted(estimates: Estimates, people: Floats, starts: Integers) -> Spread:
    """How far people lie from where the neighbours suggest, from the divisions of the cells most like final ones.

    Cells with a final child would not do: a child is final where the division, or its noise, made it small.
    """
    tree = estimates.tree
    density = Density(tree.task.hierarchy, tree.cells, estimates.counts)
    sizes, children, noises, expected = [np.empty(0)], [np.empty((0, 2))], [np.empty(0)], [np.empty((0, 2))]
    for start, level, found in zip(starts[:-1], tree.levels, tree.differences, strict=False):
        last = last_opened(tree.task, level)
        size, difference = people[start + np.flatnonzero(last)], found[last[level.opened]]
        first = density.first_half(level.cells[last], size)
        sizes.append(size)
        children.append(np.stack([size + difference, size - difference], axis=1) / 2.0)
        noises.append(tree.task.noises * noise.variance(tree.task.unit, level.price[last]) / 4.0)
        expected.append(np.stack([first, 1.0 - first], axis=1))
    return fit(*(np.concatenate(some) for some in (sizes, children, noises, expected)))
