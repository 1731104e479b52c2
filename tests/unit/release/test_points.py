"""Released positions depend on the region alone."""

from __future__ import annotations

import numpy as np
import pytest

import semilocal as sl
from semilocal.errors import InvalidInput
from semilocal.release import quantize, resample
from semilocal.testing import unit_box
from tests.helpers.release_runs import run_of


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_quantize_gives_the_centre_of_the_region(dimensions: int) -> None:
    points, run = run_of(dimensions, seed=1)
    result = quantize(run, points)
    for who in range(0, len(points), 97):
        low, high = run.partition.boxes[run.regions[who]]
        assert result.points[who] == pytest.approx((low + high) / 2)
        assert result.interval()[who] == pytest.approx(np.stack([low, high]))
    assert result.clipped == 0
    assert result.spent.epsilon == sl.Ledger.of(run.task).epsilon


@pytest.mark.parametrize("release", ["quantize", "resample"])
def test_participants_of_one_region_are_told_apart_by_nothing_but_noise(release: str) -> None:
    """Anybody in the region, anywhere in it, gives the same output with the same randomness."""
    points, run = run_of(2, seed=2)
    moved = run.partition.boxes[run.regions].mean(axis=1)  # everybody goes to another place of the same region
    assert (moved != points).any()
    if release == "quantize":
        first, second = quantize(run, points), quantize(run, moved)
    else:
        first = resample(run, points, epsilon=1.0, rng=np.random.default_rng(3))
        second = resample(run, moved, epsilon=1.0, rng=np.random.default_rng(3))
    assert np.array_equal(first.points, second.points)


def test_resample_draws_around_the_centre_with_the_scale_of_the_region() -> None:
    """Mean absolute distance of a Laplace draw is its scale; the mean of n of them is within 5 scale / sqrt(n).

    |Laplace| is exponential; by Chernoff the mean of n = 20,000 is off by more than 5.5 / sqrt(n) with probability
    below 1e-6. The planted bug draws with the standard deviation in place of the scale.
    """
    rng = np.random.default_rng(4)
    points = rng.random((20_000, 2))
    task = sl.Task.build(sl.Box((-50, -50), (51, 51)), epsilon=4.0, delta=0.05, k=20_000)  # one region, far from edges
    run = sl.simulate(points, task, rng=rng)
    assert len(run.partition) == 1
    centre, width = run.partition.boxes[0].mean(axis=0), run.partition.boxes[0, 1] - run.partition.boxes[0, 0]
    epsilon = 40.0
    drawn = resample(run, points, epsilon=epsilon, rng=rng)
    assert drawn.clipped == 0

    def right(sample: np.ndarray) -> bool:
        scaled = np.abs(sample - centre) * epsilon / width
        return bool((np.abs(scaled.mean(axis=0) - 1) < 5.5 / np.sqrt(len(sample))).all())

    assert right(drawn.points)
    assert not right(centre + (drawn.points - centre) / np.sqrt(2))
    assert drawn.stderr[0] == pytest.approx(width * np.sqrt(1 / 12 + 2 / epsilon**2))


def test_draws_outside_the_domain_are_moved_to_its_edge_and_counted() -> None:
    points, run = run_of(2, seed=5)
    result = resample(run, points, epsilon=0.05, rng=np.random.default_rng(5))
    box = run.task.box
    assert result.clipped > 0
    at_edge = ((result.points == box.lower) | (result.points == box.upper)).any(axis=1)
    assert result.clipped == np.count_nonzero(at_edge)
    box.check(result.points)


def test_the_interval_of_a_draw_is_the_region_of_its_participant_not_of_the_draw() -> None:
    points, run = run_of(2, seed=6)
    result = resample(run, points, epsilon=0.5, rng=np.random.default_rng(6))
    assert np.array_equal(result.interval(), run.partition.boxes[run.regions])
    assert (run.partition.locate(result.points) != run.regions).any()  # draws do leave their regions


def test_moved_participants_get_the_region_they_were_moved_into() -> None:
    points, run = run_of(2, seed=7)
    assert (run.moves > 0).any()
    moved = quantize(run, points).points[run.moves > 0]
    assert np.array_equal(run.partition.locate(moved), run.regions[run.moves > 0])


def test_lost_participants_have_no_position() -> None:
    rng = np.random.default_rng(8)
    points = rng.random((4_000, 2))
    task = sl.Task.build(unit_box(2), epsilon=2.0, delta=0.05, k=20)
    run = sl.simulate(points, task, rng=rng, dropout=0.05)
    lost = run.regions == -1
    assert lost.any()
    for result in (quantize(run, points), resample(run, points, epsilon=1.0, rng=rng)):
        assert np.array_equal(np.isnan(result.points).all(axis=1), lost)
        assert np.array_equal(np.isnan(result.stderr).all(axis=1), lost)
        assert np.array_equal(np.isnan(result.interval()).all(axis=(1, 2)), lost)


def test_wrong_input_is_refused_with_what_is_allowed() -> None:
    points, run = run_of(2, seed=9)
    with pytest.raises(InvalidInput, match=f"{len(points)} participants in their order; got 3"):
        quantize(run, points[:3])
    for wrong in (0.0, -1.0, float("nan"), float("inf"), True):
        with pytest.raises(InvalidInput, match="epsilon must be a positive number"):
            resample(run, points, epsilon=wrong, rng=np.random.default_rng(1))
    with pytest.raises(InvalidInput, match="level"):
        quantize(run, points).interval(0.0)
