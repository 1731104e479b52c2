"""Durable, acknowledged reports per second, against the same HTTP server with a handler that only checks the body.

    python -m bench.bench_service [--seconds 3] [--repeat 5] [--connections 256 1024] [--postgres URL]

The client is wrk (``make system`` installs it), on this machine's loopback interface; every request is a report of
another participant. A report counts when its 201 has arrived: it is then committed to disk (SQLite: WAL with
synchronous=FULL; PostgreSQL: synchronous_commit=on), and afterwards the database is asked how many it holds. The bare
server is uvicorn with the same settings, and one route that reads the body, decodes the report,
compares it with the path and answers 201. All servers are started once and run side by side; one at a time has work.
Turns are interleaved and ratios are taken within a turn, so that both sides see the same machine; processor time per
report depends less on what else the machine does. It is told for all threads of a server, and for the thread of the
event loop: that one bounds the reports per second where the writer's thread has a core of its own. Without --postgres
a private cluster is started, if PostgreSQL is installed; only then its processor time is known.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import httpx2

from bench import machine
from bench.load import Measured
from semilocal import Box, Report, Task
from semilocal.protocol.messages import decode, encode
from semilocal.service import rounds
from semilocal.service.campaign import Campaign
from semilocal.service.rounds import create_campaign
from semilocal.service.stores.base import Enrolment, open_store
from semilocal.testing import free_port
from tests.helpers.postgres import Postgres

ROOT = Path(__file__).resolve().parent.parent
WARM_UP = 1.0  # seconds
BARE = "bare server"
SHARE = 0.4  # processor time of the bare server, of that of the service


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
    """Serve the bare application; called in a process group of its own."""
    import uvicorn

    config = uvicorn.Config(
        bare_app(), access_log=False, log_level="warning", server_header=False, proxy_headers=False,
        timeout_keep_alive=65, backlog=4096, ws="none", lifespan="off",
    )  # fmt: skip
    with socket.create_server(("127.0.0.1", port), backlog=4096) as listening:
        uvicorn.Server(config).run(sockets=[listening])


# -- the load --------------------------------------------------------------------------------------------------------

WRK = """
function init(args)
  requests, place = {}, 0
  local file = io.open(args[1], "rb")
  local size = file:read("*n", 1)
  while size do
    requests[#requests + 1] = file:read(size)
    size = file:read("*n", 1)
  end
end
function request()
  place = place % #requests + 1
  return requests[place]
end
"""


def measure(port: int, requests: list[bytes], *, connections: int, seconds: int, folder: Path, once: bool) -> Measured:
    """Let wrk send the requests over that many connections for that long; each at most once if ``once``."""
    (folder / "load.lua").write_text(WRK)
    (folder / "requests.bin").write_bytes(b"".join(b"%d %b" % (len(request), request) for request in requests))
    command = ["wrk", "-t", "1", "-c", str(connections), "-d", f"{seconds}s", "--latency", "--timeout", "30s"]
    command += ["-s", str(folder / "load.lua"), f"http://127.0.0.1:{port}", "--", str(folder / "requests.bin")]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    total, took = int(_found(r"(\d+) requests in", text)), _seconds(_found(r"requests in ([\d.]+\w+)", text))
    if once and total > len(requests):
        raise SystemExit(f"{total} requests in {took:.1f} s: more participants are needed (--count)")
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    return Measured(
        total / took,
        1e3 * _seconds(_found(r"50%\s+([\d.]+\w+)", text)),
        1e3 * _seconds(_found(r"99%\s+([\d.]+\w+)", text)),
        int(refused[1]) if refused else 0,
        took,
    )


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise SystemExit(f"wrk said something else:\n{text}")
    return match[1]


def _seconds(text: str) -> float:
    units = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}
    number = _found(r"^([\d.]+)", text)
    return float(number) * units[text[len(number) :]]


class Crowd(NamedTuple):
    """A task, its participants, and the request with which each of them reports in round 1."""

    task: Task
    enrolments: list[Enrolment]
    requests: list[bytes]


def new_crowd(count: int) -> Crowd:
    """That many participants of a task that no database has yet."""
    box = Box((0, 0), (1, 1), (f"x{secrets.token_hex(8)}", "y"))  # a name of its own makes a task of its own
    task = Task.build(box, epsilon=1.0, delta=1e-6, k=50, window=10**6)
    enrolments, requests = [], []
    for _ in range(count):
        key, pseudonym = secrets.token_bytes(32), secrets.token_bytes(16)
        enrolments.append(Enrolment(task.id, pseudonym, hashlib.sha256(key).digest(), None, None))
        body = encode(Report(task.id, 1, pseudonym, *task.hierarchy.ends, None, pseudonym))
        requests.append(
            b"PUT /tasks/%b/rounds/1/reports/%b HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %b\r\n"
            b"Content-Type: application/msgpack\r\nContent-Length: %d\r\n\r\n%b"
            % (task.id.hex().encode(), pseudonym.hex().encode(), key.hex().encode(), len(body), body)
        )
    return Crowd(task, enrolments, requests)


def prepare(database: str, crowd: Crowd) -> None:
    """Open round 1 of the crowd's campaign in a database."""
    store = open_store(database, worker="bench")
    create_campaign(store, Campaign("bench", crowd.task, (), "open"), now=time.time())
    # One more than will report, so that the round stays open.
    batch = [*crowd.enrolments, Enrolment(crowd.task.id, secrets.token_bytes(16), bytes(32), None, None)]
    for first in range(0, len(batch), 10_000):
        assert set(store.apply(batch[first : first + 10_000]).outcomes) == {"stored"}
    rounds.start(store, crowd.task.id, time.time())
    store.close()


def stored(database: str, task: bytes) -> int:
    """How many reports of round 1 the database holds."""
    store = open_store(database, worker="bench")
    status = store.status(task)
    store.close()
    assert status is not None
    return status.received


# -- servers ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def process(port: int, *arguments: str) -> Iterator[int]:
    """A server in a process group of its own, for as long as the block lasts."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "SEMILOCAL_ADMIN_TOKEN": secrets.token_hex(16)}
    server = subprocess.Popen(
        [sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        for _ in range(600):  # half a minute
            with contextlib.suppress(httpx2.TransportError):
                httpx2.get(f"http://127.0.0.1:{port}/healthz", timeout=60)
                break
            if server.poll() is not None:
                raise SystemExit(f"a server ended before it answered: {' '.join(arguments)}")
            time.sleep(0.05)
        else:
            raise SystemExit(f"a server did not answer: {' '.join(arguments)}")
        time.sleep(WARM_UP)  # caches
        yield server.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        server.wait()


def processor_time(group: int) -> float:
    """Seconds of processor time of all processes of a group."""
    return _time_of(lambda _, fields: int(fields[2]) == group)


def _time_of(wanted: Callable[[str, list[str]], bool]) -> float:
    """Seconds of processor time of processes, chosen by their id and the fields of /proc/…/stat after the name."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rsplit(")", 1)[1].split()
            if wanted(path.parent.name, fields):
                total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def loop_time(process: int) -> float:
    """Seconds of processor time of a process's first thread: the one of the event loop."""
    return int(Path(f"/proc/{process}/task/{process}/schedstat").read_text().split()[0]) / 1e9


def cluster_time(cluster: Postgres | None) -> float:
    """Seconds of processor time of the living processes of a private cluster."""
    if cluster is None:
        return 0.0
    first = (cluster.data / "postmaster.pid").read_text().split()[0]
    return _time_of(lambda pid, fields: first in (pid, fields[1]))


class Subject(NamedTuple):
    """A running server that is measured."""

    name: str
    port: int
    group: int
    database: str | None


@contextlib.contextmanager
def subjects(crowd: Crowd, postgres: str, folder: Path) -> Iterator[list[Subject]]:
    """All servers, started: the bare one, SQLite, and PostgreSQL if there is a database."""
    kinds: list[tuple[str, str | None]] = [(BARE, None), ("SQLite", f"sqlite:///{folder}/bench.db")]
    if postgres:
        kinds.append(("PostgreSQL", postgres))
    with contextlib.ExitStack() as running:
        found = []
        for name, database in kinds:
            port = free_port()
            arguments = ["-m", "bench.bench_service", "--bare", str(port)]
            if database is not None:
                prepare(database, crowd)
                arguments = ["-m", "semilocal", "serve", "--db", database, "--port", str(port)]
            found.append(Subject(name, port, running.enter_context(process(port, *arguments)), database))
        yield found


def main() -> int:
    """Print rates, latencies and ratios; exit code 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=5, help="interleaved turns; the median counts")
    parser.add_argument("--connections", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--count", type=int, default=30_000, help="participants at most, for every second of a turn")
    parser.add_argument(
        "--postgres", default="", help="an empty database, postgresql://…, or none; else a private cluster"
    )
    parser.add_argument("--bare", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        run_bare(arguments.bare)
        return 0
    print(machine.line(), end="\n\n")
    cluster: Postgres | None = None
    database = arguments.postgres.removesuffix("none")
    if not arguments.postgres:
        try:
            cluster = Postgres()
            database = cluster.new_database()
        except (RuntimeError, ImportError, KeyError, OSError) as error:
            print(f"without PostgreSQL: {error}")
    good = True
    try:
        with tempfile.TemporaryDirectory(dir=ROOT / "bench") as name:
            part = arguments.count * arguments.seconds
            crowd = new_crowd(part * arguments.repeat * len(arguments.connections))
            with subjects(crowd, database, Path(name)) as servers:
                for number, connections in enumerate(arguments.connections):
                    first = number * arguments.repeat * part
                    parts = [slice(first + turn * part, first + (turn + 1) * part) for turn in range(arguments.repeat)]
                    turns = [crowd.requests[one] for one in parts]
                    good &= compare(servers, crowd.task.id, turns, connections, arguments.seconds, cluster, Path(name))
    finally:
        if cluster is not None:
            cluster.stop()
    return 0 if good else 1


def compare(
    servers: list[Subject], task: bytes, turns: list[list[bytes]], connections: int, seconds: int,
    cluster: Postgres | None, folder: Path,
) -> bool:  # fmt: skip
    """Measure all servers in turns, print medians, and say whether the targets are reached."""
    found: dict[str, list[Measured]] = {server.name: [] for server in servers}
    for turn, requests in enumerate(turns):
        for server in servers:
            one, others = bench(server, task, requests, connections, seconds, cluster, folder)
            found[server.name].append(one)
            print(
                f"{turn + 1}  {connections:5}  {server.name:<22} {one.rate:8.0f} reports/s  "
                f"p50 {one.p50:6.1f} ms  p99 {one.p99:6.1f} ms  us/report: server "
                f"{one.processor:5.1f}, loop {one.loop:5.1f}, PostgreSQL {others:4.0f}  "
                f"refused {one.refused}  load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
    good, longest = True, 300 if connections <= 256 else 1000
    for name, _, _, database in servers:
        pairs = list(zip(found[name], found[BARE], strict=True))
        ratio = median(bare.processor / one.processor for one, bare in pairs)
        of_loop = median(bare.loop / one.loop for one, bare in pairs)
        of_clock = median(one.rate / bare.rate for one, bare in pairs)
        late = median(one.p99 for one in found[name])
        lost = sum(one.refused for one in found[name])
        rate = median(one.rate for one in found[name])
        print(
            f"{connections} connections, {name}: {rate:.0f} reports/s, bare server / this in processor "
            f"time {ratio:.2f} (target {SHARE}), of the event loop {of_loop:.2f}, by the clock {of_clock:.2f}, "
            f"p99 {late:.0f} ms (target {longest}), {lost} refused"
        )
        good &= database is None or (ratio >= SHARE and late < longest and not lost)
    return good


def bench(
    server: Subject, task: bytes, requests: list[bytes], connections: int, seconds: int, cluster: Postgres | None,
    folder: Path,
) -> tuple[Measured, float]:  # fmt: skip
    """Measure a server; also the processor time of PostgreSQL per report in microseconds."""
    kept = 0 if server.database is None else stored(server.database, task)
    before, others, loop = processor_time(server.group), cluster_time(cluster), loop_time(server.group)
    one = measure(
        server.port, requests, connections=connections, seconds=seconds, folder=folder, once=server.database is not None
    )
    spent, others = processor_time(server.group) - before, cluster_time(cluster) - others
    loop, reports = loop_time(server.group) - loop, one.rate * one.took
    if server.database is not None and (added := stored(server.database, task) - kept) < reports - 0.5:
        raise SystemExit(f"{reports:.0f} reports were acknowledged, {added} are in the database")
    return one._replace(processor=1e6 * spent / reports, loop=1e6 * loop / reports), 1e6 * others / reports


if __name__ == "__main__":
    sys.exit(main())
