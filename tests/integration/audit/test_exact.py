"""Enumeration: the promise inside the region, over every transcript there is, in exact integers."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import laplace

from semilocal import Box, Task
from semilocal.audit.exact import (
    crowd_test_failure,
    laplace_sum_tail,
    liar_pass_chance,
    randomizer_loss,
    transcript_losses,
    value_loss,
)
from semilocal.randomizer import DiscreteLaplace, PaperLaplace, RandomizedResponse
from semilocal.randomizer.values.mechanisms import DiscreteLaplaceValue, Piecewise, TwoPoint, best


@pytest.mark.parametrize("rule", ["all", "trim"])
def test_every_transcript_of_a_tiny_population_keeps_the_promise(rule: str) -> None:
    """Never moved: at most epsilon. Moved s times: at most (1 + s) epsilon. Both are reached, so neither is loose."""
    task = Task.build(
        Box((0.0,), (1.0,)), epsilon=1.0, delta=0.3, k=1, max_depth=3, tau=0.49, rule=rule,  # type: ignore[arg-type]
    )  # fmt: skip
    worst: dict[int, float] = {}
    for here, there in product((0.05, 0.3, 0.9), repeat=2):
        for loss, moves in transcript_losses(task, [(0.05,), (0.05,), (0.7,)], (here,), (there,)):
            worst[moves] = max(worst.get(moves, 0.0), loss)
    for moves, loss in worst.items():
        assert loss <= (1 + moves) * task.epsilon + 1e-12
    assert worst[0] == pytest.approx(1.0)
    if rule == "trim":
        assert worst[1] == pytest.approx(2.0)


def test_a_wrong_accounting_is_caught_by_the_same_enumeration() -> None:
    """Planted bug: claiming one report's loss for participants who were moved."""
    task = Task.build(Box((0.0,), (1.0,)), epsilon=1.0, delta=0.3, k=1, max_depth=3, tau=0.49)
    losses = [loss for loss, _ in transcript_losses(task, [(0.05,), (0.05,), (0.7,)], (0.9,), (0.05,))]
    assert max(losses) > task.epsilon + 0.5


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_reports_and_values_lose_what_they_say(epsilon: float) -> None:
    for randomizer in (RandomizedResponse(epsilon, 2), RandomizedResponse(epsilon, 4), DiscreteLaplace(epsilon, 4)):
        assert randomizer_loss(randomizer) <= epsilon * (1 + 1e-12)
        assert randomizer_loss(randomizer) >= 0.999 * epsilon
    for mechanism in (best(epsilon), TwoPoint(epsilon), Piecewise(epsilon), DiscreteLaplaceValue(epsilon)):
        assert value_loss(mechanism) <= epsilon * (1 + 1e-12)
        assert value_loss(mechanism) >= 0.98 * epsilon


def test_a_value_that_cannot_come_from_everywhere_is_an_infinite_loss() -> None:
    """Planted bug: a mechanism that never gives one of its outputs for some value."""

    class Leaky:
        def probabilities(self, unit: float) -> list[int]:
            return [3, 1] if unit < 0.5 else [4, 0]

    assert value_loss(Leaky()) == math.inf  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [0.05, 1e-6])
def test_a_child_below_k_passes_with_at_most_delta(delta: float) -> None:
    task = Task.build(Box((0.0,), (1.0,)), epsilon=1.0, delta=delta, k=20)
    for size in (20, 21, 40, 100, 1000, 30_000):
        assert crowd_test_failure(task, size) <= delta


def test_the_pass_chance_is_that_of_a_slow_sum() -> None:
    """Oracle: Bernoulli by Bernoulli in fractions."""
    task = Task.build(Box((0.0,), (1.0,)), epsilon=1.0, delta=0.3, k=4)
    assert isinstance(task.randomizer, RandomizedResponse)
    size, honest, liars = 12, 3, 2
    true, other = (Fraction(weight, 2**64) for weight in task.randomizer.weights)
    zero = Fraction(0)
    chances = [Fraction(1)]
    for p in [true] * honest + [other] * (size - honest - liars):
        chances = [
            (chances[i] * (1 - p) if i < len(chances) else zero) + (chances[i - 1] * p if i else zero)
            for i in range(len(chances) + 1)
        ]
    threshold = int(task.randomizer.threshold([size], k=task.k, delta=task.delta_test)[0])
    slow = float(sum(chances[max(threshold - liars, 0) :]))
    assert liar_pass_chance(task, size, honest=honest, liars=liars) == pytest.approx(slow, rel=1e-10)


def test_laplace_sums_are_integrated_right() -> None:
    assert laplace_sum_tail(1, 2.0) == pytest.approx(laplace.sf(2.0), rel=1e-6)
    # Two Laplace numbers: the density of the sum is (1 + |y|) e^-|y| / 4, its upper tail (2 + y) e^-y / 4.
    assert laplace_sum_tail(2, 3.0) == pytest.approx((2 + 3.0) * math.exp(-3.0) / 4, rel=1e-6)


def test_the_printed_margin_fails_at_a_million_and_chernoffs_holds() -> None:
    size, delta = 10**6, 1e-6
    printed = float(PaperLaplace(1.0, 4, "paper").margin_of([size], delta=delta)[0])
    sure = float(PaperLaplace(1.0, 4, "chernoff").margin_of([size], delta=delta)[0])
    assert 7e-5 < laplace_sum_tail(size, printed) < 9e-5
    assert laplace_sum_tail(size, sure) <= delta
    assert np.isfinite(sure)
