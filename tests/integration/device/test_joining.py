"""Whether a device joins the next task tells nothing about the last one: it is settled by what is public.

Agents with their vaults on disk, against a server process. One of them lives where nobody else does and is moved.
"""

from __future__ import annotations

import asyncio
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from semilocal import Box, Task
from semilocal.device.agent import Agent
from semilocal.device.channel import Channel, Retry
from semilocal.device.swarm.run import SwarmResult, run_swarm
from semilocal.device.transport import LeanWire
from semilocal.device.vault import Vault
from semilocal.errors import BudgetExceeded
from semilocal.service.admin import create_campaign
from semilocal.service.stores.base import open_store
from semilocal.testing import ALLOW_ALL, Server, running_server
from tests.helpers import HANG
from tests.helpers.service import open_campaign

SIZE = 24
MOVED, STAYED = SIZE - 1, 0  # devices: one far away from all others, one among them
POINTS = np.append(np.linspace(0.05, 0.45, SIZE - 1), 0.9)[:, None]
LINE = Box((0.0,), (1.0,))
# A report is wrong with probability e^-20: the two see the same verdicts in every run (false alarm below 1e-6).
FIRST = Task.build(LINE, epsilon=20.0, delta=0.05, k=5, max_trims=1, max_depth=4, window=60)
NEXT = Task.build(LINE, epsilon=1.0, delta=0.05, k=2, max_trims=1, max_depth=2, window=60)
QUICK = Retry(first=0.02, longest=0.3, patience=60.0)


async def play_first(server: Server, folder: Path) -> SwarmResult:
    wire = LeanWire(server.url)
    channel = Channel(server.url, wire, retry=QUICK)
    url = f"{server.url}/tasks/{FIRST.id.hex()}"
    result = await run_swarm(url, POINTS, policy=ALLOW_ALL, channel=channel, folder=folder, show=False)
    await channel.aclose()
    await wire.aclose()
    return result


async def join_next(server: Server, folder: Path, cap: Fraction) -> list[str]:
    """How the two devices fare that try to join the second task under a cap."""
    wire = LeanWire(server.url)
    channel = Channel(server.url, wire, retry=QUICK)

    async def one(number: int) -> str:
        with Vault.open(folder / f"device-{number:06d}") as vault:
            vault.set_caps(max_epsilon=cap, max_exposure=None)
            position = tuple(POINTS[number])
            agent = Agent(
                f"{server.url}/tasks/{NEXT.id.hex()}", vault, position=position, policy=ALLOW_ALL, channel=channel
            )
            try:
                return (await agent.run()).outcome
            except BudgetExceeded:
                return "stayed out"

    ends = await asyncio.wait_for(asyncio.gather(one(MOVED), one(STAYED)), HANG)
    await channel.aclose()
    await wire.aclose()
    return list(ends)


@pytest.mark.parametrize(("spare", "end"), [(Fraction(0), "finished"), (Fraction(-1, 1000), "stayed out")])
def test_a_moved_device_and_one_that_stayed_join_the_same_tasks(tmp_path: Path, spare: Fraction, end: str) -> None:
    database = f"sqlite:///{tmp_path / 'service.db'}"
    with running_server(database, log=tmp_path / "log.txt") as server:
        store = open_store(database, worker="office")
        assert create_campaign(store, open_campaign(FIRST, capacity=SIZE), now=time.time())
        result = asyncio.run(play_first(server, tmp_path / "vaults"))
        moved, stayed = result.summaries[MOVED], result.summaries[STAYED]
        assert (moved.outcome, stayed.outcome) == ("finished", "finished")
        assert (moved.moves, stayed.moves) == (1, 0)
        assert moved.trims == stayed.trims == 1
        assert moved.epsilon == stayed.epsilon == 40.0
        assert create_campaign(store, open_campaign(NEXT, capacity=2), now=time.time())
        cap = 40 + Fraction(NEXT.epsilon_worst) + spare
        assert asyncio.run(join_next(server, tmp_path / "vaults", cap)) == [end, end]
        store.close()
    # With a ledger that books (1 + own moves) reports, the one that stayed would have 20 to spare and join either way.
    assert 20 * (1 + stayed.moves) + Fraction(NEXT.epsilon_worst) <= cap
