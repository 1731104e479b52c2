"""Cells that boxes cut on one side only: looked up, they give what the walk through all cells below gives."""

from __future__ import annotations

import numpy as np
import pytest

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.pooled import PooledTask, estimate
from semilocal.pooled.estimate import Estimates
from semilocal.release._lattice import Lattice
from semilocal.release._pooled_walk import PooledWalk
from semilocal.release._walk import Counted
from semilocal.release.pooled_counts import run_pooled


def estimates_of(dimensions: int, people: int) -> Estimates:
    rng = np.random.default_rng(dimensions)
    task = PooledTask.build(sl.Box((-1,) * dimensions, (2,) * dimensions), epsilon=2.0, trust="curator", max_depth=24)
    return estimate(run_pooled(task, 3 * rng.beta(2, 6, (people, dimensions)) - 1, rng=rng).tree)


def boxes_of(walk: PooledWalk, number: int) -> Floats:
    """Boxes of all sizes: some with sides on edges of cells, some beyond the domain, some empty, some unbounded."""
    rng, dimensions = np.random.default_rng(number), len(walk.lower)
    boxes = np.sort(rng.uniform(-1.2, 2.2, (number, 2, dimensions)), axis=1)
    boxes[1::4, 1] = boxes[1::4, 0] + rng.uniform(0, 0.05, boxes[1::4, 0].shape)
    edges = rng.choice(walk.lower.shape[1], (number, dimensions))
    boxes[2::4, 0] = np.take_along_axis(walk.lower.T, edges, axis=0)[2::4]
    boxes[2::4, 1] = np.maximum(boxes[2::4, 1], boxes[2::4, 0])
    boxes[3::8, 0, 0] = -np.inf
    boxes[5::8, 1] = boxes[5::8, 0]
    return boxes


# Steps finer than the cells: floats cannot tell places inside narrower ones to 12 digits, either way.
@pytest.mark.parametrize(("dimensions", "step"), [(1, None), (1, 1e-5), (2, None), (2, 0.01), (3, None), (3, 0.01)])
def test_many_boxes_get_the_answers_that_few_get(dimensions: int, step: float | None) -> None:
    estimates = estimates_of(dimensions, 6_000)
    lattice = Lattice.of(step, estimates.tree.task.box)
    walk, slow = PooledWalk.of(estimates).on(lattice), PooledWalk.of(estimates).on(lattice)
    asked = lattice.measure(boxes_of(PooledWalk.of(estimates), max(4_000, 2 * len(walk.below))))
    quick = walk.query(asked)
    few = [slow.query(some) for some in np.array_split(asked, 8)]
    assert "strips" in walk.__dict__
    assert "strips" not in slow.__dict__
    for name in Counted._fields:
        found, expected = getattr(quick, name), np.concatenate([getattr(some, name) for some in few])
        assert np.abs(found - expected).max() <= 1e-12 * expected.max()
    assert (quick.value >= 0).all()


def test_a_tree_of_one_cell_is_looked_up_too() -> None:
    walk = PooledWalk.of(estimates_of(2, 1))
    assert len(walk.below) == 1
    asked = boxes_of(walk, 3_000)
    few = np.concatenate([walk.query(some).value for some in np.array_split(asked, 30)])
    assert np.allclose(walk.query(asked).value, few, rtol=0, atol=1e-12)
