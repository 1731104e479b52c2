"""When a cell is opened, and what that costs: a public rule over published numbers.

To open a cell is to publish the noisy **difference** of the numbers of reports in its two children. The rule goes down
level by level and keeps for every cell

- ``size``: its estimated reports. The root's is exact, N. With the difference D of its parent (size n), a child's is
  (n + D) / 2 or (n - D) / 2; where |D| > n both are moved to where they agree, weighted by their variances;
- ``variance`` of that estimate;
- ``unevenness``: estimate of E[(D / n)^2] from the differences on its path, newer ones counting twice as much;
- ``left``: units of the path's budget that are left.

A cell is opened if ``reach * sqrt(unevenness) >= threshold``, where ``reach = size + sd / 2``: if the difference that
is to be expected, or cannot be ruled out, stands out of the noise. So a large even cell stays whole, and a small
crowd beside a large one is not lost in the noise of its parent. Opening costs ``opening_share * sqrt(threshold /
reach)`` of the path's budget: the noise of a difference grows like the square root of the cell's size. It costs at
least ``1 / (8 max_depth)`` of it, so that the noise of the largest cells has a limit. All that is left of a path's
budget goes into the count of its final cell.

Only operations that IEEE 754 rounds in one way (+ - * / sqrt and comparisons) and integers decide, cell by cell, so
everybody who replays the published numbers gets the same tree.

Knows published numbers only. Knows no counts, noise or positions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput
from ..hierarchy.dyadic import ROOT, Cells
from .task import UNITS, PooledTask

__all__ = ["Level", "difference_noise", "next_level", "root_level", "siblings"]

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_Item = TypeVar("_Item", bound=np.generic)

DOUBT = 0.5  # standard deviations that a cell's estimate is given the benefit of
FORGET = 0.5  # what a difference counts against that of the next level
CHEAPEST = 8  # a path that opens a cell on every level at the least price spends an eighth of its budget
EVENEST = 0.1  # least unevenness assumed: the differences seen so far say little about smaller cells


@dataclass(frozen=True, eq=False)
class Level:
    """Cells of one depth whose parents were opened, in the order of their codes; siblings stand side by side."""

    depth: int
    cells: Cells  # uint64[m]
    size: Floats  # float64[m], estimated reports, as the rule sees them, and the variance of that
    variance: Floats  # float64[m]
    unevenness: Floats  # float64[m], estimate of E[(D / n)^2] on the path, and what it counts
    weight: Floats  # float64[m]
    left: Integers  # int64[m], units of the path's budget left before the cell is asked about
    price: Integers  # int64[m], units that opening costs; 0 for cells that are not opened

    @property
    def opened(self) -> npt.NDArray[np.bool_]:
        """Which cells are opened: bool[m]. The others are final."""
        return self.price > 0


def root_level(task: PooledTask, people: int) -> Level:
    """The level that holds the root alone; ``people`` is the public number of accepted reports."""
    one, root = np.ones(1), np.array([ROOT], dtype=np.uint64)
    return _priced(
        task, Level(0, root, people * one, 0 * one, 0.5 * one, one, np.array([UNITS]), np.zeros(1, np.int64))
    )


def next_level(task: PooledTask, level: Level, differences: Integers) -> Level:
    """The children of the cells that were opened, from their published noisy differences int64[opened]."""
    opened = level.opened
    if differences.shape != (int(np.count_nonzero(opened)),) or differences.dtype != np.int64:
        raise InvalidInput(
            f"level {level.depth} opened {np.count_nonzero(opened)} cells; got differences "
            f"{differences.dtype}{differences.shape}"
        )
    size, variance, price = level.size[opened], level.variance[opened], level.price[opened]
    difference = differences.astype(np.float64)
    noise = difference_noise(task, price)
    away = np.abs(difference)
    beyond = away > size
    agreed = np.maximum((size * noise + away * variance) / (variance + noise), 0.0)
    size = np.where(beyond, agreed, size)
    kept = np.where(beyond, np.sign(difference) * agreed, difference)
    after = (variance + noise) / 4  # a child that is cut at the ends of its parent is not certain
    after = np.where(beyond, np.maximum(variance * noise / (variance + noise), after), after)

    reach = np.maximum(_reach(level.size[opened], variance), 1.0)
    seen = np.minimum(np.maximum((difference * difference - noise - size) / (reach * reach), -1.0), 1.0)
    doubt = noise / (reach * reach)
    counts = 1 / (0.25 + 3 * doubt * doubt)
    before = FORGET * level.weight[opened]
    weight = before + counts
    unevenness = (before * level.unevenness[opened] + counts * seen) / weight

    parents = level.cells[opened]
    children = task.hierarchy.children(parents) if len(parents) else parents
    size = siblings((size + kept) / 2, (size - kept) / 2)
    after, unevenness, weight = np.repeat([after, unevenness, weight], 2, axis=1)
    left = np.repeat(level.left[opened] - price, 2)
    return _priced(task, Level(level.depth + 1, children, size, after, unevenness, weight, left, 0 * left))


def difference_noise(task: PooledTask, units: Integers) -> Floats:
    """Variance of the noise of numbers by the units they cost, as the rule takes it (2 / e^2 per noise)."""
    rate = units * (task.path_budget / (UNITS * task.max_reports))
    return 2.0 * task.noises / (rate * rate)


def _priced(task: PooledTask, level: Level) -> Level:
    """The level with its prices, and 0 for cells that stay whole."""
    reach = _reach(level.size, level.variance)
    share = task.opening_share * np.sqrt(task.threshold / np.maximum(reach, task.threshold))
    least = max(UNITS // (CHEAPEST * task.hierarchy.max_depth), 1)
    price = np.maximum((share * UNITS).astype(np.int64), least)
    expected = reach * np.sqrt(np.minimum(np.maximum(level.unevenness, EVENEST), 1.0))  # difference of the children
    opens = (expected >= task.threshold) & (price < level.left)
    if level.depth == task.hierarchy.max_depth:
        opens[:] = False
    if not task.hierarchy.has_one_fanout:
        opens &= task.hierarchy.fanouts(level.cells) == 2
    return replace(level, price=np.where(opens, price, 0))


def _reach(size: Floats, variance: Floats) -> Floats:
    return np.asarray(size + DOUBT * np.sqrt(variance))


def siblings(first: npt.NDArray[_Item], second: npt.NDArray[_Item]) -> npt.NDArray[_Item]:
    """First and second children, in turn: [2m]."""
    return np.stack((first, second), axis=1).ravel()
