"""A worker without its database answers, and goes on by itself when the database is there."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import msgspec
import pytest

from semilocal.errors import StoreUnavailable
from semilocal.service import server
from semilocal.service.server import Opening


class FakeService:
    """Notes whether it was started and stopped."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def start(self) -> None:
        self.calls.append("start")

    async def stop(self) -> None:
        self.calls.append("stop")


class FakeApp:
    """Answers 200 to everything."""

    intake = "the intake"

    def __init__(self) -> None:
        self.service = FakeService()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})


async def ask(app: Any) -> tuple[int, dict[str, Any]]:
    answers: list[Any] = []

    async def send(message: Any) -> None:
        answers.append(message)

    await app({"type": "http", "method": "GET", "path": "/tasks"}, None, send)
    return answers[0]["status"], msgspec.json.decode(answers[1]["body"])


def has_intake(app: Opening) -> bool:
    return app.intake is not None


class Life:
    """The lifespan of an application, as a server plays it."""

    def __init__(self, app: Any) -> None:
        self.inbox: asyncio.Queue[Any] = asyncio.Queue()
        self.outbox: asyncio.Queue[Any] = asyncio.Queue()
        self.task = asyncio.create_task(app({"type": "lifespan"}, self.inbox.get, self.outbox.put))

    async def go(self, what: str) -> None:
        await self.inbox.put({"type": f"lifespan.{what}"})
        assert (await self.outbox.get())["type"] == f"lifespan.{what}.complete"


def test_requests_are_answered_while_the_database_is_away_and_served_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "WAIT_SECONDS", 0.01)
    monkeypatch.setattr(server, "FIRST_SECONDS", 0.01)
    there, tried, app = threading.Event(), threading.Semaphore(0), FakeApp()

    def open_app() -> Any:
        tried.release()
        if not there.is_set():
            raise StoreUnavailable("away")
        return app

    async def main() -> None:
        front = Opening(open_app)
        life = Life(front)
        await life.go("startup")
        for _ in range(3):
            await asyncio.to_thread(tried.acquire)
        status, document = await ask(front)
        assert (status, document["token"]) == (503, "unavailable")
        assert not has_intake(front)
        there.set()
        while not has_intake(front):
            await asyncio.sleep(0.01)
        assert await ask(front) == (200, {})
        await life.go("shutdown")
        await life.task

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert app.service.calls == ["start", "stop"]
    assert [record.getMessage() for record in caplog.records] == ["a worker waits for the database: away"]


def test_a_database_that_hangs_at_the_start_is_answered_for_and_holds_nothing_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "FIRST_SECONDS", 0.01)
    back = threading.Event()

    def hang() -> Any:
        back.wait()
        raise StoreUnavailable("at last")

    async def main() -> None:
        front = Opening(hang)
        life = Life(front)
        await life.go("startup")
        assert (await ask(front))[0] == 503
        await life.go("shutdown")
        await life.task

    asyncio.run(main())
    back.set()
