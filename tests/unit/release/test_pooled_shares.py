"""Pooled trees whose cells are no halved boxes: how unevenly people lie in final cells."""

from __future__ import annotations

import numpy as np
import pytest

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.hierarchy import tables
from semilocal.hierarchy.base import Hierarchy
from semilocal.pooled.estimate import Estimates
from semilocal.release import pooled
from semilocal.release._lattice import NOT_ROUNDED
from semilocal.release.prior import Halved
from semilocal.release.tree import Taken

LABELS = tables.in_twos(tables.from_intervals("code", [(f"c{code}", code, code + 1) for code in range(256)]))
TREES: dict[str, Hierarchy] = {"labels": LABELS, "sphere": sl.SphereTree(30)}


def evenly(tree: Hierarchy, cell: int, number: int, rng: np.random.Generator) -> Floats:
    """People anywhere in a cell."""
    return tree.places(np.full(number, cell, dtype=np.uint64), rng.random((number, tree.box.dimensions)))


def held_empty(tree: Hierarchy, seed: int) -> tuple[int, int]:
    """A sparse half whose people all live in its first half: runs that did not divide it, and how many know that."""
    rng, final, held = np.random.default_rng(seed), 0, 0
    for _ in range(120):
        points = np.concatenate([evenly(tree, 4, 60, rng), evenly(tree, 6, 4_000, rng)])
        found = sl.counts(points, hierarchy=tree, epsilon=1.0, trust="curator", rng=rng)
        if 2 in found.partition.cells:
            leaf = found.tree.leaves[found.partition.cells == 2]
            half = Taken(np.zeros(1, dtype=np.int64), leaf, np.full(1, 0.5))
            walk = found._walk(NOT_ROUNDED)
            final += 1
            held += int(found._answers(walk._answers(walk._counted(np.zeros(1), half, 1))).interval()[0, 0] == 0)
    return final, held


@pytest.mark.parametrize("tree", TREES)
def test_large_sparse_cells_may_be_as_uneven_as_cells_of_their_size_are(
    tree: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody lives in the other half. If two of three runs know that, fewer than 10 of 38 do with a chance below 10^-6.

    Planted: people lie evenly in all final cells, as they do in the small ones of this map.
    """
    final, held = held_empty(TREES[tree], 83)
    assert final >= 38
    assert held >= 10

    def even(estimates: Estimates) -> Floats:
        return np.zeros(len(estimates.counts))

    monkeypatch.setattr(pooled, "clumped", even)
    final, held = held_empty(TREES[tree], 83)
    assert held < 10


def test_halves_of_unequal_areas_teach_how_far_people_are_from_lying_evenly_by_area() -> None:
    """Thirds and two thirds, everybody in one place or lying evenly. Planted: halves are expected of all."""
    tree = tables.from_cuts("x", [[0, 1, 3], [0, 1, 1.5, 3]])
    cells, size, nothing = np.array([1, 3], dtype=np.uint64), np.array([90.0, 60.0]), np.zeros(2)
    area, last = np.array([1 / 3, 1 / 4]), np.ones(2, dtype=bool)
    squares = area * (1 - area)
    chance = Halved(cells, size, nothing, 2 * (size * (area - 0.5) + np.sqrt(size * squares)), nothing, last)
    assert chance.uneven(tree)[0] == pytest.approx(np.zeros(2))
    together = area * (1 - area) ** 2 + (1 - area) * area**2  # mean square of what one place is away
    one_place = chance._replace(difference=2 * (size * (area - 0.5) + size * np.sqrt(together)))
    assert one_place.uneven(tree)[0] == pytest.approx(np.ones(2))
    assert (chance.uneven(tree, np.full(2, 0.5))[0] > 0.05).any()


def test_halves_of_equal_areas_are_expected_to_be_even() -> None:
    for tree in (LABELS, sl.BinaryTree(sl.Box((0, 0), (1, 1)), 8)):
        one = np.ones(1)
        some = Halved(np.array([1], dtype=np.uint64), 9 * one, one, -5 * one, 3 * one, one > 0)
        (found,), (error,) = some.uneven(tree)
        assert found == pytest.approx((2.5**2 - 3 - 9 / 4) / (9 * 8 / 4))
        assert error == pytest.approx(3 / 81)
