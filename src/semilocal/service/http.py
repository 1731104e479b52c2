"""Parts of requests and answers: names in paths, bounded bodies, JSON, cacheable answers.

Knows the forms of ``spec/http.md``. Knows no campaigns and no store.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

import msgspec

from ..errors import MissingExtra, Overloaded, Refused, SchemaMismatch, StoreUnavailable
from .faults import PUBLIC, Seldom
from .metrics import Metrics
from .problems import Problem

__all__ = [
    "SELDOM", "TASK", "ClientDisconnect", "RateLimit", "Receive", "Request", "Response", "Route", "Router", "Scope",
    "Send", "Watched", "decode_form", "immutable_response", "json_response", "no_such_route", "number_of",
    "problem_of", "pseudonym_of", "read_body", "read_request", "region_of", "report_path", "round_of", "send_answer",
    "size_of", "task_of", "upload_path", "while_connected",
]  # fmt: skip

try:
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response
    from starlette.routing import Route, Router
    from starlette.types import Receive, Scope, Send
except ImportError:
    raise MissingExtra("starlette", "service") from None


T = TypeVar("T")
log = logging.getLogger("semilocal.service")
SELDOM = Seldom()  # the same fault is logged once a minute
MSGPACK = "application/msgpack"
BODY_SECONDS = 20.0
CLOSE = ((b"connection", b"close"),)
NOSNIFF = (b"x-content-type-options", b"nosniff")
TASK = re.compile(r"[0-9a-f]{64}\Z")
_IN_PATHS = {  # the form of what a path names, and how it is said
    "task": (TASK, "a task is named by 64 lower-case hex digits"),
    "round": (re.compile(r"[1-9][0-9]{0,5}\Z"), "a round is a number from 1"),
    "pseudonym": (re.compile(r"[0-9a-f]{32}\Z"), "a pseudonym has 32 lower-case hex digits"),
}
_REPORT = re.compile(r"/tasks/([0-9a-f]{64})/rounds/([1-9][0-9]{0,5})/reports/([0-9a-f]{32})\Z")
_UPLOAD = re.compile(r"/tasks/([0-9a-f]{64})/uploads/([0-9a-f]{32})\Z")
_REGION = re.compile(r"(0|[1-9][0-9]{0,18})-([1-9][0-9]{0,18})\Z")


class Watched:
    """One exchange: receives and sends on, and remembers the answer's status; 0 before it has begun.

    An answer that is given before the body was read to its end closes the connection: else the rest, however long,
    would be read for nothing.
    """

    __slots__ = ("_metrics", "_more", "_receive", "_scope", "_send", "status")

    def __init__(self, scope: Scope, receive: Receive, send: Send, metrics: Metrics) -> None:
        self._scope, self._receive, self._send, self._metrics = scope, receive, send, metrics
        self._more, self.status = True, 0

    async def receive(self) -> Any:
        """The next part of the request."""
        message = await self._receive()
        self._more = message.get("more_body", False)
        return message

    def send(self, message: Any) -> Awaitable[None]:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._metrics.answered(self.status)
            close = CLOSE if self._more and _has_body(self._scope) else ()
            message["headers"] = [*message["headers"], NOSNIFF, *close]
        return self._send(message)


def _has_body(scope: Scope) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )


def report_path(path: str) -> tuple[bytes, int, bytes] | None:
    """Task, round and pseudonym of a well-formed report's path."""
    match = _REPORT.match(path)
    return None if match is None else (bytes.fromhex(match[1]), int(match[2]), bytes.fromhex(match[3]))


def upload_path(path: str) -> tuple[bytes, bytes] | None:
    """Task and report of a well-formed upload's path."""
    match = _UPLOAD.match(path)
    return None if match is None else (bytes.fromhex(match[1]), bytes.fromhex(match[2]))


def task_of(request: Request) -> bytes:
    """The task in a path."""
    return bytes.fromhex(_named(request, "task"))


def round_of(request: Request) -> int:
    """The round in a path."""
    return int(_named(request, "round"))


def pseudonym_of(request: Request) -> bytes:
    """The pseudonym in a path."""
    return bytes.fromhex(_named(request, "pseudonym"))


def _named(request: Request, name: str) -> str:
    form, words = _IN_PATHS[name]
    if not form.match(request.path_params[name]):
        raise Problem("no-such-route", words)
    return str(request.path_params[name])


def region_of(request: Request) -> tuple[int, int]:
    """The region in a path."""
    match = _REGION.match(request.path_params["region"])
    lower, upper = (int(match[1]), int(match[2])) if match else (0, 0)
    if not lower < upper <= 2**63:
        raise Problem("no-such-route", "a region is named by two codes, lower-upper, below 2^63")
    return lower, upper


def number_of(request: Request, name: str, *, default: int | None, low: int, high: int) -> int | None:
    """A whole number of the query string."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"-?[0-9]{1,7}", text, re.ASCII) or not low <= int(text) <= high:
        raise Problem("malformed", f"{name} must be a whole number from {low} to {high}")
    return int(text)


async def read_body(receive: Receive, size: int, limit: int) -> bytes:
    """The body, unless it is longer than the limit or does not come."""
    if size > limit:
        raise Problem("too-large", f"the body has {size} bytes; {limit} are allowed")
    deadline = asyncio.get_running_loop().time() + BODY_SECONDS
    parts, length, more = [], 0, True
    while more:
        message = _at_once(receive) or await _in_time(receive, deadline)
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        length += len(parts[-1])
        if length > limit:
            raise Problem("too-large", f"{limit} bytes are allowed")
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _at_once(receive: Receive) -> Any:
    """A message that is there already, as nearly all are: it needs no timer. None: it must be waited for."""
    asking: Any = receive()
    try:
        asking.send(None)
    except StopIteration as end:
        return end.value
    asking.close()  # nothing has been taken yet; who waits asks again
    return None


async def _in_time(receive: Receive, deadline: float) -> Any:
    try:
        async with asyncio.timeout_at(deadline):
            return await receive()
    except TimeoutError:
        raise Problem("too-slow", "the body took too long") from None


async def read_request(request: Request, limit: int) -> bytes:
    """The body of a request, unless it is longer than the limit."""
    return await read_body(
        request.receive, size_of(request.headers.get("content-length", "0").encode("latin-1")), limit
    )


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Wait for something as long as the client does; raise ``ClientDisconnect`` when it has gone."""

    async def until_gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(until_gone())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()


def size_of(header: bytes) -> int:
    """Content-Length as a number."""
    if not header.isdigit():
        raise Problem("malformed", "Content-Length must be a whole number")
    return int(header[:20])


def decode_form(body: bytes, kind: type[T]) -> T:
    """A JSON body."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
        raise Problem("malformed", str(error)) from None


def json_response(document: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON answer that is not to be stored."""
    more = {"Cache-Control": "no-store", **(headers or {})}
    return Response(msgspec.json.encode(document), status_code=status, media_type="application/json", headers=more)


def immutable_response(request: Request, data: bytes, *, media_type: str = MSGPACK) -> Response:
    """An answer that never changes; 304 if the client has it."""
    etag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "ETag": etag}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=media_type, headers=headers)


async def no_such_route(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a path."""
    raise Problem("no-such-route", "see /openapi.json")


def problem_of(error: Exception) -> Problem:
    """How a fault is answered; what nobody expected is logged."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, Refused):
        return Problem(error.token, str(error), retry_after=error.wait)
    if isinstance(error, HTTPException) and error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        return Problem("method-not-allowed", f"allowed: {allowed}", headers=((b"allow", allowed.encode()),))
    if isinstance(error, HTTPException):
        return Problem("no-such-route" if error.status_code == 404 else "malformed", error.detail)
    if isinstance(error, Overloaded):
        return Problem("overloaded", str(error))
    if isinstance(error, StoreUnavailable):
        if SELDOM.allow("database"):
            log.warning("the database does not answer: %s", error)
        return Problem("unavailable", "the database does not answer now")
    if isinstance(error, SchemaMismatch):  # its sentence is in the log, as a fault of the campaign
        return Problem("unavailable", PUBLIC, retry_after=60)
    if SELDOM.allow(type(error)):
        log.error("unexpected fault", exc_info=error)
    return Problem("unavailable", "an unexpected fault; it was logged")


async def send_answer(send: Any, status: int, headers: list[tuple[bytes, bytes]], body: bytes, method: str) -> None:
    """Send a whole answer."""
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else body})


# -- how often one sender may ask: a bucket of requests per key, in bounded memory -----------------------------------


class RateLimit:
    """Lets each key through ``rate`` times a second on average, ``burst`` times at once.

    Keys live in two generations; when the young one is full it becomes the old one, and the old one is forgotten. A
    forgotten key starts afresh.

    Examples
    --------
    >>> limit = RateLimit(rate=1.0, burst=2)
    >>> [limit.allow(b"a", 0.0), limit.allow(b"a", 0.0), limit.allow(b"a", 0.0), limit.allow(b"a", 1.0)]
    [True, True, False, True]
    """

    def __init__(self, *, rate: float, burst: int, keys: int = 16_384) -> None:
        self._rate, self._burst, self._half = rate, float(burst), max(1, keys // 2)
        self._young: dict[bytes, tuple[float, float]] = {}
        self._old: dict[bytes, tuple[float, float]] = {}

    def allow(self, key: bytes, now: float) -> bool:
        """Whether the key may ask now; counts it if so."""
        left, then = self._young.get(key) or self._old.get(key) or (self._burst, now)
        left = min(self._burst, left + max(0.0, now - then) * self._rate)
        allowed = left >= 1.0
        if len(self._young) >= self._half and key not in self._young:
            self._young, self._old = {}, self._young
        self._young[key] = (left - 1.0 if allowed else left, now)
        return allowed

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())
