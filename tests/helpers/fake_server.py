"""A server for tests, written from ``spec/http.md`` alone, and a network that loses things.

The server keeps everything in memory and closes a round when everybody it waits for has answered, or when a test says
so. ``Network`` stands between agents and server: it records every request and can drop, repeat or delay it, or kill
the device.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2
import numpy as np

from semilocal.device.agent import Agent
from semilocal.device.channel import Channel, Retry
from semilocal.device.disk import MemoryDisk
from semilocal.device.summary import Summary
from semilocal.device.vault import Vault
from semilocal.errors import DeviceViolation, InvalidInput
from semilocal.geometry.box import Box
from semilocal.protocol.curator import Curator
from semilocal.protocol.keys import HashChain
from semilocal.protocol.messages import (
    Checkpoint,
    Closed,
    Query,
    Report,
    Seal,
    Slice,
    ValueClosed,
    ValueQuery,
    ValueReport,
    decode_report,
    encode,
)
from semilocal.protocol.plan import Plan, Release
from semilocal.protocol.policy import Policy
from semilocal.protocol.task import Task
from semilocal.testing import ALLOW_ALL, MockClock
from semilocal.transcript.checkpoints import merkle_root, seal_round
from tests.helpers import HANG

BOX = Box((0.0, 0.0), (1.0, 1.0), names=("lat", "lon"))
CHAIN = HashChain(bytes(range(32)), 200)
TASK = Task.build(BOX, epsilon=6.0, delta=0.1, k=2, max_depth=12, max_rounds=200, chain=CHAIN.end)
SMALL = Task.build(BOX, epsilon=8.0, delta=0.4, k=1, max_depth=6, max_rounds=200, chain=CHAIN.end)
MEAN = Release.ask("mean", "coordinate", epsilon=1.0, parameters=[0])
URL = "http://server"
Point = tuple[float, ...]


class Problem(Exception):
    """An answer from 400 up."""

    def __init__(self, status: int, token: str, *, retry_after: int | None = None) -> None:
        super().__init__(token)
        self.status, self.token, self.retry_after = status, token, retry_after


@dataclass
class FakeServer:
    """One campaign. A test may put forged bytes under a path in ``forged``."""

    task: Task = TASK
    releases: tuple[Release, ...] = ()
    capacity: int = 1
    tokens: dict[str, str] = field(default_factory=dict)
    forged: dict[str, bytes] = field(default_factory=dict)
    stored: dict[tuple[int, str], bytes] = field(default_factory=dict)
    participants: dict[str, str] = field(default_factory=dict)
    cancelled: bool = False
    expected: int | None = None  # reports that close the open round; None: from those who go on
    signing_key: bytes | None = None  # private half of the key that signs seals

    def __post_init__(self) -> None:
        self.plan = Plan(self.task.id, self.releases)
        self.curator = Curator(self.task, self.plan, chain=CHAIN if self.task.chain else None)
        self.queries: list[Query | ValueQuery] = []
        self.closings: list[Closed | ValueClosed] = []
        self.slices: dict[tuple[int, str], Slice] = {}
        self.partition_rounds = 0

    # -- state -------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self.task.id.hex()

    @property
    def open_round(self) -> int:
        return len(self.queries) if len(self.queries) > len(self.closings) else 0

    @property
    def phase(self) -> str:
        if self.cancelled:
            return "cancelled"
        if not self.queries:
            return "enrolling"
        if not self.open_round:
            return "finished"
        return "collecting" if isinstance(self.queries[-1], Query) else "releasing"

    def start(self) -> None:
        if not self.queries:
            query = self.curator.query()
            assert query is not None
            self.queries.append(query)

    def bodies(self, number: int) -> list[bytes]:
        return [self.stored[key] for key in sorted(self.stored) if key[0] == number]

    def waits_for(self) -> int:
        if self.expected is not None:
            return self.expected
        expected = self.curator.expected
        return len(self.participants) if expected is None else expected

    def awaited(self) -> int:
        """Reports of those whom the open round waits for; others close no round."""
        reports = [decode_report(body) for body in self.bodies(self.open_round)]
        if self.expected is not None or self.open_round == 1 or self.curator.partitioned:
            return len(reports)
        parents = {name: home for name, home in self.curator.home.items() if home in self.curator.above}
        return sum(one.pseudonym in parents or one.pseudonym in self.curator.asked_now(one.region) for one in reports)

    def close_if_complete(self) -> None:
        if self.open_round and self.awaited() >= self.waits_for():
            self.close()

    def close(self) -> None:
        """Close the open round with the reports it has."""
        number, query = self.open_round, self.queries[-1]
        reports = [decode_report(body) for body in self.bodies(number)]
        closed = self.curator.close(reports)
        self.closings.append(closed)
        if isinstance(closed, Closed):
            self.slices |= {(number, f"{one.lower}-{one.upper}"): one for one in self.curator.slices}
        if isinstance(query, Query) and self.curator.partitioned:
            self.partition_rounds = number
        following = self.curator.query()
        if following is not None:
            self.queries.append(following)

    def events(self, rounds: int) -> list[bytes]:
        """Canonical bytes of the transcript's first rounds."""
        events = [encode(self.task)]
        for number in range(1, rounds + 1):
            query, closed = self.queries[number - 1], self.closings[number - 1]
            if isinstance(query, ValueQuery) and number == self.partition_rounds + 1:
                events.append(encode(self.plan))
            events += [encode(query), *self.bodies(number), encode(closed)]
        return events

    def root(self) -> bytes:
        return merkle_root(self.events(len(self.closings)))

    def checkpoint(self, number: int) -> Checkpoint:
        events = self.events(number)
        return Checkpoint(self.task.id, number, len(events), merkle_root(events))

    def seals(self) -> list[Seal]:
        """The seals of all closed rounds."""
        out: list[Seal] = []
        for number in range(1, len(self.closings) + 1):
            head = out[-1].head if out else self.task.id
            out.append(seal_round(head, self.checkpoint(number), key=self.signing_key))
        return out

    # -- routes ------------------------------------------------------------------------------------------------

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """Status and body, or a Problem."""
        if path in self.forged and method == "GET":
            return 200, self.forged[path]
        if path == "/tasks":
            return 200, json.dumps([{"task": self.name, "name": "test", "phase": self.phase, "enrolled": 0}]).encode()
        prefix = f"/tasks/{self.name}"
        if not path.startswith(prefix):
            raise Problem(404, "no-such-task")
        parts = path[len(prefix) :].strip("/").split("/")
        match [method, *parts]:
            case ["GET", ""]:
                return 200, encode(self.task)
            case ["GET", "plan"]:
                return 200, encode(self.plan)
            case ["GET", "state"]:
                return 200, json.dumps(self.state()).encode()
            case ["PUT", "participants", who]:
                return self.enrol(who, json.loads(body)), acknowledgement(body)
            case ["GET", "rounds", number, "query"]:
                if int(number) > len(self.queries):
                    raise Problem(404, "not-open-yet", retry_after=1)
                return 200, encode(self.queries[int(number) - 1])
            case ["GET", "rounds", number, *_] if int(number) > len(self.closings):
                raise Problem(404, "not-closed-yet", retry_after=1)
            case ["GET", "rounds", number, "closed"]:
                return 200, encode(self.closings[int(number) - 1])
            case ["GET", "rounds", number, "slices", region]:
                if (int(number), region) not in self.slices:
                    raise Problem(404, "no-such-slice")
                return 200, encode(self.slices[int(number), region])
            case ["GET", "rounds", number, "checkpoint"]:
                return 200, self.checkpoint(int(number)).to_bytes()
            case ["GET", "rounds", number, "seal"]:
                return 200, self.seals()[int(number) - 1].to_bytes()
            case ["PUT", "rounds", number, "reports", who]:
                return self.report(int(number), who, headers.get("authorization", ""), body), acknowledgement(body)
        raise Problem(404, "no-such-route")

    def state(self) -> dict[str, Any]:
        number = self.open_round
        kind = None if not number else "query" if isinstance(self.queries[-1], Query) else "value-query"
        return {
            "task": self.name, "phase": self.phase, "round": number or len(self.closings), "kind": kind,
            "closed": len(self.closings), "enrolled": len(self.participants), "deadline": None, "poll_after": 2,
            "now": 1_700_000_000,
        }  # fmt: skip

    def enrol(self, who: str, body: dict[str, str]) -> int:
        known = self.participants.get(who)
        if known is not None:
            if known != body["verifier"]:
                raise Problem(409, "pseudonym-taken")
            return 200
        if self.curator.partitioned:
            raise Problem(410, "enrolment-closed")
        if self.tokens:
            token = body.get("token", "")
            if token not in self.tokens:
                raise Problem(403, "bad-token")
            if self.tokens[token]:
                raise Problem(409, "token-used")
            self.tokens[token] = who
        self.participants[who] = body["verifier"]
        if len(self.participants) >= self.capacity:
            self.start()
        return 201

    def report(self, number: int, who: str, authorization: str, body: bytes) -> int:
        if self.cancelled:
            raise Problem(410, "campaign-ended")
        if number > len(self.queries):
            raise Problem(404, "not-open-yet", retry_after=1)
        try:
            report = decode_report(body)
        except InvalidInput:
            raise Problem(422, "not-canonical") from None
        if report.task != self.task.id or report.round != number or report.pseudonym.hex() != who:
            raise Problem(422, "other-round")
        key = bytes.fromhex(authorization.removeprefix("Bearer "))
        if self.participants.get(who) != hashlib.sha256(key).hexdigest():
            raise Problem(401, "unauthorized")
        if (number, who) in self.stored:
            if self.stored[number, who] != body:
                raise Problem(409, "other-answer")
            return 200
        if number != self.open_round:
            raise Problem(410, "round-closed")
        try:
            self.check(report)
        except DeviceViolation as error:
            raise Problem(422, error.token) from None
        self.stored[number, who] = body
        self.close_if_complete()
        return 201

    def check(self, report: Report | ValueReport) -> None:
        """Refuse a report that does not belong to the open round."""
        self.curator.check(report)

    async def __call__(self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Any]) -> None:
        await answer_asgi(self.answer, scope, receive, send)


async def answer_asgi(
    answer: Callable[[str, str, dict[str, str], bytes], tuple[int, bytes]], scope: Any,
    receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Any],
) -> None:  # fmt: skip
    """Answer one request with (method, path, headers, body) -> (status, body), or a Problem."""
    body, more = b"", True
    while more:
        event = await receive()
        body, more = body + event.get("body", b""), event.get("more_body", False)
    headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
    extra: list[tuple[bytes, bytes]] = []
    try:
        status, data = answer(scope["method"], scope["path"], headers, body)
    except Problem as problem:
        status = problem.status
        data = problem_body(status, problem.token, f"because {problem.token}")
        if problem.retry_after is not None:
            extra = [(b"retry-after", str(problem.retry_after).encode())]
    kind = "problem+json" if status >= 400 else "json" if data[:1] in (b"{", b"[") else "msgpack"
    fixed = [(b"content-length", str(len(data)).encode()), (b"content-type", f"application/{kind}".encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*fixed, *extra]})
    await send({"type": "http.response.body", "body": data})


def acknowledgement(body: bytes) -> bytes:
    """Body of an answer to a report or an enrolment."""
    return json.dumps({"digest": hashlib.sha256(body).hexdigest()}).encode()


def problem_body(status: int, token: str, detail: str = "") -> bytes:
    """Body of a refusal."""
    kind = f"urn:semilocal:problem:{token}"
    return json.dumps({"type": kind, "token": token, "status": status, "detail": detail}).encode()


def refusal(status: int, token: str, detail: str = "", **headers: str) -> httpx2.Response:
    """A refusal as the server sends it."""
    kind = {"content-type": "application/problem+json", **headers}
    return httpx2.Response(status, headers=kind, content=problem_body(status, token, detail))


@dataclass(frozen=True)
class Sent:
    """A request as it left the device."""

    method: str
    url: str
    headers: bytes
    body: bytes
    time: float


class DeviceDies(BaseException):
    """The process of the device is killed; nothing may catch it."""


class Network(httpx2.AsyncBaseTransport):
    """Between agents and an ASGI app.

    Parameters
    ----------
    fate : callable
        Takes the number of the request (from 0) and the request; says what happens to it: "" (delivered), "lost",
        "answer-lost", "twice", "die-before", "die-after", a pair (status, Retry-After), or the response of something
        on the way.
    """

    def __init__(
        self, app: Any, clock: MockClock, fate: Callable[[int, httpx2.Request], Any] = lambda n, r: ""
    ) -> None:
        self._inner = httpx2.ASGITransport(app=app)
        self._clock = clock
        self.fate = fate
        self.sent: list[Sent] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        number = len(self.sent)
        body = await request.aread()
        headers = b"\n".join(name + b": " + value for name, value in request.headers.raw)
        self.sent.append(Sent(request.method, str(request.url), headers, body, self._clock.now))
        fate = self.fate(number, request)
        if isinstance(fate, tuple):
            status, wait = fate
            return refusal(status, "overloaded", **{"retry-after": str(wait)})
        if isinstance(fate, httpx2.Response):
            return fate
        if fate == "die-before":
            raise DeviceDies
        if fate == "lost":
            raise httpx2.ConnectError("dropped", request=request)
        response = await self._inner.handle_async_request(request)
        if fate == "twice":
            await response.aclose()
            response = await self._inner.handle_async_request(request)
        if fate == "die-after":
            raise DeviceDies
        if fate == "answer-lost":
            raise httpx2.ReadError("dropped", request=request)
        return response

    def puts(self) -> dict[str, set[bytes]]:
        """Every distinct report that ever left, by where it was sent."""
        found: dict[str, set[bytes]] = {}
        for sent in self.sent:
            if sent.method == "PUT" and "/reports/" in sent.url:
                found.setdefault(sent.url, set()).add(sent.body)
        return found


class World:
    """A server, a network, a clock and any number of devices with vaults in memory."""

    def __init__(self, server: FakeServer, *, seed: int = 1, retry: Retry | None = None) -> None:
        self.server = server
        self.clock = MockClock(0.0)
        self.network = Network(server, self.clock)
        self.disk = MemoryDisk()
        self.retry = Retry() if retry is None else retry
        self._rng = np.random.default_rng(seed)
        self.jitter: Callable[[], float] = lambda: float(self._rng.random())
        self.secrets: dict[str, bytes] = {}

    def channel(self, transport: httpx2.AsyncBaseTransport | None = None, **headers: str) -> Channel:
        """A channel over the network, or over something that stands before it."""
        client = httpx2.AsyncClient(transport=transport or self.network, headers=headers)
        return Channel(URL, client, clock=self.clock, jitter=self.jitter, retry=self.retry)

    def vault(self, name: str) -> Vault:
        secret = self.secrets.get(name) or self._rng.bytes(32)
        vault = Vault.open(name, disk=self.disk, entropy=lambda size: secret)
        self.secrets.setdefault(name, vault.contents.secret)
        return vault

    def agent(self, vault: Vault, position: tuple[float, ...], **options: Any) -> Agent:
        """A new agent on a vault, with a channel of its own unless one is given."""
        options.setdefault("policy", ALLOW_ALL)
        options.setdefault("channel", self.channel())
        return Agent(f"{URL}/tasks/{self.server.name}", vault, position=position, **options)


async def end_rounds(server: FakeServer, patience: int = 3000) -> None:
    """Close a round in which nothing has come for a while, as a deadline does."""
    seen, since = -1, 0
    while True:
        await asyncio.sleep(0)
        now = len(server.stored) + len(server.closings)
        seen, since = now, since + 1 if now == seen else 0
        if since > patience and server.open_round and not server.cancelled:
            server.close()


async def run_agents(
    world: World, points: list[Point], values: list[float] | None = None, policies: list[Policy] | None = None
) -> list[Summary]:
    """All devices at once, on one channel; with own values if the plan asks for one. Rounds end if nobody speaks."""
    channel = world.channel()
    vaults = [world.vault(f"device{number}") for number in range(len(points))]
    own = [None] * len(points) if values is None else values
    agents = [
        world.agent(vault, point, channel=channel, value=value, policy=policy)
        for vault, point, value, policy in zip(vaults, points, own, policies or [ALLOW_ALL] * len(own), strict=True)
    ]
    deadlines = asyncio.ensure_future(end_rounds(world.server))
    try:
        return await asyncio.wait_for(asyncio.gather(*(agent.run() for agent in agents)), HANG)
    finally:
        deadlines.cancel()
        await channel.aclose()
        for vault in vaults:
            vault.close()


def crowd(size: int, seed: int = 3) -> list[Point]:
    """Positions around one place, all inside the box."""
    points = np.clip(np.random.default_rng(seed).normal(0.4, 0.15, (size, 2)), 0, 1)
    return [tuple(row) for row in points.tolist()]
