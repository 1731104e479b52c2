"""Keystone (c) and (d) over real sockets: one server on SQLite, one on PostgreSQL."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from semilocal.protocol.curator import Curator
from semilocal.protocol.messages import Checkpoint, ValueClosed, decode, encode
from semilocal.protocol.plan import Release
from semilocal.release import collected_mean
from semilocal.service.rounds import chain_for, create_campaign, with_chain
from semilocal.service.stores.base import open_store
from semilocal.testing import Server, cluster, secrets_of
from semilocal.transcript.checkpoints import merkle_root, transcript_root
from tests.helpers import HANG
from tests.helpers.keystone import same_in_a_loop
from tests.helpers.service import Device, follow_campaign, open_campaign, postgres, sample_task, transcript  # fmt: skip
from tests.helpers.stored import verify

__all__ = ["postgres"]


async def scenario(server: Server, count: int) -> None:
    task = sample_task(k=10)
    campaign = open_campaign(
        task,
        releases=(Release.ask("mean", "coordinate", epsilon=4.0, parameters=[0]), Release("counts")),
        capacity=count,
    )
    store = open_store(server.database, worker="test")
    campaign = with_chain(store, campaign)
    task = campaign.task
    create_campaign(store, campaign, now=0)
    points, secrets = cluster(count), secrets_of(count)
    limits = httpx2.Limits(max_connections=32)
    async with httpx2.AsyncClient(base_url=server.url, limits=limits, timeout=HANG) as client:
        devices = [
            Device(client, task, point, secret, plan=campaign.plan)
            for point, secret in zip(points, secrets, strict=True)
        ]
        answers = await asyncio.gather(*(device.enrol() for device in devices))
        assert {answer.status_code for answer in answers} == {201}
        state = await follow_campaign(client, devices)
        assert state["phase"] == "finished"
        assert state["enrolled"] == count
        run, simulated = same_in_a_loop(task, points, secrets, campaign.plan, chain_for(store, task))
        events = await transcript(client, task, rounds=state["closed"], plan=campaign.plan)
        assert events == [encode(event) for event in simulated]
        for number, so_far in ((run.rounds, list(run.events)), (state["closed"], simulated)):
            data = (await client.get(f"/tasks/{task.id.hex()}/rounds/{number}/checkpoint")).content
            checkpoint = decode(data, Checkpoint)
            assert (checkpoint.root, checkpoint.size) == (transcript_root(so_far), len(so_far))
        last = verify(store, task.id)
        assert last.root == merkle_root(events)
        closed = decode(events[-1], ValueClosed)
        overall = collected_mean(run.partition, closed, campaign.plan.releases[closed.index])
        # Six standard errors: a false alarm has a chance below 1e-8.
        assert abs(overall.value - points[:, 0].mean()) < 6 * overall.stderr
        assert overall.participants == count
        results = (await client.get(f"/tasks/{task.id.hex()}/results")).json()
        assert [region["crowd"] for region in results["regions"]] == run.partition.crowds.tolist()
        assert results["releases"][1]["total"] == count
        drawn = (await client.get(f"/tasks/{task.id.hex()}/regions.geojson")).json()
        assert drawn == Curator.replay(task, run.events).partition.to_geojson()
    store.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_one_process_gives_the_root_of_the_simulation(kind: str, tmp_path: Path, request: Any) -> None:
    url = f"sqlite:///{tmp_path / 'service.db'}"
    if kind == "postgresql":
        url = request.getfixturevalue("postgres").new_database()
    server = Server(url, log=tmp_path / "log.txt")
    server.start()
    try:
        asyncio.run(scenario(server, 60))
    finally:
        server.stop()
