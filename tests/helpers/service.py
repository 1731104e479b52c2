"""What the tests of the service share: a clock, devices that follow spec/http.md, databases, servers.

The devices here are small on purpose: a protocol machine and plain requests, so that the service is tested against its
specification and not against one client.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest

from semilocal import Box, Closed, Participant, Policy, Query, Report, Task
from semilocal.protocol.keys import derive, pseudonym
from semilocal.protocol.messages import ValueQuery, ValueReport, decode, encode
from semilocal.protocol.plan import Plan
from semilocal.protocol.values import respond_value
from semilocal.service.admin import admin_hash, create_campaign
from semilocal.service.app import App, create_app
from semilocal.service.campaign import Campaign
from semilocal.service.stores.base import Store, open_store
from semilocal.service.worker import Service

ADMIN = "sla_0123456789-admin-token-of-the-tests"
POLICY = Policy(max_epsilon=1e9, allow_no_crowd=True, min_k=1)


def unmet(reason: str) -> None:
    """Skip a test whose means are missing; fail instead if SEMILOCAL_REQUIRE_ALL=1."""
    if os.environ.get("SEMILOCAL_REQUIRE_ALL") == "1":
        pytest.fail(f"required by SEMILOCAL_REQUIRE_ALL: {reason}")
    pytest.skip(reason)


class MockClock:
    """Unix time that moves when told."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


def sample_task(**changes: Any) -> Task:
    """A small task in two dimensions that splits a few times with a few hundred participants."""
    options: dict[str, Any] = {"epsilon": 4.0, "delta": 0.05, "k": 5, "max_depth": 8, "window": 60}
    return Task.build(Box((0, 0), (1, 1)), **(options | changes))


def sample_points(count: int, *, seed: int = 1, dimensions: int = 2) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Positions in a cluster."""
    rng = np.random.default_rng(seed)
    return np.clip(rng.normal(0.3, 0.12, (count, dimensions)), 0, 1)


def sample_secrets(count: int, *, seed: int = 1) -> list[bytes]:
    """One secret per participant."""
    rng = np.random.default_rng([seed, 99])
    return [rng.bytes(32) for _ in range(count)]


def device_key(secret: bytes, task: bytes) -> bytes:
    """The key of a device for a task, as spec/http.md says."""
    return derive(secret, b"semilocal/1/key" + task, 32)


class Device:
    """A participant with a key, over any httpx client."""

    def __init__(
        self, client: httpx.AsyncClient, task: Task, point: Any, secret: bytes, *, plan: Plan | None = None
    ) -> None:
        self.client, self.task, self.plan = client, task, plan or Plan(task.id)
        self.machine = Participant(task, point, secret, POLICY)
        self.point, self.secret = point, secret
        self.pseudonym = pseudonym(secret, task.id)
        self.key = device_key(secret, task.id)
        self.partition_rounds = 0

    @property
    def base(self) -> str:
        return f"/tasks/{self.task.id.hex()}"

    def path(self, round_: int) -> str:
        return f"{self.base}/rounds/{round_}/reports/{self.pseudonym.hex()}"

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key.hex()}"}

    async def enrol(self, token: str | None = None) -> httpx.Response:
        form: dict[str, str] = {"verifier": hashlib.sha256(self.key).hexdigest()}
        if token is not None:
            form["token"] = token
        return await self.client.put(f"{self.base}/participants/{self.pseudonym.hex()}", json=form)

    async def put(self, report: Report | ValueReport | bytes, round_: int | None = None) -> httpx.Response:
        body = report if isinstance(report, bytes) else message_bytes(report)
        number = round_ if round_ is not None else report.round  # type: ignore[union-attr]
        return await self.client.put(self.path(number), content=body, headers=self.headers)

    async def answer(self, data: bytes) -> httpx.Response | None:
        """Answer a query of either kind; None if there is nothing to say."""
        if msgspec.msgpack.decode(data)[0] == "value-query":
            report = self.respond_value(decode(data, ValueQuery))
            return None if report is None else await self.put(report)
        if self.machine.state.phase in ("finished", "lost"):
            return None
        said = self.machine.receive(decode(data, Query))
        return None if said is None else await self.put(said)

    def respond_value(self, query: ValueQuery) -> ValueReport | None:
        region = self.machine.region
        if region is None:
            return None
        return respond_value(
            query, self.plan, task=self.task, secret=self.secret, pseudonym=self.pseudonym, region=region,
            point=self.point, first_round=query.round - self.plan.asked.index(query.index),
        )  # fmt: skip

    def follow(self, data: bytes) -> None:
        if msgspec.msgpack.decode(data)[0] == "closed":
            self.machine.receive(decode(data, Closed))


def message_bytes(message: Report | ValueReport) -> bytes:
    return encode(message)


async def play(
    client: httpx.AsyncClient, devices: Sequence[Device], *, service: Service | None = None, clients: int = 32
) -> dict[str, Any]:
    """Let enrolled devices follow their campaign to its end; returns the last state.

    With a service in the same process its ``tick`` is called; else the server looks after itself.
    """
    base, gate = devices[0].base, asyncio.Semaphore(clients)

    async def one(device: Device, data: bytes) -> None:
        async with gate:
            for _ in range(100):
                answer = await device.answer(data)
                if answer is None or answer.status_code in (200, 201):
                    return
                assert answer.status_code in (429, 503), answer.text
                await asyncio.sleep(0.05)
            raise AssertionError("never accepted")

    done, answered = 0, 0
    while True:
        if service is not None:
            await service.tick()
        wait = f"?after={done}&wait=5" if service is None and answered > done else ""
        state = (await client.get(f"{base}/state{wait}", timeout=30)).json()
        while done < state["closed"]:
            done += 1
            data = (await client.get(f"{base}/rounds/{done}/closed")).content
            for device in devices:
                device.follow(data)
        if state["phase"] in ("finished", "cancelled"):
            return dict(state)
        if state["phase"] != "enrolling" and answered == done:
            query = (await client.get(f"{base}/rounds/{done + 1}/query")).content
            await asyncio.gather(*(one(device, query) for device in devices))
            answered = done + 1


async def transcript(client: httpx.AsyncClient, task: Task, *, rounds: int, plan: Plan | None = None) -> list[bytes]:
    """All events of a campaign as anybody can read them over HTTP."""
    base = f"/tasks/{task.id.hex()}"
    events = [(await client.get(base)).content]
    before = ""
    for number in range(1, rounds + 1):
        query = (await client.get(f"{base}/rounds/{number}/query")).content
        tag = msgspec.msgpack.decode(query)[0]
        if before == "query" and tag == "value-query":
            assert plan is not None
            events.append(encode(plan))
        before = tag
        events.append(query)
        after = ""
        while True:
            page = msgspec.msgpack.decode(
                (await client.get(f"{base}/rounds/{number}/reports?limit=500&after={after}")).content
            )
            if not page:
                break
            events += page
            after = msgspec.msgpack.decode(page[-1])[3].hex()
        events.append((await client.get(f"{base}/rounds/{number}/closed")).content)
    return events


def build(store: Store, clock: Any, *, interval: float | None = None, **options: Any) -> tuple[App, Service]:
    """An application over a store."""
    service = Service(store, clock=clock, interval=interval, **options)
    return create_app(service, admin=admin_hash(ADMIN)), service


def client_of(app: App) -> httpx.AsyncClient:
    """A client that talks to the application in process; faults of the application are raised in the test."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://service.test")


@contextlib.asynccontextmanager
async def running(store: Store, clock: Any, **options: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Service, App]]:
    """An application in process."""
    app, service = build(store, clock, **options)
    await service.start()
    try:
        async with client_of(app) as client:
            yield client, service, app
    finally:
        await service.stop()


def open_campaign(task: Task, *, releases: Any = (), capacity: int | None = None) -> Campaign:
    """A campaign that anybody may join."""
    return Campaign("test", task, releases, "open", capacity)


async def enrolled(
    client: httpx.AsyncClient, store: Store, campaign: Campaign, points: Any, secrets: list[bytes]
) -> list[Device]:
    """Create a campaign and enrol devices."""
    assert create_campaign(store, campaign, now=time.time())
    devices = [
        Device(client, campaign.task, point, secret, plan=campaign.plan)
        for point, secret in zip(points, secrets, strict=True)
    ]
    for device in devices:
        answer = await device.enrol()
        assert answer.status_code == 201, answer.text
    return devices


# -- databases -----------------------------------------------------------------------------------------------------


class Postgres:
    """A private PostgreSQL cluster in a temporary folder, reachable on the loopback interface and a socket."""

    def __init__(self) -> None:
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
        if not found:
            raise RuntimeError("PostgreSQL's server programs are not installed (no /usr/lib/postgresql/*/bin/pg_ctl)")
        self.bin = found[-1].parent
        self.home = Path(tempfile.mkdtemp(prefix="semilocal-pg-"))
        self.user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        if self.user is not None:
            os.chown(self.home, self.user.pw_uid, self.user.pw_gid)
        self.port = free_port()
        self.data = self.home / "data"
        self._run("initdb", "-D", str(self.data), "-U", "semilocal", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        self.names = 0
        self.start()

    def _run(self, program: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        options: dict[str, Any] = {}
        if self.user is not None:
            options = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}
        with open(self.home / "log.txt", "ab") as log:
            done = subprocess.run(
                [str(self.bin / program), *arguments],
                stdout=log,
                stderr=log,
                cwd="/",
                timeout=60,
                check=False,
                **options,
            )
        if check and done.returncode:
            raise RuntimeError((self.home / "log.txt").read_text()[-2000:])
        return done

    def start(self) -> None:
        settings = (
            f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.home}"
            " -c max_connections=100"
            " -c shared_buffers=64MB -c fsync=on -c synchronous_commit=on"
        )
        self._run("pg_ctl", "-D", str(self.data), "-l", str(self.home / "server.log"), "-w", "-o", settings, "start")

    def kill(self) -> None:
        """As a crash: every process of the cluster dies at once."""
        pid = int((self.data / "postmaster.pid").read_text().split()[0])
        found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
        processes = [pid, *(int(child) for child in found.stdout.split())]
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        for process in processes:
            with contextlib.suppress(OSError):  # gone, or dead and not yet collected by whoever inherited it
                while Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX":
                    time.sleep(0.01)
        # A dead process that nobody has collected still has its number: PostgreSQL would take it for a running server.
        (self.data / "postmaster.pid").unlink()
        for lock in self.home.glob(".s.PGSQL.*.lock"):
            lock.unlink()

    def stop(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def new_database(self) -> str:
        self.names += 1
        name = f"test{self.names}"
        self._run("createdb", "-h", str(self.home), "-p", str(self.port), "-U", "semilocal", name)
        return f"postgresql://semilocal@127.0.0.1:{self.port}/{name}"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One cluster for all tests of the session."""
    try:
        import psycopg  # noqa: F401

        cluster = Postgres()
    except (RuntimeError, ImportError, KeyError, OSError, subprocess.SubprocessError) as error:
        unmet(f"no PostgreSQL: {error}")
        return
    yield cluster
    cluster.stop()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of a fresh database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'service.db'}"
    cluster: Postgres = request.getfixturevalue("postgres")
    return cluster.new_database()


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    """A fresh store of each kind."""
    opened = open_store(database, worker="test")
    yield opened
    opened.close()


# -- servers --------------------------------------------------------------------------------------------------------


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """``semilocal serve`` in a process of its own."""

    def __init__(
        self, database: str, *, workers: int = 1, port: int | None = None, log: Path | None = None,
        options: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.database, self.workers, self.port, self.options = database, workers, port or free_port(), options
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, *, wait: bool = True) -> None:
        sink: Any = open(self.log, "ab") if self.log else subprocess.DEVNULL  # noqa: SIM115
        source = str(Path(__file__).resolve().parents[2] / "src")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "semilocal", "serve", "--db", self.database, "--port", str(self.port),
             "--workers", str(self.workers), *self.options],
            env={**os.environ, "PYTHONPATH": source, "SEMILOCAL_ADMIN_TOKEN": ADMIN}, stdout=sink, stderr=sink,
            start_new_session=True,
        )  # fmt: skip
        if self.log:
            sink.close()
        if wait:
            self.wait()

    def wait(self) -> None:
        deadline = time.monotonic() + 30
        while True:
            try:
                if httpx.get(f"{self.url}/healthz", timeout=5).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            assert self.process is not None
            if self.process.poll() is not None or time.monotonic() > deadline:
                text = self.log.read_text()[-3000:] if self.log else ""
                raise RuntimeError(f"the server did not start: {text}")
            time.sleep(0.05)

    def kill(self) -> None:
        """kill -9 for the whole group: the server and all its workers."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """As an administrator does."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.kill()
            self.process = None
