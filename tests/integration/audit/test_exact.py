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
    crowd_test_failure,
    laplace_sum_tail,
    liar_pass_chance,
    randomizer_loss,
    value_loss,
)
from semilocal.device.summary import Summary
from semilocal.protocol.rule import decide, first_frontier
from semilocal.randomizer import DiscreteLaplace, PaperLaplace, RandomizedResponse
from semilocal.randomizer.values.mechanisms import DiscreteLaplaceValue, Piecewise, TwoPoint, best
from tests.helpers.enumeration import TranscriptLoss, transcript_losses


def small(rule: str = "trim", **changes: Any) -> Task:
    options: dict[str, Any] = {"epsilon": 2.0, "delta": 0.4, "k": 3, "max_depth": 3, "tau": 0.4, "rule": rule}
    return Task.build(Box((0.0,), (1.0,)), **(options | ({"max_trims": 2} if rule == "trim" else {}) | changes))


def pairs_of(task: Task, others: list[float], positions: tuple[float, ...]) -> Iterator[TranscriptLoss]:
    for here, there in product(positions, repeat=2):
        yield from transcript_losses(task, [(x,) for x in others], (here,), (there,))


TOWN = [0.05, 0.1, 0.15, 0.2, 0.3, 0.3, 0.35, 0.4, 0.45, 0.7]


def spread_loss(epsilon: float, trims: int) -> float:
    """The largest loss of a moved position against one inside: the first TRIM costs epsilon, then it is anywhere."""
    return epsilon + trims * math.log((1 + math.exp(epsilon)) / 2)


@pytest.mark.parametrize("rule", ["all", "trim"])
def test_every_transcript_of_a_small_population_keeps_the_promise(rule: str) -> None:
    """Inside pairs: at most epsilon. Moved against inside: at most (1 + T) epsilon, and what spreading leaves of it."""
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
        assert moved == {trims: pytest.approx(spread_loss(task.epsilon, trims)) for trims in (1, 2)}


def test_nothing_is_claimed_for_an_inside_position_against_a_moved_one_and_rightly_so() -> None:
    """Every SPLIT after the move makes the moved position half as likely: log 2 for each, whatever epsilon is."""
    task = small(epsilon=1.0, max_depth=4, k=1, delta=0.45, max_trims=1, max_visitors=1.0)
    others = [(x,) for x in (0.02, 0.05, 0.15, 0.2, 0.3, 0.4, 0.45, 0.9)]
    found = [each for each in transcript_losses(task, others, (0.05,), (0.9,)) if each.moved == (False, True)]
    assert max(each.loss for each in found) > 2 * task.epsilon + 0.5
    assert max(-each.loss for each in found) <= 2 * task.epsilon


def test_what_a_device_loses_in_all_its_rounds_is_bounded_for_positions_inside_its_cell_only() -> None:
    """Theorem 6: epsilon per round, inside the cell and for a moved position over those inside; not the reverse."""
    task = small(epsilon=0.5, max_depth=4, k=1, delta=0.45, max_trims=1, max_visitors=1.0)
    others = [(x,) for x in (0.02, 0.05, 0.15, 0.2, 0.3, 0.4, 0.45)] * 20
    found = [each for each in transcript_losses(task, others, (0.9,), (0.05,)) if each.moved == (True, False)]
    assert max(each.loss for each in found) <= task.max_rounds * task.epsilon
    assert max(-each.loss for each in found) == pytest.approx(task.epsilon + 3 * math.log(2))
    assert task.epsilon + 3 * math.log(2) > task.max_rounds * task.epsilon
    text = Summary(outcome="finished", task=task, rounds=4, epsilon=0.5, exposure=2.0).text()
    claimed = "at most epsilon = 2 (delta = 0) between two positions inside this cell, and for a moved position against"
    assert claimed in text


def test_two_positions_that_were_each_moved_once_lose_more_than_one_report() -> None:
    """0.9 is moved by the first TRIM, 0.1 by the second, which finds 0.9 at a drawn place: found by enumeration."""
    task = small(epsilon=1.5)
    found = list(transcript_losses(task, [(0.3,)] * 8 + [(0.4,)] * 8, (0.9,), (0.1,)))
    both = [each.loss for each in found if each.moved == (True, True) and each.trims == 2]
    assert max(both) <= 3 * task.epsilon  # they differ in no more than both TRIMs and the last round
    assert max(both) > task.epsilon + 0.5  # the planted claim: both are moved, so epsilon


def test_never_moved_is_not_epsilon_against_a_position_that_was_moved_sixteen_times() -> None:
    """Everybody in one corner, one participant in the opposite one: the bound of (1 + 16) reports holds."""
    task = small(epsilon=0.5, max_trims=16, max_depth=20, k=20, delta=0.05, max_visitors=1.0)
    found = list(transcript_losses(task, [(0.0,)] * 1000, (0.99,), (0.0,), inside=True))
    worst = max(found, key=lambda each: each.loss)
    assert worst.trims == 16
    assert worst.loss == pytest.approx(spread_loss(task.epsilon, 16))
    assert worst.loss <= 17 * task.epsilon
    assert worst.loss > task.epsilon + 4  # the planted claim: never moved, so epsilon


@pytest.mark.parametrize(("epsilon", "limit"), [(1.0, 1.0), (4.0, 0.5)])  # by which so few people may be trimmed
def test_the_enumeration_by_tallies_lists_what_single_reports_and_positions_give(epsilon: float, limit: float) -> None:
    """Oracle: all reports of everybody and all positions that moved participants may draw, one by one."""
    task = small(delta=0.45, k=1, epsilon=epsilon, max_trims=1, max_visitors=limit)
    others = [(0.05,), (0.3,), (0.7,)]
    for here, there in (((0.1,), (0.4,)), ((0.9,), (0.1,)), ((0.9,), (0.6,))):
        fast = {(round(loss, 9), *rest) for loss, *rest in transcript_losses(task, others, here, there)}
        slow = {(round(loss, 9), *rest) for loss, *rest in one_by_one(task, others, here, there)}
        assert fast == slow
        assert len(slow) > 2


def one_by_one(task: Task, others: Any, here: Any, there: Any) -> Iterator[tuple[float, tuple[bool, bool], int]]:
    """Transcripts by every combination of reports; the victim's position is a law over all deepest cells."""
    tree = task.hierarchy
    deepest = np.arange(*(int(edge[0]) + step for edge, step in zip(tree.span([1]), (0, 1), strict=True)))
    p, p0 = (weight / 2**64 for weight in task.randomizer.weights)  # type: ignore[union-attr]
    start = tree.codes(np.array([*others, here, there]))
    laws = np.stack([(deepest == code).astype(float) for code in start[-2:].tolist()])
    stack = [(first_frontier(), tuple(start[:-2].tolist()), laws, (False, False), 1)]
    while stack:
        frontier, people, laws, moved, number = stack.pop()
        if number > task.max_rounds:
            yield math.log(laws[0].sum() / laws[1].sum()), moved, int(frontier.trims[0])
            continue
        place = tree.child_of(deepest.astype(np.uint64), number - 1)
        within = tree.ancestors(deepest.astype(np.uint64), number - 1) == frontier.cells[0]
        for reports in product(range(2), repeat=len(people) + 1):
            weighed = laws * np.where(place == reports[-1], p, p0)
            ruling = decide(task, frontier, [len(reports)], np.bincount(reports, minlength=2)[None, :])
            kept = ruling.kept[0]
            if not kept.any():
                yield math.log(weighed[0].sum() / weighed[1].sum()), moved, int(frontier.trims[0])
                continue
            stay = within & kept[place]
            away = [float(law[~kept[place]].sum()) for law in weighed]
            after = np.where(stay, weighed, 0.0) + np.outer(away, stay / stay.sum())
            flags = (moved[0] or away[0] > 0, moved[1] or away[1] > 0)
            # Others in a trimmed child may draw any deepest cell of what was kept.
            draws = [[code] if kept[place[code - deepest[0]]] else deepest[stay].tolist() for code in people]
            for row, child in enumerate(np.flatnonzero(kept).tolist()):
                goal = np.where(place == child, after, 0.0)
                if not goal.sum(axis=1).all():
                    continue
                one = ruling.frontier.rows(slice(row, row + 1))
                came = {tuple(sorted(c for c in drawn if place[c - deepest[0]] == child)) for drawn in product(*draws)}
                stack += [(one, arrived, goal, flags, number + 1) for arrived in came]


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
