"""The task that looks after rounds never ends: the fault of one campaign is logged, shown, and touches no other."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from semilocal.errors import StoreUnavailable
from semilocal.service import server
from semilocal.service.faults import PUBLIC
from semilocal.service.keys import NO_KEYS
from semilocal.service.rounds import cancel, create_campaign, start
from semilocal.service.stores.sqlite import SQLiteStore
from semilocal.service.worker import Service
from semilocal.testing import ADMIN_TOKEN, MockClock, build_app, client_of, cluster, secrets_of
from tests.helpers import HANG
from tests.helpers.service import Device, enrolled, follow_campaign, open_campaign, sample_task

BROKEN, WHOLE = sample_task(delta=0.04, max_depth=3), sample_task(max_depth=3)
Breaker = Callable[[SQLiteStore], None]


def damage(sql: str) -> Breaker:
    """Damage a row of the broken campaign behind the service's back."""

    def breaker(store: SQLiteStore) -> None:
        connection = sqlite3.connect(store.path)
        with connection:
            changed = connection.execute(sql, (BROKEN.id,)).rowcount
        connection.close()
        assert changed == 1

    return breaker


def raising(error: Exception) -> Breaker:
    """Let every closing of the broken campaign raise something that nobody foresaw."""

    def breaker(store: SQLiteStore) -> None:
        lock = store.lock

        def broken(task: bytes) -> Any:
            if task == BROKEN.id:
                raise error
            return lock(task)

        store.lock = broken  # type: ignore[method-assign]

    return breaker


def other_version(store: SQLiteStore) -> None:
    """Store the task as a version would that encodes it in another way: what is read has another id."""
    campaign = store.campaign(BROKEN.id)
    assert campaign is not None
    changed = msgspec.structs.replace(campaign, task=msgspec.structs.replace(BROKEN, label="x"))
    connection = sqlite3.connect(store.path)
    with connection:
        connection.execute("UPDATE campaigns SET body = ? WHERE task = ?", (msgspec.msgpack.encode(changed), BROKEN.id))
    connection.close()


ROUND = "WHERE campaign = (SELECT id FROM campaigns WHERE task = ?)"
BREAKERS = {
    "its body is damaged": damage("UPDATE campaigns SET body = x'c1' WHERE task = ?"),
    "its task encodes to another id": other_version,
    "its tree is damaged": damage("UPDATE campaigns SET fold = x'ff00' WHERE task = ?"),
    "its query is damaged": damage(f"UPDATE rounds SET query = x'c1' {ROUND}"),
    "its query is gone": damage(f"DELETE FROM rounds {ROUND}"),
    "a report is damaged": damage(
        "UPDATE reports SET body = x'c1' WHERE campaign = (SELECT id FROM campaigns WHERE task = ?) "
        "AND pseudonym = (SELECT min(pseudonym) FROM reports)"
    ),
    "no descriptors are left": raising(OSError(errno.EMFILE, "Too many open files")),
    "an import fails": raising(ImportError("cannot import name")),
    "a fault of the program": raising(ZeroDivisionError()),
    "the database refuses it": raising(StoreUnavailable("locked")),
}


@pytest.mark.parametrize("name", BREAKERS)
@pytest.mark.served(interval=0.01)
async def test_one_broken_campaign_does_not_stop_the_other(
    client: httpx2.AsyncClient, service: Service, sqlite: SQLiteStore, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "semilocal.service")
    points, secrets = cluster(40), secrets_of(40)
    broken = await enrolled(client, sqlite, open_campaign(BROKEN), points[:5], secrets[:5])
    start(sqlite, BROKEN.id, service.clock())
    await service.refresh(BROKEN.id)
    query = (await client.get(f"{broken[0].base}/rounds/1/query")).content
    for device in broken[:3]:
        assert (await device.answer(query)) is not None
    BREAKERS[name](sqlite)
    service.live_campaigns.clear()  # as after a restart
    service.clock.advance(3600)  # type: ignore[attr-defined]
    while not service.faults:
        await asyncio.sleep(0.01)
    devices = await enrolled(client, sqlite, open_campaign(WHOLE, capacity=40), points, secrets)
    assert (await follow_campaign(client, devices))["phase"] == "finished"
    listed = {row["task"]: row for row in (await client.get("/tasks")).json()}
    assert listed[BROKEN.id.hex()]["fault"]
    assert listed[WHOLE.id.hex()] == {
        "task": WHOLE.id.hex(), "name": "test", "phase": "finished", "enrolled": 40, "fault": None,
    }  # fmt: skip
    page = (await client.get("/metrics", headers={"authorization": f"Bearer {ADMIN_TOKEN}"})).text
    assert "\nsemilocal_campaigns_at_fault 1.0\n" in page
    health = await client.get("/healthz")
    assert (health.status_code, health.json()["keeper"]) == (200, "runs")
    assert (health.json()["status"], health.json()["campaigns"]) == ("degraded", "1 cannot go on")
    state = await client.get(f"{broken[0].base}/state")
    assert state.status_code == 503 or state.json()["fault"], state.text
    lines = [record.getMessage() for record in caplog.records if BROKEN.id.hex()[:12] in record.getMessage()]
    assert len(said := [line for line in lines if "cannot go on" in line]) == 1
    if name == "its task encodes to another id":
        assert "another version of semilocal has stored its task" in said[0]
        assert not any(record.exc_info for record in caplog.records if record.getMessage() == said[0])


async def test_what_another_version_has_stored_is_told_at_the_start_in_a_sentence(
    client: httpx2.AsyncClient, service: Service, sqlite: SQLiteStore, caplog: pytest.LogCaptureFixture
) -> None:
    create_campaign(sqlite, open_campaign(BROKEN), now=0)
    cancel(sqlite, BROKEN.id)
    other_version(sqlite)
    await service.tick()
    assert (await client.get("/healthz")).json()["campaigns"] == "1 cannot go on"
    for path in ("", "/state", "/results", "/statement"):
        answer = await client.get(f"/tasks/{BROKEN.id.hex()}{path}")
        assert (answer.status_code, answer.json()["detail"]) == (503, PUBLIC)
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "another version of semilocal has stored its task" in line
    assert "Traceback" not in caplog.text


async def test_what_is_sent_to_a_broken_campaign_at_the_same_time_keeps_nobody_out_of_the_other(
    client: httpx2.AsyncClient, service: Service, sqlite: SQLiteStore
) -> None:
    """Requests of all campaigns are written in common batches; the damage is done behind the worker's copy."""
    points, secrets = cluster(20), secrets_of(20)
    for task in (BROKEN, WHOLE):
        create_campaign(sqlite, open_campaign(task), now=0)
        await service.refresh(task.id)
    damage("UPDATE campaigns SET body = x'c1' WHERE task = ?")(sqlite)
    both = [
        Device(client, task, tuple(point), secret)
        for point, secret in zip(points.tolist(), secrets, strict=True)
        for task in (BROKEN, WHOLE)
    ]
    batches = service.writer.batches
    answers = await asyncio.gather(*(device.enrol() for device in both))
    assert {answer.status_code for answer in answers[::2]} == {503}
    assert {answer.status_code for answer in answers[1::2]} == {201}
    assert service.writer.batches - batches < 20, "they were in common batches"


@pytest.mark.served(interval=0.01)
async def test_a_campaign_that_is_whole_again_goes_on(
    client: httpx2.AsyncClient, service: Service, sqlite: SQLiteStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "semilocal.service")
    points, secrets = cluster(20), secrets_of(20)
    lock = sqlite.lock
    raising(ZeroDivisionError())(sqlite)
    devices = await enrolled(client, sqlite, open_campaign(BROKEN, capacity=20), points, secrets)
    while not service.faults:
        await asyncio.sleep(0.01)
    sqlite.lock = lock  # type: ignore[method-assign]
    assert (await follow_campaign(client, devices))["phase"] == "finished"
    assert not service.faults
    assert (await client.get(f"{devices[0].base}/state")).json()["fault"] is None
    assert any("goes on" in record.getMessage() for record in caplog.records)


# -- health ----------------------------------------------------------------------------------------------------------


def health(store: SQLiteStore, spoil: Callable[[Any, Any], Any]) -> httpx2.Response:
    async def main() -> httpx2.Response:
        app, service = build_app(store, MockClock(), interval=0.01)
        await service.start()
        try:
            async with client_of(app) as client:
                answer = await client.get("/healthz")
                assert answer.json() == {"status": "ok", "keeper": "runs", "writer": "runs", "database": "writes"}
                undo = spoil(service, store)
                if asyncio.iscoroutine(undo):
                    await undo
                service.health.fresh = 0.0
                return await client.get("/healthz")
        finally:
            await service.stop()

    return asyncio.run(asyncio.wait_for(main(), HANG))


async def end_keeper(service: Any, store: Any) -> None:
    service.keeper.cancel()
    await asyncio.wait([service.keeper])


async def end_writer(service: Any, store: Any) -> None:
    service.writer.running.cancel()
    await asyncio.wait([service.writer.running])


def full_disk(service: Any, store: SQLiteStore) -> None:
    def fails() -> None:
        raise StoreUnavailable("database or disk is full")

    store.check_writing = fails  # type: ignore[method-assign]


def hung_database(service: Any, store: SQLiteStore) -> None:
    """Until the service stops."""
    stopped, stop = threading.Event(), service.stop
    service.health.patience = 0.2
    store.check_writing = lambda: stopped.wait(HANG)  # type: ignore[assignment, method-assign]

    def let_stop() -> Any:
        stopped.set()
        return stop()

    service.stop = let_stop


@pytest.mark.parametrize(
    ("spoil", "part", "word"),
    [
        (end_keeper, "keeper", "ended"),
        (end_writer, "writer", "ended"),
        (full_disk, "database", "does not write"),
        (hung_database, "database", "does not answer"),
    ],
)
def test_health_is_refused_when_a_part_does_not_work(
    tmp_path: Path, spoil: Callable[[Any, Any], Any], part: str, word: str
) -> None:
    store = SQLiteStore(str(tmp_path / "service.db"))
    answer = health(store, spoil)
    store.close()
    assert answer.status_code == 503
    assert answer.headers["retry-after"]
    assert answer.json()["token"] == "unavailable"
    assert f"{part}: {word}" in answer.json()["detail"]


def test_a_disk_that_takes_no_more_is_seen_by_a_real_write(tmp_path: Path) -> None:
    store = SQLiteStore(str(tmp_path / "service.db"))
    store.check_writing()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (tmp_path / "service.db-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        with pytest.raises(StoreUnavailable):
            store.check_writing()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    store.check_writing()
    store.close()


def test_a_wall_clock_that_is_set_closes_no_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SQLiteStore(str(tmp_path / "service.db"))

    async def main() -> None:
        app = server.build_app(store, admin=bytes(32), keys=NO_KEYS)
        service, real = app.service, time.time
        create_campaign(service.store, open_campaign(WHOLE), now=real())
        start(service.store, WHOLE.id, service.clock())
        for jump in (10**8, -(10**8)):
            with monkeypatch.context() as patch:
                patch.setattr(time, "time", lambda jump=jump: real() + jump)
                await service.tick()
                status = service.store.status(WHOLE.id)
                assert status is not None
                assert (status.round, status.closed) == (1, 0)
                assert abs(service.clock() - real()) < 10**6
        service.store.close()

    asyncio.run(main())
