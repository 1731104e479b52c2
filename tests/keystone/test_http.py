"""Keystone: machines in a loop, the simulation and devices over HTTP give one transcript, to the last bit."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from semilocal import SphereTree, Task
from semilocal.arrays import Floats
from semilocal.hierarchy.tables import from_cuts, from_labels
from semilocal.protocol.curator import Curator
from semilocal.protocol.messages import Checkpoint, ValueClosed, decode, encode
from semilocal.protocol.plan import Plan, Release
from semilocal.randomizer.values import TwoPoint
from semilocal.release import collected_mean
from semilocal.service.rounds import chain_for, create_campaign, with_chain
from semilocal.service.stores.base import Store, open_store
from semilocal.simulation.simulate import Run
from semilocal.testing import Server, cluster, secrets_of
from semilocal.transcript.checkpoints import merkle_root, transcript_root
from tests.helpers import AREAS, HANG
from tests.helpers.keystone import same_in_a_loop, same_over_http
from tests.helpers.service import Device, follow_campaign, open_campaign, sample_task, transcript
from tests.helpers.stored import verify

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


# -- trees that are no boxes ------------------------------------------------------------------------------------------

SIZE = 60
CODES = [("a", "a1", "a11"), ("a", "a1", "a12"), ("a", "a2"), ("b", "b1"), ("b", "b2"), ("b", "b3"), ("c",)]
TREES = {"sphere": SphereTree(12), "cuts": from_cuts("x", AREAS), "labels": from_labels("code", CODES)}
TREE_RELEASES = (Release.ask("mean", "coordinate", epsilon=2.0, parameters=[0]), Release("counts"))


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
def test_machines_and_simulation_give_the_same_transcript_on_trees(name: str, rule: str) -> None:
    task = task_on(name, rule)
    run, _ = same_in_a_loop(task, crowd(name), secrets_of(SIZE), Plan(task.id, TREE_RELEASES))
    assert run.rounds > 1


@pytest.mark.parametrize("name", TREES)
def test_trees_over_http_give_the_root_of_the_simulation(store: Store, name: str) -> None:
    async def look(client: httpx2.AsyncClient, task: Task, run: Run) -> None:
        answer = await client.get(f"/tasks/{task.id.hex()}/results")
        assert answer.status_code == 200, answer.text
        results = answer.json()
        assert [region["crowd"] for region in results["regions"]] == run.partition.crowds.tolist()

    asyncio.run(same_over_http(store, task_on(name, "cut"), crowd(name), secrets_of(SIZE), TREE_RELEASES, look))


# -- over real sockets, one server on SQLite, one on PostgreSQL ------------------------------------------------------


async def scenario(server: Server, count: int) -> None:
    task = sample_task(k=10)
    campaign = open_campaign(
        task,
        releases=(Release.ask("mean", "coordinate", epsilon=4.0, parameters=[0]), Release("counts")),
        capacity=count,
    )
    store = open_store(server.database, worker="test")
    campaign = with_chain(store, campaign)
    task = campaign.task
    create_campaign(store, campaign, now=0)
    points, secrets = cluster(count), secrets_of(count)
    limits = httpx2.Limits(max_connections=32)
    async with httpx2.AsyncClient(base_url=server.url, limits=limits, timeout=HANG) as client:
        devices = [
            Device(client, task, point, secret, plan=campaign.plan)
            for point, secret in zip(points, secrets, strict=True)
        ]
        answers = await asyncio.gather(*(device.enrol() for device in devices))
        assert {answer.status_code for answer in answers} == {201}
        state = await follow_campaign(client, devices)
        assert state["phase"] == "finished"
        assert state["enrolled"] == count
        run, simulated = same_in_a_loop(task, points, secrets, campaign.plan, chain_for(store, task))
        events = await transcript(client, task, rounds=state["closed"], plan=campaign.plan)
        assert events == [encode(event) for event in simulated]
        for number, so_far in ((run.rounds, list(run.events)), (state["closed"], simulated)):
            data = (await client.get(f"/tasks/{task.id.hex()}/rounds/{number}/checkpoint")).content
            checkpoint = decode(data, Checkpoint)
            assert (checkpoint.root, checkpoint.size) == (transcript_root(so_far), len(so_far))
        last = verify(store, task.id)
        assert last.root == merkle_root(events)
        closed = decode(events[-1], ValueClosed)
        overall = collected_mean(run.partition, closed, campaign.plan.releases[closed.index])
        # Six standard errors: a false alarm has a chance below 1e-8.
        assert abs(overall.value - points[:, 0].mean()) < 6 * overall.stderr
        assert overall.participants == count
        results = (await client.get(f"/tasks/{task.id.hex()}/results")).json()
        assert [region["crowd"] for region in results["regions"]] == run.partition.crowds.tolist()
        assert results["releases"][1]["total"] == count
        drawn = (await client.get(f"/tasks/{task.id.hex()}/regions.geojson")).json()
        assert drawn == Curator.replay(task, run.events).partition.to_geojson()
    store.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_one_process_gives_the_root_of_the_simulation(kind: str, tmp_path: Path, request: Any) -> None:
    url = f"sqlite:///{tmp_path / 'service.db'}"
    if kind == "postgresql":
        url = request.getfixturevalue("postgres").new_database()
    server = Server(url, log=tmp_path / "log.txt")
    server.start()
    try:
        asyncio.run(scenario(server, 60))
    finally:
        server.stop()
