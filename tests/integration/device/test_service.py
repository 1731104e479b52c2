"""Agents and swarms against the real service: in process, over sockets, through kill -9, and from the command line."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from semilocal import Run, simulate
from semilocal.cli.main import main
from semilocal.device.agent import Agent
from semilocal.device.channel import Channels, Retry
from semilocal.device.disk import MemoryDisk
from semilocal.device.swarm import SwarmResult, run_swarm
from semilocal.device.transport import LeanWire
from semilocal.device.vault import Vault
from semilocal.protocol.plan import Release
from semilocal.service.campaign import Campaign
from semilocal.service.rounds import create_campaign, new_tokens, with_chain
from semilocal.service.stores.base import open_store
from semilocal.testing import ALLOW_ALL, Server, cluster, running_app, secrets_of
from semilocal.transcript.checkpoints import transcript_root
from tests.helpers import HANG
from tests.helpers.forked import ForkedServer
from tests.helpers.service import open_campaign, sample_task
from tests.helpers.stored import verify

MEAN = Release.ask("mean", "coordinate", epsilon=1.0, parameters=[0])
SIZE = 60
QUICK = Retry(first=0.02, longest=0.3, patience=60.0)


def secrets_in_order(size: int) -> tuple[Iterator[bytes], list[bytes]]:
    secrets = secrets_of(size)
    return iter(secrets), secrets


def simulated(points: object, secrets: list[bytes]) -> Run:
    return simulate(np.asarray(points), sample_task(), secrets=secrets)


def check(result: SwarmResult, run: Run) -> None:
    assert result.failures == ()
    assert [summary.outcome for summary in result.summaries] == ["finished"] * SIZE
    rows = zip(run.partition.lower.tolist(), run.partition.upper.tolist(), strict=True)
    regions = list(rows)
    assert [summary.region for summary in result.summaries] == [regions[row] for row in run.regions]
    assert [summary.members for summary in result.summaries] == run.partition.crowds[run.regions].tolist()


def test_agents_against_the_application_in_process_give_the_transcript_of_the_simulation(tmp_path: Path) -> None:
    points, task = cluster(SIZE), sample_task()
    entropy, secrets = secrets_in_order(SIZE)

    async def scene() -> tuple[SwarmResult, bytes]:
        store = open_store(f"sqlite:///{tmp_path / 'service.db'}", worker="test")
        try:
            async with running_app(store, time.time, interval=0.02) as (client, _, _app):
                assert create_campaign(store, open_campaign(task, capacity=SIZE), now=time.time())
                connect = Channels(lambda origin: client, retry=QUICK)
                url = f"http://service.test/tasks/{task.id.hex()}"
                result = await asyncio.wait_for(
                    run_swarm(
                        url, points, policy=ALLOW_ALL, connect=connect, entropy=lambda size: next(entropy), show=False
                    ),
                    60,
                )
                await connect.aclose()
                return result, verify(store, task.id).root
        finally:
            store.close()

    result, root = asyncio.run(scene())
    run = simulated(points, secrets)
    assert root == transcript_root(run.events)
    check(result, run)
    assert {summary.checkpoint for summary in result.summaries} == {root}
    assert f"{SIZE} devices: {SIZE} finished" in result.text()
    assert f"promised k = {task.k} except with probability {task.delta:g}" in result.text()
    assert "between any two places of one's region" in result.text()
    assert result.reports <= 16 * SIZE  # an enrolment, and 15 reports on average at most


@pytest.mark.slow
def test_a_swarm_survives_a_server_that_is_killed_again_and_again(tmp_path: Path) -> None:
    points, task = cluster(SIZE), sample_task()
    entropy, secrets = secrets_in_order(SIZE)
    database = f"sqlite:///{tmp_path / 'service.db'}"
    store = open_store(database, worker="office")
    assert create_campaign(store, open_campaign(task, releases=(MEAN,), capacity=SIZE), now=time.time())
    server = ForkedServer(database, log=tmp_path / "log.txt")
    server.start()
    kills = 0

    async def scene() -> SwarmResult:
        nonlocal kills
        wire = LeanWire(server.url)
        connect = Channels(lambda origin: wire, retry=QUICK, at_once=8)
        crowd = run_swarm(
            f"{server.url}/tasks/{task.id.hex()}", points, policy=ALLOW_ALL, connect=connect,
            entropy=lambda size: next(entropy), show=False,
        )  # fmt: skip
        running_swarm = asyncio.ensure_future(crowd)
        seen = 0
        while not running_swarm.done():
            await asyncio.sleep(0.005)
            if kills < 5 and connect.delivered >= seen + 45:
                await asyncio.to_thread(server.kill)
                kills += 1
                await asyncio.sleep(0.1)
                await asyncio.to_thread(server.start)
                seen = connect.delivered
        result = await running_swarm
        await connect.aclose()
        await wire.aclose()
        return result

    try:
        result = asyncio.run(asyncio.wait_for(scene(), HANG))
        root = verify(store, task.id).root
    finally:
        server.kill()
        store.close()
    assert kills == 5
    run = simulated(points, secrets)
    check(result, run)
    assert root != transcript_root(run.events)  # the values come after the partition
    assert all(len(summary.values) == 1 for summary in result.summaries)


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
