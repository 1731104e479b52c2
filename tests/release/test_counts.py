"""Range counts: exact where the transcript is exact, consistent, fast, and honest about the rest."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from release_runs import box_of, crowded, run_of
from scipy import stats

import semilocal as sl
from semilocal.errors import InvalidInput
from semilocal.experiments import populations
from semilocal.rectangles import count_points
from semilocal.release import counts
from semilocal.release.counts import _not_negative

Floats = npt.NDArray[np.float64]


def whole(box: sl.Box) -> Floats:
    return np.array([[box.lower, box.upper]])


def closed(boxes: Floats, box: sl.Box) -> Floats:
    """The same boxes with the upper edge of the domain inside."""
    out = boxes.copy()
    out[:, 1] = np.where(boxes[:, 1] == box.upper, np.inf, boxes[:, 1])
    return out


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"rule": "all"}, {"max_rounds": 3}, {"tree": "quad"}, {"rule": "each"}])
def test_the_whole_domain_holds_everybody_exactly(dimensions: int, options: dict[str, Any]) -> None:
    points, run = run_of(dimensions, seed=40, **options)
    result = counts(run)
    answer = result.query(whole(run.task.box))
    assert result.total == len(points)
    assert answer.value[0] == pytest.approx(len(points), abs=1e-6)
    assert answer.stderr[0] == 0
    assert answer.interval()[0] == pytest.approx([len(points), len(points)], abs=1e-6)


def test_after_dropouts_the_whole_domain_holds_who_is_left() -> None:
    rng = np.random.default_rng(41)
    points = crowded(4_000, 2, rng)
    run = sl.simulate(points, sl.Task.build(box_of(2), epsilon=2.0, delta=0.05, k=20), rng=rng, dropout=0.03)
    left = np.count_nonzero(run.regions != -1)
    assert left < len(points)
    assert counts(run).query(whole(run.task.box)).value[0] == pytest.approx(left, abs=1e-6)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_regions_are_exact_where_nobody_was_moved(dimensions: int) -> None:
    rng = np.random.default_rng(42)
    points = rng.random((4_000, dimensions))
    run = sl.simulate(points, sl.Task.build(box_of(dimensions), epsilon=2.0, delta=0.05, k=20, rule="all"), rng=rng)
    boxes = run.partition.boxes
    answers = counts(run).query(boxes)
    truth = count_points(points, closed(boxes, run.task.box))
    assert len(boxes) > 10
    assert answers.value == pytest.approx(truth, abs=1e-6)
    assert (answers.stderr == 0).all()
    assert not answers.uncertain


def test_regions_that_nobody_can_have_been_moved_into_stay_exact() -> None:
    points, run = run_of(2, seed=43, size=6_000)
    boxes = run.partition.boxes
    answers = counts(run).query(boxes)
    truth = count_points(points, closed(boxes, run.task.box))
    exact = answers.stderr == 0
    assert answers.uncertain
    assert 0 < exact.sum() < len(exact)
    assert answers.value[exact] == pytest.approx(truth[exact], abs=1e-6)
    assert (answers.value <= run.partition.crowds + 1e-9).all()  # people are taken out of regions, never put in


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_regions_and_trimmed_parts_add_up_to_everybody(dimensions: int) -> None:
    points, run = run_of(dimensions, seed=44)
    trimmed = run.task.hierarchy.boxes(run.partition.trimmed_cells)
    assert len(trimmed)
    answers = counts(run).query(np.concatenate([run.partition.boxes, trimmed]))
    assert answers.value.sum() == pytest.approx(len(points), abs=1e-6)
    assert answers.centre.sum() == pytest.approx(len(points), abs=1e-6)
    assert (answers.value >= -1e-9).all()


def test_the_error_of_any_box_is_what_the_halves_of_regions_add() -> None:
    """Oracle: with s and t the shares of the halves of a region that a box covers, V (s - t)² for the division and
    people x s (1 - s) for how people lie in each half, summed in plain loops."""
    rng = np.random.default_rng(45)
    points = rng.random((1_500, 2))
    run = sl.simulate(points, sl.Task.build(box_of(2), epsilon=1.0, delta=0.05, k=20, rule="all"), rng=rng)
    partition, hierarchy = run.partition, run.task.hierarchy
    result = counts(run)
    lower = rng.random((40, 2)) * 0.8
    queries = np.stack([lower, np.minimum(lower + rng.random((40, 2)), 1.0)], axis=1)
    children = hierarchy.boxes(hierarchy.children(partition.cells).ravel()).reshape(-1, 2, 2, 2)
    people = result.query(children.reshape(-1, 2, 2)).value.reshape(-1, 2)
    assert people.sum(axis=1) == pytest.approx(partition.crowds)
    noise = run.task.randomizer.variance(0.5)
    answers = result.query(queries)
    for query, value, stderr in zip(queries, answers.value, answers.stderr, strict=True):
        expected, variance = 0.0, 0.0
        for halves, inside, crowd in zip(children, people, partition.crowds, strict=True):
            shares = []
            for half in halves:
                side = np.maximum(np.minimum(half[1], query[1]) - np.maximum(half[0], query[0]), 0.0)
                shares.append(float(np.prod(side / (half[1] - half[0]))))
            shrunk = crowd**2 / (1 / 0.25**2 + crowd / noise)
            expected += float(inside @ np.array(shares))
            variance += shrunk * (shares[0] - shares[1]) ** 2
            variance += float(sum(n * s * (1 - s) for n, s in zip(inside, shares, strict=True)))
        assert value == pytest.approx(expected, rel=1e-9)
        assert stderr == pytest.approx(np.sqrt(variance), rel=1e-6)


def test_a_query_that_holds_a_whole_trimmed_cell_does_not_feel_its_moves() -> None:
    points, run = run_of(2, seed=46)
    hierarchy, trims = run.task.hierarchy, run.partition.trims
    first = trims.cells[np.argmin(hierarchy.depth(trims.cells))][None]  # nobody was moved into it from outside
    answer = counts(run).query(hierarchy.boxes(first))
    truth = count_points(points, closed(hierarchy.boxes(first), run.task.box))
    assert answer.stderr[0] == 0
    assert answer.value[0] == pytest.approx(truth[0], abs=1e-6)


def test_the_division_of_a_region_follows_the_last_rounds_estimates() -> None:
    _, run = run_of(2, seed=47, rule="all")
    children = run.task.hierarchy.boxes(run.task.hierarchy.children(run.partition.cells).ravel())
    first, second = counts(run).query(children).value.reshape(-1, 2).T
    estimates = run.partition.estimates
    clear = np.abs(estimates[:, 0] - estimates[:, 1]) > 0.1 * run.partition.crowds
    assert clear.any()
    assert np.array_equal((first > second)[clear], (estimates[:, 0] > estimates[:, 1])[clear])
    plain = np.abs(estimates[:, 0] - estimates[:, 1])
    assert (np.abs(first - second) <= plain + 1e-9)[clear].all()  # shrunk towards an even division


def test_density_adds_up_and_agrees_with_queries() -> None:
    points, run = run_of(2, seed=48)
    result = counts(run)
    density = result.density((16, 8))
    assert density.shape == (16, 8)
    assert density.sum() == pytest.approx(len(points), abs=1e-6)
    x, y = np.linspace(0, 1, 17), np.linspace(0, 1, 9)
    boxes = np.array([[[x[i], y[j]], [x[i + 1], y[j + 1]]] for i in range(16) for j in range(8)])
    assert density.ravel() == pytest.approx(result.query(boxes).value, abs=1e-6)


def test_intervals_stay_between_nobody_and_everybody() -> None:
    points, run = run_of(2, seed=49)
    rng = np.random.default_rng(49)
    lower = rng.random((200, 2)) * 0.9
    ends = counts(run).query(np.stack([lower, lower + 0.1], axis=1)).interval(0.999)
    assert (ends >= 0).all()
    assert (ends <= len(points)).all()
    assert (ends[:, 0] <= ends[:, 1]).all()


def test_what_is_expected_of_a_number_that_is_not_negative() -> None:
    """Oracle: scipy's truncated normal law."""
    estimate = np.array([-60.0, -20.0, -3.0, 0.0, 5.0, 40.0, 300.0, 395.0])
    noise, most = np.full(8, 15.0**2), np.full(8, 400.0)
    mean, variance = _not_negative(estimate, noise, most)
    law = stats.truncnorm(-estimate / 15, (most - estimate) / 15, loc=estimate, scale=15)
    assert mean == pytest.approx(law.mean(), rel=1e-6)
    assert variance == pytest.approx(law.var(), rel=1e-4)
    far, spread = _not_negative(np.array([-1e4]), np.array([15.0**2]), np.array([400.0]))
    assert np.isfinite(far).all()
    assert (spread > 0).all()


def test_the_guarantee_states_both_losses_adjacency_delta_and_what_is_public() -> None:
    _, run = run_of(2, seed=50, epsilon=0.5)
    words = counts(run).guarantee
    for part in ("epsilon = 0.5 inside your region", "at most 8.5", "delta = 0.05", "public by design"):
        assert part in words
    _, exposed = run_of(2, seed=50, rule="each")
    assert "NO crowd" in counts(exposed).guarantee


def test_counts_cost_nothing_beyond_the_partition() -> None:
    _, run = run_of(2, seed=51)
    assert counts(run).spent == sl.Ledger.of(run.task)
    spent = sl.Ledger.of(run.task).spend("mean", 1.0)
    assert counts(run, ledger=spent).spent == spent


@pytest.mark.parametrize(
    "wrong", [[[0, 0], [1, 1]], [[[0, 0, 0], [1, 1, 1]]], [[[0.5, 0.5], [0.1, 0.9]]], [[[np.nan, 0], [1, 1]]], "box"]
)
def test_what_is_no_box_is_refused(wrong: Any) -> None:
    _, run = run_of(2, seed=52)
    with pytest.raises(InvalidInput):
        counts(run).query(wrong)


@pytest.mark.slow
def test_a_hundred_thousand_queries_over_ten_thousand_regions_take_less_than_two_seconds() -> None:
    rng = np.random.default_rng(53)
    points = rng.normal(0, 1.5, (620_000, 2)).clip(-10, 10)
    result = sl.counts(points, sl.Box((-10, -10), (10, 10)), epsilon=1.0, delta=0.05, k=20, rng=rng)
    assert len(result.partition) >= 10_000
    lower = rng.uniform(-10, 8, (100_000, 2))
    boxes = np.stack([lower, lower + rng.uniform(0.01, 4, lower.shape)], axis=1)
    start = time.process_time()  # other work on the machine does not count
    ends = result.query(boxes).interval()
    took = time.process_time() - start
    assert ends.shape == (100_000, 2)
    assert took < 2.0


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "target"), [(1.0, 0.35), (2.0, 0.20), (3.0, 0.15)])
def test_clustered_range_queries_reach_their_targets(epsilon: float, target: float) -> None:
    """Mean relative error, N = 20,000, k = 20, delta = 0.05, accounting core, 60 runs with a fixed seed."""
    rng = np.random.default_rng(54)
    errors = []
    for _ in range(60):
        points = populations.clusters(20_000, rng)
        queries = populations.uniform_queries(100, rng)
        result = sl.counts(points, populations.UNIT_SQUARE, epsilon=epsilon, delta=0.05, k=20, rng=rng)
        truth = populations.true_counts(points, queries)
        floor = populations.uniform_floor(len(points))
        errors.append(populations.mean_relative_error(result.query(queries).value, truth, floor=floor))
    assert np.mean(errors) <= target
