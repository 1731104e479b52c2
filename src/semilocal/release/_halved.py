"""What a pooled run found about cells that it halved, and the law that they teach.

Knows published numbers. Knows no positions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Flags, Floats, Integers
from ..hierarchy.base import Cells, Hierarchy
from ..pooled import noise
from ..pooled.estimate import Estimates
from ..pooled.rule import last_opened
from ._law import learn

__all__ = ["Halved", "clumped", "last_halved"]

_MOST_CELLS = 1 << 13  # of one depth, evenly taken: they show how unevenly people lie as well as all do


class Halved(NamedTuple):
    """Opened cells uint64[m], their people, those of their halves float64[m, 2] and the variance of each of these."""

    cells: Cells
    people: Floats
    children: Floats
    noise: Floats

    def by_area(self, hierarchy: Hierarchy) -> Halved:
        """The same for halves of unequal area, as if they were equal and people as far from lying evenly.

        In a half with the share a of the area, the variance of the people's share is a (1 - a) times what describes
        clumps in places (spread.py) and chance. So its distance from a is taken in units of the root of that.
        """
        if hierarchy.cells_are_boxes or not len(self.cells):
            return self
        areas = hierarchy.areas(hierarchy.children(self.cells)).reshape(-1, 2)
        share = areas[:, 0] / areas.sum(axis=1)
        unit = 4.0 * share * (1.0 - share)  # 1 for equal areas
        beyond = (self.children[:, 0] - share * self.people) / np.sqrt(unit)
        children = np.stack([self.people / 2.0 + beyond, self.people / 2.0 - beyond], axis=1)
        return Halved(self.cells, self.people, children, self.noise / unit)


def clumped(estimates: Estimates, people: Floats, starts: Integers) -> Floats:
    """Chance that two people of a final cell are in the same place, by its depth and size: float64[m].

    Parameters
    ----------
    estimates : Estimates
        Of m final cells.
    people : float64[n]
        Estimates of all cells of the tree, level by level.
    starts : int64[levels + 1]
        Where each level begins in them.
    """
    tree, hierarchy = estimates.tree, estimates.tree.task.hierarchy
    some = _halved(estimates, people, starts, [level.opened for level in tree.levels]).by_area(hierarchy)
    law = learn(hierarchy.depth(some.cells), some.people, some.children, some.noise)
    return law.spread(hierarchy.depth(tree.cells), estimates.counts, 2).clumped


def last_halved(estimates: Estimates, people: Floats, starts: Integers) -> Halved:
    """Opened cells that are the most like final ones. Arguments are those of :func:`clumped`.

    Cells with a final child would not do to learn what else is known about halves: a child is final where the division,
    or its noise, made it small.
    """
    tree = estimates.tree
    return _halved(estimates, people, starts, [last_opened(tree.task, level) for level in tree.levels])


def _halved(estimates: Estimates, people: Floats, starts: Integers, which: list[Flags]) -> Halved:
    """What was found about opened cells of all levels, of which some are taken."""
    tree = estimates.tree
    rows = [(np.empty(0, dtype=np.uint64), np.empty(0), np.empty((0, 2)), np.empty(0))]
    for start, level, found, wanted in zip(starts[:-1], tree.levels, tree.differences, which, strict=False):
        taken = np.flatnonzero(wanted)
        taken = taken[:: -(-len(taken) // _MOST_CELLS) or 1]
        size, difference = people[start + taken], found[np.searchsorted(np.flatnonzero(level.opened), taken)]
        children = np.stack([size + difference, size - difference], axis=1) / 2.0
        errors = tree.task.noises * noise.variance(tree.task.unit, level.price[taken]) / 4.0
        rows.append((level.cells[taken], size, children, errors))
    return Halved(*(np.concatenate(column) for column in zip(*rows, strict=True)))
