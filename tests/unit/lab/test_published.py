"""The published code's rule: what its regions hold, what it releases about them, and what it does not promise."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from semilocal.functions import squared_norm
from semilocal.geometry.box import Box
from semilocal.lab.baselines import published
from semilocal.lab.index import count_points

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
