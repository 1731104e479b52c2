"""The baselines' noise has the law that they state."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import chi2, kstest, laplace

from semilocal.functions import squared_norm
from semilocal.geometry.box import Box
from semilocal.lab.baselines import central_mean, ldp_kdtree, ldp_trees, local_mean, published
from semilocal.lab.baselines.boxes import count_points, mean_relative_error
from semilocal.lab.baselines.ldp_trees import Oracle, best_oracle, variance
from semilocal.simulation import synthetic
from tests.statistical.authors import reference_rows
from tests.unit.lab.test_ldp_trees import UNIT, crowd, spread_evenly, tally_probabilities

Floats = npt.NDArray[np.float64]
BOX = Box((-10.0, -10.0), (10.0, 10.0))


def people(rng: np.random.Generator, n: int) -> Floats:
    return np.clip(rng.normal(0, 1.5, (n, 2)), -10, 10)


def squares(counts: Floats, truth: npt.NDArray[np.int64], epsilon: float, reporting: int) -> float:
    """Sum of squared z-scores of counts that one report each of some of the people gave."""
    people = int(truth.sum())
    spread = variance(best_oracle(len(truth), epsilon=epsilon), truth / people, reporting=reporting, people=people)
    return float(np.sum((counts - truth) ** 2 / spread))


@pytest.fixture
def unbiased(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts as they are estimated, before they are made non-negative."""
    monkeypatch.setattr(ldp_trees, "project_to_total", spread_evenly)


@pytest.mark.usefixtures("unbiased")
def test_kdtree_leaves_are_unbiased_with_the_variance_of_the_oracle() -> None:
    """Leaves given the tree, 60 runs of 16: squared z-scores against chi-square, false-alarm rate 1e-6 two-sided.

    Leaves are independent up to the known total, which takes one degree of freedom per run.

    The planted bug compares with half of the parent everywhere, which is what counts passed down from the
    medians say.
    """
    rng = np.random.default_rng(4)
    points = crowd(rng, 20_000)
    total, planted, degrees = 0.0, 0.0, 0
    for _ in range(60):
        result = ldp_kdtree(points, UNIT, epsilon=2.0, rng=rng, height=4)
        truth = count_points(points, result.boxes)
        reporting = round((1 - ldp_trees.TREE_SHARE) * 20_000)
        total += squares(result.counts, truth, 2.0, reporting)
        planted += squares(np.full(16, 20_000 / 16), truth, 2.0, reporting)
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


@pytest.mark.parametrize("unary", [False, True])
def test_tallies_have_the_exact_joint_distribution(unary: bool) -> None:
    """Chi-square test with false-alarm rate 1e-6 (up to its usual approximation; cells expect at least 20).

    Planted bugs that it must catch: reports that ignore the dependence between items (for randomized
    response), and a flip probability that is off by a tenth (for unary encoding).
    """
    rng = np.random.default_rng(1)
    oracle, holders = Oracle(3, 1.0, unary), [3, 1, 0]
    counts = np.array(holders)
    draws = [tuple(oracle.draw_tally(counts, rng=rng).tolist()) for _ in range(20_000)]
    statistic, limit = sampled_statistic(oracle, holders, draws)
    assert statistic < limit
    other = 1.1 * oracle.other if unary else oracle.other
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


# -- the published code's rule against the authors' own numbers ------------------------------------------------------

PLANE = Box((-10.0, -10.0), (10.0, 10.0))


def implied_errors(n: int, epsilon: float, runs: int, rng: np.random.Generator, *, noise: float = 1.0) -> Floats:
    """Variances of the mean of the squared norm that the regions of each run imply; ``noise`` times as much of it."""
    out = []
    for _ in range(runs):
        points = synthetic.truncated_gaussian(n, rng, box=PLANE, scale=1.5)
        regions = published(points, PLANE, epsilon=epsilon / 2 / noise, delta=0.05, k=100, rng=rng)
        out.append(regions.mean(points, squared_norm(), epsilon=epsilon / 2, rng=rng).stderr ** 2)
    return np.array(out)


def apart(ours: Floats, theirs: float, runs: int) -> float:
    """By how many standard errors two averages differ: ours, and one of ``runs`` runs with the same spread."""
    return abs(float(ours.mean()) - theirs) / (float(ours.std(ddof=1)) * math.sqrt(1 / len(ours) + 1 / runs))


@pytest.mark.parametrize("row", reference_rows("mean_mse"), ids=lambda row: f"{row['n']:.0f}-{row['epsilon']:g}")
def test_published_regions_imply_the_error_of_the_authors_code(row: dict[str, float]) -> None:
    """Averages agree within 6 standard errors: false-alarm rate 2e-9 for normal means, below 1e-6 for these.

    The measured squared error of the authors is chi-square around ours, two-sided at 1e-6 (three more standard errors
    for ours). The planted bug, honest noise of twice the scale, is caught at epsilon = 1 (16,000 people or more).
    """
    n, epsilon, runs = int(row["n"]), row["epsilon"], int(row["runs"])
    rng = np.random.default_rng([n, int(10 * epsilon)])
    ours = implied_errors(n, epsilon, 40 if n == 2_000 else 16, rng)
    assert apart(ours, row["authors_sldp_expected_mse"], runs) < 6
    spread = 3 * float(ours.std(ddof=1)) / math.sqrt(len(ours))
    low, high = chi2.ppf([0.5e-6, 1 - 0.5e-6], runs) / runs
    assert low * (ours.mean() - spread) < row["authors_sldp_mse"] < high * (ours.mean() + spread)
    if n >= 16_000 and epsilon == 1:
        assert apart(implied_errors(n, epsilon, 16, rng, noise=2.0), row["authors_sldp_expected_mse"], runs) > 6


@pytest.mark.parametrize("row", reference_rows("range_mre"), ids=lambda row: f"{row['n']:.0f}-{row['epsilon']:g}")
def test_published_counts_have_the_relative_error_of_the_authors_code(row: dict[str, float]) -> None:
    """Averages of 24 runs of ours and 8 of theirs agree within 6 standard errors: false-alarm rate below 1e-6.

    The planted bug, counts of exact regions (noise 1/50 as large), is caught where noise matters.
    """
    n, epsilon = int(row["n"]), row["epsilon"]
    rng = np.random.default_rng([n, int(10 * epsilon), 2])

    def errors(factor: float) -> Floats:
        out = []
        for _ in range(24):
            points, sizes = synthetic.clusters(n, rng), rng.uniform(0.1, 0.3, (100, 2))
            lower = rng.uniform(0.0, 1.0 - sizes)
            boxes = np.stack([lower, lower + sizes], axis=1)
            half = factor * epsilon / 2
            regions = published(points, synthetic.UNIT_SQUARE, epsilon=half, delta=0.05, k=20, max_depth=10, rng=rng)
            answers = regions.counts(epsilon=half, rng=rng).query(boxes)
            out.append(mean_relative_error(answers, count_points(points, boxes), floor=1e-4 * n))
        return np.array(out)

    assert apart(errors(1.0), row["authors_sldp_mre"], int(row["runs"])) < 6
    if epsilon <= 1:
        assert apart(errors(50.0), row["authors_sldp_mre"], int(row["runs"])) > 6
