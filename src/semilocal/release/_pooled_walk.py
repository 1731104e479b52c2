"""How many people are in boxes or polygons, from a pooled tree: one walk down for many queries at once, one back up.

A query takes the estimates of cells that it holds and nothing from cells that it does not meet; only cells that it cuts
are followed further. Where there are many boxes, cells that are cut on one side only are looked up instead
(``_strips``). On the way back every cell says which share of its people the query takes. That gives the exact variance
of the noise: errors of two children differ by an independent part of known size (pooled/estimate.py), which enters with
the square of the difference of their shares. Cells that a query holds have equal shares below them, so nothing of them
enters.

Estimates are kept from being negative, which takes people from crowded parts and gives them to empty ones. The variance
is that of the unbiased estimates, so a query is also answered by these; an interval holds both answers.

Where a query cuts a final cell, its people are divided as ``_pooled_inside`` says.

Knows published numbers. Knows no positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Floats, Integers, on_all_cores
from ..geometry.polygons import Polygons
from ..pooled.estimate import Estimates
from ._areas import Asked
from ._lattice import NOT_ROUNDED, Lattice
from ._pooled_inside import PooledInside, inside_of
from ._strips import Edges, Opened, Strips
from ._walk import Counted
from ._way_back import add

__all__ = ["PooledWalk"]

_QUERIES_AT_ONCE = 1 << 11  # working arrays stay in the processor's cache
_WITH_STRIPS = 1 << 13  # which need much smaller ones
_FINAL = -1
_SUMS = 4  # what a walk adds up for each query
_PEOPLE, _SHIFT, _UNEVEN, _NOISE = range(_SUMS)

# Final cells that queries cut (their rows among the pairs, queries, cells) to the shares of their people inside.
_Cut: TypeAlias = Callable[[Integers, Integers, Integers], Floats]
# Cells that boxes cut on one side (its bit, queries, cells) to the shares of their people that are taken.
_Strip: TypeAlias = Callable[[int, Integers, Integers], Floats]
_Bits: TypeAlias = npt.NDArray[np.uint16]


class _Step(NamedTuple):
    """Pairs of a query and an inner cell that it cuts, all cells of one depth.

    ``taken`` float64[2, pairs] holds the share of each child's people that the query takes. Where a child is followed
    further that share is found below: for the first children of ``follow[:left]``, the second ones of the others.
    """

    query: Integers
    cell: Integers
    taken: Floats
    follow: Integers
    left: int


@dataclass(frozen=True, eq=False)
class PooledWalk:
    """A pooled tree of n cells with m final ones, ready for range counts.

    Attributes
    ----------
    lower, upper : float64[d, n]
        Corners of the cells; the root comes first.
    people : float64[n]
        Estimates, not negative; children add up to their parent.
    shift : float64[n]
        How much more people the unbiased estimates have there: none was kept from being negative.
    below : int64[n]
        The first of two children, which stand side by side; -1 for final cells.
    middle : float64[n]
        Where a cell is halved, on axis ``depth % d``; 0 for final cells.
    share, split : float64[n]
        How an error of the cell is handed to its first child, and the variance of what is added; 0 for final cells.
    inside : callable
        Gives :class:`PooledInside`; called when a query cuts a final cell.
    lattice : Lattice
        Measures corners and middles when they are looked up, as boxes that are asked about are measured.
    """

    lower: Floats
    upper: Floats
    people: Floats
    shift: Floats
    below: Integers
    middle: Floats
    share: Floats
    split: Floats
    inside: Callable[[], PooledInside]
    lattice: Lattice = NOT_ROUNDED

    @classmethod
    def of(cls, estimates: Estimates) -> PooledWalk:
        """Lay the tree out."""
        tree = estimates.tree
        hierarchy, levels = tree.task.hierarchy, tree.levels
        starts = np.cumsum([0, *(len(level.cells) for level in levels)])
        total = int(starts[-1])
        boxes = hierarchy.boxes(np.concatenate([level.cells for level in levels]))
        lower, upper = np.ascontiguousarray(np.moveaxis(boxes, (0, 1, 2), (2, 0, 1)))
        people, shift, middle, share, split = np.zeros((5, total))
        below = np.full(total, _FINAL)
        finals = np.empty(len(tree.cells), dtype=np.int64)
        for start, level, place, handed, own in zip(
            starts[:-1], levels, tree.final_places, estimates.shares, estimates.spreads, strict=True
        ):
            opened = start + np.flatnonzero(level.opened)
            below[opened] = start + len(level.cells) + 2 * np.arange(len(opened))
            middle[opened] = upper[level.depth % len(upper)][below[opened]]
            share[opened], split[opened] = handed, own
            finals[place] = start + np.flatnonzero(~level.opened)
        people[finals] = estimates.counts
        shift[finals] = estimates.unbiased - estimates.counts
        for start, end in list(pairwise(starts.tolist()))[::-1]:
            opened = start + np.flatnonzero(below[start:end] != _FINAL)
            for number in (people, shift):
                number[opened] = number[below[opened]] + number[below[opened] + 1]
        inside = cache(partial(inside_of, estimates, people, starts, finals))
        return cls(lower, upper, people, shift, below, middle, share, split, inside)

    def on(self, lattice: Lattice) -> PooledWalk:
        """The same tree with lengths as a lattice measures them."""
        return replace(self, lattice=lattice)

    def query(self, asked: Asked) -> Counted:
        """People in boxes float64[q, 2, d] or in polygons."""
        answer = np.zeros((_SUMS, len(asked)))
        if isinstance(asked, Polygons):
            for some in asked.batches():
                answer[:, some] = self._answer(len(some), partial(self._down_polygons, asked.take(some)))
        else:
            nearby = np.argsort(asked[:, 0, 0])  # neighbours follow the same cells: better use of the cache
            if len(asked) > _QUERIES_AT_ONCE:  # quicker than a few cells at a time
                self.inside().learn(np.flatnonzero(self.below == _FINAL))
            strips = self.strips if len(asked) >= max(len(self.below), _QUERIES_AT_ONCE) else None
            step = _QUERIES_AT_ONCE if strips is None else _WITH_STRIPS

            def work(start: int) -> None:
                some = nearby[start : start + step]
                boxes = np.ascontiguousarray(np.moveaxis(asked[some], 0, 2))
                answer[:, some] = self._answer(len(some), partial(self._down, boxes, strips))

            on_all_cores(work, range(0, len(asked), step))
        answer[_SHIFT] += answer[_PEOPLE]  # the unbiased answer
        return Counted.between(answer, self.people[0])

    def _answer(self, queries: int, down: Callable[[Floats], list[_Step]]) -> Floats:
        """Value, shift and both parts of the variance, from the queries' way down: float64[4, q]."""
        total = np.zeros((_SUMS, queries))
        steps = down(total)
        deeper = np.empty(0)
        for query, cell, taken, follow, left in reversed(steps):
            taken[0, follow[:left]], taken[1, follow[left:]] = deeper[:left], deeper[left:]
            differ = taken[0] - taken[1]
            deeper = self.share.take(cell)
            deeper *= differ
            deeper += taken[1]
            differ *= differ
            differ *= self.split.take(cell)
            add(total[_NOISE], query, differ)
        return total

    @cached_property
    def strips(self) -> Strips:
        """What boxes take from cells that they cut on one side only; worth it for as many boxes as there are cells."""
        levels = [(0, 1)]
        while len(opened := self._opened(*levels[-1])):
            levels.append((levels[-1][1], levels[-1][1] + 2 * len(opened)))
        return Strips(on_all_cores(partial(self._edges, levels), range(len(self.lower))))

    def _edges(self, levels: list[tuple[int, int]], axis: int) -> Edges:
        """All cells on one axis, from the deepest level up."""
        inside, dimensions = self.inside(), len(self.lower)
        found: list[Edges] = []
        halvings = len(inside.parts).bit_length() - 1
        for depth, (start, end) in reversed(list(enumerate(levels))):
            final, opened = start + np.flatnonzero(self.below[start:end] == _FINAL), self._opened(start, end)
            places = [_place(part, depth, halvings, dimensions)[axis] for part in range(len(inside.parts))]
            masses = np.zeros((max(places) + 1, len(final)))
            for place, shares in zip(places, inside.parts, strict=True):
                masses[place] += shares.take(final)
            known = (some.take(final) for some in (self.people, self.shift, inside.uneven))
            edges = Edges.of_final(final, *self._sides(axis, final), masses, *known)
            if len(opened):
                first = self.below.take(opened)
                numbers = (
                    self.share.take(opened),
                    self.split.take(opened),
                    self.people.take(first),
                    self.shift.take(first),
                )
                above = Opened(opened, first, *numbers)
                edges = Edges.joined([edges, (above.along if depth % dimensions == axis else above.across)(found[-1])])
            found.append(edges)
        return Edges.joined(found[::-1])

    def _opened(self, start: int, end: int) -> Integers:
        return start + np.flatnonzero(self.below[start:end] != _FINAL)

    def _down(self, queries: Floats, strips: Strips | None, total: Floats) -> list[_Step]:
        """Follow the cells that boxes float64[2, d, q] cut; add up people and spread, keep the way for the noise.

        A child differs from its parent on one axis only. So a pair of a query and a cell carries one bit for every side
        of the cell that the query cuts off, two of them change per step, and without any the query holds the cell.
        """
        dimensions = queries.shape[1]
        query = np.arange(queries.shape[2])
        cuts, meets = np.zeros(len(query), dtype=np.uint16), np.ones(len(query), dtype=bool)
        for axis, (begin, end) in enumerate(np.moveaxis(queries, 1, 0)):
            (lower,), (upper,) = self._sides(axis, np.zeros(1, dtype=np.int64))
            meets &= (begin < upper) & (end > lower)
            cuts |= (begin > lower) * _bit(axis, 0) | (end < upper) * _bit(axis, 1)
        query, cuts = query[meets], cuts[meets]
        cell = np.zeros(len(query), dtype=np.int64)
        strip = None if strips is None else partial(self._cut_strips, total, queries, strips)
        follow, first, _ = self._meet(total, query, cell, cuts, partial(self._cut, queries, depth=0), strip)
        query, cell, cuts = query.take(follow), cell.take(follow), cuts.take(follow)
        steps: list[_Step] = []
        while len(query):
            axis = len(steps) % dimensions
            middle = self.lattice.along(axis, self.middle.take(cell))
            begin, end = queries[0, axis].take(query), queries[1, axis].take(query)
            rows = [np.flatnonzero(met) for met in (begin < middle, end > middle)]
            # A cut in the middle takes the place of one at the parent's far side.
            sides = [
                (cuts & ~_bit(axis, far) | cut * _bit(axis, far)).take(some)
                for far, cut, some in ((1, end < middle, rows[0]), (0, begin > middle, rows[1]))
            ]
            both, left = np.concatenate(rows), len(rows[0])
            below = first.take(both)
            below[left:] += 1
            where, cuts = query.take(both), np.concatenate(sides)
            cut = partial(self._cut, queries, depth=len(steps) + 1)
            follow, first, some = self._meet(total, where, below, cuts, cut, strip)
            taken = np.zeros((2, len(query)))
            taken[0, rows[0]], taken[1, rows[1]] = some[:left], some[left:]
            steps.append(_Step(query, cell, taken, both.take(follow), int(np.searchsorted(follow, left))))
            query, cell, cuts = where.take(follow), below.take(follow), cuts.take(follow)
        return steps

    def _down_polygons(self, polygons: Polygons, total: Floats) -> list[_Step]:
        """The same for polygons, which are cut smaller from cell to cell."""
        query, cell = np.arange(len(polygons)), np.zeros(len(polygons), dtype=np.int64)
        steps: list[_Step] = []
        inner, meets, holds = polygons.within(self._boxes(cell))
        rows = np.flatnonzero(meets)
        query, cell, inner = query[rows], cell[rows], inner.take(rows)
        follow, first, _ = self._meet(total, query, cell, ~holds[rows], self._cut_polygons(inner, 0))
        query, cell, inner = query[follow], cell[follow], inner.take(follow)
        while len(query):
            pairs = np.tile(np.arange(len(query)), 2)
            below = np.concatenate([first, first + 1])
            inner, meets, holds = inner.take(pairs).within(self._boxes(below))
            rows = np.flatnonzero(meets)
            both, below, inner, left = pairs[rows], below[rows], inner.take(rows), np.searchsorted(rows, len(query))
            where = query[both]
            cut = self._cut_polygons(inner, len(steps) + 1)
            follow, first, some = self._meet(total, where, below, ~holds[rows], cut)
            taken = np.zeros((2, len(query)))
            taken[0, both[:left]], taken[1, both[left:]] = some[:left], some[left:]
            steps.append(_Step(query, cell, taken, both[follow], int(np.searchsorted(follow, left))))
            query, cell, inner = where[follow], below[follow], inner.take(follow)
        return steps

    def _boxes(self, cell: Integers) -> Floats:
        """float64[m, 2, d]."""
        return np.array([self._sides(axis, cell) for axis in range(len(self.lower))]).T

    def _sides(self, axis: int, cell: Integers) -> tuple[Floats, Floats]:
        """Where cells begin and end on an axis, as the lattice measures it."""
        lower, upper = (self.lattice.along(axis, side[axis].take(cell)) for side in (self.lower, self.upper))
        return lower, upper

    def _meet(
        self,
        total: Floats,
        query: Integers,
        cell: Integers,
        cuts: _Bits | Flags,
        cut: _Cut,
        strip: _Strip | None = None,
    ) -> tuple[Integers, Integers, Floats]:
        """Add what queries take from cells that they meet; ``cuts`` is 0 for those that they hold.

        Which pairs to follow, the first of the children that they lead to, and the share taken of all others.
        """
        known = cuts == 0
        taken = known.astype(np.float64)
        rows = np.flatnonzero(known)
        which, cells = query.take(rows), cell.take(rows)
        add(total[_PEOPLE], which, self.people.take(cells))
        add(total[_SHIFT], which, self.shift.take(cells))
        if strip is not None:
            for bit in range(2 * len(self.lower)):
                rows = np.flatnonzero(cuts == 1 << bit)
                if len(rows):
                    known[rows] = True
                    taken[rows] = strip(bit, query.take(rows), cell.take(rows))
        below = self.below.take(cell)
        final = below == _FINAL
        rows = np.flatnonzero(final & ~known)
        if len(rows):
            which, cells = query.take(rows), cell.take(rows)
            share = cut(rows, which, cells)
            np.minimum(share, 1.0, out=share)
            taken[rows] = share
            add(total[_PEOPLE], which, self.people.take(cells) * share)
            add(total[_SHIFT], which, self.shift.take(cells) * share)
            share -= share * share
            share *= self.inside().uneven.take(cells)
            add(total[_UNEVEN], which, share)
        follow = np.flatnonzero(~(known | final))
        return follow, below.take(follow), taken

    def _cut(self, queries: Floats, rows: Integers, query: Integers, cell: Integers, *, depth: int) -> Floats:
        """Shares of the people of final cells of one depth in boxes that cut them."""
        parts = self._parts(cell)
        dimensions, halvings = queries.shape[1], len(parts).bit_length() - 1
        halved = [sum((depth + step) % dimensions == axis for step in range(halvings)) for axis in range(dimensions)]
        overlaps = []
        for axis, often in enumerate(halved):
            low, inverse = self._sides(axis, cell)
            inverse -= low
            np.divide(1.0, inverse, out=inverse)
            begin, end = queries[0, axis].take(query), queries[1, axis].take(query)
            for side in (begin, end):
                side -= low
                side *= inverse
            np.maximum(begin, 0.0, out=begin)
            np.minimum(end, 1.0, out=end)
            overlaps.append(_overlaps(begin, end, 1 << often))
        total = np.zeros(len(cell))
        for part, people in enumerate(parts):
            share = people.take(cell)
            for overlap, which in zip(overlaps, _place(part, depth, halvings, dimensions), strict=True):
                share *= overlap[which]
            total += share
        return total

    def _cut_strips(
        self, total: Floats, queries: Floats, strips: Strips, bit: int, query: Integers, cell: Integers
    ) -> Floats:
        """Add what boxes take from cells that they cut on one side only; the shares taken."""
        axis, side = divmod(bit, 2)
        people, shift, share, uneven, noise = strips.below(axis, cell, queries[side, axis].take(query))
        if not side:  # the lower side: what lies above it
            people, shift, share = self.people.take(cell) - people, self.shift.take(cell) - shift, 1.0 - share
        add(total[_PEOPLE], query, np.maximum(people, 0.0, out=people))
        for row, numbers in ((_SHIFT, shift), (_UNEVEN, uneven), (_NOISE, noise)):
            add(total[row], query, numbers)
        return share

    def _parts(self, cell: Integers) -> Floats:
        inside = self.inside()
        inside.learn(cell)
        return inside.parts

    def _cut_polygons(self, polygons: Polygons, depth: int) -> _Cut:
        """The same for polygons, one per pair."""

        def cut(rows: Integers, _: Integers, cell: Integers) -> Floats:
            parts = self._parts(cell)
            halvings, dimensions = len(parts).bit_length() - 1, len(self.lower)
            often = np.array([sum((depth + step) % dimensions == axis for step in range(halvings)) for axis in (0, 1)])
            some, boxes, total = polygons.take(rows), self._boxes(cell), np.zeros(len(cell))
            side = (boxes[:, 1] - boxes[:, 0]) * 0.5**often
            for part, people in enumerate(parts):
                lower = boxes[:, 0] + side * _place(part, depth, halvings, dimensions)
                tiles = np.stack([lower, lower + side], axis=1)
                total += people.take(cell) * some.cut(tiles).share(tiles)
            return total

        return cut


def _overlaps(begin: Floats, end: Floats, parts: int) -> list[Floats]:
    """Shares of equal parts of the unit interval that lie between the ends: a list of float64[m]."""
    if parts == 1:
        return [end - begin]
    out = []
    for part in range(parts):
        share = np.minimum(end, (part + 1) / parts)
        share -= np.maximum(begin, part / parts)
        share *= parts
        out.append(np.maximum(share, 0.0, out=share))
    return out


def _place(part: int, depth: int, halvings: int, dimensions: int) -> list[int]:
    """Which part of a cell of this depth it is along each axis."""
    place = [0] * dimensions
    for step in range(halvings):
        axis = (depth + step) % dimensions
        place[axis] = 2 * place[axis] + (part >> (halvings - 1 - step) & 1)
    return place


def _bit(axis: int, side: int) -> np.uint16:
    return np.uint16(1 << (2 * axis + side))
