"""A real proxy that answers by itself for a while in the middle of a campaign: every device finishes."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from semilocal.device.agent import Agent
from semilocal.device.channel import Channel, Retry
from semilocal.device.disk import MemoryDisk
from semilocal.device.transport import LeanWire, new_client
from semilocal.device.vault import Vault
from semilocal.service.rounds import create_campaign
from semilocal.service.stores.base import open_store
from semilocal.testing import ALLOW_ALL, Server, cluster, free_port
from tests.helpers import HANG
from tests.helpers.forked import forked_server
from tests.helpers.nginx import running
from tests.helpers.service import open_campaign, sample_task
from tests.helpers.stored import verify

DEVICES = 30
CONFIGURATION = """
{user}
worker_processes 1;
error_log {home}/error.log;
pid {home}/nginx.pid;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_body_temp_path {home}/body; proxy_temp_path {home}/proxy; fastcgi_temp_path {home}/fastcgi;
  uwsgi_temp_path {home}/uwsgi; scgi_temp_path {home}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      if (-f {home}/answer-404) {{ return 404; }}
      if (-f {home}/answer-200) {{ return 200 "<html>log in first</html>"; }}
      if (-f {home}/answer-302) {{ return 302 http://127.0.0.1:1/portal; }}
      proxy_pass {url};
      proxy_http_version 1.1;
      proxy_read_timeout 60s;
    }}
  }}
}}
"""


@contextlib.contextmanager
def nginx(home: Path, server: Server) -> Iterator[str]:
    """nginx before a server, with switches that make it answer by itself; its address."""
    port = free_port()
    user = "user root;" if os.geteuid() == 0 else ""  # its workers must see the switches
    with running(home, CONFIGURATION.format(home=home, port=port, url=server.url, user=user), port):
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("lean", [True, False])
@pytest.mark.parametrize("stray", ["404", "200", "302"])
def test_a_proxy_that_answers_for_the_server_expels_nobody(tmp_path: Path, stray: str, lean: bool) -> None:
    home = tmp_path / "nginx"
    home.mkdir()
    task = sample_task(max_depth=5)
    with (
        forked_server(f"sqlite:///{tmp_path / 'service.db'}", log=tmp_path / "log.txt") as server,
        nginx(home, server) as url,
    ):
        store = open_store(server.database, worker="test")
        create_campaign(store, open_campaign(task, capacity=DEVICES), now=0)
        outcomes = asyncio.run(asyncio.wait_for(campaign(url, task.id.hex(), home / f"answer-{stray}", lean), HANG))
        assert outcomes == ["finished"] * DEVICES
        status = store.status(task.id)
        assert status is not None
        assert (status.phase, status.enrolled) == ("finished", DEVICES)
        assert len(store.reports(task.id, 1, after=b"", limit=1000)) == DEVICES
        verify(store, task.id)
        store.close()


async def campaign(url: str, task: str, switch: Path, lean: bool) -> list[str]:
    """Devices from enrolment to the end, while the proxy answers by itself for two seconds after some reports."""
    client = new_client(connections=16)
    wire = LeanWire(url) if lean else client
    channel = Channel(url, wire, retry=Retry(first=0.05, longest=0.5), at_once=8)
    disk = MemoryDisk()
    vaults = [Vault.open(f"device{number}", disk=disk) for number in range(DEVICES)]
    agents = [
        Agent(f"{url}/tasks/{task}", vault, position=tuple(point), policy=ALLOW_ALL, channel=channel)
        for vault, point in zip(vaults, cluster(DEVICES).tolist(), strict=True)
    ]

    async def interrupt() -> None:
        for reached in (DEVICES // 2, 3 * DEVICES // 2):  # while enrolling, and while reporting
            while channel.delivered < reached:
                await asyncio.sleep(0.001)
            switch.touch()
            async with new_client() as observer:
                stray = await observer.get(f"{url}/tasks")
            assert (stray.status_code, stray.headers["server"][:5]) == (int(switch.name[-3:]), "nginx")
            await asyncio.sleep(2.0 if reached > DEVICES else 0.5)
            switch.unlink()

    interrupted = asyncio.create_task(interrupt())
    summaries = await asyncio.gather(*(agent.run() for agent in agents))
    await interrupted
    await channel.aclose()
    await client.aclose()
    if isinstance(wire, LeanWire):
        await wire.aclose()
    return [summary.outcome for summary in summaries]
