"""Pooled trees for tests: small worlds, and the exact law of everything that is published about them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from semilocal import Box
from semilocal.hierarchy import BinaryTree
from semilocal.pooled import MemoryCounter, PooledTask, Published, Tree, play
from semilocal.pooled.noise import from_generator
from semilocal.protocol.promise import Mark

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

LINE = Box((0.0,), (1.0,))


def small_task(*, epsilon: float = 2.0, threshold: float = 2.0, depth: int = 2, **others: object) -> PooledTask:
    """A task over the unit interval that opens cells of a few people."""
    fields: dict[str, object] = {"trust": "curator", "opening_share": 0.25, **others}
    return PooledTask(hierarchy=BinaryTree(LINE, depth), epsilon=epsilon, threshold=threshold, **fields)  # type: ignore[arg-type]


def seeded(task: PooledTask, points: npt.ArrayLike, seed: int) -> Published:
    """One run with seeded noise."""
    words = from_generator(np.random.default_rng(seed))
    return play(task, MemoryCounter(task, points, words), mark=Mark(seeded=True))


def true_numbers(tree: Tree, points: npt.ArrayLike) -> tuple[list[Integers], Integers]:
    """What would have been published without noise: the opened cells' differences per level, the final counts."""
    codes = tree.task.hierarchy.codes(points)
    differences = []
    for level in tree.levels:
        if level.opened.any():
            below = tree.task.hierarchy.max_depth - level.depth - 1
            children = codes >> np.uint64(below)
            cells = level.cells[level.opened]
            ones = [(children == 2 * cell).sum() - (children == 2 * cell + 1).sum() for cell in cells.tolist()]
            differences.append(np.array(ones, dtype=np.int64))
    first, last = tree.task.hierarchy.span(tree.cells)
    return differences, np.array([((codes >= a) & (codes <= b)).sum() for a, b in zip(first, last, strict=True)])


def largest_log_ratio(tree: Tree, here: npt.ArrayLike, there: npt.ArrayLike) -> float:
    """Log of the largest P(o | here) / P(o | there) over all outputs o that publish this tree's differences.

    The differences are the tree's own; each final count is free, and its worst value is far out on one side.
    """
    rate = float(tree.task.unit)
    one, other = true_numbers(tree, here), true_numbers(tree, there)
    total = 0.0
    for level, found, a, b in zip(tree.levels, tree.differences, one[0], other[0], strict=False):
        total += float(np.sum(level.price[level.opened] * rate * (np.abs(found - b) - np.abs(found - a))))
    return total + float(np.sum(tree.units * rate * np.abs(one[1] - other[1])))
