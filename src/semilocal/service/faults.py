"""What does not work now: campaigns that cannot go on, and whether the parts of a worker live.

A fault of one campaign is remembered and logged, at most once a minute, and ends when the campaign goes on. Knows no
HTTP and no SQL; times are monotonic.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from ..errors import SemilocalError, StoreUnavailable

log = logging.getLogger("semilocal.service")

PATIENCE = 5.0  # seconds after which a database is taken for hung
PUBLIC = "the campaign cannot go on now; the server's log says why"


class Seldom:
    """Lets a message through once in a while for each key.

    Examples
    --------
    >>> seldom = Seldom(60.0)
    >>> [seldom.allow("a", 0.0), seldom.allow("a", 59.0), seldom.allow("b", 59.0), seldom.allow("a", 60.0)]
    [True, False, True, True]
    """

    def __init__(self, seconds: float = 60.0, *, keys: int = 1024) -> None:
        self._seconds, self._keys = seconds, keys
        self._last: dict[object, float] = {}

    def allow(self, key: object, now: float | None = None) -> bool:
        """Whether to write the message now."""
        moment = time.monotonic() if now is None else now
        if key not in self._last and len(self._last) >= self._keys:
            key = ""
        last = self._last.get(key)
        if last is not None and moment - last < self._seconds:
            return False
        self._last[key] = moment
        return True


class Faults:
    """Campaigns that cannot go on, by task."""

    def __init__(self) -> None:
        self._errors: dict[bytes, str] = {}
        self._seldom = Seldom()
        self.total = 0

    def __len__(self) -> int:
        return len(self._errors)

    def __contains__(self, task: bytes) -> bool:
        return task in self._errors

    def note(self, task: bytes, error: Exception) -> None:
        """Remember what went wrong, and log it unless that was done within the last minute."""
        text = f"{type(error).__name__}: {error}"
        self.total += 1
        self._errors[task] = text
        # Words differ each time (ports, processes), so they are not in the key; a lost database stops all campaigns.
        expected = isinstance(error, SemilocalError)  # it says in words what is wrong
        if self._seldom.allow("database" if isinstance(error, StoreUnavailable) else (task, type(error))):
            log.error("campaign %s cannot go on: %s", task.hex()[:12], text, exc_info=None if expected else error)

    def clear(self, task: bytes) -> None:
        """Forget the fault of a campaign that goes on."""
        if self._errors.pop(task, None) is not None:
            log.info("campaign %s goes on", task.hex()[:12])

    def words(self, task: bytes) -> str | None:
        """What went wrong with a campaign, for its operator; None if nothing did."""
        return self._errors.get(task)

    def public(self, task: bytes) -> str | None:
        """What everybody may know of a campaign's fault; None if there is none."""
        return PUBLIC if task in self._errors else None


class Health:
    """Whether the parts of a server work: ``keeper`` and ``writer`` give a word, "runs" if so; ``check`` may raise."""

    patience = PATIENCE
    fresh = 2.0  # seconds for which the last answer of the database is good

    def __init__(self, keeper: Callable[[], str], writer: Callable[[], str], check: Callable[[], Awaitable[None]]):
        self._keeper, self._writer, self._check = keeper, writer, check
        self._asked: asyncio.Task[str] | None = None
        self._when = -1e9
        self._seldom = Seldom()

    async def parts(self) -> dict[str, str]:
        """A word for every part; see :meth:`good`."""
        # One question at a time: a hung database must not get a new one, and a new thread, from every request.
        if self._asked is None or (self._asked.done() and time.monotonic() - self._when >= self.fresh):
            self._asked = asyncio.get_running_loop().create_task(self._ask())
        try:
            database = await asyncio.wait_for(asyncio.shield(self._asked), self.patience)
        except TimeoutError:
            database = "does not answer"
        return {"keeper": self._keeper(), "writer": self._writer(), "database": database}

    @staticmethod
    def good(parts: dict[str, str]) -> bool:
        """Whether everything works."""
        return parts["keeper"] == parts["writer"] == "runs" and parts["database"] == "writes"

    async def _ask(self) -> str:
        try:
            await self._check()
            return "writes"
        except Exception as error:
            if self._seldom.allow(type(error)):
                log.warning("the database cannot be written: %s", error)
            return "does not write"
        finally:
            self._when = time.monotonic()
