"""How people lie inside the final cells of a pooled tree.

They are divided by the densities of the neighbours (pooled/spread.py), and how far they may lie otherwise is learned
from the run's own divisions (spread.py).

Knows published numbers. Knows no positions.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Integers
from ..errors import InvalidInput
from ..hierarchy import TableTree
from ..pooled import noise
from ..pooled.estimate import Estimates
from ..pooled.rule import last_opened
from ..pooled.spread import HALVINGS, Density, Quarters
from .spread import Spread, fit

__all__ = ["PooledInside", "inside_of"]

_MOST_CELLS = 1 << 13  # of one depth, evenly taken: they show how unevenly people lie as well as all do


class PooledInside(NamedTuple):
    """How people lie inside the final cells of a tree of n cells.

    Attributes
    ----------
    parts : float64[2^halvings, n]
        Shares of the people of final cells in their parts, which are what further halvings of a cell give.
    uneven : float64[n]
        What times share and 1 - share is the variance of how many people lie in a part with that share.
    spread : Spread
        How unevenly the run's own cells divide.
    learn : callable
        Fills ``parts`` for some final cells, int64[k]; they hold nothing before.
    """

    parts: Floats
    uneven: Floats
    spread: Spread
    learn: Callable[[Integers], None] = lambda cells: None


def inside_of(estimates: Estimates, people: Floats, starts: Integers, finals: Integers) -> PooledInside:
    """Learn how unevenly people lie, and get ready to divide final cells. ``finals``: where these stand."""
    tree, counts = estimates.tree, estimates.counts
    assert not isinstance(tree.task.hierarchy, TableTree)
    uneven = np.zeros(len(people))
    spread = _fitted(estimates, people, starts)
    uneven[finals] = spread.unevenness(counts, estimates.variances)
    try:
        quarters = Quarters(tree.task.hierarchy.deeper(HALVINGS), tree.cells, counts)
    except InvalidInput:  # floats cannot tell such narrow cells apart; evenly then
        return PooledInside(np.ones((1, len(people))), uneven, spread)
    # Memory that nobody asks about is never touched.
    parts, known = np.zeros((1 << HALVINGS, len(people))), np.zeros(len(people), dtype=bool)
    number, lock = np.empty(len(people), dtype=np.int64), Lock()
    number[finals] = np.arange(len(finals))

    def learn(cells: Integers) -> None:
        with lock:
            unknown = np.sort(cells[~known.take(cells)])
            if len(unknown):
                unknown = unknown[np.append(True, unknown[1:] != unknown[:-1])]
                parts[:, unknown] = quarters.shares(number[unknown])
                known[unknown] = True

    return PooledInside(parts, uneven, spread, learn)


def _fitted(estimates: Estimates, people: Floats, starts: Integers) -> Spread:
    """How far people lie from where the neighbours suggest, from the divisions of the cells most like final ones.

    Cells with a final child would not do: a child is final where the division, or its noise, made it small.
    """
    tree = estimates.tree
    assert not isinstance(tree.task.hierarchy, TableTree)
    density = Density(tree.task.hierarchy, tree.cells, estimates.counts)
    sizes, children, noises, expected = [np.empty(0)], [np.empty((0, 2))], [np.empty(0)], [np.empty((0, 2))]
    for start, level, found in zip(starts[:-1], tree.levels, tree.differences, strict=False):
        last = np.flatnonzero(last_opened(tree.task, level))
        last = last[:: -(-len(last) // _MOST_CELLS) or 1]
        size, difference = people[start + last], found[np.searchsorted(np.flatnonzero(level.opened), last)]
        first = density.first_half(level.cells[last], size)
        sizes.append(size)
        children.append(np.stack([size + difference, size - difference], axis=1) / 2.0)
        noises.append(tree.task.noises * noise.variance(tree.task.unit, level.price[last]) / 4.0)
        expected.append(np.stack([first, 1.0 - first], axis=1))
    return fit(*(np.concatenate(column) for column in (sizes, children, noises, expected)))
