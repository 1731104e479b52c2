"""The fast population is the sorted one: the same rounds, regions and moves, to the byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from semilocal import Box, Curator, Task
from semilocal.arrays import Floats
from semilocal.simulation.coded import CodedPopulation
from semilocal.simulation.run import Run
from semilocal.simulation.simulate import play
from semilocal.simulation.sorted import SortedPopulation
from tests.unit.simulation.test_population import crowd, table_task


def everything(run: Run) -> list[Any]:
    found: list[Any] = [run.partition.cells, run.partition.crowds, run.regions, run.moves, *run.moved]
    for played in run.rounds:
        found += [played.cells, played.responders, played.tally, played.kept]
    return [(array.dtype, array.tolist()) for array in found]


def compare(task: Task, points: Floats) -> Run:
    fast, slow = (
        play(Curator(task), kind(task, points, rng=np.random.default_rng(3)))
        for kind in (CodedPopulation, SortedPopulation)
    )
    assert everything(fast) == everything(slow)
    return fast


@pytest.mark.parametrize("rule", ["all", "trim", "each"])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_all_results_are_those_of_the_sorted_population(rule: Any, dimensions: int) -> None:
    rng = np.random.default_rng(dimensions)
    points = rng.beta(2, 9, (4000, dimensions))
    points[:500] = points[:500].round(2)  # the same place, in no order
    box = Box((0.0,) * dimensions, (1.0,) * dimensions)
    for size in (0, 1, 4000):
        task = Task.build(box, epsilon=3.0, delta=0.05, k=20, rule=rule)
        run = compare(task, points[:size])
    assert run.moves.any() == (rule == "trim")


def test_a_crowd_in_one_place_is_followed_to_the_deepest_cells() -> None:
    task = Task.build(Box((0, 0), (1, 1)), epsilon=6.0, delta=0.05, k=20, max_trims=40, max_depth=40, max_rounds=40)
    points = np.concatenate([np.full((3000, 2), 0.3), np.random.default_rng(1).random((40, 2))])
    run = compare(task, points)
    assert task.hierarchy.depth(run.partition.cells).max() > 32


@pytest.mark.parametrize("rule", ["all", "trim", "each"])
def test_a_table_is_played_the_same_way(rule: Any) -> None:
    compare(table_task(rule), crowd())
