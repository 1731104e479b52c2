"""One token and one vault against the real service; see ``tests/keystone`` and ``tests/e2e`` for whole campaigns."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from semilocal.device.agent import Agent
from semilocal.device.disk import MemoryDisk
from semilocal.device.vault import Vault
from semilocal.service.campaign import Campaign
from semilocal.service.rounds import create_campaign, new_tokens
from semilocal.service.stores.base import open_store
from semilocal.testing import ALLOW_ALL, Server
from tests.helpers import HANG
from tests.helpers.forked import ForkedServer
from tests.helpers.service import sample_task


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    served = ForkedServer(f"sqlite:///{tmp_path / 'service.db'}", log=tmp_path / "log.txt")
    served.start()
    yield served
    served.kill()


def test_a_token_enrols_one_vault_only_and_its_retry_is_safe(server: Server) -> None:
    task = sample_task()
    store = open_store(server.database, worker="office")
    assert create_campaign(store, Campaign("test", task, (), "tokens", 2), now=time.time())
    token, other = new_tokens(store, task.id, count=2)
    store.close()
    url, disk = f"{server.url}/tasks/{task.id.hex()}", MemoryDisk()

    async def start(name: str, token: str, *, leave: bool = False) -> str:
        """To the end, or until it has enrolled."""
        with Vault.open(name, disk=disk) as vault:
            agent = Agent(url, vault, position=(0.3, 0.3), policy=ALLOW_ALL, token=token)
            running_agent = asyncio.ensure_future(agent.run())
            while leave and not running_agent.done() and not any(m.enrolled for m in vault.contents.memberships):
                await asyncio.sleep(0.01)
            if leave and running_agent.cancel():
                await asyncio.wait([running_agent])
                return agent.summary().outcome
            summary = await asyncio.wait_for(running_agent, HANG)
            return f"{summary.outcome} {summary.token}".strip()

    async def scene() -> list[str]:
        said = [await start("first", token, leave=True)]
        with Vault.open("first", disk=disk) as vault:  # as if the answer to the enrolment had been lost
            entry = vault.contents.memberships[0]
            vault.put(msgspec.structs.replace(entry, enrolled=False))
        said.append(await start("wiped", token, leave=True))
        said.append(await start("first", token, leave=True))
        both = await asyncio.gather(start("first", token), start("second", other))
        return [*said, *both]

    assert asyncio.run(scene()) == ["unfinished", "refused token-used", "unfinished", "finished", "finished"]
