"""Which of many rows stands for a person: beyond 16 rows the chances are bounded, and measured."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.stats import binom, chi2

from semilocal.arrays import Floats
from semilocal.simulation import people
from semilocal.simulation.people import draw_rows

KEYS, PERSONS = 60, 100


def unfairness(rows: int) -> float:
    """Chi-square of which row of each person is drawn, over many keys."""
    users = np.repeat(np.arange(PERSONS), rows)
    found = np.zeros(rows)
    for seed in range(KEYS):
        drawn = draw_rows(users, rng=np.random.default_rng([seed, rows]))
        found += np.bincount(drawn % rows, minlength=rows)
    expected = KEYS * PERSONS / rows
    return float(np.sum((found - expected) ** 2) / expected)


@pytest.mark.parametrize("rows", [17, 40, 100])
def test_each_of_many_rows_is_as_likely(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """False alarm: 1e-7, of a chi-square with at least 60 expected in every class."""
    limit = chi2.isf(1e-7, rows - 1)
    assert unfairness(rows) < limit
    monkeypatch.setattr(people, "_TERMS", 2)  # planted: a straight line takes the ends of a run of rows too often
    assert unfairness(rows) > limit


def chance(others: int, below: float, *, most: bool) -> float:
    """The largest or smallest chance that none of the others has a score below this.

    With 16 terms any 15 others are independent, so a polynomial of degree 15 has the expectation that independent
    scores give it. If it lies above (below) "is zero" on all whole numbers, its expectation bounds the chance. Here it
    is a product over pairs of neighbours, each of which is chosen well in turn.
    """
    number = np.arange(others + 1.0)
    weights = binom.pmf(number, others, below) * (1.0 if most else 1.0 - number)
    pairs = np.array([(number - at) * (number - at - 1) / (at * (at + 1)) for at in range(1, others)])
    factors, best = people._TERMS // 2 - 1, 1.0
    chosen = np.linspace(0, others - 2, factors).astype(int)
    for step in range(factors * 12):
        product = np.prod(pairs[np.delete(chosen, step % factors)], axis=0)
        found: Floats = pairs @ (weights * product)
        chosen[step % factors] = np.argmin(found) if most else np.argmax(found)
        best = float(found[chosen[step % factors]])
    return min(best, 1.0) if most else max(best, 0.0)


@pytest.mark.parametrize("rows", [17, 100, 300])
def test_the_chances_that_the_docstring_states_hold_for_any_key(rows: int) -> None:
    words = re.search(r"between ([\d.]+) / n and ([\d.]+) / n", people.__doc__ or "")
    assert words is not None
    scores = np.linspace(0, min(40, rows - 1), 60)[:-1] / (rows - 1)
    exact = np.trapezoid((1 - scores) ** (rows - 1), scores)
    for most, stated in ((False, float(words[1])), (True, float(words[2]))):
        bounds = [1.0, *(chance(rows - 1, below, most=most) for below in scores[1:])]
        found = np.trapezoid(bounds, scores) / exact
        assert found <= stated if most else found >= stated
