"""Keystone: machines in a loop, the simulation and devices over HTTP give one transcript, to the last bit."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import numpy as np
import pytest

from semilocal import Task
from semilocal.protocol.plan import Release
from semilocal.randomizer.values import TwoPoint
from semilocal.service.stores.base import Store
from semilocal.simulation.simulate import Run
from semilocal.testing import cluster, secrets_of
from tests.helpers.keystone import same_over_http
from tests.helpers.service import sample_task

TASKS: list[dict[str, Any]] = [
    {},
    {"epsilon": 2.0, "max_depth": 20},
    {"rule": "all"},
    {"tree": "quad", "max_depth": 4, "rule": "all"},
    {"max_depth": 3, "max_rounds": 5},
]
RELEASES = (
    Release.ask("mean", "coordinate", epsilon=2.0, parameters=[0]),
    Release("counts"),
    Release("values", TwoPoint(3.0), "gaussian_bump", (0.3, 0.5, 0.5)),
)


@pytest.mark.parametrize("changes", TASKS, ids=lambda changes: "-".join(map(str, changes.values())) or "default")
def test_devices_over_http_give_the_root_of_the_simulation(store: Store, changes: dict[str, Any]) -> None:
    """Of the whole campaign, rounds of values included."""
    asyncio.run(same_over_http(store, sample_task(**changes), cluster(60), secrets_of(60), RELEASES))


def test_own_values_over_http_give_the_root_of_the_simulation_and_their_mean(store: Store) -> None:
    fares = np.random.default_rng(4).uniform(0, 80, 60).tolist()
    release = Release.ask("mean", "own:fare", epsilon=8.0, parameters=[0, 80])

    async def look(client: httpx2.AsyncClient, task: Task, run: Run) -> None:
        (found,) = (await client.get(f"/tasks/{task.id.hex()}/results")).json()["releases"]
        assert (found["function"], found["adjacency"]) == ("fare", "any two values of fare from 0 to 80")
        assert found["responders"] == 60
        assert abs(found["mean"] - np.mean(fares)) < 6 * found["stderr"]  # the secrets are fixed

    asyncio.run(same_over_http(store, sample_task(), cluster(60), secrets_of(60), (release,), look, values=fares))
