"""Connection limits: how large, how slow and how many the connections of one worker may be.

uvicorn parses HTTP; this adds what it does not limit: the size of a request's head, the time for a head and a body,
requests sent ahead of their answers, readers that do not read, and the number of connections. When there are too many,
the oldest one without a complete request is closed, so idle connections keep nobody out. Behind it,
descriptors are left for the database and for files.

Reports take a short way: if the application has an ``intake`` that wants a request, no ASGI scope, task or queue is
made for it, and the answer is written when the intake gives it. What it does not want takes the ordinary way.

Addresses are not looked at: limits per address belong to the proxy (``deploy/nginx.conf``). Knows uvicorn. Knows no
routes and no campaigns.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ..errors import MissingExtra
from .faults import Seldom
from .problems import Problem

try:
    from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
except ImportError:
    raise MissingExtra("uvicorn and httptools", "service") from None

if TYPE_CHECKING:
    from .intake import Address, Intake

__all__ = ["Door", "Limits", "raise_file_limit"]

log = logging.getLogger("semilocal.service")
RESERVE = 96  # descriptors for ourselves: the database, its files, threads, the log
_FALLBACK = 1024


class Limits(NamedTuple):
    """What a connection may take.

    Attributes
    ----------
    connections : int
        Open at the same time, per worker.
    head_bytes : int
        Request line and headers together.
    head_seconds, body_seconds : float
        For a head from its first byte (or from the connection), and for a body.
    write_seconds : float
        For a reader to take what was sent.
    pipelined : int
        Requests sent before the first of them is answered.
    """

    connections: int = _FALLBACK - RESERVE
    head_bytes: int = 16_384
    head_seconds: float = 10.0
    body_seconds: float = 20.0
    write_seconds: float = 30.0
    pipelined: int = 8


def raise_file_limit() -> int:
    """Let this process open as many files as the system allows it; how many that are."""
    try:
        import resource
    except ImportError:  # not on every system
        return _FALLBACK
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else 1 << 20
    if soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (OSError, ValueError) as error:
            log.warning("the limit of open files stays at %d: %s", soft, error)
    return int(soft) if soft != resource.RLIM_INFINITY else 1 << 20


class _Answering:
    """In the place of uvicorn's cycle of request and response, while an intake has the request."""

    def __init__(self) -> None:
        self.response_complete = True
        self.keep_alive = True
        self.disconnected = False
        self.message_event = self

    def set(self) -> None:
        """Nobody waits for an event here."""


class Door(HttpToolsProtocol):
    """One connection; uvicorn makes one per client."""

    limits = Limits()
    waiting: ClassVar[OrderedDict[Door, None]] = OrderedDict()  # connections without a complete request, oldest first
    seldom = Seldom(10.0)
    _rendered: ClassVar[tuple[list[tuple[bytes, bytes]], bytes]] = ([], b"")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._head = 0  # bytes of the head that is being read
        self._began = False  # whether a head began with the bytes that came last
        self.reading_head = False
        self.reading_body = False
        self._refused = False
        self._intake: Intake | None = None  # of the request that is being read
        self._address: Address | None = None  # of the report that is being read
        self._body = b""
        self._answering = _Answering()
        self._idle_timer: asyncio.TimerHandle | None = None
        self.answered = 0.0  # when the last report was

    # -- connections -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections and not self._evict_another():
            self._refuse("overloaded", "too many connections")
            return
        self.waiting[self] = None
        self._start(self.limits.head_seconds, "no request came")

    def _evict_another(self) -> bool:
        while self.waiting:
            oldest, _ = self.waiting.popitem(last=False)
            if not oldest.transport.is_closing():
                self._note("connections", f"more than {self.limits.connections}; the oldest that waits is closed")
                oldest.transport.abort()
                return True
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.waiting.pop(self, None)
        self._stop()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self.resume_writing()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Called for every connection when the server begins to stop: answers to polls must not be waited for."""
        leave = getattr(self.app, "leave", None)
        if leave is not None:
            leave()
        super().shutdown()

    # -- time --------------------------------------------------------------------------------------------------

    def _start(self, seconds: float, reason: str) -> None:
        self._stop()
        self._timer = self.loop.call_later(seconds, self._too_slow, reason)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self, reason: str) -> None:
        self._timer = None
        self._refuse("too-slow", reason)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self.limits.write_seconds, self._not_read)

    def resume_writing(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        super().resume_writing()

    def _not_read(self) -> None:
        self._note("writing", "an answer was not read in time; the connection is closed")
        self.transport.abort()

    # -- size --------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._began = False
        super().data_received(data)
        if self._refused or not (self.reading_head or self.reading_body):
            return
        if self._timer is None and self.reading_body:
            self._start(self.limits.body_seconds, "the body took too long")
        elif self._timer is None:
            self._start(self.limits.head_seconds, "the head of a request took too long")
        if self.reading_head and not self._began:
            # What is not yet parsed is not yet told to us: count what came since the bytes in which the head began.
            self._head += len(data)
            self._check_head()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP."""
        self._refuse("malformed", msg)

    def on_message_begin(self) -> None:
        # What uvicorn does here, and with every header, is done in _go_on, for requests that need it.
        self.url, self.headers = b"", []
        self._head, self._began, self.reading_head = 0, True, True

    def on_url(self, url: bytes) -> None:
        self.url += url
        self._head += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._refused:
            self.headers.append((name, value))
            self._head += len(name) + len(value) + 4
            if self._head > self.limits.head_bytes:
                self._check_head()

    def _check_head(self) -> None:
        if self._head > self.limits.head_bytes:
            self._refuse("too-large", f"a request's line and headers have at most {self.limits.head_bytes} bytes")

    def on_headers_complete(self) -> None:
        if self._refused:
            return
        self.reading_head, self.reading_body = False, True
        self._stop()
        if len(self.pipeline) >= self.limits.pipelined:
            self._refuse("too-fast", f"more than {self.limits.pipelined} requests before an answer")
            return
        self._address = self._look_at_head()
        if self._address is None:
            self._go_on()

    def on_body(self, body: bytes) -> None:
        if self._refused:
            return
        if self._address is None:
            super().on_body(body)
        else:
            self._body += body

    def on_message_complete(self) -> None:
        if self._refused:
            return
        self._stop()
        self.reading_body = False
        self.waiting.pop(self, None)
        if self._address is not None and self._give_to_intake(self._address):
            return
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.pipeline and not self.transport.is_closing():
            self.waiting[self] = None

    # -- the short way -----------------------------------------------------------------------------------------

    def _look_at_head(self) -> Address | None:
        """What an intake is to be given; None for what takes the ordinary way."""
        if self.parser.get_method() != b"PUT":
            return None
        if (self.cycle is not None and not self.cycle.response_complete) or self.pipeline or self.flow.write_paused:
            return None
        if self.parser.should_upgrade() or not self.parser.should_keep_alive():
            return None
        self._body, self._intake = b"", getattr(self.app, "intake", None)
        return None if self._intake is None else self._intake.address(self.url, self.headers)

    def _go_on(self) -> None:
        """Let uvicorn have the request whose head was read."""
        url, headers = self.url, self.headers
        HttpToolsProtocol.on_message_begin(self)
        HttpToolsProtocol.on_url(self, url)
        for name, value in headers:
            HttpToolsProtocol.on_header(self, name, value)
        HttpToolsProtocol.on_headers_complete(self)

    def _give_to_intake(self, address: Address) -> bool:
        """Whether the intake takes the request; if not, uvicorn has it from here on."""
        assert self._intake is not None
        self._address, body, self._body = None, self._body, b""
        before, answering = self.cycle, self._answering
        answering.response_complete = False
        self.cycle = answering  # type: ignore[assignment]
        if self._intake.take(address, body, self):
            return True
        answering.response_complete, self.cycle = True, before
        self._go_on()
        if body:
            HttpToolsProtocol.on_body(self, body)
        return False

    def answer(self, status: int, head: bytes, body: bytes) -> None:
        """Answer what an intake took; ``head`` are whole lines."""
        answering = self._answering
        answering.response_complete = True
        if self.transport.is_closing():
            return
        close = b"" if answering.keep_alive else b"connection: close\r\n"
        self.transport.write(b"".join([STATUS_LINE[status], self._default_lines(), head, close, b"\r\n", body]))
        if not answering.keep_alive:
            self.transport.close()
        if self.pipeline or not answering.keep_alive:
            self.on_response_complete()
            return
        self.server_state.total_requests += 1
        self.waiting[self] = None
        self.answered = self.loop.time()
        if self._idle_timer is None:
            self._idle_timer = self.loop.call_later(self.timeout_keep_alive, self.check_idle)

    def _default_lines(self) -> bytes:
        """uvicorn's own headers (the date) as lines; it makes a new list every second."""
        headers = self.server_state.default_headers
        if headers is not Door._rendered[0]:
            lines = b"".join([name + b": " + value + b"\r\n" for name, value in headers])
            Door._rendered = (headers, lines)
        return Door._rendered[1]

    def check_idle(self) -> None:
        """Close a connection on which nothing came for long; one timer for many reports."""
        self._idle_timer = None
        if self.transport.is_closing() or self.timeout_keep_alive_task is not None:
            return  # uvicorn looks after it
        busy = self.reading_head or self.reading_body or not self.cycle.response_complete
        left = self.timeout_keep_alive - (0.0 if busy else self.loop.time() - self.answered)
        if left <= 0:
            self.timeout_keep_alive_handler()
        else:
            self._idle_timer = self.loop.call_later(left, self.check_idle)

    # -- refusals ----------------------------------------------------------------------------------------------

    def _refuse(self, token: str, reason: str) -> None:
        """Say why, and close; without a word if an answer is on its way."""
        if self._refused:
            return
        self._refused = True
        self._stop()
        self._note(token, reason)
        if self.transport.is_closing():
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.abort()
            return
        problem = Problem(token, reason)
        lines = problem.head + b"connection: close\r\n"
        self.transport.write(b"HTTP/1.1 %d Refused\r\n%b\r\n%b" % (problem.status, lines, problem.body))
        self.transport.close()

    def _note(self, key: str, reason: str) -> None:
        if self.seldom.allow(key):
            log.warning("connections: %s (logged at most once in %d s)", reason, 10)
