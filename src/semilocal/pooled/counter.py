"""Counting in memory: reports are sorted codes, a cell is one range of them.

Knows all positions: who runs it is a curator, also where two servers are played. Knows no rule.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput
from ..hierarchy.dyadic import BinaryTree, Cells
from . import noise
from .task import PooledTask

__all__ = ["MemoryCounter"]

Integers = npt.NDArray[np.int64]


class MemoryCounter:
    """A counter over positions that are all in memory.

    Parameters
    ----------
    task : PooledTask
    points : array_like, shape (n, d)
        One row per report, inside the domain. 8 bytes per report are kept.
    words : Words
        Where the noise comes from; see :mod:`semilocal.pooled.noise`. Every number gets ``task.noises`` draws.
    """

    def __init__(self, task: PooledTask, points: npt.ArrayLike, words: noise.Words) -> None:
        codes = task.hierarchy.codes(points)
        codes.sort()
        self._start(task, codes, words)

    @classmethod
    def from_codes(cls, task: PooledTask, codes: Cells, words: noise.Words) -> MemoryCounter:
        """A counter over deepest cells (uint64[n], ascending) instead of positions."""
        if codes.dtype != np.uint64 or codes.ndim != 1 or (codes[1:] < codes[:-1]).any():
            raise InvalidInput("codes must be uint64[n] in ascending order; sort them first")
        counter = cls.__new__(cls)
        counter._start(task, codes, words)
        return counter

    def _start(self, task: PooledTask, codes: Cells, words: noise.Words) -> None:
        self._tree: BinaryTree = task.hierarchy
        self._task = task
        self._codes = codes
        self._words = words

    @property
    def people(self) -> int:
        """Reports."""
        return len(self._codes)

    def differences(self, depth: int, cells: Cells, units: Integers) -> Integers:
        """Noisy differences of the cells' children: int64[m]."""
        children = self._tree.children(cells).reshape(-1, 2)
        (first, _), (second, last) = self._tree.span(children[:, 0]), self._tree.span(children[:, 1])
        below, middle = np.searchsorted(self._codes, first), np.searchsorted(self._codes, second)
        above = np.searchsorted(self._codes, last, side="right")
        return self._noisy(2 * middle - below - above, units)

    def counts(self, cells: Cells, units: Integers) -> Integers:
        """Noisy numbers of reports in the cells: int64[m]."""
        first, last = self._tree.span(cells)
        exact = np.searchsorted(self._codes, last, side="right") - np.searchsorted(self._codes, first)
        return self._noisy(exact, units)

    def _noisy(self, exact: Integers, units: Integers) -> Integers:
        for _ in range(self._task.noises):
            exact = exact + noise.draw(self._task.unit, units, self._words)
        return exact
