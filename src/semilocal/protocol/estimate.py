"""The joint estimate: where the people of a region are, from all noisy answers about the walls inside it.

The pieces between a region's walls have unknown shares. An answer about a wall says "at it or above" with probability p
if its sender is there, else q. All answers of present members speak together: expectation-maximisation for the shares
with a Dirichlet prior that is spread by length (local.md 3, step 8).

A wall splits the pieces into those below and those above, so every sum over pieces is a cumulative sum: a step costs as
much as there are walls. Many regions are estimated side by side, padded to the longest of a batch. Sums are taken in
order, never pairwise, so that padding changes no bit of the result.

Knows cuts and counts of answers. Knows no participants, geometry or rule.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Integers
from ..hierarchy.base import Cells

__all__ = ["PRIOR", "STEPS", "Pieces", "Walls", "estimate"]

PRIOR = 0.5  # people: the strength of the prior by which cuts are chosen
STEPS = 60
_BATCH = 1 << 13  # numbers in a padded array: all of them stay in the processor's cache
_LONG = 64  # regions side by side: from then on sums are made row by row


class Walls(NamedTuple):
    """What the members of m regions answered about cuts strictly inside them."""

    first: Integers  # int64[m + 1]: the walls of region i are rows ``first[i]`` to before ``first[i + 1]``
    cuts: Cells  # uint64[w]: ascending within a region
    asked: Integers  # int64[w]: answers of present members about the cut
    yes: Integers  # int64[w]: those of them that say "at the cut or above"

    @staticmethod
    def none(regions: int) -> Walls:
        """No walls in any region."""
        empty = np.empty(0, dtype=np.int64)
        return Walls(np.zeros(regions + 1, dtype=np.int64), np.empty(0, dtype=np.uint64), empty, empty)

    def rows(self, chosen: Integers) -> Walls:
        """Those of some regions: int64[c]."""
        counts = np.diff(self.first)[chosen]
        first = np.concatenate([[0], np.cumsum(counts)])
        at = np.repeat(self.first[chosen] - first[:-1], counts) + np.arange(first[-1])
        return Walls(first, self.cuts[at], self.asked[at], self.yes[at])


class Pieces(NamedTuple):
    """The pieces between the walls of m regions, along the order."""

    first: Integers  # int64[m + 1]: the pieces of region i are rows ``first[i]`` to before ``first[i + 1]``
    lower: Cells  # uint64[p]: their codes, lower to before upper
    upper: Cells  # uint64[p]
    share: Floats  # float64[p]: estimated share of the region's people; those of a region add up to 1


def estimate(
    lower: Cells, upper: Cells, walls: Walls, p: float, *, prior: float | Floats = PRIOR, steps: int = STEPS
) -> Pieces:
    """Shares of the pieces of m regions.

    Parameters
    ----------
    lower, upper : uint64[m]
        The regions' codes.
    walls : Walls
    p : float
        Chance that an answer tells the true side; q = 1 - p.
    prior : float or float64[m]
        Strength of the prior, in people.

    Examples
    --------
    >>> one = np.array([0], dtype=np.uint64), np.array([8], dtype=np.uint64)
    >>> walls = Walls(np.array([0, 1]), np.array([2], dtype=np.uint64), np.array([100]), np.array([50]))
    >>> estimate(*one, walls, 0.75).share.round(2).tolist()
    [0.5, 0.5]
    """
    counts = np.diff(walls.first)
    first = walls.first + np.arange(len(counts) + 1)
    starts, ends = np.empty(first[-1], dtype=np.uint64), np.empty(first[-1], dtype=np.uint64)
    starts[first[:-1]], ends[first[1:] - 1] = lower, upper
    place = np.arange(len(walls.cuts)) + np.repeat(np.arange(len(counts)), counts)
    starts[place + 1], ends[place] = walls.cuts, walls.cuts
    share, prior = np.ones(first[-1]), np.broadcast_to(prior, len(counts))
    order = np.argsort(counts, kind="stable")
    begin = int(np.searchsorted(counts[order], 1))
    while begin < len(order):
        widest = int(counts[order[min(begin + 255, len(order) - 1)]])
        rows = order[begin : begin + max(256, _BATCH // (widest + 1))]
        begin += len(rows)
        width = int(counts[rows[-1]])
        place = np.arange(width + 1)[:, None]
        exists, piece = place[:-1] < counts[rows], place <= counts[rows]
        at = np.minimum(walls.first[rows] + place[:-1], len(walls.cuts) - 1)
        yes, asked = (np.where(exists, column[at], 0).astype(np.float64) for column in (walls.yes, walls.asked))
        where = np.minimum(first[rows] + place, first[-1] - 1)
        length = np.where(piece, (ends[where] - starts[where]).astype(np.float64), 0.0)
        length /= _running(length)[-1]
        share[where[piece]] = _shares(yes, asked, length, counts[rows], p, prior[rows], steps)[piece]
    return Pieces(first, starts, ends, share)


def _shares(
    yes: Floats, asked: Floats, length: Floats, counts: Integers, p: float, prior: Floats, steps: int
) -> Floats:
    """Shares of padded columns: yes, asked float64[w, r], length float64[w + 1, r] to float64[w + 1, r]."""
    q = 1.0 - p
    share = np.where(length > 0, 0.5 / (counts + 1) + 0.5 * length, 0.0)
    total = _running(asked)[-1] + prior
    added, answers = prior * length / total, 1.0 - prior / total
    yes, asked = yes * ((p - q) / total), asked * ((p - q) / total)
    above, chance, spread, factor = np.empty_like(yes), np.empty_like(yes), np.empty_like(yes), np.empty_like(share)
    step = factor[1:]
    for _ in range(steps):
        _running(share[:0:-1], above[::-1])
        # Chance of "yes" at each wall: q, and p - q more for the people above it.
        np.multiply(above, p - q, out=chance)
        chance += q
        # A piece above a wall explains its yes with p and its no with q, one below the other way round: the difference.
        np.multiply(asked, chance, out=step)
        np.subtract(yes, step, out=step)
        np.subtract(1.0, chance, out=spread)
        spread *= chance
        step /= spread
        # All pieces together explain all answers: so much does the first.
        above *= step
        np.subtract(answers, _running(above, spread)[-1], out=factor[0])
        _running(factor, factor)
        share *= factor
        share += added
    share /= _running(share)[-1]
    return share


def _running(values: Floats, out: Floats | None = None) -> Floats:
    """Sums of the first rows, in order: numpy's are slow across long rows, and calls are slow for short ones."""
    if out is None:
        out = np.empty_like(values)
    if values.shape[1] < _LONG:
        return np.cumsum(values, axis=0, out=out)
    out[:1] = values[:1]
    for row in range(1, len(values)):
        np.add(out[row - 1], values[row], out=out[row])
    return out
