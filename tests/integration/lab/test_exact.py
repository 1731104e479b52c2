"""Figures of the audit that need no sampling, against slow sums. Whole transcripts: unit/protocol/test_theorems.py."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import pytest
from scipy.stats import laplace

from semilocal import Box, Task
from semilocal.errors import InvalidInput
from semilocal.lab.audit.exact import (
    crowd_test_failure,
    crowd_threshold,
    laplace_sum_tail,
    liar_pass_chance,
    randomizer_loss,
    repeated_cut_failure,
    value_loss,
)
from semilocal.protocol.thresholds import level
from semilocal.randomizer import DiscreteLaplace, RandomizedResponse
from semilocal.randomizer.values import TwoPoint, best
from tests.helpers.enumeration import World, crowd_failure, line


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_reports_and_values_lose_what_they_say(epsilon: float) -> None:
    for randomizer in (RandomizedResponse(epsilon, 2), RandomizedResponse(epsilon, 4), DiscreteLaplace(epsilon, 4)):
        assert randomizer_loss(randomizer) <= epsilon * (1 + 1e-12)
        assert randomizer_loss(randomizer) >= 0.999 * epsilon
    for mechanism in (best(epsilon), TwoPoint(epsilon)):
        assert value_loss(mechanism) <= epsilon * (1 + 1e-12)
        assert value_loss(mechanism) >= 0.98 * epsilon


def test_a_value_that_cannot_come_from_everywhere_is_an_infinite_loss() -> None:
    """Planted bug: a mechanism that never gives one of its outputs for some value."""

    class Leaky:
        def probabilities(self, unit: float) -> list[int]:
            return [3, 1] if unit < 0.5 else [4, 0]

    assert value_loss(Leaky()) == math.inf  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [0.05, 1e-6])
def test_a_side_below_k_passes_with_at_most_the_level(delta: float) -> None:
    task = Task.build(Box((0.0,), (1.0,)), epsilon=1.0, delta=delta, k=20)
    for size in (40, 100, 1000, 30_000):
        for asked in (40, 100, 300):
            for failed in (0, 3):
                chance = crowd_test_failure(task, size, min(asked, size), failed)
                assert chance <= level(delta, failed) * (1 + 1e-9)


def test_the_pass_chance_is_that_of_a_slow_sum() -> None:
    """Oracle: all draws one by one, Bernoulli by Bernoulli in fractions."""
    task = Task.build(Box((0.0,), (1.0,)), epsilon=1.0, delta=0.3, k=4)
    assert isinstance(task.randomizer, RandomizedResponse)
    size, asked, honest, liars = 9, 6, 3, 2
    true, other = (Fraction(weight, 2**64) for weight in task.randomizer.weights)
    people = [true] * honest + [Fraction(1)] * liars + [other] * (size - honest - liars)
    needed, total, draws = crowd_threshold(task, size, asked), Fraction(0), 0
    for drawn in combinations(people, asked):
        chances = [Fraction(1)]
        for p in drawn:
            chances = [
                a * (1 - p) + b * p for a, b in zip([*chances, Fraction(0)], [Fraction(0), *chances], strict=True)
            ]
        total, draws = total + sum(chances[needed:]), draws + 1
    slow = float(total / draws)
    assert 0 < slow < 1
    found = liar_pass_chance(task, size, asked, honest=honest, liars=liars)
    assert found == pytest.approx(slow, rel=1e-10)


def test_the_same_cut_again_and_again_is_summed_right() -> None:
    """Oracle: the enumeration of the public log, with the devices' own checks."""
    task = line(2, epsilon=2.0, k=3)
    world = World(task, {4: 28, 7: 2}, 7, lambda log, free: (6, 10) if free >= 10 else None)
    found = repeated_cut_failure(task, 28, asked=10)
    assert 0 < found <= task.delta
    assert found == pytest.approx(crowd_failure(world), rel=1e-9)
    with pytest.raises(InvalidInput, match="one answer"):
        repeated_cut_failure(line(2, epsilon=4.0), 28, asked=10)


def test_laplace_sums_are_integrated_right() -> None:
    assert laplace_sum_tail(1, 2.0) == pytest.approx(laplace.sf(2.0), rel=1e-6)
    # Two Laplace numbers: the density of the sum is (1 + |y|) e^-|y| / 4, its upper tail (2 + y) e^-y / 4.
    assert laplace_sum_tail(2, 3.0) == pytest.approx((2 + 3.0) * math.exp(-3.0) / 4, rel=1e-6)
