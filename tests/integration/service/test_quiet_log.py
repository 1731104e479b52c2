"""While the database is away, the log stays readable: a line or two a minute, however many requests there are."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterator
from typing import Any, cast

import httpx2
import pytest

from semilocal.errors import StoreUnavailable
from semilocal.service import http as http_module
from semilocal.service.faults import Seldom
from semilocal.service.stores.sqlite import SQLiteStore
from semilocal.service.worker import Service
from semilocal.testing import ADMIN_TOKEN, running_app, secret
from tests.helpers.service import Device, open_campaign, sample_task
from tests.integration.service import test_app

sqlite = test_app.sqlite  # the fixture
CAMPAIGNS = 30
TURNS = 40  # every kind of request so often, and as many looks at the campaigns
MOST_LINES = 6  # requests, the keeper, healthz, campaigns: one line each, and two to spare
ALWAYS = ("gather", "close", "interrupt")


@pytest.fixture(autouse=True)
def fresh_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "SELDOM", Seldom())


class Away:
    """A store whose database went away; every failure has other words, as drivers have it (ports, processes, times)."""

    def __init__(self, store: SQLiteStore) -> None:
        self._store, self.away = store, False
        self._numbers: Iterator[int] = itertools.count()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found) or name in ALWAYS:
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.away:
                raise StoreUnavailable(f"connection {next(self._numbers)} is lost")
            return found(*args, **kwargs)

        return call


async def everything(client: httpx2.AsyncClient, service: Service) -> None:
    """Every kind of request, and a look at all campaigns."""
    task = sample_task()
    base = f"/tasks/{task.id.hex()}"
    device = Device(client, task, (0.5, 0.5), secret(1))
    answers = await asyncio.gather(
        client.get("/tasks"), client.get("/healthz"), client.get(f"{base}/state"), client.get(f"{base}/results"),
        client.get(f"{base}/rounds/1/closed"), device.enrol(), device.put(b"x", 1),
        client.post(f"{base}/start", headers={"authorization": f"Bearer {ADMIN_TOKEN}"}),
    )  # fmt: skip
    assert {answer.status_code for answer in answers} <= {404, 422, 429, 503}
    assert answers[1].status_code == 503
    service.health.forget()
    for known in list(service.live_campaigns):
        await service.look_at(known, service.refresh(known))


def records_while_away(sqlite: SQLiteStore, caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What is logged from the moment at which the database goes away until all requests are answered."""
    store = Away(sqlite)
    records: list[logging.LogRecord] = []

    async def main() -> None:
        async with running_app(cast(SQLiteStore, store), lambda: 1_700_000_000.0, interval=0.01) as (
            client,
            service,
            _,
        ):
            for number in range(CAMPAIGNS):
                sqlite.create(open_campaign(sample_task(delta=0.01 + number / 1e4)), needed=None, deadline=None)
            await service.tick()
            assert len(service.live_campaigns) == CAMPAIGNS
            caplog.clear()
            store.away = True
            for _ in range(TURNS):
                await everything(client, service)
            records.extend(record for record in caplog.records if record.name.startswith("semilocal"))
            store.away = False
            service.health.forget()
            await service.tick()
            assert (await client.get("/healthz")).status_code == 200

    with caplog.at_level(logging.INFO):
        asyncio.run(main())
    return records


def test_a_database_that_is_away_fills_no_log(sqlite: SQLiteStore, caplog: pytest.LogCaptureFixture) -> None:
    records = records_while_away(sqlite, caplog)
    lines = [record.getMessage() for record in records]
    assert 1 <= len(lines) <= MOST_LINES, lines
    assert any("database" in line for line in lines)
    assert not any(record.exc_info for record in records)  # an expected fault needs no traceback
