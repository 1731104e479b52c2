"""Keys name the same cells as the paths of the tree."""

from __future__ import annotations

import numpy as np
import pytest

from semilocal import Box
from semilocal.engines.keys import axis_bits, cells_of_keys, coarser_parts, keys_of_cells
from semilocal.errors import InvalidInput
from semilocal.hierarchy.dyadic import BinaryTree, BoxTree, Quadtree
from tests.helpers.edges import true_keys

TREES = [
    tree
    for d in range(1, 9)
    for tree in (BinaryTree(Box((0,) * d, (1,) * d), 47), Quadtree(Box((0,) * d, (1,) * d), max(47 // d, 1)))
]


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_a_key_holds_the_ticks_and_names_one_cell(tree: BoxTree) -> None:
    points = np.random.default_rng(1).random((200, tree.box.dimensions))
    codes, ticks = tree.codes(points), tree.ticks(points)
    for bits in (0, 1, tree.path_bits // 2, tree.path_bits):
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
    for bits in (tree.path_bits, tree.path_bits - 1):
        for fewer in (0, 1, bits // 2, bits):
            keys, found = true_keys(tree, points, bits), np.zeros(len(points), dtype=np.int64)
            for shift, width in coarser_parts(tree, bits, fewer):
                found = (found << width) | ((keys >> shift) & ((1 << width) - 1))
            assert found.tolist() == true_keys(tree, points, fewer).tolist()


def test_more_bits_than_the_path_has_are_refused() -> None:
    with pytest.raises(InvalidInput, match="bits must be 0 to 47"):
        axis_bits(TREES[0], 48)
