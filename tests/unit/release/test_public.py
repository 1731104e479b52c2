"""The tree of a partition: exact regions, pieces with errors that are right, a prior that is learnt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.protocol import clip
from semilocal.protocol.clip import STRENGTHS, learn_strength
from semilocal.protocol.estimate import Walls, estimate
from semilocal.protocol.partition import Away, Partition
from semilocal.release import counts
from semilocal.release.public import pieces_of, public_tree
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


def test_smooth_people_teach_a_strong_prior_and_clumps_a_weak_one() -> None:
    """Strengths of four runs each; the ranges do not meet. Planted: one strength for all."""
    found = {name: [pieces_of(played(name, seed)[1].partition)[1] for seed in range(4)] for name in PLACES}
    assert min(found["uniform"]) >= 32
    assert max(found["clusters"]) <= 16
    places = np.random.default_rng(0).random((40, 2))  # everybody in one of forty places
    run = sl.simulate(
        np.repeat(places, 500, axis=0), sl.Task.build(unit_box(2), epsilon=1.0, delta=0.05, k=20),
        rng=np.random.default_rng(1),
    )  # fmt: skip
    assert pieces_of(run.partition)[1] <= 2


def test_evidence_is_the_marginal_likelihood_up_to_a_constant() -> None:
    """One wall: the integral over the share above it is one-dimensional. Oracle: a fine sum of it."""
    low, high = np.array([0], dtype=np.uint64), np.array([8], dtype=np.uint64)
    walls = Walls(np.array([0, 1]), np.array([2], dtype=np.uint64), np.array([300]), np.array([160]))
    p, share = 0.75, (np.arange(20_000) + 0.5) / 20_000
    says = 1 - p + (2 * p - 1) * share
    likelihood = np.exp(160 * np.log(says / 0.5) + 140 * np.log((1 - says) / 0.5))
    approximate, exact = [], []
    for number in (4.0, 16.0, 64.0):
        prior = share ** (0.75 * number - 1) * (1 - share) ** (0.25 * number - 1)
        exact.append(np.log((likelihood * prior).sum() / prior.sum()))
        pieces = estimate(low, high, walls, p, prior=number)
        approximate.append(clip._evidence(pieces, walls, p, number))
    assert np.diff(approximate) == pytest.approx(np.diff(exact), abs=0.15)


def test_without_walls_all_divisions_are_equally_likely() -> None:
    one = np.array([0], dtype=np.uint64), np.array([8], dtype=np.uint64)
    assert learn_strength(*one, Walls.none(1), 0.75) == 1.0
    assert 1.0 in STRENGTHS


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
