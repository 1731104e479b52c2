"""A whole campaign four ways, compared to the last bit: machines in a loop, the simulation, and devices over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import httpx2

from semilocal import Participant, Task, simulate
from semilocal.arrays import Floats
from semilocal.protocol.keys import HashChain
from semilocal.protocol.messages import Event, encode
from semilocal.protocol.plan import Plan, Release
from semilocal.service.rounds import chain_for, start, with_chain
from semilocal.service.stores.base import Store
from semilocal.simulation.simulate import Run
from semilocal.testing import ALLOW_ALL, MockClock, play, running_app
from semilocal.transcript.checkpoints import merkle_root, transcript_root
from tests.helpers.play_values import play_values
from tests.helpers.service import enrolled, follow_campaign, open_campaign, transcript
from tests.helpers.stored import verify

Look = Callable[[httpx2.AsyncClient, Task, Run], Awaitable[None]]


def same_in_a_loop(
    task: Task, points: Floats, secrets: list[bytes], plan: Plan, chain: HashChain | None = None,
    values: list[float] | None = None,
) -> tuple[Run, list[Event]]:  # fmt: skip
    """The simulation and its events, values included; machines in a loop must give the same."""
    own: list[float | None] = [None] * len(secrets) if values is None else list(values)
    machines = [
        Participant(task, point, secret, ALLOW_ALL, plan=plan, value=value)
        for point, secret, value in zip(points, secrets, own, strict=True)
    ]
    played = play(task, machines, plan=plan, chain=chain)
    run = simulate(points, task, secrets=secrets, chain=chain)
    simulated = [*run.events, *play_values(run, points, plan, secrets, values=values)]
    assert [encode(event) for event in played.events] == [encode(event) for event in simulated]
    codes = list(zip(run.partition.lower.tolist(), run.partition.upper.tolist(), strict=True))
    assert [machine.region for machine in machines] == [codes[row] for row in run.regions.tolist()]
    return run, simulated


async def same_over_http(
    store: Store, task: Task, points: Floats, secrets: list[bytes], releases: Sequence[Release],
    look: Look | None = None, *, values: list[float] | None = None,
) -> None:  # fmt: skip
    """Rounds of values included; ``look`` sees the server after the end, the task and the run of the simulation."""
    clock = MockClock()
    async with running_app(store, clock) as (client, service, _):
        campaign = with_chain(store, open_campaign(task, releases=tuple(releases)))
        task = campaign.task
        devices = await enrolled(client, store, campaign, points, secrets, values=values)
        assert start(store, task.id, clock())
        state = await follow_campaign(client, devices, service=service)
        assert state["phase"] == "finished"
        run, simulated = same_in_a_loop(task, points, secrets, campaign.plan, chain_for(store, task), values)
        events = await transcript(client, task, rounds=state["closed"], plan=campaign.plan)
        assert events == [encode(event) for event in simulated]
        root = transcript_root(simulated)
        assert merkle_root(events) == root
        assert verify(store, task.id).root == root
        if look is not None:
            await look(client, task, run)
