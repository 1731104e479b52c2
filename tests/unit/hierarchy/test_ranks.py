"""Ranks: many searches at once are those of one search."""

from __future__ import annotations

import numpy as np
import pytest

from semilocal import BinaryTree, Box
from semilocal.hierarchy.ranks import SortedCodes


@pytest.mark.parametrize("depth", [6, 40])
def test_many_ranks_that_are_asked_for_at_once_are_those_of_one_search(depth: int) -> None:
    tree = BinaryTree(Box((0, 0), (1, 1)), depth)
    rng = np.random.default_rng(depth)
    codes = np.sort(tree.codes(rng.random((5_000, 2))))
    asked = tree.codes(rng.random((40_000, 2)))
    ranks = SortedCodes(codes)
    assert np.array_equal(ranks.below(asked), np.searchsorted(codes, asked, side="left"))
    assert np.array_equal(ranks.up_to(asked), np.searchsorted(codes, asked, side="right"))
    assert len(ranks) == 5_000
