"""The tree of a partition: exact regions, pieces with errors that are right, a prior that is learnt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.protocol.estimate import Walls
from semilocal.protocol.partition import Away, Partition
from semilocal.release import counts
from semilocal.release.public import public_tree
from semilocal.release.tree import CountTree
from semilocal.simulation import synthetic
from semilocal.testing import unit_box

PLACES: dict[str, Callable[[np.random.Generator], Floats]] = {
    "uniform": lambda rng: rng.random((20_000, 2)),
    "clusters": lambda rng: synthetic.clusters(20_000, rng),
}


def played(name: str, seed: int, epsilon: float = 1.0) -> tuple[Floats, sl.Run]:
    rng = np.random.default_rng(seed)
    points = PLACES[name](rng)
    return points, sl.simulate(points, sl.Task.build(unit_box(2), epsilon=epsilon, delta=0.05, k=20), rng=rng)


def truth(tree: CountTree, points: Floats) -> Floats:
    codes = np.sort(tree.hierarchy.codes(points))
    found = np.searchsorted(codes, tree.upper) - np.searchsorted(codes, tree.lower)
    return np.asarray(found, dtype=np.float64)


def test_numbers_add_up_and_regions_are_exact() -> None:
    points, run = played("clusters", 1)
    tree = public_tree(run.partition)
    inner = np.flatnonzero(np.diff(tree.first))
    for row in inner:
        below = slice(tree.first[row], tree.first[row + 1])
        assert tree.people[below].sum() == pytest.approx(tree.people[row])
        assert tree.weight[below].sum() == pytest.approx(1.0)
        assert tree.rest[below].sum() == pytest.approx(1.0)
        assert tree.lower[below][0] == tree.lower[row]
        assert tree.upper[below][-1] == tree.upper[row]
    assert (tree.people >= 0).all()
    assert tree.total == len(points)
    assert (tree.error[: tree.first[1]] == 0).all()


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_errors_of_pieces_are_as_large_as_they_say(name: str, epsilon: float) -> None:
    """Squared errors of pieces over their variances, four runs: 1 within a factor of 2, as a mean that few large ones
    do not rule (squares above 16 count as 16).

    Planted: standard errors of half the size.
    """
    squares, planted = [], []
    for seed in range(4):
        points, run = played(name, 10 + seed, epsilon)
        tree = public_tree(run.partition)
        rows = tree.leaves[(tree.noise[tree.leaves] > 0.25) & (tree.level[tree.leaves] > 1)]
        away = (tree.people - truth(tree, points))[rows] ** 2
        squares.append(np.minimum(away / tree.noise[rows], 16.0))
        planted.append(np.minimum(away / (tree.noise[rows] / 4), 16.0))
    assert 0.5 < np.concatenate(squares).mean() < 2.0
    assert np.concatenate(planted).mean() > 1.9


def test_people_who_announced_no_side_are_counted_between_the_regions_of_their_last_one() -> None:
    _, run = played("uniform", 2)
    partition = run.partition
    low, high = partition.task.hierarchy.ends
    away = Away(np.array([low], dtype=np.uint64), np.array([high], dtype=np.uint64), np.array([500]))
    found = counts(replace(partition, away=away))
    assert found.total == 20_500
    assert found.query([[[0, 0], [1, 1]]]).value[0] == pytest.approx(20_500)
    half = found.query([[[0, 0], [0.5, 1]]])
    assert half.value[0] > counts(partition).query([[[0, 0], [0.5, 1]]]).value[0] + 150
    assert half.stderr[0] > 10
    assert (found.interval()[:, 1] >= partition.crowds).all()


def test_a_region_with_nobody_has_nobody() -> None:
    task = sl.Task.build(unit_box(1), epsilon=1.0)
    low, high = (np.array([code], dtype=np.uint64) for code in task.hierarchy.ends)
    nobody = np.zeros(1, dtype=np.int64)
    found = counts(Partition(task, low, high, nobody, nobody, Walls.none(1), Away.nobody()))
    answer = found.query([[[0.0], [0.5]]])
    assert answer.interval().tolist() == [[0, 0]]
