"""A leader and a helper in one process, over HTTP without sockets; each with its own database, key and operator."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import numpy.typing as npt

from semilocal.pooled import PooledTask
from semilocal.service.keys import Keyring
from semilocal.service.pair.form import PairSettings
from semilocal.service.pair.peer import Peer
from semilocal.service.pair.service import PairService
from semilocal.service.stores.base import Store, open_store
from semilocal.service.stores.pairs import SEED
from semilocal.service.worker import Service
from semilocal.sharing.pair import PairTask
from semilocal.sharing.signing import verifying_key
from semilocal.sharing.wire import SignedTree, Upload
from semilocal.testing import ADMIN_TOKEN, MockClock, build_app
from tests.helpers.pairs import SIGNING, operator, pooled_task, upload_of

ADMIN = {"authorization": f"Bearer {ADMIN_TOKEN}"}
SEEDS = (b"seed of the leader".ljust(32), b"seed of the helper".ljust(32))

_upload_once = cache(upload_of)  # many tests ask the same crowd for the same pair


class Unplugged(httpx2.AsyncBaseTransport):
    """A wire between the servers that a test can cut, watch and bend.

    Attributes
    ----------
    on : bool
        Whether requests arrive.
    sent : list of (path, body)
    bend : callable or None
        Gets the request and the answer; what it returns arrives.
    lose_first : bool
        Whether the first answer to every request gets lost on the way back.
    block : callable or None
        Says of a request whether it does not arrive.
    """

    def __init__(self, app: Any) -> None:
        self._inner = httpx2.ASGITransport(app=app)
        self.on, self.lose_first = True, False
        self.sent: list[tuple[str, bytes]] = []
        self.bend: Callable[[httpx2.Request, httpx2.Response], httpx2.Response] | None = None
        self.block: Callable[[httpx2.Request], bool] | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if not self.on:
            raise httpx2.ConnectError("unplugged")
        known = (request.url.path, request.content) in self.sent
        self.sent.append((request.url.path, request.content))
        if self.block is not None and self.block(request):
            raise httpx2.ConnectError("blocked")
        answer = await self._inner.handle_async_request(request)
        if self.lose_first and not known:
            raise httpx2.ReadError("the answer got lost")
        if self.bend is not None:
            await answer.aread()
            return self.bend(request, answer)
        return answer


class Pair:
    """Both servers of a test.

    Attributes
    ----------
    clients : (AsyncClient, AsyncClient)
        Of the leader and of the helper.
    pairs : (Pairs, Pairs)
    services : (Service, Service)
    wire : Unplugged
        From the leader to the helper.
    """

    def __init__(
        self, clients: tuple[httpx2.AsyncClient, httpx2.AsyncClient], pairs: tuple[PairService, PairService],
        services: tuple[Service, Service], wire: Unplugged,
    ) -> None:  # fmt: skip
        self.clients, self.pairs, self.services, self.wire = clients, pairs, services, wire

    @property
    def leader(self) -> httpx2.AsyncClient:
        return self.clients[0]

    @property
    def helper(self) -> httpx2.AsyncClient:
        return self.clients[1]

    async def form(self, task: PooledTask | None = None, **changes: Any) -> dict[str, Any]:
        """A request for a new pair; ``label`` is that of the usual pooled task."""
        key = (await self.helper.get("/operator")).json()["signing_key"]
        pooled = msgspec.to_builtins(task or pooled_task(label=changes.pop("label", "")))
        return {"name": "test", "pooled": pooled, "peer_key": key, "enrolment": "open"} | changes

    async def ask(self, task: PooledTask | None = None, **changes: Any) -> httpx2.Response:
        """Ask the leader for a new pair."""
        key = None if self.wire.on else verifying_key(SIGNING[1]).hex()
        form = await self.form(task, **({} if key is None else {"peer_key": key}), **changes)
        return await self.leader.post("/pairs", json=form, headers=ADMIN)

    async def create(self, task: PooledTask | None = None, **changes: Any) -> PairTask:
        """Create a pair on both servers."""
        answer = await self.ask(task, **changes)
        assert answer.status_code == 201, answer.text
        await self.tick()
        return PairTask.from_bytes((await self.leader.get(f"/tasks/{answer.json()['task']}")).content)

    async def opened(self, task: PooledTask | None = None, **changes: Any) -> PairTask:
        """A pair that both operators have confirmed."""
        pair = await self.create(task, **changes)
        for client in self.clients:
            answer = await client.post(f"/tasks/{pair.id.hex()}/confirm", headers=ADMIN)
            assert answer.status_code == 200, answer.text
        await self.tick()
        return pair

    async def put(self, pair: PairTask, upload: Upload) -> httpx2.Response:
        """Send an upload."""
        path = f"/tasks/{pair.id.hex()}/uploads/{upload.id.hex()}"
        return await self.leader.put(path, content=upload.to_bytes())

    async def fill(self, pair: PairTask, points: npt.ArrayLike, values: Sequence[int] | None = None) -> None:
        """Upload for everybody; values are integers of the grid."""
        for number, code in enumerate(pair.pooled.hierarchy.codes(points).tolist()):
            value = None if values is None else values[number]
            answer = await self.put(pair, _upload_once(pair, code, number, value=value))
            assert answer.status_code == 201, answer.text

    async def tick(self, times: int = 1) -> None:
        """Let both servers do what is due."""
        for _ in range(times):
            for pairs in self.pairs:
                await pairs.tick()

    async def start(self, pair: PairTask) -> httpx2.Response:
        """End uploads."""
        return await self.leader.post(f"/tasks/{pair.id.hex()}/start", headers=ADMIN)

    async def state(self, pair: PairTask, server: int = 0) -> dict[str, Any]:
        """Where the pair stands on a server."""
        return dict((await self.clients[server].get(f"/tasks/{pair.id.hex()}/state")).json())

    async def finish(self, pair: PairTask) -> SignedTree:
        """End uploads and count to the end; the transcript, which both servers give."""
        assert (await self.start(pair)).status_code == 200
        await self.tick(2)
        found = [await client.get(f"/tasks/{pair.id.hex()}/transcript") for client in self.clients]
        assert [one.status_code for one in found] == [200, 200], (found[0].text, await self.state(pair))
        assert found[0].content == found[1].content
        return SignedTree.from_bytes(found[0].content)


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[tuple[Store, Store]]:
    """The databases of the leader and of the helper in a folder."""
    leader, helper = (open_store(f"sqlite:///{folder / name}.db") for name in ("leader", "helper"))
    try:
        yield leader, helper
    finally:
        leader.close()
        helper.close()


@contextlib.asynccontextmanager
async def running_pair(
    stores: tuple[Store, Store], clock: Callable[[], float], *, helper_clock: Callable[[], float] | None = None
) -> AsyncIterator[Pair]:
    """Run both servers in this process."""
    clocks = (clock, helper_clock or clock)
    for store, seed, secret in zip(stores, SEEDS, SIGNING, strict=True):
        store.first_setting(SEED, seed)
        store.set_setting("server-key", Keyring.of([secret]).current)
    names = [operator(server) for server in (0, 1)]
    rings = [Keyring.of([secret]) for secret in SIGNING]
    helping = PairService(
        stores[1], clock=clocks[1], keys=rings[1], interval=None,
        settings=PairSettings("helper", names[1].name, names[1].origin, leader=names[0].signing_key.hex()),
    )  # fmt: skip
    helper_app, helper = build_app(stores[1], clocks[1], keys=rings[1], pairs=helping)
    wire = Unplugged(helper_app)
    leading = PairService(
        stores[0], clock=clocks[0], keys=rings[0], interval=None, peer=Peer(names[1].origin, transport=wire),
        settings=PairSettings("leader", names[0].name, names[0].origin, names[1].origin),
    )  # fmt: skip
    leader_app, leader = build_app(stores[0], clocks[0], keys=rings[0], pairs=leading)
    for service in (leader, helper):
        await service.start()
    try:
        async with contextlib.AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(
                    httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://service.test")
                )
                for app in (leader_app, helper_app)
            ]
            yield Pair((clients[0], clients[1]), (leading, helping), (leader, helper), wire)
    finally:
        for service in (leader, helper):
            await service.stop()


async def on_both(servers: Pair, method: str, path: str) -> list[httpx2.Response]:
    """The answers of both servers to one request."""
    return [await client.request(method, path, headers=ADMIN) for client in servers.clients]


def run_pair(
    stores: tuple[Store, Store], test: Callable[[Pair], Awaitable[None]], *, clock: Callable[[], float] | None = None,
    helper_clock: Callable[[], float] | None = None,
) -> None:  # fmt: skip
    """Run a test with both servers."""

    async def body() -> None:
        async with running_pair(stores, clock or MockClock(), helper_clock=helper_clock) as servers:
            await test(servers)

    asyncio.run(body())
