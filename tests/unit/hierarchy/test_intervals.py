"""Labels of codes are those of a plain search, however intervals lie to the blocks of the tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from semilocal import BinaryTree, Box, Quadtree
from semilocal.hierarchy.intervals import CodeLabels
from semilocal.hierarchy.tables import from_cuts
from tests.helpers.areas import AREAS

TREES = [
    BinaryTree(Box((0,), (1,)), 1), BinaryTree(Box((0, 0), (1, 1)), 50), Quadtree(Box((0, 0, 0), (1, 1, 1)), 20),
    from_cuts("x", AREAS),
]  # fmt: skip


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("expected", [1, 1000, 100_000])
def test_labels_are_those_of_a_search(tree: Any, expected: int) -> None:
    rng = np.random.default_rng(5)
    low, high = (int(side[0]) for side in tree.span([1]))
    anywhere = rng.integers(low, high, 2000, dtype=np.uint64, endpoint=True)
    crowded = np.uint64(low) + rng.integers(0, min(high - low + 1, 3000), 2000, dtype=np.uint64)
    for starts in (anywhere[:0], anywhere[:300], crowded, np.concatenate([anywhere, crowded])):
        first = np.unique(np.append(starts, np.uint64(low)))
        labels = rng.permutation(len(first)).astype(np.int32) - 2
        codes = np.concatenate([anywhere, crowded, first, first[1:] - np.uint64(1), np.array([high], np.uint64)])
        found = CodeLabels(tree, first, labels, codes=expected).of(codes)
        assert np.array_equal(found, labels[np.searchsorted(first, codes, side="right") - 1])
        assert len(CodeLabels(tree, first, labels, codes=expected).of(codes[:0])) == 0
