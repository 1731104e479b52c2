"""Keystone for trees that are no boxes: machines, the simulation and the service give the same bytes."""

from __future__ import annotations

import asyncio

import httpx2
import numpy as np
import pytest

from semilocal import SphereTree, Task, simulate
from semilocal.arrays import Floats
from semilocal.hierarchy.tables import from_cuts, from_labels
from semilocal.protocol.messages import encode
from semilocal.protocol.plan import Plan, Release
from semilocal.service.stores.base import Store
from semilocal.simulation.run import Run
from semilocal.simulation.values import play_values, value_events
from semilocal.testing import participants_at, play, secret, secrets_of
from tests.helpers.areas import AREAS
from tests.helpers.keystone import same_over_http

SIZE = 60
CODES = [("a", "a1", "a11"), ("a", "a1", "a12"), ("a", "a2"), ("b", "b1"), ("b", "b2"), ("b", "b3"), ("c",)]
TREES = {
    "sphere": SphereTree(12),
    "cuts": from_cuts("x", AREAS),
    "labels": from_labels("code", CODES),
}
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


@pytest.mark.parametrize("rule", ["all", "trim", "each"])
@pytest.mark.parametrize("name", TREES)
def test_machines_and_simulation_give_the_same_transcript(name: str, rule: str) -> None:
    task, points, secrets = task_on(name, rule), crowd(name), [secret(i) for i in range(SIZE)]
    plan = Plan(task.id, RELEASES)
    played = play(task, participants_at(task, points, plan=plan), plan=plan)
    run = simulate(points, task, detail="reports", secrets=secrets)
    rounds = play_values(run, points, plan, secrets)
    assert [encode(event) for event in played.events] == [
        encode(event) for event in [*run.events, *value_events(run, plan, rounds)]
    ]
    assert len(run.rounds) > 1 or rule == "all"
    assert [p.region for p in played.participants] == run.partition.cells[run.regions].tolist()
    assert [p.moves for p in played.participants] == run.moves.tolist()


def test_a_closing_has_as_many_sums_per_cell_as_it_has_children() -> None:
    task = task_on("cuts", "each")
    run = simulate(crowd("cuts"), task, detail="reports", secrets=[secret(i) for i in range(SIZE)])
    widths = set()
    for event in run.events:
        for cell, sums in zip(getattr(event, "cells", ()), getattr(event, "tally", ()), strict=False):
            assert len(sums) == int(task.hierarchy.fanouts(np.array([cell]))[0])
            widths.add(len(sums))
    assert len(widths) > 2


@pytest.mark.parametrize("name", TREES)
def test_devices_over_http_give_the_root_of_the_simulation(store: Store, name: str) -> None:
    task = task_on(name, "trim")

    async def look(client: httpx2.AsyncClient, run: Run) -> None:
        answer = await client.get(f"/tasks/{task.id.hex()}/results")
        assert answer.status_code == 200, answer.text
        results = answer.json()
        assert sorted(region["crowd"] for region in results["regions"]) == sorted(run.partition.crowds.tolist())

    asyncio.run(same_over_http(store, task, crowd(name), secrets_of(SIZE), RELEASES, look))
