"""How many people live in boxes: one walk down a run's tree for many queries at once.

A query takes the people of cells that it holds and nothing from cells that it does not meet. Only cells that it cuts
are opened, so a query costs about as much as its edge is long in regions. On the way back up, every cell that was
opened says which share of visitors, spread evenly over it, would act from inside the query: that is how errors about
moved people enter the variance, and why they cancel where a query holds both where people live and where they act.

Knows a tree, its population and the insides of its regions. Knows no level of confidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..arrays import Flags, Floats, Integers
from ._inside import Inside, overlap
from ._tree import NONE, Tree
from ._visitors import Population, population

__all__ = ["Counted", "Walk"]

_QUERIES_AT_ONCE = 1 << 12  # working arrays stay in the processor's cache


class Counted(NamedTuple):
    """Answers to q queries: float64[q] each.

    ``value`` is expected, with ``variance``; ``common`` is the doubt between two views of trimmed parts (see
    ``_visitors``); there cannot be more than ``most``, all who act from cells that the query meets, or infinitely many
    where it meets trimmed parts.
    """

    value: Floats
    variance: Floats
    common: Floats
    most: Floats


class _Step(NamedTuple):
    """Cells that were opened on one level: pairs of a query and a cell."""

    query: Integers
    cell: Integers
    shares: Floats  # how much of each child the query covers
    deeper: tuple[Integers, Integers]  # pair and child that the next level opens


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
    def of(tree: Tree) -> Walk:
        """Divide the tree's people; slopes come from asking for the neighbours of every region and trimmed part."""
        found = population(tree)
        slopes = np.zeros((len(tree.cells), tree.boxes.shape[2]))
        flat = Walk(tree, found, Inside.of(tree, found, slopes))
        ends = np.flatnonzero(tree.children[:, 0] == NONE)
        own = np.maximum(found.people[ends], 1.0)
        domain = tree.partition.task.box
        for axis, (first, last) in enumerate(zip(domain.lower, domain.upper, strict=True)):
            width = np.zeros((len(ends), 1, tree.boxes.shape[2]))
            width[:, 0, axis] = tree.boxes[ends, 1, axis] - tree.boxes[ends, 0, axis]
            before, after = tree.boxes[ends] - width, tree.boxes[ends] + width
            # A line through the middles of both neighbours; at the edge of the domain the cell is its own neighbour.
            left = np.where(before[:, 1, axis] > first, flat.query(before).value, own)
            right = np.where(after[:, 0, axis] < last, flat.query(after).value, own)
            slopes[ends, axis] = np.clip((left - right) / (4.0 * own), -1.0, 1.0)
        return Walk(tree, found, Inside.of(tree, found, slopes))

    def query(self, boxes: Floats) -> Counted:
        """People in boxes float64[q, 2, d]."""
        answer = np.zeros((4, len(boxes)))
        nearby = np.argsort(boxes[:, 0, 0])  # neighbours open the same cells: better use of the cache
        for start in range(0, len(boxes), _QUERIES_AT_ONCE):
            some = nearby[start : start + _QUERIES_AT_ONCE]
            answer[:, some] = self._answer(boxes[some])
        value, variance, common, most = answer
        return Counted(value, variance, np.abs(common), most)

    def _answer(self, queries: Floats) -> Floats:
        answer = np.zeros((4, len(queries)))
        steps: list[_Step] = []
        query, cell = np.arange(len(queries)), np.zeros(len(queries), dtype=np.int64)
        open_, _ = self._meet(answer, queries, query, cell)
        query, cell = query[open_], cell[open_]
        while len(query):
            children = self.tree.children[cell]
            shares = np.empty(children.shape)
            opened = np.empty(children.shape, dtype=bool)
            for child in range(children.shape[1]):
                opened[:, child], shares[:, child] = self._meet(answer, queries, query, children[:, child])
            pair, which = np.nonzero(opened)
            steps.append(_Step(query, cell, shares, (pair, which)))
            query, cell = query[pair], children[pair, which]
        self._go_back(answer, steps)
        return answer

    def _meet(self, answer: Floats, queries: Floats, query: Integers, cell: Integers) -> tuple[Flags, Floats]:
        """Add what queries take from cells; which cells must be opened, and the share of the others that they cover."""
        tree, people = self.tree, self.found.people
        boxes = tree.boxes[cell]
        lower, upper = queries[query, 0], queries[query, 1]
        meets = ((lower < boxes[:, 1]) & (upper > boxes[:, 0])).all(axis=1)
        holds = ((lower <= boxes[:, 0]) & (upper >= boxes[:, 1])).all(axis=1)
        self._add(answer[0], query[holds], people[cell[holds]])
        cut = meets & ~holds
        part = (tree.regions[cell] == NONE) & (tree.children[cell, 0] == NONE)
        ends = holds | (cut & (tree.children[cell, 0] == NONE))
        self._add(answer[3], query[ends], np.where(part, np.inf, tree.acting[cell])[ends])
        share = holds.astype(np.float64)
        region = np.flatnonzero(cut & (tree.regions[cell] != NONE))
        for rows, take in ((region, self._cut_regions), (np.flatnonzero(cut & part), self._cut_parts)):
            if len(rows):
                share[rows] = take(answer, query[rows], cell[rows], lower[rows], upper[rows])
        return cut & (tree.children[cell, 0] != NONE), share

    def _cut_regions(self, answer: Floats, query: Integers, cell: Integers, lower: Floats, upper: Floats) -> Floats:
        inside, box = self.inside, self.tree.boxes[cell]
        slopes, people, noise = inside.slopes[cell], inside.people[cell], inside.noise[cell]
        fanout = people.shape[1]
        shares = np.empty(people.shape)
        for child in range(fanout):
            begin, end = inside.boxes[cell, child, 0], inside.boxes[cell, child, 1]
            whole = overlap(begin, end, box, slopes)
            taken = overlap(np.maximum(lower, begin), np.minimum(upper, end), box, slopes)
            shares[:, child] = np.divide(taken, whole, out=np.zeros(len(cell)), where=whole > 0)
        self._add(answer[0], query, (people * shares).sum(axis=1))
        # Children of a region err against each other, since their sum is known; they are uneven in the same way.
        against = ((shares - shares.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) * fanout / (fanout - 1)
        chance = (people * shares * (1.0 - shares)).sum(axis=1)
        doubt = noise + self.found.doubt[cell] / fanout**2
        excess = inside.spread.excess(people, shares, doubt[:, None])
        uneven = np.sqrt(excess).sum(axis=1) ** 2
        self._add(answer[1], query, against * noise + chance + uneven)
        return overlap(lower, upper, box, np.zeros(slopes.shape))

    def _cut_parts(self, answer: Floats, query: Integers, cell: Integers, lower: Floats, upper: Floats) -> Floats:
        people, noise = self.found.people[cell], self.found.noise[cell]
        share = overlap(lower, upper, self.tree.boxes[cell], self.inside.slopes[cell])
        self._add(answer[0], query, people * share)
        self._add(answer[1], query, self.inside.spread.variance(people, share, noise))
        return share

    def _go_back(self, answer: Floats, steps: list[_Step]) -> None:
        """Add what moved people make uncertain, from the deepest level up."""
        found, below = self.found, np.empty(0)
        for step in reversed(steps):
            step.shares[step.deeper] = below
            kept, children = self.tree.kept[step.cell], self.tree.children[step.cell]
            ways = kept.sum(axis=1)
            below = np.where(kept, step.shares, 0.0).sum(axis=1) / ways
            squares = np.where(kept, step.shares**2, 0.0).sum(axis=1) / ways
            self._add(answer[1], step.query, found.visitors[step.cell] * np.maximum(squares - below**2, 0.0))
            pair, child = np.nonzero(~kept)
            net = step.shares[pair, child] - below[pair]
            self._add(answer[1], step.query[pair], net**2 * found.noise[children[pair, child]])
            self._add(answer[2], step.query[pair], net * found.common[children[pair, child]])

    @staticmethod
    def _add(total: Floats, query: Integers, numbers: Floats) -> None:
        total += np.bincount(query, numbers, minlength=len(total))
