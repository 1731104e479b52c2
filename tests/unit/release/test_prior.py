"""What is learnt about people inside leaves: how uneven they are, which leaves err alike, where regions slope."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.release.prior import Halved, clumped, leaning
from semilocal.release.public import public_tree
from semilocal.testing import unit_box
from tests.unit.release.test_public import played, truth
from tests.unit.release.test_tree import random_tree

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
