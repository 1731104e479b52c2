"""The tree of a partition: exact regions, pieces with errors that are right, a prior that is learnt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.protocol.estimate import Walls
from semilocal.protocol.partition import Away, Partition
from semilocal.release import counts
from semilocal.release.public import public_tree
from semilocal.release.tree import CountTree, Halved, clumped, leaning
from semilocal.simulation import synthetic
from semilocal.testing import unit_box
from tests.unit.release.test_walk import random_tree

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


UNIT = sl.Box((0, 0), (1, 1))


def halved(points: Floats, epsilon: float, seed: int) -> tuple[Any, Halved]:
    """Estimates of a curator's run, and its opened cells."""
    found: Any = sl.counts(points, UNIT, epsilon=epsilon, trust="curator", rng=np.random.default_rng(seed))
    return found.partition.estimates, Halved.of(found.partition.estimates)


def test_leaves_along_streets_err_alike_and_even_ones_do_not() -> None:
    """Forty streets along either axis, three runs: 0.52 on average. Planted: siblings that two lines halve."""
    told, planted = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        place, street = rng.random(40), rng.integers(0, 40, 20_000)
        points = np.stack([rng.random(20_000), place[street]], axis=1)
        points = np.where((street < 20)[:, None], points, points[:, ::-1])
        estimates, some = halved(points, 2.0, seed)
        hierarchy = estimates.tree.task.hierarchy
        told.append(leaning(hierarchy, some))
        low, high = hierarchy.boxes(hierarchy.children(some.cells))[:, 0].reshape(len(some.cells), 2, 2).swapaxes(0, 1)
        apart = np.where((low < high).any(axis=1), some.apart, -some.apart)
        one = np.flatnonzero(some.cells[:-1] ^ np.uint64(1) == some.cells[1:])
        planted.append(2.0 * (apart[one] @ apart[one + 1]) / np.sum(apart[one] ** 2 + apart[one + 1] ** 2))
        even, cells = halved(rng.random((20_000, 2)), 2.0, seed)
        rho = clumped(even, cells)[even.counts > 50].max()
        assert leaning(even.tree.task.hierarchy, cells) * rho < 0.02
    assert np.mean(told) > 0.35
    assert np.mean(planted) < 0.25


def test_the_square_of_a_number_that_is_nobody_or_cut_off_at_zero() -> None:
    """Oracle: sums over the law. Planted: the number's square and all of the noise."""
    tree = random_tree(np.random.default_rng(1), unbiased=True)
    places = np.linspace(0.0, 3_000.0, 300_001)
    for row in tree.leaves[:5]:
        error, middle = np.sqrt(tree.noise[row]), tree.plain[row]
        weight = norm.pdf(places, middle, error)
        there = weight @ places / weight.sum()
        chance = min(tree.people[row] / there, 1.0)
        if chance < 1.0:
            assert tree.squares[row] == pytest.approx(chance * (weight @ places**2) / weight.sum(), rel=1e-3)
    few = replace(tree, people=tree.people / 1e3, unbiased=tree.people / 1e3)
    rows = few.leaves[few.noise[few.leaves] > 4 * few.people[few.leaves] ** 2]
    assert len(rows)
    assert (few.squares[rows] < few.people[rows] ** 2 + few.noise[rows]).all()


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_people_of_regions_lean_towards_crowded_neighbours(epsilon: float) -> None:
    """Squared errors of pieces about the sloping numbers are 0.59 to 0.8 of those about the planted others."""
    errors = []
    for seed in range(3):
        points, run = played("clusters", 20 + seed, epsilon)
        tree = public_tree(run.partition)
        people, leaves = truth(tree, points), tree.leaves
        assert tree.plain[leaves].sum() == pytest.approx(tree.total)
        assert (tree.plain >= 0).all()
        errors.append([np.sum((number - people)[leaves] ** 2) for number in (tree.plain, tree.people)])
    sloping, planted = np.sum(errors, axis=0)
    assert sloping < 0.9 * planted


def test_a_region_nobody_was_asked_about_slopes_nowhere() -> None:
    points = np.random.default_rng(1).random((60, 2))
    run = sl.simulate(points, sl.Task.build(unit_box(2), epsilon=1.0, k=20), rng=np.random.default_rng(2))
    tree = public_tree(run.partition)
    regions = slice(int(tree.first[0]), int(tree.first[1]))
    assert tree.plain[regions] == pytest.approx(tree.people[regions])
