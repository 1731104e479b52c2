"""Range counts: exact where the transcript is exact, consistent, fast, and honest about the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.errors import InvalidInput
from semilocal.lab.baselines.boxes import count_points
from semilocal.pooled import PooledTask
from semilocal.release import counts
from semilocal.release.answers import CountAnswers
from semilocal.release.counts import pooled_counts, run_pooled
from semilocal.testing import secrets_of, unit_box
from tests.helpers.pooled_variance import variance_of
from tests.helpers.release_runs import crowded, run_of


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


def counted(dimensions: int, number: int = 4_000, trust: Any = "curator") -> Any:
    rng = np.random.default_rng(dimensions)
    box = sl.Box((0,) * dimensions, (1,) * dimensions)
    task = PooledTask.build(box, epsilon=2.0, trust=trust, max_depth=20)
    return pooled_counts(run_pooled(task, rng.beta(2, 6, (number, dimensions)), rng=rng))


def weights_of(boxes: Floats, cells: Floats) -> Floats:
    """Whether every box holds every cell: float64[q, m]."""
    sides = np.minimum(boxes[:, None, 1], cells[None, :, 1]) - np.maximum(boxes[:, None, 0], cells[None, :, 0])
    shares = np.prod(np.maximum(sides, 0.0) / (cells[:, 1] - cells[:, 0]), axis=2)
    return np.asarray(np.floor(shares + 1e-9))


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_variances_of_unions_of_cells_are_exact(dimensions: int) -> None:
    result = counted(dimensions)
    estimates = result.partition.estimates
    hierarchy, cells = result.published.task.hierarchy, result.partition.boxes
    above = np.unique(np.concatenate([level.cells for level in estimates.tree.levels]))
    boxes = hierarchy.boxes(above)
    answers = result.query(boxes)
    weights = weights_of(boxes, cells)
    assert np.allclose(answers.stderr**2, variance_of(estimates, weights), atol=1e-9)
    assert np.allclose(answers.noise, answers.stderr**2, atol=1e-9)  # no cell is cut
    assert np.allclose(answers.value, weights @ estimates.counts)


def test_totals_are_kept_and_nothing_is_negative() -> None:
    result = counted(2)
    assert result.query([[[0, 0], [1, 1]]]).interval().tolist() == [[4_000, 4_000]]
    assert result.density((7, 5)).sum() == pytest.approx(4_000)
    assert result.density((64, 64)).min() >= 0
    assert result.answer([[[2, 2], [3, 3]]]).value.tolist() == [0]
    assert result.query([[[-np.inf, -np.inf], [np.inf, np.inf]]]).value[0] == pytest.approx(4_000)


def test_a_crowd_too_small_to_divide_is_one_cell() -> None:
    task = PooledTask.build(sl.Box((0,), (1,)), epsilon=0.1, trust="curator")
    result = pooled_counts(run_pooled(task, np.array([[0.5]]), rng=np.random.default_rng(1)))
    assert len(result.partition) == 1
    assert result.query([[[0.0], [0.5]]]).value.tolist() == [0.5]
    nobody = pooled_counts(run_pooled(task, np.empty((0, 1)), rng=np.random.default_rng(1)))
    assert nobody.query([[[0.0], [0.5]]]).interval().tolist() == [[0, 0]]
