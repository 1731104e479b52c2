"""Losses and failure chances that need no sampling: finite alphabets are enumerated, tails are summed or integrated.

Knows the mechanisms' exact weights. Draws nothing.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ..protocol.task import Task
from ..randomizer import DiscreteLaplace, RandomizedResponse
from ..randomizer.values.base import Mechanism

__all__ = [
    "crowd_test_failure",
    "laplace_sum_tail",
    "liar_pass_chance",
    "randomizer_loss",
    "value_loss",
]  # fmt: skip

_STEPS = 64  # of the values whose outputs are compared


def randomizer_loss(randomizer: RandomizedResponse | DiscreteLaplace) -> float:
    """Log of the largest ratio of two children's probabilities of the same report, over the whole alphabet.

    Adjacency: any two children. Delta: 0.

    Examples
    --------
    >>> randomizer_loss(RandomizedResponse(1.0, 4)) <= 1.0
    True
    """
    if isinstance(randomizer, RandomizedResponse):
        true, other = randomizer.weights
        return _log(Fraction(true, other))
    weights = randomizer.alphabet[1]
    # Two entries change: one from 1 to 0, one from 0 to 1. y has the weight of 1 - y when the entry is truly 1.
    ratios = [Fraction(a, b) for a, b in zip(weights, reversed(weights), strict=True)]
    return _log(max(ratios)) + _log(max(1 / ratio for ratio in ratios))


def value_loss(mechanism: Mechanism) -> float:
    """Log of the largest ratio of two values' probabilities of the same output.

    Adjacency: any two values in [0, 1], on an even grid that has both ends. Delta: 0.
    """
    rows = [mechanism.probabilities(step / _STEPS) for step in range(_STEPS + 1)]
    worst = Fraction(1)
    for column in zip(*rows, strict=True):
        high, low = max(column), min(column)
        if low == 0 and high:
            return math.inf
        if low:
            worst = max(worst, Fraction(high, low))
    return _log(worst)


def crowd_test_failure(task: Task, responders: int) -> float:
    """Exact chance that a child with k - 1 of the responders passes the crowd test (randomized response)."""
    return liar_pass_chance(task, responders, honest=task.k - 1, liars=0)


def liar_pass_chance(task: Task, responders: int, *, honest: int, liars: int) -> float:
    """Exact chance that a child with some honest responders passes if all liars say that they are in it.

    Liars cannot do better: each adds at most one to a tally. Summed in one convolution of two binomials.

    Parameters
    ----------
    responders : int
        Of the cell, liars included.
    honest : int
        Honest responders in the child.
    """
    from scipy.stats import binom

    randomizer = task.randomizer
    assert isinstance(randomizer, RandomizedResponse)
    p, p0 = randomizer.probabilities
    tolerated = task.tolerate_liars
    threshold = int(randomizer.threshold([responders - tolerated], k=task.k, delta=task.delta_test)[0]) + tolerated
    inside = np.arange(honest + 1)
    rest = responders - liars - honest
    needed = threshold - liars - inside
    return float(binom.pmf(inside, honest, p) @ binom.sf(needed - 1, rest, p0))


def laplace_sum_tail(size: int, margin: float) -> float:
    """Exact chance that the sum of ``size`` Laplace numbers of scale 1 is at least ``margin``.

    The sum is the difference of two gamma numbers of shape ``size``; one is integrated out.
    """
    from scipy.stats import gamma

    spread = math.sqrt(size)
    grid = np.linspace(max(size - 12 * spread, 0.0), size + 12 * spread, 200_001)
    return float(np.trapezoid(gamma.pdf(grid, size) * gamma.sf(grid + margin, size), grid))


def _log(ratio: Fraction) -> float:
    """Natural logarithm; Python divides large integers exactly before it rounds."""
    return math.log(ratio.numerator / ratio.denominator)
