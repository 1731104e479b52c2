"""The service behind the routes: what this worker knows of the campaigns, and who waits for them to move.

Theory of operation. The database is the truth; a worker keeps a copy of where each campaign stands and what its open
round asks. The copy may lag: a report is then judged by the database all the same, and a request that comes too early
gets Retry-After. ``tick`` checks all active campaigns, closes what is due and wakes the requests that wait; it runs a
few times a second. When a batch of reports has filled a round, that campaign is checked once more.

Knows the store, the writer and a clock that is passed in. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ..errors import Overloaded, Refused, StoreUnavailable
from ..protocol.curator import Curator
from ..protocol.messages import Closed, decode_closed, decode_query, encode
from ..words import number_of
from . import rounds
from .background import Background
from .campaign import Campaign, Status
from .faults import PATIENCE, Faults, Health, Seldom
from .keys import NO_KEYS, Keyring
from .stores.base import Store, What
from .writer import Writer

if TYPE_CHECKING:
    from ..protocol.task import Task
    from .pair.service import PairService

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger("semilocal.service")

CACHE_BYTES = 64 << 20
MOST_COMPUTING = 256  # requests for results that wait at the same time
SILENT_SECONDS = 30.0  # that the other server of pairs may not answer before health says so
STALLED_SECONDS = 300.0  # no closing takes so long


class LiveCampaign:
    """A worker's copy of a campaign.

    ``curator`` is as of the open round; None until it has been read. Reports are checked with it by the event loop, so
    nobody else may touch it but who holds ``moving``.
    """

    def __init__(self, campaign: Campaign, status: Status) -> None:
        self.campaign, self.status = campaign, status
        self.curator: Curator | None = None
        self.moving = asyncio.Lock()
        self.changed = asyncio.Event()

    @property
    def place(self) -> tuple[int, bool, int]:
        """How far it is: grows with everything that happens to the campaign."""
        return self.status.closed, self.status.ended, self.status.round

    def curator_of(self, round_: int) -> Curator | None:
        """The curator, if reports of a round can be checked here and now."""
        curator = self.curator
        if curator is None or not curator.round == round_ == self.status.round:
            return None
        return None if self.moving.locked() or self.status.ended else curator

    def follow(self, status: Status) -> None:
        """Take over a newer state and wake who waits."""
        before, self.status = self.place, status
        if self.place != before:
            self.changed.set()
            self.changed = asyncio.Event()


class Service:
    """Everything a worker holds.

    ``clock`` is Unix time, ``monotonic`` only grows and is for limits. With an ``interval`` of None the campaigns are
    looked at when ``tick`` is called; else every so many seconds. ``pairs`` is this server's part in pairs, if any.
    """

    def __init__(
        self, store: Store, *, clock: Callable[[], float], interval: float | None = 0.2, max_queue: int = 8192,
        keys: Keyring = NO_KEYS, max_waiters: int = 20_000, patience: float = PATIENCE,
        monotonic: Callable[[], float] = time.monotonic, pairs: PairService | None = None,
    ) -> None:  # fmt: skip
        self.store, self.clock, self.monotonic, self._keys = store, clock, monotonic, keys
        self.pairs, self._interval = pairs, interval
        self.writer = Writer(store.apply, self._full, max_queue=max_queue, gather=store.gather, patience=patience)
        self.live_campaigns: dict[bytes, LiveCampaign] = {}
        self._background = Background(patience=patience, database=4, closing=1, computing=1)
        self.read, self.work = self._background.read, self._background.work
        self.computing = 0  # requests that wait for results
        self._waiters, self._max_waiters = 0, max_waiters  # long polls; more are answered at once
        self._cache: OrderedDict[tuple[bytes, int, str], bytes] = OrderedDict()
        self._cached = 0
        self.keeper: asyncio.Future[None] | None = None
        self._beat, self._seen = 0.0, False
        self._seldom = Seldom()
        self.faults = Faults() if pairs is None else pairs.faults  # of campaigns and pairs
        self.health = Health(self._keeper_state, self._writer_state, lambda: self.read(store.check_writing))
        self.closings = 0
        self.stopping = False

    # -- life --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to write and to look after the rounds."""
        self.writer.start()
        if self.pairs is not None:
            await self.pairs.start()
        if self._interval is not None:
            self._beat = time.monotonic()
            self.keeper = self._background.spawn(self._keep(self._interval))

    def leave(self) -> None:
        """Answer all who wait for a campaign to move: the worker is about to stop."""
        if not self.stopping:
            self.stopping = True
            log.info("stopping; %d polls are answered", self._waiters)
            for live in self.live_campaigns.values():
                live.changed.set()

    async def stop(self) -> None:
        """Answer who waits, write what is queued, and stop."""
        self.leave()
        if self.pairs is not None:
            await self.pairs.stop()
        await self._background.stop(self.writer.stop())

    async def compute(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run what takes long in a thread of its own, one call after another: nobody else waits for it.

        ``Overloaded`` if too many wait already.
        """
        if self.computing >= MOST_COMPUTING:
            raise Overloaded("too many requests for results at once")
        self.computing += 1
        try:
            return await self._background.run("computing", call, *args, **kwargs)
        finally:
            self.computing -= 1

    # -- rounds ------------------------------------------------------------------------------------------------

    async def tick(self) -> None:
        """Look at all active campaigns once; close what is due. The fault of one campaign touches no other.

        The first look is at all that there are: who starts the server hears of those that it cannot read.
        """
        statuses = await self.read(self.store.statuses, active=self._seen)
        self._seen = True
        for task, status in statuses.items():
            await self.look_at(task, self.advance(task) if status.due(self.clock()) else self._follow(task, status))
            self._beat = time.monotonic()
        for task, live in list(self.live_campaigns.items()):
            if task not in statuses and not live.status.ended:
                await self.look_at(task, self.refresh(task))

    async def look_at(self, task: bytes, work: Awaitable[Any]) -> None:
        """Do something for one campaign; its fault is noted and stops no other."""
        try:
            await work
        except Exception as error:
            self.faults.note(task, error)
        else:
            self.faults.clear(task)

    async def advance(self, task: bytes) -> None:
        """Close or open what is due for one campaign."""
        live = await self.campaign(task)
        async with live.moving:
            curator, live.curator = live.curator, None  # of no use if this fails
            now = self.clock()
            before = await self._background.run("closing", rounds.advance, self.store, task, now, self._keys, curator)
            live.curator = curator
            if before is not None and before.round and curator is not None:
                self._keep_slices(curator)
            status = await self.read(self.store.status, task)
            assert status is not None
            await self._catch_up(live, status)
        if before is not None:
            self.closings += 1
            words = describe_step(before, live.status, task=live.campaign.task)
            log.info("%s: %s", label(live.campaign), words)

    def _keep_slices(self, curator: Curator) -> None:
        """Have the slices of the last closing ready: many devices ask for them at once."""
        for part in curator.slices:
            self._remember((part.task, part.round, f"{part.lower}-{part.upper}"), encode(part))

    async def _keep(self, interval: float) -> None:
        """Look after the campaigns for as long as the worker lives, whatever happens."""
        while not self.stopping:
            try:
                if self.pairs is not None:
                    await self.pairs.begin_looks()
                await self.tick()
            except Exception as error:
                if not self.stopping and self._seldom.allow(type(error)):  # pairs and threads may have stopped already
                    expected = isinstance(error, StoreUnavailable)
                    log.error("campaigns cannot be checked: %s", error, exc_info=None if expected else error)
            self._beat = time.monotonic()
            await asyncio.sleep(interval)

    def degraded(self) -> dict[str, str]:
        """What is not as it should be although all parts of this worker work; empty if nothing is."""
        found, silence = {}, self.silence or 0.0
        if self.faults:
            found["campaigns"] = f"{len(self.faults)} cannot go on"
        if silence >= SILENT_SECONDS:
            found["peer"] = f"silent for {silence:.0f} s"
        return found

    @property
    def silence(self) -> float | None:
        """Seconds since the other server of pairs answered; None if there is none to ask."""
        return None if self.pairs is None else self.pairs.silence

    def _writer_state(self) -> str:
        states = [self.writer.state(), *([] if self.pairs is None else [self.pairs.writer.state()])]
        return next((state for state in states if state != "runs"), "runs")

    def _keeper_state(self) -> str:
        if self._interval is None:
            return "runs"  # called from outside
        if self.keeper is None or self.keeper.done():
            return "ended"
        return "stalled" if time.monotonic() - self._beat > STALLED_SECONDS else "runs"

    def _full(self, tasks: set[bytes]) -> None:
        if self._interval is not None and not self.stopping:
            for task in tasks:
                self._background.spawn(self.look_at(task, self.advance(task)))

    # -- what this worker knows --------------------------------------------------------------------------------

    async def campaign(self, task: bytes) -> LiveCampaign:
        """The copy of a campaign, however old."""
        return self.live_campaigns.get(task) or await self.refresh(task)

    async def fresh(self, task: bytes) -> LiveCampaign:
        """The copy of a campaign; read again where no task keeps it up to date."""
        live = self.live_campaigns.get(task)
        return live if live is not None and self._interval is not None else await self.refresh(task)

    async def refresh(self, task: bytes) -> LiveCampaign:
        """Read where a campaign stands."""
        status = await self.read(self.store.status, task)
        if status is None:
            raise Refused("no-such-task", "this server has no campaign with this task")
        return await self._follow(task, status)

    async def _follow(self, task: bytes, status: Status) -> LiveCampaign:
        live = self.live_campaigns.get(task)
        if live is None:
            campaign = await self.read(self.store.campaign, task)
            assert campaign is not None
            live = self.live_campaigns.setdefault(task, LiveCampaign(campaign, status))
        elif live.status == status and (live.curator is not None or status.ended):
            return live
        async with live.moving:
            await self._catch_up(live, status)
        return live

    async def _catch_up(self, live: LiveCampaign, status: Status) -> None:
        """Take over a state that is not older than the one known; ``live.moving`` is held."""
        if (status.closed, status.ended, status.round) < live.place:
            return
        if not status.ended and (live.curator is None or live.curator.round != status.closed + 1):
            curator, live.curator = live.curator, None
            live.curator = await self.work(rounds.catch_up, self.store, live.campaign, status.closed, curator)
        live.follow(status)

    async def settled(self, task: bytes, round_: int) -> LiveCampaign:
        """The copy of a campaign, as new as a report of this round needs it, and at rest."""
        live = await self.campaign(task)
        if round_ > live.status.round or live.curator is None:
            live = await self.refresh(task)
        if live.moving.locked():
            async with live.moving:
                pass
        return live

    async def wait(self, task: bytes, *, after: int, seconds: float) -> LiveCampaign:
        """Wait until more than ``after`` rounds are closed, enrolment ends or the campaign ends."""
        live = await self.fresh(task)
        enrolling = live.status.phase == "enrolling"
        if self._waiters >= self._max_waiters or seconds <= 0:
            return live
        self._waiters += 1
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while not (self.stopping or self._news(live.status, after, enrolling)):
                        await live.changed.wait()
        finally:
            self._waiters -= 1
        if self.stopping:
            raise Refused("unavailable", "the server is stopping", wait=1)
        return live

    @staticmethod
    def _news(status: Status, after: int, enrolling: bool) -> bool:
        begun = status.phase != "enrolling"
        return status.closed > after >= 0 or status.ended or (begun and (enrolling or after < 0))

    # -- messages that never change ----------------------------------------------------------------------------

    async def message(self, task: bytes, round_: int, what: What) -> bytes:
        """A message of a round; kept in bounded memory, since everybody asks for the same ones."""
        key = (task, round_, what)
        if (found := self._recall(key)) is not None:
            return found
        live = await self.fresh(task)
        if round_ > (live.status.round if what == "query" else live.status.closed):
            live = await self.refresh(task)
        if round_ > max(live.status.round, 1) and live.status.ended:
            raise Refused("no-such-round", f"the last round is {live.status.round}")
        data = await self.read(self.store.message, task, round_, what)
        if data is None:
            token = "not-open-yet" if what == "query" else "not-closed-yet"
            raise Refused(token, f"round {round_} has no {what} yet", wait=poll_after(live.status, self.clock()))
        return self._remember(key, data)

    async def slice(self, task: bytes, round_: int, lower: int, upper: int) -> bytes:
        """The slice of a region in a closed round."""
        key = (task, round_, f"{lower}-{upper}")
        if (found := self._recall(key)) is not None:
            return found
        closed = decode_closed(await self.message(task, round_, "closed"))
        regions = [(head.lower, head.upper) for head in closed.heads] if isinstance(closed, Closed) else []
        if (lower, upper) not in regions:
            raise Refused("no-such-slice", f"nobody named codes {lower} to {upper} in round {round_}")
        query = decode_query(await self.message(task, round_, "query"))
        return self._remember(key, await self.read(rounds.read_slice, self.store, query, lower, upper))

    def _recall(self, key: tuple[bytes, int, str]) -> bytes | None:
        if key in self._cache:
            self._cache.move_to_end(key)
        return self._cache.get(key)

    def _remember(self, key: tuple[bytes, int, str], data: bytes) -> bytes:
        if key not in self._cache:
            self._cached += len(data)
        self._cache[key] = data
        while self._cached > CACHE_BYTES and len(self._cache) > 1:
            self._cached -= len(self._cache.popitem(last=False)[1])
        return data


def label(campaign: Campaign) -> str:
    """How a campaign is named in the log."""
    return f"campaign {campaign.name!r} ({campaign.task.id.hex()[:12]})"


def describe_step(before: Status, after: Status, *, task: Task | None = None) -> str:
    """A step of a campaign in words, for the log; with the task, whether enough took part for its crowd.

    Examples
    --------
    >>> before = Status("collecting", 1, 0, received=80, needed=90, deadline=60, enrolled=90)
    >>> describe_step(before, Status("collecting", 2, 1, received=0, needed=80, deadline=120, enrolled=90))
    'round 1 closed with 80 reports; round 2 is open, 80 reports or 1970-01-01 00:02:00 UTC close it'
    >>> describe_step(before, Status("finished", 1, 1, received=80, needed=None, deadline=None, enrolled=90))
    'round 1 closed with 80 reports; finished'
    """
    if before.phase == "enrolling":
        done = f"enrolment ended with {number_of(before.enrolled, 'participant')}"
        if task is not None and task.keeps_crowd and before.enrolled < task.k:
            done += f", fewer than k = {task.k}: nobody has a crowd"
    else:
        done = f"round {before.round} closed with {number_of(before.received, 'report')}"
    if after.ended:
        return f"{done}; {after.phase}"
    when = "" if after.deadline is None else f" or {datetime.fromtimestamp(after.deadline, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"{done}; round {after.round} is open, {number_of(after.needed or 0, 'report')}{when} close it"


def poll_after(status: Status, now: float) -> int:
    """Seconds until the next look is worth while."""
    if status.ended or status.deadline is None:
        return 5
    return max(1, min(5, math.ceil((status.deadline - now) / 10)))
