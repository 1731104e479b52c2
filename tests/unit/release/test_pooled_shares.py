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
from semilocal.release._halved import Halved
from semilocal.release._lattice import NOT_ROUNDED
from semilocal.release.spread import Spread
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

    def even(estimates: Estimates, *_: object) -> Spread:
        return Spread(np.full(len(estimates.counts), 0.5))

    monkeypatch.setattr(pooled, "_uneven", even)
    final, held = held_empty(TREES[tree], 83)
    assert held < 10


def test_halves_of_unequal_areas_teach_how_far_people_are_from_lying_evenly_by_area() -> None:
    """Thirds and two thirds. Planted: halves of the people, which even people would have in halves of the area."""
    tree = tables.from_cuts("x", [[0, 1, 3], [0, 1, 1.5, 3]])
    cells, people, noise = np.array([1, 3], dtype=np.uint64), np.array([90.0, 60.0]), np.array([4.0, 9.0])
    third = np.array([1 / 3, 1 / 4])
    for first, expected in ((third, 0.0), (np.array([0.5, 0.5]), (0.5 - third) ** 2 / (third * (1 - third)))):
        found = Halved(cells, people, np.stack([first, 1 - first], axis=1) * people[:, None], noise).by_area(tree)
        share = found.children / people[:, None]
        assert share.sum(axis=1) == pytest.approx(np.ones(2))
        assert (share[:, 0] - 0.5) ** 2 / 0.25 == pytest.approx(expected * np.ones(2))
        assert found.noise == pytest.approx(noise / (4 * third * (1 - third)))


def test_halves_of_equal_areas_teach_what_they_are() -> None:
    for tree in (LABELS, sl.BinaryTree(sl.Box((0, 0), (1, 1)), 8)):
        some = Halved(np.array([1], dtype=np.uint64), np.array([9.0]), np.array([[2.0, 7.0]]), np.array([3.0]))
        found = some.by_area(tree)
        assert found.children.tolist() == some.children.tolist()
        assert found.noise.tolist() == some.noise.tolist()
