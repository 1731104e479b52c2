"""The tree of a pooled run: every cell with its estimate, and the errors of the least-squares solution.

Estimates are kept from being negative, which takes people from crowded parts and gives them to empty ones. The errors
are those of the unbiased estimates, so the tree has both numbers, and an interval holds both answers.

Final cells are divided further by the densities of their neighbours (pooled/spread.py). How unevenly people lie in
them, and whether the cells that a line cuts lean together, is learnt from the run's divisions (prior.py).

Knows published numbers. Knows no positions.
"""

from __future__ import annotations

import numpy as np

from ..hierarchy.base import Hierarchy
from ..pooled.estimate import Estimates
from ..pooled.spread import spread_inside
from ..protocol.estimate import Parts
from ..protocol.promise import Mark
from .prior import Halved, clumped, leaning
from .tree import CountTree

__all__ = ["pooled_tree"]


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
        leaning(estimates.tree.task.hierarchy, halved), unbiased, mark,
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
