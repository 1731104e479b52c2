"""Devices against the real service, from the command line; see ``tests/keystone`` and ``tests/e2e`` for the others."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from semilocal.cli.main import main
from semilocal.device.agent import Agent
from semilocal.device.disk import MemoryDisk
from semilocal.device.vault import Vault
from semilocal.protocol.plan import Release
from semilocal.service.campaign import Campaign
from semilocal.service.rounds import create_campaign, new_tokens, with_chain
from semilocal.service.stores.base import open_store
from semilocal.testing import ALLOW_ALL, Server, cluster
from tests.helpers import HANG
from tests.helpers.forked import ForkedServer
from tests.helpers.service import sample_task

MEAN = Release.ask("mean", "coordinate", epsilon=1.0, parameters=[0])
SIZE = 60


def commands(*arguments: str) -> int:
    return main(arguments)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    served = ForkedServer(f"sqlite:///{tmp_path / 'service.db'}", log=tmp_path / "log.txt")
    served.start()
    yield served
    served.kill()


def test_join_and_swarm_from_the_command_line(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = open_store(server.database, worker="office")
    campaign = with_chain(store, Campaign("test", sample_task(), (MEAN,), "tokens", SIZE + 1))
    task = campaign.task
    assert create_campaign(store, campaign, now=time.time())
    tokens = new_tokens(store, task.id, count=SIZE + 1)
    store.close()
    (tmp_path / "tokens.txt").write_text("\n".join(tokens[:-1]))
    lines = [f"{x},{y}" for x, y in cluster(SIZE)]
    (tmp_path / "points.csv").write_text("\n".join(["x0,x1", *lines]))
    codes: list[int] = []
    crowd = ["swarm", server.url, "--points", str(tmp_path / "points.csv"), "--devices", str(SIZE), "--quiet"]
    crowd += ["--tokens", str(tmp_path / "tokens.txt")]
    swarm = threading.Thread(target=lambda: codes.append(commands(*crowd)))
    swarm.start()
    vault = str(tmp_path / "mine" / "vault")
    join = ["join", server.url, "--token", tokens[-1], "--position", "0.3,0.31", "--vault", vault]
    join += ["--spread", "0", "--yes", "--min-k", "2", "--max-delta", "0.1"]
    code = commands(*join)
    swarm.join(HANG)
    assert not swarm.is_alive()
    assert (code, codes) == (0, [0])
    said = capsys.readouterr().out
    for words in (
        "Your position: x0 = 0.3, x1 = 0.31. It stays on this device.", "You have a region.", "What you spent:",
        "Everybody learns, under your pseudonym", f"{SIZE} devices: {SIZE} finished", "The transcript's root is",
    ):  # fmt: skip
        assert words in said
    with Vault.open(vault) as opened:
        assert opened.contents.ledger.max_epsilon == "10"
        assert opened.contents.ledger.charged in (1, 3, 5)  # the value, and up to two answers inside


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
