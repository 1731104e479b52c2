"""Released positions depend on the region alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import semilocal as sl
from semilocal.errors import InvalidInput
from semilocal.protocol.estimate import Walls
from semilocal.protocol.partition import Away, Partition
from semilocal.release import quantize, resample
from semilocal.release.points import centres
from tests.helpers.release_runs import run_of


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_quantize_gives_the_estimated_centre_of_the_region(dimensions: int) -> None:
    points, run = run_of(dimensions, seed=1)
    result = quantize(run, points)
    found = centres(run.partition)
    low, high = run.partition.boxes.transpose(1, 0, 2)
    assert ((found.middle > low) & (found.middle < high)).all()
    assert np.array_equal(result.points, found.middle[run.regions])
    assert np.array_equal(result.interval(), run.partition.boxes[run.regions])
    assert result.clipped == 0
    assert result.spent.epsilon == sl.Ledger.of(run.task).epsilon


def test_the_estimated_centre_is_nearer_to_people_than_the_middle_of_the_region() -> None:
    """Sixteen other runs of such towns: 0.72 to 0.96 times as far, 0.84 on average."""
    ratios = []
    for seed in range(6):
        points, run = run_of(2, seed=seed, size=8_000)
        middles = run.partition.boxes.mean(axis=1)[run.regions]
        near, far = (np.hypot(*(points - places).T).mean() for places in (quantize(run, points).points, middles))
        ratios.append(near / far)
    assert np.mean(ratios) < 0.9


def test_one_region_without_answers_has_its_middle_and_even_people() -> None:
    task = sl.Task.build(sl.Box((0, 2), (1, 6)), epsilon=1.0)
    low, high = (np.array([code], dtype=np.uint64) for code in task.hierarchy.ends)
    crowd = np.array([50])
    found = centres(Partition(task, low, high, crowd, 0 * crowd, Walls.none(1), Away.nobody()))
    assert found.middle == pytest.approx(np.array([[0.5, 4.0]]))
    assert found.spread == pytest.approx(np.array([[1.0, 4.0]]) / np.sqrt(12))


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
    found = centres(run.partition)
    centre, width = found.middle[0], found.spread[0] * np.sqrt(12)
    epsilon = 40.0
    drawn = resample(run, points, epsilon=epsilon, rng=rng)
    assert drawn.clipped == 0

    def right(sample: np.ndarray) -> bool:
        scaled = np.abs(sample - centre) * epsilon / width
        return bool((np.abs(scaled.mean(axis=0) - 1) < 5.5 / np.sqrt(len(sample))).all())

    assert right(drawn.points)
    assert not right(centre + (drawn.points - centre) / np.sqrt(2))
    assert drawn.stderr is not None
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


def test_people_without_a_region_have_no_position() -> None:
    points, run = run_of(2, seed=8)
    regions = run.regions.copy()
    regions[:50] = -1
    run, lost = replace(run, homes=regions), regions == -1
    for result in (quantize(run, points), resample(run, points, epsilon=1.0, rng=np.random.default_rng(8))):
        assert np.array_equal(np.isnan(result.points).all(axis=1), lost)
        assert result.stderr is not None
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
