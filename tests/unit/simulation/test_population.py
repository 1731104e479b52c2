"""The loop and the populations: a hierarchy with another number of children in every cell plays like any other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from semilocal import BinaryTree, Box, Curator, Quadtree, RandomizedResponse, Task
from semilocal.arrays import Floats
from semilocal.hierarchy import Cells
from semilocal.hierarchy.tables import from_cuts
from semilocal.protocol.rule import Ruling, first_frontier, proceed
from semilocal.randomizer import Randomizer
from semilocal.simulation.entropy import DeviceSecrets
from semilocal.simulation.population import Asked, RoundCounts
from semilocal.simulation.run import Moved
from semilocal.simulation.simulate import play
from semilocal.simulation.sorted import SortedPopulation
from semilocal.testing import secrets_of
from tests.helpers.areas import AREAS

TREE = from_cuts("x", AREAS)


def table_task(rule: Any = "trim", randomizer: Randomizer | None = None, **options: Any) -> Task:
    noise: Any = RandomizedResponse(3.0, TREE.fanout) if randomizer is None else randomizer
    fixed: dict[str, Any] = {"k": 10, "delta": 0.05, "tau": 0.2, "accounting": "core", "max_rounds": TREE.max_depth}
    tree: Any = TREE
    return Task(hierarchy=tree, randomizer=noise, rule=rule, max_trims=3 if rule == "trim" else 0, **fixed | options)


def crowd() -> Floats:
    rng = np.random.default_rng(3)
    return np.concatenate([rng.uniform(0.2, 0.5, (3000, 1)), rng.uniform(0, 1, (600, 1)), [[0.0], [1.0]]])


@pytest.mark.parametrize("detail", ["tallies", "reports"])
@pytest.mark.parametrize("rule", ["all", "trim", "each"])
@pytest.mark.parametrize("noise", [RandomizedResponse(6.0, TREE.fanout)])
def test_a_table_with_other_fanouts_in_every_cell_is_played_to_the_end(
    noise: Randomizer, rule: Any, detail: Any
) -> None:
    task, points = table_task(rule, noise), crowd()
    population = SortedPopulation(task, points, rng=np.random.default_rng(1), detail=detail)
    run = play(Curator(task), population)
    partition = run.partition
    assert len(partition) > 1
    assert partition.crowds.sum() == len(points)
    assert (np.bincount(run.regions, minlength=len(partition)) == partition.crowds).all()
    first, last = TREE.span(partition.cells)
    assert np.all(last[:-1] < first[1:])
    still = run.moves == 0
    codes = TREE.codes(points)
    assert np.all((first[run.regions] <= codes)[still] & (codes <= last[run.regions])[still])
    for played in run.rounds:
        assert played.responders.sum() <= len(points)
        if played.kept.shape[1]:
            missing = ~TREE.child_mask(played.cells)
            assert not played.kept[missing].any()
            assert not played.tally[missing].any()
            assert np.isnan(played.ruling.estimates[missing]).all()
            assert not np.isnan(played.ruling.estimates[~missing]).any()


def test_a_cell_with_one_child_goes_on_in_it_with_everybody() -> None:
    only = [cell for cell in range(1, 100) if TREE.all_at([cell], 2) and TREE.fanouts([cell])[0] == 1]
    assert only
    task = table_task("all", RandomizedResponse(9.0, TREE.fanout))
    lower, upper = TREE.boxes(only)[0, :, 0].tolist()
    points = np.concatenate(
        [np.linspace(0, 0.999, 4000)[:, None], np.linspace(lower, upper, 2000, endpoint=False)[:, None]]
    )
    run = play(Curator(task), SortedPopulation(task, points, rng=np.random.default_rng(2)))
    asked = {int(cell): row for row, cell in enumerate(run.rounds[2].cells)}
    row = asked[only[0]]
    assert run.rounds[2].kept[row].tolist() == [True] + [False] * (TREE.fanout - 1)
    assert not run.rounds[2].ruling.trimmed[row]
    assert run.rounds[2].ruling.estimates[row, 0] == run.rounds[2].responders[row] == run.rounds[2].tally[row, 0]


def test_a_tally_for_a_child_that_a_cell_does_not_have_is_refused() -> None:
    curator = Curator(table_task())
    assert TREE.fanouts([1])[0] == 3 < TREE.fanout
    with pytest.raises(Exception, match="no set of reports"):
        curator.step([10], [[5, 3, 1, 1, 0]])
    curator.step([10], [[5, 3, 2, 0, 0]])


class Fixed:
    """A population that is a list of counts: the loop asks nothing else of it."""

    moves = np.zeros(4, dtype=np.int16)
    moved = Moved.nobody()

    def __init__(self, *tallies: list[list[int]]) -> None:
        self.tallies, self.calls = list(tallies), list[str]()

    def tally(self, asked: Asked) -> RoundCounts:
        self.calls.append(f"tally {asked.number} {asked.cells.tolist()} {asked.roll_call}")
        sums = np.array(self.tallies.pop(0), dtype=np.int64)
        return RoundCounts(sums.sum(axis=1), sums)

    def follow(self, ruling: Ruling) -> None:
        self.calls.append(f"follow {ruling.frontier.cells.tolist()}")

    def regions(self, cells: Cells) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        self.calls.append(f"regions {cells.tolist()}")
        return np.zeros(4, dtype=np.int32)


def test_the_loop_asks_counts_decides_and_goes_on_in_turn() -> None:
    population = Fixed([[500, 500]], [[700, 20], [10, 10]])
    task = Task.build(Box((0,), (1,)), epsilon=6.0, delta=0.05, k=20, rule="all")
    run = play(Curator(task), population)
    assert population.calls == [
        "tally 1 [1] False", "follow [2, 3]", "tally 2 [2, 3] False", "follow []", "regions [2, 3]",
    ]  # fmt: skip
    assert run.partition.crowds.tolist() == [720, 20]


# -- moved people --------------------------------------------------------------------------------------------------


def landed(task: Task, kept: list[int], detail: Any, secrets: list[bytes] | None) -> np.ndarray[Any, Any]:
    """Codes of 4,000 people of the last child, after a TRIM to the kept children of the root."""
    tree = task.hierarchy
    first, _ = tree.span(tree.child([1], [int(tree.fanouts([1])[0]) - 1]))
    points = np.repeat(tree.middles(first), 4000, axis=0)
    entropy = None if secrets is None else DeviceSecrets(secrets, task.id)
    population = SortedPopulation(task, points, rng=np.random.default_rng(5), detail=detail, entropy=entropy)
    population.tally(Asked(1, np.array([1], dtype=np.uint64), False))
    mask = np.isin(np.arange(tree.fanout), kept)[None, :]
    population.follow(proceed(task, first_frontier(), mask, np.where(mask, 1000.0, 0.0), np.array([1000])))
    assert (population.moves == 1).all()
    return population._aside.codes


@pytest.mark.parametrize("detail", ["tallies", "reports"])
@pytest.mark.parametrize(
    ("tree", "kept"),
    [
        (BinaryTree(Box((0, 0), (1, 1)), 10), [0]), (Quadtree(Box((0, 0), (1, 1)), 6), [0, 1, 2]),
        (Quadtree(Box((0, 0, 0), (1, 1, 1)), 4), [1, 4]), (Quadtree(Box((0,) * 4, (1,) * 4), 3), [0, 3, 8, 14]),
        (TREE, [0, 1]),
    ],
)  # fmt: skip
def test_moved_people_are_spread_over_the_kept_part_by_its_shares(tree: Any, kept: list[int], detail: Any) -> None:
    """Counts in all cells two levels below are within six standard errors: false alarm 2e-9 per cell, 60 cells or less.

    Planted bugs: everybody at the nearest end of the kept part, and everybody in its first half.
    """
    task = Task(
        hierarchy=tree, randomizer=RandomizedResponse(1.0, tree.fanout), rule="trim", k=10, delta=0.05, max_trims=3,
        tau=0.2, accounting="core", max_rounds=tree.max_depth,
    )  # fmt: skip
    codes = landed(task, kept, detail, secrets_of(4000) if detail == "reports" else None)
    below = tree.children(tree.child(np.ones(len(kept), dtype=np.uint64), np.array(kept)))
    first, last = tree.span(below)
    shares = (last - first + 1) / (last - first + 1).sum()

    def spread(codes: Any) -> bool:
        counts = ((codes[:, None] >= first) & (codes[:, None] <= last)).sum(axis=0)
        assert counts.sum() == 4000
        return bool((np.abs(counts - 4000 * shares) < 6 * np.sqrt(4000 * shares * (1 - shares))).all())

    assert spread(codes)
    assert not spread(np.full(4000, last[-1]))
    assert not spread(np.random.default_rng(1).choice(first[: len(first) // 2], 4000))
