"""How unevenly people lie in final cells of a pooled tree: a Beta prior for each depth, learnt from the run itself.

Two people of a cell are in the same place with the chance ``clumped``, and anywhere in it otherwise. Of n people a part
with the share b then holds n b on average, with the variance (Beta-binomial)

    n b (1 - b) + n (n - 1) clumped b (1 - b),

chance and clumps. Every opened cell estimates ``clumped`` without bias, by the method of moments: the square of what
its halves are apart, beyond what its neighbours explain (pooled/spread.py), without noise and chance. Cells count by
how well their noise lets the division be known; those of another depth count for few, fewer the farther it is. One cell
of which all divisions are equally likely is added: few or noisy cells leave ignorance.

Cells that one line cuts may lean together: along a street, or where positions are rounded. Every second pair of
siblings lies side by side and is halved by one line, and their noise is independent. So the product of what their
halves are apart estimates the covariance without bias.

All opened cells teach both, with the sizes that were known before they were opened: what a division shows does not
select it then.

Knows published numbers. Knows no positions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Floats
from ..hierarchy import TableTree
from ..hierarchy.base import Cells, Hierarchy
from ..pooled import noise
from ..pooled.estimate import Estimates
from ..pooled.spread import Density

_WIDEST = 1.0 / 12.0  # variance of a share if all divisions are equally likely
_EQUAL = 1.0 / 3.0  # the chance to be in the same place that belongs to it
_NEARBY = 2.0  # cells without noise that the next depth counts for at the most; the second next half as many


class Halved(NamedTuple):
    """Opened cells, level by level and along the order, and what is known about their halves.

    Attributes
    ----------
    cells : uint64[m]
    size : float64[m]
        People as estimated before the cell was opened, 2 or more.
    apart : float64[m]
        Share of the first half less what is expected of it.
    chance, noise : float64[m]
        Variances of that if people were independent, and by the noise of the difference.
    even : float64[m]
        Variance of the half in which somebody is who may be anywhere in the cell.
    """

    cells: Cells
    size: Floats
    apart: Floats
    chance: Floats
    noise: Floats
    even: Floats

    @staticmethod
    def of(estimates: Estimates) -> Halved:
        """Those of a run."""
        tree, task, hierarchy = estimates.tree, estimates.tree.task, estimates.tree.task.hierarchy
        rows: list[Any] = [(np.empty(0, np.uint64), *np.empty((3, 0)))]
        for level, difference in zip(tree.levels, tree.differences, strict=False):
            error = task.noises * noise.variance(task.unit, level.price[level.opened]) / 4.0
            rows.append((level.cells[level.opened], level.size[level.opened], difference, error))
        cells, size, difference, error = (np.concatenate(column) for column in zip(*rows, strict=True))
        size, area = np.maximum(size, 2.0), np.full(len(cells), 0.5)
        if not hierarchy.cells_are_boxes and len(cells):
            halves = hierarchy.areas(hierarchy.children(cells)).reshape(-1, 2)
            area = halves[:, 0] / halves.sum(axis=1)
        share = area
        if hierarchy.cells_are_boxes and not isinstance(hierarchy, TableTree):
            share = Density(hierarchy, tree.cells, estimates.counts).first_half(cells, size)
        chance = share * (1.0 - share) / size
        apart = difference / (2.0 * size) + 0.5 - share
        return Halved(cells, size, apart, chance, error / size**2, area * (1.0 - area))


def clumped(estimates: Estimates, some: Halved) -> Floats:
    """Chance that two people of a final cell are in the same place, apart from what its parts show: float64[m]."""
    hierarchy = estimates.tree.task.hierarchy
    found = (some.apart**2 - some.noise - some.chance) / ((1.0 - 1.0 / some.size) * some.even)
    at, depth = hierarchy.depth(some.cells), hierarchy.depth(estimates.tree.cells)
    weight, every = _weight(some.noise), np.arange(int(depth.max()) + 1)
    known = np.bincount(at, weight, minlength=len(every))
    told = np.bincount(at, weight * found, minlength=len(every)) / np.maximum(known, 1e-300)
    # People of another depth may lie otherwise: what it tells is limited, however many its cells are.
    near = known / (1.0 + known * np.abs(every - every[:, None]) / (_NEARBY * _weight(0.0)))
    alone = (near @ told + _EQUAL * _weight(0.0)) / (near.sum(axis=1) + _weight(0.0))
    return np.asarray(np.clip(alone, 0.0, 1.0)[depth])


def leaning(hierarchy: Hierarchy, some: Halved) -> float:
    """Correlation of what is uneven in cells that one line cuts; moved towards 0 by its own error."""
    one = np.flatnonzero(some.cells[:-1] ^ np.uint64(1) == some.cells[1:])
    if isinstance(hierarchy, TableTree) or not hierarchy.cells_are_boxes or not len(one):
        return 0.0
    low, high = hierarchy.boxes(hierarchy.children(some.cells))[:, 0].reshape(len(some.cells), 2, -1).swapaxes(0, 1)
    apart = np.where((low < high).any(axis=1), some.apart, -some.apart)  # the order may run either way
    across = (low != high).argmax(axis=1)
    one = one[across[one] == across[one + 1]]
    weight = 1.0 / ((_WIDEST + some.noise[one]) * (_WIDEST + some.noise[one + 1]))
    both, alone = weight * apart[one] * apart[one + 1], apart**2 - some.noise - some.chance
    together, all_uneven = float(both.sum()), float((weight * (alone[one] + alone[one + 1])).sum()) / 2.0
    if together <= 0.0 or all_uneven <= 0.0:
        return 0.0
    return min(max(together - float((both * both).sum()) / together, 0.0) / all_uneven, 1.0)


def told_together(found: Floats, error: Floats) -> float:
    """``clumped`` by divisions that say ``found`` each, float64[m], with variances of their shares by noise; 0 or more.

    Examples
    --------
    >>> told_together(np.empty(0), np.empty(0)), told_together(np.full(9_999, 0.5), np.zeros(9_999))
    (0.3333333333333333, 0.49998333333333334)
    """
    weight = _weight(error)
    return max(float(((weight * found).sum() + _EQUAL * _weight(0.0)) / (weight.sum() + _weight(0.0))), 0.0)


def _weight(error: Floats | float) -> Any:
    return 1.0 / (_WIDEST + error) ** 2
