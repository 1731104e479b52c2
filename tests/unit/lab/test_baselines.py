"""Moved points and the published code: their laws, prices and rules; and what every baseline refuses."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import lambertw
from scipy.stats import gamma, kstest, laplace, uniform

from semilocal.errors import InvalidInput, OutsideDomain
from semilocal.functions import squared_norm
from semilocal.geometry.box import Box
from semilocal.lab import baselines
from semilocal.lab.baselines import laplace_points, planar_laplace, published
from semilocal.lab.baselines.boxes import count_points
from semilocal.lab.baselines.releases import radius

BOX = Box((-120.0, 30.0), (-100.0, 40.0))
WIDE = Box((-10_000.0, -5_000.0), (10_000.0, 5_000.0))  # so wide that no draw of ε = 1000 falls outside


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_the_radius_inverts_its_distribution_function(epsilon: float) -> None:
    chance = np.concatenate(([0.0, 1e-9, 1 - 1e-12], np.linspace(0, 1, 1001)[:-1]))
    found = radius(chance, epsilon)
    np.testing.assert_allclose(1 - (1 + epsilon * found) * np.exp(-epsilon * found), chance, atol=1e-12)
    assert (found >= 0).all()
    closed = -(lambertw((chance[3:] - 1) / math.e, k=-1).real + 1) / epsilon  # what the literature computes
    np.testing.assert_allclose(found[4:], closed[1:], rtol=1e-6)


def test_planar_noise_is_isotropic_with_gamma_distance_on_the_unit_square() -> None:
    """Kolmogorov-Smirnov at 1e-6 (its false-alarm rate). Exponential distance, a common mistake, must be caught."""
    rng = np.random.default_rng(0)
    points = np.zeros((20_000, 2))
    released = planar_laplace(points, WIDE, epsilon=1000.0, rng=rng)
    shift = (released.points - points) / (20.0, 10.0)
    distance = np.hypot(*shift.T)
    angle = np.arctan2(shift[:, 1], shift[:, 0])
    assert kstest(distance, gamma(2).cdf).pvalue > 1e-6
    assert kstest(distance, gamma(1).cdf).pvalue < 1e-6
    assert kstest(angle, uniform(-math.pi, 2 * math.pi).cdf).pvalue > 1e-6


def test_coordinate_noise_is_laplace_on_the_unit_square() -> None:
    """Kolmogorov-Smirnov at 1e-6 (its false-alarm rate). Noise on the raw coordinates must be caught."""
    rng = np.random.default_rng(1)
    points = np.zeros((20_000, 2))
    released = laplace_points(points, WIDE, epsilon=1000.0, rng=rng)
    shift = released.points - points
    for axis, width in enumerate((20.0, 10.0)):
        assert kstest(shift[:, axis] / width, laplace().cdf).pvalue > 1e-6
        assert kstest(shift[:, axis], laplace().cdf).pvalue < 1e-6
    assert abs(np.asarray(np.corrcoef(shift.T))[0, 1]) < 5.2 / math.sqrt(20_000)  # false-alarm rate 2e-7


@pytest.mark.parametrize("release", [planar_laplace, laplace_points])
def test_what_falls_outside_is_moved_to_the_border(release: type) -> None:
    rng = np.random.default_rng(2)
    points = rng.uniform(BOX.lower, BOX.upper, (500, 2))
    released = BOX.check(release(points, BOX, epsilon=3.0, rng=rng).points)
    border = ((released == BOX.lower) | (released == BOX.upper)).any(axis=1)
    assert 0 < border.sum() < 500


def test_prices_are_the_true_ones() -> None:
    rng = np.random.default_rng(4)
    point = [[-110.0, 35.0]]
    coordinates = laplace_points(point, BOX, epsilon=1.5, rng=rng).guarantee
    assert coordinates.epsilon == coordinates.anywhere == 3.0
    assert laplace_points([0.5], Box((0.0,), (1.0,)), epsilon=1.5, rng=rng).guarantee.epsilon == 1.5
    planar = planar_laplace(point, BOX, epsilon=1.5, rng=rng).guarantee
    assert planar.anywhere == pytest.approx(1.5 * math.sqrt(2))
    assert "one side of the domain apart (axes scaled to [0, 1]): 1.5; opposite corners: 2.12132" in planar.explain()


UNIT = Box((0.0, 0.0), (1.0, 1.0))
Floats = npt.NDArray[np.float64]


def people(rng: np.random.Generator, n: int = 6_000) -> Floats:
    """A dense corner, and a few people everywhere."""
    return np.concatenate([rng.random((n - 300, 2)) * 0.2, rng.random((300, 2))])


def test_regions_divide_the_domain_and_everybody_is_in_theirs() -> None:
    rng = np.random.default_rng(1)
    points = people(rng)
    found = published(points, UNIT, epsilon=1.0, delta=0.05, k=20, rng=rng)
    sides = found.boxes[:, 1] - found.boxes[:, 0]
    assert float(sides.prod(axis=1).sum()) == pytest.approx(1.0)
    assert np.array_equal(found.crowds, count_points(points, found.boxes))
    assert np.array_equal(found.crowds, np.bincount(found.regions, minlength=len(found)))
    mine = found.boxes[found.regions]
    assert ((points >= mine[:, 0]) & (points < mine[:, 1])).all()


def test_it_keeps_no_crowd_and_says_so_with_its_true_loss() -> None:
    rng = np.random.default_rng(2)
    points = people(rng)
    found = published(points, UNIT, epsilon=1.5, delta=0.05, k=20, rng=rng)
    assert ((found.crowds > 0) & (found.crowds < 20)).any()
    assert found.guarantee.cost("ε") == "3 ε inside"
    assert found.guarantee.k == 0
    # the mean of the published runs at ε = 1: half of it written on the regions, half on values
    half = published(points, UNIT, epsilon=0.5, delta=0.05, k=20, rng=rng)
    assert half.mean(points, squared_norm(), epsilon=0.5, rng=rng).guarantee.epsilon == 1.5
    assert half.counts(epsilon=0.5, rng=rng).guarantee == half.centres().guarantee == half.guarantee


def test_with_next_to_no_noise_a_child_goes_on_if_it_holds_more_than_k() -> None:
    """Three quarters hold k + 1 and go on by themselves; the fourth, with k, is a leaf."""
    k, middles = 5, np.array([[0.26, 0.26], [0.74, 0.26], [0.26, 0.74], [0.74, 0.74]])
    points = np.repeat(middles, [k + 1, k + 1, k + 1, k], axis=0)
    found = published(points, UNIT, epsilon=1e9, delta=0.05, k=k, max_depth=2, rng=np.random.default_rng(3))
    sides = found.boxes[:, 1, 0] - found.boxes[:, 0, 0]
    assert sorted(sides.tolist()) == [0.25] * 12 + [0.5]
    assert found.crowds[sides == 0.5].tolist() == [k]


def test_releases_are_exact_where_noise_vanishes() -> None:
    rng = np.random.default_rng(4)
    points, f = people(rng), squared_norm()
    found = published(points, UNIT, epsilon=1.0, delta=0.05, k=20, rng=rng)
    assert found.mean(points, f, epsilon=1e9, rng=rng).value == pytest.approx(float(np.mean(f(points))))
    counts = found.counts(epsilon=1e9, rng=rng)
    assert counts.query(found.boxes) == pytest.approx(found.crowds.astype(np.float64), abs=1e-3)
    centres = found.centres().points
    assert np.array_equal(centres, found.boxes.mean(axis=1)[found.regions])
    assert found.draws(epsilon=1e9, rng=rng).points == pytest.approx(centres, abs=1e-6)
    wide = found.draws(epsilon=0.1, rng=rng)
    assert UNIT.check(wide.points).shape == points.shape


RNG = np.random.default_rng(0)
EVERY: dict[str, Callable[..., Any]] = {
    name: getattr(baselines, name)
    for name in ("identity", "ugrid", "agrid", "dawa", "heatmap", "privtree", "ahead", "ldp_kdtree", "planar_laplace",
                 "laplace_points")
} | {
    "published": partial(baselines.published, delta=0.05, k=20),
    "central_mean": lambda points, box, **more: baselines.central_mean(points, squared_norm(), box, **more),
    "local_mean": lambda points, box, **more: baselines.local_mean(points, squared_norm(), box, **more),
}  # fmt: skip


@pytest.mark.parametrize("name", EVERY)
def test_bad_arguments_are_refused(name: str) -> None:
    make, people = EVERY[name], RNG.random((100, 2))
    for epsilon in (0.0, float("nan"), -1.0):
        with pytest.raises(InvalidInput, match="epsilon"):
            make(people, UNIT, epsilon=epsilon, rng=RNG)
    with pytest.raises(OutsideDomain):
        make(people + 0.5, UNIT, epsilon=1.0, rng=RNG)
    with pytest.raises(InvalidInput, match="at least one"):
        make(np.empty((0, 2)), UNIT, epsilon=1.0, rng=RNG)


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [("identity", "max_depth", 99), ("dawa", "max_depth", 99), ("privtree", "max_depth", 31), ("ahead", "depth", 0),
     ("ldp_kdtree", "height", 31), ("ldp_kdtree", "buckets", 1), ("published", "k", 0)],
)  # fmt: skip
def test_bad_options_are_refused_by_name(name: str, option: str, value: int) -> None:
    with pytest.raises(InvalidInput, match=option):
        EVERY[name](RNG.random((100, 2)), UNIT, **{"epsilon": 1.0, "rng": RNG, option: value})
