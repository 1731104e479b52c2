"""kill -9 at random moments under load: nothing acknowledged is lost, nobody is counted twice, the transcript verifies.

Devices retry until they are answered, so every campaign must end with the transcript of the simulation, to the last
bit, however often a server or the database died. The suite kills each of them 20 times; SEMILOCAL_LONG=1
kills 1,000 times each. Devices are killed in ``test_device_kill.py``.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import httpx2
import msgspec
import pytest

from semilocal import simulate
from semilocal.errors import StoreUnavailable
from semilocal.protocol.messages import Closed, Query, Slice, decode, decode_closed
from semilocal.service.rounds import create_campaign
from semilocal.service.stores.base import Store, open_store
from semilocal.testing import Server, cluster, secrets_of
from semilocal.transcript.checkpoints import transcript_root
from tests.helpers import HANG
from tests.helpers.forked import ForkedServer
from tests.helpers.long import SEED, times
from tests.helpers.postgres import Postgres
from tests.helpers.service import Device, open_campaign, sample_task, unmet
from tests.helpers.stored import verify

KILLS = times(20, long=1000)
DEVICES = 60
LIMITS = httpx2.Limits(max_connections=24, max_keepalive_connections=24)


async def persist(call: Callable[[], Awaitable[httpx2.Response]]) -> httpx2.Response:
    """Ask until there is an answer that is worth something."""
    for _ in range(12_000):
        try:
            answer = await call()
        except httpx2.TransportError:
            await asyncio.sleep(0.05)
            continue
        if answer.status_code in (429, 503) or (answer.status_code == 404 and answer.json()["token"].endswith("-yet")):
            await asyncio.sleep(0.05)
            continue
        return answer
    raise AssertionError("no answer for ten minutes")


class Either(httpx2.AsyncBaseTransport):
    """Each request to one of several servers, in turn, as a proxy gives them."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = itertools.cycle(ports)
        self._inner = httpx2.AsyncHTTPTransport(limits=LIMITS)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.url = request.url.copy_with(port=next(self._ports))
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


class Campaign:
    """One campaign under load, and what was acknowledged."""

    def __init__(self, url: str, store: Store, seed: int, ports: Sequence[int]) -> None:
        self.url, self.store, self.seed, self.ports = url, store, seed, ports
        # A window that never ends: rounds close when everybody has answered, whatever dies meanwhile.
        self.task = sample_task(k=6, delta=0.01 + seed / 10_000, window=10**6)
        self.acknowledged: dict[tuple[int, bytes], bytes] = {}
        self.slices: dict[tuple[int, int], Slice] = {}  # of the round that is followed
        self.points, self.secrets = cluster(DEVICES, seed=seed), secrets_of(DEVICES, seed=seed)

    async def run(self) -> None:
        wire = Either(self.ports) if self.ports else httpx2.AsyncHTTPTransport(limits=LIMITS)
        async with httpx2.AsyncClient(base_url=self.url, transport=wire, timeout=60) as client:
            devices = [Device(client, self.task, p, s) for p, s in zip(self.points, self.secrets, strict=True)]
            answers = await asyncio.gather(*(persist(device.enrol) for device in devices))
            assert {answer.status_code for answer in answers} <= {200, 201}, [answer.text for answer in answers]
            base, done = devices[0].base, 0
            while True:
                state = (await persist(lambda: client.get(f"{base}/state"))).json()
                while done < state["closed"]:
                    done += 1
                    closed = decode_closed(await self.read(client, f"{base}/rounds/{done}/closed"))
                    assert isinstance(closed, Closed)
                    for region in {device.machine.wanted(closed) for device in devices} - {None}:
                        assert region is not None
                        path = f"{base}/rounds/{done}/slices/{region[0]}-{region[1]}"
                        self.slices[region] = decode(await self.read(client, path), Slice)
                    for device in devices:
                        device.follow(closed, self.slices)
                    self.slices = {}
                if state["phase"] == "finished":
                    return
                if state["phase"] == "collecting":
                    query = await self.read(client, f"{base}/rounds/{done + 1}/query")
                    await asyncio.gather(*(self.answer(device, query) for device in devices))
                await asyncio.sleep(0.02)

    async def read(self, client: httpx2.AsyncClient, path: str) -> bytes:
        return (await persist(lambda: client.get(path))).content

    async def answer(self, device: Device, query: bytes) -> None:
        report = device.machine.receive(decode(query, Query))
        if report is None:
            return
        answer = await persist(lambda: device.put(report))
        assert answer.status_code in (200, 201), answer.text
        self.acknowledged[report.round, device.pseudonym] = msgspec.msgpack.encode(report)

    def check(self) -> None:
        """What the store holds is what was acknowledged, and gives the simulation's transcript."""
        stored = {}
        status = self.store.status(self.task.id)
        assert status is not None
        assert status.enrolled == DEVICES
        for number in range(1, status.closed + 1):
            rows = self.store.reports(self.task.id, number, after=b"", limit=10_000)
            assert len({row.pseudonym for row in rows}) == len(rows)
            stored.update({(number, row.pseudonym): row for row in rows})
        assert stored.keys() == self.acknowledged.keys()
        run = simulate(self.points, self.task, secrets=self.secrets)
        assert verify(self.store, self.task.id).root == transcript_root(run.events)


async def under_fire(url: str, store: Store, kill: Callable[[], Any], ports: Sequence[int] = ()) -> int:
    """Run campaign after campaign while something is killed again and again."""
    chance = random.Random(7 + SEED)
    kills = 0

    async def fire() -> None:
        nonlocal kills
        while kills < KILLS:
            await asyncio.sleep(chance.uniform(0.05, 0.8))
            await asyncio.to_thread(kill)
            kills += 1

    firing = asyncio.create_task(fire())
    campaigns: list[Campaign] = []
    try:
        while not firing.done() or not campaigns:
            campaign = Campaign(url, store, len(campaigns), ports)
            create_campaign(store, open_campaign(campaign.task, capacity=DEVICES), now=0)
            running = asyncio.create_task(campaign.run())
            await asyncio.wait({running, firing}, return_when=asyncio.FIRST_COMPLETED)
            if firing.done():
                firing.result()  # if nothing came back after a kill, that is the fault to show
            await running
            campaigns.append(campaign)
        await firing
    finally:
        firing.cancel()
    for campaign in campaigns:
        campaign.check()
    reports = sum(len(campaign.acknowledged) for campaign in campaigns)
    print(f"{kills} kills, {len(campaigns)} campaigns, {reports} acknowledged reports: 0 lost, 0 doubled, 0 changed")
    return kills


@pytest.mark.slow
def test_killing_the_server_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    server = ForkedServer(f"sqlite:///{tmp_path / 'service.db'}", log=tmp_path / "log.txt")
    server.start()
    store = open_store(server.database, worker="test")

    def kill() -> None:
        server.kill()
        server.start()

    try:
        assert asyncio.run(under_fire(server.url, store, kill)) == KILLS
    finally:
        server.kill()
        store.close()


class Patient:
    """A store of the test's own that waits while the database is away."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            deadline = time.monotonic() + HANG
            while True:
                try:
                    return getattr(self._store, name)(*args, **kwargs)
                except StoreUnavailable:
                    assert time.monotonic() < deadline, "the database does not come back"
                    time.sleep(0.1)

        return call


@contextlib.contextmanager
def two_servers(tmp_path: Path) -> Iterator[tuple[Postgres, list[Server], Store]]:
    """Two servers on a PostgreSQL of their own, and a store that waits for it."""
    try:
        import psycopg  # noqa: F401

        cluster = Postgres(fsync=False)
    except (RuntimeError, ImportError, KeyError, OSError) as error:
        unmet(f"no PostgreSQL: {error}")
        return
    with contextlib.ExitStack() as ending:
        ending.callback(cluster.stop)
        database = cluster.new_database()
        servers: list[Server] = [ForkedServer(database, log=tmp_path / f"{number}.txt") for number in (0, 1)]
        for server in servers:
            ending.callback(server.kill)
            server.start()
        store = open_store(database, worker="test")
        ending.callback(store.close)
        yield cluster, servers, cast(Store, Patient(store))


@pytest.mark.slow
def test_killing_postgresql_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    with two_servers(tmp_path) as (cluster, servers, store):

        def kill() -> None:
            cluster.kill()
            cluster.start()

        assert asyncio.run(under_fire(servers[0].url, store, kill, [server.port for server in servers])) == KILLS


@pytest.mark.slow
def test_killing_servers_of_one_database_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """Each starts again at once; now and then both are dead."""
    chance = random.Random(8 + SEED)
    with two_servers(tmp_path) as (_, servers, store):

        def kill() -> None:
            server = chance.choice(servers)
            server.kill()
            server.start(wait=chance.random() < 0.5)

        assert asyncio.run(under_fire(servers[0].url, store, kill, [server.port for server in servers])) == KILLS
