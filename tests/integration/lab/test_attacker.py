"""The attacker: plays like the protocol, and its bounds hold, are below the truth and close to it.

All bounds of attacks have confidence 1 - 1e-6, so each assertion "at most the claim" has a false-alarm rate of at most
1e-6; the others have margins of more than five standard errors.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom

from semilocal import Box, Task, simulate
from semilocal.errors import InvalidInput
from semilocal.lab.audit import Pair, attack, audit_task, choose_neighbour, default_task, play
from semilocal.lab.audit.attacker import report_scores
from semilocal.lab.audit.bounds import loss_lower_bound, share_bounds, sharpest_event
from semilocal.randomizer import DiscreteLaplace, PaperLaplace, RandomizedResponse


def town(n: int, seed: int = 1) -> npt.NDArray[np.float64]:
    return np.clip(np.random.default_rng(seed).normal(0.5, 0.15, (n, 2)), 0, 1)


@pytest.mark.parametrize("rule", ["cut", "all"])
def test_plays_end_where_simulations_end(rule: str) -> None:
    """Crowds and sizes of one participant's region, against the simulation of everybody: 150 simulations.

    Means are compared with a margin of 5.5 standard errors: false alarms below 1e-6 per comparison.
    """
    rng = np.random.default_rng(3)
    task = Task.build(Box((0, 0), (1, 1)), epsilon=2.0, delta=0.05, k=10, rule=rule)  # type: ignore[arg-type]
    others, here = town(299), (0.53, 0.48)
    played = play(Pair(task, others, here, here), runs=600, rng=rng)
    points = np.concatenate([others, [here]])
    crowds, sizes, widths = [], [], (played.upper - played.lower).astype(float)
    for _ in range(150):
        partition = simulate(points, task, rng=rng).partition
        where = partition.locate(points[-1:])[0]
        crowds.append(int(partition.crowds[where]))
        sizes.append(float(partition.upper[where] - partition.lower[where]))
    for one, other in ((crowds, played.crowds), (np.log(sizes), np.log(widths))):
        error = np.sqrt(np.var(one) / len(one) + np.var(other) / len(other)) + 1e-9
        assert abs(np.mean(one) - np.mean(other)) < 5.5 * error
    assert all(len(cuts) <= task.answers for cuts in played.cuts)


@pytest.mark.parametrize("randomizer", [RandomizedResponse(1.0, 4), DiscreteLaplace(1.0, 4), PaperLaplace(2.0, 4)])
def test_scores_are_likelihood_ratios(randomizer: RandomizedResponse | DiscreteLaplace | PaperLaplace) -> None:
    """E[exp(-score)] = 1 under the first part, for every likelihood ratio; 200,000 draws, 6 standard errors."""
    reports = randomizer.respond_many(np.full(200_000, 2), np.random.default_rng(5))
    inverse = np.exp(-report_scores(randomizer, reports, 2, 1))
    assert abs(inverse.mean() - 1) < 6 * inverse.std() / np.sqrt(len(inverse))
    assert np.abs(report_scores(randomizer, reports, 2, 1)).max() <= randomizer.epsilon * (1 + 1e-9)
    assert not report_scores(randomizer, reports, 1, 1).any()


def test_the_default_task_is_bounded_by_its_claim_and_the_attack_is_strong() -> None:
    for finding in audit_task(default_task(), "default", runs=40_000, rng=np.random.default_rng(11)):
        assert 0.4 <= finding.measured <= 1.0, finding
        assert finding.holds


def test_only_transcripts_whose_region_holds_both_positions_count() -> None:
    """Positions far apart part by a split, which is public by design: no event is left to attack with."""
    rng = np.random.default_rng(2)
    task = Task.build(Box((0.0,), (1.0,)), epsilon=4.0, delta=0.05, k=5)
    others = np.concatenate([np.full(300, 0.2), np.full(300, 0.8)])[:, None]
    played = play(Pair(task, others, (0.2,), (0.8,)), runs=300, rng=rng)
    assert np.isneginf(played.scores).mean() > 0.95


def test_a_device_that_tells_the_truth_is_caught_by_the_same_attack() -> None:
    """Planted bug: randomized response of epsilon = 2 that claims 1."""
    findings = audit_task(default_task(epsilon=2.0), "planted", runs=20_000, rng=np.random.default_rng(4), claimed=1.0)
    assert findings
    assert all(not finding.holds for finding in findings)


def test_the_neighbour_is_beyond_a_line_of_the_same_region() -> None:
    rng = np.random.default_rng(7)
    task, others, here = default_task(), town(199), (0.45, 0.52)
    there = choose_neighbour(task, others, here, rng=rng)
    assert there is not None
    played = play(Pair(task, others, here, there), runs=1000, rng=rng)
    assert (np.isfinite(played.scores) & (played.scores != 0)).mean() > 0.1


def test_both_directions_are_reported() -> None:
    pair = Pair(default_task(), town(60), (0.2, 0.5), (0.8, 0.5))
    bounds = attack(pair, runs=2000, rng=np.random.default_rng(1))
    assert list(bounds) == ["here over there", "there over here"]
    assert all(bound.epsilon <= 1.0 for bound in bounds.values())
    with pytest.raises(InvalidInput, match="at must be"):
        play(pair, runs=10, rng=np.random.default_rng(1), at="elsewhere")


@pytest.mark.parametrize(("runs", "share"), [(30, 0.1), (200, 0.02), (500, 0.5)])
def test_clopper_pearson_covers_at_least_as_often_as_it_says(runs: int, share: float) -> None:
    """Exact coverage, summed over all outcomes; no sampling."""
    confidence = 0.99
    covered = 0.0
    for hits in range(runs + 1):
        low, high = share_bounds(hits, runs, confidence=confidence)
        covered += binom.pmf(hits, runs, share) if low <= share <= high else 0.0
    assert covered >= confidence


def test_bounds_at_the_ends() -> None:
    assert share_bounds(0, 10)[0] == 0.0
    assert share_bounds(10, 10)[1] == 1.0
    with pytest.raises(InvalidInput, match="from 0 to runs"):
        share_bounds(11, 10)
    with pytest.raises(InvalidInput, match="confidence"):
        share_bounds(1, 10, confidence=1.0)


def test_the_loss_bound_is_rarely_above_the_truth_and_close_below_it() -> None:
    """Exact chance, over all pairs of outcomes, that the bound exceeds the truth: at most the stated error."""
    runs, p, q, confidence = 60, 0.7, 0.3, 0.95
    truth = math.log(p / q)
    above = 0.0
    for hits in range(runs + 1):
        for misses in range(runs + 1):
            if loss_lower_bound(hits, misses, runs=runs, confidence=confidence).epsilon > truth:
                above += binom.pmf(hits, runs, p) * binom.pmf(misses, runs, q)
    assert above <= 1 - confidence
    many = 10**6
    assert loss_lower_bound(int(p * many), int(q * many), runs=many).epsilon > truth - 0.02


def test_the_event_is_the_one_with_the_best_bound() -> None:
    rng = np.random.default_rng(1)
    one = rng.choice([-1.0, 0.0, 1.0], p=[0.2, 0.2, 0.6], size=20_000)
    other = rng.choice([-1.0, 0.0, 1.0], p=[0.6, 0.2, 0.2], size=20_000)
    assert 0.0 < sharpest_event(one, other) <= 1.0
    assert sharpest_event(np.full(5, -np.inf), np.full(5, -np.inf)) == math.inf
