"""How unevenly people lie in final cells of a pooled tree: a Beta prior for each depth, learnt from the run itself.

Two people of a cell are in the same place with the chance ``clumped``, and anywhere in it otherwise. Of n people a part
with the share b then holds n b on average, with the variance (Beta-binomial)

    n b (1 - b) + n (n - 1) clumped b (1 - b),

chance and clumps. Every opened cell estimates ``clumped`` without bias, by the method of moments: the square of what
its halves are apart, without noise and chance. Cells count by how well their noise lets the division be known; those of
another depth count for few, fewer the farther it is. One cell of which all divisions are equally likely is added: few
or noisy cells leave ignorance.

All opened cells teach it, with the sizes that were known before they were opened: what a division shows does not select
it then. Neighbours explain a part of the unevenness (pooled/spread.py). Which part they leave is learnt from the cells
that are most like final ones.

Knows published numbers. Knows no positions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Flags, Floats
from ..hierarchy import TableTree
from ..hierarchy.base import Cells, Hierarchy
from ..pooled import noise
from ..pooled.estimate import Estimates
from ..pooled.rule import last_opened
from ..pooled.spread import Density

__all__ = ["Halved", "clumped", "told_together"]

_WIDEST = 1.0 / 12.0  # variance of a share if all divisions are equally likely
_EQUAL = 1.0 / 3.0  # the chance to be in the same place that belongs to it
_NEARBY = 1.0  # cells without noise that the next depth counts for at the most; the second next half as many


class Halved(NamedTuple):
    """Opened cells and what is known about their halves.

    Attributes
    ----------
    cells : uint64[m]
    size, variance : float64[m]
        People as estimated before the cell was opened, and the variance of that.
    difference, noise : float64[m]
        First half less second, and the variance of the noise of half of it.
    last : bool[m]
        Whether it is one of those that are most like final cells.
    """

    cells: Cells
    size: Floats
    variance: Floats
    difference: Floats
    noise: Floats
    last: Flags

    @staticmethod
    def of(estimates: Estimates) -> Halved:
        """Those of a run."""
        tree, task = estimates.tree, estimates.tree.task
        rows = [(np.empty(0, np.uint64), *np.empty((4, 0)), np.empty(0, bool))]
        for level, difference in zip(tree.levels, tree.differences, strict=False):
            cells, size, variance, price = (
                column[level.opened] for column in (level.cells, level.size, level.variance, level.price)
            )
            error = task.noises * noise.variance(task.unit, price) / 4.0
            rows.append((cells, size, variance, difference, error, last_opened(task, level)[level.opened]))
        return Halved(*(np.concatenate(column) for column in zip(*rows, strict=True)))

    def take(self, rows: Flags) -> Halved:
        """Some of them."""
        columns: tuple[Any, ...] = self
        return Halved(*(column[rows] for column in columns))

    def uneven(self, hierarchy: Hierarchy, share: Floats | None = None) -> tuple[Floats, Floats]:
        """What each cell says about ``clumped``, and the variance of its share by noise: float64[m] each.

        Parameters
        ----------
        share : float64[m], optional
            Expected share of the first half; that of its area if left out.
        """
        area = np.full(len(self.cells), 0.5)
        if not hierarchy.cells_are_boxes and len(area):
            halves = hierarchy.areas(hierarchy.children(self.cells)).reshape(-1, 2)
            area = halves[:, 0] / halves.sum(axis=1)
        share = area if share is None else share
        size = np.maximum(self.size, 2.0)
        beyond = (self.difference / 2.0 - size * (share - 0.5)) ** 2 - self.noise - self.variance * (share - 0.5) ** 2
        found = (beyond - size * share * (1.0 - share)) / (size * (size - 1.0) * area * (1.0 - area))
        return found, self.noise / size**2


def clumped(estimates: Estimates) -> Floats:
    """Chance that two people of a final cell are in the same place, apart from what its parts show: float64[m]."""
    tree, hierarchy = estimates.tree, estimates.tree.task.hierarchy
    some, depth = Halved.of(estimates), hierarchy.depth(tree.cells)
    found, error = some.uneven(hierarchy)
    at, every = hierarchy.depth(some.cells), np.arange(int(depth.max()) + 1)
    known = np.bincount(at, _weight(error), minlength=len(every))
    told = np.bincount(at, _weight(error) * found, minlength=len(every)) / np.maximum(known, 1e-300)
    # People of another depth may lie otherwise: what it tells is limited, however many its cells are.
    near = known / (1.0 + known * np.abs(every - every[:, None]) / (_NEARBY * _weight(0.0)))
    alone = np.clip((near @ told + _EQUAL * _weight(0.0)) / (near.sum(axis=1) + _weight(0.0)), 0.0, 1.0)[depth]
    if isinstance(hierarchy, TableTree) or not hierarchy.cells_are_boxes:
        return np.asarray(alone)
    last = some.take(some.last)
    share = Density(hierarchy, tree.cells, estimates.counts).first_half(last.cells, np.maximum(last.size, 0.0))
    flat, left = (told_together(*last.uneven(hierarchy, expected)) for expected in (None, share))
    wide = np.all([other == tree.cells for other in hierarchy.beside(tree.cells)], axis=0)  # as wide as the domain
    return np.asarray(alone * np.where(wide, 1.0, min(left / flat, 1.0) if flat > 0 else 1.0))


def told_together(found: Floats, error: Floats) -> float:
    """``clumped`` by divisions that say ``found`` each, float64[m], with variances of their shares by noise; 0 or more.

    Examples
    --------
    >>> told_together(np.empty(0), np.empty(0)), told_together(np.full(9_999, 0.5), np.zeros(9_999))
    (0.3333333333333333, 0.49998333333333334)
    """
    weight = _weight(error)
    return max(float((weight @ found + _EQUAL * _weight(0.0)) / (weight.sum() + _weight(0.0))), 0.0)


def _weight(error: Floats | float) -> Any:
    return 1.0 / (_WIDEST + error) ** 2
