"""Tables: built from cuts and labels; overlaps and gaps are refused by name."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

import semilocal as sl
from semilocal import DiscreteLaplace, Task
from semilocal.errors import InvalidInput
from semilocal.hierarchy.tables import TableTree, from_cuts, from_labels, in_twos
from semilocal.pooled.task import PooledTask

CODES = [
    ("circulatory", "I20-I25", "I20"), ("circulatory", "I20-I25", "I21"), ("circulatory", "I20-I25", "I25"),
    ("circulatory", "I60-I69", "I63"), ("circulatory", "I60-I69", "I64"), ("respiratory", "J18"),
    ("respiratory", "J44"), ("injury",),
]  # fmt: skip
ICD = from_labels("ICD-10", CODES)


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ([[0, 2, 1, 3]], "overlap"),
        ([[0, 1, 1, 3]], "1 stands twice"),
        ([[0, 5, 10], [0, 4, 10]], "no edge at 5"),
        ([[0, 5, 10], [0, 5, 9]], "no edge at 10"),
        ([[0, 5, 10], [0, 5, 10, 12]], "reaches from 0 to 12"),
        ([[0, 10]], "2 to 20000 leaves"),
        ([], "ends"),
    ],
)
def test_cuts_that_overlap_or_leave_a_gap_are_refused_with_the_cut(levels: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        from_cuts("x", levels)


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        ([("a", "x"), ("b", "y"), ("a", "z")], "row 2: 'a' also stands under"),
        ([("a", "x"), ("b", "x")], "row 1: 'x' also stands under a"),
        ([("a", "x"), ("a", "x"), ("b", "y")], "row 1: 'x' stands twice"),
        ([("a", "a"), ("b", "c")], "row 0: 'a' is its own part"),
        ([("a", ""), ("b", "c")], "row 0"),
        ([("a", "x")], "2 to 20000 leaves"),
        ([("a", "x\u202e"), ("b", "y")], "visible characters"),
    ],
)
def test_labels_in_two_branches_are_refused_with_the_row(paths: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        from_labels("t", paths)


@pytest.mark.parametrize(
    "changes",
    [
        {"edges": (0.0, 2.0, 1.0, 3.0)}, {"edges": (0.0, 1.0)}, {"edges": (0.0, 1.0, float("inf"), 3.0)},
        {"widths": ((3,), (1, 1))}, {"widths": ((4,),)}, {"widths": ((0,),)}, {"widths": ()},
        {"widths": ((2,), (1, 1))},
        {"labels": (("x",), ("a", "b"))}, {"labels": (("x",), ("a", "b", "b"))}, {"labels": (("x",), ("a", "b", "x"))},
        {"name": ""}, {"edges": (0.0, 1.0, 2.5, 3.0), "labels": (("x",), ("a", "b", "c"))},
    ],
)  # fmt: skip
def test_a_table_on_the_wire_that_does_not_fit_together_is_refused(changes: dict[str, Any]) -> None:
    good = sl.TableTree("x", (0.0, 1.0, 2.0, 3.0), ((3,),))
    with pytest.raises(InvalidInput):
        msgspec.structs.replace(good, **changes)


def test_labels_are_positions_and_cells_have_names() -> None:
    points = ICD.positions(["I21", "injury", "J44"])
    assert ICD.names(ICD.locate(points, 3)) == ["I21", "injury", "J44"]
    assert ICD.names(ICD.locate(points, 1)) == ["circulatory", "injury", "respiratory"]
    assert ICD.names(ICD.cells_of(["I60-I69", "J18"])) == ["I60-I69", "J18"]
    for bad, words in ((["I21", "I99"], "row 1: 'I99' is not a leaf"), (["I60-I69"], "not the deepest")):
        with pytest.raises(InvalidInput, match=words):
            ICD.positions(bad)
    with pytest.raises(InvalidInput, match="I99"):
        ICD.cells_of(["I99"])


def spans(tree: TableTree) -> set[tuple[int, int]]:
    """First and last leaf of every cell."""
    leaves = np.arange(len(tree.edges) - 1, dtype=np.uint64)
    cells = np.unique(np.concatenate([tree.ancestors(leaves, depth) for depth in range(tree.max_depth + 1)]))
    return set(zip(*(side.tolist() for side in tree.span(cells)), strict=True))


def test_in_twos_every_cell_of_the_table_is_still_a_cell() -> None:
    halved = in_twos(ICD)
    assert halved.fanout == 2
    assert spans(ICD) <= spans(halved)
    assert halved.names(halved.locate(ICD.positions(["I25"]), halved.max_depth)) == ["I25"]


def test_a_table_takes_randomized_response_only() -> None:
    with pytest.raises(InvalidInput, match="RandomizedResponse"):
        replace(Task.build(hierarchy=ICD, epsilon=1.0, rule="all"), randomizer=DiscreteLaplace(1.0, ICD.fanout))
    with pytest.raises(InvalidInput, match="two children"):
        PooledTask(hierarchy=ICD, epsilon=1.0, trust="curator", threshold=20.0)


@pytest.mark.parametrize("trust", ["nobody", "curator", "two-servers"])
def test_counts_of_a_taxonomy_hold_whom_their_intervals_say(trust: Any) -> None:
    """Intervals of level 0.999999 for four labels: a false alarm in at most 4 of 10^6 runs, if they cover."""
    rng = np.random.default_rng(8)
    leaves = list(ICD.labels[-1])
    drawn = rng.choice(leaves, 20_000, p=[0.3, 0.2, 0.1, 0.1, 0.05, 0.15, 0.05, 0.05])
    counted = sl.counts(ICD.positions(drawn), hierarchy=ICD, epsilon=2.0, trust=trust, rng=rng)
    asked = ["circulatory", "I20-I25", "J18", "injury"]
    inside = [np.count_nonzero(np.isin(drawn, [path[-1] for path in CODES if label in path])) for label in asked]
    low, high = counted.query(ICD.boxes(ICD.cells_of(asked))).interval(0.999999).T
    assert np.all((low <= inside) & (inside <= high))
    assert np.all(high - low < 6_000)
    table = counted.to_table()
    assert {"region", "label"} & set(table)
    assert table["crowd"].sum() == pytest.approx(20_000)
    assert counted.query([[[0.0], [8.0]]]).value[0] == pytest.approx(20_000)
    low, high = counted.interval(0.95).T
    assert np.all(low <= high)
