"""Intervals for estimates: the shortest one for a number that cannot be negative."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import norm, truncnorm

from semilocal.errors import InvalidInput
from semilocal.release.intervals import not_negative, standard_errors


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.999])
@pytest.mark.parametrize("mean", [-30.0, -3.0, -0.5, 0.0, 0.7, 1.6, 1.7, 2.0, 5.0, 40.0])
def test_it_holds_the_level_and_none_is_shorter(mean: float, level: float) -> None:
    """Oracle: scipy's normal law cut off at zero, and a search over all intervals of that probability."""
    law = truncnorm(-mean / 3, np.inf, loc=mean, scale=3)
    low, high = (float(end[0]) for end in not_negative([mean], [3.0], level))
    assert law.cdf(high) - law.cdf(low) == pytest.approx(level, abs=1e-6)
    shortest = minimize_scalar(
        lambda below: law.ppf(below + level) - law.ppf(below), bounds=(0, 1 - level), method="bounded",
        options={"xatol": 1e-10},
    )  # fmt: skip
    assert high - low <= shortest.fun * (1 + 1e-4)


def test_zero_is_covered_a_little_more_often_than_the_level() -> None:
    """The largest estimate whose interval holds zero, by bisection, has the probability that the docstring states."""
    below, above = 0.0, 5.0
    for _ in range(60):
        middle = (below + above) / 2
        below, above = (middle, above) if not_negative([middle], [1.0], 0.95)[0][0] == 0 else (below, middle)
    assert norm.cdf(below) == pytest.approx(1 / 1.05, abs=1e-6)


def test_what_is_known_has_no_width_and_far_estimates_stay_finite() -> None:
    low, high = not_negative([3.0, -2.0, -1e6], [0.0, 0.0, 1.0], 0.95)
    assert low.tolist() == [3.0, 0.0, 0.0]
    assert high[:2].tolist() == [3.0, 0.0]
    assert 0 <= high[2] < 1e-3


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 95.0])
def test_what_is_no_level_is_refused(level: float) -> None:
    with pytest.raises(InvalidInput, match="level"):
        not_negative([1.0], [1.0], level)
    with pytest.raises(InvalidInput, match="level"):
        standard_errors(level)
