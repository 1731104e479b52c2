"""What goes on beside requests: blocking calls in threads, and tasks that are ended with the server.

Knows asyncio and threads. Knows no campaign.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from ..errors import StoreUnavailable
from .faults import PATIENCE

log = logging.getLogger("semilocal.service")
P = ParamSpec("P")
T = TypeVar("T")


class Background:
    """Threads by what they are for, and tasks; a database that does not answer for ``patience`` seconds is hung."""

    def __init__(self, *, patience: float = PATIENCE, **threads: int) -> None:
        self._patience = patience
        self._pools = {name: ThreadPoolExecutor(many, f"semilocal-{name}") for name, many in threads.items()}
        self._tasks: set[asyncio.Future[Any]] = set()

    async def run(self, where: str, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking call in one of the threads of that name, however long it takes."""
        return await asyncio.get_running_loop().run_in_executor(self._pools[where], lambda: call(*args, **kwargs))

    async def work(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking call of the database."""
        return await self.run("database", call, *args, **kwargs)

    async def read(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Ask the database for a request; raise ``StoreUnavailable`` if it hangs."""
        try:
            async with asyncio.timeout(self._patience):
                return await self.work(call, *args, **kwargs)
        except TimeoutError:
            raise StoreUnavailable(f"the database did not answer for {self._patience:g} s") from None

    def spawn(self, work: Awaitable[Any]) -> asyncio.Future[Any]:
        """Let something go on until the server stops."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def cancel(self) -> None:
        """End all tasks; their threads go on."""
        running = list(self._tasks)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def stop(self, first: Awaitable[Any]) -> None:
        """Finish something, then end all tasks and threads; the process ends here if the database hangs."""
        ending = asyncio.ensure_future(self._stop(first))
        await asyncio.wait({ending}, timeout=self._patience)
        if not ending.done():
            log.warning("the database does not answer, and is not waited for")
            os._exit(0)
        ending.result()

    async def _stop(self, first: Awaitable[Any]) -> None:
        await first
        await self.cancel()
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
            await asyncio.to_thread(pool.shutdown, wait=True)
