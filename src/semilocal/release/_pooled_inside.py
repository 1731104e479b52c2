"""How people lie inside the final cells of a pooled tree.

They are divided by the densities of the neighbours (pooled/spread.py). How unevenly cells of a depth and size divide is
learned from all divisions of the run; which share of that the neighbours leave, from the divisions of the cells most
like final ones (_halved.py).

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
from ..pooled.estimate import Estimates
from ..pooled.spread import HALVINGS, Density, Quarters
from ._halved import clumped, last_halved
from .spread import Spread, share_left

__all__ = ["PooledInside", "inside_of"]


class PooledInside(NamedTuple):
    """How people lie inside the final cells of a tree of n cells.

    Attributes
    ----------
    parts : float64[2^halvings, n]
        Shares of the people of final cells in their parts, which are what further halvings of a cell give.
    uneven : float64[n]
        What times share and 1 - share is the variance of how many people lie in a part with that share.
    spread : Spread
        How unevenly people lie in each final cell, beyond what the neighbours suggest.
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
    spread = _beyond_neighbours(estimates, people, starts)
    uneven[finals] = spread.unevenness(counts, estimates.variances)
    try:
        quarters = Quarters(tree.task.hierarchy.deeper(HALVINGS), tree.cells, counts)
    except InvalidInput:  # floats cannot tell such narrow cells apart; evenly then
        return PooledInside(np.ones((1, len(people))), uneven, spread)
    # Memory that nobody asks about is never touched.
    parts, known = np.zeros((1 << HALVINGS, len(people))), np.zeros(len(people), dtype=bool)
    number, lock = np.empty(len(people), dtype=np.int64), Lock()
    number[finals] = np.arange(len(finals))

    def fill(cells: Integers) -> None:
        with lock:
            unknown = np.sort(cells[~known.take(cells)])
            if len(unknown):
                unknown = unknown[np.append(True, unknown[1:] != unknown[:-1])]
                parts[:, unknown] = quarters.shares(number[unknown])
                known[unknown] = True

    return PooledInside(parts, uneven, spread, fill)


def _beyond_neighbours(estimates: Estimates, people: Floats, starts: Integers) -> Spread:
    """How far people may lie from where the neighbours suggest, in each final cell."""
    tree, hierarchy = estimates.tree, estimates.tree.task.hierarchy
    assert not isinstance(hierarchy, TableTree)
    last = last_halved(estimates, people, starts)
    first = Density(hierarchy, tree.cells, estimates.counts).first_half(last.cells, last.people)
    suggested = np.stack([first, 1.0 - first], axis=1)
    left = share_left(last.people, last.children, last.noise, np.full(suggested.shape, 0.5), suggested)
    alone = np.all([other == tree.cells for other in hierarchy.beside(tree.cells)], axis=0)  # as wide as the domain
    return Spread.of(clumped(estimates, people, starts) * np.where(alone, 1.0, left))
