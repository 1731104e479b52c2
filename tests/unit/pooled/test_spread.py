"""Spreading inside final cells keeps every cell's count and follows the neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from semilocal import Box
from semilocal.hierarchy import BinaryTree
from semilocal.pooled import spread_inside


def grid(tree: BinaryTree, depth: int) -> np.ndarray:
    return np.arange(1 << depth, 2 << depth, dtype=np.uint64)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_every_cell_keeps_its_count(dimensions: int) -> None:
    tree = BinaryTree(Box((0,) * dimensions, (1,) * dimensions), 6)
    cells = grid(tree, 6)
    counts = np.random.default_rng(1).exponential(5, len(cells)) * (np.arange(len(cells)) % 3 > 0)
    deeper, parts, shares = spread_inside(tree, cells, counts)
    assert deeper.max_depth == 8
    assert (shares >= 0).all()
    np.testing.assert_allclose(np.bincount((parts >> np.uint64(2)).astype(int))[cells], 4)
    np.testing.assert_allclose(shares.reshape(-1, 4).sum(axis=1), counts, atol=1e-12)


def test_an_even_map_stays_even() -> None:
    tree = BinaryTree(Box((0, 0), (1, 1)), 6)
    shares = spread_inside(tree, grid(tree, 6), np.full(64, 8.0))[2]
    np.testing.assert_allclose(shares, 2.0)


def test_an_exponential_slope_is_followed() -> None:
    tree = BinaryTree(Box((0,), (1,)), 5)
    counts = np.exp2(np.arange(32.0))
    halves = spread_inside(tree, grid(tree, 5), counts, halvings=1)[2].reshape(-1, 2)
    ratio = halves[4:-4, 1] / halves[4:-4, 0]
    np.testing.assert_allclose(ratio, 2**0.5)


def test_cells_too_narrow_for_floats_stay_whole() -> None:
    tree = BinaryTree(Box((1e6,), (1e6 + 1e-6,)), 10)
    same = spread_inside(tree, grid(tree, 10), np.ones(1024), halvings=40)
    assert same[0] is tree
    assert len(same[2]) == 1024
