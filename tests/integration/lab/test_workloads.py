"""Populations and queries follow experiments' definitions; true counts equal brute force."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from semilocal.errors import InvalidInput
from semilocal.geometry.box import Box
from semilocal.lab.baselines.boxes import mean_relative_error
from semilocal.lab.experiments import trials
from semilocal.simulation import synthetic

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


def test_relative_error_uses_the_floor_where_the_truth_is_small() -> None:
    assert mean_relative_error([0, 30, 5], [0, 20, 10], floor=10) == pytest.approx((0 + 0.5 + 0.5) / 3)
    assert trials.anchored_floor(20_000) == 20
    assert trials.anchored_floor(5_000) == 10
    assert trials.uniform_floor(20_000) == 2
    with pytest.raises(InvalidInput, match="equally long"):
        mean_relative_error([1, 2], [1], floor=1)
