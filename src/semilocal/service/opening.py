"""A worker that may have to wait for its database: until then it answers everybody with 503 and Retry-After.

A worker that died instead would be restarted by its supervisor, again and again; one that only waited would leave
clients without an answer. Knows the application's front and a thread that opens it. Knows no routes and no SQL.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any

from ..errors import StoreUnavailable
from .app import App
from .faults import Seldom
from .http import Receive, Scope, Send, send_answer
from .intake import Intake
from .problems import Problem

__all__ = ["Opening"]

log = logging.getLogger("semilocal.service")
WAIT_SECONDS = 1.0  # between two tries to reach the database
FIRST_SECONDS = 2.0  # for the first try; then the worker begins to answer, with or without a database


class Opening:
    """The application as soon as it can be opened.

    Parameters
    ----------
    open_app : callable
        Gives the application; blocks, and raises ``StoreUnavailable`` while the database is away. Called in a thread.
    """

    def __init__(self, open_app: Callable[[], App]) -> None:
        self.open_app, self._seldom = open_app, Seldom()
        self._app: App | None = None
        self._waiting: asyncio.Task[None] | None = None

    @property
    def intake(self) -> Intake | None:
        """Takes reports past the application; None before there is one."""
        return None if self._app is None else self._app.intake

    def leave(self) -> None:
        """Answer all polls; the server is about to stop."""
        if self._app is not None:
            self._app.leave()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif self._app is not None:
            await self._app(scope, receive, send)
        else:
            problem = Problem("unavailable", "the server waits for its database", retry_after=2)
            await send_answer(send, problem.status, problem.headers, problem.body, scope.get("method", ""))

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._waiting = asyncio.get_running_loop().create_task(self._wait())
                await asyncio.wait({self._waiting}, timeout=FIRST_SECONDS)
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self._stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _wait(self) -> None:
        while self._app is None:
            try:
                app = await _in_a_thread(self.open_app)
                await app.service.start()
                self._app = app
            except Exception as error:
                if self._seldom.allow(type(error)):
                    expected = isinstance(error, StoreUnavailable)
                    log.warning("a worker waits for the database: %s", error, exc_info=None if expected else error)
                await asyncio.sleep(WAIT_SECONDS)

    async def _stop(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.wait({self._waiting})
        if self._app is not None:
            await self._app.service.stop()


async def _in_a_thread(call: Callable[[], App]) -> App:
    """Run a call in a thread that nobody has to wait for: a database may hang for ever."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[App] = loop.create_future()

    def settle(result: Any, error: Exception | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    def work() -> None:
        result, failed = None, None
        try:
            result = call()
        except Exception as error:
            failed = error
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=work, name="semilocal-opening", daemon=True).start()
    return await future
