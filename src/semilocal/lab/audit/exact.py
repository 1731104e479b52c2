"""Losses and failure chances that need no sampling: finite alphabets are enumerated, tails are summed or integrated.

Knows the mechanisms' exact weights. Draws nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from ...errors import InvalidInput
from ...protocol.task import Task
from ...protocol.thresholds import level, threshold
from ...randomizer import DiscreteLaplace, RandomizedResponse
from ...randomizer.values import Mechanism

_STEPS = 64  # of the values whose outputs are compared


def randomizer_loss(randomizer: RandomizedResponse | DiscreteLaplace) -> float:
    """Log of the largest ratio of two children's probabilities of the same report, over the whole alphabet; delta 0."""
    if isinstance(randomizer, RandomizedResponse):
        true, other = randomizer.weights
        return math.log(Fraction(true, other))
    weights = randomizer.alphabet[1]
    # Two entries change: one from 1 to 0, one from 0 to 1. y has the weight of 1 - y when the entry is truly 1.
    ratios = [Fraction(a, b) for a, b in zip(weights, reversed(weights), strict=True)]
    return math.log(max(ratios)) + math.log(max(1 / ratio for ratio in ratios))


def value_loss(mechanism: Mechanism) -> float:
    """Log of the largest ratio of the probabilities of an output of two values in [0, 1], on an even grid; delta 0."""
    rows = [mechanism.probabilities(step / _STEPS) for step in range(_STEPS + 1)]
    worst = Fraction(1)
    for column in zip(*rows, strict=True):
        high, low = max(column), min(column)
        if low == 0 and high:
            return math.inf
        if low:
            worst = max(worst, Fraction(high, low))
    return math.log(worst)


def crowd_test_failure(task: Task, askable: int, asked: int, failed: int = 0) -> float:
    """Exact chance that a side with k - 1 of the askable passes the crowd test when ``asked`` of them are drawn."""
    return liar_pass_chance(task, askable, asked, honest=task.k - 1, liars=0, failed=failed)


def crowd_threshold(task: Task, askable: int, asked: int, failed: int = 0) -> int:
    """Answers that the rule wants on every side of a question: t, and the liars that are tolerated."""
    if task.rule == "cut":
        return (
            threshold(askable, asked, task.k, task.randomizer.epsilon, level(task.delta, failed)) + task.tolerate_liars
        )
    honest = task.randomizer.threshold([asked - task.tolerate_liars], k=task.k, delta=task.delta)
    return int(honest[0]) + task.tolerate_liars


def liar_pass_chance(task: Task, askable: int, asked: int, *, honest: int, liars: int, failed: int = 0) -> float:
    """Exact chance that a side with ``honest`` people passes if all liars say that they are there.

    Liars cannot do better: each adds at most one to a tally. ``asked`` of the ``askable`` (liars included) are drawn:
    draws are hypergeometric, answers binomial.
    """
    from scipy.stats import binom

    randomizer = task.randomizer
    assert isinstance(randomizer, RandomizedResponse)
    p, p0 = randomizer.probabilities
    needed = crowd_threshold(task, askable, asked, failed)
    total = 0.0
    for lying, chance in _drawn(askable, liars, asked):
        rest = asked - lying
        for here, weight in _drawn(askable - liars, honest, rest):
            inside = np.arange(here + 1)
            passing = binom.pmf(inside, here, p) @ binom.sf(needed - lying - inside - 1, rest - here, p0)
            total += chance * weight * float(passing)
    return total


def _drawn(people: int, some: int, asked: int) -> list[tuple[int, float]]:
    """How many of some people are among the asked ones, with its chance."""
    from scipy.stats import hypergeom

    counts = np.arange(max(0, asked - people + some), min(some, asked) + 1)
    chances = hypergeom.pmf(counts, people, some, asked)
    return [(count, chance) for count, chance in zip(counts.tolist(), chances.tolist(), strict=True) if chance > 0.0]


def repeated_cut_failure(
    task: Task, people: int, *, asked: int, level_of: Callable[[float, int], float] = level
) -> float:
    """Exact chance that k - 1 people are cut off by a server that puts the same cut until nobody is left to ask.

    ``people`` are on the other side, ``asked`` are drawn each time. ``level_of`` gives the level of a question from
    delta and w; another one than the real one is wrong on purpose. People have one answer each (epsilon up to 2), so a
    drawn one is not asked again: a state is how many are left.
    """
    if task.rule != "cut" or task.answers != 1:
        raise InvalidInput("the same cut is put again and again with rule 'cut' and one answer")
    p, q = task.randomizer.probabilities  # type: ignore[union-attr]
    states, total, failed = {task.k - 1: 1.0}, 0.0, 0
    for free in range(people + task.k - 1, asked - 1, -asked):
        t = threshold(free, asked, task.k, task.randomizer.epsilon, level_of(task.delta, failed))
        passes = [_both_pass(asked, count, t, p, q) for count in range(min(task.k - 1, asked) + 1)]
        following: dict[int, float] = {}
        for few, weight in states.items():
            for count, chance in _drawn(free, few, asked):
                total += weight * chance * passes[count]
                following[few - count] = following.get(few - count, 0.0) + weight * chance * (1.0 - passes[count])
        states, failed = following, failed + 1
    return total


def _both_pass(asked: int, above: int, t: int, p: float, q: float) -> float:
    """Chance that both sides get t answers if ``above`` of the asked are on one side."""
    from scipy.stats import binom

    law = np.convolve(
        binom.pmf(np.arange(above + 1), above, p), binom.pmf(np.arange(asked - above + 1), asked - above, q)
    )
    return float(law[t : asked - t + 1].sum()) if 2 * t <= asked else 0.0


def laplace_sum_tail(size: int, margin: float) -> float:
    """Exact chance that the sum of ``size`` Laplace numbers of scale 1 is at least ``margin``.

    The sum is the difference of two gamma numbers of shape ``size``; one is integrated out.
    """
    from scipy.stats import gamma

    spread = math.sqrt(size)
    grid = np.linspace(max(size - 12 * spread, 0.0), size + 12 * spread, 200_001)
    return float(np.trapezoid(gamma.pdf(grid, size) * gamma.sf(grid + margin, size), grid))
