"""The cascade's variance is exact at whole levels, and its one number is estimated without bias."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import betabinom

from semilocal.errors import InvalidInput
from semilocal.release.spread import Spread, fit

Floats = npt.NDArray[np.float64]


def evenness(together: float) -> float:
    """The parameter of the Beta law of a child's share with that chance of being together, two children."""
    return (1.0 - together) / (2.0 * together - 1.0)


def levels_down(people: int, together: float, levels: int) -> Floats:
    """Exact law of the number of people in the first descendant, that many halvings down: float64[people + 1]."""
    a = evenness(together)
    numbers = np.arange(people + 1)
    step = np.array([betabinom.pmf(numbers, number, a, a) for number in numbers])
    return np.asarray(np.linalg.matrix_power(step, levels)[people])


@pytest.mark.parametrize("together", [0.51, 0.6, 2 / 3, 0.8, 0.95])
@pytest.mark.parametrize("levels", [1, 2, 4])
def test_variance_is_that_of_the_cascade(together: float, levels: int) -> None:
    law, numbers = levels_down(12, together, levels), np.arange(13)
    mean = law @ numbers
    assert mean == pytest.approx(12 * 0.5**levels)
    expected = law @ (numbers - mean) ** 2
    assert Spread(together).variance(12, 0.5**levels) == pytest.approx(expected)


def test_variance_of_an_uncertain_number_is_its_mean_over_the_numbers() -> None:
    """Ten or twenty people: the variance inside, averaged, plus nothing for the difference of the means."""
    spread, share = Spread(0.7), 0.25
    inside = np.mean([spread.variance(number, share) for number in (10, 20)])
    assert spread.variance(15, share, noise=25.0) == pytest.approx(inside)


def test_a_part_and_the_rest_are_equally_uncertain() -> None:
    shares = np.linspace(0, 1, 11)
    spread = Spread(0.8)
    assert spread.variance(50, shares) == pytest.approx(spread.variance(50, 1 - shares))
    assert spread.variance(50, 0.0) == spread.variance(50, 1.0) == 0.0


@pytest.mark.parametrize("fanout", [2, 4, 8])
def test_even_people_are_binomial_and_people_in_one_place_are_all_or_nobody(fanout: int) -> None:
    share = np.array([0.1, 0.5])
    assert Spread(1 / fanout, fanout).variance(30, share) == pytest.approx(30 * share * (1 - share))
    assert Spread(1.0, fanout).variance(30, share) == pytest.approx(900 * share * (1 - share))


@pytest.mark.parametrize("together", [0.55, 0.7, 0.9])
def test_each_cell_estimates_the_chance_without_bias(together: float) -> None:
    """Exact mean over all divisions of ten people and over noise of two values, weighted as one cell among many."""
    law = levels_down(10, together, 1)
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
