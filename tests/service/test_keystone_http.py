"""Keystone, parts (c) and (d): devices over HTTP give the transcript of the simulation, to the last bit."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support_service import (
    MockClock,
    enrolled,
    open_campaign,
    play,
    running,
    sample_points,
    sample_secrets,
    sample_task,
    transcript,
)

from semilocal import simulate
from semilocal.protocol.messages import encode
from semilocal.protocol.transcript import leaf_hash, merkle_root, transcript_root
from semilocal.service.rounds import start, verify
from semilocal.service.store import Store

TASKS: list[dict[str, Any]] = [
    {},
    {"rule": "all"},
    {"rule": "trim", "randomizer": "discrete-laplace"},
    {"tree": "quad", "max_depth": 4},
    {"max_depth": 3, "max_rounds": 2},  # ends with a roll call
]


@pytest.mark.parametrize("changes", TASKS, ids=lambda changes: "-".join(map(str, changes.values())) or "default")
def test_devices_over_http_give_the_root_of_the_simulation(store: Store, changes: dict[str, Any]) -> None:
    task = sample_task(**changes)
    points, secrets = sample_points(60), sample_secrets(60)

    async def scenario() -> None:
        clock = MockClock()
        async with running(store, clock) as (client, service, _):
            devices = await enrolled(client, store, open_campaign(task), points, secrets)
            assert start(store, task.id, clock())
            state = await play(client, devices, service=service)
            assert state["phase"] == "finished"
            run = simulate(points, task, secrets=secrets, detail="reports")
            events = await transcript(client, task, rounds=state["closed"])
            assert events == [encode(event) for event in run.events]
            root = transcript_root(run.events)
            assert merkle_root([leaf_hash(event) for event in events]) == root
            assert verify(store, task.id).root == root
            assert [device.machine.moves for device in devices] == run.moves.tolist()

    asyncio.run(scenario())
