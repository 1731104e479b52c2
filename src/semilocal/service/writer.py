"""Group commit: many requests, one writer, one transaction per batch.

While a batch is being committed the next one gathers, so a commit's cost is shared by all who wait for it. A request is
answered after its transaction is on disk. The queue is bounded; when it is full, requests are refused at once.

Knows a store's ``apply``. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..errors import Overloaded, StoreUnavailable
from .faults import PATIENCE
from .stores.base import Applied, Outcome

SHORT_QUEUE = 128
PAUSES = 4  # at most, while a short queue grows
Waiter = asyncio.Future[Outcome]


class Writer:
    """Queues items, each of which has a ``task``, and applies them in batches in a thread of its own."""

    def __init__(
        self, apply: Callable[[Any], Applied], on_full: Callable[[set[bytes]], None], *, max_queue: int = 8192,
        max_batch: int = 1024, gather: float = 0.0, patience: float = PATIENCE,
    ) -> None:  # fmt: skip
        self._store_all, self._on_full, self._patience = apply, on_full, patience
        self._max_queue, self._max_batch = max_queue, max_batch
        self._gather = gather  # seconds in which a short queue may grow, where a transaction costs many steps
        self._queue: list[tuple[Any, Waiter]] = []
        self._wake, self._pool = asyncio.Event(), ThreadPoolExecutor(1, thread_name_prefix="semilocal-writer")
        self.running: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._flying: list[Waiter] = []  # who waits for the batch that is being written
        self._since: float | None = None  # when writing it began; None if none is being written
        self.batches = 0
        self.written = 0

    @property
    def waiting(self) -> int:
        """Items in the queue."""
        return len(self._queue)

    def state(self) -> str:
        """A word for the task that writes: "runs" or "ended"."""
        return "runs" if self.running is not None and not self.running.done() else "ended"

    def start(self) -> None:
        """Begin to write; needs a running event loop."""
        self.running = asyncio.get_running_loop().create_task(self._run())
        self._watcher = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        """Write what is queued, then stop."""
        if self.running is None:
            return
        task, self.running = self.running, None
        self._wake.set()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        if self._watcher is not None:
            self._watcher.cancel()
        self._pool.shutdown(wait=True)

    def put(self, item: Any) -> Waiter:
        """Queue one item; its outcome comes when it is on disk. A full queue raises ``Overloaded`` at once."""
        if self.running is None or self.running.done():
            raise Overloaded("reports are not written now")
        if len(self._queue) >= self._max_queue:
            raise Overloaded("the queue of reports is full")
        waiter: Waiter = asyncio.get_running_loop().create_future()
        if not self._queue:
            self._wake.set()
        self._queue.append((item, waiter))
        return waiter

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self.running is not None or self._queue:
            if not self._queue:
                await self._wake.wait()
                self._wake.clear()
                continue
            if self._gather:
                await self._let_gather()
            batch, self._queue = self._queue[: self._max_batch], self._queue[self._max_batch :]
            items = [item for item, _ in batch]
            self._flying, self._since = [waiter for _, waiter in batch], loop.time()
            try:
                outcomes, full = await loop.run_in_executor(self._pool, self._apply, items)
            except Exception as error:  # the batch failed as a whole: everybody in it is told
                outcomes, full = [error] * len(items), set()
            else:
                self.batches += 1
                self.written += len(items)
            flying, self._flying, self._since = self._flying, [], None
            _answer(flying, outcomes)
            if full:
                self._on_full(full)

    def _apply(self, items: Sequence[Any]) -> tuple[Sequence[Outcome | Exception], set[bytes]]:
        """Write a batch; if something in it cannot be written, each campaign by itself: others are not to suffer."""
        try:
            return self._store_all(items)
        except StoreUnavailable:
            raise
        except Exception:
            places: dict[bytes, list[int]] = {}
            for place, item in enumerate(items):
                places.setdefault(item.task, []).append(place)
            if len(places) == 1:
                raise
        found: dict[int, Outcome | Exception] = {}
        full: set[bytes] = set()
        for own_places in places.values():
            try:
                outcomes, filled = self._apply([items[place] for place in own_places])
            except Exception as error:
                outcomes, filled = [error] * len(own_places), set()
            found.update(zip(own_places, outcomes, strict=True))
            full |= filled
        return [found[place] for place in range(len(items))], full

    async def _let_gather(self) -> None:
        """Let a short queue grow: small batches cost the database more than the time of those who wait."""
        for _ in range(PAUSES):
            before = len(self._queue)
            if before >= SHORT_QUEUE or self.running is None:
                return
            await asyncio.sleep(self._gather)
            if len(self._queue) == before:
                return

    async def _watch(self) -> None:
        """Tell everybody who waits for a hung batch; what it holds may be stored all the same, so a retry is safe."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._patience / 4)
            if self._since is not None and loop.time() - self._since > self._patience:
                waiters = [*self._flying, *(waiter for _, waiter in self._queue)]
                self._flying, self._queue = [], []
                _answer(waiters, [StoreUnavailable(f"no answer for {self._patience:g} s")] * len(waiters))


def _answer(waiters: Sequence[Waiter], outcomes: Sequence[Outcome | Exception]) -> None:
    for waiter, outcome in zip(waiters, outcomes, strict=False):  # nobody waits who was told that the database hangs
        if waiter.done():  # who waited has gone
            continue
        if isinstance(outcome, Exception):
            waiter.set_exception(outcome)
        else:
            waiter.set_result(outcome)
