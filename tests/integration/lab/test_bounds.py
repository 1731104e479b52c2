"""Bounds: they hold with their confidence, and an attack chosen after looking would be caught by the same check."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from semilocal.errors import InvalidInput
from semilocal.lab.audit.bounds import loss_lower_bound, share_bounds, sharpest_event


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
