"""How unevenly people lie around what slopes suggest, as the last rounds of regions tell.

A region is one because of its last round: that did not show a crowd in both halves, and was not uneven enough for a
TRIM. So the divisions of regions are a choice of more uneven ones, the more so the more people they have. Inside their
halves nobody chose. An estimate therefore counts by how likely it is *among those that end a path*: normal around what
slopes suggest, and cut to what ends one.

What slopes leave is a multiple of a power of what the law says of such cells (_law.py), the same for all regions. If
the power is 1, they leave the same share everywhere. In smooth towns they explain nearly all of the steep outskirts,
and nothing in the middle, where there is nothing to explain: the power is smaller. If villages lie around a smooth
town, it is larger. Before anything is seen, one chance in two is that slopes explain nothing; otherwise all multiples
on a scale and all powers are equally likely.

Knows a tree of halved cells and its population. Knows no queries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Integers
from ..protocol.rule import TRIM_QUANTILE
from ._tree import Tree
from ._visitors import Population

__all__ = ["Ended", "Left"]

_MULTIPLES = np.append(0.0, np.exp2(np.arange(-24, 10) / 3.0))
_POWERS = np.array([0.0, 0.5, 1.0, 1.5, 2.0])  # of the law's unevenness
_NOTHING = (2, 25)  # a power and a multiple of 1: slopes explain nothing
_MOST_CELLS = 1 << 11  # evenly taken: thousands of regions say as much as all
_FAR = 2.0  # standard errors of the noise below nobody: few estimates are lower
_HARDLY = 1e-12  # the least chance that a path ends


class Left(NamedTuple):
    """What slopes leave.

    Attributes
    ----------
    chance : float64[powers, multiples]
        Adds up to 1.
    """

    chance: Floats

    def clumped(self, law: Floats) -> Floats:
        """Chance that two people are in the same place, beyond slopes, given what the law says of cells: float64[m]."""
        levels, rows = np.unique(law, return_inverse=True)  # few are different
        found = np.zeros(len(levels))
        for power, chance in zip(_POWERS, self.chance, strict=True):
            found += chance @ np.minimum(_MULTIPLES[:, None] * levels**power, 1.0)
        return np.asarray(found[rows])


class Ended(NamedTuple):
    """Last rounds of m regions.

    Attributes
    ----------
    rows : int64[m]
        Which of the given regions these are.
    people : float64[m]
        Who live there.
    first : float64[m]
        Estimate of how many of them live in the first half.
    noise : float64[m]
        Its variance.
    clumped : float64[m]
        What the law says of such cells: the chance that two people are in the same place.
    least, most : float64[m]
        Between these the smaller half of an estimate ends a path: from a TRIM to a crowd. Where that limit does not
        matter, from nobody, noise allowed for, to infinity.
    """

    rows: Integers
    people: Floats
    first: Floats
    noise: Floats
    clumped: Floats
    least: Floats
    most: Floats

    @staticmethod
    def of(tree: Tree, found: Population, cells: Integers, estimates: Floats, noise: Floats) -> Ended:
        """Regions int64[n] whose halves, float64[n, 2], were estimated with the variances float64[n]."""
        task, people, acting = tree.partition.task, found.people[cells], tree.acting[cells]
        responders, liars, beside = acting.astype(np.int64), task.tolerate_liars, (acting - people) / 2.0
        enough = task.randomizer.threshold(responders - liars, k=task.k, delta=task.delta_test) + liars - 0.5
        crowd = task.randomizer.estimate(np.stack([enough, enough], axis=1), responders)[:, 0] - beside
        error = np.sqrt(acting * task.randomizer.variance(task.tau))
        sparse = task.tau * acting - TRIM_QUANTILE * error - beside if task.rule == "trim" else -np.inf
        smaller = estimates.min(axis=1)
        clumped = found.law.spread(tree.depths[cells], people, 2).clumped
        # Paths end for other reasons, too: a cell is too small, or no TRIM is left. Then that limit did not matter.
        nobody = -_FAR * np.sqrt(noise)
        least = np.where(smaller >= sparse, np.maximum(sparse, nobody), nobody)
        most = np.where(smaller < crowd, crowd, np.inf)
        rows = np.flatnonzero((people >= 2) & (clumped > 0))
        rows = rows[:: -(-len(rows) // _MOST_CELLS) or 1]
        return Ended(rows, *(column[rows] for column in (people, estimates[:, 0], noise, clumped, least, most)))

    def left(self, share: Floats) -> Left:
        """What slopes leave that suggest these shares of the first halves of the given regions: float64[n].

        Without regions it is what is likely before anything is seen.
        """
        from scipy.special import ndtr  # loaded at first use: it takes a while

        inside = share[self.rows]
        below, luck = self.people * inside, self.people * inside * (1.0 - inside)
        above, pairs = self.people - below, (self.people - 1.0) * luck
        logs = np.empty((len(_POWERS), len(_MULTIPLES)))
        for row, power in enumerate(_POWERS):
            error = np.sqrt(self.noise + luck + _MULTIPLES[:, None] * self.clumped**power * pairs)
            # The halves have the same errors.
            ends = sum(ndtr((self.most - half) / error) - ndtr((self.least - half) / error) for half in (below, above))
            seen = -0.5 * ((self.first - below) / error) ** 2 - np.log(error)
            logs[row] = (seen - np.log(np.clip(ends, _HARDLY, 1.0))).sum(axis=1)
        logs[_NOTHING] += np.log(logs.size - 1)
        chance = np.exp(logs - logs.max())
        return Left(chance / chance.sum())
