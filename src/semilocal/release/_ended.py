"""How much of the unevenness of regions slopes leave, as their last rounds tell.

A region is one because of its last round: that did not show a crowd in both halves, and was not uneven enough for a
TRIM. So the divisions of regions are a choice of more uneven ones, the more so the more people they have. Inside their
halves nobody chose. An estimate therefore counts by how likely it is *among those that end a path*: normal around what
is expected, and cut to what ends one. How unevenly people lie is a multiple of what the law says (_law.py), the same
for all regions; all multiples on a scale are equally likely before anything is seen. Slopes leave the ratio of two of
them: around what slopes suggest, and around even halves.

Knows a tree of halved cells and its population. Knows no queries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Integers
from ..protocol.rule import TRIM_QUANTILE
from ._tree import Tree
from ._visitors import Population

__all__ = ["Ended"]

_MULTIPLES = np.concatenate([[0.0], np.geomspace(0.005, 8.0, 60)])  # of the law's unevenness
_MOST_CELLS = 1 << 11  # evenly taken: thousands of regions say as much as all
_HARDLY = 1e-12  # the least chance that a path ends


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
        Between these the smaller half of an estimate ends a path: from a TRIM to a crowd. Infinite where a limit does
        not matter.
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
        least, most = np.where(smaller >= sparse, sparse, -np.inf), np.where(smaller < crowd, crowd, np.inf)
        rows = np.flatnonzero((people >= 2) & (clumped > 0))
        rows = rows[:: -(-len(rows) // _MOST_CELLS) or 1]
        return Ended(rows, *(column[rows] for column in (people, estimates[:, 0], noise, clumped, least, most)))

    def share_left(self, flat: Floats, suggested: Floats) -> float:
        """Share of the unevenness of regions that is left if slopes are known: 1 at the most, and without regions.

        Parameters
        ----------
        flat, suggested : float64[n]
            Shares of the first halves of the given regions, if nothing is known about them and as slopes suggest.
        """
        before, after = (self.unevenness(share[self.rows]) for share in (flat, suggested))
        return min(after / before, 1.0) if before > 0 else 1.0

    def unevenness(self, share: Floats) -> float:
        """How unevenly people lie around expected shares of the first half, as a multiple of what the law says.

        Parameters
        ----------
        share : float64[m]
        """
        from scipy.special import ndtr  # loaded at first use: it takes a while

        middle, luck = self.people * share, self.people * share * (1.0 - share)
        pairs = self.clumped * (self.people - 1.0) * luck
        error = np.sqrt(self.noise + luck + _MULTIPLES[:, None] * pairs)
        below, above = middle, self.people - middle  # the halves have the same errors
        ends = sum(ndtr((self.most - half) / error) - ndtr((self.least - half) / error) for half in (below, above))
        logs = -0.5 * ((self.first - middle) / error) ** 2 - np.log(error) - np.log(np.clip(ends, _HARDLY, 1.0))
        total = logs.sum(axis=1)
        chance = np.exp(total - total.max())
        return float(chance @ _MULTIPLES / chance.sum())
