"""Two servers: uploads per second with everything on this machine, and what it costs from there to the map.

    python -m bench.bench_pair [--people 20000] [--buckets 1] [--connections 64]
    python -m bench.bench_pair --people 1000000 --buckets 100

A leader, a helper and the load run on the loopback interface, each server on its own SQLite file. Every upload is made
as a device makes it, with two sealed envelopes, and sent over HTTP, bucket by bucket. Making them is not part of the
time. An upload counts when its signed receipt has arrived: it is then committed to disk; the leader forwards it to the
helper meanwhile. The bare server is uvicorn with one route that decodes the upload and answers. On a busy machine the
rates are low for everybody, so processor time is shown beside them.

The error is that of range counts: boxes around people, 1 to 15 % of each axis of the domain (of a bucket in the second
figure), |estimate - truth| as a share of the truth, or of 0.1 % of all people (of a bucket's) where that is more.
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
from typing import Any, NamedTuple

import httpx2
import msgspec
import numpy as np
import numpy.typing as npt
import uvloop

from bench import machine
from bench.bench_service import process, processor_time
from bench.load import Measured, measure
from bench.reports import public_parts
from semilocal import Box
from semilocal.pooled import PooledTask
from semilocal.release.counts import Counts
from semilocal.release.pair import pair_counts
from semilocal.sharing.pair import PairTask
from semilocal.sharing.sealing import seal, verifying_key
from semilocal.sharing.wire import MAX_UPLOAD, SignedTree, Upload
from semilocal.testing import ADMIN_TOKEN, Server, free_port
from tests.helpers.pairs import ROLES, SIGNING

ROOT = Path(__file__).resolve().parents[1]
LEVELS = 24
EPSILON = 1.0
ADMIN = {"authorization": f"Bearer {ADMIN_TOKEN}"}
CORES = 2


class Crowd(NamedTuple):
    """The people of a bucket: where they are, and their uploads."""

    points: npt.NDArray[np.float64]
    uploads: list[bytes]


def people(n: int, seed: int) -> npt.NDArray[np.float64]:
    """Clusters of several sizes in the unit square."""
    rng = np.random.default_rng(seed)
    centres, width = rng.random((12, 2)), rng.uniform(0.003, 0.05, size=12)
    which = rng.integers(12, size=n)
    return np.clip(rng.normal(centres[which], width[which, None]), 0, 1 - 1e-9)


def crowd(pair: PairTask, n: int, bucket: int) -> Crowd:
    """People in a bucket, with one PUT per person."""
    rng, levels = np.random.default_rng(bucket + 1), pair.shape.levels
    lower, upper = pair.pooled.hierarchy.boxes(np.array([bucket], dtype=np.uint64))[0]
    points = lower + (upper - lower) * people(n, bucket)
    codes = pair.pooled.hierarchy.codes(points).astype(np.int64)
    paths = ((codes[:, None] >> np.arange(levels - 1, -1, -1)) & 1).astype(np.uint8)
    names, *private = ([rng.bytes(16) for _ in range(n)] for _ in range(3))
    public, out = public_parts(pair.id, names, paths, (private[0], private[1])), []
    for number, name in enumerate(names):
        first, second = (
            seal(
                private[server][number], pair.operator(role).sealing_key, role=role, task=pair.id, report=name,
                public=public[number], bucket=bucket, token="",
            )
            for server, role in enumerate(ROLES)
        )  # fmt: skip
        body = Upload(name, public[number], first, second, bucket=bucket).to_bytes()
        out.append(
            f"PUT /tasks/{pair.id.hex()}/uploads/{name.hex()} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Content-Type: application/msgpack\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
    return Crowd(points, out)


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


class Sent(NamedTuple):
    """The uploads of everybody: times are in microseconds of processor per upload, sizes in bytes."""

    points: npt.NDArray[np.float64]
    rate: float
    p99: float
    refused: int
    leader: float
    helper: float
    load: float
    size: float


def send(servers: list[Server], pair: PairTask, n: int, buckets: list[int], *, connections: int = 64) -> Sent:
    """Upload for n people in each bucket; returns when the helper has everything."""
    name, helper, groups = pair.id.hex(), servers[1].url, groups_of(servers)
    points, times, late, bytes_sent, refused, load, spent = [], 0.0, 0.0, 0, 0, 0.0, np.zeros(2)
    for number, bucket in enumerate(buckets, 1):
        one = crowd(pair, n, bucket)
        points.append(one.points)
        before, start = np.array([processor_time(group) for group in groups]), time.process_time()
        found = uvloop.run(measure(servers[0].port, one.uploads, connections=connections, seconds=600.0))
        load += time.process_time() - start
        while _state(helper, name)["received"] < number * n:  # the helper's part of the work belongs to it
            time.sleep(0.05)
        spent += np.array([processor_time(group) for group in groups]) - before
        times, late, refused = times + found.took, max(late, found.p99), refused + found.refused
        bytes_sent += sum(map(len, one.uploads))
    every = n * len(buckets)
    leader, helper_time, load_time = (1e6 * one / every for one in (*spent, load))
    return Sent(
        np.concatenate(points), every / times, late, refused, leader, helper_time, load_time, bytes_sent / every
    )


def two_servers(servers: list[Server], n: int, buckets: int, *, connections: int) -> bool:
    """Upload for n people in that many buckets and count them; whether the limits are kept."""
    each, depth = n // buckets, 0
    while 1 << depth < buckets:
        depth += 2
    pooled = PooledTask.build(Box((0, 0), (1, 1)), epsilon=EPSILON, trust="two-servers", max_depth=LEVELS + depth)
    pair = open_pair(servers, pooled, bucket_depth=depth)
    chosen = [(1 << depth) + number for number in range(buckets)]
    sent, n = send(servers, pair, each, chosen, connections=connections), each * buckets
    bare, bare_time = bare_rate(crowd(pair, min(each, 10_000), chosen[0]).uploads, connections=connections)
    print(
        f"uploads: {n:,} of {sent.size:,.0f} bytes with their heads, {sent.rate:,.0f}/s (limit 1,500), p99 at most "
        f"{sent.p99:.0f} ms, refused {sent.refused}"
    )
    print(
        f"         processor time of one: leader {sent.leader:.0f} us, helper {sent.helper:.0f} us, load "
        f"{sent.load:.0f} us; bare server {bare_time:.0f} us ({bare.rate:,.0f}/s)",
        flush=True,
    )
    disk = [sum(path.stat().st_size for path in database_files(server)) / n for server in servers]
    took, spent, found = count(servers, pair.id.hex())
    million = 1e6 * max(spent) / CORES / n
    print(
        f"counting: {buckets} buckets to {len(found.partition):,} regions in {took:.1f} s with both servers here; "
        f"processor time leader {spent[0]:.1f} s, helper {spent[1]:.1f} s: {million:.0f} s for a million people "
        f"on {CORES} cores of its own (limit 90 s)"
    )
    memory = [peak_memory(group) for group in groups_of(servers)]
    print(
        f"          most memory with worker processes: leader {memory[0]:.0f} MB, helper {memory[1]:.0f} MB; disk: "
        f"{disk[0]:,.0f} and {disk[1]:,.0f} bytes per person"
    )
    side = 2.0 ** (-depth // 2)
    print(
        f"          mean relative error, epsilon = {EPSILON:g}: {error(found, sent.points, 1.0, n):.3f}; "
        f"of boxes as large as inside a bucket: {error(found, sent.points, side, each):.3f}"
    )
    return sent.rate >= 1500 and million <= 90


def error(found: Counts, points: npt.NDArray[np.float64], side: float, n: int, *, queries: int = 300) -> float:
    """Mean relative error of boxes around people, of 1 to 15 % of a side; errors of n people at least count."""
    rng = np.random.default_rng(7)
    centres, half = rng.permutation(points)[:queries], side * rng.uniform(0.005, 0.075, size=(queries, 2))
    lower, upper = np.maximum(centres - half, 0), np.minimum(centres + half, 1)
    boxes = np.stack([lower, upper], axis=1)
    truth = np.array([np.count_nonzero(((low <= points) & (points < high)).all(axis=1)) for low, high in boxes])
    values = found.query(boxes).value
    return float(np.mean(np.abs(values - truth) / np.maximum(truth, 0.001 * n)))


def groups_of(servers: list[Server]) -> list[int]:
    """Process groups of running servers."""
    return [server.process.pid for server in servers if server.process is not None]


def database_files(server: Server) -> list[Path]:
    """The file of a server's database, and what SQLite keeps beside it."""
    path = Path(server.database.removeprefix("sqlite:///"))
    return list(path.parent.glob(f"{path.name}*"))


def count(servers: list[Server], name: str) -> tuple[float, list[float], Counts]:
    """Count what was uploaded: seconds, processor time of each server, and the result."""
    before, start = [processor_time(group) for group in groups_of(servers)], time.monotonic()
    httpx2.post(f"{servers[0].url}/tasks/{name}/start", headers=ADMIN, timeout=60).raise_for_status()
    while (state := _state(servers[0].url, name))["phase"] != "done":
        if state["fault"]:
            raise SystemExit(f"the leader says: {state['fault']}")
        time.sleep(0.05)
    took = time.monotonic() - start
    spent = [processor_time(group) - one for group, one in zip(groups_of(servers), before, strict=True)]
    transcript = httpx2.get(f"{servers[0].url}/tasks/{name}/transcript", timeout=60).content
    if any(sum(tree.rejected) for tree in SignedTree.from_bytes(transcript).trees):
        raise SystemExit("honest uploads were rejected")
    found = pair_counts(transcript)
    assert isinstance(found, Counts)
    return took, spent, found


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


def main() -> int:
    """Print rates, times and errors; exit code 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--buckets", type=int, default=1)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--bare", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        run_bare(arguments.bare)
        return 0
    print(machine.line(), end="\n\n")
    with running_pair() as servers:
        good = two_servers(servers, arguments.people, arguments.buckets, connections=arguments.connections)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
