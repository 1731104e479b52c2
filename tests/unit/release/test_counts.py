"""Range counts: exact where the transcript is exact, consistent, fast, and honest about the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import semilocal as sl
from semilocal.errors import InvalidInput
from semilocal.lab.baselines.boxes import mean_relative_error
from semilocal.lab.experiments import trials
from semilocal.lab.index import count_points
from semilocal.release import counts
from semilocal.release.answers import CountAnswers
from semilocal.simulation import synthetic
from semilocal.testing import secrets_of, unit_box
from tests.helpers.release_runs import crowded, run_of

Floats = npt.NDArray[np.float64]


def whole(box: sl.Box) -> Floats:
    return np.array([[box.lower, box.upper]])


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"rule": "all"}, {"max_rounds": 3}, {"tree": "quad", "max_depth": 6}])
def test_the_whole_domain_holds_everybody_exactly(dimensions: int, options: dict[str, Any]) -> None:
    points, run = run_of(dimensions, seed=40, **options)
    result = counts(run)
    answer = result.query(whole(run.task.box))
    assert result.total == len(points)
    assert answer.value[0] == pytest.approx(len(points), abs=1e-6)
    assert answer.stderr[0] == 0
    assert answer.interval()[0] == pytest.approx([len(points), len(points)], abs=1e-6)


def test_after_dropouts_the_whole_domain_holds_who_announced() -> None:
    rng = np.random.default_rng(41)
    points = crowded(400, 2, rng)
    task = sl.Task.build(unit_box(2), epsilon=2.0, delta=0.05, k=20)
    run = sl.simulate(points, task, rng=rng, secrets=secrets_of(400), dropout=0.03)
    assert counts(run).query(whole(run.task.box)).value[0] == pytest.approx(run.partition.people, abs=1e-6)


@pytest.mark.parametrize("dimensions", [1, 2])
def test_unions_of_regions_are_exact(dimensions: int) -> None:
    """Boxes that some regions fill: with rule "all" regions are cells."""
    rng = np.random.default_rng(42)
    points = rng.random((4_000, dimensions))
    run = sl.simulate(points, sl.Task.build(unit_box(dimensions), epsilon=2.0, delta=0.05, k=20, rule="all"), rng=rng)
    boxes = run.partition.boxes
    answers = counts(run).query(boxes)
    assert len(boxes) > 10
    closed = np.where(boxes[:, 1] == 1.0, np.inf, boxes[:, 1])  # the upper edge of the domain is inside
    truth = count_points(points, np.stack([boxes[:, 0], closed], axis=1))
    assert answers.value == pytest.approx(truth, abs=1e-6)
    assert (answers.stderr == 0).all()
    assert counts(run).interval().tolist() == [[crowd, crowd] for crowd in run.partition.crowds.tolist()]


def test_a_partition_is_enough() -> None:
    """What a transcript gives has the same answers as the run that made it."""
    _, run = run_of(2, seed=57)
    public = replace(run.partition, mark=None)
    boxes = [[[0.1, 0.2], [0.3, 0.9]], [[0.0, 0.0], [0.4, 0.4]]]
    ours, theirs = counts(run).query(boxes), counts(public).query(boxes)
    assert np.array_equal(ours.value, theirs.value)
    assert np.array_equal(ours.interval(), theirs.interval())
    assert counts(run).simulated
    assert not counts(public).simulated


def test_an_exact_answer_that_is_off_by_a_rounding_error_has_the_number_of_people_in_its_interval() -> None:
    """Parts of a sum are fractions of people. Planted: the sum itself as both ends, which misses the number."""
    value, none = np.array([2045 + 5e-13, 2045 - 5e-13]), np.zeros(2)
    low, high = CountAnswers(value, none, plain=value, most=np.full(2, 20_000.0), noise=none).interval().T
    assert ((low <= 2045) & (high >= 2045) & (high - low < 1e-9)).all()
    assert not (value == 2045).any()


@pytest.mark.parametrize(
    "wrong", [[[0, 0], [1, 1]], [[[0, 0, 0], [1, 1, 1]]], [[[0.5, 0.5], [0.1, 0.9]]], [[[np.nan, 0], [1, 1]]], "box"]
)
def test_what_is_no_box_is_refused(wrong: Any) -> None:
    _, run = run_of(2, seed=52)
    with pytest.raises(InvalidInput):
        counts(run).query(wrong)


@pytest.mark.slow
def test_clustered_range_queries_get_better_with_epsilon_and_beat_the_answer_nobody() -> None:
    """Mean relative error, N = 20,000, k = 20, delta = 0.05, 10 runs: about 0.8, 0.4 and 0.3 with a spread of 0.3.

    The queries of the paper's clusters mostly ask about gaps, where a relative error is large. "0" has an error of 1
    wherever anybody is. Six standard errors of ten runs, 0.6, lie between neighbours' limits (chance 1e-8).
    """
    rng = np.random.default_rng(54)
    means = []
    for epsilon in (1.0, 4.0):
        errors, zeros = [], []
        for _ in range(10):
            points = synthetic.clusters(20_000, rng)
            queries = trials.uniform_queries(100, rng)
            result = sl.counts(
                points, synthetic.UNIT_SQUARE, epsilon=epsilon, trust="nobody", delta=0.05, k=20, rng=rng
            )
            truth, floor = count_points(points, queries), trials.uniform_floor(len(points))
            errors.append(mean_relative_error(result.query(queries).value, truth, floor=floor))
            zeros.append(mean_relative_error(np.zeros(len(truth)), truth, floor=floor))
        means.append(np.mean(errors) / np.mean(zeros))
    assert means[1] < 0.6
    assert means[1] < means[0] < 1.5
