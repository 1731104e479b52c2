"""Frequency oracles cost exactly epsilon, estimate without bias, and are drawn from the exact distribution."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import combinations, product

import numpy as np
import pytest

from semilocal.lab.baselines.ldp_trees import Oracle, best_oracle, estimate, variance

EPSILONS = [0.1, 0.5, 1.0, 3.0, 8.0]


def report_probabilities(oracle: Oracle, item: int) -> dict[tuple[int, ...], float]:
    """Every possible report of a holder of ``item`` with its probability; a report is the set of supported items."""
    if not oracle.unary:
        unit = [tuple(int(i == j) for j in range(oracle.size)) for i in range(oracle.size)]
        return {unit[i]: oracle.true if i == item else oracle.other for i in range(oracle.size)}
    chance = [oracle.true if i == item else oracle.other for i in range(oracle.size)]
    return {
        bits: math.prod(c if bit else 1 - c for bit, c in zip(bits, chance, strict=True))
        for bits in product((0, 1), repeat=oracle.size)
    }


def tally_probabilities(oracle: Oracle, holders: list[int]) -> dict[tuple[int, ...], float]:
    """Exact joint distribution of the tally, by convolving one participant after the other."""
    result = {(0,) * oracle.size: 1.0}
    for item, number in enumerate(holders):
        for _ in range(number):
            added: defaultdict[tuple[int, ...], float] = defaultdict(float)
            for tally, chance in result.items():
                for report, part in report_probabilities(oracle, item).items():
                    added[tuple(a + b for a, b in zip(tally, report, strict=True))] += chance * part
            result = dict(added)
    return result


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("unary", [False, True])
def test_the_loss_of_a_report_is_exactly_epsilon(unary: bool, size: int, epsilon: float) -> None:
    """By enumeration of all reports under all pairs of items."""
    oracle = Oracle(size, epsilon, unary)
    tables = [report_probabilities(oracle, item) for item in range(size)]
    for table in tables:
        assert sum(table.values()) == pytest.approx(1.0, rel=1e-12)
    worst = max(a[report] / b[report] for a in tables for b in tables for report in a)
    assert math.log(worst) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("unary", [False, True])
def test_estimates_are_unbiased_with_the_stated_variance(unary: bool, epsilon: float) -> None:
    """By enumeration: all groups of 2 out of 4 people, all reports of each group."""
    oracle, people = Oracle(3, epsilon, unary), [0, 0, 1, 2]
    mean, square, groups = np.zeros(3), np.zeros(3), list(combinations(people, 2))
    for group in groups:
        holders = [group.count(item) for item in range(3)]
        for tally, chance in tally_probabilities(oracle, holders).items():
            value = estimate(oracle, np.array(tally), 2) * 4 / 2
            mean += chance * value / len(groups)
            square += chance * value**2 / len(groups)
    np.testing.assert_allclose(mean, [2, 1, 1], rtol=1e-9, atol=1e-9)
    stated = variance(oracle, np.array([2, 1, 1]) / 4, reporting=2, people=4)
    np.testing.assert_allclose(square - mean**2, stated, rtol=1e-7)


@pytest.mark.parametrize("epsilon", [*EPSILONS, 500.0, 5000.0])
def test_the_better_oracle_is_chosen(epsilon: float) -> None:
    for size in (2, 3, 5, 9, 20, 60, 300, 10**5):
        chosen, rivals = best_oracle(size, epsilon=epsilon), [Oracle(size, epsilon, unary) for unary in (False, True)]
        spreads = [float(variance(rival, 0.0, reporting=10, people=10)) for rival in rivals]
        assert float(variance(chosen, 0.0, reporting=10, people=10)) <= min(spreads) * (1 + 1e-12)
