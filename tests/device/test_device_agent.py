"""An agent keeps a device's word over a bad network, through crashes, and against a server that lies."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from semilocal import simulate
from semilocal.device.summary import Summary
from semilocal.protocol.transcript import transcript_root

from .fake_server import MEAN, TASK, FakeServer, World, crowd

SIZE = 24


async def play(world: World, points: list[tuple[float, ...]]) -> list[Summary]:
    """All devices at once, on one channel."""
    channel = world.channel()
    vaults = [world.vault(f"device{number}") for number in range(len(points))]
    agents = [
        world.agent(vault, point, channel=channel) for vault, point in zip(vaults, points, strict=True)
    ]
    try:
        return await asyncio.gather(*(agent.run() for agent in agents))
    finally:
        await channel.aclose()
        for vault in vaults:
            vault.close()


def test_agents_over_http_give_the_transcript_of_the_simulation() -> None:
    points = crowd(SIZE)
    world = World(FakeServer(capacity=SIZE))
    summaries = asyncio.run(play(world, points))
    secrets = [world.secrets[f"device{number}"] for number in range(SIZE)]
    run = simulate(np.array(points), TASK, secrets=secrets, detail="reports")
    assert world.server.root() == transcript_root(run.events)
    assert [summary.region for summary in summaries] == run.partition.cells[run.regions].tolist()
    assert [summary.crowd for summary in summaries] == run.partition.crowds[run.regions].tolist()
    assert [summary.moves for summary in summaries] == run.moves.tolist()
    assert len(world.server.closings) > 2
