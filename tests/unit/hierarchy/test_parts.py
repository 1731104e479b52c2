"""A part of a box tree, as a tree of its own, has the cells of the whole one."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from semilocal import Box
from semilocal.errors import InvalidInput
from semilocal.hierarchy import BinaryTree


@pytest.mark.parametrize("dimensions", range(1, 6))
@pytest.mark.parametrize("levels", [1, 2, 3])
def test_paths_in_a_part_go_on_where_that_of_its_cell_ends(dimensions: int, levels: int) -> None:
    """Planted: the same part without its turn, which gives other cells."""
    rng, depth, differ = np.random.default_rng(dimensions), levels * dimensions, False
    whole = BinaryTree(Box((0,) * dimensions, (1,) * dimensions), depth + 2 * dimensions + 1)
    for bucket in rng.integers(1 << depth, 2 << depth, 8).tolist():
        part = whole.below(bucket)
        lower, upper = np.array(part.box.lower), np.array(part.box.upper)
        points = lower + (upper - lower) * rng.random((60, dimensions))
        codes = whole.codes(points)
        assert (whole.ancestors(codes, depth) == bucket).all()
        own = part.codes(points)
        assert np.array_equal(codes, (np.uint64(bucket - 1) << np.uint64(part.max_depth)) + own)
        for below in range(part.max_depth):
            cells = part.ancestors(own, below)
            same = whole.ancestors(codes, depth + below)
            assert np.array_equal(part.boxes(cells), whole.boxes(same))
            assert all(np.array_equal(*pair) for pair in zip(part.halvings(cells), whole.halvings(same), strict=True))
        differ |= not np.array_equal(BinaryTree(part.box, part.max_depth).codes(points), own)
        assert part.below(1 << dimensions) == whole.below(bucket << dimensions)
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(part), type=BinaryTree) == part
    assert differ == (dimensions > 1)


def test_a_whole_tree_does_not_name_its_turn() -> None:
    assert b"turn" not in msgspec.msgpack.encode(BinaryTree(Box((0, 0), (1, 1)), 4))


def test_parts_and_turns_that_do_not_exist_are_refused() -> None:
    tree = BinaryTree(Box((0, 0), (1, 1)), 4)
    with pytest.raises(InvalidInput, match="multiple of 2"):
        tree.below(2)
    with pytest.raises(InvalidInput, match="turn must be"):
        BinaryTree(tree.box, 4, 8)
    with pytest.raises(InvalidInput, match="turn must be"):
        BinaryTree(Box((0,), (1,)), 4, 1)
