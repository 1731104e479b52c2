"""Results are computed once per closed round, by one thread, and take a bounded amount of memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import httpx2
import pytest

from semilocal.service import results
from semilocal.service.campaign import Status
from semilocal.service.stores.base import Store
from semilocal.service.stores.sqlite import SQLiteStore
from semilocal.service.worker import Service
from tests.helpers import HANG
from tests.integration.service.test_app import problem
from tests.integration.service.test_counts import BASE, finished

ROUTES = (f"{BASE}/results", f"{BASE}/regions.geojson", f"{BASE}/counts?box=0,0,1,1")
PARTS = ("document", "geojson", "_regions")


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often each expensive part is computed. Planted: a part that forgets is computed for every request."""
    counted: dict[str, int] = {}
    for name in PARTS:
        original = getattr(results.Findings, name).func

        def noted(self: Any, name: str = name, original: Any = original) -> Any:
            counted[name] = counted.get(name, 0) + 1
            return original(self)

        part = cached_property(noted)
        part.__set_name__(results.Findings, name)
        monkeypatch.setattr(results.Findings, name, part)
    return counted


async def test_requests_at_the_same_time_compute_once_and_later_ones_nothing(
    client: httpx2.AsyncClient, service: Service, sqlite: SQLiteStore, computed: dict[str, int]
) -> None:
    await finished(client, service, sqlite)
    answers = await asyncio.gather(*(client.get(route) for route in ROUTES * 10))
    assert {answer.status_code for answer in answers} == {200}
    assert computed == dict.fromkeys(PARTS, 1)
    assert [(await client.get(route)).content for route in ROUTES] == [answer.content for answer in answers[:3]]
    assert computed == dict.fromkeys(PARTS, 1)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Results take until this is set."""
    opened = threading.Event()
    read = results.Findings.read

    def slow(store: Store, task: bytes, status: Status) -> results.Findings:
        assert opened.wait(HANG)
        return read(store, task, status)

    monkeypatch.setattr(results.Findings, "read", slow)
    yield opened
    opened.set()


async def test_results_that_take_long_keep_nobody_else_waiting(
    client: httpx2.AsyncClient, service: Service, sqlite: SQLiteStore, gate: threading.Event
) -> None:
    await finished(client, service, sqlite)
    waiting = [asyncio.ensure_future(client.get(route)) for route in ROUTES * 5]
    while not service.computing:
        await asyncio.sleep(0.001)
    assert (await client.get("/tasks")).status_code == 200
    assert (await client.get(f"{BASE}/rounds/1/closed")).status_code == 200
    assert (await client.get("/healthz")).status_code == 200
    assert not any(request.done() for request in waiting)
    gate.set()
    assert {answer.status_code for answer in await asyncio.gather(*waiting)} == {200}


async def test_more_computations_than_can_wait_are_refused(
    client: httpx2.AsyncClient,
    service: Service,
    sqlite: SQLiteStore,
    gate: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("semilocal.service.worker.MOST_COMPUTING", 4)
    await finished(client, service, sqlite)
    waiting = [asyncio.ensure_future(client.get(ROUTES[0])) for _ in range(4)]
    while service.computing < 4:
        await asyncio.sleep(0.001)
    problem(await client.get(ROUTES[1]), "overloaded")
    gate.set()
    assert {answer.status_code for answer in await asyncio.gather(*waiting)} == {200}
    assert (await client.get(ROUTES[1])).status_code == 200
