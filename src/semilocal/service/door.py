"""Limits at the door: how large, slow and many the connections of one worker may be.

uvicorn parses HTTP; this adds what it does not limit: the size of a request's head, the time for a head and a body,
requests sent ahead of their answers, readers that do not read, and the number of connections. When there are too many,
the oldest one without a complete request has to go, so connections that only wait keep nobody out. Behind it,
descriptors are left for the database and for files.

Addresses are not looked at: limits per address belong to the proxy (``deploy/nginx.conf``). Knows uvicorn. Knows no
routes and no campaigns.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import Any, ClassVar, NamedTuple

from ..errors import MissingExtra
from .faults import Seldom
from .problems import Problem

try:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
except ImportError:
    raise MissingExtra("uvicorn and httptools", "service") from None

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


class Door(HttpToolsProtocol):
    """One connection; uvicorn makes one per client."""

    limits = Limits()
    waiting: ClassVar[OrderedDict[Door, None]] = OrderedDict()  # connections without a complete request, oldest first
    seldom = Seldom(10.0)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._head = 0  # bytes of the head that is being read
        self._began = False  # whether a head began with the bytes that came last
        self._reading_head = False
        self._refused = False

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
        if self._refused or not self._reading_head:
            return
        if self._timer is None:
            self._start(self.limits.head_seconds, "the head of a request took too long")
        if not self._began:
            # What is not yet parsed is not yet told to us: count what came since the bytes in which the head began.
            self._head += len(data)
            self._check_head()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP."""
        self._refuse("malformed", msg)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head, self._began, self._reading_head = 0, True, True

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._head += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._refused:
            super().on_header(name, value)
            self._head += len(name) + len(value) + 4
            self._check_head()

    def _check_head(self) -> None:
        if self._head > self.limits.head_bytes:
            self._refuse("too-large", f"a request's line and headers have at most {self.limits.head_bytes} bytes")

    def on_headers_complete(self) -> None:
        if self._refused:
            return
        self._reading_head = False
        self._start(self.limits.body_seconds, "the body took too long")
        if len(self.pipeline) >= self.limits.pipelined:
            self._refuse("too-fast", f"more than {self.limits.pipelined} requests before an answer")
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._refused:
            return
        self._stop()
        self.waiting.pop(self, None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.pipeline and not self.transport.is_closing():
            self.waiting[self] = None

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
        headers = [*problem.headers, (b"content-length", str(len(problem.body)).encode()), (b"connection", b"close")]
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        self.transport.write(b"HTTP/1.1 %d Refused\r\n%b\r\n%b" % (problem.status, lines, problem.body))
        self.transport.close()

    def _note(self, key: str, reason: str) -> None:
        if self.seldom.allow(key):
            log.warning("at the door: %s (said once in %d s)", reason, 10)
