"""Devices of the page, in Node, take part in campaigns of real servers beside the package's devices."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from semilocal import Participant, Policy
from semilocal.device.download import save_transcript
from semilocal.device.swarm import run_swarm
from semilocal.pooled import PooledTask
from semilocal.protocol.plan import Release
from semilocal.service.rounds import create_campaign, with_chain
from semilocal.service.stores.base import open_store
from semilocal.testing import ADMIN_TOKEN, ALLOW_ALL, Server, cluster, running_server, secrets_of, unit_box
from semilocal.testing.app import SIGNING_KEY
from semilocal.transcript.checkpoints import public_key
from tests.e2e.test_two_servers import servers, wait_for  # noqa: F401
from tests.helpers import HANG
from tests.helpers.own_reports import check_own_reports
from tests.helpers.service import open_campaign, sample_task, unmet

AGENTS = Path(__file__).parents[1] / "page" / "agents.mjs"
ADMIN = {"authorization": f"Bearer {ADMIN_TOKEN}"}
LIMITS: dict[str, Any] = {"max_epsilon": 100.0, "min_k": 5, "max_delta": 0.05}


async def page_devices(told: dict[str, Any], outcome: str) -> list[dict[str, Any]]:
    """What devices of the page report of themselves; they run in one Node."""
    node = shutil.which("node")
    if node is None:
        unmet("node is not installed")
    assert node is not None
    process = await asyncio.create_subprocess_exec(
        node, str(AGENTS), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(json.dumps(told).encode()), HANG)
    assert process.returncode == 0, err.decode()[-4000:]
    found: list[dict[str, Any]] = json.loads(out)
    assert {device["outcome"] for device in found} == {outcome}, found  # else the others would wait for them
    return found


def test_three_devices_of_the_page_finish_a_campaign_with_others(tmp_path: Path) -> None:
    release = Release.ask("mean", "coordinate", epsilon=1.0, parameters=[0])
    points, secrets = cluster(60, seed=15), secrets_of(3, seed=15)
    database = f"sqlite:///{tmp_path}/a.db"
    devices = [{"position": points[i].tolist(), "secret": secrets[i].hex(), "token": ""} for i in range(3)]

    async def everybody(url: str, task: str) -> tuple[Any, list[dict[str, Any]]]:
        told = {"server": url, "task": task, "kind": "task", "devices": devices, "policy": LIMITS}
        swarm = run_swarm(f"{url}/tasks/{task}", points[3:], policy=Policy(**LIMITS), show=False)
        found, page = await asyncio.gather(swarm, page_devices(told, "finished"))
        return found, page

    with running_server(database, log=tmp_path / "log") as server:
        store = open_store(database)
        unchained = sample_task(server_key=public_key(SIGNING_KEY), window=600, max_depth=6)
        campaign = with_chain(store, open_campaign(unchained, releases=(release,), capacity=len(points)))
        task = campaign.task
        assert create_campaign(store, campaign, now=0.0)
        store.close()
        swarm, page = asyncio.run(everybody(server.url, task.id.hex()))
        save_transcript(server.url, task.id.hex(), tmp_path / "t.slt")
    assert {summary.outcome for summary in swarm.summaries} == {"finished"}
    retries = 0
    for i, device in enumerate(page):
        again = Participant(task, points[i], secrets[i], ALLOW_ALL, plan=campaign.plan)
        check_own_reports(tmp_path / "t.slt", again, device["reported"])
        assert device["released"] == [0]
        # every report was sent at least once, and never with other bytes
        sent = {path: data for _, path, data in device["sent"]}
        assert {(path, data) for _, path, data in device["sent"]} == set(sent.items())
        retries += max(Counter(path for _, path, _ in device["sent"]).values()) > 1
        assert "delta = 0" in "\n".join(device["lines"])
        same = [summary for summary in swarm.summaries if summary.region == tuple(map(int, device["region"]))]
        assert all(summary.members == device["members"] for summary in same)
    assert retries, "no device sent a report twice"


def propose_pair(leader: str, helper: str, epsilon: float, **more: Any) -> str:
    """A task of two servers that nobody has confirmed yet; more fields of its form."""
    pooled = PooledTask.build(unit_box(), epsilon=epsilon, trust="two-servers", max_depth=8)
    form = {
        "name": "crowd", "pooled": msgspec.to_builtins(pooled), "enrolment": "open",
        "peer_key": httpx2.get(f"{helper}/operator").json()["signing_key"], **more,
    }  # fmt: skip
    created = httpx2.post(f"{leader}/pairs", json=form, headers=ADMIN)
    assert created.status_code == 201, created.text
    task: str = created.json()["task"]
    wait_for(helper, task, "confirming")
    return task


def confirm_pair(leader: str, helper: str, task: str) -> None:
    """Let both operators confirm."""
    for url in (leader, helper):
        assert httpx2.post(f"{url}/tasks/{task}/confirm", headers=ADMIN).status_code == 200
    wait_for(leader, task, "open")
    wait_for(helper, task, "open")


def open_pair(leader: str, helper: str, epsilon: float = 8.0, more: dict[str, Any] | None = None) -> str:
    """A task of two servers that takes uploads; more fields of its form."""
    task = propose_pair(leader, helper, epsilon, **(more or {}))
    confirm_pair(leader, helper, task)
    return task


def test_devices_of_the_page_upload_to_two_servers_once(servers: tuple[Server, Server]) -> None:  # noqa: F811
    leader, helper = (server.url for server in servers)
    task = propose_pair(leader, helper, 20.0)
    points = cluster(43, seed=16)
    devices = [
        {"position": points[i].tolist(), "secret": secret.hex(), "token": ""}
        for i, secret in enumerate(secrets_of(3, seed=16))
    ]
    told = {"server": leader, "task": task, "kind": "pair", "devices": devices, "policy": LIMITS}
    early = asyncio.run(page_devices(told, "refused"))
    assert {len(device["sent"]) for device in early} == {0}
    confirm_pair(leader, helper, task)

    async def everybody() -> list[dict[str, Any]]:
        url = f"{helper}/tasks/{task}"
        _, found = await asyncio.gather(
            run_swarm(url, points[3:], policy=Policy(**LIMITS), show=False), page_devices(told, "uploaded")
        )
        page: list[dict[str, Any]] = found
        return page

    page = asyncio.run(everybody())
    for device in page:
        (first, second) = device["sent"]
        assert first == second, "a retry sends the same bytes"
        assert device["epsilon"] == 20.0
        assert "epsilon = 20 (delta = 0) between any two positions of one person" in "\n".join(device["lines"])
    assert httpx2.post(f"{leader}/tasks/{task}/start", headers=ADMIN).status_code == 200
    wait_for(leader, task, "done")
    state = httpx2.get(f"{leader}/tasks/{task}/state").json()
    assert (state["received"], state["refused"]) == (43, 0), state
    results = httpx2.get(f"{leader}/tasks/{task}/results").json()
    assert (results["reports"], results["rejected"]) == (43, 0)
