"""How the people of cells divide: a law that a run's own divisions teach.

The shares of a cell's children have a symmetric Dirichlet law (with two children a Beta law) with one parameter a:
large where people lie evenly, 1 if all divisions are equally likely, small where nearly everybody is in one child. It
differs from cell to cell: log2 a is normal, with a middle that is the same for all cells of a depth that have as many
people, and a width that is the same for all. From one depth to the next the middle takes a normal step. So cities that
look smooth from near and rugged from afar have one law, and each depth is learned from its own cells first and from its
neighbours next.

Of two cells of one depth, that with more people may divide more evenly: a coast or a village is more uneven than a town
is. log2 a grows by ``growth`` if a cell has twice the people, from 0 (only the shape of places counts) to 1 (people
come in groups that are all as large). Regions and trimmed parts mostly have fewer people than the cells of their depth
that were split; without growth these would teach that they are more even than they are.

Middles, the width and the size of the steps have a few possible values each, equally likely before anything is seen.
What a run published makes some of them likelier: for each depth and width the likelihood of all its divisions, and a
sum over all ways of the middle from depth to depth (forwards and backwards, as in any hidden chain). Of the growth the
likeliest value is taken.

All cells that were asked about teach it, whatever the verdict was. A cell is split, or becomes a region, *because* its
estimates were even or uneven; learning from one kind alone would mistake noise for evenness or unevenness. With all of
them there is nothing to correct: verdicts follow from what is observed, and say no more about the cells than that.

Knows published numbers and their noise. Knows no tree, queries or mechanism.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Integers
from .spread import Spread

__all__ = ["LEVELS", "MIDDLES", "UNKNOWN", "WHOLE", "WIDTHS", "Doubt", "Expected", "Law", "learn"]

_HALF = 40  # bins for shares below one half, and as many above; the smaller the share, the narrower
_FAR = 5.0  # an estimate so many standard errors outside says no more than a nearer one
WHOLE = 1 / 12  # variance of a number of people that stands for whole ones
_MOST_CELLS = 1 << 11  # evenly taken: thousands of divisions say as much as all
_AT_ONCE = 1 << 12  # parts; each takes some kilobytes
_UNLIKELY = 1e-3  # values that are less likely may be left out
_NEVER = 1e-60  # a chance as good as none: products of three are numbers still
_SURE = 0.25  # chance that fewer people are there than a value counts
LEVELS = np.arange(-8.0, 10.25, 0.5)  # log2 a
MIDDLES = np.arange(-8.0, 9.25, 0.5)  # of log2 a at one depth
WIDTHS = np.array([0.25, 0.75, 1.5, 2.25, 3.0])  # standard deviation of log2 a at one depth
_GROWTHS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])  # of log2 a, if a cell has twice the people
_STEPS = np.array([0.25, 0.5, 1.0])  # that of the middle's change from one depth to the next


class Expected(NamedTuple):
    """How many people parts of cells have: float64[m] each.

    Attributes
    ----------
    mean, variance
        Given the law.
    common
        Standard deviation of the mean over the laws that are possible. It is the same doubt in all parts of a depth,
        and nearly the same at neighbouring depths, so that it adds up where chance averages out (:class:`Doubt`).
    surely
        So many or more are there with three chances in four: best if people where nobody is are thrice as bad as people
        left out. Never more than the mean.
    """

    mean: Floats
    variance: Floats
    common: Floats
    surely: Floats


class Law(NamedTuple):
    """What is known about the law.

    Attributes
    ----------
    chance : float64[depths, widths, middles]
        Chance of each width and middle, which adds up to 1 for every depth. Deeper cells are like the last ones.
    alike : float64[depths]
        Correlation of what is not known about the middle of a depth and of the next one; 1 for the last.
    growth : float
        By how much log2 a is larger in a cell with twice the people.
    typical : float64[depths]
        log2 of the people in cells for which the middles hold as they are.
    """

    chance: Floats
    alike: Floats
    growth: float
    typical: Floats

    def spread(self, depths: Integers, people: Floats, fanout: int) -> Spread:
        """How unevenly cells of these depths, int64[m], with so many people divide, on average over possible laws."""
        levels, rows = np.tensordot(self.chance, _mixtures(), 2), self.row(depths)
        together = (np.exp2(LEVELS) + 1.0) / (fanout * np.exp2(LEVELS) + 1.0)
        # Few different steps, whatever the number of cells.
        steps, which = np.unique(_steps(_doublings(people) - self.typical[rows], self.growth), return_inverse=True)
        mean = (levels @ together[_grown(steps)].T)[rows, which]
        return Spread(np.clip(mean, 1.0 / fanout, 1.0), fanout)

    def levels(self, people: Floats, depth: Integers | int) -> Integers:
        """Which level cells with so many people have for every level of typical ones: int64[m, levels]."""
        return _grown(_steps(_doublings(people) - self.typical[self.row(depth)], self.growth))

    def few_people(self, estimate: Floats, noise: Floats, most: Floats, *, depth: int, fanout: int) -> Expected:
        """How many people a child of cells has, given a noisy estimate.

        Parameters
        ----------
        estimate, noise : float64[m]
            A normal estimate and its variance.
        most : float64[m]
            People in the cell.
        depth, fanout : int
            Of the cells.
        """
        if len(estimate) > _AT_ONCE:
            batches = (slice(start, start + _AT_ONCE) for start in range(0, len(estimate), _AT_ONCE))
            found = [self.few_people(estimate[b], noise[b], most[b], depth=depth, fanout=fanout) for b in batches]
            return Expected(*np.concatenate(found, axis=1))
        size, edges, chance = np.maximum(most, 1.0), _edges(), self.chance[self.row(depth)]
        kernel, masses = _kernel(size, estimate, noise), _masses(fanout)
        share = (edges[1:] + edges[:-1]) / 2.0
        people = size[:, None] * share
        luck = people * (1.0 - share)  # the variance of the people, given their share
        # A bin may be wider than the noise: where in it the share is, as far as the estimate says.
        wide, error = (size[:, None] * np.diff(edges)) ** 2 / 12.0, luck + noise[:, None] + WHOLE
        within = wide * error / (wide + error)
        people += np.clip(within / error * (estimate[:, None] - people), -np.sqrt(3.0 * wide), np.sqrt(3.0 * wide))
        trust = luck / error
        mean = np.maximum(people + trust * (estimate[:, None] - people), 0.0)
        square = mean**2 + luck * (1.0 - trust) + within * (1.0 - trust) ** 2
        likely = chance > _UNLIKELY
        laws, weight = _mixtures()[likely], chance[likely] / chance[likely].sum()
        levels = self.levels(most, depth)
        total, first, second = (
            np.take_along_axis(some @ masses.T, levels, axis=1) @ laws.T
            for some in (kernel, kernel * mean, kernel * square)
        )
        means, squares = first / total, second / total
        middle = means @ weight
        variance = np.maximum((squares - means**2) @ weight, 0.0)
        common = np.sqrt((means - middle[:, None]) ** 2 @ weight)
        chances = _gathered(levels, weight @ laws)
        surely = np.clip(_quantile(kernel * (chances @ masses), people, np.sqrt(within)), 0.0, size)
        return Expected(middle, variance, common, np.minimum(surely, middle))

    def row(self, depth: Integers | int) -> Integers:
        """Which row of the arrays a depth has."""
        return np.minimum(depth, len(self.chance) - 1)


UNKNOWN = Law(np.full((1, len(WIDTHS), len(MIDDLES)), 1.0 / (len(WIDTHS) * len(MIDDLES))), np.ones(1), 0.0, np.zeros(1))


class Doubt:
    """Variance of q sums over parts by the doubt about the law, from the deepest parts up.

    Depths that lie apart are as alike as all the steps between them.

    Parameters
    ----------
    law : Law
    number : int
        q
    """

    def __init__(self, law: Law, number: int) -> None:
        self.variance, self._deeper, self._law = np.zeros(number), np.zeros(number), law

    def add(self, depth: int, numbers: Floats) -> None:
        """Add what cells of a depth take of the standard deviations of their parts, float64[q]; one depth at a time."""
        self._deeper *= self._law.alike[self._law.row(depth)]
        self.variance += numbers * (numbers + 2.0 * self._deeper)
        self._deeper += numbers


def learn(depths: Integers, people: Floats, estimates: Floats, noise: Floats) -> Law:
    """Learn the law from cells that were asked about.

    Parameters
    ----------
    depths : int64[m]
    people : float64[m]
        People in each cell. Cells with fewer than two tell nothing and are left out.
    estimates : float64[m, fanout]
        Estimated or exact number of people in each child; NaN where a cell has no such child.
    noise : float64[m]
        Variance of each estimate; 0 for exact numbers.
    """
    widths = np.count_nonzero(~np.isnan(estimates), axis=1)
    some = np.flatnonzero((people >= 2) & (widths > 1))
    if not len(some):
        return UNKNOWN
    some = some[np.argsort(depths[some], kind="stable")]
    step = -(-len(some) // _MOST_CELLS)
    some = some[::step]
    sizes, deepest = _doublings(people), int(depths[some[-1]])
    typical = _typical(depths[some], sizes[some])
    likelihoods: list[tuple[Integers, Floats]] = []  # of every level, and for which cells
    for fanout in np.unique(widths[some]).tolist():
        cells = some[widths[some] == fanout]
        # The children in the order of their columns, but for the last one, which follows from the others.
        given = estimates[cells][~np.isnan(estimates[cells])].reshape(-1, fanout)
        kernels = (_kernel(people[cells], child, noise[cells]) for child in given.T[:-1])
        likelihoods += [(cells, kernel @ _masses(fanout).T) for kernel in kernels]
    mixtures, best, highest = _mixtures().reshape(-1, len(LEVELS)), UNKNOWN, -np.inf
    for growth in _GROWTHS.tolist():
        logs = np.zeros((deepest + 1, len(mixtures)))
        for cells, likelihood in likelihoods:
            levels = _grown(_steps(sizes[cells] - typical[depths[cells]], growth))
            found = np.take_along_axis(likelihood, levels, axis=1) @ mixtures.T
            np.add.at(logs, depths[cells], step * np.log(np.maximum(found, np.finfo(float).tiny)))
        chance, alike, evidence = _chain(logs.reshape(-1, len(WIDTHS), len(MIDDLES)))
        if evidence > highest:
            best, highest = Law(chance, alike, growth, typical), evidence
    return best


def _doublings(people: Floats) -> Floats:
    """log2 of numbers of people, from one person on: float64[m]."""
    return np.asarray(np.log2(np.maximum(people, 1.0)))


def _typical(depths: Integers, sizes: Floats) -> Floats:
    """Mean size of the cells of every depth; between depths that have some, in proportion: float64[depths]."""
    number = np.bincount(depths)
    known = np.flatnonzero(number)
    return np.interp(np.arange(len(number)), known, (np.bincount(depths, sizes)[known] / number[known]))


def _steps(doublings: Floats, growth: float) -> Integers:
    """By how many levels cells are higher that have more people by so many doublings: int64[m]."""
    return np.asarray(np.rint(growth * doublings / (LEVELS[1] - LEVELS[0])).astype(np.int64))


def _grown(steps: Integers) -> Integers:
    """Which level each one becomes in cells that are so much higher, int64[m]: int64[m, levels]."""
    return np.asarray(np.clip(np.arange(len(LEVELS)) + steps[:, None], 0, len(LEVELS) - 1))


def _gathered(levels: Integers, chances: Floats) -> Floats:
    """The chance of every level, where that of each typical one, float64[levels], becomes that of another."""
    flat = np.arange(len(levels))[:, None] * len(LEVELS) + levels
    summed = np.bincount(flat.ravel(), np.tile(chances, len(levels)), minlength=levels.size)
    return np.asarray(summed.reshape(levels.shape), dtype=np.float64)


def _chain(logs: Floats) -> tuple[Floats, Floats, float]:
    """Chances and likeness, as in :class:`Law`, and the log-likelihood of everything together.

    Given is that of each depth's divisions for every width and middle: float64[depths, widths, middles].
    """
    highest = logs.max(axis=2, keepdims=True)
    likelihood = np.exp(logs - highest)
    found, together = np.empty((len(_STEPS), *logs.shape)), np.zeros((len(_STEPS), *logs.shape[:2]))
    evidence = np.tile(highest.sum(axis=(0, 2)), (len(_STEPS), 1))
    for row, step in enumerate(_STEPS):
        move = np.maximum(np.exp(-0.5 * ((MIDDLES - MIDDLES[:, None]) / step) ** 2), _NEVER)
        move /= move.sum(axis=1, keepdims=True)
        before, after = np.full(logs.shape, 1.0 / len(MIDDLES)), np.ones(logs.shape)
        for depth, here in enumerate(likelihood):
            both = before[depth] * here
            total = both.sum(axis=1, keepdims=True)
            evidence[row] += np.log(total[:, 0])
            before[depth + 1 : depth + 2] = (both / total) @ move
        for depth in range(len(logs) - 1, 0, -1):
            here, there = before[depth - 1] * likelihood[depth - 1], after[depth] * likelihood[depth]
            both = there @ move.T
            after[depth - 1] = both / both.max(axis=1, keepdims=True)
            products = (here * MIDDLES * ((there * MIDDLES) @ move.T)).sum(axis=1)  # of the middles of both depths
            together[row, depth - 1] = products / (here * both).sum(axis=1)
        here = before * likelihood * after
        found[row] = here / here.sum(axis=2, keepdims=True)
    weight = np.exp(evidence - evidence.max())
    overall = float(evidence.max() + np.log(weight.sum()))
    weight /= weight.sum()
    chance = np.einsum("sw,sdwm->dwm", weight, found)
    middle, square = (chance.sum(axis=1) @ power for power in (MIDDLES, MIDDLES**2))
    error = np.sqrt(np.maximum(square - middle**2, np.finfo(float).tiny))
    alike = np.ones(len(logs))
    product = np.einsum("sw,sdw->d", weight, together)[:-1] - middle[:-1] * middle[1:]
    alike[:-1] = np.clip(product / (error[:-1] * error[1:]), 0.0, 1.0)
    return chance, alike, overall


def _kernel(people: Floats, estimate: Floats, noise: Floats) -> Floats:
    """How likely an estimate is for shares in each bin, up to a factor for each cell: float64[m, bins]."""
    from scipy.special import ndtr  # loaded at first use: it takes a while

    error, edges = np.sqrt(noise + WHOLE), _edges()
    near = np.clip(estimate, -_FAR * error, people + _FAR * error)
    expected = people[:, None] * edges
    away = (expected - near[:, None]) / np.sqrt(expected * (1.0 - edges) + (error**2)[:, None])
    kernel = np.diff(ndtr(away), axis=1) / np.diff(edges)
    return np.asarray(kernel / np.maximum(kernel.max(axis=1, keepdims=True), np.finfo(float).tiny))


def _quantile(weights: Floats, middle: Floats, error: Floats) -> Floats:
    """The number below which so much of the weight of bins lies: float64[m].

    Given are the weight of every bin, and the mean and standard deviation of the numbers in it: float64[m, bins] each.
    These are taken to lie evenly.
    """
    below = np.cumsum(weights, axis=1)
    below /= below[:, -1:]
    row = np.arange(len(below))
    last = np.count_nonzero(below < _SURE, axis=1)
    before = np.where(last > 0, below[row, last - 1], 0.0)
    inside = (_SURE - before) / (below[row, last] - before)
    return np.asarray(middle[row, last] + (2.0 * inside - 1.0) * 3.0**0.5 * error[row, last])


@lru_cache(maxsize=1)
def _edges() -> Floats:
    """Between which shares bins lie: float64[bins + 1]."""
    half = 0.5 * (np.arange(_HALF + 1) / _HALF) ** 3
    return np.concatenate([half, 1.0 - half[-2::-1]])


@lru_cache(maxsize=64)
def _masses(fanout: int) -> Floats:
    """Chance of each bin for the share of one child, for every level: float64[levels, bins]."""
    from scipy.special import betainc

    level = np.exp2(LEVELS)[:, None]
    found = np.diff(betainc(level, (fanout - 1) * level, _edges()), axis=1)
    return np.asarray(np.maximum(found, _NEVER * np.diff(_edges())))


@lru_cache(maxsize=1)
def _mixtures() -> Floats:
    """Chance of each level: float64[widths, middles, levels]."""
    chance = np.exp(-0.5 * ((LEVELS - MIDDLES[:, None]) / WIDTHS[:, None, None]) ** 2)
    return np.asarray(chance / chance.sum(axis=2, keepdims=True))
