"""Keystone for trees that are no boxes: machines, the simulation and the service give the same bytes."""

from __future__ import annotations

import asyncio

import httpx2
import numpy as np
import pytest

from semilocal import SphereTree, Task
from semilocal.arrays import Floats
from semilocal.hierarchy.tables import from_cuts, from_labels
from semilocal.protocol.plan import Plan, Release
from semilocal.service.stores.base import Store
from semilocal.simulation.simulate import Run
from semilocal.testing import secrets_of
from tests.helpers.areas import AREAS
from tests.helpers.keystone import same_in_a_loop, same_over_http

SIZE = 60
CODES = [("a", "a1", "a11"), ("a", "a1", "a12"), ("a", "a2"), ("b", "b1"), ("b", "b2"), ("b", "b3"), ("c",)]
TREES = {"sphere": SphereTree(12), "cuts": from_cuts("x", AREAS), "labels": from_labels("code", CODES)}
RELEASES = (Release.ask("mean", "coordinate", epsilon=2.0, parameters=[0]), Release("counts"))


def crowd(name: str) -> Floats:
    """Most of them together, a few far away."""
    rng = np.random.default_rng(5)
    if name == "sphere":
        near = np.array([12.0, 50.0]) + rng.normal(0, 8, (SIZE, 2))
        near[:4] = [[179.9, 0.0], [-179.9, 1.0], [0.0, 89.9], [100.0, -80.0]]
        return near
    lower, upper = TREES[name].box.lower[0], TREES[name].box.upper[0]
    return np.asarray(lower + (upper - lower) * rng.beta(2, 5, (SIZE, 1)))


def task_on(name: str, rule: str) -> Task:
    return Task.build(hierarchy=TREES[name], epsilon=6.0, delta=0.05, k=3, rule=rule, resolution=0)  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", ["all", "cut"])
@pytest.mark.parametrize("name", TREES)
def test_machines_and_simulation_give_the_same_transcript(name: str, rule: str) -> None:
    task = task_on(name, rule)
    run, _ = same_in_a_loop(task, crowd(name), secrets_of(SIZE), Plan(task.id, RELEASES))
    assert run.rounds > 1


@pytest.mark.parametrize("name", TREES)
def test_devices_over_http_give_the_root_of_the_simulation(store: Store, name: str) -> None:
    async def look(client: httpx2.AsyncClient, task: Task, run: Run) -> None:
        answer = await client.get(f"/tasks/{task.id.hex()}/results")
        assert answer.status_code == 200, answer.text
        results = answer.json()
        assert [region["crowd"] for region in results["regions"]] == run.partition.crowds.tolist()

    asyncio.run(same_over_http(store, task_on(name, "cut"), crowd(name), secrets_of(SIZE), RELEASES, look))
