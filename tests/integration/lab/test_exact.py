"""Figures of the audit that need no sampling, liars among them. Whole transcripts: unit/protocol/test_theorems.py."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import msgspec
import numpy as np
import pytest
from scipy.stats import laplace

from semilocal import Box, Task
from semilocal.errors import InvalidInput
from semilocal.lab.audit import exact
from semilocal.protocol.rule import splits
from semilocal.protocol.thresholds import level, threshold
from semilocal.randomizer import DiscreteLaplace, RandomizedResponse
from semilocal.randomizer.values import TwoPoint, best
from tests.helpers.enumeration import World, crowd_failure, line


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_reports_and_values_lose_what_they_say(epsilon: float) -> None:
    for randomizer in (RandomizedResponse(epsilon, 2), RandomizedResponse(epsilon, 4), DiscreteLaplace(epsilon, 4)):
        assert exact.randomizer_loss(randomizer) <= epsilon * (1 + 1e-12)
        assert exact.randomizer_loss(randomizer) >= 0.999 * epsilon
    for mechanism in (best(epsilon), TwoPoint(epsilon)):
        assert exact.value_loss(mechanism) <= epsilon * (1 + 1e-12)
        assert exact.value_loss(mechanism) >= 0.98 * epsilon


def test_a_value_that_cannot_come_from_everywhere_is_an_infinite_loss() -> None:
    """Planted bug: a mechanism that never gives one of its outputs for some value."""

    class Leaky:
        def probabilities(self, unit: float) -> list[int]:
            return [3, 1] if unit < 0.5 else [4, 0]

    assert exact.value_loss(Leaky()) == math.inf  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [0.05, 1e-6])
def test_a_side_below_k_passes_with_at_most_the_level(delta: float) -> None:
    task = Task.build(Box((0.0,), (1.0,)), epsilon=1.0, delta=delta, k=20)
    for size in (40, 100, 1000, 30_000):
        for asked in (40, 100, 300):
            for failed in (0, 3):
                chance = exact.crowd_test_failure(task, size, min(asked, size), failed)
                assert chance <= level(delta, failed) * (1 + 1e-9)


def test_the_pass_chance_is_that_of_a_slow_sum() -> None:
    """Oracle: all draws one by one, Bernoulli by Bernoulli in fractions."""
    task = Task.build(Box((0.0,), (1.0,)), epsilon=1.0, delta=0.3, k=4)
    assert isinstance(task.randomizer, RandomizedResponse)
    size, asked, honest, liars = 9, 6, 3, 2
    true, other = (Fraction(weight, 2**64) for weight in task.randomizer.weights)
    people = [true] * honest + [Fraction(1)] * liars + [other] * (size - honest - liars)
    needed, total, draws = exact.crowd_threshold(task, size, asked), Fraction(0), 0
    for drawn in combinations(people, asked):
        chances = [Fraction(1)]
        for p in drawn:
            chances = [
                a * (1 - p) + b * p for a, b in zip([*chances, Fraction(0)], [Fraction(0), *chances], strict=True)
            ]
        total, draws = total + sum(chances[needed:]), draws + 1
    slow = float(total / draws)
    assert 0 < slow < 1
    found = exact.liar_pass_chance(task, size, asked, honest=honest, liars=liars)
    assert found == pytest.approx(slow, rel=1e-10)


def test_the_same_cut_again_and_again_is_summed_right() -> None:
    """Oracle: the enumeration of the public log, with the devices' own checks."""
    task = line(2, epsilon=2.0, k=3)
    world = World(task, {4: 28, 7: 2}, 7, lambda log, free: (6, 10) if free >= 10 else None)
    found = exact.repeated_cut_failure(task, 28, asked=10)
    assert 0 < found <= task.delta
    assert found == pytest.approx(crowd_failure(world), rel=1e-9)
    with pytest.raises(InvalidInput, match="one answer"):
        exact.repeated_cut_failure(line(2, epsilon=4.0), 28, asked=10)


def test_laplace_sums_are_integrated_right() -> None:
    assert exact.laplace_sum_tail(1, 2.0) == pytest.approx(laplace.sf(2.0), rel=1e-6)
    # Two Laplace numbers: the density of the sum is (1 + |y|) e^-|y| / 4, its upper tail (2 + y) e^-y / 4.
    assert exact.laplace_sum_tail(2, 3.0) == pytest.approx((2 + 3.0) * math.exp(-3.0) / 4, rel=1e-6)


BOX = Box((0.0,), (1.0,))


def task_with(liars: int, *, k: int = 20, delta: float = 0.01, rule: str = "cut") -> Task:
    return Task.build(BOX, epsilon=1.0, delta=delta, k=k, rule=rule, tolerate_liars=liars)  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", ["cut", "all"])
@pytest.mark.parametrize("liars", [1, 7, 40])
@pytest.mark.parametrize("size", [100, 300, 3000])
def test_a_side_below_k_honest_passes_with_at_most_its_level_in_spite_of_the_liars(
    liars: int, size: int, rule: str
) -> None:
    """Exact, with all liars naming the side: nobody can do more."""
    task = task_with(liars, rule=rule)
    most = level(task.delta, 0) if rule == "cut" else task.delta
    for asked in {size} if rule == "all" else {size, 90}:
        for present in {0, liars // 2, liars}:
            for honest in {0, task.k - 1}:
                assert exact.liar_pass_chance(task, size, asked, honest=honest, liars=present) <= most * (1 + 1e-9)


def test_without_tolerance_liars_do_fake_crowds() -> None:
    """Planted bug: the plain threshold, which the same check refutes."""
    assert exact.liar_pass_chance(task_with(0), 300, 300, honest=19, liars=40) > 0.5


def test_a_larger_k_is_no_tolerance() -> None:
    """Planted bug: the threshold of k + m. A liar says "here" for sure, an honest one only often."""
    for size, liars in ((300, 10), (1000, 40)):
        raised = threshold(size, size, 20 + liars, 1.0, level(0.01, 0))
        plain = exact.crowd_threshold(task_with(0), size, size)
        careful = msgspec.structs.replace(task_with(0), tolerate_liars=raised - plain)
        assert exact.liar_pass_chance(careful, size, size, honest=19, liars=liars) > level(0.01, 0)


def test_no_answers_of_liars_that_see_everything_first_do_better_than_naming_the_side() -> None:
    """All answers of five liars, by how many name the side, for 200 rounds of honest answers."""
    rng, task = np.random.default_rng(3), task_with(5, k=8, delta=0.2)
    honest = np.array([0] * 7 + [1] * 60)
    needed = exact.crowd_threshold(task, 72, 72)
    for _ in range(200):
        base = np.bincount(task.randomizer.respond_many(honest, rng), minlength=2)
        tallies = base + np.array([(5 - other, other) for other in range(6)])
        passing = tallies[:, 0] >= needed
        assert passing.any() == passing[0], "the first row: all of them name the side"
        assert not splits(tallies, np.full(6, needed))[~passing].any()
