"""How unevenly people lie is one number, which is estimated without bias."""

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


def test_chances_beyond_the_possible_are_cut() -> None:
    assert Spread.of(np.array([-1e-9, 1.0 + 1e-9])).clumped.tolist() == [0.0, 1.0]


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


def test_what_is_no_spread_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"together must be from 1/2 to 1; got 0\.4"):
        Spread(0.4)
    with pytest.raises(InvalidInput, match="shape"):
        fit([1.0, 2.0], [[1.0, 2.0]], [0.0])
