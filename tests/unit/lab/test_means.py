"""Means with central and local noise: the right scale, the right interval, the right price."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import laplace

from semilocal.errors import InvalidInput, OutsideDomain
from semilocal.functions import BoundedFunction, function, linear, squared_norm
from semilocal.geometry.box import Box
from semilocal.lab.baselines import central_mean, local_mean

Floats = npt.NDArray[np.float64]
BOX = Box((-10.0, -10.0), (10.0, 10.0))


def wrong() -> BoundedFunction:
    """States a range that its values leave."""
    return function(lambda x: (x**2).sum(axis=1), lambda boxes: np.tile([0.0, 1.0], (len(boxes), 1)))


def people(rng: np.random.Generator, n: int) -> Floats:
    return np.clip(rng.normal(0, 1.5, (n, 2)), -10, 10)


class Fixed:
    """A generator whose uniform draws are all the same."""

    def __init__(self, uniform: float) -> None:
        self.uniform = uniform

    def random(self, size: int) -> Floats:
        return np.full(size, self.uniform)


def upper_probability(position: list[float], epsilon: float) -> float:
    """The probability of the upper point, found by bisection on what the mechanism does with a uniform draw."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        rng = cast(np.random.Generator, cast(Any, Fixed(middle)))
        report = local_mean([position], squared_norm(), BOX, epsilon=epsilon, rng=rng, mechanism="duchi").value
        low, high = (middle, high) if report > 100 else (low, middle)
    return low


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_two_point_reports_cost_epsilon_and_are_unbiased(epsilon: float) -> None:
    """By enumeration: two reports, and values at both ends and in between."""
    reach = 100 * (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
    positions = [[0.0, 0.0], [10.0, 10.0], [3.0, -4.0], [10.0, 0.0]]
    chances = [upper_probability(position, epsilon) for position in positions]
    for position, chance in zip(positions, chances, strict=True):
        mean = 100 + reach * (2 * chance - 1)
        assert mean == pytest.approx(sum(x * x for x in position), abs=1e-6)
    ratios = [a / b for a in chances for b in chances] + [(1 - a) / (1 - b) for a in chances for b in chances]
    assert math.log(max(ratios)) == pytest.approx(epsilon, rel=1e-9)


def test_intervals_have_their_level() -> None:
    rng = np.random.default_rng(2)
    points = people(rng, 50)
    central = central_mean(points, squared_norm(), BOX, epsilon=1.0, rng=rng)
    low, high = central.interval(0.9)
    noise = laplace(loc=central.value, scale=200 / 50)
    assert noise.cdf(high) - noise.cdf(low) == pytest.approx(0.9, rel=1e-9)
    local = local_mean(points, squared_norm(), BOX, epsilon=1.0, rng=rng)
    low, high = local.interval()
    assert high - low == pytest.approx(2 * 1.959964 * local.stderr, rel=1e-6)
    for level in (0.0, 1.0, math.nan):
        with pytest.raises(InvalidInput, match="level"):
            local.interval(level)


def test_guarantees_name_trust_and_adjacency() -> None:
    rng = np.random.default_rng(3)
    points = people(rng, 5)
    central = central_mean(points, squared_norm(), BOX, epsilon=0.5, rng=rng).guarantee
    local = local_mean(points, squared_norm(), BOX, epsilon=0.5, rng=rng).guarantee
    for guarantee, trust in ((central, "curator"), (local, "nobody")):
        text = str(guarantee)
        assert guarantee.anywhere == guarantee.epsilon == 0.5
        for part in ("epsilon = 0.5", "delta = 0", "anywhere in the domain", trust):
            assert part in text


@pytest.mark.parametrize("mechanism", ["laplace", "duchi"])
def test_a_constant_function_needs_no_noise(mechanism: str) -> None:
    rng = np.random.default_rng(4)
    result = local_mean(people(rng, 5), linear((0.0, 0.0)), BOX, epsilon=0.5, rng=rng, mechanism=mechanism)
    assert (result.value, result.stderr) == (0.0, 0.0)


def test_bad_arguments_are_refused() -> None:
    rng = np.random.default_rng(5)
    points = people(rng, 5)
    for mean in (central_mean, local_mean):
        with pytest.raises(InvalidInput, match="epsilon"):
            mean(points, squared_norm(), BOX, epsilon=0.0, rng=rng)
        with pytest.raises(InvalidInput, match="range"):
            mean(points, lambda x: x[:, 0], BOX, epsilon=1.0, rng=rng)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="leave the range"):
            mean(points, wrong(), BOX, epsilon=1.0, rng=rng)
        with pytest.raises(OutsideDomain):
            mean(points + 20, squared_norm(), BOX, epsilon=1.0, rng=rng)
        with pytest.raises(InvalidInput, match="at least one"):
            mean(np.empty((0, 2)), squared_norm(), BOX, epsilon=1.0, rng=rng)
    with pytest.raises(InvalidInput, match="mechanism"):
        local_mean(points, squared_norm(), BOX, epsilon=1.0, rng=rng, mechanism="gauss")
