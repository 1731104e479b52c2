"""Groups of an engine become histograms; bad rows are refused without a scan of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from semilocal import BinaryTree, Box, Task
from semilocal.arrays import Integers
from semilocal.engines.expressions import DUCKDB
from semilocal.engines.grouping import Grouping
from semilocal.engines.histogram import Histogram
from semilocal.engines.keys import keys_of_cells
from semilocal.engines.run import rank_source
from semilocal.errors import InvalidInput, OutsideDomain

BOX = Box((0, 0), (1, 1))


class Counted(Grouping):
    """Rows whose groups are given; it notes what it was asked."""

    dialect = DUCKDB

    def __init__(self, keys: Integers, people: Integers, *, bad: int = 0) -> None:
        super().__init__(["x", "y"], BOX, {"x": ("DOUBLE", True), "y": ("DOUBLE", True)})
        self._groups, self._bad, self.asked = (keys, people), bad, list[str]()

    def _keyed(self, expression: str) -> Any:
        return expression

    def _count_rows(self) -> int:
        return int(self._groups[1].sum())

    def _first(self, size: int) -> list[Any]:
        return [np.full(7, 0.5), np.full(7, 1.5)]

    def _count_groups(self, keyed: Any, most: int = 0) -> tuple[Integers, Integers]:
        checking = "THEN 3 ELSE 0" in keyed
        self.asked.append("check" if checking else "count")
        return (np.array([0, 3]), np.array([self.count() - self._bad, self._bad])) if checking else self._groups


@pytest.mark.parametrize("most", [9, 1 << 62])  # counts beside the cell in one word, and not
def test_groups_in_any_order_become_a_histogram(most: int) -> None:
    tree, rng = BinaryTree(BOX, 20), np.random.default_rng(1)
    cells = np.unique(tree.locate(rng.random((300, 2)), 12))
    people = rng.integers(1, 9, len(cells))
    people[7] = most
    order = rng.permutation(len(cells))
    found = Counted(keys_of_cells(tree, cells, 12)[order], people[order]).histogram(tree, 12)
    assert found.cells.tolist() == Histogram.of(12, cells).cells.tolist()
    assert found.counts.tolist() == people.tolist()


def test_good_rows_are_counted_in_one_scan_and_bad_ones_looked_at_again() -> None:
    task = Task.build(BOX, epsilon=1.0, delta=0.05, k=20)
    good = Counted(np.array([0, 5]), np.array([3, 4]))
    assert len(rank_source(good, task.hierarchy, depth=3)) == 7
    assert good.asked == ["count"]
    bad = Counted(np.array([0, -1]), np.array([3, 4]), bad=4)
    with pytest.raises(OutsideDomain, match="of 7 rows 4 lie outside"):
        rank_source(bad, task.hierarchy, depth=3)
    assert bad.asked == ["count", "check"]


@pytest.mark.parametrize("wrong", [np.nan, 1.5])
def test_a_bad_row_in_the_sample_is_refused(wrong: float) -> None:
    source = Counted(np.array([0]), np.array([2]), bad=1)
    with pytest.raises(OutsideDomain, match="of 2 rows 1 lie outside"):
        source._checked([np.array([0.5, wrong]), np.array([0.5, 0.5])])
    without = np.ma.masked_array([0.5, 0.5], [False, True])  # NULL
    with pytest.raises(OutsideDomain, match="1 lie outside"):
        source._checked([without, np.array([0.5, 0.5])])
    changed = Counted(np.array([0]), np.array([2]))
    with pytest.raises(InvalidInput, match="the rows changed"):
        changed._checked([np.array([0.5, wrong]), np.array([0.5, 0.5])])
