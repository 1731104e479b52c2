"""Durable, acknowledged reports per second, against the same HTTP server with a handler that only checks the body.

    python bench/bench_service.py [--seconds 4] [--repeat 3] [--connections 256] [--postgres URL]

Everything runs on this machine's loopback interface. A report counts when its 201 has arrived: it is then committed
to disk (SQLite: WAL with synchronous=FULL; PostgreSQL: synchronous_commit=on). The bare server is uvicorn with the same
settings and one route that reads the body, decodes the report, compares it with the path and answers 201. Runs are
interleaved, so that all see the same machine; the server's processor time per report is shown too, because it depends
less on what else the machine does. Without --postgres a private cluster is started, if PostgreSQL is installed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import uvloop

from semilocal import Box, Report, Task
from semilocal.protocol.messages import decode, encode
from semilocal.service import rounds
from semilocal.service.admin import create_campaign
from semilocal.service.campaign import Campaign
from semilocal.service.stores.base import Enrolment, open_store
from semilocal.testing import Postgres, free_port

ROOT = Path(__file__).resolve().parent.parent


class Measured(NamedTuple):
    """One run: reports per second, latencies in ms, and the server's processor time per report in microseconds."""

    rate: float
    p50: float
    p99: float
    refused: int
    took: float
    processor: float = 0.0


# -- the bare server -------------------------------------------------------------------------------------------------


def bare_app() -> Any:
    """One route that checks the same body and answers."""
    from starlette.routing import Route, Router

    class Bare:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            path = scope["path_params"]
            message = await receive()
            report = decode(message["body"], Report)
            fine = (
                report.task.hex() == path["task"]
                and report.round == int(path["round"])
                and report.pseudonym.hex() == path["pseudonym"]
            )
            await send(
                {"type": "http.response.start", "status": 201 if fine else 422, "headers": [(b"content-length", b"0")]}
            )
            await send({"type": "http.response.body", "body": b""})

    return Router([Route("/tasks/{task}/rounds/{round}/reports/{pseudonym}", Bare(), methods=["PUT"])])


def run_bare(port: int) -> None:
    """Serve the bare application; called in a process of its own."""
    import uvicorn

    uvicorn.run(
        bare_app(), host="127.0.0.1", port=port, access_log=False, log_level="warning", server_header=False,
        proxy_headers=False, timeout_keep_alive=65, backlog=4096, ws="none", lifespan="off",
    )  # fmt: skip


# -- the load --------------------------------------------------------------------------------------------------------


class Load:
    """Connections that each send one request after another and note how long the answers took."""

    def __init__(self, requests: list[bytes], seconds: float) -> None:
        self.requests, self.next = requests, 0
        self.end = time.perf_counter() + seconds
        self.latencies: list[float] = []
        self.refused = 0
        self.open = 0
        self.done = asyncio.get_running_loop().create_future()

    def take(self) -> bytes | None:
        if self.next >= len(self.requests) or time.perf_counter() > self.end:
            return None
        self.next += 1
        return self.requests[self.next - 1]


class Sender(asyncio.Protocol):
    """One keep-alive connection, one request at a time."""

    def __init__(self, load: Load) -> None:
        self.load, self.buffer = load, b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.load.open += 1
        self.send()

    def send(self) -> None:
        request = self.load.take()
        if request is None:
            self.transport.close()
            return
        self.sent = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = 0
        place = head.lower().find(b"content-length: ")
        if place >= 0:
            length = int(head[place + 16 :].split(b"\r\n", 1)[0])
        if len(rest) < length:
            return
        self.buffer = b""
        if head[9:12] == b"201":
            self.load.latencies.append(time.perf_counter() - self.sent)
        else:
            self.load.refused += 1
        self.send()

    def connection_lost(self, error: Exception | None) -> None:
        self.load.open -= 1
        if not self.load.open and not self.load.done.done():
            self.load.done.set_result(None)


async def measure(port: int, requests: list[bytes], *, connections: int, seconds: float) -> Measured:
    """Send requests over that many connections for that long."""
    loop = asyncio.get_running_loop()
    load = Load(requests, seconds)
    begun = time.perf_counter()
    await asyncio.gather(*(loop.create_connection(lambda: Sender(load), "127.0.0.1", port) for _ in range(connections)))
    await load.done
    took = time.perf_counter() - begun
    latencies = sorted(load.latencies)
    if not latencies:
        raise SystemExit("no report was accepted")
    return Measured(
        len(latencies) / took,
        1e3 * latencies[len(latencies) // 2],
        1e3 * latencies[int(len(latencies) * 0.99)],
        load.refused,
        took,
    )


def prepare(database: str, count: int) -> list[bytes]:
    """A campaign whose first round is open for ``count`` participants, and their requests."""
    store = open_store(database, worker="bench")
    # A name of its own makes a task of its own, so that a database can be used again.
    box = Box((0, 0), (1, 1), (f"x{secrets.token_hex(8)}", "y"))
    task = Task.build(box, epsilon=1.0, delta=1e-6, k=50, window=10**6)
    create_campaign(store, Campaign("bench", task, (), "open"), now=time.time())
    requests, batch = [], []
    for number in range(count + 1):  # one more than will report, so that the round stays open
        key, pseudonym = secrets.token_bytes(32), secrets.token_bytes(16)
        batch.append(Enrolment(task.id, pseudonym, hashlib.sha256(key).digest(), None, None))
        body = encode(Report(task.id, 1, pseudonym, 1, number & 1))
        requests.append(
            f"PUT /tasks/{task.id.hex()}/rounds/1/reports/{pseudonym.hex()} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {key.hex()}\r\nContent-Type: application/msgpack\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
    for first in range(0, len(batch), 2000):
        assert set(store.apply(batch[first : first + 2000]).outcomes) == {"stored"}
    rounds.start(store, task.id, time.time())
    store.close()
    return requests[:-1]


# -- servers ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def process(port: int, *arguments: str) -> Iterator[int]:
    """A server in a process group of its own, for as long as the block lasts."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "SEMILOCAL_ADMIN_TOKEN": secrets.token_hex(16)}
    server = subprocess.Popen(
        [sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        time.sleep(1.0)  # other workers, caches
        yield server.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        server.wait()


def processor_time(group: int) -> float:
    """Seconds of processor time of all processes of a group."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rsplit(")", 1)[1].split()
            if int(fields[2]) == group:
                total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def bench(database: str | None, *, workers: int, connections: int, seconds: float, count: int) -> Measured:
    """Start a server, measure it, stop it; ``database`` None is the bare one."""
    port = free_port()
    with tempfile.TemporaryDirectory(dir=ROOT / "bench") as folder:
        if database is None:
            requests = prepare(f"sqlite:///{folder}/unused.db", count)
            arguments = [str(Path(__file__).resolve()), "--bare", str(port)]
        else:
            url = f"sqlite:///{folder}/bench.db" if database == "sqlite" else database
            requests = prepare(url, count)
            arguments = [
                "-m",
                "semilocal",
                "serve",
                "--db",
                url,
                "--port",
                str(port),
                "--workers",
                str(workers),
            ]
        with process(port, *arguments) as group:
            before = processor_time(group)
            one = uvloop.run(measure(port, requests, connections=connections, seconds=seconds))
            spent = processor_time(group) - before
            return one._replace(processor=1e6 * spent / (one.rate * one.took))


def main() -> int:
    """Print rates, latencies and ratios; exit code 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--connections", type=int, default=256)
    parser.add_argument("--count", type=int, default=60_000, help="participants at most")
    parser.add_argument("--postgres", help="postgresql://…; a private cluster if left out")
    parser.add_argument("--bare", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        run_bare(arguments.bare)
        return 0
    cluster: Any = None
    database = arguments.postgres
    if database is None:
        try:
            cluster = Postgres()
            database = cluster.new_database()
        except (RuntimeError, ImportError, KeyError, OSError) as error:
            print(f"without PostgreSQL: {error}")
    kinds: list[tuple[str, str | None, int]] = [("bare server", None, 1), ("SQLite", "sqlite", 1)]
    if database is not None:
        kinds.append(("PostgreSQL, 2 workers", database, 2))
    found: dict[str, list[Measured]] = {name: [] for name, _, _ in kinds}
    try:
        for turn in range(arguments.repeat):
            for name, where, workers in kinds:
                one = bench(
                    where,
                    workers=workers,
                    connections=arguments.connections,
                    seconds=arguments.seconds,
                    count=arguments.count,
                )
                found[name].append(one)
                print(
                    f"{turn + 1}  {name:<22} {one.rate:8.0f} reports/s  p50 {one.p50:6.1f} ms  p99 {one.p99:6.1f} ms  "
                    f"server {one.processor:5.0f} us/report  refused {one.refused}",
                    flush=True,
                )
    finally:
        if cluster is not None:
            cluster.stop()
    rates = {name: median(one.rate for one in runs) for name, runs in found.items()}
    late = {name: median(one.p99 for one in runs) for name, runs in found.items()}
    share = rates["SQLite"] / rates["bare server"]
    print(
        f"SQLite / bare server = {share:.2f} (target 0.60); "
        f"p99 {late['SQLite']:.0f} ms at {arguments.connections} connections (target 300)"
    )
    fine = share >= 0.6 and late["SQLite"] < 300
    if database is not None:
        ratio = rates["PostgreSQL, 2 workers"] / rates["SQLite"]
        print(
            f"PostgreSQL with 2 workers / SQLite = {ratio:.2f} (target 1.00); "
            f"p99 {late['PostgreSQL, 2 workers']:.0f} ms"
        )
        fine = fine and ratio >= 1.0
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
