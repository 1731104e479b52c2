"""Means and synthetic points of the pooled modes: central privacy's error, unbiased rounding, totals kept."""

from __future__ import annotations

import numpy as np
import pytest

import semilocal as sl
from semilocal.errors import InvalidInput
from semilocal.pooled import PooledTask
from semilocal.release.pooled_counts import words_from
from semilocal.release.pooled_mean import SCALE, _steps, cell_means, pooled_mean

BOX = sl.Box((0, 0), (2, 1))
POINTS = np.random.default_rng(1).random((50, 2)) * [2, 1]
F = sl.functions.coordinate(0)


def task(epsilon: float) -> PooledTask:
    return PooledTask.build(BOX, epsilon=epsilon, trust="curator", max_depth=2)


def test_the_stated_error_is_the_true_one() -> None:
    result = pooled_mean(task(0.5), POINTS, F, rng=np.random.default_rng(3))
    assert result.stderr == pytest.approx(np.sqrt(2.0) * 2.0 / (len(POINTS) * 0.5), rel=1e-6)


def test_nobody_changes_the_sum_by_more_than_the_noise_is_for() -> None:
    words = words_from(np.random.default_rng(4))
    steps = _steps(np.array([0.0, 1.0, 0.5, 1.5, -1.0, 1 / 3] * 1_000), words)
    assert steps.min() == 0
    assert steps.max() == SCALE
    third = steps[5::6]
    assert set(third.tolist()) == {SCALE // 3, SCALE // 3 + 1}
    # A third of 2^24 ends in .333: 1,000 draws, five standard errors (6e-7).
    assert abs((third - SCALE // 3).mean() - (SCALE / 3 - SCALE // 3)) < 5 * np.sqrt(2 / 9 / 1_000)


def test_an_interval_holds_its_value_and_stays_in_the_range() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        result = pooled_mean(task(0.01), POINTS, F, rng=rng)
        low, high = result.interval()
        assert 0 <= low <= result.value <= high <= 2


def test_nobody_has_no_mean() -> None:
    with pytest.raises(InvalidInput, match="nobody to take the mean of"):
        sl.mean(np.empty((0, 2)), F, BOX, epsilon=1.0, trust="curator")


def test_means_per_cell_add_their_cost_and_hold_the_truth() -> None:
    """Five standard errors for every cell with people: 6e-7 each."""
    rng = np.random.default_rng(6)
    points = rng.beta(2, 5, (20_000, 2)) * [2, 1]
    counted = sl.counts(points, BOX, epsilon=2.0, trust="curator", rng=rng)
    found = cell_means(counted, points, F, epsilon=2.0, rng=rng)
    assert found.spent.epsilon_anywhere == 4
    cells = counted.partition.locate(points)
    number = np.bincount(cells, minlength=len(counted.partition))
    sums = np.bincount(cells, points[:, 0], minlength=len(counted.partition))
    some = (number >= 50) & (counted.partition.crowds >= 50)
    assert some.sum() > 10
    assert (np.abs(found.value - sums / np.maximum(number, 1))[some] <= 6 * found.stderr[some]).all()
    ends = found.interval()
    assert ((ends[:, 0] <= found.value) & (found.value <= ends[:, 1])).all()


def test_synthetic_points_keep_totals_and_stay_inside() -> None:
    rng = np.random.default_rng(7)
    points = rng.beta(2, 5, (5_000, 2)) * [2, 1]
    result = sl.points(points, BOX, epsilon=2.0, trust="two-servers", rng=rng)
    assert result.points.shape == points.shape
    assert len(BOX.check(result.points)) == 5_000
    drawn = np.bincount(result.partition.locate(result.points), minlength=len(result.partition))
    assert np.abs(drawn - result.partition.crowds).max() < 5  # four parts, each rounded up or down
    assert not (result.points[:, None] == points[:200]).all(axis=2).any(), "no true position comes back"
