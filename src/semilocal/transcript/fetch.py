"""Public answers of a server over HTTP: bounded in size and time, from that server and no other, of the expected type.

A proxy, a captive portal or a server that means harm may answer with a page, a redirect, half an answer or one without
an end. Each of these becomes a reason in one line. One client for all answers of a server: a transcript of a million
reports is a thousand requests over one connection. Knows HTTP, and which routes are JSON.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from ..errors import InvalidInput, MissingExtra, Unavailable, printable

__all__ = ["Get", "Getter"]

Get: TypeAlias = Callable[[str], bytes | None]
SECONDS = 120.0  # for one answer, however steadily it drips in
SILENCE = 60.0  # seconds without a byte
MOST_BYTES = 64 << 20  # of one answer
MOST_TOTAL = 64 << 30  # of all answers together
_PROBLEM = "application/problem+json"


class Getter:
    """Gives the body of a public route of a server, or None if the server says that there is none.

    To be used in a ``with`` statement, and called with the path of a route.

    Parameters
    ----------
    url : str
        The server.
    seconds, most_bytes : float, int
        For one answer.
    most_total : int
        Bytes of all answers together.

    Raises
    ------
    Unavailable
        By a call, if the server does not answer, answers too slowly, too much, or something else.
    """

    def __init__(
        self, url: str, *, seconds: float = SECONDS, most_bytes: int = MOST_BYTES, most_total: int = MOST_TOTAL
    ) -> None:
        try:
            import httpx2
        except ImportError:
            raise MissingExtra("httpx2", "device") from None
        self._base = url.rstrip("/")
        if urlsplit(self._base).scheme not in ("http", "https") or not urlsplit(self._base).hostname:
            raise InvalidInput(f"the server must be an http:// or https:// address; got {url!r}")
        self._seconds, self._most_bytes, self._left = seconds, most_bytes, most_total
        self._http: Any = httpx2
        self._runner = asyncio.Runner()
        self._client = httpx2.AsyncClient(timeout=min(SILENCE, seconds), follow_redirects=False)

    def __enter__(self) -> Getter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()

    def __call__(self, path: str) -> bytes | None:
        """The body of a route."""
        body = self._runner.run(self._get(self._base + path, _media_type_of(path)))
        self._left -= len(body or b"")
        return body

    async def _get(self, address: str, wanted: str) -> bytes | None:
        begun, parts, size = False, [], 0
        most = min(self._most_bytes, self._left)
        try:
            async with asyncio.timeout(self._seconds), self._client.stream("GET", address) as answer:
                kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
                if answer.status_code != 200 or kind != wanted:
                    if kind != _PROBLEM:
                        raise Unavailable(_no_answer(address, answer.status_code, kind))
                    if answer.status_code == 404:
                        return None
                    raise Unavailable(f"{address} answered {answer.status_code}")
                begun = True
                async for part in answer.aiter_bytes():
                    size += len(part)
                    if size > most:
                        raise Unavailable(f"{address} sent more than {most:,} bytes; that is not a transcript")
                    parts.append(part)
        except (TimeoutError, self._http.TimeoutException):
            raise Unavailable(f"{address} took longer than {self._seconds:g} s; try again later") from None
        except (self._http.HTTPError, self._http.InvalidURL, OSError) as error:
            if begun:
                raise Unavailable(f"{address} broke off after {size:,} bytes; try again") from None
            reason = printable(str(error) or type(error).__name__)
            raise Unavailable(f"{self._base} cannot be reached: {reason}") from None
        return b"".join(parts)


def _media_type_of(path: str) -> str:
    return "application/json" if path == "/tasks" or path.endswith("/state") else "application/msgpack"


def _no_answer(address: str, status: int, kind: str) -> str:
    if 300 <= status < 400:
        return f"{address} answered with a redirect ({status}), which is not followed; give the address itself"
    kind = printable(kind, most=60) or "no media type"
    return f"{address} answered {status} with {kind}: no semilocal server, or something before it"
