"""Histograms add up, coarsen and refine; lookups cover the domain."""

from __future__ import annotations

import numpy as np
import pytest

from semilocal import BinaryTree
from semilocal.engines import source
from semilocal.engines.source import GrowingHistogram, Histogram, HistogramRanks
from semilocal.errors import InvalidInput
from semilocal.hierarchy.ranks import Ranks, SortedCodes
from tests.helpers.engine_runs import box_of, people

TREE = BinaryTree(box_of(2), 30)
CODES = np.sort(TREE.codes(people(2000, 2)))


def at(depth: int, codes: np.ndarray[tuple[int], np.dtype[np.uint64]] = CODES) -> Histogram:
    return Histogram.of_sorted(depth, np.sort(TREE.ancestors(codes, depth)))


def people_in(ranks: Ranks, cells: np.ndarray) -> np.ndarray:
    first, last = TREE.span(cells)
    return ranks.below(last + np.uint64(1)) - ranks.below(first)


@pytest.mark.parametrize("depth", [4, 12, 30])  # many in a cell, and nearly everybody alone
def test_how_people_are_divided_changes_no_sum(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_CHUNK", 100)
    whole, (cells, counts) = at(depth), np.unique(TREE.ancestors(CODES, depth), return_counts=True)
    assert (whole.cells.tolist(), whole.counts.tolist()) == (cells.tolist(), counts.tolist())
    mixed = np.random.default_rng(1).permutation(TREE.ancestors(CODES, depth))
    for cuts in ([], [7], [0, 3, 1500], list(range(0, 2000, 100))):
        for pending in (0, 150, 10_000):  # counted part by part, some together, all at the end
            grown = GrowingHistogram(depth, pending)
            for part in np.split(mixed, cuts):
                grown.add(part)
            found = grown.close()
            assert found.cells.tolist() == whole.cells.tolist()
            assert found.counts.tolist() == whole.counts.tolist()
    assert GrowingHistogram(depth).close().total == 0


def test_ranks_of_a_histogram_are_those_of_sorted_codes_after_one_refinement() -> None:
    asked = []

    def refine(cells: np.ndarray, depth: int, deeper: int) -> Histogram:
        asked.append((depth, deeper))
        return at(deeper, CODES[np.isin(TREE.ancestors(CODES, depth), cells)])

    ranks, exact = HistogramRanks(TREE, at(8), refine), SortedCodes(CODES)
    cells = np.array([1], dtype=np.uint64)
    for _ in range(20):
        ranks.open(cells)
        children = TREE.children(cells)
        assert people_in(ranks, children).tolist() == people_in(exact, children).tolist()
        cells = children[people_in(exact, children) > 10]
    assert asked == [(8, 30)]
    assert len(ranks) == 2000


@pytest.mark.parametrize(("cells", "counts"), [([3, 2], [1, 1]), ([2, 2], [1, 1]), ([2, 3], [1, 0]), ([2], [1, 1])])
def test_a_histogram_refuses_what_is_none(cells: list[int], counts: list[int]) -> None:
    with pytest.raises(InvalidInput, match="histogram"):
        Histogram(1, np.array(cells, dtype=np.uint64), np.array(counts, dtype=np.int64))
