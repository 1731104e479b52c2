"""The channel of a device: requests that are tried until they are answered, and public messages read once.

Only what the server itself says is an answer: a message or JSON of the media type that was asked for, an
acknowledgement with the digest of what was sent, or a problem of ours (``spec/http.md`` 2). Anything else comes from
something on the way, such as a proxy or the portal of a hotel: the server was not reached, and is tried again.

Knows routes, waiting and caching (``spec/http.md``). Knows no secrets, positions or participants: when it retries, how
long it waits and what it asks for depend on the server's answers and on jitter alone.

Many agents of one process share a channel: one pool of connections, one copy of every public message, one long poll.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from ..errors import InvalidInput, Lost, ServerViolation, Unreachable, printable
from .transport import LONGEST_POLL, HttpxWire, LeanWire, Response

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

_CACHED = 256  # public messages kept: agents of one process are never far apart, but in many regions
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
MSGPACK, JSON = "application/msgpack", "application/json"
_NOT_YET = frozenset({"not-open-yet", "not-closed-yet"})
_NOTICE_EVERY = 10.0  # seconds between two lines about a silent server
_SYSTEM = random.SystemRandom()
LONGEST_WAIT = 300.0  # seconds a server may ask a device to wait
_MALFORMED = (msgspec.DecodeError, ValueError, RecursionError)
_PROBLEM = "application/problem+json"
_PROBLEM_TYPE = "urn:semilocal:problem:"
_TASK_URL = re.compile(r"(?P<server>https?://.*?)(?:/tasks/(?P<task>[0-9a-f]{64}))?/?")


class ServerStatus(msgspec.Struct, frozen=True):
    """Where a task is, as its server says (``spec/http.md`` 5). A hint when to look, never a reason to answer."""

    task: str
    phase: Literal["enrolling", "collecting", "releasing", "finished", "cancelled"]
    round: int
    closed: int
    poll_after: float

    @property
    def ended(self) -> bool:
        """Whether nothing more will be asked."""
        return self.phase in ("finished", "cancelled")

    def asks(self, number: int) -> bool:
        """Whether there is something to read or to do in this round, or never will be."""
        over = self.ended or self.phase == "releasing" or self.closed >= number
        return over or (self.phase == "collecting" and self.round >= number)

    def past(self, number: int) -> bool:
        """Whether this round is closed, or never will be."""
        return self.ended or self.closed >= number


class ServerProblem(msgspec.Struct, frozen=True):
    """A refusal of the server (``spec/http.md`` 2)."""

    type: str
    token: Annotated[str, msgspec.Meta(pattern="^[a-z0-9-]{1,64}$")]
    status: int
    detail: str = ""


class _Phase(msgspec.Struct):
    phase: str


class _Acknowledgement(msgspec.Struct):
    digest: str


def problem_of(response: Response) -> ServerProblem | None:
    """What the server says is wrong, in plain text; None if it does not come from the server."""
    if response.status < 400 or response.media_type != _PROBLEM:
        return None
    try:
        problem = msgspec.json.decode(response.body, type=ServerProblem)
    except _MALFORMED:
        return None
    if problem.type != _PROBLEM_TYPE + problem.token or problem.status != response.status:
        return None
    return msgspec.structs.replace(problem, detail=printable(problem.detail))


def describe(response: Response) -> str:
    """Status and media type of an answer that is not understood."""
    return f"status {response.status} with {printable(response.media_type, most=60) or 'no media type'}"


def _seconds_of(header: str | None) -> float:
    """Retry-After in seconds, within bounds; 0 if there is none or it is a date, which a clock need not share."""
    plain = header is not None and header.isascii() and header.isdigit()
    return min(float(header[:10]), LONGEST_WAIT) if plain and header is not None else 0.0


class Clock(Protocol):
    """Time as the channel sees it."""

    def time(self) -> float: ...  # seconds that only grow
    async def sleep(self, seconds: float) -> None: ...


class WallClock:
    """The real one."""

    def time(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How often to try again: after U(0, min(longest, first * 2**n)) seconds ("full jitter")."""

    first: float = 0.25
    longest: float = 60.0
    patience: float = 3600.0  # seconds without a usable answer after which ``Unreachable`` is raised


class Reply(NamedTuple):
    """What came back: the status, the body, what a problem says of itself, and Retry-After in seconds."""

    status: int
    body: bytes
    token: str = ""
    detail: str = ""
    wait: float = 0.0


class Channel:
    """Requests to one server; the caller closes the wire.

    ``jitter`` gives a number in [0, 1) and must know nothing of positions. At most ``at_once`` requests are in flight,
    long polls not counted. ``notify`` takes a sentence when the server stops answering, now and then while it is tried
    again, and when it answers. ``kept``: the vaults behind it outlive this process, so that it can be stopped safely.
    """

    def __init__(
        self, url: str, wire: HttpxWire | LeanWire | httpx2.AsyncClient, *, clock: Clock | None = None,
        jitter: Callable[[], float] = _SYSTEM.random, retry: Retry | None = None, at_once: int = 64,
        notify: Callable[[str], None] = lambda line: None, kept: bool = True,
    ) -> None:  # fmt: skip
        self.url = url.rstrip("/")
        self.clock: Clock = WallClock() if clock is None else clock
        self.jitter = jitter
        self._wire = wire if isinstance(wire, HttpxWire | LeanWire) else HttpxWire(wire)
        self._retry = Retry() if retry is None else retry
        self._notify, self._kept = notify, kept
        self._silent_since: float | None = None  # when the server stopped answering
        self._last_notice = 0.0
        self._slots = asyncio.Semaphore(at_once)
        self._messages: OrderedDict[str, Any] = OrderedDict()
        self._flights: dict[object, asyncio.Task[Any]] = {}
        self.delivered = 0  # requests with content that were accepted

    # -- requests ----------------------------------------------------------------------------------------------

    async def send(
        self, method: str, path: str, *, content: bytes | None = None, headers: Mapping[str, str] | None = None,
        polling: bool = False, accept: str = JSON, check: Callable[[bytes], object] | None = None,
    ) -> Reply:  # fmt: skip
        """Send a request until it is answered; every try sends the same bytes.

        Lost connections, time-outs, what is not an answer of the server, 429 and 5xx are tried again, "not yet" too if
        there is content to deliver. ``accept`` is the media type of a good answer, and ``check`` raises ValueError if
        its body is none. Without a check, content must be acknowledged by its digest in JSON. Raises ``Unreachable``
        when the owner's patience is over.
        """
        began, failures = self.clock.time(), 0
        while True:
            if polling:
                answer = await self._once(method, path, content, headers, accept, check)
            else:
                async with self._slots:
                    answer = await self._once(method, path, content, headers, accept, check)
            if answer.status and answer.status not in _TRY_AGAIN and not (content and answer.token in _NOT_YET):
                self.delivered += content is not None and answer.status < 300
                if self._silent_since is not None:
                    self._silent_since = None
                    self._notify(f"{self.url} answers again.")
                return answer
            pause = min(self._retry.longest, self._retry.first * 2.0 ** min(failures, 60)) * self.jitter()
            pause += answer.wait  # Retry-After is obeyed; jitter comes on top
            if self.clock.time() + pause - began > self._retry.patience:
                raise Unreachable(
                    f"{self.url} gave no usable answer for {self._retry.patience:g} s ({answer.token}); start again "
                    f"later{', the vault knows where to continue' if self._kept else ''}"
                )
            failures += 1
            if not answer.status or answer.status >= 500:
                self._say_silent(answer.token)
            await self.clock.sleep(pause)

    def _say_silent(self, reason: str) -> None:
        now = self.clock.time()
        if self._silent_since is None:
            self._silent_since = now
        elif now - self._last_notice < _NOTICE_EVERY:
            return
        self._last_notice = now
        safe = "You can stop safely: the vault remembers the state."
        lost = "Stopping would end these devices: their vaults are in memory."
        self._notify(f"{self.url} does not answer ({reason}); trying again. {safe if self._kept else lost}")

    async def _once(
        self, method: str, path: str, content: bytes | None, headers: Mapping[str, str] | None, accept: str,
        check: Callable[[bytes], object] | None,
    ) -> Reply:  # fmt: skip
        """One try; status 0 if the server was not reached."""
        try:
            response = await self._wire.request(method, self.url + path, content, headers or {})
        except Lost as error:
            return Reply(0, b"", str(error))
        wait = _seconds_of(response.retry_after)
        problem = problem_of(response)
        if problem is not None:
            return Reply(response.status, b"", problem.token, problem.detail, wait)
        if response.status in (200, 201) and response.media_type == accept:
            try:
                if check is not None:
                    check(response.body)
                elif content is not None:
                    told = msgspec.json.decode(response.body, type=_Acknowledgement)
                    if told.digest != hashlib.sha256(content).hexdigest():
                        raise ValueError("the digest of something else")
                return Reply(response.status, response.body)
            except _MALFORMED:
                pass
        return Reply(0, b"", f"{describe(response)}, which is not an answer of this server", wait=wait)

    # -- the public channel ------------------------------------------------------------------------------------

    async def message(self, path: str, read: Callable[[bytes], T]) -> T | None:
        """A public, immutable message: fetched once, read once, shared. None if it does not exist yet."""
        if path in self._messages:
            self._messages.move_to_end(path)
            kept: T = self._messages[path]
            return kept
        fetched: T | None = await self._shared(path, lambda: self._fetch(path, read))
        return fetched

    async def _fetch(self, path: str, read: Callable[[bytes], T]) -> T | None:
        answer = await self.send("GET", path, accept=MSGPACK)
        if answer.token in _NOT_YET:
            await self.clock.sleep(answer.wait + self._retry.first * self.jitter())
            return None
        if answer.status != 200:
            raise ServerViolation(answer.token or f"status-{answer.status}", answer.detail or f"GET {path} failed")
        try:
            message = read(answer.body)
        except InvalidInput as error:
            raise ServerViolation("malformed", f"{path}: {printable(str(error))}") from None
        self._messages[path] = message
        while len(self._messages) > _CACHED:
            self._messages.popitem(last=False)
        return message

    async def status(self, task: str, *, after: int | None = None) -> tuple[ServerStatus, float]:
        """Where the task is, and how many seconds the server took to say so.

        With ``after``, it answers as soon as more rounds than that are closed, or after some seconds.
        """
        query = "" if after is None else f"?after={after}&wait={LONGEST_POLL}"
        path = f"/tasks/{task}/state{query}"
        seen: tuple[ServerStatus, float] = await self._shared(path, lambda: self._look(path, task))
        return seen

    async def _look(self, path: str, task: str) -> tuple[ServerStatus, float]:
        began = self.clock.time()
        status = await self._read(path, ServerStatus, polling=True)
        if status.task != task:
            raise ServerViolation("other-task", "the server sent the state of another task")
        return status, self.clock.time() - began

    async def phase(self, task: str) -> str:
        """Where a task of two servers is, as this one says; a hint, as the status is."""
        path = f"/tasks/{task}/state"
        found: _Phase = await self._shared(path, lambda: self._read(path, _Phase))
        return found.phase

    async def _read(self, path: str, kind: type[T], *, polling: bool = False) -> T:
        """What a server says now, in JSON."""
        decoder = msgspec.json.Decoder(kind)
        answer = await self.send("GET", path, polling=polling, check=decoder.decode)
        if answer.status != 200:
            raise ServerViolation(answer.token, answer.detail or f"GET {path} failed")
        return decoder.decode(answer.body)

    async def _shared(self, key: object, start: Callable[[], Any]) -> Any:
        """Let all who ask for the same thing at the same time wait for one request."""
        flight = self._flights.get(key)
        if flight is None or flight.done():  # one that has landed is old news
            flight = asyncio.ensure_future(start())
            self._flights[key] = flight
            flight.add_done_callback(partial(self._landed, key))
        return await asyncio.shield(flight)

    def _landed(self, key: object, flight: asyncio.Task[Any]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
        if not flight.cancelled():
            flight.exception()  # those who wait see it; none may be left

    async def aclose(self) -> None:
        """End what is in flight."""
        flights = list(self._flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)


class Channels:
    """One channel per origin, made when it is first asked for, on what ``wire`` gives for it."""

    def __init__(self, wire: Callable[[str], HttpxWire | LeanWire | httpx2.AsyncClient], **options: Any) -> None:
        self._wire, self._options = wire, options
        self._open: dict[str, tuple[Channel, HttpxWire | LeanWire | httpx2.AsyncClient]] = {}

    def __call__(self, origin: str) -> Channel:
        """The channel to an origin, the same one every time."""
        if origin not in self._open:
            wire = self._wire(origin)
            self._open[origin] = Channel(origin, wire, **self._options), wire
        return self._open[origin][0]

    @property
    def delivered(self) -> int:
        """Requests with content that were accepted."""
        return sum(channel.delivered for channel, _ in self._open.values())

    async def aclose(self) -> None:
        """End what is in flight, and close lean wires; clients are closed by those who made them."""
        for channel, wire in self._open.values():
            await channel.aclose()
            if isinstance(wire, LeanWire):
                await wire.aclose()


def split_url(url: str) -> tuple[str, str]:
    """Server and task id (empty if the URL names none).

    Examples
    --------
    >>> split_url("https://here.example/")
    ('https://here.example', '')
    """
    match = _TASK_URL.fullmatch(url)
    if match is None or re.search("/tasks(/|$)", match["server"]):
        raise InvalidInput(f"url must be http(s)://server or http(s)://server/tasks/{{64 hex digits}}; got {url!r}")
    return match["server"].rstrip("/"), match["task"] or ""


async def only_task(channel: Channel) -> str:
    """Id of the only task of a server that enrols, or is open for uploads to two servers; refuses none and several."""
    answer = await channel.send("GET", "/tasks")
    try:
        tasks = msgspec.json.decode(answer.body, type=list[dict[str, object]])
        names = [str(task["task"]) for task in tasks if task.get("phase") in ("enrolling", "open")]
    except (msgspec.DecodeError, KeyError, ValueError, RecursionError):
        raise ServerViolation("malformed", f"{channel.url} does not list its tasks") from None
    if len(names) != 1 or not re.fullmatch("[0-9a-f]{64}", names[0]):
        found = ", ".join(f"{channel.url}/tasks/{printable(name, most=64)}" for name in names[:5]) or "none"
        raise InvalidInput(f"{channel.url} must have one task that enrols; got {found}. Give the URL of the task")
    return names[0]
