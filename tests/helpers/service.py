"""What the tests of the service share: devices that follow spec/http.md, and databases.

The devices here are small on purpose: a protocol machine and plain requests, so that the service is tested against its
specification and not against one client.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from semilocal import Participant, Task
from semilocal.protocol.keys import derive, pseudonym
from semilocal.protocol.messages import (
    AnyClosed,
    AnyReport,
    Closed,
    Query,
    Report,
    Slice,
    decode,
    decode_closed,
    decode_query,
    encode,
)
from semilocal.protocol.plan import Plan
from semilocal.service.campaign import Campaign
from semilocal.service.rounds import create_campaign
from semilocal.service.stores.base import Store, open_store
from semilocal.service.worker import Service
from semilocal.testing import ALLOW_ALL, unit_box
from tests.helpers import HANG
from tests.helpers.postgres import Postgres


def unmet(reason: str) -> None:
    """Skip a test whose means are missing; fail instead if SEMILOCAL_REQUIRE_ALL=1."""
    if os.environ.get("SEMILOCAL_REQUIRE_ALL") == "1":
        pytest.fail(f"required by SEMILOCAL_REQUIRE_ALL: {reason}")
    pytest.skip(reason)


def sample_task(**changes: Any) -> Task:
    """A small task in two dimensions that splits a few times with a few hundred participants."""
    options: dict[str, Any] = {"epsilon": 4.0, "delta": 0.05, "k": 5, "max_depth": 8, "window": 60}
    return Task.build(unit_box(), **(options | changes))


def device_key(secret: bytes, task: bytes) -> bytes:
    """The key of a device for a task, as spec/http.md says."""
    return derive(secret, b"semilocal/1/key" + task, 32)


def roster_report(task: Task, name: bytes, /, **changes: Any) -> Report:
    """The report of round 1 under a pseudonym, which is its nonce as well."""
    return msgspec.structs.replace(Report(task.id, 1, name, *task.hierarchy.ends, None, name), **changes)


class Device:
    """A participant with a key, over any httpx2 client."""

    def __init__(
        self, client: httpx2.AsyncClient, task: Task, point: Any, secret: bytes, *, plan: Plan | None = None,
        value: float | None = None,
    ) -> None:  # fmt: skip
        self.client, self.task, self.plan = client, task, plan or Plan(task.id)
        self.machine = Participant(task, point, secret, ALLOW_ALL, plan=plan, value=value)
        self.pseudonym = pseudonym(secret, task.id)
        self.key = device_key(secret, task.id)

    @property
    def base(self) -> str:
        return f"/tasks/{self.task.id.hex()}"

    def path(self, round_: int) -> str:
        return f"{self.base}/rounds/{round_}/reports/{self.pseudonym.hex()}"

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key.hex()}"}

    async def enrol(self, token: str | None = None) -> httpx2.Response:
        form: dict[str, str] = {"verifier": hashlib.sha256(self.key).hexdigest()}
        if token is not None:
            form["token"] = token
        return await self.client.put(f"{self.base}/participants/{self.pseudonym.hex()}", json=form)

    async def put(self, report: AnyReport | bytes, round_: int | None = None) -> httpx2.Response:
        body = report if isinstance(report, bytes) else encode(report)
        number = round_ if round_ is not None else report.round  # type: ignore[union-attr]
        return await self.client.put(self.path(number), content=body, headers=self.headers)

    async def answer(self, data: bytes) -> httpx2.Response | None:
        """Answer a query of either kind; None if there is nothing to say."""
        report = self.machine.receive(decode_query(data))
        return None if report is None else await self.put(report)

    def follow(self, closed: AnyClosed, slices: dict[tuple[int, int], Slice]) -> None:
        """Follow a closing, with the slices that somebody has read."""
        if isinstance(closed, Closed) and not self.machine.state.stopped:
            region = self.machine.wanted(closed)
            self.machine.close(closed, None if region is None else slices[region])

    async def read(self, first: int, last: int) -> None:
        """Read closed rounds of the partition from the log, without a word: as a device that was away."""
        for number in range(first, last + 1):
            query = decode_query((await self.client.get(f"{self.base}/rounds/{number}/query")).content)
            if isinstance(query, Query):
                self.machine.observe(query)
                closed = await read_closed(self.client, self.base, number)
                self.follow(closed, await read_slices(self.client, self.base, closed, [self]))


async def read_closed(client: httpx2.AsyncClient, base: str, number: int) -> AnyClosed:
    """The closing of a round."""
    return decode_closed((await client.get(f"{base}/rounds/{number}/closed")).content)


async def read_slices(
    client: httpx2.AsyncClient, base: str, closed: AnyClosed, devices: Sequence[Device]
) -> dict[tuple[int, int], Slice]:
    """The slices that some devices need to follow a closing, each read once."""
    if not isinstance(closed, Closed):
        return {}
    wanted = {device.machine.wanted(closed) for device in devices if not device.machine.state.stopped}
    found = {}
    for lower, upper in sorted(region for region in wanted if region is not None):
        answer = await client.get(f"{base}/rounds/{closed.round}/slices/{lower}-{upper}")
        assert answer.status_code == 200, answer.text
        found[lower, upper] = decode(answer.content, Slice)
    return found


async def follow_campaign(
    client: httpx2.AsyncClient, devices: Sequence[Device], *, service: Service | None = None, clients: int = 32,
    done: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """Let enrolled devices follow their campaign to its end; returns the last state.

    With a service in the same process its ``tick`` is called; else the server looks after itself. The first ``done``
    rounds have been followed already.
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

    answered = done
    while True:
        if service is not None:
            await service.tick()
        else:
            await asyncio.sleep(0.005)  # in one process the server must get its turn
        wait = f"?after={done}&wait=5" if service is None and answered > done else ""
        state = (await client.get(f"{base}/state{wait}", timeout=HANG)).json()
        while done < state["closed"]:
            done += 1
            closed = await read_closed(client, base, done)
            slices = await read_slices(client, base, closed, devices)
            for device in devices:
                device.follow(closed, slices)
        if state["phase"] in ("finished", "cancelled"):
            return dict(state)
        if state["phase"] != "enrolling" and answered == done:
            query = (await client.get(f"{base}/rounds/{done + 1}/query")).content
            await asyncio.gather(*(one(device, query) for device in devices))
            answered = done + 1


async def transcript(client: httpx2.AsyncClient, task: Task, *, rounds: int, plan: Plan | None = None) -> list[bytes]:
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


def open_campaign(task: Task, *, releases: Any = (), capacity: int | None = None) -> Campaign:
    """A campaign that anybody may join."""
    return Campaign("test", task, releases, "open", capacity)


async def enrolled(
    client: httpx2.AsyncClient, store: Store, campaign: Campaign, points: Any, secrets: list[bytes], *,
    values: list[float] | None = None,
) -> list[Device]:  # fmt: skip
    """Create a campaign and enrol devices."""
    assert create_campaign(store, campaign, now=time.time())
    own: list[float | None] = [None] * len(secrets) if values is None else list(values)
    devices = [
        Device(client, campaign.task, point, secret, plan=campaign.plan, value=value)
        for point, secret, value in zip(points, secrets, own, strict=True)
    ]
    for device in devices:
        answer = await device.enrol()
        assert answer.status_code == 201, answer.text
    return devices


# -- databases -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One cluster for all tests of the session."""
    try:
        import psycopg  # noqa: F401

        cluster = Postgres(fsync=False)
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
