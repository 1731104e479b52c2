"""Inside pieces people are denser beside crowds; every piece keeps its people."""

from __future__ import annotations

import numpy as np
import pytest

import semilocal as sl
from semilocal.hierarchy import tables
from semilocal.hierarchy.base import Hierarchy
from semilocal.protocol.estimate import Pieces, Walls, estimate, parts_of

TREES: dict[str, Hierarchy] = {
    "line": sl.BinaryTree(sl.Box((0,), (1,)), 12),
    "plane": sl.BinaryTree(sl.Box((0, 0), (1, 1)), 16),
    "quad": sl.Quadtree(sl.Box((0, 0), (1, 1)), 8),
    "sphere": sl.SphereTree(20),
    "labels": tables.from_cuts("code", [range(65)]),
}


def pieces(tree: Hierarchy, cuts: list[float], share: list[float]) -> Pieces:
    """One region, the whole domain, with these cuts (as shares of the order) and people."""
    low, high = tree.ends
    codes = np.array([low + int((high - low) * cut) for cut in cuts], dtype=np.uint64)
    none = np.zeros(len(codes), dtype=np.int64)
    walls = Walls(np.array([0, len(codes)]), codes, none, none)
    found = estimate(np.array([low], dtype=np.uint64), np.array([high], dtype=np.uint64), walls, 0.75)
    return found._replace(share=np.array(share))


@pytest.mark.parametrize("name", TREES)
def test_parts_are_cells_that_fill_the_pieces_and_keep_their_people(name: str) -> None:
    tree = TREES[name]
    given = pieces(tree, [0.25, 0.4, 0.77], [0.1, 0.6, 0.3, 0.0])
    found = parts_of(tree, given, np.array([1_000.0]))
    first, last = tree.span(found.cells)
    low, high = tree.ends
    assert first[0] == low
    assert np.array_equal(first[1:], last[:-1] + np.uint64(1))
    assert last[-1] + np.uint64(1) == high
    assert ((first >= given.lower[found.piece]) & (last < given.upper[found.piece])).all()
    assert np.bincount(found.piece, found.share) == pytest.approx(np.ones(4))
    assert (found.share >= 0).all()


def test_people_are_denser_beside_a_crowd() -> None:
    """A sparse half beside a crowded one. Planted: an even density, and people on the far side."""
    tree = TREES["line"]
    found = parts_of(tree, pieces(tree, [0.5], [0.95, 0.05]), np.array([1_000.0]))
    sparse = found.share[found.piece == 1]
    assert len(sparse) == 4
    assert sparse[0] > 0.4
    assert (np.diff(sparse) <= 1e-12).all()
