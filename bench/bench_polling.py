"""Ten thousand devices that poll one server, with the file limit that the service sets for itself.

    python -m bench.bench_polling [--devices 10000]

Every device holds one connection and asks for the state of a campaign with ``after=0&wait=25``, as ``semilocal join``
does. While all of them wait, an ordinary request is sent 200 times; then the campaign is cancelled, and every poll
must be answered with the new state. The server starts with a soft limit of 1,024 open files and raises it itself; the
hard limit of the system must allow one file per device.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx2
import uvloop

from bench import machine
from semilocal.service.rounds import create_campaign
from semilocal.service.stores.base import open_store
from semilocal.testing import ADMIN_TOKEN, Server
from tests.helpers.nginx import peak_memory
from tests.helpers.service import open_campaign, sample_task

REQUESTS = 200
TURN = 500  # connections opened at a time


class Poller(asyncio.Protocol):
    """One device: polls again and again until the campaign has ended."""

    def __init__(self, request: bytes, ended: asyncio.Queue[float]) -> None:
        self._request, self._ended, self._data = request, ended, b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, found, body = self._data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0) if found else 0
        if not found or len(body) < length:
            return
        self._data = b""
        if b'"cancelled"' in body:
            self._ended.put_nowait(time.perf_counter())
            self._transport.close()
        else:
            self._transport.write(self._request)


async def measure(server: Server, task: str, devices: int) -> bool:
    """Print what it takes; whether every poll was answered."""
    loop, ended = asyncio.get_running_loop(), asyncio.Queue[float]()
    poll = f"GET /tasks/{task}/state?after=0&wait=25 HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    began = time.perf_counter()
    for first in range(0, devices, TURN):
        batch = range(first, min(first + TURN, devices))
        await asyncio.gather(
            *(loop.create_connection(lambda: Poller(poll, ended), "127.0.0.1", server.port) for _ in batch)
        )
    joined = time.perf_counter() - began
    took = []
    async with httpx2.AsyncClient(timeout=60) as client:
        for _ in range(REQUESTS):
            start = time.perf_counter()
            assert (await client.get(f"{server.url}/tasks")).status_code == 200
            took.append(1e3 * (time.perf_counter() - start))
        start = time.perf_counter()
        admin = {"authorization": f"Bearer {ADMIN_TOKEN}"}
        assert (await client.post(f"{server.url}/tasks/{task}/close", headers=admin)).status_code == 200
    last = 0.0
    answered = 0
    try:
        async with asyncio.timeout(120):
            for _ in range(devices):
                last, answered = await ended.get(), answered + 1
    except TimeoutError:
        pass
    assert server.process is not None
    memory = peak_memory(server.process.pid)
    print(f"{devices:,} polling devices joined in {joined:.1f} s; server {memory / 1e6:.0f} MB")
    print(f"a request meanwhile: {sorted(took)[REQUESTS // 2]:.1f} ms (median), {max(took):.1f} ms (largest)")
    print(f"news reached {answered:,} of them in {last - start:.2f} s; load {os.getloadavg()[0]:.1f}")
    return answered == devices


def main() -> int:
    """Exit code 1 if a device was not answered."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=10_000)
    arguments = parser.parse_args()
    print(machine.line(), end="\n\n")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < arguments.devices + 200:
        print(f"the system allows {hard} open files; {arguments.devices + 200} are needed")
        return 1
    task = sample_task()
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))  # the server inherits it, and raises it itself
    with tempfile.TemporaryDirectory() as folder:
        server = Server(f"sqlite:///{folder}/service.db", log=Path(folder) / "log.txt")
        server.start()
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        try:
            store = open_store(server.database, worker="bench")
            create_campaign(store, open_campaign(task, capacity=10**6), now=time.time())
            store.close()
            return 0 if uvloop.run(measure(server, task.id.hex(), arguments.devices)) else 1
        finally:
            server.kill()


if __name__ == "__main__":
    sys.exit(main())
