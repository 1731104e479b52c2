"""Range counts of a pooled tree: exact variances, answers inside their intervals, totals kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.pooled import PooledTask, estimate, replay
from semilocal.protocol.density import Parts
from semilocal.release import pooled, prior
from semilocal.release.pooled_counts import PooledCounts, pooled_counts, run_pooled
from semilocal.release.walk import TreeWalk
from tests.helpers.pooled_variance import variance_of


def counted(dimensions: int, number: int = 4_000, trust: Any = "curator") -> PooledCounts:
    rng = np.random.default_rng(dimensions)
    box = sl.Box((0,) * dimensions, (1,) * dimensions)
    task = PooledTask.build(box, epsilon=2.0, trust=trust, max_depth=20)
    return pooled_counts(run_pooled(task, rng.beta(2, 6, (number, dimensions)), rng=rng))


def _codes(result: PooledCounts) -> dict[str, Any]:
    """Codes of all cells in the run's own hierarchy."""
    levels = result.partition.estimates.tree.levels
    begin, end = result.published.task.hierarchy.span(np.concatenate([level.cells for level in levels]))
    return {"lower": begin, "upper": end + np.uint64(1)}


def weights_of(boxes: Floats, cells: Floats, evenly: bool) -> Floats:
    """Share of every cell in every box: float64[q, m]."""
    sides = np.minimum(boxes[:, None, 1], cells[None, :, 1]) - np.maximum(boxes[:, None, 0], cells[None, :, 0])
    shares = np.prod(np.maximum(sides, 0.0) / (cells[:, 1] - cells[:, 0]), axis=2)
    return np.asarray(shares if evenly else np.floor(shares + 1e-9))


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_variances_of_unions_of_cells_are_exact(dimensions: int) -> None:
    result = counted(dimensions)
    estimates = result.partition.estimates
    hierarchy, cells = result.published.task.hierarchy, result.partition.boxes
    above = np.unique(np.concatenate([level.cells for level in estimates.tree.levels]))
    boxes = hierarchy.boxes(above)
    answers = result.query(boxes)
    weights = weights_of(boxes, cells, evenly=False)
    assert np.allclose(answers.stderr**2, variance_of(estimates, weights), atol=1e-9)
    assert np.allclose(answers.noise, answers.stderr**2, atol=1e-9)  # no cell is cut
    assert np.allclose(answers.value, weights @ estimates.counts)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_variances_of_any_box_are_exact_noise_and_what_cut_cells_add(dimensions: int) -> None:
    """With people who all lie evenly (no clumps, one part per cell) everything can be computed cell by cell."""
    result = counted(dimensions)
    estimates = result.partition.estimates
    cells, tree = result.partition.boxes, result.tree
    every = np.arange(len(cells))
    even = replace(
        tree, parts=Parts(result.partition.cells, every, np.ones(len(every))), clumped=np.zeros(len(tree)),
        hierarchy=result.published.task.hierarchy, **_codes(result),
    )  # fmt: skip
    walk = TreeWalk.of(even)
    boxes = np.sort(np.random.default_rng(9).random((40, 2, dimensions)), axis=1)
    shares = weights_of(boxes, cells, evenly=True)
    found = walk.query(boxes)
    assert np.allclose(found.value, shares @ estimates.counts)
    chance = (shares * (1 - shares)) @ estimates.counts
    assert np.allclose(found.variance, variance_of(estimates, shares) + chance)
    assert np.allclose(found.noise, variance_of(estimates, shares))


@pytest.mark.parametrize("trust", ["curator", "two-servers"])
def test_an_answer_never_lies_outside_its_own_interval(trust: Any) -> None:
    result = counted(2, trust=trust)
    rng = np.random.default_rng(3)
    boxes = np.sort(rng.random((2_000, 2, 2)), axis=1)
    boxes[:500, 1] = boxes[:500, 0] + 1e-4
    answers = result.query(boxes)
    for level in (0.01, 0.5, 0.95, 0.9999):
        low, high = answers.interval(level).T
        assert (low <= answers.value).all()
        assert (answers.value <= high).all()
        assert (low >= 0).all()
        assert (high <= result.total).all()


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
    features = result.to_geojson()["features"]
    assert sum(feature["properties"]["crowd"] for feature in features) == pytest.approx(4_000)


def _held_empty(seed: int) -> tuple[int, int]:
    """A sparse half whose people all live in the south: runs that did not divide it, and how many know that."""
    rng, box, final, held = np.random.default_rng(seed), sl.Box((0, 0), (1, 1)), 0, 0
    for _ in range(150):
        west, east = rng.random((60, 2)) * [0.5, 0.45], rng.random((4_000, 2)) * [0.5, 0.45] + [0.5, 0.0]
        found = sl.counts(np.concatenate([west, east]), box, epsilon=1.0, trust="curator", rng=rng)
        if 2 in found.partition.cells:
            final += 1
            held += int(found.query([[[0.0, 0.5], [0.5, 1.0]]]).interval()[0, 0] == 0)
    return final, held


def test_large_sparse_cells_may_be_as_uneven_as_cells_of_their_size_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody lives in the north. If one in ten misses, more than half of 24 do with a chance below 10^-6.

    Planted: people lie evenly in all final cells, as they do in the small ones of this map.
    """
    final, held = _held_empty(83)
    assert final >= 24
    assert held >= final / 2
    monkeypatch.setattr(pooled, "clumped", lambda found: np.zeros(len(found.counts)))
    final, held = _held_empty(83)
    assert held < final / 2


def test_neighbours_explain_nothing_in_cells_as_wide_as_the_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The west half has no neighbour to the north or south, so what these leave elsewhere says nothing about it."""
    rng = np.random.default_rng(84)
    points = np.concatenate([rng.random((30, 2)) * [0.5, 1.0], rng.random((4_000, 2)) * [0.5, 0.45] + [0.5, 0.0]])
    found = sl.counts(points, sl.Box((0, 0), (1, 1)), epsilon=1.0, trust="curator", rng=rng)
    told = iter([1.0, 0.0])  # without neighbours, and what they leave: nothing
    monkeypatch.setattr(prior, "told_together", lambda *_: next(told))
    west = found.partition.cells == 2
    assert west.sum() == 1
    clumped = found.tree.clumped[found.tree.leaves]
    assert clumped[west].min() > 0.01
    assert clumped[~west].max() == 0.0
