"""What step positions were rounded to, and to what step they may be, found in what is public.

If all coordinates are multiples of a step, the halves of cells about as small as the step hold what their lines tell,
not half of the people each. A run's own divisions show that, so nothing private is needed and nothing is spent.

Theory of operation. Cells that are halved at the same place of an axis are one observation, however many they are: the
share of their people before that place, less one half. It is called r; noise has the variance v in it. A step says that
it is m: the share of its lines that lie before the place, less one half. The evidence for the step is the sum of
(r m - m^2 / 2) / (1/4 + v). If positions are not rounded and divisions are even on average and independent, then
however uneven each of them is, the mean of e^evidence is at most 1 (Hoeffding's lemma: r lies within an interval of
length 1, but for its noise, which is taken to be normal). So, by Markov's inequality, evidence of log(steps / a) for
any of that many steps has a chance of at most a.

Parts of the true step have nearly as much evidence: their lines are the true ones and more. Twice the step has half of
it, for half of the lines are missing. So the coarsest step is taken that has three quarters of the best.

A step about as wide as the narrowest final cells leaves no trace in the divisions, and errors of answers along a side
of a box all agree then. Decimals are what people round to. So a power of ten counts as possible until the divisions
exclude it (:func:`possible_lattice`): by a cell without a line in which people surely are, or because the shares r show
less than half of what the step says. The evidence against it is the sum of ((m/2 - r) m/2 - (m/2)^2 / 2) / (s + v), s
being how uneven divisions are in this run. (Half: cells are opened that noise made large, and have smaller r for it.)

Knows published divisions. Knows no positions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ..arrays import Floats
from ..geometry.box import Box
from ..hierarchy import BinaryTree
from ..hierarchy.base import Cells
from ..pooled import noise
from ..pooled.play import Tree as PooledTree
from ._lattice import NOT_ROUNDED, ON_A_LINE, Lattice
from ._tree import Tree
from ._visitors import Population, divided, population

__all__ = ["Divisions", "divisions_of", "likely_lattice", "possible_lattice"]

FALSE_ALARM = 1e-4  # of unrounded positions
_FINEST, _COARSEST = 1 / 16, 32.0  # steps, as shares of a cell's side, that its division tells something about
_NEARLY = 0.75  # of the evidence
_EXCLUDED = math.log(20.0)  # evidence against a step: as sure as an interval of 95 %
_WIDEST = 1024.0  # steps, as shares of a cell's side, that may have to be excluded
_KNOWN = 1 / 16  # variance of a share: beyond it, cells may be open by noise alone
_SURE = 1 / 256  # variance of a share: that many people are there, and not noise
_MOST_CELLS = 1 << 12  # of one depth, evenly taken: what a step does, thousands of places show as well as all


class Divisions(NamedTuple):
    """Cells of one depth that were halved along one axis.

    Attributes
    ----------
    axis : int
    sides : float64[3, m]
        Where the cells begin, are halved and end.
    size, first : float64[m]
        People in the cells, and in their first halves.
    noise : float64[m]
        Variance of the latter.
    """

    axis: int
    sides: Floats
    size: Floats
    first: Floats
    noise: Floats


def divisions_of(tree: PooledTree | Tree, found: Population | None = None) -> Iterator[Divisions]:
    """All divisions that a run published, from the root down; none where cells are not halved.

    Parameters
    ----------
    tree : PooledTree or Tree
    found : Population, optional
        Who lives in the cells of a :class:`Tree`, if that is known already.
    """
    hierarchy = (tree if isinstance(tree, PooledTree) else tree.partition).task.hierarchy
    if not isinstance(hierarchy, BinaryTree):
        return
    for cells, size, first, variance in _pooled(tree) if isinstance(tree, PooledTree) else _public(tree, found):
        if len(cells):
            every = slice(None, None, -(-len(cells) // _MOST_CELLS))
            axis = int(hierarchy.depth(cells[:1])[0]) % hierarchy.box.dimensions
            corners = hierarchy.boxes(hierarchy.children(cells[every]))[:, :, axis].reshape(-1, 4)
            yield Divisions(axis, corners[:, [0, 1, 3]].T, size[every], first[every], variance[every])


def _pooled(tree: PooledTree) -> Iterator[tuple[Cells, Floats, Floats, Floats]]:
    task = tree.task
    for level, difference in zip(tree.levels, tree.differences, strict=False):
        size = level.size[level.opened]
        variance = task.noises * noise.variance(task.unit, level.price[level.opened]) / 4.0
        yield level.cells[level.opened], size, (size + difference) / 2.0, variance


def _public(tree: Tree, found: Population | None) -> Iterator[tuple[Cells, Floats, Floats, Floats]]:
    some = divided(tree, found or population(tree))
    depths = tree.depths[some.cells]
    for depth in range(int(depths.max(initial=-1)) + 1):
        rows = depths == depth
        yield tree.cells[some.cells[rows]], some.people[rows], some.estimates[rows, 0], some.noise[rows]


def likely_lattice(divisions: Iterable[Divisions], box: Box) -> Lattice:
    """The lattice that divisions speak for: one step for all axes, or one for each; none if there is no evidence.

    Positions that are not rounded are taken for rounded with a chance of at most :data:`FALSE_ALARM`, if divisions are
    even on average and independent of each other, and noise is normal.

    Examples
    --------
    >>> places = np.arange(0.0, 1.0, 0.015)
    >>> sides = np.stack([places, places + 0.0075, places + 0.015])
    >>> lines = np.ceil(sides / 0.01 - 1e-9)
    >>> size, first = 100 * (lines[2] - lines[0]), 100 * (lines[1] - lines[0])
    >>> likely_lattice([Divisions(0, sides, size, first, np.ones(len(size)))], Box((0,), (1,)))
    Lattice(steps=(0.01,))
    """
    evidence: list[dict[float, float]] = [{} for _ in range(box.dimensions)]
    for found in divisions:
        _weigh(found, evidence[found.axis])
    tried = {step for steps in evidence for step in steps}
    if not tried:
        return NOT_ROUNDED
    enough = math.log((len(tried) + sum(map(len, evidence))) / FALSE_ALARM)
    together = {step: sum(steps.get(step, 0.0) for steps in evidence) for step in tried}
    if step := _coarsest(together, enough):
        return Lattice((step,) * box.dimensions)
    apart = tuple(_coarsest(steps, enough) for steps in evidence)
    return Lattice(apart) if all(apart) else NOT_ROUNDED


def possible_lattice(divisions: Iterable[Divisions], box: Box, uneven: float) -> Lattice:
    """The coarsest power of ten that positions may have been rounded to along all axes; none if all are excluded.

    Parameters
    ----------
    divisions : iterable of Divisions
    box : Box
    uneven : float
        Variance of the share of a cell's people in its first half, beyond that of chance.

    Examples
    --------
    >>> places = np.arange(0.0, 1.0, 0.02)
    >>> size = np.full(len(places), 100.0)
    >>> halves = Divisions(0, np.stack([places, places + 0.01, places + 0.02]), size, size / 2, size / 100)
    >>> possible_lattice([halves], Box((0,), (1,)), 0.01)
    Lattice(steps=(0.01,))
    """
    against: dict[float, float] = {}
    for found in divisions:
        places = _places(found)
        for step in _steps(_FINEST * places.side, _WIDEST * places.side, digits=(1.0,)):
            lines, expected = places.by_lines(step)
            known, half = places.variance <= _KNOWN, expected / 2.0
            by_chance = 0.25 / np.maximum(places.people, 1.0)  # people who lie evenly
            weight = 1.0 / (by_chance + uneven * places.alone + places.variance)
            evidence = float(np.sum(((half - places.share) * half - half**2 / 2.0)[known] * weight[known]))
            empty = bool(((lines == 0) & (places.variance <= _SURE)).any())
            against[step] = against.get(step, 0.0) + (math.inf if empty else evidence)
    narrow = min(high - low for low, high in zip(box.lower, box.upper, strict=True))
    step = max((step for step, found in against.items() if found < _EXCLUDED and step <= narrow), default=0.0)
    return Lattice((step,) * box.dimensions) if step else NOT_ROUNDED


def _coarsest(evidence: dict[float, float], enough: float) -> float:
    """The coarsest step with nearly the best evidence; 0 if that is not enough."""
    best = max(evidence.values(), default=0.0)
    return (
        max((step for step, found in evidence.items() if found >= _NEARLY * best), default=0.0)
        if best >= enough
        else 0.0
    )


class _Places(NamedTuple):
    """Where cells of one depth are halved: float64[p] each.

    ``share`` of the ``people`` before it, less one half; its ``variance`` by noise; ``alone`` is 1 if one cell has all
    the people that are halved there, and 1 over their number if many cells have as many each.
    """

    sides: Floats  # float64[3, p]
    people: Floats
    share: Floats
    variance: Floats
    alone: Floats

    @property
    def side(self) -> float:
        """That of the cells; 0 if there are none."""
        width = np.sort(self.sides[2] - self.sides[0])
        return float(width[(len(width) - 1) // 2] + width[len(width) // 2]) / 2.0 if len(width) else 0.0  # the median

    def by_lines(self, step: float) -> tuple[Floats, Floats]:
        """How many lines the cells have, and what share of them lies before the place, less one half."""
        lines = np.ceil(self.sides / step - ON_A_LINE)
        total = lines[2] - lines[0]
        return total, np.where(total > 0, (lines[1] - lines[0]) / np.maximum(total, 1.0) - 0.5, 0.0)


def _places(found: Divisions) -> _Places:
    """Cells that are halved at the same place, taken together."""
    middle, first, place = np.unique(found.sides[1], return_index=True, return_inverse=True)
    size, before, variance, squares = (
        np.bincount(place, numbers, minlength=len(middle))
        for numbers in (found.size, found.first, found.noise, found.size**2)
    )
    occupied = size > 0
    people = size[occupied].astype(np.float64)
    return _Places(
        found.sides[:, first[occupied]], people, before[occupied] / people - 0.5, variance[occupied] / people**2,
        squares[occupied] / people**2,
    )  # fmt: skip


def _weigh(found: Divisions, evidence: dict[float, float]) -> None:
    """Add the evidence of cells of one depth to that for each step."""
    places = _places(found)
    weight = 1.0 / (0.25 + places.variance)
    for step in _steps(_FINEST * places.side, _COARSEST * places.side):
        expected = places.by_lines(step)[1]
        evidence[step] = evidence.get(step, 0.0) + float(np.sum((places.share - expected / 2.0) * expected * weight))


def _steps(least: float, most: float, digits: tuple[float, ...] = (1.0, 2.0, 5.0)) -> list[float]:
    """Steps between two lengths: these digits times powers of ten."""
    if least <= 0.0:
        return []
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    # 10**-2 is not 0.01 to the last bit; what is written is.
    return [step for power in powers for digit in digits if least <= (step := float(f"{digit:g}e{power}")) <= most]
