"""A whole campaign over HTTP, compared with the simulation to the last bit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import httpx2

from semilocal import Task, simulate
from semilocal.arrays import Floats
from semilocal.protocol.messages import encode
from semilocal.protocol.plan import Release
from semilocal.service.rounds import start
from semilocal.service.stores.base import Store
from semilocal.simulation.run import Run
from semilocal.simulation.values import play_values, value_events
from semilocal.testing import MockClock, running_app
from semilocal.transcript.merkle import leaf_hash, merkle_root, transcript_root
from tests.helpers.service import enrolled, follow_campaign, open_campaign, transcript
from tests.helpers.stored import verify

Look = Callable[[httpx2.AsyncClient, Run], Awaitable[None]]


async def same_over_http(
    store: Store,
    task: Task,
    points: Floats,
    secrets: list[bytes],
    releases: Sequence[Release],
    look: Look | None = None,
) -> None:
    """Rounds of values included; ``look`` sees the server after the end, and the run of the simulation."""
    clock = MockClock()
    async with running_app(store, clock) as (client, service, _):
        campaign = open_campaign(task, releases=tuple(releases))
        devices = await enrolled(client, store, campaign, points, secrets)
        assert start(store, task.id, clock())
        state = await follow_campaign(client, devices, service=service)
        assert state["phase"] == "finished"
        run = simulate(points, task, secrets=secrets, detail="reports")
        simulated = [*run.events, *value_events(run, campaign.plan, play_values(run, points, campaign.plan, secrets))]
        events = await transcript(client, task, rounds=state["closed"], plan=campaign.plan)
        assert events == [encode(event) for event in simulated]
        root = transcript_root(simulated)
        assert merkle_root([leaf_hash(event) for event in events]) == root
        assert verify(store, task.id).root == root
        assert [device.machine.moves for device in devices] == run.moves.tolist()
        if look is not None:
            await look(client, run)
