"""Who looks after which pair: one task each does what is due; after a failure the next look waits, longer each time.

Knows ids of pairs. Knows no database and no HTTP.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

__all__ = ["Rota"]

LONGEST_PAUSE = 10.0


class Rota:
    """Looks at pairs, side by side.

    Parameters
    ----------
    active : callable
        The ids of the pairs that have to go on.
    look_at : callable
        Does what is due for one of them; False if that failed and should wait.
    """

    def __init__(
        self, active: Callable[[], Awaitable[Iterable[bytes]]], look_at: Callable[[bytes], Awaitable[bool]]
    ) -> None:
        self._active, self._look_at = active, look_at
        self._running: dict[bytes, asyncio.Task[None]] = {}
        self._pauses: dict[bytes, tuple[float, float]] = {}  # when to look again after a failure, and the pause

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The looks that have not ended."""
        return list(self._running.values())

    async def begin(self) -> None:
        """Look at every pair that nobody looks at now and that has no pause."""
        for task in await self._active():
            pause = self._pauses.get(task)
            if task not in self._running and (pause is None or time.monotonic() >= pause[0]):
                self._running[task] = asyncio.ensure_future(self._look(task))
                self._running[task].add_done_callback(partial(self._forget, task))

    async def tick(self) -> None:
        """Look at every pair once, also after a failure, and wait until it is done."""
        self._pauses.clear()
        await self.begin()
        await asyncio.gather(*self.tasks)

    def _forget(self, task: bytes, _: asyncio.Task[None]) -> None:
        self._running.pop(task, None)

    async def _look(self, task: bytes) -> None:
        if await self._look_at(task):
            self._pauses.pop(task, None)
        else:
            pause = min(2 * self._pauses.get(task, (0.0, 0.1))[1], LONGEST_PAUSE)
            self._pauses[task] = (time.monotonic() + pause, pause)
