"""How many people live in boxes or polygons: one walk down a run's tree for many queries at once.

A query takes the people of cells that it holds and nothing from cells that it does not meet. Only cells that it cuts
are opened, so a query costs about as much as its edge is long in regions. Boxes have a quicker walk of their own
(``_box_walk``); what moved people make uncertain is added on the way back up (``_way_back``).

Knows a tree, its population and the insides of its regions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Integers, on_all_cores
from ..geometry.polygons import Polygons
from ..geometry.slopes import slope_between
from ._areas import Asked
from ._box_walk import BoxWalk
from ._inside import Inside, alike
from ._tree import NONE, Tree
from ._visitors import Population
from ._way_back import MOST, PEOPLE, SUMS, VARIANCE, Step, WayBack, add

__all__ = ["Counted", "Walk"]

_BOXES_AT_ONCE = 1 << 12  # working arrays stay in the processor's cache


class Counted(NamedTuple):
    """Answers to q queries: float64[q] each.

    ``value`` is what is told; from ``fewer`` to ``more`` people are expected, with ``variance``. There cannot be more
    than ``most``: all who act from cells that the query meets, or infinitely many where it meets trimmed parts.
    ``noise`` is as in :class:`semilocal.release.boxes.CountAnswers`.
    """

    value: Floats
    variance: Floats
    fewer: Floats
    more: Floats
    most: Floats
    noise: Floats

    @staticmethod
    def around(sums: Floats) -> Counted:
        """Public regions, by what walks add up (``_way_back``): float64[4, q]."""
        middle, variance, most, unsure = sums
        return Counted(np.maximum(middle - unsure, 0.0), variance, middle, middle, most, np.zeros(len(middle)))

    @staticmethod
    def between(sums: Floats, most: float) -> Counted:
        """Pooled trees: two answers that may both be right, and the variance by how people lie and by noise.

        All in one float64[4, q].
        """
        value, second, (uneven, noise) = *sums[:2], np.maximum(sums[2:], 0.0)
        ends = np.minimum(value, second), np.maximum(value, second)
        return Counted(value, uneven + noise, *ends, np.full(len(value), most), noise)


@dataclass(frozen=True, eq=False)
class Walk:
    """Everything that range counts need.

    Attributes
    ----------
    tree : Tree
    found : Population
    inside : Inside
    """

    tree: Tree
    found: Population
    inside: Inside

    @staticmethod
    def of(tree: Tree, found: Population) -> Walk:
        """Divide the tree's people; slopes come from asking for the neighbours of every region and trimmed part."""
        slopes = np.zeros((len(tree.cells), tree.boxes.shape[2]))
        flat = Walk(tree, found, Inside.of(tree, found, slopes))
        ends = np.flatnonzero(tree.children[:, 0] == NONE)
        own = np.maximum(found.people[ends], 1.0)
        domain = tree.partition.task.box
        sides = tree.lattice.measure(np.array([domain.lower, domain.upper]))
        around = []
        for axis in range(len(sides.T)):
            width = np.zeros((len(ends), 1, tree.boxes.shape[2]))
            width[:, 0, axis] = tree.boxes[ends, 1, axis] - tree.boxes[ends, 0, axis]
            around += [tree.boxes[ends] - width, tree.boxes[ends] + width]
        # Most of these boxes are neighbours of several cells.
        rows = np.concatenate(around).reshape(len(ends) * len(around), -1)
        _, first, number = np.unique(
            rows.view(f"V{rows.itemsize * rows.shape[1]}"), return_index=True, return_inverse=True
        )
        values = flat.query(rows[first].reshape(len(first), 2, -1)).value
        people = np.split(values[number.ravel()], len(around))
        for axis, (first, last) in enumerate(sides.T):
            before, after = around[2 * axis : 2 * axis + 2]
            # At the edge of the domain a cell is its own neighbour.
            left = np.where(before[:, 1, axis] > first, people[2 * axis], own)
            right = np.where(after[:, 0, axis] < last, people[2 * axis + 1], own)
            slopes[ends, axis] = slope_between(left, own, right)
        return Walk(tree, found, Inside.of(tree, found, slopes))

    def query(self, asked: Asked) -> Counted:
        """People in boxes float64[q, 2, d] or in polygons."""
        answer = np.zeros((SUMS, len(asked)))
        if isinstance(asked, Polygons):
            for some in asked.batches():
                answer[:, some] = self._answer(asked.take(some))
        else:
            nearby = np.argsort(asked[:, 0, 0])  # neighbours open the same cells, which stay in the cache

            def work(start: int) -> None:
                some = nearby[start : start + _BOXES_AT_ONCE]
                answer[:, some] = self._boxes.answer(np.ascontiguousarray(np.moveaxis(asked[some], 0, 2)))

            on_all_cores(work, range(0, len(asked), _BOXES_AT_ONCE))
        return Counted.around(answer)

    def _answer(self, areas: Polygons) -> Floats:
        answer = np.zeros((SUMS, len(areas)))
        steps: list[Step] = []
        query, cell = np.arange(len(areas)), np.zeros(len(areas), dtype=np.int64)
        left, opened, _ = self._meet(answer, areas, query, cell)
        query, cell = query[opened], cell[opened]
        fanout = self.tree.children.shape[1]
        while len(query):
            children = self.tree.children[cell]
            several = left.take(np.repeat(np.arange(len(query)), fanout))
            left, opened, shares = self._meet(answer, several, np.repeat(query, fanout), children.ravel())
            steps.append(Step(query, cell, shares.reshape(-1, fanout).T, np.divmod(opened, fanout)[::-1]))
            query, cell = query[opened // fanout], children.ravel()[opened]
        self._back.go(answer, steps)
        return answer

    def _meet(
        self, answer: Floats, areas: Polygons, query: Integers, cell: Integers
    ) -> tuple[Polygons, Integers, Floats]:
        """Add what areas take from one cell each, int64[m].

        The areas inside cells that must be opened, which these are, and how much of the others is covered.
        """
        tree = self.tree
        inner, meets, holds = areas.within(tree.boxes[cell])
        whole, cut = np.flatnonzero(holds), np.flatnonzero(meets & ~holds)
        add(answer[PEOPLE], query[whole], self.found.people[cell[whole]])
        add(answer[MOST], query[whole], self._most[cell[whole]])
        shares = holds.astype(np.float64)
        ends = tree.children[cell[cut], 0] == NONE
        opened, cut = cut[~ends], cut[ends]
        add(answer[MOST], query[cut], self._most[cell[cut]])
        region = tree.regions[cell[cut]] != NONE
        for rows, take in ((cut[region], self._cut_regions), (cut[~region], self._cut_parts)):
            shares[rows] = take(answer, inner.take(rows), query[rows], cell[rows])
        return inner.take(opened), opened, shares

    @cached_property
    def _most(self) -> Floats:
        """Who act from a cell, the largest number that may live there; no limit is known for trimmed parts."""
        return np.where(self.tree.is_part, np.inf, self.tree.acting)

    @cached_property
    def _back(self) -> WayBack:
        return WayBack.of(self.tree, self.found)

    @cached_property
    def _boxes(self) -> BoxWalk:
        return BoxWalk.of(self.tree, self.found, self.inside, self._most, self._back)

    def _cut_regions(self, answer: Floats, areas: Polygons, query: Integers, cell: Integers) -> Floats:
        inside, region, fanout = self.inside, self.tree.boxes[cell], self.inside.people.shape[1]
        slopes, noise = inside.slopes[cell], inside.noise[cell]
        doubt = noise + self.found.doubt[cell] / fanout**2
        value, variance, uneven, total, squares = np.zeros((5, len(cell)))
        for child in range(fanout):
            tile, people = inside.boxes[cell, child], inside.people[cell, child]
            taken = areas.tile_share(tile, region, slopes)
            whole = inside.shares[cell, child]
            share = np.minimum(np.divide(taken, whole, out=np.zeros(len(cell)), where=whole > 0), 1.0)
            value += people * share
            excess = inside.spread.take(cell).excess(people, share, doubt)
            variance += people * share * (1.0 - share) + (1.0 - alike(fanout)) * excess
            uneven += np.sqrt(excess)
            total += share
            squares += share * share
        # Children of a region err against each other, since their sum is known; they are uneven alike.
        apart = np.maximum(squares - total**2 / fanout, 0.0) * fanout / (fanout - 1)
        variance += apart * noise + alike(fanout) * uneven**2
        add(answer[PEOPLE], query, value)
        add(answer[VARIANCE], query, variance)
        return areas.tile_share(region, region, np.zeros(slopes.shape))

    def _cut_parts(self, answer: Floats, areas: Polygons, query: Integers, cell: Integers) -> Floats:
        people, noise = self.found.people[cell], self.found.noise[cell]
        box = self.tree.boxes[cell]
        share = areas.tile_share(box, box, self.inside.slopes[cell])
        add(answer[PEOPLE], query, people * share)
        add(answer[VARIANCE], query, self.inside.spread.take(cell).variance(people, share, noise))
        return share
