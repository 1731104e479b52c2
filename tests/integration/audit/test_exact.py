"""Enumeration: the promise inside the region, over every transcript there is, in exact integers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import laplace

from semilocal import Box, Task
from semilocal.audit.exact import (
    TranscriptLoss,
    crowd_test_failure,
    laplace_sum_tail,
    liar_pass_chance,
    randomizer_loss,
    transcript_losses,
    value_loss,
)
from semilocal.protocol.rule import Frontier, decide, first_frontier
from semilocal.randomizer import DiscreteLaplace, PaperLaplace, RandomizedResponse
from semilocal.randomizer.values.mechanisms import DiscreteLaplaceValue, Piecewise, TwoPoint, best


def small(rule: str = "trim", **changes: Any) -> Task:
    options: dict[str, Any] = {"epsilon": 2.0, "delta": 0.4, "k": 3, "max_depth": 3, "tau": 0.4, "rule": rule}
    return Task.build(Box((0.0,), (1.0,)), **(options | ({"max_trims": 2} if rule == "trim" else {}) | changes))


def pairs_of(task: Task, others: list[float], positions: tuple[float, ...]) -> Iterator[TranscriptLoss]:
    for here, there in product(positions, repeat=2):
        yield from transcript_losses(task, [(x,) for x in others], (here,), (there,))


TOWN = [0.05, 0.1, 0.15, 0.2, 0.3, 0.3, 0.35, 0.4, 0.45, 0.7]


@pytest.mark.parametrize("rule", ["all", "trim"])
def test_every_transcript_of_a_small_population_keeps_the_promise(rule: str) -> None:
    """Inside pairs: at most epsilon. Moved against inside: at most (1 + T) epsilon. Both are reached, so not loose."""
    task = small(rule)
    inside, moved = [], {1: -math.inf, 2: -math.inf}
    for loss, (here, there), trims in pairs_of(task, TOWN, (0.05, 0.3, 0.4, 0.9)):
        if not here and not there:
            inside.append(loss)
        elif not there:
            assert loss <= (1 + trims) * task.epsilon + 1e-12
            moved[trims] = max(moved[trims], loss)
    assert max(inside) == pytest.approx(task.epsilon)
    assert max(inside) <= task.epsilon + 1e-12
    if rule == "trim":
        assert moved == {1: pytest.approx(2 * task.epsilon), 2: pytest.approx(3 * task.epsilon)}


def test_nothing_is_claimed_between_two_moved_positions_and_rightly_so() -> None:
    """0.9 is moved by the first TRIM, 0.1 by the second: each moved once, and three reports tell them apart."""
    task = small(epsilon=1.5)
    found = list(transcript_losses(task, [(0.3,)] * 8 + [(0.4,)] * 8, (0.9,), (0.1,)))
    once = [each.loss for each in found if each.moves == (1, 1) and each.trims == 2]
    assert max(once) == pytest.approx(3 * task.epsilon)
    assert max(once) > 2 * task.epsilon + 0.5  # the claim that was made before: (1 + own moves) reports
    for each in found:
        assert abs(each.loss) <= (1 + sum(each.moves)) * task.epsilon + 1e-12


def test_never_moved_is_not_epsilon_against_a_position_that_was_moved_sixteen_times() -> None:
    """Everybody in one corner, one participant in the opposite one: (1 + 16) reports, and the bound is reached."""
    task = small(epsilon=0.5, max_trims=16, max_depth=20, k=20, delta=0.05)
    found = list(transcript_losses(task, [(0.0,)] * 1000, (0.99,), (0.0,), inside=True))
    worst = max(found, key=lambda each: each.loss)
    assert worst.trims == worst.moves[0] == 16
    assert worst.loss == pytest.approx(17 * task.epsilon)
    assert worst.loss > task.epsilon + 4  # the claim that was made before: never moved, so epsilon


def test_the_enumeration_by_tallies_lists_what_single_reports_give() -> None:
    """Oracle: all reports of everybody, one by one."""
    task, others = small(delta=0.45, k=1, epsilon=1.0), [(0.05,), (0.3,), (0.7,)]
    for here, there in (((0.1,), (0.4,)), ((0.9,), (0.1,)), ((0.9,), (0.6,))):
        fast = {(round(loss, 9), *rest) for loss, *rest in transcript_losses(task, others, here, there)}
        slow = {(round(loss, 9), *rest) for loss, *rest in one_by_one(task, others, here, there)}
        assert fast == slow
        assert len(slow) > 2


def one_by_one(task: Task, others: Any, here: Any, there: Any) -> Iterator[tuple[float, tuple[int, int], int]]:
    """Transcripts by full simulation of every combination of reports."""
    tree, epsilon = task.hierarchy, task.epsilon
    start = tree.codes(np.array([*others, here, there]))
    stack = [(first_frontier(), start, 0.0, (0, 0), 1)]
    while stack:
        frontier, codes, loss, moves, number = stack.pop()
        if number > task.max_rounds:
            yield loss, moves, int(frontier.trims[0])
            continue
        children = tree.child_of(codes, number - 1)
        for reports in product(range(2), repeat=len(codes) - 1):
            gain = epsilon * (int(reports[-1] == children[-2]) - int(reports[-1] == children[-1]))
            ruling = decide(task, frontier, [len(reports)], np.bincount(reports, minlength=2)[None, :])
            kept = ruling.kept[0]
            if not kept.any():
                yield loss + gain, moves, int(frontier.trims[0])
                continue
            after, count = codes, moves
            if not kept.all():
                away = ~kept[children]
                count = (moves[0] + int(away[-2]), moves[1] + int(away[-1]))
                after = task.hierarchy.nearest(
                    codes, np.repeat(frontier.cells, len(codes)), np.tile(kept, (len(codes), 1))
                )
            ends = tree.child_of(after, number - 1)
            if ends[-1] == ends[-2]:
                place = int(np.searchsorted(np.flatnonzero(kept), ends[-1]))
                row = slice(place, place + 1)
                cells, trims, expected = ruling.frontier
                following = Frontier(cells[row], trims[row], expected[row])
                stay = np.concatenate([after[:-2][ends[:-2] == ends[-1]], after[-2:]])
                stack.append((following, stay, loss + gain, count, number + 1))


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
