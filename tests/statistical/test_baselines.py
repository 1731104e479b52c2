"""The baselines' noise has the law that they state."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import chi2, kstest, laplace

from semilocal.baselines import SpatialCounts, central_mean, ldp_kdtree, ldp_quadtree, local_mean
from semilocal.baselines.oracles import GeneralizedResponse, Oracle, UnaryEncoding
from semilocal.functions import squared_norm
from semilocal.geometry.index import count_points
from tests.unit.baselines.test_ldp_trees import UNIT, crowd
from tests.unit.baselines.test_means import BOX, people
from tests.unit.baselines.test_oracles import tally_probabilities


def squares(result: SpatialCounts, truth: npt.NDArray[np.int64]) -> float:
    return float(np.sum((result.counts - truth) ** 2 / result.regions.variances))


def test_quadtree_cells_are_unbiased_with_the_stated_variance() -> None:
    """60 runs of 64 cells: sum of squared z-scores against chi-square.

    Cells are independent up to the known total, which takes one degree of freedom of 64 per run; two-sided
    test with false-alarm rate 1e-6. The planted bug, estimates that are not corrected for false reports, must
    be caught.
    """
    rng = np.random.default_rng(3)
    points = crowd(rng, 20_000)
    total, planted, degrees = 0.0, 0.0, 0
    for _ in range(60):
        result = ldp_quadtree(points, UNIT, epsilon=1.0, rng=rng, height=3, cut=0.0, nonnegative=False)
        truth = count_points(points, result.boxes)
        total += squares(result, truth)
        planted += float(np.sum((result.counts * 0.9 + 200 - truth) ** 2 / result.regions.variances))
        degrees += len(result) - 1
    low, high = chi2.ppf([0.5e-6, 1 - 0.5e-6], degrees)
    assert low < total < high
    assert not low < planted < high


def test_kdtree_leaves_are_unbiased_with_the_stated_variance() -> None:
    """As above, leaves given the tree; 60 runs of 16 leaves, false-alarm rate 1e-6 two-sided.

    The planted bug compares with half of the parent everywhere, which is what counts passed down from the
    medians say.
    """
    rng = np.random.default_rng(4)
    points = crowd(rng, 20_000)
    total, planted, degrees = 0.0, 0.0, 0
    for _ in range(60):
        result = ldp_kdtree(points, UNIT, epsilon=2.0, rng=rng, height=4, nonnegative=False)
        truth = count_points(points, result.boxes)
        total += squares(result, truth)
        planted += float(np.sum((20_000 / 16 - truth) ** 2 / result.regions.variances))
        degrees += len(result) - 1
    low, high = chi2.ppf([0.5e-6, 1 - 0.5e-6], degrees)
    assert low < total < high
    assert not low < planted < high


def sampled_statistic(oracle: Oracle, holders: list[int], draws: list[tuple[int, ...]]) -> tuple[float, float]:
    """Pearson's statistic of drawn tallies against the exact ones, and its 1 - 1e-6 quantile."""
    exact = tally_probabilities(oracle, holders)
    seen = Counter(draws)
    if not set(seen) <= set(exact):
        return math.inf, 0.0
    frequent = [tally for tally, chance in exact.items() if chance * len(draws) >= 20]
    rest = 1 - sum(exact[tally] for tally in frequent)
    expected = np.array([exact[tally] * len(draws) for tally in frequent] + [rest * len(draws)])
    found = np.array([seen[tally] for tally in frequent] + [len(draws) - sum(seen[t] for t in frequent)])
    kept = expected > 0.5
    statistic = float(np.sum((found[kept] - expected[kept]) ** 2 / expected[kept]))
    return statistic, float(chi2.ppf(1 - 1e-6, int(kept.sum()) - 1))


@pytest.mark.parametrize("kind", [GeneralizedResponse, UnaryEncoding])
def test_tallies_have_the_exact_joint_distribution(kind: Callable[[int, float], Oracle]) -> None:
    """Chi-square test with false-alarm rate 1e-6 (up to its usual approximation; cells expect at least 20).

    Planted bugs that it must catch: reports that ignore the dependence between items (for randomized
    response), and a flip probability that is off by a tenth (for unary encoding).
    """
    rng = np.random.default_rng(1)
    oracle, holders = kind(3, 1.0), [3, 1, 0]
    counts = np.array(holders)
    draws = [tuple(oracle.draw_tally(counts, rng=rng).tolist()) for _ in range(20_000)]
    statistic, limit = sampled_statistic(oracle, holders, draws)
    assert statistic < limit
    other = oracle.other if isinstance(oracle, GeneralizedResponse) else 1.1 * oracle.other
    planted = rng.binomial(counts, oracle.true, (20_000, 3)) + rng.binomial(4 - counts, other, (20_000, 3))
    statistic, limit = sampled_statistic(oracle, holders, [tuple(row) for row in planted.tolist()])
    assert statistic > limit


def test_central_noise_is_laplace_with_range_over_n_epsilon() -> None:
    """Kolmogorov-Smirnov at 1e-6 (its false-alarm rate); noise of half the range must be caught."""
    rng = np.random.default_rng(0)
    points = people(rng, 400)
    truth = float((points**2).sum(axis=1).mean())
    errors = [central_mean(points, squared_norm(), BOX, epsilon=0.5, rng=rng).value - truth for _ in range(3000)]
    assert kstest(errors, laplace(scale=200 / (400 * 0.5)).cdf).pvalue > 1e-6
    assert kstest(errors, laplace(scale=100 / (400 * 0.5)).cdf).pvalue < 1e-6


def test_local_noise_has_the_variance_of_range_over_epsilon() -> None:
    """Sum of 1500 squared z-scores against chi-square, two-sided at 1e-6; noise of half the range must be caught.

    Means of 400 Laplace draws are close to normal: their excess kurtosis is 3/400.
    """
    rng = np.random.default_rng(1)
    points = people(rng, 400)
    truth = float((points**2).sum(axis=1).mean())
    results = [local_mean(points, squared_norm(), BOX, epsilon=2.0, rng=rng) for _ in range(1500)]
    assert results[0].stderr == pytest.approx(math.sqrt(2) * 100 / 20)
    total = sum(((r.value - truth) / r.stderr) ** 2 for r in results)
    low, high = chi2.ppf([0.5e-6, 1 - 0.5e-6], 1500)
    assert low < total < high
    assert not low < 4 * total < high
