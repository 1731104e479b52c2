"""Variances are those of a cascade and of people with meeting places; the one number is estimated without bias."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom

from semilocal.errors import InvalidInput
from semilocal.release.spread import Spread, fit

Floats = npt.NDArray[np.float64]


def places(people: int, clumped: float, share: float) -> Floats:
    """Exact law of how many of so many people are in a part, if all sit in one place or all lie evenly.

    Two people are in the same place with probability ``clumped``. float64[people + 1].
    """
    law = (1.0 - clumped) * binom.pmf(np.arange(people + 1), people, share)
    law[[0, people]] += clumped * np.array([1.0 - share, share])
    return np.asarray(law)


@pytest.mark.parametrize("fanout", [2, 4, 8])
@pytest.mark.parametrize("clumped", [0.0, 0.1, 0.6, 1.0])
@pytest.mark.parametrize("share", [0.01, 0.25, 0.5, 0.9])
def test_variance_is_that_of_people_with_meeting_places(fanout: int, clumped: float, share: float) -> None:
    law, numbers = places(12, clumped, share), np.arange(13)
    mean = law @ numbers
    assert mean == pytest.approx(12 * share)
    spread = Spread(clumped + (1.0 - clumped) / fanout, fanout)
    assert spread.clumped == pytest.approx(clumped)
    assert spread.in_places(12, share) == pytest.approx(law @ (numbers - mean) ** 2)


@pytest.mark.parametrize("fanout", [2, 4, 8])
@pytest.mark.parametrize("level", [0.01, 0.5, 3.0, 1e6])
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_variance_is_that_of_cells_whose_children_divide_like_them(fanout: int, level: float, depth: int) -> None:
    """A part at some depth has the product of as many shares, independent ones with a Dirichlet law: exact moments."""
    share, square = 1.0 / fanout, (level + 1.0) / (fanout * (fanout * level + 1.0))
    part, spread = share**depth, Spread(fanout * square, fanout)
    exact = 12 * part * (1 - part) + 12 * 11 * (square**depth - part**2)
    assert spread.variance(12, part) == pytest.approx(exact)
    assert spread.variance(12, 1.0 - part) == pytest.approx(exact)
    alike = spread.in_places(12, part) == pytest.approx(exact, rel=1e-3)  # planted: they agree for children only
    assert alike == (depth == 1 or level > 1e5)


@pytest.mark.parametrize("fanout", [4, 8, 16])
@pytest.mark.parametrize("clumped", [0.02, 0.3])
def test_some_of_the_children_are_as_uncertain_as_people_in_places(fanout: int, clumped: float) -> None:
    """Exact for the sum of shares that have a Dirichlet law. Planted: a cascade's power, which is 1.2 to 2.8 times."""
    spread, some = Spread.of(np.array([clumped]), fanout), np.arange(1, fanout // 2 + 1) / fanout
    assert spread.excess(100, some) == pytest.approx(100 * 99 * clumped * some * (1 - some))


@pytest.mark.parametrize("fanout", [2, 4, 49, 98, 103, 187, 256])
def test_people_who_lie_evenly_have_no_clumps_and_none_is_negative(fanout: int) -> None:
    """Powers of floats are below their products by a rounding error, and so are chances."""
    shares = np.random.default_rng(76).random(2_000)
    for clumped in (np.zeros(1), np.full(1, 1e-17)):
        excess = Spread.of(clumped, fanout).excess(1e4, shares)
        assert excess.min() >= 0.0
        assert excess.max() < 1e-6


def test_chances_beyond_the_possible_are_cut() -> None:
    assert Spread.of(np.array([-1e-9, 1.0 + 1e-9])).clumped.tolist() == [0.0, 1.0]


def test_small_parts_are_more_certain_than_with_meeting_places() -> None:
    shares = np.linspace(0.0, 0.5, 51)
    variance, places = Spread(0.7).variance(50, shares), Spread(0.7).in_places(50, shares)
    assert (variance <= places + 1e-9).all()
    assert variance[[0, -1]] == pytest.approx(places[[0, -1]])
    assert (np.diff(variance) > 0).all()


def test_variance_of_an_uncertain_number_is_its_mean_over_the_numbers() -> None:
    """Ten or twenty people: the variance inside, averaged, plus nothing for the difference of the means."""
    spread, share = Spread(0.7), 0.25
    inside = np.mean([spread.variance(number, share) for number in (10, 20)])
    assert spread.variance(15, share, noise=25.0) == pytest.approx(inside)


def test_a_part_and_the_rest_are_equally_uncertain() -> None:
    shares = np.linspace(0, 1, 11)
    spread = Spread(0.8)
    for variance in (spread.variance, spread.in_places):
        assert variance(50, shares) == pytest.approx(variance(50, 1 - shares))
        assert variance(50, 0.0) == variance(50, 1.0) == 0.0


@pytest.mark.parametrize("together", [0.55, 0.7, 0.9])
def test_each_cell_estimates_the_chance_without_bias(together: float) -> None:
    """Exact mean over all divisions of ten people and over noise of two values, weighted as one cell among many."""
    law = places(10, 2.0 * together - 1.0, 0.5)
    rows, weights = [], []
    for number, chance in enumerate(law):
        for error in (-3.0, 3.0):
            rows.append([number + error, 10 - number - error])
            weights.append(chance / 2)
    copies = np.round(np.array(weights) * 200_000).astype(int)
    children = np.repeat(np.array(rows), copies, axis=0)
    parents = np.full(len(children), 10.0)
    assert fit(parents, children, np.full(len(children), 9.0)).together == pytest.approx(together, abs=1e-3)
    wrong = fit(parents, children, np.zeros(len(children))).together  # planted bug: noise is not taken out
    assert wrong > together + 0.05


def test_noisy_cells_count_less_and_no_cells_mean_ignorance() -> None:
    exact, noisy = [[50.0, 50.0]], [[100.0, 0.0]]
    both = fit([100, 100], exact + noisy, [0.0, 0.0]).together
    assert fit([100, 100], exact + noisy, [0.0, 1e6]).together < both
    assert fit([], np.empty((0, 4)), []).together == pytest.approx(2 / 5)
    assert fit([1.0, 0.0], [[1.0, 0.0], [0.0, 0.0]], [0.0, 0.0]).together == pytest.approx(2 / 3)


def test_estimates_outside_the_possible_are_cut() -> None:
    assert fit([100.0] * 50, [[150.0, -50.0]] * 50, [0.0] * 50).together == 1.0
    assert fit([100.0] * 50, [[50.0, 50.0]] * 50, [400.0] * 50).together == 0.5


@pytest.mark.parametrize("together", [0.5, 0.6, 0.9])
def test_divisions_follow_good_estimates_and_ignore_bad_ones(together: float) -> None:
    spread = Spread(together)
    expected, variance = spread.divide([100.0, 100.0], [[80.0, 20.0]] * 2, [1e-9, 1e12])
    assert expected.sum(axis=1) == pytest.approx([100, 100])
    assert expected[0] == pytest.approx([80, 20])
    assert expected[1] == pytest.approx([50, 50])
    assert variance == pytest.approx([0.0, float(spread.variance(100, 0.5))], abs=1e-4)


def test_divisions_are_never_negative_and_keep_the_sum() -> None:
    expected, _ = Spread(0.9).divide([10.0, 0.0], [[25.0, -15.0], [3.0, -3.0]], [4.0, 4.0])
    assert (expected >= 0).all()
    assert expected.sum(axis=1) == pytest.approx([10.0, 0.0])


def test_what_is_no_spread_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"together must be from 1/2 to 1; got 0\.4"):
        Spread(0.4)
    with pytest.raises(InvalidInput, match="shape"):
        fit([1.0, 2.0], [[1.0, 2.0]], [0.0])


def test_a_division_that_was_expected_is_not_uneven() -> None:
    """All cells divide 80 to 20. Planted bug: an even division was expected."""
    parents, children = np.full(500, 100.0), np.tile([80.0, 20.0], (500, 1))
    assert fit(parents, children, np.zeros(500), np.tile([0.8, 0.2], (500, 1))).together == 0.5
    assert fit(parents, children, np.zeros(500)).together > 0.65
    expected, _ = Spread(0.5).divide([100.0], [[50.0, 50.0]], [1e12], [[0.8, 0.2]])
    assert expected[0] == pytest.approx([80, 20])
