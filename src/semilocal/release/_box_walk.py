"""Many boxes down a run's tree at once: what :mod:`semilocal.release._walk` does for any shape, quicker.

Children differ from their parent on a few axes only, the same ones for all cells of a depth. So a pair of a query and a
cell carries one bit for every side of the cell that the query cuts off. Those of sides that move change from a cell to
its child, and without any the query holds the cell. What cells know is laid out by columns.

Knows a tree, its population and the insides of its regions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Flags, Floats, Integers
from ..geometry.slopes import between
from ._inside import Inside, alike
from ._tree import NONE, Tree
from ._visitors import Population
from ._way_back import MOST, PEOPLE, SUMS, VARIANCE, Step, WayBack, add
from .spread import cascade

__all__ = ["BoxWalk"]

_Bits = npt.NDArray[np.uint16]


class BoxWalk(NamedTuple):
    """A run's tree of n cells by columns.

    Attributes
    ----------
    lower, upper, inverse : float64[d, n]
        Corners of the cells, and one over their sides.
    moved : list of lists of lists of int
        Per depth and child, which sides (2 * axis, and 1 for the upper one) lie elsewhere than those of its cell.
    halved : list of lists of int
        Per depth, on which axes children are narrower than their regions.
    inner, region : bool[n]
        Cells with children, and regions; the others are trimmed parts.
    people, most : float64[n]
        Who live there; the most that may.
    clumped, power, pairs : float64[n]
        How unevenly people lie in a trimmed part, or in the children of a region (spread.py), and the pairs of people
        in a trimmed part.
    slopes : float64[d, n]
        As in :class:`Inside`.
    halves : float64[2, fanout, d, n]
        Corners of the children of regions, as shares of the region's sides.
    living, whole, root_pairs : float64[fanout, n]
        Who live in the children of regions; their shares by slopes alone; the root of the number of pairs of people.
    noise : float64[n]
        What times the variance of the children's shares is the variance of their estimates.
    back : WayBack
    """

    lower: Floats
    upper: Floats
    inverse: Floats
    moved: list[list[list[int]]]
    halved: list[list[int]]
    inner: Flags
    region: Flags
    people: Floats
    most: Floats
    clumped: Floats
    power: Floats
    pairs: Floats
    slopes: Floats
    halves: Floats
    living: Floats
    whole: Floats
    root_pairs: Floats
    noise: Floats
    back: WayBack

    @staticmethod
    def of(tree: Tree, found: Population, inside: Inside, most: Floats, back: WayBack) -> BoxWalk:
        """Lay it out. ``most``: the largest number of people that may live in each cell."""
        fanout, spread = tree.children.shape[1], inside.spread
        sides = np.ascontiguousarray(np.moveaxis(tree.boxes, 0, 2))
        inverse = 1.0 / (sides[1] - sides[0])
        tiles = np.ascontiguousarray(np.moveaxis(inside.boxes, (0, 2), (3, 0)))
        inner, depths = tree.children[:, 0] != NONE, tree.partition.task.hierarchy.depth(tree.cells)
        levels = [np.flatnonzero(depths == depth) for depth in range(int(depths.max()) + 1)]
        regions = [cells[tree.is_region[cells]] for cells in levels]
        moved = []
        for cells in levels:
            some = cells[inner[cells]]
            differ = (sides[:, :, None, some] != sides[:, :, tree.children[some].T]).any(axis=3)  # [2, d, fanout]
            moved.append([np.flatnonzero(differ[:, :, child].T).tolist() for child in range(fanout)])
        halved = [_narrower(sides[:, None, :, cells], tiles[..., cells]) for cells in regions]
        doubt = inside.noise + found.doubt / fanout**2
        slopes, living = (np.ascontiguousarray(columns.T) for columns in (inside.slopes, inside.people))
        walk = BoxWalk(
            sides[0], sides[1], inverse, moved, halved, inner, tree.is_region, found.people, most,
            spread.clumped, spread.power, spread.pairs(found.people, found.noise), slopes,
            (tiles - sides[0]) * inverse, living, np.full(living.shape, np.inf), np.sqrt(spread.pairs(living, doubt)),
            inside.noise * (fanout / (fanout - 1)), back,
        )  # fmt: skip
        # By the same operations as parts of them later: a child that is covered is covered to the last bit.
        for depth, cells in enumerate(regions):
            everything = [(np.zeros(len(cells)), np.ones(len(cells)))] * len(inverse)
            walk.whole[:, cells] = walk._in_children(everything, cells, depth)
        walk.whole[walk.whole == 0.0] = np.inf  # nobody is there
        return walk

    def answer(self, queries: Floats) -> Floats:
        """Sums of boxes float64[2, d, q], see :meth:`Counted.around`: float64[4, q]."""
        out, children = np.zeros((SUMS, queries.shape[2])), self.back.children
        query, cell = np.arange(queries.shape[2]), np.zeros(queries.shape[2], dtype=np.int64)
        every = range(2 * len(self.lower))
        met, cuts = self._cuts(
            cell, np.zeros(len(cell), dtype=np.uint16), every, dict(enumerate(queries.swapaxes(0, 1)))
        )
        query, cell, cuts = query[met], cell[met], cuts[met]
        opened, _ = self._take(out, queries, query, cell, cuts, 0)
        query, cell, cuts = query.take(opened), cell.take(opened), cuts.take(opened)
        steps: list[Step] = []
        while len(query):
            moved = self.moved[len(steps)]
            axes = {side // 2 for some in moved for side in some}
            ends = {axis: queries[:, axis].take(query, axis=1) for axis in axes}
            rows, cells, sides = [], [], []
            for numbers, some in zip(children, moved, strict=True):
                child = numbers.take(cell)
                met, bits = self._cuts(child, cuts, some, ends)
                row = np.flatnonzero(met)
                rows.append(row)
                cells.append(child.take(row))
                sides.append(bits.take(row))
            pair, below, cuts = np.concatenate(rows), np.concatenate(cells), np.concatenate(sides)
            where, starts = query.take(pair), np.cumsum([0, *map(len, rows)])
            opened, share = self._take(out, queries, where, below, cuts, len(steps) + 1)
            shares = np.zeros((len(children), len(query)))
            for number, row in enumerate(rows):
                shares[number, row] = share[starts[number] : starts[number + 1]]
            number_of = np.repeat(np.arange(len(rows)), np.diff(np.searchsorted(opened, starts)))
            steps.append(Step(query, cell, shares, (number_of, pair.take(opened))))
            query, cell, cuts = where.take(opened), below.take(opened), cuts.take(opened)
        self.back.go(out, steps)
        return out

    def _cuts(
        self, cell: Integers, cuts: _Bits, moved: Sequence[int], ends: Mapping[int, Floats]
    ) -> tuple[Flags, _Bits]:
        """Which queries meet a cell each, and the sides that they cut off.

        Parameters
        ----------
        cuts : uint16[m]
            The sides of the cells' parents that they cut off.
        moved, ends
            Sides on which cells differ from their parents, and both ends of the queries by axis: float64[2, m].
        """
        met, new = np.ones(len(cell), dtype=bool), cuts & ~np.uint16(sum(1 << side for side in moved))
        for side in moved:
            axis, upper = divmod(side, 2)
            begin, end = ends[axis]
            if upper:
                edge = self.upper[axis].take(cell)
                met &= begin < edge
                cut = end < edge
            else:
                edge = self.lower[axis].take(cell)
                met &= end > edge
                cut = begin > edge
            new |= cut * np.uint16(1 << side)
        return met, new

    def _take(
        self, out: Floats, queries: Floats, query: Integers, cell: Integers, cuts: _Bits, depth: int
    ) -> tuple[Integers, Floats]:
        """Add what queries take from cells of one depth that they meet; which pairs to open, and the shares covered."""
        whole, inner = cuts == 0, self.inner.take(cell)
        opened = inner & ~whole
        rows = np.flatnonzero(~opened)
        add(out[MOST], query.take(rows), self.most.take(cell.take(rows)))
        rows = np.flatnonzero(whole)
        add(out[PEOPLE], query.take(rows), self.people.take(cell.take(rows)))
        share, cut, region = whole.astype(np.float64), ~(whole | inner), self.region.take(cell)
        if len(rows := np.flatnonzero(cut & region)):
            share[rows] = self._cut_regions(out, queries, query.take(rows), cell.take(rows), depth)
        if len(rows := np.flatnonzero(cut & ~region)):
            share[rows] = self._cut_parts(out, queries, query.take(rows), cell.take(rows))
        return np.flatnonzero(opened), share

    def _covered(self, queries: Floats, query: Integers, cell: Integers, axis: int) -> tuple[Floats, Floats]:
        """From where to where along an axis queries cover cells, as shares of the cell's side."""
        low, inverse = self.lower[axis].take(cell), self.inverse[axis].take(cell)
        first, last = queries[0, axis].take(query), queries[1, axis].take(query)
        for side in (first, last):
            side -= low
            side *= inverse
        return np.maximum(first, 0.0, out=first), np.minimum(last, 1.0, out=last)

    def _cut_parts(self, out: Floats, queries: Floats, query: Integers, cell: Integers) -> Floats:
        share = np.ones(len(cell))
        for axis, slopes in enumerate(self.slopes):
            share *= between(*self._covered(queries, query, cell, axis), slopes.take(cell))
        add(out[PEOPLE], query, self.people.take(cell) * share)
        uneven = self.pairs.take(cell) * cascade(share, self.clumped.take(cell), self.power.take(cell))
        add(out[VARIANCE], query, self.people.take(cell) * share * (1.0 - share) + uneven)
        return share

    def _cut_regions(self, out: Floats, queries: Floats, query: Integers, cell: Integers, depth: int) -> Floats:
        fanout, common = len(self.living), alike(len(self.living))
        ends = [self._covered(queries, query, cell, axis) for axis in range(len(self.lower))]
        parts = self._in_children(ends, cell, depth)
        value, variance, uneven, total, squares = np.zeros((5, len(cell)))
        clumped, power = self.clumped.take(cell), self.power.take(cell)
        for part, living, whole, pairs in zip(parts, self.living, self.whole, self.root_pairs, strict=True):
            share = np.minimum(part / whole.take(cell), 1.0)
            people, apart = living.take(cell), pairs.take(cell) * np.sqrt(cascade(share, clumped, power))
            total += share
            squares += share * share
            value += people * share
            variance += people * share * (1.0 - share) + (1.0 - common) * apart * apart
            uneven += apart
        # Children of a region err against each other, since their sum is known; they are uneven alike.
        against = np.maximum(squares - total * total / fanout, 0.0)
        variance += against * self.noise.take(cell) + common * uneven * uneven
        add(out[PEOPLE], query, value)
        add(out[VARIANCE], query, variance)
        return _product([last - first for first, last in ends])

    def _in_children(self, ends: list[tuple[Floats, Floats]], cell: Integers, depth: int) -> list[Floats]:
        """Shares of the people of regions, by slopes alone, that live in each child and between places on each axis."""
        same, cut = [], []
        for axis, (first, last) in enumerate(ends):
            slope = self.slopes[axis].take(cell)
            if axis not in self.halved[depth]:
                same.append(between(first, last, slope))
                continue
            lower, upper = self.halves[:, :, axis]
            cut.append([
                between(np.maximum(first, low.take(cell)), np.minimum(last, high.take(cell)), slope)
                for low, high in zip(lower, upper, strict=True)
            ])  # fmt: skip
        common = [_product(same)] if same else []
        return [_product([*common, *(axis[child] for axis in cut)]) for child in range(len(self.living))]


def _product(factors: list[Floats]) -> Floats:
    out = factors[0]
    for factor in factors[1:]:
        out = out * factor
    return out


def _narrower(sides: Floats, below: Floats) -> list[int]:
    """Axes on which some cells, float64[2, 1, d, m], and their children, float64[2, fanout, d, m], differ."""
    differ = (sides != below).any(axis=(0, 1, 3))
    return [int(axis) for axis in np.flatnonzero(differ)]
