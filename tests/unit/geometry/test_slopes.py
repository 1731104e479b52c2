"""Densities that change exponentially: shares of sides, and what edges of rings enclose."""

from __future__ import annotations

import numpy as np
import pytest

from semilocal.arrays import Floats
from semilocal.geometry.slopes import between, left_of_edges, slope_between, up_to

STEEP = np.array([0.0, 1e-300, 2.0**-61, -1e-12, 1e-7, 0.03, -0.9, 4.0, -11.0, 60.0, -60.0])


@pytest.mark.parametrize("slope", STEEP.tolist())
def test_shares_are_those_of_the_density(slope: float) -> None:
    """Oracle: the middles of 20,000 slices."""
    middles, places = (np.arange(20_000) + 0.5) / 20_000, np.linspace(0.0, 1.0, 11)
    density = np.exp(-slope * middles - max(-slope, 0.0))
    expected = [density[middles < place].sum() / density.sum() for place in places]
    found = up_to(places, np.full(11, slope))
    assert (found[0], found[-1]) == (0.0, 1.0)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    halves = between(np.array([0.0, 0.5, 0.7]), np.array([0.5, 1.0, 0.2]), np.full(3, slope))
    assert halves[:2].sum() == pytest.approx(1.0, abs=1e-15)
    assert halves[2] == 0.0  # places that cross


def test_without_a_slope_shares_are_the_places_themselves() -> None:
    places = np.random.default_rng(1).random(1000)
    assert np.array_equal(up_to(places, np.zeros(1000)), places)


@pytest.mark.parametrize("slope", [-1.9, -0.1, 0.0, 1.3])
def test_the_slope_of_an_exponential_density_is_found_exactly(slope: float) -> None:
    """Whatever the level. Planted: the logarithm of the neighbours alone, which is twice that."""
    before, own, after = (np.array([7.0 * np.exp(-slope * place)]) for place in (-1.0, 0.0, 1.0))
    assert slope_between(before, own, after)[0] == pytest.approx(slope, abs=1e-12)
    assert np.log(before / after)[0] == pytest.approx(2 * slope, abs=1e-12)


def test_no_neighbours_make_a_slope_steeper_than_a_straight_line_can_be() -> None:
    """In the middle, a line that ends at nobody falls by twice the density there."""
    before, own, after = np.array([0.0, 1e6, 0.0]), np.ones(3), np.array([1e6, 0.0, 0.0])
    assert slope_between(before, own, after).tolist() == [-2.0, 2.0, 0.0]


def ring(corners: Floats, slopes: Floats) -> float:
    start, stop = corners.T, np.roll(corners, -1, axis=0).T
    return float(left_of_edges(start, stop, np.repeat(slopes[:, None], len(corners), axis=1)).sum())


@pytest.mark.parametrize("first", STEEP[4:].tolist())
@pytest.mark.parametrize("second", STEEP.tolist())
def test_rectangles_hold_what_their_sides_say(first: float, second: float) -> None:
    (x, right), (y, top) = (0.2, 0.75), (0.1, 0.9)
    slopes = np.array([first, second])
    found = ring(np.array([[x, y], [right, y], [right, top], [x, top]]), slopes)
    sides = between(np.array([x, y]), np.array([right, top]), slopes)
    assert found == pytest.approx(float(sides.prod()), abs=1e-9)
    assert ring(np.array([[x, top], [right, top], [right, y], [x, y]]), slopes) == pytest.approx(-found, abs=1e-9)


@pytest.mark.parametrize("slopes", [(0.0, 0.0), (5e-5, -9e-5), (1e-4, 1e-4), (0.4, -3.0), (8.0, 8.0), (-7.0, 7.0)])
def test_triangles_that_make_a_square_hold_everybody(slopes: tuple[float, float]) -> None:
    """Edges that are not along an axis, among them one along which the density does not change."""
    lower = ring(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]), np.array(slopes))
    upper = ring(np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), np.array(slopes))
    assert 0.0 < lower < 1.0
    assert lower + upper == pytest.approx(1.0, abs=1e-9)
    middles = (np.arange(2_000) + 0.5) / 2_000
    weights = [np.exp(-slope * middles) / np.exp(-slope * middles).sum() for slope in slopes]
    expected = float(np.sum(weights[0] * (np.cumsum(weights[1]) - weights[1] / 2)))
    assert lower == pytest.approx(expected, abs=2e-5)
