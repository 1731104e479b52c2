"""How smooth people lie: the strength of the prior, learnt from all answers of a run (empirical Bayes).

The pieces between a region's walls have a Dirichlet prior that is spread by length. Its strength is a number of people:
below one where people sit in few places, 32 and more where they lie evenly. The same number says how unevenly people
lie inside a piece: two of them are in the same place with the chance 1 / (1 + strength).

Knows answers about walls. Knows no participants, geometry or questions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ..arrays import Floats, Integers
from ..hierarchy.base import Cells
from ..randomizer import RandomizedResponse
from .estimate import Pieces, Walls, estimate

if TYPE_CHECKING:
    from .partition import Partition

__all__ = ["STRENGTHS", "learn_strength", "lengths", "shares_above", "strength_of", "truth_chance"]

STRENGTHS = tuple(2.0**power for power in range(-2, 9))  # people
_MOST_REGIONS = 1 << 12  # evenly taken: they teach the strength as well as all do


@lru_cache(maxsize=4)
def strength_of(partition: Partition) -> float:
    """That of a partition, in people; the same for everybody who holds the public log."""
    return learn_strength(partition.lower, partition.upper, partition.walls, truth_chance(partition))


def truth_chance(partition: Partition) -> float:
    """The chance that an answer about a wall tells the true side."""
    noise = partition.task.randomizer
    return noise.probabilities[0] if isinstance(noise, RandomizedResponse) and noise.fanout == 2 else 0.75


def learn_strength(lower: Cells, upper: Cells, walls: Walls, chance: float) -> float:
    """The strength of the prior that makes all answers most likely, of :data:`STRENGTHS`.

    The marginal likelihood of a region by Laplace's approximation, in the logarithms of the shares, over the same
    approximation of the prior's own integral. Where nothing was answered both are equal. Without walls it is 1: all
    divisions in two are equally likely.

    Parameters
    ----------
    lower, upper : uint64[m]
        Codes of the regions.
    walls : Walls
    chance : float
        That an answer tells the true side.
    """
    asked = np.flatnonzero(np.diff(walls.first))
    if not len(asked):
        return 1.0
    asked = asked[:: -(-len(asked) // _MOST_REGIONS)]
    lower, upper, walls = lower[asked], upper[asked], walls.rows(asked)
    found = [
        _evidence(estimate(lower, upper, walls, chance, prior=strength), walls, chance, strength)
        for strength in STRENGTHS
    ]
    return STRENGTHS[int(np.argmax(found))]


def _evidence(pieces: Pieces, walls: Walls, chance: float, strength: float) -> float:
    """Log marginal likelihood of all answers, up to what does not depend on the strength."""
    counts = np.diff(walls.first)
    share, length = np.maximum(pieces.share, 1e-300), lengths(pieces)
    above = shares_above(pieces, counts)
    says_yes = 1.0 - chance + (2.0 * chance - 1.0) * above
    no = walls.asked - walls.yes
    likelihood = float(walls.yes @ np.log(says_yes) + no @ np.log(1.0 - says_yes))
    known = (2.0 * chance - 1.0) ** 2 * (walls.yes / says_yes**2 + no / (1.0 - says_yes) ** 2)
    stiff = strength * length / share**2
    # The determinant of a tridiagonal matrix, wall after wall, all regions side by side.
    determinant, alone = 0.0, np.zeros(len(counts))
    for wall in range(int(counts.max())):
        rows = np.flatnonzero(counts > wall)
        at, piece = walls.first[rows] + wall, pieces.first[rows] + wall
        # stiff - stiff^2 / (alone + stiff), written without a difference.
        kept = stiff[piece] * alone[rows] / (alone[rows] + stiff[piece]) if wall else stiff[piece]
        alone[rows] = known[at] + kept
        determinant += float(np.log(alone[rows] + stiff[piece + 1]).sum())
    posterior = strength * float(length @ np.log(share)) - determinant / 2 - float(np.log(share).sum())
    walls_in_all, spread = float(counts.sum()), float(length @ np.log(length))
    prior = strength * spread - (walls_in_all * np.log(strength) + float(np.log(length).sum())) / 2
    return float(likelihood + posterior - prior)


def lengths(pieces: Pieces) -> Floats:
    """Lengths of pieces as shares of their regions."""
    length = (pieces.upper - pieces.lower).astype(np.float64)
    whole = np.add.reduceat(length, pieces.first[:-1])
    return np.asarray(length / np.repeat(whole, np.diff(pieces.first)))


def shares_above(pieces: Pieces, counts: Integers) -> Floats:
    """Share of the region above each wall: float64[w]."""
    passed = np.cumsum(pieces.share)
    ends = np.repeat(passed[pieces.first[1:] - 1], counts)
    piece = np.arange(len(ends)) + np.repeat(np.arange(len(counts)), counts)
    return np.clip(ends - passed[piece], 0.0, 1.0)
