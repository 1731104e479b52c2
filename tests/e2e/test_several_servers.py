"""Two servers on one PostgreSQL behind the nginx that ships: one is killed in the middle, and every device finishes."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from semilocal.device.agent import Agent
from semilocal.device.channel import Channel, Retry
from semilocal.device.disk import MemoryDisk
from semilocal.device.transport import new_client
from semilocal.device.vault import Vault
from semilocal.service.admin import create_campaign
from semilocal.service.stores.base import Store, open_store
from semilocal.testing import ALLOW_ALL, Postgres, Server, cluster
from tests.helpers import HANG
from tests.helpers.flood import trusting
from tests.helpers.long import times
from tests.helpers.nginx import Nginx, shipped_nginx
from tests.helpers.service import open_campaign, sample_task
from tests.helpers.stored import verify

DEVICES = times(120, long=2000)
TASK = sample_task(max_depth=6, window=10**6)  # rounds close when everybody has answered, whatever dies meanwhile


async def play(proxy: Nginx, store: Store, victim: Server) -> list[str]:
    """All devices at once, through the proxy; a server dies while a later round is open."""
    client = new_client(connections=32, verify=trusting(proxy.certificate))
    channel = Channel(proxy.url, client, retry=Retry(first=0.05, longest=0.5))
    address = f"{proxy.url}/tasks/{TASK.id.hex()}"
    agents = [
        Agent(
            address,
            Vault.open(f"device{number}", disk=MemoryDisk()),
            position=tuple(point),
            policy=ALLOW_ALL,
            channel=channel,
        )
        for number, point in enumerate(cluster(DEVICES).tolist())
    ]

    async def kill() -> None:
        while (status := store.status(TASK.id)) is None or status.closed < 2:
            await asyncio.sleep(0.02)
        assert status.phase == "collecting"
        await asyncio.to_thread(victim.kill)

    killing = asyncio.create_task(kill())
    summaries = await asyncio.wait_for(asyncio.gather(*(agent.run() for agent in agents)), HANG)
    await asyncio.wait_for(killing, HANG)
    await channel.aclose()
    await client.aclose()
    return [summary.outcome for summary in summaries]


def test_devices_finish_on_the_other_server_and_nothing_is_lost_or_doubled(tmp_path: Path, postgres: Postgres) -> None:
    database = postgres.new_database()
    servers = [Server(database, log=tmp_path / f"{number}.log") for number in range(2)]
    store = open_store(database, worker="test")
    try:
        for server in servers:
            server.start(wait=False)
        for server in servers:
            server.wait()
        create_campaign(store, open_campaign(TASK, capacity=DEVICES), now=time.time())
        with shipped_nginx(tmp_path / "nginx", *(server.port for server in servers)) as proxy:
            assert asyncio.run(play(proxy, store, servers[0])) == ["finished"] * DEVICES
        status = store.status(TASK.id)
        assert status is not None
        assert (status.phase, status.enrolled) == ("finished", DEVICES)
        first = store.reports(TASK.id, 1, after=b"", limit=10_000)
        assert len({row.pseudonym for row in first}) == len(first) == DEVICES
        assert verify(store, TASK.id).root  # every tally counted again, one report per participant and round
    finally:
        store.close()
        for server in servers:
            server.kill()
