"""Simulations: one call plays everybody, at once or from secrets."""

from __future__ import annotations

import numpy as np
import pytest

from semilocal.errors import InvalidInput, OutsideDomain
from semilocal.geometry.box import Box
from semilocal.hierarchy import SphereTree
from semilocal.hierarchy.tables import from_labels
from semilocal.protocol.messages import Report
from semilocal.protocol.task import Task
from semilocal.simulation.simulate import LOST, simulate

BOX = Box((0, 0), (1, 1))


def people(count: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).beta(2, 5, (count, 2))


def test_everybody_is_in_the_region_that_holds_their_position() -> None:
    points, task = people(3000), Task.build(BOX, epsilon=2.0)
    run = simulate(points, task, rng=np.random.default_rng(1))
    assert np.array_equal(run.regions, run.partition.locate(points))
    assert np.array_equal(np.bincount(run.regions, minlength=len(run.partition)), run.partition.crowds)
    assert run.partition.crowds.min() >= task.k
    assert run.partition.mark is not None
    assert run.partition.mark.seeded
    assert run.simulated


@pytest.mark.parametrize("dimensions", [1, 3, 8])
def test_any_number_of_dimensions(dimensions: int) -> None:
    box = Box((0,) * dimensions, (1,) * dimensions)
    points = np.random.default_rng(2).random((2000, dimensions))
    run = simulate(points, Task.build(box, epsilon=2.0), rng=np.random.default_rng(1))
    assert run.partition.crowds.sum() == 2000
    assert len(run.partition) > 8


def test_the_sphere_and_tables_have_an_order_too() -> None:
    rng = np.random.default_rng(4)
    cities = np.concatenate([rng.normal((2.3, 48.8), 1.0, (900, 2)), rng.normal((139.7, 35.7), 1.0, (900, 2))])
    run = simulate(cities, Task.build(hierarchy=SphereTree(30), epsilon=2.0), rng=rng)
    assert run.partition.crowds.sum() == 1800
    assert len(run.partition) > 4
    tree = from_labels("area", [("north", f"n{i}") for i in range(8)] + [("south", f"s{i}") for i in range(8)])
    labels = rng.choice(list(tree.leaves.values()), 1500)[:, None]
    run = simulate(labels, Task.build(hierarchy=tree, epsilon=4.0), rng=rng)
    assert run.partition.crowds.sum() == 1500
    assert len(run.partition) > 4


def test_who_drops_out_keeps_the_last_announced_region() -> None:
    rng = np.random.default_rng(8)
    task = Task.build(BOX, epsilon=4.0, delta=0.05, k=5)
    points = people(300)
    run = simulate(points, task, secrets=[rng.bytes(32) for _ in points], dropout=0.02, rng=rng)
    lost = run.regions == LOST
    assert 0 < np.count_nonzero(lost) < 300
    stayed = int(run.partition.away.people.sum())
    assert run.partition.crowds.sum() + stayed == sum(
        isinstance(event, Report) and event.round == 1 for event in run.events
    )
    assert np.array_equal(run.regions[~lost], run.partition.locate(points)[~lost])


def test_bad_arguments_are_refused() -> None:
    task, rng = Task.build(BOX, epsilon=1.0), np.random.default_rng(1)
    with pytest.raises(InvalidInput, match="rng is needed"):
        simulate(people(30), task)
    with pytest.raises(InvalidInput, match="give secrets"):
        simulate(people(30), task, rng=rng, dropout=0.1)
    with pytest.raises(InvalidInput, match="one per participant"):
        simulate(people(30), task, secrets=[bytes(32)] * 29)
    with pytest.raises(InvalidInput, match="must be 32 bytes"):
        simulate(people(30), task, secrets=[bytes(31)] * 30)
    with pytest.raises(InvalidInput, match=r"must be a semilocal\.Task"):
        simulate(people(30), "task", rng=rng)  # type: ignore[arg-type]
    with pytest.raises(OutsideDomain):
        simulate([[2.0, 0.5]] * 30, task, rng=rng)
    with pytest.raises(InvalidInput, match="dropout"):
        simulate(people(30), task, rng=rng, dropout=1.0)
