"""Two servers on one PostgreSQL behind the nginx that ships: one is killed in the middle, and every device finishes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from semilocal.protocol.task import Task
from semilocal.service.rounds import create_campaign, with_chain
from semilocal.service.stores.base import Store, open_store
from semilocal.testing import Server, cluster
from tests.helpers import HANG
from tests.helpers.commands import write_people
from tests.helpers.forked import ForkedServer
from tests.helpers.nginx import Nginx, shipped_nginx
from tests.helpers.postgres import Postgres
from tests.helpers.service import open_campaign, sample_task
from tests.helpers.stored import verify

DEVICES = 2000
# All devices of the test share one address, and 200 requests per second are meant for a few.
ONE_ADDRESS = {"limit_req_zone": "$binary_remote_addr zone=requests:16m rate=200r/s->"
               "$binary_remote_addr zone=requests:16m rate=20000r/s"}  # fmt: skip


def swarm(proxy: Nginx, task: Task, people: Path) -> subprocess.Popen[str]:
    """All devices at once, through the proxy."""
    words = ["swarm", f"{proxy.url}/tasks/{task.id.hex()}", "--points", str(people), "--quiet"]
    return subprocess.Popen(
        [sys.executable, "-m", "semilocal", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "SSL_CERT_FILE": str(proxy.certificate)},
    )  # fmt: skip


def kill_in_the_middle(store: Store, task: Task, victim: Server) -> None:
    """A server dies while a later round is open."""
    deadline = time.monotonic() + HANG
    while (status := store.status(task.id)) is None or status.closed < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert status.phase == "collecting"
    victim.kill()


@pytest.mark.slow
def test_devices_finish_on_the_other_server_and_nothing_is_lost_or_doubled(tmp_path: Path, postgres: Postgres) -> None:
    database = postgres.new_database()
    servers = [ForkedServer(database, log=tmp_path / f"{number}.log") for number in range(2)]
    store = open_store(database, worker="test")
    people = write_people(tmp_path / "people.csv", cluster(DEVICES))
    try:
        for server in servers:
            server.start(wait=False)
        for server in servers:
            server.wait()
        # rounds close when everybody has answered, whatever dies meanwhile
        campaign = with_chain(store, open_campaign(sample_task(k=50, window=10**6), capacity=DEVICES))
        task = campaign.task
        create_campaign(store, campaign, now=time.time())
        with shipped_nginx(tmp_path / "nginx", *(server.port for server in servers), **ONE_ADDRESS) as proxy:
            devices = swarm(proxy, task, people)
            try:
                kill_in_the_middle(store, task, servers[0])
                said, _ = devices.communicate(timeout=HANG)
            finally:
                devices.kill()
                devices.wait()
        assert devices.returncode == 0, said
        assert f"{DEVICES:,} devices: {DEVICES:,} finished" in said
        status = store.status(task.id)
        assert status is not None
        assert (status.phase, status.enrolled) == ("finished", DEVICES)
        first = store.reports(task.id, 1, after=b"", limit=10_000)
        assert len({row.pseudonym for row in first}) == len(first) == DEVICES
        assert verify(store, task.id).root  # every tally counted again, one report per participant and round
    finally:
        store.close()
        for server in servers:
            server.kill()
