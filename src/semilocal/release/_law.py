"""How the people of cells divide: a law that a run's own divisions teach.

The shares of a cell's children have a symmetric Dirichlet law (with two children a Beta law) with one parameter a:
large where people lie evenly, 1 if all divisions are equally likely, small where nearly everybody is in one child. It
differs from cell to cell: log2 a is normal, with a middle that is the same for all cells of a depth that have as many
people, and a width that is the same for all. From one depth to the next the middle takes a normal step. So cities that
look smooth from near and rugged from afar have one law, and each depth is learned from its own cells first and from its
neighbours next.

Of two cells of one depth, that with more people may divide more evenly: a coast or a village is more uneven than a town
is. log2 a grows by ``growth`` if a cell has twice the people, from 0 (only the shape of places counts) to 1 (people
come in groups that are all as large). Final cells mostly have fewer people than the cells of their depth that were
opened; without growth these would teach that they are more even than they are.

Middles, the width and the size of the steps have a few possible values each, equally likely before anything is seen.
What a run published makes some of them likelier: for each depth and width the likelihood of all its divisions, and a
sum over all ways of the middle from depth to depth (forwards and backwards, as in any hidden chain). Of the growth the
likeliest value is taken.

All cells that were opened teach it. A cell is opened, or stays whole, *because* its estimates were even or uneven;
learning from one kind alone would mistake noise for evenness or unevenness. With all of them there is nothing to
correct: what is opened follows from what is observed, and says no more than that.

Knows published numbers and their noise. Knows no tree, queries or mechanism.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Integers
from .spread import Spread

__all__ = ["LEVELS", "MIDDLES", "UNKNOWN", "WIDTHS", "Law", "learn"]

_HALF = 40  # bins for shares below one half, and as many above; the smaller the share, the narrower
_FAR = 5.0  # an estimate so many standard errors outside says no more than a nearer one
_WHOLE = 1 / 12  # variance of a number of people that stands for whole ones
_MOST_CELLS = 1 << 11  # evenly taken: thousands of divisions say as much as all
_NEVER = 1e-60  # a chance as good as none: products of three are numbers still
LEVELS = np.arange(-8.0, 10.25, 0.5)  # log2 a
MIDDLES = np.arange(-8.0, 9.25, 0.5)  # of log2 a at one depth
WIDTHS = np.array([0.25, 0.75, 1.5, 2.25, 3.0])  # standard deviation of log2 a at one depth
_GROWTHS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])  # of log2 a, if a cell has twice the people
_STEPS = np.array([0.25, 0.5, 1.0])  # that of the middle's change from one depth to the next


class Law(NamedTuple):
    """What is known about the law.

    Attributes
    ----------
    chance : float64[depths, widths, middles]
        Chance of each width and middle, which adds up to 1 for every depth. Deeper cells are like the last ones.
    growth : float
        By how much log2 a is larger in a cell with twice the people.
    typical : float64[depths]
        log2 of the people in cells for which the middles hold as they are.
    """

    chance: Floats
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

    def row(self, depth: Integers | int) -> Integers:
        """Which row of the arrays a depth has."""
        return np.minimum(depth, len(self.chance) - 1)


UNKNOWN = Law(np.full((1, len(WIDTHS), len(MIDDLES)), 1.0 / (len(WIDTHS) * len(MIDDLES))), 0.0, np.zeros(1))


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
        chance, evidence = _chain(logs.reshape(-1, len(WIDTHS), len(MIDDLES)))
        if evidence > highest:
            best, highest = Law(chance, growth, typical), evidence
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


def _chain(logs: Floats) -> tuple[Floats, float]:
    """Chances, as in :class:`Law`, and the log-likelihood of everything together.

    Given is that of each depth's divisions for every width and middle: float64[depths, widths, middles].
    """
    highest = logs.max(axis=2, keepdims=True)
    likelihood = np.exp(logs - highest)
    found = np.empty((len(_STEPS), *logs.shape))
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
            both = (after[depth] * likelihood[depth]) @ move.T
            after[depth - 1] = both / both.max(axis=1, keepdims=True)
        here = before * likelihood * after
        found[row] = here / here.sum(axis=2, keepdims=True)
    weight = np.exp(evidence - evidence.max())
    overall = float(evidence.max() + np.log(weight.sum()))
    weight /= weight.sum()
    return np.einsum("sw,sdwm->dwm", weight, found), overall


def _kernel(people: Floats, estimate: Floats, noise: Floats) -> Floats:
    """How likely an estimate is for shares in each bin, up to a factor for each cell: float64[m, bins]."""
    from scipy.special import ndtr  # loaded at first use: it takes a while

    error, edges = np.sqrt(noise + _WHOLE), _edges()
    near = np.clip(estimate, -_FAR * error, people + _FAR * error)
    expected = people[:, None] * edges
    away = (expected - near[:, None]) / np.sqrt(expected * (1.0 - edges) + (error**2)[:, None])
    kernel = np.diff(ndtr(away), axis=1) / np.diff(edges)
    return np.asarray(kernel / np.maximum(kernel.max(axis=1, keepdims=True), np.finfo(float).tiny))


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
