"""Keys name the same cells as the paths of the tree."""

from __future__ import annotations

import numpy as np
import pytest

from semilocal import Box
from semilocal.engines.keys import axis_bits, cells_of_keys, coarser_parts, fits_keys, keys_of_cells, whole_levels
from semilocal.errors import InvalidInput
from semilocal.hierarchy import BinaryTree, Quadtree, SphereTree
from semilocal.hierarchy.dyadic import BoxTree
from tests.helpers.edges import true_keys, whole_levels_of

TREES = [
    tree
    for d in range(1, 9)
    for tree in (BinaryTree(Box((0,) * d, (1,) * d), 47 // d * d), Quadtree(Box((0,) * d, (1,) * d), 47 // d))
]


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_a_key_holds_the_ticks_and_names_one_cell(tree: BoxTree) -> None:
    points = np.random.default_rng(1).random((200, tree.box.dimensions))
    codes, ticks = tree.codes(points), tree.ticks(points)
    for bits in whole_levels_of(tree):
        cells = codes >> np.uint64(tree.path_bits - bits)
        keys = keys_of_cells(tree, cells, bits)
        expected = np.zeros(len(points), dtype=np.int64)
        for axis, width in enumerate(axis_bits(tree, bits)):
            expected = (expected << width) | (ticks[:, axis] >> (tree.tick_bits - width))
        assert keys.tolist() == expected.tolist()
        assert cells_of_keys(tree, keys, bits).tolist() == cells.tolist()


@pytest.mark.parametrize("tree", TREES[::3], ids=str)
def test_a_coarser_key_is_the_key_of_the_cell_above(tree: BoxTree) -> None:
    points = np.random.default_rng(2).random((200, tree.box.dimensions))
    for bits in whole_levels_of(tree)[-2:]:
        for fewer in (level for level in whole_levels_of(tree) if level <= bits):
            keys, found = true_keys(tree, points, bits), np.zeros(len(points), dtype=np.int64)
            for shift, width in coarser_parts(tree, bits, fewer):
                found = (found << width) | ((keys >> shift) & ((1 << width) - 1))
            assert found.tolist() == true_keys(tree, points, fewer).tolist()


def test_bits_that_are_no_whole_levels_of_the_path_are_refused() -> None:
    with pytest.raises(InvalidInput, match="bits must be 0 to 47"):
        axis_bits(TREES[0], 48)
    with pytest.raises(InvalidInput, match="in steps of 2"):
        axis_bits(TREES[2], 11)


def test_only_grids_have_keys() -> None:
    box = Box((0, 0, 0), (1, 1, 1))
    assert fits_keys(BinaryTree(box, 39))
    assert fits_keys(Quadtree(box, 13))
    assert not fits_keys(BinaryTree(box, 40))
    assert not fits_keys(SphereTree(20))
    assert [whole_levels(BinaryTree(box, 39), depth) for depth in (0, 1, 3, 4)] == [0, 3, 3, 6]
    assert [whole_levels(Quadtree(box, 13), depth) for depth in (0, 1, 4)] == [0, 1, 4]
    assert whole_levels(SphereTree(20), 7) == 7
