"""Durable, acknowledged reports per second, against the same HTTP server with a handler that only checks the body.

    python bench/bench_service.py [--seconds 4] [--repeat 5] [--connections 256 1024] [--postgres URL]

The client is wrk (``make system`` installs it), on this machine's loopback interface; every request is a report of
another participant. A report counts when its 201 has arrived: it is then committed to disk (SQLite: WAL with
synchronous=FULL; PostgreSQL: synchronous_commit=on), and afterwards the database is asked how many it holds. The bare
server is uvicorn with the same settings and one route that reads the body, decodes the report, compares it with the
path and answers 201. Turns are interleaved and ratios are taken within a turn, so that both sides see the same machine;
the server's processor time per report depends less on what else the machine does. Without --postgres a private cluster
is started, if PostgreSQL is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import httpx2

from semilocal import Box, Report, Task
from semilocal.protocol.messages import decode, encode
from semilocal.service import rounds
from semilocal.service.admin import create_campaign
from semilocal.service.campaign import Campaign
from semilocal.service.stores.base import Enrolment, open_store
from semilocal.testing import Postgres, free_port

from load import Measured  # isort: skip

ROOT = Path(__file__).resolve().parent.parent
WARM_UP = 3.0  # seconds for a second worker to start
THREADS = 1  # of wrk: this machine's processors are for the server
SHARE = 0.8  # of the bare server


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

WRK = """
local counter = 0
function setup(thread) thread:set("id", counter); counter = counter + 1 end
function init(args)
  requests, place = {}, 0
  local number = 0
  for line in io.lines(args[1]) do
    if number % tonumber(args[2]) == id then
      local path, key, body = line:match("(%S+) (%S+) (%S+)")
      local bytes = body:gsub("..", function(pair) return string.char(tonumber(pair, 16)) end)
      local headers = {["Authorization"] = "Bearer " .. key, ["Content-Type"] = "application/msgpack"}
      requests[#requests + 1] = wrk.format("PUT", path, headers, bytes)
    end
    number = number + 1
  end
end
function request()
  place = place % #requests + 1
  return requests[place]
end
"""


def measure(port: int, requests: list[str], *, connections: int, seconds: int, folder: Path) -> Measured:
    """Let wrk send the requests, each once, over that many connections for that long."""
    (folder / "load.lua").write_text(WRK)
    (folder / "requests.txt").write_text("\n".join(requests) + "\n")
    command = ["wrk", "-t", str(THREADS), "-c", str(connections), "-d", f"{seconds}s", "--latency", "--timeout", "30s"]
    command += ["-s", str(folder / "load.lua"), f"http://127.0.0.1:{port}", "--"]
    done = subprocess.run(
        [*command, str(folder / "requests.txt"), str(THREADS)], capture_output=True, text=True, check=True
    )
    text = done.stdout
    total, took = int(_found(r"(\d+) requests in", text)), _seconds(_found(r"requests in ([\d.]+\w+)", text))
    if total > len(requests):
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


def prepare(database: str, count: int) -> tuple[bytes, list[str]]:
    """A campaign whose first round is open for ``count`` participants: its task, and path, key and body of each."""
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
        path = f"/tasks/{task.id.hex()}/rounds/1/reports/{pseudonym.hex()}"
        requests.append(f"{path} {key.hex()} {body.hex()}")
    for first in range(0, len(batch), 2000):
        assert set(store.apply(batch[first : first + 2000]).outcomes) == {"stored"}
    rounds.start(store, task.id, time.time())
    store.close()
    return task.id, requests[:-1]


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
        for _ in range(600):
            with contextlib.suppress(httpx2.TransportError):
                httpx2.get(f"http://127.0.0.1:{port}/healthz", timeout=60)
                break
            time.sleep(0.05)
        time.sleep(WARM_UP)  # other workers, caches
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


def bench(database: str | None, *, workers: int, connections: int, seconds: int, count: int) -> Measured:
    """Start a server, measure it, stop it; ``database`` None is the bare one."""
    port = free_port()
    with tempfile.TemporaryDirectory(dir=ROOT / "bench") as name:
        folder = Path(name)
        url = f"sqlite:///{folder}/bench.db" if database in (None, "sqlite") else str(database)
        task, requests = prepare(url, count)
        if database is None:
            arguments = [str(Path(__file__).resolve()), "--bare", str(port)]
        else:
            arguments = ["-m", "semilocal", "serve", "--db", url, "--port", str(port), "--workers", str(workers)]
        with process(port, *arguments) as group:
            before = processor_time(group)
            one = measure(port, requests, connections=connections, seconds=seconds, folder=folder)
            spent = processor_time(group) - before
        if database is not None and (kept := stored(url, task)) < one.rate * one.took - 0.5:
            raise SystemExit(f"{one.rate * one.took:.0f} reports were acknowledged, {kept} are in the database")
        return one._replace(processor=1e6 * spent / (one.rate * one.took))


def main() -> int:
    """Print rates, latencies and ratios; exit code 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--repeat", type=int, default=5, help="interleaved turns; the median counts")
    parser.add_argument("--connections", type=int, nargs="+", default=[256, 1024])
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
        kinds += [("PostgreSQL", database, 1), ("PostgreSQL, 2 workers", database, 2)]
    good = True
    try:
        for connections in arguments.connections:
            good &= compare(kinds, connections, arguments)
    finally:
        if cluster is not None:
            cluster.stop()
    return 0 if good else 1


def compare(kinds: list[tuple[str, str | None, int]], connections: int, arguments: argparse.Namespace) -> bool:
    """Measure all servers in turns, print medians, and say whether the targets are reached."""
    found: dict[str, list[Measured]] = {name: [] for name, _, _ in kinds}
    for turn in range(arguments.repeat):
        for name, where, workers in kinds:
            one = bench(
                where, workers=workers, connections=connections, seconds=arguments.seconds, count=arguments.count
            )
            found[name].append(one)
            print(
                f"{turn + 1}  {connections:5}  {name:<22} {one.rate:8.0f} reports/s  p50 {one.p50:6.1f} ms  "
                f"p99 {one.p99:6.1f} ms  server {one.processor:5.0f} us/report  refused {one.refused}  "
                f"load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
    good, longest = True, 300 if connections <= 256 else 1000
    for name, runs in found.items():
        ratio = median(one.rate / bare.rate for one, bare in zip(runs, found["bare server"], strict=True))
        late = median(one.p99 for one in runs)
        lost = sum(one.refused for one in runs)
        print(
            f"{connections} connections, {name}: {ratio:.2f} of the bare server (target {SHARE}), p99 {late:.0f} ms "
            f"(target {longest}), {lost} refused"
        )
        good &= name == "bare server" or (ratio >= SHARE and late < longest and not lost)
    return good


if __name__ == "__main__":
    sys.exit(main())
