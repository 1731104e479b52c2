"""The pooled tree's noise has its law, its estimates their errors, and an attacker gets no more than epsilon.

False alarms: the laws are tested by counts per value against exact chances (exact binomial tails, Bonferroni, 1e-9
each); estimates by a chi-square sum with a 1e-8 tail; bounds of attacks have confidence 1 - 1e-6.
"""

from __future__ import annotations

import os
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from semilocal import Box
from semilocal.lab.audit.pooled import ForgetfulCounter, LoudCounter, attack_pooled, attack_sums, worst_pair, worst_sums
from semilocal.pooled import PooledTask, Trust, estimate, noise, replay
from tests.helpers.pooled_runs import seeded, true_numbers
from tests.statistical.test_distributions import ALARM, surprise

pytestmark = pytest.mark.slow

DRAWS = 200_000


def law(rate: float, edge: int) -> dict[int, float]:
    """Chances of -edge … edge; the ends stand for all beyond."""
    q = np.exp(-rate)
    chances = {j: (1 - q) / (1 + q) * q ** abs(j) for j in range(1 - edge, edge)}
    return {-edge: q**edge / (1 + q), **chances, edge: q**edge / (1 + q)}


def observed(draws: np.ndarray, edge: int) -> Counter[int]:
    return Counter(np.clip(draws, -edge, edge).tolist())


SOURCES = {
    "system": noise.from_entropy(os.urandom),
    "generator": noise.from_generator(np.random.default_rng(4)),
    "secret": noise.from_secret(b"s" * 32, b"law", np.arange(DRAWS, dtype=np.uint64)),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("rate", "edge"), [(Fraction(1, 20), 100), (Fraction(1), 8), (Fraction(4), 3)])
def test_noise_has_its_exact_law(source: str, rate: Fraction, edge: int) -> None:
    size = 40_000 if source == "secret" else DRAWS
    draws = noise.draw(rate / 7, np.full(size, 7), SOURCES[source])
    assert surprise(observed(draws, edge), law(float(rate), edge)) > ALARM
    wrong = noise.draw(rate * 3 / 2, np.ones(size, dtype=np.int64), SOURCES["generator"])
    assert surprise(observed(wrong, edge), law(float(rate), edge)) <= ALARM  # a rate that is half as large again


def test_draws_are_independent_of_each_other() -> None:
    draws = noise.draw(Fraction(1, 10), np.ones(DRAWS, dtype=np.int64), SOURCES["system"]).astype(float)
    for lag in (1, 2, 28):
        correlation = np.corrcoef(draws[:-lag], draws[lag:])[0, 1]
        assert abs(correlation) < 6.5 / np.sqrt(DRAWS)  # 1e-10


@pytest.mark.parametrize("trust", ["curator", "two-servers"])
def test_estimates_are_unbiased_and_their_errors_are_as_stated(trust: Trust) -> None:
    """A tree of fixed shape: the standardised squared errors of 1,000 runs have mean 1 within 8 standard errors."""
    points = np.random.default_rng(0).beta(2, 6, (6000, 1))
    task = PooledTask.build(Box((0,), (1,)), epsilon=8.0, trust=trust, max_depth=3)
    squares, errors = [], []
    for seed in range(1000):
        found = estimate(replay(seeded(task, points, seed)))
        if len(found.counts) != 8:
            continue
        error = found.unbiased - true_numbers(found.tree, points)[1]
        errors.append(error / np.sqrt(found.variances))
        squares.append(error**2 / found.variances)
    assert len(squares) > 750
    mean, square = np.mean(errors, axis=0), np.mean(squares, axis=0)
    assert (np.abs(mean) < 6.5 / np.sqrt(len(errors))).all()
    assert (np.abs(square - 1) < 8 * np.std(squares, axis=0) / np.sqrt(len(squares))).all()


@pytest.mark.parametrize("trust", ["curator", "two-servers"])
def test_the_attacker_comes_within_a_tenth_of_the_claim_and_never_above(trust: Trust) -> None:
    pair = worst_pair(trust)
    bound = attack_pooled(pair, runs=150_000, rng=np.random.default_rng(9))
    assert 0.9 * pair.claimed <= bound.epsilon <= pair.claimed


@pytest.mark.parametrize("trust", ["curator", "two-servers"])
@pytest.mark.parametrize("counter", [LoudCounter, ForgetfulCounter])
def test_planted_faults_are_caught(trust: Trust, counter: Any) -> None:
    pair = worst_pair(trust, counter=counter)
    assert attack_pooled(pair, runs=40_000, rng=np.random.default_rng(9)).epsilon > 1.05 * pair.claimed


@pytest.mark.parametrize("trust", ["curator", "two-servers"])
@pytest.mark.parametrize("cells", [1, 2])
def test_the_attacker_of_sums_comes_within_a_tenth_of_the_claim_and_never_above(trust: Trust, cells: int) -> None:
    pair = worst_sums(trust, cells=cells)
    bound = attack_sums(pair, runs=150_000, rng=np.random.default_rng(10))
    assert 0.9 * pair.task.epsilon <= bound.epsilon <= pair.task.epsilon


@pytest.mark.parametrize("wrong", [{"louder": 2}, {"louder": 2, "cells": 2}, {"centred": False, "cells": 2}])
def test_planted_faults_of_sums_are_caught(wrong: dict[str, Any]) -> None:
    pair = worst_sums("two-servers", **wrong)
    assert attack_sums(pair, runs=40_000, rng=np.random.default_rng(10)).epsilon > 1.5 * pair.task.epsilon
