"""How people lie inside the final cells of a pooled tree.

They are divided by the densities of the neighbours (pooled/spread.py). How unevenly cells of a depth and size divide is
learned from all divisions of the run (_law.py); which share of that the neighbours leave, from the divisions of the
cells most like final ones.

Knows published numbers. Knows no positions.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

import numpy as np

from ..arrays import Flags, Floats, Integers
from ..errors import InvalidInput
from ..hierarchy import Cells, TableTree
from ..pooled import noise
from ..pooled.estimate import Estimates
from ..pooled.rule import last_opened
from ..pooled.spread import HALVINGS, Density, Quarters
from ._law import learn
from .spread import Spread, share_left

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
    """How far people may lie from where the neighbours suggest, in each final cell.

    Cells with a final child would not do to learn what neighbours leave: a child is final where the division, or its
    noise, made it small.
    """
    tree, hierarchy = estimates.tree, estimates.tree.task.hierarchy
    assert not isinstance(hierarchy, TableTree)
    some = _divisions(estimates, people, starts, [level.opened for level in tree.levels])
    law = learn(hierarchy.depth(some.cells), some.people, some.children, some.noise)
    last = _divisions(estimates, people, starts, [last_opened(tree.task, level) for level in tree.levels])
    first = Density(hierarchy, tree.cells, estimates.counts).first_half(last.cells, last.people)
    suggested = np.stack([first, 1.0 - first], axis=1)
    left = share_left(last.people, last.children, last.noise, np.full(suggested.shape, 0.5), suggested)
    alone = np.all([other == tree.cells for other in hierarchy.beside(tree.cells)], axis=0)  # as wide as the domain
    clumped = law.spread(hierarchy.depth(tree.cells), estimates.counts, 2).clumped
    return Spread((1.0 + clumped * np.where(alone, 1.0, left)) / 2.0)


class _Divisions(NamedTuple):
    """Opened cells uint64[m], their people, those of their halves float64[m, 2] and the variance of each of these."""

    cells: Cells
    people: Floats
    children: Floats
    noise: Floats


def _divisions(estimates: Estimates, people: Floats, starts: Integers, which: list[Flags]) -> _Divisions:
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
    return _Divisions(*(np.concatenate(column) for column in zip(*rows, strict=True)))
