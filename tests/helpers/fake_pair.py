"""Two servers for tests of the device, written from the wire's messages alone: they store uploads and count nothing.

Both answer through one network, so that a test can drop, repeat or delay every request, or kill the device.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2
import numpy as np

from semilocal import Box, Policy
from semilocal.device.channel import Channel, Retry
from semilocal.device.disk import MemoryDisk
from semilocal.device.upload import Uploader
from semilocal.device.vault import Vault
from semilocal.pooled import PooledTask, Published, play
from semilocal.pooled.counter import MemoryCounter
from semilocal.pooled.noise import from_generator
from semilocal.sharing.pair import Operator, PairTask
from semilocal.sharing.sealing import public_key, verifying_key
from semilocal.sharing.wire import BucketTree, Receipt, SignedTree, Upload
from semilocal.testing import MockClock, cluster, secret
from tests.helpers.fake_server import Network, Problem, answer_asgi

LEADER, HELPER = "http://leader.test", "http://helper.test"
SIGNING = (secret(1, seed=71), secret(2, seed=71))
SEALING = (secret(3, seed=71), secret(4, seed=71))
BOX = Box((0.0, 0.0), (1.0, 1.0), names=("x", "y"))
POOLED = PooledTask.build(BOX, epsilon=2.0, trust="two-servers", max_depth=10)
POLICY = Policy(max_epsilon=10.0)
NOW = 1_700_000_000


def operators() -> tuple[Operator, Operator]:
    """The leader and the helper of the tests."""
    names, origins = ("City", "University"), (LEADER, HELPER)
    first, second = (
        Operator(name, origin, verifying_key(signing), public_key(sealing))
        for name, origin, signing, sealing in zip(names, origins, SIGNING, SEALING, strict=True)
    )
    return first, second


def sample_pair(pooled: PooledTask = POOLED, *, bucket_depth: int = 0) -> PairTask:
    """A pair of different operators."""
    return PairTask(pooled, *operators(), bucket_depth)


def published_numbers(seed: int = 1, people: int = 2_000) -> Published:
    """What a pair could publish about a clustered crowd."""
    rng = np.random.default_rng(seed)
    return play(POOLED, MemoryCounter(POOLED, cluster(people), from_generator(rng)))


def signed_tree(pair: PairTask, trees: tuple[BucketTree, ...]) -> SignedTree:
    """A transcript that both servers sign, whatever is in it."""
    first, second = (SignedTree.signature_by(key, pair.to_bytes(), trees) for key in SIGNING)
    return SignedTree(pair.to_bytes(), trees, first, second)


@dataclass
class FakePair:
    """Both servers. A test may put forged bytes under (host, path) in ``forged``."""

    pair: PairTask = field(default_factory=sample_pair)
    tokens: dict[str, str] = field(default_factory=dict)
    forged: dict[tuple[str, str], bytes] = field(default_factory=dict)
    stored: dict[str, bytes] = field(default_factory=dict)
    closed: bool = False
    signing: bytes = SIGNING[0]
    phases: dict[str, str] = field(default_factory=lambda: {"leader.test": "open", "helper.test": "open"})

    @property
    def name(self) -> str:
        return self.pair.id.hex()

    @property
    def url(self) -> str:
        return f"{self.pair.leader.origin}/tasks/{self.name}"

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """Status and body, or a Problem."""
        host = headers["host"]
        if method == "GET" and (host, path) in self.forged:
            return 200, self.forged[host, path]
        base = f"/tasks/{self.name}"
        if not path.startswith(base):
            raise Problem(404, "no-such-task")
        match [method, *path[len(base) :].strip("/").split("/")]:
            case ["GET", ""]:
                return 200, self.pair.to_bytes()
            case ["GET", "state"]:
                state = {"task": self.name, "kind": "pair", "phase": self.phases.get(host, "open")}
                return 200, json.dumps(state).encode()
            case ["PUT", "uploads", who] if self.pair.leader.origin.endswith(f"//{host}"):
                return self.upload(who, body), self.receipt(body)
        raise Problem(404, "no-such-route")

    def upload(self, who: str, body: bytes) -> int:
        upload = Upload.from_bytes(body)
        upload.check(self.pair)
        assert upload.id.hex() == who
        if who in self.stored:
            if self.stored[who] != body:
                raise Problem(409, "other-upload")
            return 200
        if self.closed:
            raise Problem(410, "uploads-closed")
        if self.tokens:
            if upload.token not in self.tokens:
                raise Problem(403, "bad-token")
            if self.tokens[upload.token] not in ("", who):
                raise Problem(409, "token-used")
            self.tokens[upload.token] = who
        self.stored[who] = body
        return 201

    def receipt(self, body: bytes) -> bytes:
        digest = hashlib.sha256(body).digest()
        return Receipt.issue(self.signing, self.pair.id, Upload.from_bytes(body).id, digest, now=NOW).to_bytes()

    async def __call__(self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Any]) -> None:
        await answer_asgi(self.answer, scope, receive, send)


class PairWorld:
    """A pair of servers, a network, a clock and any number of devices with vaults in memory."""

    def __init__(self, servers: FakePair | None = None, *, seed: int = 1, retry: Retry | None = None) -> None:
        self.servers = FakePair() if servers is None else servers
        self.clock = MockClock(0.0)
        self.network = Network(self.servers, self.clock)
        self.disk = MemoryDisk()
        self._rng = np.random.default_rng(seed)
        self._retry = Retry() if retry is None else retry
        self.channels: dict[str, Channel] = {}

    def connect(self, origin: str) -> Channel:
        """The channel to an origin."""
        if origin not in self.channels:
            client = httpx2.AsyncClient(transport=self.network)
            self.channels[origin] = Channel(
                origin, client, clock=self.clock, jitter=lambda: float(self._rng.random()), retry=self._retry
            )
        return self.channels[origin]

    def vault(self, name: str = "device") -> Vault:
        """The vault of a device, in memory; the same secret whenever it is opened."""
        return Vault.open(name, disk=self.disk, entropy=lambda size: hashlib.sha256(name.encode()).digest()[:size])

    async def upload(self, position: tuple[float, ...] = (0.3, 0.7), *, name: str = "device", **options: Any) -> Any:
        """Run a device once."""
        chosen = {"url": self.servers.url, "policy": POLICY, **options}
        url = chosen.pop("url")
        with self.vault(name) as vault:
            return await Uploader(url, vault, connect=self.connect, position=position, **chosen).run()

    def uploads(self) -> list[bytes]:
        """Every upload that ever left, in order."""
        return [sent.body for sent in self.network.sent if sent.method == "PUT"]
