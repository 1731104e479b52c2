"""Keystone, parts (c) and (d): devices over HTTP give the transcript of the simulation, to the last bit."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from semilocal import simulate
from semilocal.protocol.messages import ValueClosed, decode, encode
from semilocal.protocol.plan import Release
from semilocal.randomizer.values.mechanisms import DiscreteLaplaceValue
from semilocal.service.rounds import start
from semilocal.service.stores.base import Store
from semilocal.simulation.run import LOST
from semilocal.simulation.values import play_values, value_events
from semilocal.testing import MockClock, cluster, running_app, secrets_of
from semilocal.transcript.merkle import transcript_root
from tests.helpers.keystone import same_over_http
from tests.helpers.service import enrolled, follow_campaign, open_campaign, sample_task, transcript
from tests.helpers.stored import verify

TASKS: list[dict[str, Any]] = [
    {},
    {"rule": "all"},
    {"rule": "trim", "randomizer": "discrete-laplace"},
    {"tree": "quad", "max_depth": 4},
    {"max_depth": 3, "max_rounds": 2},  # ends with a roll call
]
RELEASES = (
    Release.ask("mean", "coordinate", epsilon=2.0, parameters=[0]),
    Release("counts"),
    Release("values", DiscreteLaplaceValue(3.0, 16), "gaussian_bump", (0.3, 0.5, 0.5)),
)


@pytest.mark.parametrize("changes", TASKS, ids=lambda changes: "-".join(map(str, changes.values())) or "default")
def test_devices_over_http_give_the_root_of_the_simulation(store: Store, changes: dict[str, Any]) -> None:
    """Of the whole campaign, rounds of values included."""
    task = sample_task(**changes)
    asyncio.run(same_over_http(store, task, cluster(60), secrets_of(60), RELEASES))


def test_own_values_over_http_give_the_root_of_the_simulation_and_their_mean(store: Store) -> None:
    """Moved people give their own value, so the mean has no bias."""
    task = sample_task(tau=0.4)
    points, secrets = cluster(60), secrets_of(60)
    fares = np.random.default_rng(4).uniform(0, 80, 60).tolist()
    release = Release.ask("mean", "own:fare", epsilon=8.0, parameters=[0, 80])

    async def scenario() -> None:
        clock = MockClock()
        async with running_app(store, clock) as (client, service, _):
            campaign = open_campaign(task, releases=(release,))
            devices = await enrolled(client, store, campaign, points, secrets, values=fares)
            assert start(store, task.id, clock())
            state = await follow_campaign(client, devices, service=service)
            run = simulate(points, task, secrets=secrets, detail="reports")
            rounds = play_values(run, points, campaign.plan, secrets, values=fares)
            simulated = [*run.events, *value_events(run, campaign.plan, rounds)]
            events = await transcript(client, task, rounds=state["closed"], plan=campaign.plan)
            assert events == [encode(event) for event in simulated]
            assert verify(store, task.id).root == transcript_root(simulated)
            (found,) = (await client.get(f"{devices[0].base}/results")).json()["releases"]
            assert (found["function"], found["adjacency"]) == ("fare", "any two values of fare from 0 to 80")
            given = np.flatnonzero(run.regions != LOST)
            assert found["responders"] == len(given)
            assert abs(found["mean"] - np.mean(np.array(fares)[given])) < 6 * found["stderr"]  # the secrets are fixed
            assert found["bias_bound"] == 0

    asyncio.run(scenario())


def test_rule_each_closes_by_its_deadline_and_those_left_behind_still_give_a_value(store: Store) -> None:
    """Nobody can tell who was left behind, so a quorum of all is never reached and deadlines decide."""
    task = sample_task(rule="each", max_depth=4)
    points, secrets = cluster(60), secrets_of(60)
    release = Release.ask("mean", "coordinate", epsilon=2.0, parameters=[0])

    async def scenario() -> None:
        clock = MockClock()
        async with running_app(store, clock) as (client, service, _):
            devices = await enrolled(client, store, open_campaign(task, releases=(release,)), points, secrets)
            assert start(store, task.id, clock())
            base = devices[0].base
            while (state := (await client.get(f"{base}/state")).json())["phase"] != "finished":
                query = (await client.get(f"{base}/rounds/{state['round']}/query")).content
                for device in devices:
                    answer = await device.answer(query)
                    assert answer is None or answer.status_code == 201, answer.text
                clock.advance(task.window + 1)
                await service.tick()
                closed = (await client.get(f"{base}/rounds/{state['round']}/closed")).content
                for device in devices:
                    device.follow(closed)
            run = simulate(points, task, secrets=secrets, detail="reports")
            plan = open_campaign(task, releases=(release,)).plan
            values = value_events(run, plan, play_values(run, points, plan, secrets))
            found = await transcript(client, task, rounds=state["closed"], plan=plan)
            assert found == [encode(event) for event in [*run.events, *values]]
            assert sum(decode(found[-1], ValueClosed).responders) == 60
            document = (await client.get(f"{base}/results")).json()
            assert document["releases"][0]["responders"] == 60
            assert {region["crowd"] for region in document["regions"]} == {None}
            assert (await client.get(f"{base}/regions.geojson")).status_code == 404
            verify(store, task.id)

    asyncio.run(scenario())
