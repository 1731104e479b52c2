"""Trials: populations and queries by their definitions, the paper's rules as its code runs them, ours as one call."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

import semilocal as sl
from semilocal.errors import InvalidInput
from semilocal.geometry.box import Box
from semilocal.lab.baselines.boxes import count_points, mean_relative_error
from semilocal.lab.experiments import trials
from semilocal.lab.experiments.methods import DEPTHS, At, paper_regions, published_regions
from semilocal.lab.experiments.runner import Trial
from semilocal.simulation import synthetic


def trial(method: str, run: int = 0, **parameters: float | str) -> Trial:
    return Trial.of("test", method, seed=3, run=run, **parameters)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_our_mean_is_the_one_call_function(epsilon: float) -> None:
    one = trial("ours", n=6_000, epsilon=epsilon, k=20)
    [row] = trials.mean_trial(one)
    points = synthetic.truncated_gaussian(6_000, one.shared_rng("n"), box=trials.PLANE, scale=1.5)
    f = sl.functions.squared_norm()
    result = sl.mean(points, f, trials.PLANE, epsilon=epsilon, trust="nobody", delta=0.05, k=20, rng=one.rng())
    assert row["error"] == result.value - float(np.mean(f(points)))
    assert row["expected_mse"] == result.stderr**2


@pytest.mark.parametrize("delta", [0.05, 1e-6])
def test_our_counts_are_the_one_call_function(delta: float) -> None:
    one = trial("ours", source="clusters", n=3_000, epsilon=1.0, k=20, delta=delta)
    [row] = trials.counts_trial(one)
    points, boxes, truth, floor = trials.draw_people("clusters", 3_000, one.shared_rng("n", "source"))
    counted = sl.counts(points, synthetic.UNIT_SQUARE, epsilon=1.0, trust="nobody", delta=delta, k=20, rng=one.rng())
    assert row["mre"] == mean_relative_error(counted.query(boxes).value, truth, floor=floor)
    assert row["regions"] == len(counted.partition.crowds)


def test_the_paper_s_rule_splits_only_where_every_child_passes() -> None:
    """Regions of the paper's rule hold k but with probability delta each; the published code's do not."""
    rng = np.random.default_rng(8)
    points = synthetic.clusters(20_000, rng)
    at = At(synthetic.UNIT_SQUARE, 2.0, 20, rng, DEPTHS["clusters"])
    paper, published = paper_regions(points, at, 1.0), published_regions(points, at, 1.0)
    for regions in (paper, published):
        assert np.array_equal(regions.crowds, count_points(points, regions.boxes))
        assert np.array_equal(regions.crowds, np.bincount(regions.regions, minlength=len(regions)))
        assert regions.guarantee.epsilon == 4.0
    assert paper.crowds.min() >= 20
    assert published.crowds.min() < 20


def test_zero_is_the_error_of_saying_nothing() -> None:
    [row] = trials.counts_trial(trial("zero", source="ring", n=3_000, epsilon=1.0, k=20))
    assert row["mre"] == 1.0  # every true count is above the floor
    [row] = trials.mean_trial(trial("zero", n=500, epsilon=1.0, k=0))
    assert row["error"] < 0


def test_facts_count_regions_and_people_below_k() -> None:
    rng = np.random.default_rng(2)
    at = At(synthetic.UNIT_SQUARE, 1.5, 20, rng, 8)
    regions = published_regions(synthetic.clusters(5_000, rng), at, 1.0)
    facts = trials.facts_of(regions, 20)
    held = [crowd for crowd in regions.crowds.tolist() if crowd]
    assert facts["regions"] == len(regions)
    assert facts["regions_below"] == sum(crowd < 20 for crowd in held) / len(held)
    assert facts["participants_below"] == sum(crowd for crowd in held if crowd < 20) / 5_000
    assert trials.facts_of(None, 20) == dict.fromkeys(trials.FACTS)


def test_unknown_methods_are_refused() -> None:
    with pytest.raises(InvalidInput, match="not used for counts"):
        trials.counts_trial(trial("magic", source="clusters", n=500, epsilon=1.0, k=20))
    pytest.importorskip("sklearn")
    with pytest.raises(InvalidInput, match="no classifier"):
        trials.classifier("oracle", 1)


SQUARE = Box((-10, -10), (10, 10))


def brute(points: npt.NDArray[np.float64], boxes: npt.NDArray[np.float64]) -> list[int]:
    return [int(((points >= box[0]) & (points < box[1])).all(axis=1).sum()) for box in boxes]


def test_truncated_gaussian_has_the_truncated_law() -> None:
    """Kolmogorov-Smirnov against the exact law at p = 1e-7 per axis: false alarms below 1e-6 in all.

    The planted bug: what falls outside is pushed to the border, where it piles up.
    """
    box = Box((-1.0, -2.0), (2.0, 0.5))
    rng = np.random.default_rng(3)
    points = synthetic.truncated_gaussian(20_000, rng, box=box, scale=1.5)
    box.check(points)
    clipped = np.clip(rng.normal(0.0, 1.5, size=(20_000, 2)), box.lower, box.upper)
    for axis in range(2):
        law = stats.truncnorm(box.lower[axis] / 1.5, box.upper[axis] / 1.5, scale=1.5)
        assert stats.kstest(points[:, axis], law.cdf).pvalue > 1e-7
        assert stats.kstest(clipped[:, axis], law.cdf).pvalue < 1e-7


def test_a_centre_far_outside_is_refused_rather_than_waited_for() -> None:
    with pytest.raises(InvalidInput, match="move the centre"):
        synthetic.truncated_gaussian(5, np.random.default_rng(5), box=SQUARE, scale=0.1, centre=(99.0, 0.0))


def test_clusters_follow_the_mixture_in_every_tile() -> None:
    """Exact expected counts m of 100 tiles; a count may be off by 7√m + 10.

    Bennett's bound exp(−m h(t/m)) with t = 7√m + 10 is below 5e-11 for every m up to 10⁵: 1e-8 for all tiles.
    The planted bug gives all clusters the same spread.
    """
    n = 50_003
    points = synthetic.clusters(n, np.random.default_rng(6))
    synthetic.UNIT_SQUARE.check(points)
    edges = np.linspace(0, 1, 11)

    def expected(spreads: list[float]) -> npt.NDArray[np.float64]:
        total = np.zeros((10, 10))
        for place, ((centre, _), spread) in enumerate(zip(synthetic.CLUSTERS, spreads, strict=True)):
            share = n // 5 + (place < n % 5)
            laws = [stats.truncnorm(-c / spread, (1 - c) / spread, c, spread) for c in centre]
            total += share * np.outer(*(np.diff(law.cdf(edges)) for law in laws))
        return total

    seen, _, _ = np.histogram2d(points[:, 0], points[:, 1], bins=[edges, edges])

    def fits(wanted: npt.NDArray[np.float64]) -> bool:
        return bool((np.abs(seen - wanted) < 7 * np.sqrt(wanted) + 10).all())

    assert fits(expected([spread for _, spread in synthetic.CLUSTERS]))
    assert not fits(expected([0.05] * 5))


def test_uniform_queries_have_uniform_sides_and_places_that_fit() -> None:
    """Kolmogorov-Smirnov at p = 1e-7 per axis and quantity: false alarms below 1e-6 in all."""
    boxes = trials.uniform_queries(20_000, np.random.default_rng(8))
    assert boxes.shape == (20_000, 2, 2)
    size = boxes[:, 1] - boxes[:, 0]
    assert (boxes >= 0).all()
    assert (boxes <= 1).all()
    for axis in range(2):
        assert stats.kstest(size[:, axis], stats.uniform(0.1, 0.2).cdf).pvalue > 1e-7
        place = boxes[:, 0, axis] / (1 - size[:, axis])
        assert stats.kstest(place, stats.uniform.cdf).pvalue > 1e-7


def test_anchored_queries_follow_their_definition() -> None:
    """With the count filter open, sides are log-uniform and the anchor lies uniformly in its box (p = 1e-7
    each)."""
    points = np.random.default_rng(9).random((2000, 2))
    rng = np.random.default_rng(10)
    boxes, counts = trials.anchored_queries(points, 5000, rng, fewest=1, largest_share=1.0)
    assert counts.tolist() == brute(points, boxes)
    size = boxes[:, 1] - boxes[:, 0]
    law = stats.uniform(np.log(1 / 256), np.log(32)).cdf
    for axis in range(2):
        assert stats.kstest(np.log(size[:, axis]), law).pvalue > 1e-7
    # one lonely point is the anchor of every box: where in the box is it?
    lonely = np.full((400, 2), 0.5)
    around, _ = trials.anchored_queries(lonely, 5000, rng, fewest=1, largest_share=1.0)
    place = (0.5 - around[:, 0]) / (around[:, 1] - around[:, 0])
    for axis in range(2):
        assert stats.kstest(place[:, axis], stats.uniform.cdf).pvalue > 1e-7
        assert stats.kstest(np.sqrt(place[:, axis]), stats.uniform.cdf).pvalue < 1e-7  # a wrong law is seen


def test_anchored_queries_keep_only_selective_counts() -> None:
    points = synthetic.clusters(20_000, np.random.default_rng(11))
    boxes, counts = trials.anchored_queries(points, 200, np.random.default_rng(12))
    assert boxes.shape == (200, 2, 2)
    assert counts.tolist() == brute(points, boxes)
    assert counts.min() >= 20
    assert counts.max() <= 1000


def test_impossible_workloads_are_refused_with_the_reason() -> None:
    rng = np.random.default_rng(13)
    with pytest.raises(InvalidInput, match="at least 400"):
        trials.anchored_queries(rng.random((399, 2)), 10, rng)
    with pytest.raises(InvalidInput, match="share one place"):
        trials.anchored_queries(np.full((1000, 2), 0.5), 1, rng)
