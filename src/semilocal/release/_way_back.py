"""The way back up a run's tree: what moved people make uncertain about queries that cut cells.

Every cell that was opened says which share of visitors, spread evenly over it, would act from inside the query: that is
how errors about moved people enter the variance, and why they cancel where a query holds both where people live and
where they act.

Errors cancel along a path, too. If a trimmed part has more people than expected, there are more visitors where they
went, and the estimate of the next trimmed part takes some of these for people who live in it. They are then counted in
the wrong part, but not among those who stayed. So visitors count in later parts as far as estimates have them there.

Knows a tree, its population and shares that queries take.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Flags, Floats, Integers
from ._law import Doubt
from ._tree import NONE, Tree
from ._visitors import Population

__all__ = ["MOST", "PEOPLE", "SUMS", "UNSURE", "VARIANCE", "Step", "WayBack", "add"]

# What walks add up for each query: the people expected; their variance; the most that there may be; and by how much the
# people expected exceed those who are surely there.
SUMS = 4
PEOPLE, VARIANCE, MOST, UNSURE = range(SUMS)


class Step(NamedTuple):
    """Cells that were opened on one level: pairs of a query and a cell."""

    query: Integers
    cell: Integers
    shares: Floats  # float64[fanout, pairs]: how much of each child the query covers
    deeper: tuple[Integers, Integers]  # child and pair that the next level opens


class WayBack(NamedTuple):
    """What the way back needs of n cells.

    Attributes
    ----------
    kept : float64[fanout, n]
        One over the number of children that were not trimmed, for each of these; 0 for the others.
    trimmed : bool[n]
        Cells that a TRIM divided.
    children : int64[fanout, n]
    found : Population
    """

    kept: Floats
    trimmed: Flags
    children: Integers
    found: Population

    @staticmethod
    def of(tree: Tree, found: Population) -> WayBack:
        """Lay the tree out by columns."""
        kept = np.ascontiguousarray(tree.kept.T.astype(np.float64))
        kept /= np.maximum(kept.sum(axis=0), 1.0)
        return WayBack(kept, tree.trims != NONE, np.ascontiguousarray(tree.children.T), found)

    def go(self, answer: Floats, steps: list[Step]) -> None:
        """Add what people in trimmed parts make uncertain, from the deepest level up."""
        found, below, doubt = self.found, np.empty(0), Doubt(self.found.law, answer.shape[1])
        for depth, (query, cell, shares, deeper) in reversed(list(enumerate(steps))):
            shares[deeper] = below
            below, squares = np.zeros((2, len(cell)))
            kept = [numbers.take(cell) for numbers in self.kept]
            for share, stays in zip(shares, kept, strict=True):
                part = share * stays
                below += part
                part *= share
                squares += part
            squares -= below * below
            np.maximum(squares, 0.0, out=squares)
            squares *= found.visitors.take(cell)
            add(answer[VARIANCE], query, squares)
            trimmed, common = np.flatnonzero(self.trimmed.take(cell)), np.zeros(answer.shape[1])
            later = np.zeros(len(cell))
            for share, stays, children in zip(shares, kept, self.children, strict=True):
                pair = trimmed[stays.take(trimmed) == 0.0]
                part, net = children.take(cell.take(pair)), share.take(pair) - below.take(pair)
                later[pair] += net * found.mistaken.take(part)
                add(answer[VARIANCE], query.take(pair), net**2 * found.noise.take(part))
                add(answer[UNSURE], query.take(pair), net * found.unsure.take(part))
                add(common, query.take(pair), net * found.common.take(part))
            doubt.add(depth, common)
            below += later  # where later estimates have the visitors
        answer[VARIANCE] += doubt.variance


def add(total: Floats, query: Integers, numbers: Floats) -> None:
    """Add numbers to the totals of their queries."""
    total += np.bincount(query, numbers, minlength=len(total))
