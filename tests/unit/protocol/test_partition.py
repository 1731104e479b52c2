"""What a partition promises: it covers the domain, places every point, and says the same in every form."""

from __future__ import annotations

from functools import cache
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pytest

from semilocal import Box, Run, Task, simulate

mpl.use("Agg")
Floats = npt.NDArray[np.float64]

BOX = Box((-10, -5), (10, 5), names=("longitude", "latitude"))


def shape(box: Box, size: int, seed: int) -> Floats:
    """A dense blob, a few strays and points on the edges of cells."""
    rng = np.random.default_rng(seed)
    low, high = np.array(box.lower), np.array(box.upper)
    blob = low + (high - low) * rng.normal(0.3, 0.05, (size, box.dimensions))
    strays = low + (high - low) * rng.random((size // 50, box.dimensions))
    edges = low + (high - low) * rng.integers(0, 9, (size // 50, box.dimensions)) / 8
    return box.clip(np.concatenate([blob, strays, edges])).points


@cache
def run_of(d: int, seed: int = 1, **options: Any) -> tuple[Run, Floats]:
    box = BOX if d == 2 else Box((0,) * d, (1,) * d)
    task = Task.build(box, **{"epsilon": 2.0, "delta": 0.05, "k": 20, **options})
    points = shape(box, 3000, seed)
    return simulate(points, task, rng=np.random.default_rng(seed)), points


KINDS: dict[str, dict[str, Any]] = {"cut": {}, "cut, 4": {"epsilon": 4.0}, "all": {"rule": "all"}}
every = pytest.mark.parametrize("kind", KINDS)


@every
@pytest.mark.parametrize("d", [1, 2, 3])
def test_regions_tile_the_domain(kind: str, d: int) -> None:
    """Intervals of codes, exact in integers: nothing is covered twice and nothing left out."""
    run, points = run_of(d, **KINDS[kind])
    partition = run.partition
    lower, upper = run.task.hierarchy.ends
    assert (int(partition.lower[0]), int(partition.upper[-1])) == (lower, upper)
    assert (partition.lower[1:] == partition.upper[:-1]).all()
    assert (partition.lower < partition.upper).all()
    assert len(partition) > 3 or kind == "all"
    assert partition.people == partition.crowds.sum() == len(points)
    assert (
        partition.areas.sum() == pytest.approx(np.prod(np.subtract(run.task.box.upper, run.task.box.lower))) or d == 2
    )


@every
@pytest.mark.parametrize("d", [1, 2, 3])
def test_every_point_is_in_its_region_and_members_are_counted(kind: str, d: int) -> None:
    run, points = run_of(d, **KINDS[kind])
    partition, where = run.partition, run.partition.locate(points)
    assert np.array_equal(run.regions, where)
    codes = run.task.hierarchy.codes(points)
    assert ((partition.lower[where] <= codes) & (codes < partition.upper[where])).all()
    assert (np.bincount(where, minlength=len(partition)) == partition.crowds).all()
    boxes = partition.boxes[where]
    assert ((points >= boxes[:, 0]) & (points <= boxes[:, 1])).all()


@every
def test_pieces_are_the_regions_cut_at_their_walls(kind: str) -> None:
    partition = run_of(2, **KINDS[kind])[0].partition
    pieces, walls = partition.pieces, partition.walls
    assert (np.diff(pieces.first) == np.diff(walls.first) + 1).all() or kind == "all"
    assert (pieces.lower[pieces.first[:-1]] == partition.lower).all()
    assert (pieces.upper[pieces.first[1:] - 1] == partition.upper).all()
    assert np.add.reduceat(pieces.share, pieces.first[:-1]) == pytest.approx(np.ones(len(partition)))
    if kind != "all":
        assert len(walls.cuts) > len(partition) / 2
        assert (walls.yes <= walls.asked).all()
        assert walls.asked.sum() <= run_of(2, **KINDS[kind])[0].task.answers * partition.people
