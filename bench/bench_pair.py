"""Two servers: durable uploads per second with everything on this machine, and the time from there to the map.

    python -m bench.bench_pair [--count 20000] [--connections 64]
    python -m bench.bench_pair --people 1000000 --buckets 50

A leader, a helper and the load run on the loopback interface, each server on its own SQLite file. An upload counts when
its signed receipt has arrived: it is then committed to disk; the leader forwards it to the helper meanwhile. The bare
server is uvicorn with one route that decodes the upload and answers. On a busy machine the rates are low for everybody,
so processor time per upload is shown too, and what it allows at most: the leader is one process. Only measured rates
count for the limit.

With ``--people`` that many people in public buckets are counted by both servers. Their uploads are not sent: they are
written into both databases while the servers are down, as if they had been uploaded and forwarded. That takes minutes
and 3.5 GB of disk for a million people, and is not part of the time.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import numpy as np
import numpy.typing as npt
import uvloop

from bench.bench_service import process, processor_time
from bench.load import Measured, measure
from bench.reports import public_parts
from semilocal import Box
from semilocal.pooled import PooledTask, replay
from semilocal.service.pair.keys import PairSecrets
from semilocal.service.pair.play import CHUNK
from semilocal.service.stores.base import open_store
from semilocal.service.stores.pairs import UploadRow
from semilocal.sharing.envelope import seal
from semilocal.sharing.pair import PairTask
from semilocal.sharing.signing import verifying_key
from semilocal.sharing.wire import MAX_UPLOAD, SignedTree, Upload
from semilocal.testing import ADMIN_TOKEN, Server, free_port
from tests.helpers.pairs import ROLES, SIGNING

ROOT = Path(__file__).resolve().parents[1]
LEVELS = 24
ADMIN = {"authorization": f"Bearer {ADMIN_TOKEN}"}
CORES = 2


def task() -> PooledTask:
    """A task that gives several hundred regions for 20,000 people."""
    return PooledTask.build(Box((0, 0), (1, 1)), epsilon=2.0, trust="two-servers", max_depth=LEVELS)


def people(n: int, seed: int = 1) -> npt.NDArray[np.float64]:
    """Clusters of several sizes."""
    rng = np.random.default_rng(seed)
    centres, width = rng.random((12, 2)), rng.uniform(0.003, 0.05, size=12)
    which = rng.integers(12, size=n)
    return np.clip(rng.normal(centres[which], width[which, None]), 0, 1)


def reports(pair: PairTask, n: int, seed: int = 1) -> tuple[list[bytes], list[bytes], tuple[list[bytes], list[bytes]]]:
    """Ids, public parts, and private parts for each server, of people in one bucket."""
    rng, levels = np.random.default_rng(seed + 1), pair.shape.levels
    codes = task().hierarchy.codes(people(n, seed)).astype(np.int64)
    paths = ((codes[:, None] >> np.arange(levels - 1, -1, -1)) & 1).astype(np.uint8)
    names, first, second = ([rng.bytes(16) for _ in range(n)] for _ in range(3))
    return names, public_parts(pair.id, names, paths, (first, second)), (first, second)


def requests(pair: PairTask, n: int) -> list[bytes]:
    """One PUT per person."""
    names, public, private = reports(pair, n)
    out = []
    for number in range(n):
        name = names[number]
        first, second = (
            seal(
                private[server][number], pair.operator(role).sealing_key, role=role, task=pair.id, report=name,
                public=public[number], bucket=1, token="",
            )
            for server, role in enumerate(ROLES)
        )  # fmt: skip
        body = Upload(name, public[number], first, second).to_bytes()
        out.append(
            f"PUT /tasks/{pair.id.hex()}/uploads/{name.hex()} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Content-Type: application/msgpack\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
    return out


def run_bare(port: int) -> None:
    """One route that decodes the upload and answers; called in a process of its own."""
    import uvicorn
    from starlette.routing import Route, Router

    class Bare:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            message = await receive()
            body = message["body"]
            while message.get("more_body"):
                message = await receive()
                body += message["body"]
            good = len(body) <= MAX_UPLOAD and Upload.from_bytes(body).id.hex() == scope["path_params"]["report"]
            head = {
                "type": "http.response.start",
                "status": 201 if good else 422,
                "headers": [(b"content-length", b"0")],
            }
            await send(head)
            await send({"type": "http.response.body", "body": b""})

    uvicorn.run(
        Router([Route("/tasks/{task}/uploads/{report}", Bare(), methods=["PUT"])]), host="127.0.0.1", port=port,
        access_log=False, log_level="warning", server_header=False, ws="none", lifespan="off",
    )  # fmt: skip


def bare_rate(sent: list[bytes], *, connections: int) -> tuple[Measured, float]:
    """The bare server's rate, and its processor time per upload in microseconds."""
    port = free_port()
    with process(port, "-m", "bench.bench_pair", "--bare", str(port)) as group:
        before = processor_time(group)
        found = uvloop.run(measure(port, sent, connections=connections, seconds=60.0))
        return found, 1e6 * (processor_time(group) - before) / len(sent)


@contextlib.contextmanager
def running_pair(*, processes: int = CORES) -> Iterator[list[Server]]:
    """A leader and a helper with a given number of worker processes each, started, for as long as the block lasts."""
    with tempfile.TemporaryDirectory(dir=ROOT / "bench") as folder:
        helper_port = free_port()
        options = (
            ["--role", "leader", "--operator", "Ay", "--peer", f"http://127.0.0.1:{helper_port}"],
            ["--role", "helper", "--operator", "Bee", "--peer-key", verifying_key(SIGNING[0]).hex()],
        )
        more = ["--processes", str(processes)]
        servers = [
            Server(
                f"sqlite:///{folder}/{role}.db", port=(None, helper_port)[number], options=options[number] + more,
                signing_key=SIGNING[number], log=Path(folder) / f"{role}.log",
            )
            for number, role in enumerate(ROLES)
        ]  # fmt: skip
        try:
            for server in servers:
                server.start()
            yield servers
        finally:
            for server in servers:
                server.kill()


def open_pair(servers: list[Server], pooled: PooledTask, *, bucket_depth: int = 0) -> PairTask:
    """Create a pair and confirm it on both sides; returns when uploads are open."""
    leader, helper = (server.url for server in servers)
    key = httpx2.get(f"{helper}/operator").json()["signing_key"]
    form = {
        "name": "bench", "pooled": msgspec.to_builtins(pooled), "peer_key": key, "enrolment": "open",
        "bucket_depth": bucket_depth,
    }  # fmt: skip
    name = httpx2.post(f"{leader}/pairs", json=form, headers=ADMIN).json()["task"]
    while httpx2.get(f"{helper}/tasks/{name}").status_code != 200:
        time.sleep(0.1)
    for url in (leader, helper):
        httpx2.post(f"{url}/tasks/{name}/confirm", headers=ADMIN).raise_for_status()
    while _state(leader, name)["phase"] != "open":
        time.sleep(0.1)
    return PairTask.from_bytes(httpx2.get(f"{leader}/tasks/{name}").content)


def two_servers(servers: list[Server], n: int, *, connections: int) -> bool:
    """Upload for n people and count them; whether the limits are kept."""
    pair = open_pair(servers, task())
    name, helper = pair.id.hex(), servers[1].url
    sent = requests(pair, n)
    groups = [server.process.pid for server in servers if server.process is not None]

    before, load = [processor_time(group) for group in groups], time.process_time()
    found = uvloop.run(measure(servers[0].port, sent, connections=connections, seconds=120.0))
    load = 1e6 * (time.process_time() - load) / n
    while _state(helper, name)["received"] < n:  # the helper's part of the work belongs to it
        time.sleep(0.05)
    spent = [1e6 * (processor_time(group) - start) / n for group, start in zip(groups, before, strict=True)]
    bare, bare_time = bare_rate(sent, connections=connections)
    most = min(CORES * 1e6 / (sum(spent) + load), 1e6 / spent[0])
    print(
        f"uploads: {found.rate:.0f}/s (limit 1,500), p50 {found.p50:.0f} ms, p99 {found.p99:.0f} ms, refused "
        f"{found.refused}; bare server {bare.rate:.0f}/s, ratio {found.rate / bare.rate:.2f}"
    )
    print(
        f"         processor time per upload: leader {spent[0]:.0f} us, helper {spent[1]:.0f} us, load {load:.0f} us, "
        f"bare server {bare_time:.0f} us: at most {most:.0f} uploads/s "
        f"on {CORES} idle cores (not measured)"
    )

    took, spent, trees = count(servers, name)
    alone, regions = max(spent) / CORES, trees[0]
    memory = [peak_memory(group) for group in groups]
    print(
        f"counting: {n:,} people to {regions} regions in {took:.1f} s with both servers here; processor time "
        f"leader {spent[0]:.1f} s, helper {spent[1]:.1f} s: {alone:.1f} s on {CORES} cores of its own (limit 3 s)"
    )
    print(f"          most memory: leader {memory[0]:.0f} MB, helper {memory[1]:.0f} MB, with their worker processes")
    return found.rate >= 1500 and alone <= 3.0 and regions >= 500


def count(servers: list[Server], name: str) -> tuple[float, list[float], list[int]]:
    """Count what was uploaded: seconds, processor time of each server, and the regions of every tree."""
    groups = [server.process.pid for server in servers if server.process is not None]
    before, start = [processor_time(group) for group in groups], time.monotonic()
    httpx2.post(f"{servers[0].url}/tasks/{name}/start", headers=ADMIN, timeout=60).raise_for_status()
    while (state := _state(servers[0].url, name))["phase"] != "done":
        if state["fault"]:
            raise SystemExit(f"the leader says: {state['fault']}")
        time.sleep(0.05)
    took = time.monotonic() - start
    spent = [processor_time(group) - one for group, one in zip(groups, before, strict=True)]
    signed = SignedTree.from_bytes(httpx2.get(f"{servers[0].url}/tasks/{name}/transcript", timeout=60).content)
    if any(sum(tree.rejected) for tree in signed.trees):
        raise SystemExit("honest uploads were rejected")
    return took, spent, [len(replay(tree).cells) for tree in signed.published()]


def peak_memory(group: int) -> float:
    """Most memory that the processes of a group had, added up, in MB."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text().rsplit(")", 1)[1].split()[2]) == group:
                found = re.search(r"VmHWM:\s+(\d+) kB", (path.parent / "status").read_text())
                total += int(found[1]) if found else 0
    return total / 1000


def _state(url: str, name: str) -> dict[str, Any]:
    return dict(httpx2.get(f"{url}/tasks/{name}/state", timeout=60).json())


def in_buckets(servers: list[Server], n: int, buckets: int) -> bool:
    """Count n people in a given number of buckets; whether the limit is kept."""
    each, depth = n // buckets, 2
    while 1 << depth < buckets:
        depth += 2
    pooled = PooledTask.build(Box((0, 0), (1, 1)), epsilon=1.0, trust="two-servers", max_depth=LEVELS + depth)
    pair = open_pair(servers, pooled, bucket_depth=depth)
    for server in servers:
        server.kill()
    start = time.monotonic()
    fill([server.database for server in servers], pair, each, [(1 << depth) + number for number in range(buckets)])
    print(f"buckets: {buckets * each:,} uploads written into both databases in {time.monotonic() - start:.0f} s")
    for server in reversed(servers):
        server.start()
    took, spent, regions = count(servers, pair.id.hex())
    groups = [server.process.pid for server in servers if server.process is not None]
    memory = [peak_memory(group) for group in groups]
    alone = max(spent) / CORES
    million = alone * 1e6 / (buckets * each)
    print(
        f"         {buckets} buckets of {each:,} people to {sum(regions):,} regions in {took:.1f} s with both servers "
        f"here; processor time leader {spent[0]:.1f} s, helper {spent[1]:.1f} s: {alone:.1f} s on {CORES} cores of its "
        f"own, {million:.0f} s for a million people (limit 90 s)"
    )
    print(f"         most memory: leader {memory[0]:.0f} MB, helper {memory[1]:.0f} MB, with their worker processes")
    return million <= 90


def fill(databases: list[str], pair: PairTask, each: int, buckets: list[int]) -> None:
    """Write uploads for every bucket into both databases, as the servers store them."""
    stores = [open_store(database, worker="bench") for database in databases]
    seeds = [store.pairs.seed(pair.id) for store in stores]
    keys = [PairSecrets(SIGNING[server], seed) for server, seed in enumerate(seeds) if seed is not None]
    for bucket in buckets:
        names, public, private = reports(pair, each, seed=bucket)
        for server, store in enumerate(stores):
            for first in range(0, each, CHUNK):
                rows = [
                    UploadRow(
                        names[n], bucket, bytes(32), public[n], keys[server].masked(private[server][n], names[n]), b"",
                        None,
                    )
                    for n in range(first, min(first + CHUNK, each))
                ]  # fmt: skip
                assert set(store.pairs.add(pair.id, rows)[0]) == {"stored"}
    stores[0].pairs.forwarded(pair.id, each * len(buckets), [])
    assert not stores[0].pairs.waiting(pair.id, after=each * len(buckets), limit=1)
    for store in stores:
        store.close()


def main() -> int:
    """Print rates, times and ratios; exit code 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--people", type=int, help="count only: that many people in buckets")
    parser.add_argument("--buckets", type=int, default=50)
    parser.add_argument("--bare", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        run_bare(arguments.bare)
        return 0
    with running_pair() as servers:
        if arguments.people is None:
            good = two_servers(servers, arguments.count, connections=arguments.connections)
        else:
            good = in_buckets(servers, arguments.people, arguments.buckets)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
