"""Group commit: many requests, one writer, one transaction per batch.

While a batch is being committed the next one gathers, so a commit's cost is shared by all who wait for it. A request is
answered after its transaction is on disk. The queue is bounded; when it is full, requests are refused at once.

Knows a store's ``apply``. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from ..errors import Overloaded, StoreUnavailable
from .stores.base import Applied, Outcome

__all__ = ["Writer"]


SHORT_QUEUE = 256


class Applies(Protocol):
    """What a writer writes to: a store, or what turns uploads into rows of one."""

    def apply(self, batch: Any, /) -> Applied:
        """Judge and store a batch."""


class Writer:
    """Queues items and applies them in batches in a thread of its own.

    Parameters
    ----------
    store : Applies
    on_full : callable
        Called with the tasks whose open round may be full.
    max_queue, max_batch : int
    gather : float
        Seconds to wait for more items when the queue is short; for stores whose transactions cost many steps.
    patience : float
        Seconds after which a batch is taken for hung, and everybody who waits is told to come back.
    """

    def __init__(
        self, store: Applies, on_full: Callable[[set[bytes]], None], *, max_queue: int = 8192, max_batch: int = 1024,
        gather: float = 0.0, patience: float = 5.0,
    ) -> None:  # fmt: skip
        self._store, self._on_full, self._patience = store, on_full, patience
        self._max_queue, self._max_batch, self._gather = max_queue, max_batch, gather
        self._items: list[Any] = []
        self._waiters: list[asyncio.Future[Outcome]] = []
        self._wake: asyncio.Event | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._task: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._flying: list[asyncio.Future[Outcome]] = []  # waiters of the batch that is being written
        self._since = 0.0
        self.batches = 0
        self.written = 0

    @property
    def waiting(self) -> int:
        """Items in the queue."""
        return len(self._items)

    def state(self) -> str:
        """A word for the task that writes: "runs" or "ended"."""
        return "runs" if self._task is not None and not self._task.done() else "ended"

    def start(self) -> None:
        """Begin to write; needs a running event loop."""
        if self._task is None:
            self._wake = asyncio.Event()
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="semilocal-writer")
            self._task = asyncio.get_running_loop().create_task(self._run())
            self._watcher = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        """Write what is queued, then stop."""
        if self._task is None or self._wake is None or self._pool is None:
            return
        task, self._task = self._task, None
        self._wake.set()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        if self._watcher is not None:
            self._watcher.cancel()
        self._pool.shutdown(wait=True)

    async def put(self, item: Any) -> Outcome:
        """Queue one item; returns when it is on disk.

        Raises
        ------
        Overloaded, StoreUnavailable
        """
        if self._task is None or self._task.done() or self._wake is None:
            raise Overloaded("reports are not written now")
        if len(self._items) >= self._max_queue:
            raise Overloaded("the queue of reports is full")
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._items.append(item)
        self._waiters.append(future)
        self._wake.set()
        return await future

    async def _run(self) -> None:
        assert self._wake is not None
        loop = asyncio.get_running_loop()
        while self._task is not None or self._items:
            if not self._items:
                await self._wake.wait()
                self._wake.clear()
                continue
            if self._gather and len(self._items) < SHORT_QUEUE and self._task is not None:
                await asyncio.sleep(self._gather)
            items, self._items = self._items[: self._max_batch], self._items[self._max_batch :]
            waiters, self._waiters = self._waiters[: self._max_batch], self._waiters[self._max_batch :]
            self._flying, self._since = waiters, loop.time()
            try:
                applied: Applied = await loop.run_in_executor(self._pool, self._store.apply, items)
            except Exception as error:  # the batch failed as a whole: everybody in it is told
                _fail(waiters, error)
                continue
            finally:
                self._flying = []
            self.batches += 1
            self.written += len(items)
            for waiter, outcome in zip(waiters, applied.outcomes, strict=True):
                if not waiter.done():
                    waiter.set_result(outcome)
            if applied.full:
                self._on_full(applied.full)

    async def _watch(self) -> None:
        """Tell everybody who waits for a hung batch; what it holds may be stored all the same, so a retry is safe."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._patience / 4)
            if self._flying and loop.time() - self._since > self._patience:
                queued, self._waiters, self._items = self._waiters, [], []
                _fail([*self._flying, *queued], StoreUnavailable(f"no answer for {self._patience:g} s"))


def _fail(waiters: list[asyncio.Future[Outcome]], error: Exception) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_exception(error)
