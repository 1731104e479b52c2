"""Range counts of a pooled tree: exact variances, answers inside their intervals, totals kept."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.pooled import PooledTask, estimate, replay
from semilocal.release.counts import pooled_counts, run_pooled
from tests.helpers.pooled_variance import variance_of


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


def test_the_map_of_a_transcript_is_that_of_its_estimates() -> None:
    result = counted(2)
    estimates = estimate(replay(result.published))
    table = result.to_table()
    assert np.array_equal(table["crowd"], estimates.counts)
    assert np.allclose(table["stderr"] ** 2, estimates.variances)
    rows = [feature["properties"] for feature in result.to_geojson()["features"]]
    rounding = sum(0.5 * 10.0 ** min(0, math.floor(math.log10(row["stderr"])) - 1) for row in rows)  # to known digits
    assert sum(row["crowd"] for row in rows) == pytest.approx(4_000, abs=rounding)
    assert [row["crowd"] for row in rows] == pytest.approx(estimates.counts, abs=0.5)
