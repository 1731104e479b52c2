"""Ranks from the leading bits are those of sorted codes, also where all bits are needed."""

from __future__ import annotations

import numpy as np
import pytest

from semilocal import BinaryTree, Box
from semilocal.hierarchy.ranks import LeadingBits, SortedCodes


@pytest.mark.parametrize("depth", [3, 31, 32, 33, 50])
@pytest.mark.parametrize("size", [0, 1, 5000])
def test_ranks_of_leading_bits_are_those_of_sorted_codes(depth: int, size: int) -> None:
    tree = BinaryTree(Box((0, 0), (1, 1)), depth)
    rng = np.random.default_rng(depth)
    points = rng.random((size, 2)) ** 4
    points[: size // 2] = points[: size // 2].round(2)
    codes, heads = tree.codes(points), tree.heads(points)
    before, heads_before = codes.copy(), heads.copy()
    ranks, every = LeadingBits(tree, heads, lambda: codes), SortedCodes(np.sort(codes))
    assert len(ranks) == size
    deepest = 0
    for level in (0, 1, min(depth, 20), min(depth, 32), depth, 1):  # coarse, fine, and coarse again
        first, last = tree.span(np.unique(tree.locate(rng.random((200, 2)), level)))
        asked = np.concatenate([first, last + np.uint64(1)])
        assert np.array_equal(ranks.below(asked), every.below(asked))
        deepest = max(deepest, level)
        assert ranks.suffice == (deepest <= 32)
    assert np.array_equal(codes, before)
    assert np.array_equal(heads, heads_before)


@pytest.mark.parametrize("depth", [20, 40])
def test_many_ranks_that_are_asked_for_at_once_are_those_of_one_search(depth: int) -> None:
    tree = BinaryTree(Box((0, 0), (1, 1)), depth)
    rng = np.random.default_rng(depth)
    points = rng.random((1000, 2)) ** 2
    codes = np.sort(tree.codes(points))
    first, last = tree.span(tree.locate(rng.random((30_000, 2)), 20))
    asked = np.concatenate([first, last + np.uint64(1)])
    for ranks in (SortedCodes(codes), LeadingBits(tree, tree.heads(points), lambda: codes)):
        assert np.array_equal(ranks.below(asked), np.searchsorted(codes, asked))
