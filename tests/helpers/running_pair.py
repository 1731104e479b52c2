"""A leader and a helper in one process, over HTTP without sockets; each with its own database, key and operator."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import numpy.typing as npt

from semilocal.errors import StoreUnavailable
from semilocal.pooled import PooledTask
from semilocal.service.keys import Keyring
from semilocal.service.pair.form import PairSettings
from semilocal.service.pair.peer import ANSWER_HEADER, Peer
from semilocal.service.pair.service import PairService
from semilocal.service.stores.base import Store, open_store
from semilocal.service.stores.pairs import SEED
from semilocal.service.worker import Service
from semilocal.sharing.pair import PairTask
from semilocal.sharing.sealing import sign, verifying_key
from semilocal.sharing.wire import SignedTree, Upload
from semilocal.testing import ADMIN_TOKEN, MockClock, build_app
from tests.helpers.pairs import SIGNING, operator, pooled_task, upload_of

ADMIN = {"authorization": f"Bearer {ADMIN_TOKEN}"}
SEEDS = (b"seed of the leader".ljust(32), b"seed of the helper".ljust(32))

WRITES = ("move", "add", "forwarded", "put_step", "put_answer", "clean")

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

    def __init__(self) -> None:
        self.app: Any = None
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
        answer = await httpx2.ASGITransport(app=self.app).handle_async_request(request)
        if self.lose_first and not known:
            raise httpx2.ReadError("the answer got lost")
        if self.bend is not None:
            await answer.aread()
            return self.bend(request, answer)
        return answer


class Pair:
    """Both servers of a test: the leader is number 0, the helper number 1."""

    def __init__(self, stores: tuple[Store, Store], clocks: Sequence[Callable[[], float]]) -> None:
        self.stores, self._clocks = stores, clocks
        self.wire = Unplugged()  # from the leader to the helper
        self.clients: dict[int, httpx2.AsyncClient] = {}
        self.pairs: dict[int, PairService] = {}
        self.services: dict[int, Service] = {}

    async def begin(self, number: int) -> None:
        """Start a server on its database."""
        names = [operator(server) for server in (0, 1)]
        settings = [
            PairSettings("leader", names[0].name, names[0].origin, names[1].origin),
            PairSettings("helper", names[1].name, names[1].origin, leader=names[0].signing_key.hex()),
        ]
        store, clock, keys = self.stores[number], self._clocks[number], Keyring.of([SIGNING[number]])
        store.first_setting(SEED, SEEDS[number])
        store.set_setting("server-key", keys.current)
        peer = None if number else Peer(names[1].origin, transport=self.wire)
        self.pairs[number] = PairService(store, clock=clock, keys=keys, settings=settings[number], peer=peer)
        app, self.services[number] = build_app(store, clock, keys=keys, pairs=self.pairs[number])
        if number:
            self.wire.app = app
        self.clients[number] = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=app), base_url="http://service.test"
        )
        await self.services[number].start()

    async def end(self, number: int) -> None:
        """Stop a server."""
        await self.services[number].stop()
        await self.clients[number].aclose()

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
        for client in self.clients.values():
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
            for pairs in self.pairs.values():
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
        found = [await client.get(f"/tasks/{pair.id.hex()}/transcript") for client in self.clients.values()]
        assert [one.status_code for one in found] == [200, 200], (found[0].text, await self.state(pair))
        assert found[0].content == found[1].content
        return SignedTree.from_bytes(found[0].content)


class Crashing:
    """The tables of a server that dies at its n-th write, which is done before that if ``after``."""

    def __init__(self, tables: Any, at: int, *, after: bool) -> None:
        self._tables, self._at, self._after = tables, at, after
        self.writes, self.dead = 0, False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._tables, name)
        return self._watched(found) if name in WRITES else found

    def _watched(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def write(*arguments: Any, **named: Any) -> Any:
            if self.dead:
                raise StoreUnavailable("dead")
            self.writes += 1
            if self.writes - 1 != self._at:
                return call(*arguments, **named)
            self.dead = True
            if self._after:
                call(*arguments, **named)
            raise StoreUnavailable("the server died")

        return write


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
    servers = Pair(stores, (clock, helper_clock or clock))
    await servers.begin(1)
    await servers.begin(0)
    try:
        yield servers
    finally:
        for number in (0, 1):
            await servers.end(number)


def token_of(answer: httpx2.Response) -> str:
    """The token of a refusal."""
    assert answer.headers.get("content-type") == "application/problem+json", answer.text
    return str(answer.json()["token"])


def resigned(answer: httpx2.Response, request: httpx2.Request, content: bytes) -> httpx2.Response:
    """Another answer, signed with the helper's key."""
    signature = bytes.fromhex(request.headers["authorization"].rsplit(":", 1)[1])
    parts = (signature, (200).to_bytes(2, "big"), hashlib.sha256(content).digest())
    headers = {"content-type": "application/msgpack", ANSWER_HEADER: sign(SIGNING[1], "answer", *parts).hex()}
    return httpx2.Response(200, content=content, headers=headers, request=request)


async def on_both(servers: Pair, method: str, path: str) -> list[httpx2.Response]:
    """The answers of both servers to one request."""
    return [await client.request(method, path, headers=ADMIN) for client in servers.clients.values()]


def run_pair(
    stores: tuple[Store, Store], test: Callable[[Pair], Awaitable[None]], *, clock: Callable[[], float] | None = None,
    helper_clock: Callable[[], float] | None = None,
) -> None:  # fmt: skip
    """Run a test with both servers."""

    async def body() -> None:
        async with running_pair(stores, clock or MockClock(), helper_clock=helper_clock) as servers:
            await test(servers)

    asyncio.run(body())
