"""Released values and means are unbiased, and their stated error is their true one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal import functions
from semilocal.arrays import Floats
from semilocal.pooled import PooledTask
from semilocal.protocol.clip import clips
from semilocal.randomizer.values import TwoPoint
from semilocal.release import mean, values
from semilocal.release.means import pooled_mean
from semilocal.testing import unit_box
from tests.helpers.release_runs import crowded, run_of

SIGMAS = 5.0  # a normal variable is farther out with probability 6e-7
BOX = sl.Box((0, 0), (2, 1))
POINTS = np.random.default_rng(1).random((50, 2)) * [2, 1]


def clipped(run: sl.Run, points: Floats, f: functions.BoundedFunction, epsilon: float, *, part: float = 1.0) -> Floats:
    """What everybody's value is before noise; clipped to a part of the range from below, for a planted bug."""
    low, high = clips(run.partition, f, epsilon)[run.regions].T
    return np.clip(f(points), low, low + part * (high - low))


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_a_mean_is_unbiased_for_clipped_values(dimensions: int) -> None:
    """False alarm 6e-7 each. Planted bug: values clipped to half of the range."""
    points, run = run_of(dimensions, seed=10 + dimensions)
    f = functions.squared_norm()
    rng = np.random.default_rng(20 + dimensions)
    results = [mean(run, points, f, epsilon=6.0, rng=rng) for _ in range(60)]
    average = np.mean([result.value for result in results])
    error = np.sqrt(np.mean([result.stderr**2 - result.clipping**2 for result in results]) / len(results))
    assert abs(average - clipped(run, points, f, 6.0).mean()) < SIGMAS * error
    assert abs(average - clipped(run, points, f, 6.0, part=0.5).mean()) > SIGMAS * error  # the check would notice


@pytest.mark.parametrize("two_points", [False, True])
def test_the_standard_error_is_the_spread_of_repeated_means(two_points: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variance of 600 normal numbers is within 5 sqrt(2 / 600) = 29 % of the truth, but for 1e-6.

    The stated one may be a few per cent too large by design. Planted bug: a standard error 1.5 times too small.
    """
    points, run = run_of(2, seed=3, size=300)
    rng = np.random.default_rng(4)
    f = functions.squared_norm()
    if two_points:
        monkeypatch.setattr("semilocal.release.means.best", TwoPoint)
    results = [mean(run, points, f, epsilon=1.5, rng=rng) for _ in range(600)]
    spread = float(np.var([result.value for result in results]))
    stated = float(np.mean([result.stderr**2 - result.clipping**2 for result in results]))

    def honest(claim: float) -> bool:
        return bool(0.71 < claim / spread < 1.29 * 1.08)

    assert honest(stated)
    assert not honest(stated / 1.5**2)


def test_every_value_is_unbiased_and_its_error_bounded() -> None:
    """The mean of 800 releases of each of 40 people is within 5.6 of its standard errors: 40 x 2e-8 < 1e-6.

    Planted bug: values that were not scaled back to the range of their region.
    """
    rng = np.random.default_rng(5)
    points = crowded(40, 1, rng)
    task = sl.Task.build(unit_box(1), epsilon=8.0, delta=0.05, k=5)
    run = sl.simulate(points, task, rng=rng)
    f = functions.coordinate(0)
    released = [values(run, points, f, epsilon=2.0, rng=rng) for _ in range(800)]
    average = np.mean([one.value for one in released], axis=0)
    bound = 5.6 * released[0].stderr / np.sqrt(len(released))
    truth = clipped(run, points, f, 2.0)
    assert (np.abs(average - truth) < bound).all()
    ranges = released[0].ranges[run.regions]
    unscaled = (average - ranges[:, 0]) / (ranges[:, 1] - ranges[:, 0])
    assert not (np.abs(unscaled - truth) < bound).all()
    spread = np.std([one.value for one in released], axis=0)
    assert (spread < 1.2 * released[0].stderr).all()  # 5.6 standard errors of a spread are 14 %


DRAWS = 4_000


def errors(trust: Any, *, epsilon: float = 0.5) -> Floats:
    task, rng = PooledTask.build(BOX, epsilon=epsilon, trust=trust, max_depth=2), np.random.default_rng(2)
    found = [pooled_mean(task, POINTS, functions.coordinate(0), rng=rng) for _ in range(DRAWS)]
    assert len({one.stderr for one in found}) == 1
    # values are moved into the range of f; with 50 people that hardly ever happens at this epsilon
    return np.asarray(np.array([one.value for one in found]) - POINTS[:, 0].mean())


@pytest.mark.parametrize(("trust", "least", "most"), [("curator", 0.9, 1.1), ("two-servers", 1.2, 2.2)])
def test_the_error_is_that_of_central_privacy(trust: str, least: float, most: float) -> None:
    """The root mean square of 4,000 Laplace draws has a relative standard error of at most 1.8 %.

    So both limits are at least five of them away (6e-7). Planted: noise of half and of twice the size is caught.
    """
    central = np.sqrt(2.0) * 2.0 / (len(POINTS) * 0.5)
    ratio = float(np.sqrt(np.mean(errors(trust) ** 2)) / central)
    assert least < ratio < most
    assert not least < ratio / 2 < most
    assert not least < ratio * 2 < most
