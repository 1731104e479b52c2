"""The wire under a channel: one HTTP request, one response, or the news that nothing came back.

``HttpxWire`` takes any httpx2 client, so an agent runs unchanged against a real server, through a proxy, or against the
application in process. ``LeanWire`` is for crowds: HTTP/1.1 with keep-alive straight on asyncio, about ten times
cheaper per request. Both refuse bodies that no sensible campaign has, give up an answer that drips in without an end,
and follow no redirects.

Knows bytes and connections. Knows no routes and no retries.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

from ..errors import InvalidInput, Lost, MissingExtra, ServerViolation

try:
    import httpx2
except ImportError:  # pragma: no cover
    raise MissingExtra("httpx2", "device") from None
httptools: Any
try:
    import httptools  # for crowds alone: a single device does without
except ImportError:  # pragma: no cover
    httptools = None

LONGEST_POLL = 25  # seconds a server may keep a poll waiting
TIMEOUT = LONGEST_POLL + 20.0
LONGEST_ANSWER = 2 * TIMEOUT  # seconds for a whole request and its answer
MOST_BYTES = 64 << 20
HEADERS = {"User-Agent": "semilocal", "Accept": "*/*"}  # nothing that tells devices apart


class Response(NamedTuple):
    """Status, body, media type without parameters, and Retry-After as it was sent (None if it was not)."""

    status: int
    body: bytes
    media_type: str = ""
    retry_after: str | None = None


def new_client(*, connections: int = 4, **options: Any) -> httpx2.AsyncClient:
    """An httpx2 client for one or a few agents: a small pool, no redirects, no headers that identify."""
    return httpx2.AsyncClient(
        limits=httpx2.Limits(max_connections=connections, max_keepalive_connections=connections),
        timeout=httpx2.Timeout(20.0, read=TIMEOUT, pool=None),
        headers=HEADERS,
        follow_redirects=False,
        **options,
    )


class HttpxWire:
    """Requests through an httpx2 client, which the caller closes; ``seconds`` are for a request with its answer."""

    def __init__(
        self, client: httpx2.AsyncClient, *, most_bytes: int = MOST_BYTES, seconds: float = LONGEST_ANSWER
    ) -> None:
        self._client, self._most_bytes, self._seconds = client, most_bytes, seconds

    async def request(self, method: str, url: str, content: bytes | None, headers: Mapping[str, str]) -> Response:
        """Send one request; raise ``Lost`` if nothing comes back."""
        try:
            async with (
                asyncio.timeout(self._seconds),
                self._client.stream(method, url, content=content, headers=dict(headers)) as response,
            ):
                parts, size = [], 0
                async for part in response.aiter_bytes():
                    size = _grown(size, part, self._most_bytes)
                    parts.append(part)
        except (httpx2.TransportError, TimeoutError) as error:
            raise Lost(_reason(error)) from None
        except httpx2.HTTPError as error:
            raise Lost(f"what came back cannot be read ({type(error).__name__})") from None
        media_type = _media_type(response.headers.get("content-type", ""))
        return Response(response.status_code, b"".join(parts), media_type, response.headers.get("retry-after"))


class LeanWire:
    """Requests to one server, ``scheme://host:port``, over a pool of plain connections."""

    def __init__(self, url: str) -> None:
        if httptools is None:
            raise MissingExtra("httptools", "service")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInput(f"url must be http(s)://host[:port]; got {url!r}")
        self._host = parts.hostname
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._port = parts.port or (443 if self._tls else 80)
        lines = "".join(f"{name}: {value}\r\n" for name, value in {"Host": parts.netloc, **HEADERS}.items())
        self._fixed = lines.encode()
        self.idle: list[_Connection] = []

    async def request(self, method: str, url: str, content: bytes | None, headers: Mapping[str, str]) -> Response:
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        length = f"Content-Length: {len(content)}\r\n" if content is not None else ""
        head = f"{method} {target} HTTP/1.1\r\n{lines}{length}".encode() + self._fixed + b"\r\n"
        connection = await self._connection()
        response = await connection.exchange(head + (content or b""))
        if connection.reusable:
            self.idle.append(connection)
        else:
            connection.close()
        return response

    async def aclose(self) -> None:
        while self.idle:
            self.idle.pop().close()

    async def _connection(self) -> _Connection:
        while self.idle:
            connection = self.idle.pop()
            if connection.reusable:
                return connection
            connection.close()
        loop = asyncio.get_running_loop()
        try:
            connecting = loop.create_connection(lambda: _Connection(loop), self._host, self._port, ssl=self._tls)
            async with asyncio.timeout(20):
                _, connection = await connecting
        except (OSError, TimeoutError) as error:
            raise Lost(_reason(error)) from None
        return connection


class _Connection(asyncio.Protocol):
    """One keep-alive connection: one request at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Response] | None = None
        self.reusable = True

    async def exchange(self, data: bytes) -> Response:
        assert self._transport is not None
        self._waiter = self._loop.create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []
        self._size = 0
        self._headers: dict[bytes, str] = {}
        self.reusable = False  # until a whole response has come
        self._transport.write(data)
        timer = self._loop.call_later(TIMEOUT, self._fail, Lost("TimeoutError"))
        try:
            return await self._waiter
        except BaseException:
            self.close()
            raise
        finally:
            timer.cancel()
            self._waiter = None

    def close(self) -> None:
        self.reusable = False
        if self._transport is not None:
            self._transport.close()

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

    # -- asyncio ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def data_received(self, data: bytes) -> None:
        if self._waiter is None or self._waiter.done():
            self.close()  # nobody asked
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._fail(Lost("what came back is not HTTP"))

    def connection_lost(self, error: Exception | None) -> None:
        self.reusable = False
        self._fail(Lost(type(error).__name__ if error else "connection closed"))

    # -- httptools -------------------------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() in (b"retry-after", b"content-type"):
            self._headers[name.lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        try:
            self._size = _grown(self._size, body, MOST_BYTES)
        except ServerViolation as error:  # the parser would hide it
            self._fail(error)
            self.close()
        self._parts.append(body)

    def on_message_complete(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self.reusable = self._parser.should_keep_alive()
            kind, retry = self._headers.get(b"content-type", ""), self._headers.get(b"retry-after")
            body = b"".join(self._parts)
            self._waiter.set_result(Response(self._parser.get_status_code(), body, _media_type(kind), retry))


def _media_type(header: str) -> str:
    return header.partition(";")[0].strip().lower()


def _reason(error: BaseException) -> str:
    """Why nothing came back; faults of TLS are shown in full, because trying again rarely helps."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return f"TLS: {getattr(cause, 'verify_message', '') or cause.reason or cause}"
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__


def _grown(size: int, part: bytes, most: int) -> int:
    if size + len(part) > most:
        raise ServerViolation("too-large", f"the server sent more than {most >> 20} MiB at once")
    return size + len(part)
