"""How far moved participants can have shifted a mean, by the public transcript alone.

A moved person gave the value of a place drawn evenly from the part that was kept, where the people of a trimmed part
would have given others. How often the intervals hold the truth is measured in bench/RESULTS.md.

Knows a partition and a function. Knows no mechanism.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..arrays import Floats
from ..functions import BoundedFunction
from ..hierarchy.base import Cells, Hierarchy
from ..protocol.column import Column
from ..protocol.partition import Partition
from ._law import Doubt
from ._tree import NONE, Tree
from ._visitors import Population, population

__all__ = ["Shift", "shift_of"]

_PROBES = 16  # places in a box that stand for all


class Shift(NamedTuple):
    """True sum of f less the sum over the places participants acted from.

    ``likely`` is that of the people who are surely in trimmed parts, as in values of counts (``CountAnswers``);
    ``expected`` is the mean of what is possible, with its ``variance``.
    """

    likely: float
    expected: float
    variance: float


def shift_of(partition: Partition, f: BoundedFunction) -> Shift:
    """The shift of the sum of f; zero if nobody can have been moved, or if values do not depend on where people are."""
    if not len(partition.trims.cells) or isinstance(f, Column):
        return Shift(0.0, 0.0, 0.0)
    tree, found = _moved(partition)
    parts = np.flatnonzero(tree.is_part)
    ends = np.flatnonzero(tree.children[:, 0] == NONE)
    mean, square = np.zeros((2, len(tree.cells)))
    values = f(_places(partition.task.hierarchy, tree.cells[ends])).reshape(len(ends), _PROBES)
    mean[ends], square[ends] = values.mean(axis=1), (values**2).mean(axis=1)
    landing, landing_square, counted = mean.copy(), square.copy(), mean.copy()
    # Of a part: where its people were sent, and where later estimates have them (_way_back).
    sent, sent_square, seen = np.zeros((3, len(tree.cells)))
    for level in reversed(tree.levels):
        children, kept = tree.children[level], tree.kept[level]
        ways = np.where(kept, tree.portions[level], 0.0)
        for numbers in (landing, landing_square, counted):
            numbers[level] = (ways * numbers[children]).sum(axis=1) / ways.sum(axis=1)
        row, child = np.nonzero(tree.exists[level] & ~kept)
        part = children[row, child]
        sent[part], sent_square[part], seen[part] = (at[level[row]] for at in (landing, landing_square, counted))
        np.add.at(counted, level[row], found.mistaken[part] * (mean[part] - seen[part]))
    people, change = found.people[parts], mean[parts] - seen[parts]
    clumped = found.law.spread(tree.depths[parts], people, tree.children.shape[1]).clumped
    here = np.maximum(square[parts] - mean[parts] ** 2, 0.0)
    there = np.maximum(sent_square[parts] - sent[parts] ** 2, 0.0)
    variance = found.noise[parts] * change**2 + people * there
    variance += (people + clumped * (people**2 + found.noise[parts])) * here
    doubt, depths = Doubt(found.law, 1), tree.depths[parts] - 1  # those of the cells that were trimmed
    for depth in range(int(depths.max()), -1, -1):
        doubt.add(depth, np.atleast_1d(found.common[parts] @ np.where(depths == depth, change, 0.0)))
    middle = float(people @ (mean[parts] - sent[parts]))
    return Shift(middle - float(found.unsure[parts] @ change), middle, float(variance.sum()) + float(doubt.variance[0]))


@lru_cache(maxsize=1)
def _moved(partition: Partition) -> tuple[Tree, Population]:
    """Who may have been moved; the same for every function of one partition."""
    tree = Tree.of(partition)
    return tree, population(tree)


def _places(hierarchy: Hierarchy, cells: Cells) -> Floats:
    """Places spread over cells, by a rule that fills them evenly in any dimension: float64[m * probes, d]."""
    dimensions = hierarchy.box.dimensions
    ratio = 2.0
    for _ in range(32):  # the root of ratio ** (d + 1) = ratio + 1, which makes steps that never line up
        ratio = (1.0 + ratio) ** (1.0 / (dimensions + 1))
    steps = ratio ** -np.arange(1.0, dimensions + 1)
    share = (0.5 + np.arange(_PROBES)[:, None] * steps) % 1.0
    return hierarchy.places(np.repeat(cells, _PROBES), np.tile(share, (len(cells), 1)))
