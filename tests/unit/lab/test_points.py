"""Noisy positions: the right distributions and honest prices; nothing leaves the domain."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import lambertw
from scipy.stats import gamma, kstest, laplace, uniform

from semilocal.geometry.box import Box
from semilocal.lab.baselines import laplace_points, planar_laplace
from semilocal.lab.baselines.releases import radius

BOX = Box((-120.0, 30.0), (-100.0, 40.0))
WIDE = Box((-10_000.0, -5_000.0), (10_000.0, 5_000.0))  # so wide that no draw of ε = 1000 falls outside


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_the_radius_inverts_its_distribution_function(epsilon: float) -> None:
    chance = np.concatenate(([0.0, 1e-9, 1 - 1e-12], np.linspace(0, 1, 1001)[:-1]))
    found = radius(chance, epsilon)
    np.testing.assert_allclose(1 - (1 + epsilon * found) * np.exp(-epsilon * found), chance, atol=1e-12)
    assert (found >= 0).all()
    closed = -(lambertw((chance[3:] - 1) / math.e, k=-1).real + 1) / epsilon  # what the literature computes
    np.testing.assert_allclose(found[4:], closed[1:], rtol=1e-6)


def test_planar_noise_is_isotropic_with_gamma_distance_on_the_unit_square() -> None:
    """Kolmogorov-Smirnov at 1e-6 (its false-alarm rate). Exponential distance, a common mistake, must be caught."""
    rng = np.random.default_rng(0)
    points = np.zeros((20_000, 2))
    released = planar_laplace(points, WIDE, epsilon=1000.0, rng=rng)
    shift = (released.points - points) / (20.0, 10.0)
    distance = np.hypot(*shift.T)
    angle = np.arctan2(shift[:, 1], shift[:, 0])
    assert kstest(distance, gamma(2).cdf).pvalue > 1e-6
    assert kstest(distance, gamma(1).cdf).pvalue < 1e-6
    assert kstest(angle, uniform(-math.pi, 2 * math.pi).cdf).pvalue > 1e-6


def test_coordinate_noise_is_laplace_on_the_unit_square() -> None:
    """Kolmogorov-Smirnov at 1e-6 (its false-alarm rate). Noise on the raw coordinates must be caught."""
    rng = np.random.default_rng(1)
    points = np.zeros((20_000, 2))
    released = laplace_points(points, WIDE, epsilon=1000.0, rng=rng)
    shift = released.points - points
    for axis, width in enumerate((20.0, 10.0)):
        assert kstest(shift[:, axis] / width, laplace().cdf).pvalue > 1e-6
        assert kstest(shift[:, axis], laplace().cdf).pvalue < 1e-6
    assert abs(np.asarray(np.corrcoef(shift.T))[0, 1]) < 5.2 / math.sqrt(20_000)  # false-alarm rate 2e-7


@pytest.mark.parametrize("release", [planar_laplace, laplace_points])
def test_what_falls_outside_is_moved_to_the_border(release: type) -> None:
    rng = np.random.default_rng(2)
    points = rng.uniform(BOX.lower, BOX.upper, (500, 2))
    released = BOX.check(release(points, BOX, epsilon=3.0, rng=rng).points)
    border = ((released == BOX.lower) | (released == BOX.upper)).any(axis=1)
    assert 0 < border.sum() < 500


def test_prices_are_the_true_ones() -> None:
    rng = np.random.default_rng(4)
    point = [[-110.0, 35.0]]
    coordinates = laplace_points(point, BOX, epsilon=1.5, rng=rng).guarantee
    assert coordinates.epsilon == coordinates.anywhere == 3.0
    assert laplace_points([0.5], Box((0.0,), (1.0,)), epsilon=1.5, rng=rng).guarantee.epsilon == 1.5
    planar = planar_laplace(point, BOX, epsilon=1.5, rng=rng).guarantee
    assert planar.anywhere == pytest.approx(1.5 * math.sqrt(2))
    assert "one side of the domain apart (axes scaled to [0, 1]): 1.5; opposite corners: 2.12132" in planar.explain()
