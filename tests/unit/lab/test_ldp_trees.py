"""The local trees: everyone reports once, estimates are unbiased, and totals agree with the number of people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from semilocal.geometry.box import Box
from semilocal.lab.baselines import SpatialCounts, ahead, ldp_kdtree, ldp_trees
from semilocal.lab.index import count_points

Floats = npt.NDArray[np.float64]
Baseline = Callable[..., SpatialCounts]
UNIT = Box((0.0, 0.0), (1.0, 1.0))
ODD = Box((-3.0, 10.0), (5.0, 11.0))
TREES: list[Baseline] = [ahead, ldp_kdtree]


def crowd(rng: np.random.Generator, n: int, box: Box = UNIT) -> Floats:
    """Half of the people in a tight cluster, half spread out."""
    low, high = np.asarray(box.lower), np.asarray(box.upper)
    tight = 0.3 + 0.05 * rng.random((n // 2, len(low)))
    wide = rng.random((n - n // 2, len(low)))
    return np.asarray(low + np.concatenate((tight, wide)) * (high - low))


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, int]]:
    """Writes down (epsilon, participants) of every round of reports."""
    seen: list[tuple[float, int]] = []
    draw = ldp_trees.Oracle.draw_tally

    def record(self: Any, counts: Any, *, rng: Any) -> Any:
        seen.append((self.epsilon, int(counts.sum())))
        return draw(self, counts, rng=rng)

    monkeypatch.setattr(ldp_trees.Oracle, "draw_tally", record)
    return seen


def spread_evenly(values: Floats, total: float) -> Floats:
    """In place of the nearest non-negative counts: unbiased ones."""
    return np.asarray(values + (total - values.sum()) / len(values))


@pytest.mark.parametrize("tree", TREES)
def test_everyone_reports_exactly_once_with_the_whole_epsilon(tree: Baseline, reports: list[tuple[float, int]]) -> None:
    rng = np.random.default_rng(0)
    result = tree(crowd(rng, 3001), UNIT, epsilon=0.7, rng=rng)
    assert sum(people for _, people in reports) == 3001
    assert {epsilon for epsilon, _ in reports} == {0.7}
    assert result.guarantee.epsilon == result.guarantee.anywhere == 0.7
    assert "local DP" in str(result.guarantee)


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("box", [UNIT, ODD, Box((0.0,), (2.0,)), Box((0.0,) * 3, (1.0, 2.0, 3.0))])
def test_leaves_tile_the_domain_and_hold_everybody(tree: Baseline, box: Box) -> None:
    rng = np.random.default_rng(1)
    result = tree(crowd(rng, 4000, box), box, epsilon=1.0, rng=rng)
    sides = result.boxes[:, 1] - result.boxes[:, 0]
    assert sides.prod(axis=1).sum() == pytest.approx(np.prod(np.subtract(box.upper, box.lower)))
    assert (result.boxes[:, 0] >= box.lower).all()
    assert (result.boxes[:, 1] <= box.upper).all()
    assert result.query([[box.lower, box.upper]])[0] == pytest.approx(4000, rel=1e-9)
    assert result.counts.sum() == pytest.approx(4000, rel=1e-9)
    assert result.counts.min() >= 0


def test_ahead_without_privacy_finds_the_crowd_and_its_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """At epsilon 60 only the dealing out into 4 layers is random: leaves are within 6 standard errors of the truth.

    One layer, a quarter of the people, gives a count with at most three times its variance under Poisson's law. About
    10^2 leaves: false-alarm rate below 1e-6 by the normal tail (2e-9 each).
    """
    rng = np.random.default_rng(5)
    points = crowd(rng, 40_000)
    monkeypatch.setattr(ldp_trees, "project_to_total", spread_evenly)
    result = ahead(points, UNIT, epsilon=60.0, rng=rng, depth=4)
    truth = count_points(points, result.boxes)
    z = (result.counts - truth) / np.sqrt(3 * (truth + 1.0))
    assert np.abs(z).max() < 6
    sides = result.boxes[:, 1, 0] - result.boxes[:, 0, 0]
    assert sides.min() == 0.5**4


def test_ahead_divides_the_crowded_and_leaves_the_empty_alone() -> None:
    rng = np.random.default_rng(6)
    points = 0.2 * rng.random((30_000, 2))
    result = ahead(points, UNIT, epsilon=2.0, rng=rng)
    sides = (result.boxes[:, 1] - result.boxes[:, 0]).max(axis=1)
    far = (result.boxes[:, 0] >= 0.5).all(axis=1)
    assert sides[far].max() == 0.5
    assert result.query([[[0.0, 0.0], [0.25, 0.25]]])[0] > 25_000


def test_a_kdtree_without_privacy_halves_the_people() -> None:
    rng = np.random.default_rng(8)
    points = rng.random((40_000, 2))
    result = ldp_kdtree(points, UNIT, epsilon=60.0, rng=rng, height=3, buckets=128)
    np.testing.assert_allclose(count_points(points, result.boxes), 5000, rtol=0.1)
