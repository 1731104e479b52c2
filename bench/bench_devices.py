"""A whole campaign of real devices over HTTP: seconds, rounds and messages of a device.

    python -m bench.bench_devices [--devices 500] [--postgres]

The server is a process of its own, the devices are a swarm in this one: agents with vaults and secrets of their own,
that share connections. Targets: 10 s for 500 devices, 15 accepted messages of a device on average.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import tempfile
import time
from pathlib import Path

from bench import machine
from semilocal import Box, Task
from semilocal.device.swarm import run_swarm
from semilocal.service.campaign import Campaign
from semilocal.service.rounds import create_campaign, with_chain
from semilocal.service.stores.base import open_store
from semilocal.testing import ALLOW_ALL, Server, cluster
from tests.helpers.postgres import Postgres

SECONDS, MESSAGES = 10.0, 15.0


def measure(database: str, devices: int, folder: Path) -> bool:
    """Play one campaign; whether the targets are reached."""
    store = open_store(database, worker="bench")
    task = Task.build(Box((0, 0), (1, 1)), epsilon=2.0, delta=0.01, k=10, window=600)
    campaign = with_chain(store, Campaign("bench", task, (), "open", devices))
    server = Server(database, log=folder / "log.txt")
    server.start()
    try:
        create_campaign(store, campaign, now=time.time())
        url, before = f"{server.url}/tasks/{campaign.task.id.hex()}", (machine.family_seconds(), time.process_time())
        found = asyncio.run(run_swarm(url, cluster(devices), policy=ALLOW_ALL, show=False))
        both, own = machine.family_seconds() - before[0], time.process_time() - before[1]
    finally:
        server.stop()
        status = store.status(campaign.task.id)
        store.close()
    assert status is not None
    each = found.reports / devices
    print(
        f"{devices} devices: {found.seconds:.1f} s (target {SECONDS:g} for 500), {status.closed} rounds, {each:.1f} "
        f"messages of a device (target {MESSAGES:g}); {status.phase}. Processor time of a message: devices "
        f"{1e6 * own / found.reports:.0f} us, server {1e6 * (both - own) / found.reports:.0f} us; devices "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB"
    )
    if found.failures:
        print(found.text())
    return status.phase == "finished" and each <= MESSAGES and found.seconds <= SECONDS * max(1.0, devices / 500)


def main() -> int:
    """Print the numbers; exit code 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=500)
    parser.add_argument("--postgres", action="store_true", help="on a private cluster, else on SQLite")
    arguments = parser.parse_args()
    print(machine.line(), end="\n\n")
    cluster_ = Postgres() if arguments.postgres else None
    try:
        with tempfile.TemporaryDirectory() as folder:
            database = f"sqlite:///{folder}/bench.db" if cluster_ is None else cluster_.new_database()
            return 0 if measure(database, arguments.devices, Path(folder)) else 1
    finally:
        if cluster_ is not None:
            cluster_.stop()


if __name__ == "__main__":
    raise SystemExit(main())
